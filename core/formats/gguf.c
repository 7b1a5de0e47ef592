/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF, versions 2 and 3, little endian: a header, typed metadata, descriptions of tensors, then
 * their data at multiples of an alignment. Extents are stored innermost first. The types of tensors
 * are in gguf_types.c.
 */
#include "formats/gguf.h"

#include "base/checked.h"
#include "formats/file.h"

#include <inttypes.h>

/* Types of metadata values. */
enum {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
    GGUF_KINDS = 13
};

/* Bytes of a scalar; 0 for strings and arrays. */
static const unsigned char scalar_bytes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

enum {
    LEAST_META = 13,   /* empty key, type, one byte */
    LEAST_TENSOR = 24, /* empty name, no extents, type, offset */
    LEAST_STRING = 8,
    DEFAULT_ALIGNMENT = 32,
    MOST_ALIGNMENT = 1 << 20
};

static bool is_gguf(const unsigned char *data, size_t bytes)
{
    return bytes >= 4 && !memcmp(data, "GGUF", 4);
}

static nib_status read_string(nib_reader *reader, const char *field, nib_span *out)
{
    uint64_t bytes = 0;
    const unsigned char *text = NULL;
    nib_status status = nib_reader_u64(reader, field, &bytes);
    if (!status)
        status = nib_reader_take(reader, field, bytes, &text);
    if (!status)
        *out = (nib_span){(const char *)text, (size_t)bytes};
    return status;
}

static nib_meta string_meta(nib_span span)
{
    return (nib_meta){.size = sizeof(nib_meta),
                      .kind = NIB_META_STRING,
                      .text = span.text,
                      .count = (int64_t)span.bytes};
}

/* A scalar that check_scalar has passed. */
static nib_meta scalar_meta(uint32_t type, const unsigned char *at)
{
    nib_meta meta = {.size = sizeof(meta), .kind = NIB_META_INT};
    float single;
    switch (type) {
    case GGUF_BOOL:
        meta.kind = NIB_META_BOOL;
        meta.integer = at[0];
        break;
    case GGUF_U8:
        meta.integer = at[0];
        break;
    case GGUF_I8:
        meta.integer = (int8_t)at[0];
        break;
    case GGUF_U16:
        meta.integer = nib_load_u16(at);
        break;
    case GGUF_I16:
        meta.integer = (int16_t)nib_load_u16(at);
        break;
    case GGUF_U32:
        meta.integer = nib_load_u32(at);
        break;
    case GGUF_I32:
        meta.integer = (int32_t)nib_load_u32(at);
        break;
    case GGUF_F32:
        meta.kind = NIB_META_FLOAT;
        memcpy(&single, at, sizeof(single));
        meta.real = single;
        break;
    case GGUF_F64:
        meta.kind = NIB_META_FLOAT;
        memcpy(&meta.real, at, sizeof(meta.real));
        break;
    default: /* U64, I64 */
        meta.integer = (int64_t)nib_load_u64(at);
        break;
    }
    return meta;
}

static void array_item(const nib_meta_array *array, int64_t index, nib_meta *out)
{
    if (array->type == GGUF_STRING) {
        const unsigned char *at = array->data + array->starts[index];
        *out = string_meta((nib_span){(const char *)at + 8, (size_t)nib_load_u64(at)});
    } else {
        *out = scalar_meta(array->type, array->data + index * scalar_bytes[array->type]);
    }
}

/* Values that their type cannot hold: unsigned numbers nib_meta has no room for, odd truths. */
static nib_status check_scalars(const nib_reader *reader, uint32_t type, const unsigned char *at,
                                int64_t count, const char *key)
{
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *value = at + i * scalar_bytes[type];
        if (type == GGUF_U64 && nib_load_u64(value) > INT64_MAX)
            return nib_fail(NIB_CORRUPT, "gguf: value of '%s' at byte %zu is above 2^63 - 1", key,
                            (size_t)(value - reader->data));
        if (type == GGUF_BOOL && value[0] > 1)
            return nib_fail(NIB_CORRUPT,
                            "gguf: value of '%s' at byte %zu is %d, expected a bool, 0 or 1", key,
                            (size_t)(value - reader->data), value[0]);
    }
    return NIB_OK;
}

static nib_status read_string_array(nib_file *file, nib_reader *reader, nib_meta_array *array,
                                    int64_t count)
{
    void *starts = NULL;
    nib_status status = nib_file_alloc(file, (size_t)count * sizeof(uint64_t), &starts);
    if (status)
        return status;
    array->data = reader->data + reader->at;
    array->starts = starts;
    for (int64_t i = 0; i < count && !status; i++) {
        nib_span item;
        ((uint64_t *)starts)[i] = (uint64_t)(reader->data + reader->at - array->data);
        status = read_string(reader, "string of an array", &item);
    }
    return status;
}

static nib_status read_array(nib_file *file, nib_reader *reader, const char *key, nib_meta *out)
{
    size_t start = reader->at;
    uint32_t type = 0;
    int64_t count = 0;
    void *memory = NULL;
    nib_status status = nib_reader_u32(reader, "array type", &type);
    if (status)
        return status;
    if (type == GGUF_ARRAY)
        return nib_fail(NIB_UNSUPPORTED,
                        "gguf: '%s' at byte %zu is an array of arrays, which nibblas does not read",
                        key, start);
    if (type >= GGUF_KINDS)
        return nib_fail(NIB_CORRUPT,
                        "gguf: array type of '%s' at byte %zu is %u, expected 0..12 but not 9", key,
                        start, type);
    status = nib_reader_count(reader, "array length",
                              type == GGUF_STRING ? LEAST_STRING : scalar_bytes[type], &count);
    if (!status)
        status = nib_file_alloc(file, sizeof(nib_meta_array), &memory);
    if (status)
        return status;
    nib_meta_array *array = memory;
    array->item = array_item;
    array->type = type;
    if (type == GGUF_STRING) {
        status = read_string_array(file, reader, array, count);
    } else {
        status =
            nib_reader_take(reader, "array", (uint64_t)count * scalar_bytes[type], &array->data);
        if (!status && (type == GGUF_U64 || type == GGUF_BOOL))
            status = check_scalars(reader, type, array->data, count, key);
    }
    if (!status)
        *out = (nib_meta){
            .size = sizeof(*out), .kind = NIB_META_ARRAY, .count = count, .items = array};
    return status;
}

static nib_status read_value(nib_file *file, nib_reader *reader, const char *key, nib_meta *out)
{
    size_t start = reader->at;
    uint32_t type = 0;
    const unsigned char *at = NULL;
    nib_span span;
    nib_status status = nib_reader_u32(reader, "metadata type", &type);
    if (status)
        return status;
    if (type >= GGUF_KINDS)
        return nib_fail(NIB_CORRUPT,
                        "gguf: metadata type of '%s' at byte %zu is %u, expected 0..12", key, start,
                        type);
    if (type == GGUF_ARRAY)
        return read_array(file, reader, key, out);
    if (type == GGUF_STRING) {
        status = read_string(reader, "metadata string", &span);
        if (!status)
            *out = string_meta(span);
        return status;
    }
    status = nib_reader_take(reader, "metadata value", scalar_bytes[type], &at);
    if (!status)
        status = check_scalars(reader, type, at, 1, key);
    if (!status)
        *out = scalar_meta(type, at);
    return status;
}

/* A key or name, copied so that it ends with a NUL. */
static nib_status read_name(nib_file *file, nib_reader *reader, const char *field, const char **out)
{
    size_t start = reader->at;
    nib_span span;
    nib_status status = read_string(reader, field, &span);
    return status ? status : nib_file_name(file, span, field, start, out);
}

static nib_status read_metas(nib_file *file, nib_reader *reader, int64_t count, uint64_t *alignment)
{
    nib_status status = nib_file_reserve(file, 0, count);
    for (int64_t i = 0; i < count && !status; i++) {
        nib_meta_entry meta = {.where = reader->at};
        status = read_name(file, reader, "metadata key", &meta.key);
        size_t start = reader->at;
        if (!status)
            status = read_value(file, reader, meta.key, &meta.value);
        if (!status)
            status = nib_file_add_meta(file, &meta);
        if (status || strcmp(meta.key, "general.alignment"))
            continue;
        int64_t value = meta.value.integer;
        if (meta.value.kind != NIB_META_INT || value < 8 || value > MOST_ALIGNMENT ||
            (value & (value - 1)))
            return nib_fail(NIB_CORRUPT,
                            "gguf: general.alignment at byte %zu is %" PRId64
                            ", expected a power of two from 8 to %d",
                            start, value, MOST_ALIGNMENT);
        *alignment = (uint64_t)value;
    }
    return status;
}

static nib_status read_shape(nib_reader *reader, nib_entry *entry)
{
    size_t start = reader->at;
    uint32_t rank = 0;
    nib_status status = nib_reader_u32(reader, "tensor rank", &rank);
    if (status)
        return status;
    if (rank > NIB_TENSOR_RANK)
        return nib_fail(NIB_CORRUPT,
                        "gguf: rank of tensor '%s' at byte %zu is %u, expected at most %d",
                        entry->name, start, rank, NIB_TENSOR_RANK);
    entry->rank = (int32_t)rank;
    for (uint32_t i = 0; i < rank && !status; i++)
        status = nib_reader_i64(reader, "tensor extent", &entry->shape[rank - 1 - i]);
    return status;
}

/* `offset` counts from the beginning of the data: see place. */
static nib_status read_tensor(nib_file *file, nib_reader *reader, nib_entry *entry,
                              uint64_t *offset)
{
    uint32_t type = 0;
    entry->where = reader->at;
    nib_status status = read_name(file, reader, "tensor name", &entry->name);
    if (!status)
        status = read_shape(reader, entry);
    size_t start = reader->at;
    if (!status)
        status = nib_reader_u32(reader, "tensor type", &type);
    if (status)
        return status;
    entry->element = nib_gguf_element(type);
    if (!entry->element)
        return nib_fail(NIB_UNSUPPORTED,
                        "gguf: type of tensor '%s' at byte %zu is %u, which nibblas does not know",
                        entry->name, start, type);
    status = nib_reader_u64(reader, "tensor offset", offset);
    if (!status)
        status = nib_file_tensor_bytes(file, entry, &entry->bytes);
    return status;
}

/* Turns an offset into a pointer, now that the data's beginning is known. */
static nib_status place(const nib_file *file, nib_entry *entry, uint64_t offset, size_t data,
                        uint64_t alignment)
{
    size_t left = file->bytes - data;
    if (offset % alignment)
        return nib_fail(NIB_CORRUPT,
                        "gguf: offset of tensor '%s' (described at byte %" PRIu64 ") is %" PRIu64
                        ", no multiple of the alignment %" PRIu64,
                        entry->name, entry->where, offset, alignment);
    if (offset > left || entry->bytes > left - offset)
        return nib_fail(NIB_CORRUPT,
                        "gguf: tensor '%s' (described at byte %" PRIu64 ") takes %" PRIu64
                        " bytes at offset %" PRIu64 ", past the end of the data, which begins at "
                        "byte %zu and has %zu",
                        entry->name, entry->where, entry->bytes, offset, data, left);
    entry->data = file->data + data + offset;
    return NIB_OK;
}

/* The place of the data is known once all tensors are described: offsets wait until then. */
static nib_status read_tensors(nib_file *file, nib_reader *reader, int64_t count,
                               uint64_t alignment)
{
    void *memory = NULL;
    nib_status status = nib_file_reserve(file, count, 0);
    if (!status)
        status = nib_file_alloc(file, (size_t)count * sizeof(uint64_t), &memory);
    uint64_t *offsets = memory;
    for (int64_t i = 0; i < count && !status; i++) {
        nib_entry entry = {0};
        status = read_tensor(file, reader, &entry, &offsets[i]);
        if (!status)
            status = nib_file_add(file, &entry);
    }
    if (status)
        return status;
    size_t data = (size_t)nib_round_up((int64_t)reader->at, (int64_t)alignment);
    if (data > file->bytes)
        data = file->bytes; /* without tensors the padding may be missing; with, place complains */
    for (int64_t i = 0; i < count && !status; i++)
        status = place(file, &file->entries[i], offsets[i], data, alignment);
    return status;
}

static nib_status check_version(uint32_t version)
{
    if (version == 2 || version == 3)
        return NIB_OK;
    if (version && !(version & 0xffff))
        return nib_fail(NIB_UNSUPPORTED,
                        "gguf: version at byte 4 is 0x%x: a big endian file; expected a little "
                        "endian one",
                        version);
    return nib_fail(version == 1 ? NIB_UNSUPPORTED : NIB_CORRUPT,
                    "gguf: version at byte 4 is %u, expected 2 or 3", version);
}

static nib_status open_gguf(nib_file *file)
{
    nib_reader reader = nib_file_reader(file);
    uint32_t version = 0;
    int64_t tensors = 0, metas = 0;
    uint64_t alignment = DEFAULT_ALIGNMENT;
    reader.at = 4;
    nib_status status = nib_reader_u32(&reader, "version", &version);
    if (!status)
        status = check_version(version);
    if (!status)
        status = nib_reader_count(&reader, "tensor count", LEAST_TENSOR, &tensors);
    if (!status)
        status = nib_reader_count(&reader, "metadata count", LEAST_META, &metas);
    if (!status)
        status = read_metas(file, &reader, metas, &alignment);
    if (!status)
        status = read_tensors(file, &reader, tensors, alignment);
    return status;
}

const nib_format nib_format_gguf = {.name = "gguf", .is = is_gguf, .open = open_gguf};
