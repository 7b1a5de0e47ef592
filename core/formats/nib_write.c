/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing .nib files: sections go to the temporary file as they come, the directory is kept in
 * memory (names and texts, no tensors) and written last, then the header. Logical weights are in
 * nib_source.c.
 */
#include "formats/nib_write.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that grow. A failure to grow is remembered and reported once, by the writer. */
typedef struct bytes {
    unsigned char *data;
    size_t count, room;
} bytes;

struct nib_writer {
    nib_new_file file;
    nib_hasher *hasher;
    uint64_t at;          /* bytes in the file */
    bool spoilt;          /* a write failed: nothing can follow */
    bytes metas, tensors; /* records of the directory */
    bytes names, keys;    /* hashes (u64) of what stands already */
};

static nib_status put(nib_writer *writer, bytes *to, const void *data, size_t count)
{
    size_t want;
    if (!nib_add_size(to->count, count, &want) || want > SIZE_MAX / 2)
        goto fail;
    if (want > to->room) {
        size_t room = want + want / 2 + 256;
        unsigned char *more = realloc(to->data, room);
        if (!more)
            goto fail;
        to->data = more;
        to->room = room;
    }
    if (count)
        memcpy(to->data + to->count, data, count);
    to->count = want;
    return NIB_OK;

fail:
    writer->spoilt = true;
    return nib_fail(NIB_NO_MEMORY, "no memory for %zu bytes of the directory of %s", count,
                    writer->file.path);
}

static nib_status put_u8(nib_writer *writer, bytes *to, uint8_t value)
{
    return put(writer, to, &value, sizeof(value));
}

static nib_status put_u32(nib_writer *writer, bytes *to, uint32_t value)
{
    return put(writer, to, &value, sizeof(value));
}

static nib_status put_u64(nib_writer *writer, bytes *to, uint64_t value)
{
    return put(writer, to, &value, sizeof(value));
}

static nib_status put_string(nib_writer *writer, bytes *to, const char *text)
{
    size_t length = text ? strlen(text) : 0;
    nib_status status = put_u32(writer, to, (uint32_t)length);
    return status ? status : put(writer, to, text ? text : "", length + 1);
}

static nib_status put_section(nib_writer *writer, const nib_section *section)
{
    nib_status status = put_u64(writer, &writer->tensors, section->offset);
    if (!status)
        status = put_u64(writer, &writer->tensors, section->bytes);
    if (!status)
        status = put_u64(writer, &writer->tensors, section->hash);
    return status;
}

static nib_status write_bytes(nib_writer *writer, const void *data, size_t count)
{
    if (writer->spoilt)
        return nib_fail(NIB_INVALID, "an earlier write to %s failed: discard the writer",
                        writer->file.path);
    if (count && fwrite(data, 1, count, writer->file.stream) != count) {
        writer->spoilt = true;
        return nib_fail(NIB_MISSING, "cannot write %s: %s", writer->file.path, strerror(errno));
    }
    writer->at += count;
    return NIB_OK;
}

/* Zeros to the next multiple of NIB_FILE_ALIGN. */
static nib_status write_padding(nib_writer *writer)
{
    static const unsigned char zeros[NIB_FILE_ALIGN];
    return write_bytes(writer, zeros, (size_t)(-writer->at % NIB_FILE_ALIGN));
}

static bool stands(const bytes *hashes, uint64_t hash)
{
    for (size_t i = 0; i < hashes->count; i += sizeof(hash))
        if (!memcmp(hashes->data + i, &hash, sizeof(hash)))
            return true;
    return false;
}

static nib_status check_text(const nib_writer *writer, const char *what, const char *text,
                             const bytes *hashes)
{
    if (!writer)
        return nib_fail(NIB_INVALID, "the writer is NULL");
    if (!text || !text[0])
        return nib_fail(NIB_INVALID, "the %s is %s", what, text ? "empty" : "NULL");
    if (strlen(text) > INT32_MAX)
        return nib_fail(NIB_INVALID, "the %s has more than 2^31 - 1 bytes", what);
    if (stands(hashes, nib_hash_text(text)))
        return nib_fail(NIB_INVALID, "the %s '%s' stands in the file already", what, text);
    return NIB_OK;
}

nib_status nib_writer_check_name(nib_writer *writer, const char *name)
{
    nib_status status = check_text(writer, "tensor name", name, writer ? &writer->names : NULL);
    return status ? status : write_bytes(writer, NULL, 0);
}

nib_status nib_writer_section_begin(nib_writer *writer, nib_section *section)
{
    nib_status status = write_padding(writer);
    nib_hasher_restart(writer->hasher);
    *section = (nib_section){.offset = writer->at};
    return status;
}

nib_status nib_writer_section_add(nib_writer *writer, const void *data, size_t count)
{
    nib_hasher_add(writer->hasher, data, count);
    return write_bytes(writer, data, count);
}

void nib_writer_section_end(nib_writer *writer, nib_section *section)
{
    section->bytes = writer->at - section->offset;
    section->hash = nib_hasher_value(writer->hasher);
}

void nib_writer_spoil(nib_writer *writer)
{
    writer->spoilt = true;
}

static nib_status begin_record(nib_writer *writer, const char *name, uint8_t kind)
{
    uint64_t hash = nib_hash_text(name);
    nib_status status = put(writer, &writer->names, &hash, sizeof(hash));
    if (!status)
        status = put_string(writer, &writer->tensors, name);
    return status ? status : put_u8(writer, &writer->tensors, kind);
}

nib_status nib_writer_describe(nib_writer *writer, const char *name, const nib_stored_weights *w,
                               const nib_section sections[NIB_SECTION_KINDS])
{
    char line[512];
    uint32_t alpha;
    uint8_t count = 0;
    bytes *to = &writer->tensors;
    memcpy(&alpha, &w->alpha, sizeof(alpha));
    for (int k = 0; k < NIB_SECTION_KINDS; k++)
        count += w->bytes[k] != 0;
    nib_status status = nib_weight_desc_print(&w->desc, line, sizeof(line), NULL);
    if (!status)
        status = begin_record(writer, name, NIB_FILE_WEIGHTS);
    if (!status)
        status = put_string(writer, to, line);
    if (!status)
        status = put_u32(writer, to, alpha);
    if (!status)
        status = put_string(writer, to, w->layout);
    if (!status)
        status = put_string(writer, to, w->scale_layout);
    if (!status)
        status = put_string(writer, to, w->zero_layout);
    if (!status)
        status = put_u8(writer, to, count);
    for (int k = 0; k < NIB_SECTION_KINDS && !status; k++) {
        if (!w->bytes[k])
            continue;
        status = put_u8(writer, to, (uint8_t)k);
        if (!status)
            status = put_section(writer, &sections[k]);
    }
    return status;
}

nib_status nib_writer_add_stored(nib_writer *writer, const char *name,
                                 const nib_stored_weights *weights)
{
    nib_stored_weights w = *weights;
    nib_section sections[NIB_SECTION_KINDS] = {{0}};
    if (w.alpha == 0)
        w.alpha = 1;
    nib_status status = nib_writer_check_name(writer, name);
    if (!status)
        status = nib_weight_desc_check(&w.desc, &w.desc);
    if (!status)
        status = nib_stored_check(&w);
    for (int k = 0; k < NIB_SECTION_KINDS && !status; k++)
        if (w.bytes[k] && !w.section[k])
            status =
                nib_fail(NIB_INVALID, "the %s are NULL", nib_section_name((nib_section_kind)k));
    for (int k = 0; k < NIB_SECTION_KINDS && !status; k++) {
        if (!w.bytes[k])
            continue;
        status = nib_writer_section_begin(writer, &sections[k]);
        if (!status)
            status = nib_writer_section_add(writer, w.section[k], w.bytes[k]);
        nib_writer_section_end(writer, &sections[k]);
    }
    return status ? status : nib_writer_describe(writer, name, &w, sections);
}

/* Bytes of a dense tensor; refuses what a .nib file does not hold. */
static nib_status dense_bytes(nib_type type, int32_t rank, const int64_t *shape, size_t *out)
{
    const nib_element *element = nib_dense_element(type);
    int64_t product = element ? element->bytes : 0;
    if (!element)
        return nib_fail(NIB_INVALID,
                        "dense tensors are f32, f16, bf16, i32, i8, u8, e4m3 or e5m2, not %s",
                        nib_type_name(type));
    if (rank < 0 || rank > 8 || (rank && !shape))
        return nib_fail(NIB_INVALID, "the rank is %d, expected 0..8 with as many extents", rank);
    for (int32_t i = 0; i < rank; i++)
        if (shape[i] < 0 || !nib_mul_extent(product, shape[i] ? shape[i] : 1, &product))
            return nib_fail(NIB_INVALID,
                            "extent %d is %" PRId64 ": extents are not negative and bytes fit in "
                            "63 bits",
                            i, shape[i]);
    for (int32_t i = 0; i < rank; i++)
        if (!shape[i])
            product = 0;
    *out = (size_t)product;
    return NIB_OK;
}

nib_status nib_writer_add_dense(nib_writer *writer, const char *name, nib_type type, int32_t rank,
                                const int64_t *shape, const void *data)
{
    size_t count = 0;
    nib_section section;
    nib_status status = nib_writer_check_name(writer, name);
    if (!status)
        status = dense_bytes(type, rank, shape, &count);
    if (!status && count && !data)
        status = nib_fail(NIB_INVALID, "the data of tensor '%s' is NULL", name);
    if (!status)
        status = nib_writer_section_begin(writer, &section);
    if (!status)
        status = nib_writer_section_add(writer, data, count);
    if (status)
        return status;
    nib_writer_section_end(writer, &section);
    status = begin_record(writer, name, NIB_FILE_DENSE);
    if (!status)
        status = put_string(writer, &writer->tensors, nib_type_name(type));
    if (!status)
        status = put_u32(writer, &writer->tensors, (uint32_t)rank);
    for (int32_t i = 0; i < rank && !status; i++)
        status = put_u64(writer, &writer->tensors, (uint64_t)shape[i]);
    return status ? status : put_section(writer, &section);
}

nib_status nib_writer_add_meta(nib_writer *writer, const char *key, const char *value)
{
    nib_status status = check_text(writer, "metadata key", key, writer ? &writer->keys : NULL);
    if (status)
        return status;
    if (!value || strlen(value) > INT32_MAX)
        return nib_fail(NIB_INVALID, "the value of metadata '%s' is %s", key,
                        value ? "longer than 2^31 - 1 bytes" : "NULL");
    uint64_t hash = nib_hash_text(key);
    status = write_bytes(writer, NULL, 0);
    if (!status)
        status = put(writer, &writer->keys, &hash, sizeof(hash));
    if (!status)
        status = put_string(writer, &writer->metas, key);
    return status ? status : put_string(writer, &writer->metas, value);
}

nib_status nib_writer_create(const char *path, nib_writer **out)
{
    static const unsigned char header[NIB_FILE_HEADER_BYTES];
    if (!path || !out)
        return nib_fail(NIB_INVALID, "nib_writer_create: %s is NULL", path ? "out" : "path");
    nib_writer *writer = calloc(1, sizeof(*writer));
    nib_status status = NIB_NO_MEMORY;
    if (!writer || !(writer->hasher = nib_hasher_create())) {
        nib_fail(NIB_NO_MEMORY, "no memory to write %s", path);
        goto fail;
    }
    status = nib_new_file_create(path, &writer->file);
    if (!status)
        status = write_bytes(writer, header, sizeof(header));
    if (status)
        goto fail;
    *out = writer;
    return NIB_OK;

fail:
    nib_writer_discard(writer);
    return status;
}

static void store_u32(unsigned char *to, uint32_t value)
{
    memcpy(to, &value, sizeof(value));
}

static void store_u64(unsigned char *to, uint64_t value)
{
    memcpy(to, &value, sizeof(value));
}

/* Directory, then the header over the zeros at the beginning. */
static nib_status write_ends(nib_writer *writer)
{
    unsigned char counts[16], header[NIB_FILE_HEADER_BYTES] = {0};
    nib_section directory;
    store_u64(counts, writer->keys.count / sizeof(uint64_t));
    store_u64(counts + 8, writer->names.count / sizeof(uint64_t));
    nib_status status = nib_writer_section_begin(writer, &directory);
    if (!status)
        status = nib_writer_section_add(writer, counts, sizeof(counts));
    if (!status)
        status = nib_writer_section_add(writer, writer->metas.data, writer->metas.count);
    if (!status)
        status = nib_writer_section_add(writer, writer->tensors.data, writer->tensors.count);
    if (status)
        return status;
    nib_writer_section_end(writer, &directory);
    memcpy(header, NIB_FILE_MAGIC, 8);
    store_u32(header + NIB_FILE_AT_VERSION, NIB_FILE_VERSION);
    store_u32(header + NIB_FILE_AT_HEADER_BYTES, NIB_FILE_HEADER_BYTES);
    store_u64(header + NIB_FILE_AT_FILE_BYTES, writer->at);
    store_u64(header + NIB_FILE_AT_DIRECTORY, directory.offset);
    store_u64(header + NIB_FILE_AT_DIRECTORY_BYTES, directory.bytes);
    store_u64(header + NIB_FILE_AT_DIRECTORY_HASH, directory.hash);
    store_u64(header + NIB_FILE_AT_HEADER_HASH, nib_hash(header, NIB_FILE_AT_HEADER_HASH));
    if (fseek(writer->file.stream, 0, SEEK_SET))
        return nib_fail(NIB_MISSING, "cannot write %s: %s", writer->file.path, strerror(errno));
    return write_bytes(writer, header, sizeof(header));
}

nib_status nib_writer_finish(nib_writer *writer)
{
    if (!writer)
        return nib_fail(NIB_INVALID, "nib_writer_finish: the writer is NULL");
    nib_status status = write_ends(writer);
    if (!status)
        status = nib_new_file_commit(&writer->file);
    nib_writer_discard(writer);
    return status;
}

void nib_writer_discard(nib_writer *writer)
{
    if (!writer)
        return;
    nib_new_file_discard(&writer->file);
    nib_hasher_destroy(writer->hasher);
    free(writer->metas.data);
    free(writer->tensors.data);
    free(writer->names.data);
    free(writer->keys.data);
    free(writer);
}
