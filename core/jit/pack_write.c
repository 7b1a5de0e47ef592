/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing packs: sections go to the temporary file as they come; their records are kept, sorted by
 * key at the end, and written behind them, then the header. See pack_write.h.
 */
#include "jit/pack_write.h"

#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Packs are made once and read often; decoding is as fast at every level. */
#define LEVEL 12

/* Bytes that grow. */
typedef struct bytes {
    unsigned char *data;
    size_t count, room;
} bytes;

/* A record of the index as it will stand there. */
typedef struct record {
    nib_key key;
    bytes body;
} record;

/* A source file that is in the pack already. */
typedef struct written_text {
    uint64_t name_hash, text_hash;
} written_text;

struct nib_pack_writer {
    nib_new_file file;
    char backend[NIB_PACK_BACKEND_BYTES];
    uint64_t at; /* bytes in the file */
    bytes texts; /* records */
    written_text *written;
    record *records;
    size_t text_count, text_room, record_count, record_room;
};

static nib_status put(bytes *to, const void *data, size_t count)
{
    if (count > to->room - to->count) {
        size_t room = (to->count + count) * 2 + 256;
        unsigned char *more = realloc(to->data, room);
        if (!more)
            return nib_fail(NIB_NO_MEMORY, "no memory for the index of a pack");
        to->data = more;
        to->room = room;
    }
    memcpy(to->data + to->count, data, count);
    to->count += count;
    return NIB_OK;
}

static nib_status put_u32(bytes *to, uint32_t value)
{
    return put(to, &value, sizeof(value));
}

static nib_status put_u64(bytes *to, uint64_t value)
{
    return put(to, &value, sizeof(value));
}

static nib_status put_text(bytes *to, const char *text)
{
    size_t length = strlen(text);
    nib_status status = put_u32(to, (uint32_t)length);
    return status ? status : put(to, text, length + 1);
}

/* One more element, doubling the room. False: no memory. */
static bool grow(void *array, size_t *room, size_t count, size_t element)
{
    void *data;
    if (count < *room)
        return true;
    memcpy(&data, array, sizeof(data));
    size_t more = *room ? 2 * *room : 64;
    data = realloc(data, more * element);
    if (!data)
        return false;
    memcpy(array, &data, sizeof(data));
    *room = more;
    return true;
}

static nib_status write_bytes(nib_pack_writer *writer, const void *data, size_t count)
{
    if (count && fwrite(data, 1, count, writer->file.stream) != count)
        return nib_fail(NIB_MISSING, "cannot write %s: %s", writer->file.path, strerror(errno));
    writer->at += count;
    return NIB_OK;
}

/* Packs data into the file and appends its section to a record. */
static nib_status put_section(nib_pack_writer *writer, bytes *to, const void *data, size_t count)
{
    if (count > NIB_PACK_SECTION_MOST)
        return nib_fail(NIB_UNSUPPORTED, "a pack holds no image or text of more than 64 MiB");
    size_t room = ZSTD_compressBound(count);
    void *frame = malloc(room);
    if (!frame)
        return nib_fail(NIB_NO_MEMORY, "no memory to pack %zu bytes", count);
    size_t stored = ZSTD_compress(frame, room, data, count, LEVEL);
    nib_status status = NIB_OK;
    if (ZSTD_isError(stored))
        status =
            nib_fail(NIB_NO_MEMORY, "cannot pack %zu bytes: %s", count, ZSTD_getErrorName(stored));
    uint64_t offset = writer->at;
    if (!status)
        status = write_bytes(writer, frame, stored);
    if (!status)
        status = put_u64(to, offset);
    if (!status)
        status = put_u64(to, stored);
    if (!status)
        status = put_u64(to, count);
    if (!status)
        status = put_u64(to, nib_hash(data, count));
    free(frame);
    return status;
}

/* The number of a source file, which is written when it is new. */
static nib_status put_file(nib_pack_writer *writer, const nib_image_file *file, bytes *to)
{
    written_text hashes = {nib_hash_text(file->name), nib_hash_text(file->text)};
    for (size_t i = 0; i < writer->text_count; i++)
        if (writer->written[i].name_hash == hashes.name_hash &&
            writer->written[i].text_hash == hashes.text_hash)
            return put_u32(to, (uint32_t)i);
    if (!grow(&writer->written, &writer->text_room, writer->text_count, sizeof(hashes)))
        return nib_fail(NIB_NO_MEMORY, "no memory for the index of a pack");
    nib_status status = put_text(&writer->texts, file->name);
    if (!status)
        status = put_section(writer, &writer->texts, file->text, strlen(file->text));
    if (!status)
        status = put_u32(to, (uint32_t)writer->text_count);
    if (!status)
        writer->written[writer->text_count++] = hashes;
    return status;
}

static nib_status put_record(nib_pack_writer *writer, bytes *to, const nib_image_request *r,
                             const nib_key *key, const nib_blob *blob)
{
    nib_status status = put(to, key->bytes, NIB_KEY_BYTES);
    const char *texts[] = {r->isa, r->format, r->label, r->flags, blob->compiler};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !status; i++)
        status = put_text(to, texts[i]);
    if (!status)
        status = put_u64(to, (uint64_t)blob->date);
    if (!status)
        status = put_section(writer, to, r->spec, strlen(r->spec));
    if (!status)
        status = put_section(writer, to, blob->log, strlen(blob->log));
    if (!status)
        status = put_section(writer, to, blob->data, (size_t)blob->bytes);
    if (!status)
        status = put_u32(to, r->file_count);
    for (uint32_t i = 0; i < r->file_count && !status; i++)
        status = put_file(writer, &r->files[i], to);
    return status;
}

nib_status nib_pack_writer_add(nib_pack_writer *writer, const nib_image_request *request,
                               const nib_key *key, const nib_blob *blob)
{
    if (strncmp(request->backend, writer->backend, NIB_PACK_BACKEND_BYTES))
        return nib_fail(NIB_INVALID, "a pack of backend '%.16s' takes no image of '%s'",
                        writer->backend, request->backend);
    for (size_t i = 0; i < writer->record_count; i++)
        if (nib_key_equal(&writer->records[i].key, key))
            return nib_fail(NIB_INVALID, "the image %s is in the pack already", request->label);
    if (!grow(&writer->records, &writer->record_room, writer->record_count, sizeof(record)))
        return nib_fail(NIB_NO_MEMORY, "no memory for the index of a pack");
    record *next = &writer->records[writer->record_count++];
    *next = (record){.key = *key};
    return put_record(writer, &next->body, request, key, blob);
}

nib_status nib_pack_writer_create(const char *path, const char *backend, nib_pack_writer **out)
{
    static const unsigned char header[NIB_PACK_HEADER_BYTES];
    size_t length = strlen(backend);
    nib_status status;
    if (!length || length > NIB_PACK_BACKEND_BYTES)
        return nib_fail(NIB_INVALID, "'%s' is not the name of a backend", backend);
    nib_pack_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return nib_fail(NIB_NO_MEMORY, "no memory to write %s", path);
    memcpy(writer->backend, backend, length);
    status = nib_new_file_create(path, &writer->file);
    if (!status)
        status = write_bytes(writer, header, sizeof(header));
    if (status)
        nib_pack_writer_discard(writer);
    else
        *out = writer;
    return status;
}

static int compare_records(const void *a, const void *b)
{
    return memcmp(((const record *)a)->key.bytes, ((const record *)b)->key.bytes, NIB_KEY_BYTES);
}

static nib_status make_index(nib_pack_writer *writer, bytes *index)
{
    if (writer->record_count)
        qsort(writer->records, writer->record_count, sizeof(record), compare_records);
    nib_status status = put_u32(index, (uint32_t)writer->text_count);
    if (!status && writer->texts.count)
        status = put(index, writer->texts.data, writer->texts.count);
    if (!status)
        status = put_u32(index, (uint32_t)writer->record_count);
    for (size_t i = 0; i < writer->record_count && !status; i++)
        status = put(index, writer->records[i].body.data, writer->records[i].body.count);
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

/* The index, then the header over the zeros at the beginning. */
static nib_status write_ends(nib_pack_writer *writer)
{
    unsigned char h[NIB_PACK_HEADER_BYTES] = {0};
    bytes index = {NULL, 0, 0};
    uint64_t at = writer->at, total;
    nib_status status = make_index(writer, &index);
    if (!status)
        status = write_bytes(writer, index.data, index.count);
    if (status)
        goto end;
    memcpy(h, NIB_PACK_MAGIC, 8);
    store_u32(h + NIB_PACK_AT_VERSION, NIB_PACK_VERSION);
    store_u32(h + NIB_PACK_AT_HEADER_BYTES, NIB_PACK_HEADER_BYTES);
    store_u64(h + NIB_PACK_AT_FILE_BYTES, writer->at);
    store_u64(h + NIB_PACK_AT_INDEX, at);
    store_u64(h + NIB_PACK_AT_INDEX_BYTES, index.count);
    store_u64(h + NIB_PACK_AT_INDEX_HASH, nib_hash(index.data, index.count));
    memcpy(h + NIB_PACK_AT_BACKEND, writer->backend, NIB_PACK_BACKEND_BYTES);
    store_u64(h + NIB_PACK_AT_HEADER_HASH, nib_hash(h, NIB_PACK_AT_HEADER_HASH));
    if (fseek(writer->file.stream, 0, SEEK_SET))
        status = nib_fail(NIB_MISSING, "cannot write %s: %s", writer->file.path, strerror(errno));
    total = writer->at;
    if (!status)
        status = write_bytes(writer, h, sizeof(h));
    writer->at = total;

end:
    free(index.data);
    return status;
}

nib_status nib_pack_writer_finish(nib_pack_writer *writer, uint64_t *bytes_out)
{
    nib_status status = write_ends(writer);
    if (!status)
        status = nib_new_file_commit(&writer->file);
    if (!status && bytes_out)
        *bytes_out = writer->at;
    nib_pack_writer_discard(writer);
    return status;
}

void nib_pack_writer_discard(nib_pack_writer *writer)
{
    if (!writer)
        return;
    nib_new_file_discard(&writer->file);
    for (size_t i = 0; i < writer->record_count; i++)
        free(writer->records[i].body.data);
    free(writer->records);
    free(writer->texts.data);
    free(writer->written);
    free(writer);
}
