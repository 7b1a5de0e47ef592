/* SPDX-License-Identifier: Apache-2.0
 *
 * npy, versions 1 to 3: a magic, a Python dictionary {'descr', 'fortran_order', 'shape'}, the data
 * of one array in C order, which is listed under the name "array".
 */
#include "formats/scan.h"

#include <inttypes.h>

/* clang-format off */
static const nib_element elements[] = {
    {"<f4", NIB_F32,       1, 4, nib_element_f32, NULL},
    {"<f2", NIB_F16,       1, 2, nib_element_f16, NULL},
    {"<f8", NIB_TYPE_NONE, 1, 8, nib_element_f64, NULL},
    {"|i1", NIB_I8,        1, 1, nib_element_i8,  NULL},
    {"<i2", NIB_TYPE_NONE, 1, 2, nib_element_i16, NULL},
    {"<i4", NIB_I32,       1, 4, nib_element_i32, NULL},
    {"<i8", NIB_TYPE_NONE, 1, 8, nib_element_i64, NULL},
    {"|u1", NIB_U8,        1, 1, nib_element_u8,  NULL},
    {"<u2", NIB_TYPE_NONE, 1, 2, nib_element_u16, NULL},
    {"<u4", NIB_TYPE_NONE, 1, 4, nib_element_u32, NULL},
    {"<u8", NIB_TYPE_NONE, 1, 8, nib_element_u64, NULL},
    {"|b1", NIB_TYPE_NONE, 1, 1, nib_element_u8,  NULL},
};
/* clang-format on */

enum { ELEMENTS = sizeof(elements) / sizeof(elements[0]) };
enum { SEEN_DESCR = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4, SEEN_ALL = 7 };

static bool is_npy(const unsigned char *data, size_t bytes)
{
    return bytes >= 6 && !memcmp(data, "\x93NUMPY", 6);
}

/* A quoted string; those that count here have no escapes. */
static nib_status read_string(nib_reader *reader, const char *field, nib_span *out)
{
    int quote = nib_scan_peek(reader);
    if (quote != '\'' && quote != '"')
        return nib_scan_complain(reader, field, "a quoted string");
    const unsigned char *start = reader->data + reader->at + 1;
    const unsigned char *end = memchr(start, quote, reader->bytes - reader->at - 1);
    if (!end)
        return nib_fail(NIB_CORRUPT, "npy: %s at byte %zu has no closing quote", field, reader->at);
    *out = (nib_span){(const char *)start, (size_t)(end - start)};
    reader->at += out->bytes + 2;
    return NIB_OK;
}

static nib_status read_descr(nib_reader *reader, nib_entry *entry)
{
    nib_span text = {NULL, 0};
    nib_scan_peek(reader);
    size_t start = reader->at;
    if (nib_scan_peek(reader) == '[')
        return nib_fail(NIB_UNSUPPORTED,
                        "npy: descr at byte %zu is a structured type, expected one such as '<f4'",
                        start);
    nib_status status = read_string(reader, "descr", &text);
    if (status)
        return status;
    for (int i = 0; i < ELEMENTS && !entry->element; i++)
        if (text.bytes == 3 && !memcmp(text.text, elements[i].name, 3))
            entry->element = &elements[i];
    if (!entry->element)
        return nib_fail(NIB_UNSUPPORTED,
                        "npy: descr at byte %zu is '%.*s', expected a little endian type such as "
                        "'<f4', '<f2' or '|i1'",
                        start, text.bytes > 32 ? 32 : (int)text.bytes, text.text);
    return NIB_OK;
}

static nib_status read_order(nib_reader *reader, bool *fortran)
{
    nib_scan_peek(reader);
    size_t left = reader->bytes - reader->at;
    const unsigned char *at = reader->data + reader->at;
    *fortran = left >= 4 && !memcmp(at, "True", 4);
    if (!*fortran && !(left >= 5 && !memcmp(at, "False", 5)))
        return nib_scan_complain(reader, "fortran_order", "True or False");
    reader->at += *fortran ? 4 : 5;
    return NIB_OK;
}

/* (), (3,), (3, 4): a comma may stand at the end. */
static nib_status read_shape(nib_reader *reader, nib_entry *entry)
{
    nib_status status = nib_scan_expect(reader, "shape", '(');
    while (!status && !nib_scan_accept(reader, ')')) {
        if (entry->rank == NIB_TENSOR_RANK)
            return nib_fail(NIB_UNSUPPORTED, "npy: shape at byte %zu has more than %d extents",
                            reader->at, NIB_TENSOR_RANK);
        status = nib_scan_int(reader, "extent", &entry->shape[entry->rank]);
        entry->rank++;
        if (!status && !nib_scan_accept(reader, ',') && nib_scan_peek(reader) != ')')
            status = nib_scan_complain(reader, "shape", "',' or ')'");
    }
    return status;
}

static nib_status read_field(nib_reader *reader, nib_entry *entry, bool *fortran, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    nib_span key = {NULL, 0};
    size_t start = reader->at;
    nib_status status = read_string(reader, "key", &key);
    if (!status)
        status = nib_scan_expect(reader, "key", ':');
    if (status)
        return status;
    unsigned bit = 0;
    for (unsigned i = 0; i < 3; i++)
        if (key.bytes == strlen(keys[i]) && !memcmp(key.text, keys[i], key.bytes))
            bit = 1u << i;
    if (!bit || *seen & bit)
        return nib_fail(NIB_CORRUPT, "npy: key '%.*s' at byte %zu %s",
                        key.bytes > 32 ? 32 : (int)key.bytes, key.text, start,
                        bit ? "stands twice" : "is none of descr, fortran_order, shape");
    *seen |= bit;
    return bit == SEEN_DESCR   ? read_descr(reader, entry)
           : bit == SEEN_ORDER ? read_order(reader, fortran)
                               : read_shape(reader, entry);
}

static nib_status read_dictionary(nib_reader *reader, nib_entry *entry)
{
    bool fortran = false;
    unsigned seen = 0;
    size_t start = reader->at;
    nib_status status = nib_scan_expect(reader, "header", '{');
    while (!status && !nib_scan_accept(reader, '}')) {
        status = read_field(reader, entry, &fortran, &seen);
        if (!status && !nib_scan_accept(reader, ',') && nib_scan_peek(reader) != '}')
            status = nib_scan_complain(reader, "header", "',' or '}'");
    }
    if (!status && nib_scan_peek(reader) >= 0)
        status = nib_scan_complain(reader, "header", "nothing but blanks");
    if (status)
        return status;
    if (seen != SEEN_ALL)
        return nib_fail(NIB_CORRUPT, "npy: header at byte %zu lacks %s", start,
                        !(seen & SEEN_DESCR)   ? "descr"
                        : !(seen & SEEN_ORDER) ? "fortran_order"
                                               : "shape");
    if (fortran && entry->rank > 1)
        return nib_fail(NIB_UNSUPPORTED,
                        "npy: fortran_order in the header at byte %zu is True: save the array in "
                        "C order (numpy.ascontiguousarray)",
                        start);
    return NIB_OK;
}

/* Bytes of the dictionary: two for version 1, four since. */
static nib_status read_length(nib_reader *reader, size_t *out)
{
    uint8_t major = 0, minor = 0;
    uint16_t narrow = 0;
    uint32_t wide = 0;
    nib_status status = nib_reader_u8(reader, "version", &major);
    if (!status)
        status = nib_reader_u8(reader, "version", &minor);
    if (status)
        return status;
    if (major < 1 || major > 3 || minor)
        return nib_fail(NIB_UNSUPPORTED, "npy: version at byte 6 is %u.%u, expected 1.0 to 3.0",
                        major, minor);
    status = major == 1 ? nib_reader_u16(reader, "header length", &narrow)
                        : nib_reader_u32(reader, "header length", &wide);
    *out = major == 1 ? narrow : wide;
    return status;
}

static nib_status open_npy(nib_file *file)
{
    nib_reader reader = nib_file_reader(file);
    size_t header = 0;
    reader.at = 6;
    nib_status status = read_length(&reader, &header);
    nib_entry entry = {.name = "array", .where = reader.at};
    if (!status)
        status = nib_reader_take(&reader, "header", header, NULL);
    if (status)
        return status;
    nib_reader text = reader;
    text.at = (size_t)entry.where;
    text.bytes = reader.at;
    status = read_dictionary(&text, &entry);
    if (!status)
        status = nib_file_tensor_bytes(file, &entry, &entry.bytes);
    if (!status)
        status = nib_reader_take(&reader, "array", entry.bytes, &entry.data);
    if (status)
        return status;
    if (reader.at != reader.bytes)
        return nib_fail(NIB_CORRUPT, "npy: the array ends at byte %zu, but the file has %zu bytes",
                        reader.at, reader.bytes);
    return nib_file_add(file, &entry);
}

const nib_format nib_format_npy = {.name = "npy", .is = is_npy, .open = open_npy};
