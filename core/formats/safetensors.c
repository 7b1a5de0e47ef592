/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: the bytes of a JSON header (u64), the header, the data. The header maps names to
 * {"dtype", "shape", "data_offsets"}; "__metadata__" maps strings to strings. Tensors cover the
 * data without holes.
 */
#include "formats/scan.h"

#include <inttypes.h>

/* The format's own limit. */
#define MOST_HEADER 100000000

/* clang-format off */
static const nib_element elements[] = {
    {"F64",      NIB_TYPE_NONE, 1, 8, nib_element_f64,  NULL},
    {"F32",      NIB_F32,       1, 4, nib_element_f32,  NULL},
    {"F16",      NIB_F16,       1, 2, nib_element_f16,  NULL},
    {"BF16",     NIB_BF16,      1, 2, nib_element_bf16, NULL},
    {"F8_E4M3",  NIB_E4M3,      1, 1, nib_element_e4m3, NULL},
    {"F8_E5M2",  NIB_E5M2,      1, 1, nib_element_e5m2, NULL},
    {"F8_E8M0",  NIB_E8M0,      1, 1, nib_element_e8m0, NULL},
    {"I64",      NIB_TYPE_NONE, 1, 8, nib_element_i64,  NULL},
    {"I32",      NIB_I32,       1, 4, nib_element_i32,  NULL},
    {"I16",      NIB_TYPE_NONE, 1, 2, nib_element_i16,  NULL},
    {"I8",       NIB_I8,        1, 1, nib_element_i8,   NULL},
    {"U64",      NIB_TYPE_NONE, 1, 8, nib_element_u64,  NULL},
    {"U32",      NIB_TYPE_NONE, 1, 4, nib_element_u32,  NULL},
    {"U16",      NIB_TYPE_NONE, 1, 2, nib_element_u16,  NULL},
    {"U8",       NIB_U8,        1, 1, nib_element_u8,   NULL},
    {"BOOL",     NIB_TYPE_NONE, 1, 1, nib_element_u8,   NULL},
};
/* clang-format on */

enum { ELEMENTS = sizeof(elements) / sizeof(elements[0]) };

/* A tensor's description as it is read: which of the three keys have been seen. */
enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

typedef struct description {
    nib_entry entry;
    int64_t begin, end;
    unsigned seen;
} description;

static bool is_safetensors(const unsigned char *data, size_t bytes)
{
    return bytes > 8 && data[8] == '{';
}

static bool span_is(nib_span span, const char *text)
{
    return span.bytes == strlen(text) && !memcmp(span.text, text, span.bytes);
}

static nib_status read_dtype(nib_file *file, nib_reader *reader, nib_entry *entry)
{
    nib_span name;
    size_t start = reader->at;
    nib_status status = nib_scan_json_string(file, reader, "dtype", &name);
    if (status)
        return status;
    for (int i = 0; i < ELEMENTS && !entry->element; i++)
        if (span_is(name, elements[i].name))
            entry->element = &elements[i];
    if (!entry->element)
        return nib_fail(NIB_UNSUPPORTED,
                        "safetensors: dtype of tensor '%s' at byte %zu is '%s', which nibblas does "
                        "not know",
                        entry->name, start, name.text);
    return NIB_OK;
}

static nib_status read_shape(nib_reader *reader, nib_entry *entry)
{
    size_t start = reader->at;
    nib_status status = nib_scan_expect(reader, "shape", '[');
    if (status || nib_scan_accept(reader, ']'))
        return status;
    do {
        if (entry->rank == NIB_TENSOR_RANK)
            return nib_fail(NIB_UNSUPPORTED,
                            "safetensors: shape of tensor '%s' at byte %zu has more than %d "
                            "extents",
                            entry->name, start, NIB_TENSOR_RANK);
        status = nib_scan_int(reader, "extent", &entry->shape[entry->rank]);
        entry->rank++;
    } while (!status && nib_scan_accept(reader, ','));
    return status ? status : nib_scan_expect(reader, "shape", ']');
}

static nib_status read_offsets(nib_reader *reader, description *d)
{
    nib_status status = nib_scan_expect(reader, "data_offsets", '[');
    if (!status)
        status = nib_scan_int(reader, "data_offsets", &d->begin);
    if (!status)
        status = nib_scan_expect(reader, "data_offsets", ',');
    if (!status)
        status = nib_scan_int(reader, "data_offsets", &d->end);
    if (!status)
        status = nib_scan_expect(reader, "data_offsets", ']');
    return status;
}

static nib_status read_field(nib_file *file, nib_reader *reader, description *d)
{
    nib_span key;
    size_t start = reader->at;
    nib_status status = nib_scan_json_string(file, reader, "key", &key);
    if (!status)
        status = nib_scan_expect(reader, "key", ':');
    if (status)
        return status;
    unsigned bit = span_is(key, "dtype")          ? SEEN_DTYPE
                   : span_is(key, "shape")        ? SEEN_SHAPE
                   : span_is(key, "data_offsets") ? SEEN_OFFSETS
                                                  : 0;
    if (!bit || d->seen & bit)
        return nib_fail(NIB_CORRUPT, "safetensors: key '%s' of tensor '%s' at byte %zu %s",
                        key.text, d->entry.name, start,
                        bit ? "stands twice" : "is none of dtype, shape, data_offsets");
    d->seen |= bit;
    return bit == SEEN_DTYPE   ? read_dtype(file, reader, &d->entry)
           : bit == SEEN_SHAPE ? read_shape(reader, &d->entry)
                               : read_offsets(reader, d);
}

/* Checks the three against each other and the file. `data` is where the data begins. */
static nib_status place(const nib_file *file, description *d, size_t data)
{
    nib_entry *entry = &d->entry;
    int64_t left = (int64_t)(file->bytes - data);
    if (d->seen != SEEN_ALL)
        return nib_fail(NIB_CORRUPT, "safetensors: tensor '%s' at byte %" PRIu64 " lacks %s",
                        entry->name, entry->where,
                        !(d->seen & SEEN_DTYPE)   ? "dtype"
                        : !(d->seen & SEEN_SHAPE) ? "shape"
                                                  : "data_offsets");
    nib_status status = nib_file_tensor_bytes(file, entry, &entry->bytes);
    if (status)
        return status;
    if (d->begin > d->end || d->end > left)
        return nib_fail(NIB_CORRUPT,
                        "safetensors: data_offsets of tensor '%s' at byte %" PRIu64 " are %" PRId64
                        " and %" PRId64 ", expected two rising ones in 0..%" PRId64,
                        entry->name, entry->where, d->begin, d->end, left);
    if ((uint64_t)(d->end - d->begin) != entry->bytes)
        return nib_fail(NIB_CORRUPT,
                        "safetensors: data_offsets of tensor '%s' at byte %" PRIu64 " are %" PRId64
                        " bytes apart, but its shape of %s takes %" PRIu64,
                        entry->name, entry->where, d->end - d->begin, entry->element->name,
                        entry->bytes);
    entry->data = file->data + data + d->begin;
    return NIB_OK;
}

static nib_status read_tensor(nib_file *file, nib_reader *reader, description *d)
{
    nib_status status = nib_scan_expect(reader, "tensor", '{');
    if (status || nib_scan_accept(reader, '}'))
        return status;
    do
        status = read_field(file, reader, d);
    while (!status && nib_scan_accept(reader, ','));
    return status ? status : nib_scan_expect(reader, "tensor", '}');
}

/* A string that can stand as a C string. */
static nib_status read_name(nib_file *file, nib_reader *reader, const char *field, const char **out)
{
    nib_span name;
    size_t start = reader->at;
    nib_status status = nib_scan_json_string(file, reader, field, &name);
    if (status)
        return status;
    if (memchr(name.text, 0, name.bytes))
        return nib_fail(NIB_CORRUPT, "safetensors: %s at byte %zu holds a NUL character", field,
                        start);
    *out = name.text;
    return NIB_OK;
}

static nib_status read_metadata(nib_file *file, nib_reader *reader)
{
    nib_status status = nib_scan_expect(reader, "__metadata__", '{');
    if (status || nib_scan_accept(reader, '}'))
        return status;
    do {
        nib_meta_entry meta = {.where = reader->at};
        nib_span value = {NULL, 0};
        status = read_name(file, reader, "metadata key", &meta.key);
        if (!status)
            status = nib_scan_expect(reader, "metadata key", ':');
        if (!status)
            status = nib_scan_json_string(file, reader, "metadata value", &value);
        meta.value = (nib_meta){.size = sizeof(nib_meta),
                                .kind = NIB_META_STRING,
                                .text = value.text,
                                .count = (int64_t)value.bytes};
        if (!status)
            status = nib_file_add_meta(file, &meta);
    } while (!status && nib_scan_accept(reader, ','));
    return status ? status : nib_scan_expect(reader, "__metadata__", '}');
}

static nib_status read_member(nib_file *file, nib_reader *reader, uint64_t *covered)
{
    description d = {.entry.where = reader->at};
    nib_status status = read_name(file, reader, "tensor name", &d.entry.name);
    if (!status)
        status = nib_scan_expect(reader, "tensor name", ':');
    if (status)
        return status;
    if (!strcmp(d.entry.name, "__metadata__"))
        return read_metadata(file, reader);
    status = read_tensor(file, reader, &d);
    if (!status)
        status = place(file, &d, reader->bytes);
    if (!status)
        status = nib_file_add(file, &d.entry);
    *covered += d.entry.bytes;
    return status;
}

static nib_status read_header(nib_file *file, nib_reader *reader)
{
    uint64_t covered = 0;
    nib_status status = nib_scan_expect(reader, "header", '{');
    if (!status && !nib_scan_accept(reader, '}')) {
        do
            status = read_member(file, reader, &covered);
        while (!status && nib_scan_accept(reader, ','));
        if (!status)
            status = nib_scan_expect(reader, "header", '}');
    }
    if (!status && nib_scan_peek(reader) >= 0)
        status = nib_scan_complain(reader, "header", "nothing but blanks");
    if (status)
        return status;
    /* Tensors lie in the data and, as is checked later, do not overlap; so a sum that equals the
     * whole says that there is no hole. */
    uint64_t data = file->bytes - reader->bytes;
    if (covered != data)
        return nib_fail(NIB_CORRUPT,
                        "safetensors: the tensors take %" PRIu64 " bytes, but the data from byte "
                        "%zu to the end of the file has %" PRIu64,
                        covered, reader->bytes, data);
    return NIB_OK;
}

static nib_status open_safetensors(nib_file *file)
{
    nib_reader reader = nib_file_reader(file);
    uint64_t header = 0;
    nib_status status = nib_reader_u64(&reader, "header length", &header);
    if (status)
        return status;
    if (header > MOST_HEADER || header > reader.bytes - reader.at)
        return nib_fail(NIB_CORRUPT,
                        "safetensors: header length at byte 0 is %" PRIu64
                        ", expected at most %zu in this file and %d in any",
                        header, reader.bytes - reader.at, MOST_HEADER);
    reader.bytes = reader.at + (size_t)header;
    return read_header(file, &reader);
}

const nib_format nib_format_safetensors = {
    .name = "safetensors", .is = is_safetensors, .open = open_safetensors};
