/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and reading packs: see pack.h.
 */
#include "jit/pack.h"

#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* The least bytes of records, to bound counts by what is left. */
enum { SECTION_BYTES = 32, TEXT_LEAST = 5 + SECTION_BYTES, IMAGE_LEAST = 16 + 5 * 5 + 8 + 96 + 4 };

static uint32_t load_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t load_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

/* ---- header ---- */

static nib_status wrong(const char *path, const char *field, uint64_t offset, const char *why)
{
    return nib_fail(NIB_CORRUPT, "%s: %s at byte %" PRIu64 " %s", path, field, offset, why);
}

/* Checks what the header alone can tell. */
static nib_status check_header(const char *path, const unsigned char *h, size_t bytes)
{
    if (bytes < NIB_PACK_HEADER_BYTES || memcmp(h, NIB_PACK_MAGIC, 8))
        return wrong(path, "magic", 0, "is not that of a pack");
    if (load_u32(h + NIB_PACK_AT_VERSION) != NIB_PACK_VERSION)
        return nib_fail(NIB_UNSUPPORTED, "%s is a pack of version %u, this library reads %d", path,
                        load_u32(h + NIB_PACK_AT_VERSION), NIB_PACK_VERSION);
    if (nib_hash(h, NIB_PACK_AT_HEADER_HASH) != load_u64(h + NIB_PACK_AT_HEADER_HASH))
        return wrong(path, "header hash", NIB_PACK_AT_HEADER_HASH, "does not fit the header");
    if (load_u32(h + NIB_PACK_AT_HEADER_BYTES) != NIB_PACK_HEADER_BYTES)
        return wrong(path, "header bytes", NIB_PACK_AT_HEADER_BYTES, "is not 80");
    if (load_u64(h + NIB_PACK_AT_RESERVED))
        return wrong(path, "reserved", NIB_PACK_AT_RESERVED, "is not zero");
    const char *name = (const char *)h + NIB_PACK_AT_BACKEND;
    size_t length = strnlen(name, NIB_PACK_BACKEND_BYTES);
    for (size_t i = 0; i < NIB_PACK_BACKEND_BYTES; i++)
        if ((i < length && (name[i] <= ' ' || name[i] > '~')) || (i >= length && name[i]))
            length = 0;
    if (!length)
        return wrong(path, "backend", NIB_PACK_AT_BACKEND, "is not a name with NULs behind");
    return NIB_OK;
}

nib_status nib_pack_backend(const char *path, char backend[NIB_PACK_BACKEND_BYTES + 1])
{
    nib_mapping map;
    nib_status status = nib_map_open(path, &map);
    if (status)
        return status;
    status = check_header(path, map.data, map.bytes);
    if (!status) {
        memcpy(backend, map.data + NIB_PACK_AT_BACKEND, NIB_PACK_BACKEND_BYTES);
        backend[NIB_PACK_BACKEND_BYTES] = '\0';
    }
    nib_map_close(&map);
    return status;
}

/* ---- index ---- */

/* Where reading of the index stands. After the first fault nothing moves. */
typedef struct reader {
    const nib_pack *pack;
    uint64_t at, end;      /* in the file */
    uint64_t sections_end; /* no section reaches beyond */
    nib_status status;
} reader;

static void fault(reader *in, const char *field, uint64_t offset, const char *why)
{
    if (!in->status)
        in->status = wrong(in->pack->path, field, offset, why);
}

static const unsigned char *take(reader *in, size_t bytes, const char *field)
{
    static const unsigned char zeros[NIB_KEY_BYTES];
    if (!in->status && in->end - in->at < bytes)
        fault(in, field, in->at, "goes beyond the index");
    if (in->status)
        return zeros;
    const unsigned char *data = in->pack->map.data + in->at;
    in->at += bytes;
    return data;
}

static uint32_t take_u32(reader *in, const char *field)
{
    return load_u32(take(in, 4, field));
}

static uint64_t take_u64(reader *in, const char *field)
{
    return load_u64(take(in, 8, field));
}

static const char *take_text(reader *in, const char *field)
{
    uint64_t at = in->at;
    uint32_t length = take_u32(in, field);
    if (in->status || in->end - in->at < (uint64_t)length + 1) {
        fault(in, field, at, "goes beyond the index");
        return "";
    }
    const char *text = (const char *)in->pack->map.data + in->at;
    if (strnlen(text, (size_t)length + 1) != length) {
        fault(in, field, at, "is not a text of its length with one NUL behind");
        return "";
    }
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            fault(in, field, at, "has a control character");
    in->at += (uint64_t)length + 1;
    return text;
}

static nib_pack_section take_section(reader *in, const char *field)
{
    uint64_t at = in->at;
    nib_pack_section s;
    s.offset = take_u64(in, field);
    s.stored = take_u64(in, field);
    s.bytes = take_u64(in, field);
    s.hash = take_u64(in, field);
    if (in->status)
        return (nib_pack_section){0};
    if (s.offset < NIB_PACK_HEADER_BYTES || s.offset > in->sections_end ||
        s.stored > in->sections_end - s.offset || !s.stored)
        fault(in, field, at, "does not lie between header and index");
    else if (s.bytes > NIB_PACK_SECTION_MOST)
        fault(in, field, at, "unpacks to more than 64 MiB");
    return s;
}

static uint32_t take_count(reader *in, size_t least, const char *field)
{
    uint64_t at = in->at;
    uint32_t count = take_u32(in, field);
    if (!in->status && count > (in->end - in->at) / least)
        fault(in, field, at, "is more than the index has room for");
    return in->status ? 0 : count;
}

static void *room(reader *in, size_t count, size_t bytes)
{
    void *data = in->status ? NULL : calloc(count + 1, bytes);
    if (!data && !in->status)
        in->status = nib_fail(NIB_NO_MEMORY, "no memory for the index of %s", in->pack->path);
    return data;
}

static void take_texts(reader *in, nib_pack *pack)
{
    uint32_t count = take_count(in, TEXT_LEAST, "number of source files");
    pack->texts = room(in, count, sizeof(*pack->texts));
    for (uint32_t i = 0; i < count && !in->status; i++) {
        uint64_t at = in->at;
        pack->texts[i].name = take_text(in, "name of a source file");
        if (!in->status && !nib_file_name_fits(pack->texts[i].name))
            fault(in, "name of a source file", at, "is not relative, of plain components");
        pack->texts[i].section = take_section(in, "source file");
    }
    pack->text_count = in->status ? 0 : count;
}

static void take_files(reader *in, nib_pack *pack, nib_pack_image *image)
{
    image->file_count = take_count(in, 4, "number of an image's files");
    image->first_file = pack->file_total;
    for (uint32_t i = 0; i < image->file_count && !in->status; i++) {
        uint64_t at = in->at;
        uint32_t index = take_u32(in, "file of an image");
        if (!in->status && index >= pack->text_count)
            fault(in, "file of an image", at, "is not the number of a source file");
        pack->files[pack->file_total++] = index;
    }
    if (!in->status && !image->file_count)
        fault(in, "number of an image's files", in->at, "is zero");
}

static void take_images(reader *in, nib_pack *pack)
{
    uint32_t count = take_count(in, IMAGE_LEAST, "number of images");
    pack->images = room(in, count, sizeof(*pack->images));
    /* Four bytes each in what is left: a bound for all lists of files. */
    pack->files = room(in, (size_t)(in->end - in->at) / 4, sizeof(*pack->files));
    for (uint32_t i = 0; i < count && !in->status; i++) {
        nib_pack_image *image = &pack->images[i];
        uint64_t at = in->at;
        memcpy(image->key.bytes, take(in, NIB_KEY_BYTES, "key"), NIB_KEY_BYTES);
        if (!in->status && i && memcmp(image[-1].key.bytes, image->key.bytes, NIB_KEY_BYTES) >= 0)
            fault(in, "key", at, "is not above the one before");
        image->isa = take_text(in, "isa");
        image->format = take_text(in, "format");
        image->label = take_text(in, "label");
        image->flags = take_text(in, "flags");
        image->compiler = take_text(in, "compiler");
        image->date = (int64_t)take_u64(in, "date");
        image->spec = take_section(in, "spec");
        image->log = take_section(in, "log");
        image->image = take_section(in, "image");
        take_files(in, pack, image);
    }
    pack->image_count = in->status ? 0 : count;
}

static nib_status read_index(nib_pack *pack)
{
    const unsigned char *h = pack->map.data;
    uint64_t bytes = pack->map.bytes, at = load_u64(h + NIB_PACK_AT_INDEX);
    uint64_t count = load_u64(h + NIB_PACK_AT_INDEX_BYTES);
    memcpy(pack->backend, h + NIB_PACK_AT_BACKEND, NIB_PACK_BACKEND_BYTES);
    if (load_u64(h + NIB_PACK_AT_FILE_BYTES) != bytes)
        return wrong(pack->path, "file bytes", NIB_PACK_AT_FILE_BYTES,
                     "is not the size of the file: it was cut short or lengthened");
    if (at < NIB_PACK_HEADER_BYTES || at > bytes || count != bytes - at)
        return wrong(pack->path, "index", NIB_PACK_AT_INDEX, "does not end the file");
    if (nib_hash(h + at, (size_t)count) != load_u64(h + NIB_PACK_AT_INDEX_HASH))
        return wrong(pack->path, "index hash", NIB_PACK_AT_INDEX_HASH, "does not fit the index");
    reader in = {.pack = pack, .at = at, .end = bytes, .sections_end = at};
    take_texts(&in, pack);
    take_images(&in, pack);
    if (!in.status && in.at != in.end)
        fault(&in, "end of the index", in.at, "is not the end of the file");
    return in.status;
}

static nib_status open_mapping(const char *path, nib_mapping map, bool owns, nib_pack **out)
{
    nib_pack *pack = calloc(1, sizeof(*pack));
    nib_status status = NIB_OK;
    if (pack) {
        pack->map = map;
        pack->owns_map = owns;
        pack->path = strdup(path);
    } else if (owns) {
        nib_map_close(&map);
    }
    if (!pack || !pack->path)
        status = nib_fail(NIB_NO_MEMORY, "no memory for the pack %s", path);
    if (!status)
        status = check_header(path, map.data, map.bytes);
    if (!status)
        status = read_index(pack);
    if (status)
        nib_pack_close(pack);
    else
        *out = pack;
    return status;
}

nib_status nib_pack_open_memory(const char *path, const void *data, size_t bytes, nib_pack **out)
{
    return open_mapping(path, (nib_mapping){data, bytes}, false, out);
}

nib_status nib_pack_open(const char *path, nib_pack **out)
{
    nib_mapping map;
    nib_status status = nib_map_open(path, &map);
    return status ? status : open_mapping(path, map, true, out);
}

void nib_pack_close(nib_pack *pack)
{
    if (!pack)
        return;
    if (pack->owns_map)
        nib_map_close(&pack->map);
    free(pack->path);
    free(pack->texts);
    free(pack->images);
    free(pack->files);
    free(pack);
}

/* ---- images ---- */

static int compare_key(const void *key, const void *image)
{
    return memcmp(key, ((const nib_pack_image *)image)->key.bytes, NIB_KEY_BYTES);
}

const nib_pack_image *nib_pack_find(const nib_pack *pack, const nib_key *key)
{
    if (!pack->image_count)
        return NULL;
    return bsearch(key->bytes, pack->images, pack->image_count, sizeof(*pack->images), compare_key);
}

nib_status nib_pack_read(const nib_pack *pack, const nib_pack_section *section, const char *what,
                         void **out)
{
    const unsigned char *frame = pack->map.data + section->offset;
    size_t stored = (size_t)section->stored, bytes = (size_t)section->bytes;
    if (ZSTD_getFrameContentSize(frame, stored) != section->bytes)
        return wrong(pack->path, what, section->offset, "is no zstd frame of the index's size");
    char *data = aligned_alloc(16, bytes / 16 * 16 + 16);
    if (!data)
        return nib_fail(NIB_NO_MEMORY, "no memory for %zu bytes of %s", bytes, pack->path);
    if (ZSTD_decompress(data, bytes, frame, stored) != bytes ||
        nib_hash(data, bytes) != section->hash) {
        free(data);
        return wrong(pack->path, what, section->offset, "does not unpack to what the index says");
    }
    data[bytes] = '\0';
    *out = data;
    return NIB_OK;
}
