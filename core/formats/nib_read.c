/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading .nib files: header, directory, and the checksums of sections when they are first used.
 * nib.h has the bytes, nibfile.h the interface for core/api.
 */
#include "base/hash.h"
#include "base/struct.h"
#include "config/desc.h"
#include "formats/file.h"
#include "formats/nib.h"

#include <inttypes.h>
#include <stdatomic.h>

/* What entry.extra points at. */
typedef struct stored_tensor {
    nib_section section[NIB_SECTION_KINDS]; /* dense tensors use the first */
    atomic_bool verified;                   /* the checksums have been found right */
    const char *line;                       /* weights only, from here */
    nib_stored_weights weights;
} stored_tensor;

/* Reading the directory. Sections must follow each other: `next` is where the coming one begins. */
typedef struct directory {
    nib_file *file;
    nib_reader reader;
    uint64_t next, end;
} directory;

/* Least bytes in the directory: strings take 5. */
enum { LEAST_META = 10, LEAST_TENSOR = 5 + 1 + 5 + 4 + 24 };

static bool is_nib(const unsigned char *data, size_t bytes)
{
    return bytes >= 8 && !memcmp(data, NIB_FILE_MAGIC, 8);
}

/* A length, that many bytes, a NUL: usable where it stands. */
static nib_status read_string(directory *d, const char *field, const char **out)
{
    size_t start = d->reader.at;
    uint32_t bytes = 0;
    const unsigned char *text = NULL;
    nib_status status = nib_reader_u32(&d->reader, field, &bytes);
    if (!status)
        status = nib_reader_take(&d->reader, field, (uint64_t)bytes + 1, &text);
    if (status)
        return status;
    if (memchr(text, 0, (size_t)bytes + 1) != text + bytes)
        return nib_fail(NIB_CORRUPT, "nib: %s at byte %zu is not %u characters and a NUL", field,
                        start, bytes);
    *out = (const char *)text;
    return NIB_OK;
}

static nib_status read_section(directory *d, const char *name, nib_section *out)
{
    size_t start = d->reader.at;
    nib_section section = {0};
    nib_status status = nib_reader_u64(&d->reader, "section offset", &section.offset);
    if (!status)
        status = nib_reader_u64(&d->reader, "section bytes", &section.bytes);
    if (!status)
        status = nib_reader_u64(&d->reader, "section hash", &section.hash);
    if (status)
        return status;
    if (section.offset != d->next)
        return nib_fail(NIB_CORRUPT,
                        "nib: section offset of tensor '%s' at byte %zu is %" PRIu64
                        ", expected %" PRIu64 ": sections follow each other",
                        name, start, section.offset, d->next);
    if (section.offset > d->end || section.bytes > d->end - section.offset)
        return nib_fail(NIB_CORRUPT,
                        "nib: section bytes of tensor '%s' at byte %zu are %" PRIu64
                        " from byte %" PRIu64 " on, past the directory at byte %" PRIu64,
                        name, start + 8, section.bytes, section.offset, d->end);
    d->next =
        (section.offset + section.bytes + NIB_FILE_ALIGN - 1) / NIB_FILE_ALIGN * NIB_FILE_ALIGN;
    *out = section;
    return NIB_OK;
}

static nib_status read_dense(directory *d, nib_entry *entry, stored_tensor *stored)
{
    const char *type = "";
    uint32_t rank = 0;
    size_t start = d->reader.at;
    nib_status status = read_string(d, "type", &type);
    if (status)
        return status;
    entry->element = nib_dense_element_named(type);
    if (!entry->element)
        return nib_fail(NIB_UNSUPPORTED,
                        "nib: type of tensor '%s' at byte %zu is '%s', which nibblas does not know",
                        entry->name, start, type);
    start = d->reader.at;
    status = nib_reader_u32(&d->reader, "rank", &rank);
    if (!status && rank > NIB_TENSOR_RANK)
        status =
            nib_fail(NIB_CORRUPT, "nib: rank of tensor '%s' at byte %zu is %u, expected at most %d",
                     entry->name, start, rank, NIB_TENSOR_RANK);
    if (status)
        return status;
    entry->rank = (int32_t)rank;
    for (uint32_t i = 0; i < rank && !status; i++)
        status = nib_reader_i64(&d->reader, "extent", &entry->shape[i]);
    if (!status)
        status = nib_file_tensor_bytes(d->file, entry, &entry->bytes);
    start = d->reader.at;
    if (!status)
        status = read_section(d, entry->name, &stored->section[0]);
    if (status)
        return status;
    if (stored->section[0].bytes != entry->bytes)
        return nib_fail(NIB_CORRUPT,
                        "nib: section bytes of tensor '%s' at byte %zu are %" PRIu64
                        ", but its shape takes %" PRIu64,
                        entry->name, start + 8, stored->section[0].bytes, entry->bytes);
    entry->data = d->file->data + stored->section[0].offset;
    return NIB_OK;
}

/* The sections of weights, in rising order of their kinds, so that planes are neighbours. */
static nib_status read_sections(directory *d, nib_entry *entry, stored_tensor *stored)
{
    uint8_t count = 0, kind = 0;
    int last = -1;
    nib_status status = nib_reader_u8(&d->reader, "section count", &count);
    for (int i = 0; i < count && !status; i++) {
        size_t start = d->reader.at;
        status = nib_reader_u8(&d->reader, "section kind", &kind);
        if (!status && (kind >= NIB_SECTION_KINDS || kind <= last))
            status = nib_fail(NIB_CORRUPT,
                              "nib: section kind of tensor '%s' at byte %zu is %u, expected rising "
                              "ones below %d",
                              entry->name, start, kind, NIB_SECTION_KINDS);
        if (!status)
            status = read_section(d, entry->name, &stored->section[kind]);
        if (status)
            break;
        last = kind;
        stored->weights.section[kind] = d->file->data + stored->section[kind].offset;
        stored->weights.bytes[kind] = (size_t)stored->section[kind].bytes;
        entry->bytes += stored->section[kind].bytes;
    }
    return status;
}

static nib_status read_weights(directory *d, nib_entry *entry, stored_tensor *stored)
{
    nib_stored_weights *w = &stored->weights;
    uint32_t alpha = 0;
    size_t start = d->reader.at;
    nib_status status = read_string(d, "weight line", &stored->line);
    if (!status && nib_weight_desc_parse(stored->line, &w->desc))
        status = nib_fail_within(NIB_CORRUPT, "nib: weight line of tensor '%s' at byte %zu",
                                 entry->name, start);
    if (!status)
        status = nib_reader_u32(&d->reader, "alpha", &alpha);
    memcpy(&w->alpha, &alpha, sizeof(alpha));
    if (!status)
        status = read_string(d, "layout of the codes", &w->layout);
    if (!status)
        status = read_string(d, "layout of the scales", &w->scale_layout);
    if (!status)
        status = read_string(d, "layout of the zeros", &w->zero_layout);
    if (!status)
        status = read_sections(d, entry, stored);
    if (!status && nib_stored_check(w))
        status = nib_fail_within(NIB_CORRUPT, "nib: tensor '%s' described at byte %zu", entry->name,
                                 start);
    entry->rank = 2;
    entry->shape[0] = w->desc.n;
    entry->shape[1] = w->desc.k;
    return status;
}

static nib_status read_tensor(directory *d)
{
    nib_entry entry = {.where = d->reader.at};
    uint8_t kind = 0;
    void *extra = NULL;
    nib_status status = read_string(d, "tensor name", &entry.name);
    size_t start = d->reader.at;
    if (!status)
        status = nib_reader_u8(&d->reader, "tensor kind", &kind);
    if (!status && kind != NIB_FILE_DENSE && kind != NIB_FILE_WEIGHTS)
        status = nib_fail(NIB_CORRUPT,
                          "nib: kind of tensor '%s' at byte %zu is %u, expected 0 (dense) or 1 "
                          "(weights)",
                          entry.name, start, kind);
    /* A dense tensor needs the beginning only. */
    if (!status)
        status = nib_file_alloc(
            d->file, kind == NIB_FILE_DENSE ? offsetof(stored_tensor, line) : sizeof(stored_tensor),
            &extra);
    if (status)
        return status;
    entry.extra = extra;
    status = kind == NIB_FILE_DENSE ? read_dense(d, &entry, extra) : read_weights(d, &entry, extra);
    return status ? status : nib_file_add(d->file, &entry);
}

static nib_status read_meta(directory *d)
{
    nib_meta_entry meta = {.where = d->reader.at,
                           .value = {.size = sizeof(nib_meta), .kind = NIB_META_STRING}};
    nib_status status = read_string(d, "metadata key", &meta.key);
    if (!status)
        status = read_string(d, "metadata value", &meta.value.text);
    if (status)
        return status;
    meta.value.count = (int64_t)strlen(meta.value.text);
    return nib_file_add_meta(d->file, &meta);
}

static nib_status read_directory(directory *d)
{
    int64_t metas = 0, tensors = 0;
    nib_status status = nib_reader_count(&d->reader, "metadata count", LEAST_META, &metas);
    if (!status)
        status = nib_reader_count(&d->reader, "tensor count", LEAST_TENSOR, &tensors);
    if (!status)
        status = nib_file_reserve(d->file, tensors, metas);
    for (int64_t i = 0; i < metas && !status; i++)
        status = read_meta(d);
    for (int64_t i = 0; i < tensors && !status; i++)
        status = read_tensor(d);
    if (status)
        return status;
    if (d->next != d->end)
        return nib_fail(NIB_CORRUPT,
                        "nib: sections end before byte %" PRIu64
                        ", but the directory begins at byte %" PRIu64,
                        d->next, d->end);
    if (d->reader.at != d->reader.bytes)
        return nib_fail(NIB_CORRUPT, "nib: the directory ends at byte %zu, the file at byte %zu",
                        d->reader.at, d->reader.bytes);
    return NIB_OK;
}

static nib_status check_header(const unsigned char *h, size_t bytes)
{
    if (bytes < NIB_FILE_HEADER_BYTES)
        return nib_fail(NIB_CORRUPT, "nib: header at byte 0 takes %d bytes, but the file has %zu",
                        NIB_FILE_HEADER_BYTES, bytes);
    uint32_t version = nib_load_u32(h + NIB_FILE_AT_VERSION);
    if (version != NIB_FILE_VERSION)
        return nib_fail(version > NIB_FILE_VERSION ? NIB_UNSUPPORTED : NIB_CORRUPT,
                        "nib: version at byte %d is %u, expected %d", NIB_FILE_AT_VERSION, version,
                        NIB_FILE_VERSION);
    uint64_t hash = nib_hash(h, NIB_FILE_AT_HEADER_HASH);
    if (hash != nib_load_u64(h + NIB_FILE_AT_HEADER_HASH))
        return nib_fail(NIB_CORRUPT,
                        "nib: header hash at byte %d is %016" PRIx64
                        ", but the header has %016" PRIx64,
                        NIB_FILE_AT_HEADER_HASH, nib_load_u64(h + NIB_FILE_AT_HEADER_HASH), hash);
    uint32_t header = nib_load_u32(h + NIB_FILE_AT_HEADER_BYTES);
    if (header != NIB_FILE_HEADER_BYTES || nib_load_u64(h + NIB_FILE_AT_RESERVED))
        return nib_fail(NIB_CORRUPT,
                        "nib: header bytes at byte %d are %u and the reserved word at byte %d is "
                        "%" PRIu64 ", expected %d and 0",
                        NIB_FILE_AT_HEADER_BYTES, header, NIB_FILE_AT_RESERVED,
                        nib_load_u64(h + NIB_FILE_AT_RESERVED), NIB_FILE_HEADER_BYTES);
    uint64_t whole = nib_load_u64(h + NIB_FILE_AT_FILE_BYTES);
    if (whole != bytes)
        return nib_fail(NIB_CORRUPT,
                        "nib: file bytes at byte %d are %" PRIu64 ", but the file has %zu",
                        NIB_FILE_AT_FILE_BYTES, whole, bytes);
    return NIB_OK;
}

static nib_status open_nib(nib_file *file)
{
    const unsigned char *h = file->data;
    nib_status status = check_header(h, file->bytes);
    if (status)
        return status;
    uint64_t start = nib_load_u64(h + NIB_FILE_AT_DIRECTORY);
    uint64_t bytes = nib_load_u64(h + NIB_FILE_AT_DIRECTORY_BYTES);
    if (start < NIB_FILE_HEADER_BYTES || start > file->bytes || bytes != file->bytes - start)
        return nib_fail(NIB_CORRUPT,
                        "nib: directory offset at byte %d is %" PRIu64 " and its bytes at byte %d "
                        "are %" PRIu64 ", expected to end with the file at byte %zu",
                        NIB_FILE_AT_DIRECTORY, start, NIB_FILE_AT_DIRECTORY_BYTES, bytes,
                        file->bytes);
    uint64_t hash = nib_hash(h + start, (size_t)bytes);
    if (hash != nib_load_u64(h + NIB_FILE_AT_DIRECTORY_HASH))
        return nib_fail(NIB_CORRUPT,
                        "nib: directory hash at byte %d is %016" PRIx64 ", but the directory at "
                        "byte %" PRIu64 " has %016" PRIx64,
                        NIB_FILE_AT_DIRECTORY_HASH, nib_load_u64(h + NIB_FILE_AT_DIRECTORY_HASH),
                        start, hash);
    directory d = {
        .file = file, .reader = nib_file_reader(file), .next = NIB_FILE_HEADER_BYTES, .end = start};
    d.reader.at = (size_t)start;
    return read_directory(&d);
}

/* ---- use ---- */

static nib_status verify_section(const nib_file *file, const nib_entry *entry,
                                 const nib_section *section, const char *what)
{
    uint64_t hash = nib_hash(file->data + section->offset, (size_t)section->bytes);
    if (hash == section->hash)
        return NIB_OK;
    return nib_fail(NIB_CORRUPT,
                    "nib: %s of tensor '%s' at byte %" PRIu64 ": the checksum is %016" PRIx64
                    ", expected %016" PRIx64,
                    what, entry->name, section->offset, hash, section->hash);
}

static nib_status verify_g_idx(const nib_entry *entry, const stored_tensor *stored)
{
    const unsigned char *g_idx = stored->weights.section[NIB_SECTION_G_IDX];
    int64_t groups = nib_desc_groups(&stored->weights.desc);
    for (int64_t k = 0; g_idx && k < stored->weights.desc.k; k++) {
        int32_t g = (int32_t)nib_load_u32(g_idx + 4 * k);
        if (g < 0 || g >= groups)
            return nib_fail(NIB_CORRUPT,
                            "nib: g_idx[%" PRId64 "] of tensor '%s' at byte %" PRIu64
                            " is %d, expected 0..%" PRId64,
                            k, entry->name,
                            stored->section[NIB_SECTION_G_IDX].offset + 4 * (uint64_t)k, g,
                            groups - 1);
    }
    return NIB_OK;
}

static nib_status verify(const nib_file *file, int64_t index)
{
    const nib_entry *entry = &file->entries[index];
    stored_tensor *stored = entry->extra;
    nib_status status = NIB_OK;
    if (atomic_load(&stored->verified))
        return NIB_OK;
    if (entry->element)
        status = verify_section(file, entry, &stored->section[0], "data");
    for (int k = 0; k < NIB_SECTION_KINDS && !entry->element && !status; k++)
        if (stored->weights.bytes[k])
            status = verify_section(file, entry, &stored->section[k],
                                    nib_section_name((nib_section_kind)k));
    if (!status && !entry->element)
        status = verify_g_idx(entry, stored);
    if (!status)
        atomic_store(&stored->verified, true);
    return status;
}

nib_status nib_file_stored_weights(const nib_file *file, int64_t index, nib_stored_weights *out)
{
    if (!file || index < 0 || index >= file->entries_count)
        return nib_fail(NIB_INVALID, "no tensor %" PRId64 " in the file", index);
    const nib_entry *entry = &file->entries[index];
    if (file->format != &nib_format_nib || entry->element)
        return nib_fail(NIB_INVALID, "tensor '%s' is no weights tensor of a .nib file",
                        entry->name);
    nib_status status = verify(file, index);
    if (!status)
        *out = ((const stored_tensor *)entry->extra)->weights;
    return status;
}

/* Size of the planes in one buffer: they are neighbours at multiples of 64, as layouts want it. */
static size_t codes_extent(const stored_tensor *stored)
{
    const nib_section *first = &stored->section[NIB_SECTION_CODES0], *last = first;
    for (int k = NIB_SECTION_CODES0; k <= NIB_SECTION_CODES2; k++)
        if (stored->section[k].bytes)
            last = &stored->section[k];
    return (size_t)(last->offset + last->bytes - first->offset);
}

static nib_status nib_source(const nib_file *file, int64_t index, nib_weight_desc *desc,
                             nib_weight_source *source)
{
    nib_stored_weights w;
    nib_status status = nib_file_stored_weights(file, index, &w);
    if (status)
        return status;
    nib_weight_source s = {
        .size = sizeof(s),
        .layout = w.layout,
        .codes = w.section[NIB_SECTION_CODES0],
        .scale_layout = w.scale_layout[0] ? w.scale_layout : NULL,
        .scales = w.section[NIB_SECTION_SCALES],
        .zero_layout = w.zero_layout[0] ? w.zero_layout : NULL,
        .zeros = w.section[NIB_SECTION_ZEROS],
        .g_idx = w.section[NIB_SECTION_G_IDX],
        .table = w.section[NIB_SECTION_TABLE],
        .alpha = w.alpha,
        .codes_bytes = codes_extent(file->entries[index].extra),
        .scales_bytes = w.bytes[NIB_SECTION_SCALES],
        .zeros_bytes = w.bytes[NIB_SECTION_ZEROS],
    };
    status = nib_struct_write(desc, &w.desc, sizeof(w.desc), sizeof(w.desc), "nib_weight_desc");
    if (!status)
        status = nib_struct_write(source, &s, sizeof(s), sizeof(s), "nib_weight_source");
    return status;
}

static nib_status nib_read(const nib_file *file, int64_t index, int64_t r0, int64_t r1, float *out)
{
    const stored_tensor *stored = file->entries[index].extra;
    return nib_stored_read_f32(&stored->weights, r0, r1, out, stored->weights.desc.k);
}

static const char *nib_line(const nib_entry *entry)
{
    return ((const stored_tensor *)entry->extra)->line;
}

const nib_format nib_format_nib = {
    .name = "nib",
    .is = is_nib,
    .open = open_nib,
    .source = nib_source,
    .read = nib_read,
    .type_name = nib_line,
    .verify = verify,
};
