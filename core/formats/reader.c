/* SPDX-License-Identifier: Apache-2.0
 *
 * The checked cursor: see reader.h.
 */
#include "formats/reader.h"

#include <inttypes.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are little endian and are read in place: this host is not"
#endif

nib_status nib_reader_take(nib_reader *reader, const char *field, uint64_t bytes,
                           const unsigned char **out)
{
    size_t left = reader->bytes - reader->at;
    if (bytes > left)
        return nib_fail(NIB_CORRUPT,
                        "%s: %s at byte %zu takes %" PRIu64 " bytes, but only %zu are left",
                        reader->format, field, reader->at, bytes, left);
    if (out)
        *out = reader->data + reader->at;
    reader->at += (size_t)bytes;
    return NIB_OK;
}

nib_status nib_reader_u8(nib_reader *reader, const char *field, uint8_t *out)
{
    const unsigned char *at = NULL;
    nib_status status = nib_reader_take(reader, field, 1, &at);
    if (!status)
        *out = *at;
    return status;
}

nib_status nib_reader_u16(nib_reader *reader, const char *field, uint16_t *out)
{
    const unsigned char *at = NULL;
    nib_status status = nib_reader_take(reader, field, sizeof(*out), &at);
    if (!status)
        *out = nib_load_u16(at);
    return status;
}

nib_status nib_reader_u32(nib_reader *reader, const char *field, uint32_t *out)
{
    const unsigned char *at = NULL;
    nib_status status = nib_reader_take(reader, field, sizeof(*out), &at);
    if (!status)
        *out = nib_load_u32(at);
    return status;
}

nib_status nib_reader_u64(nib_reader *reader, const char *field, uint64_t *out)
{
    const unsigned char *at = NULL;
    nib_status status = nib_reader_take(reader, field, sizeof(*out), &at);
    if (!status)
        *out = nib_load_u64(at);
    return status;
}

nib_status nib_reader_i64(nib_reader *reader, const char *field, int64_t *out)
{
    size_t start = reader->at;
    uint64_t value = 0;
    nib_status status = nib_reader_u64(reader, field, &value);
    if (status)
        return status;
    if (value > INT64_MAX)
        return nib_fail(NIB_CORRUPT, "%s: %s at byte %zu is %" PRIu64 ", above 2^63 - 1",
                        reader->format, field, start, value);
    *out = (int64_t)value;
    return NIB_OK;
}

nib_status nib_reader_count(nib_reader *reader, const char *field, size_t least, int64_t *out)
{
    size_t start = reader->at;
    uint64_t value = 0;
    nib_status status = nib_reader_u64(reader, field, &value);
    if (status)
        return status;
    size_t left = reader->bytes - reader->at;
    if (value > left / least)
        return nib_fail(NIB_CORRUPT,
                        "%s: %s at byte %zu is %" PRIu64 ", but the %zu bytes left hold at most "
                        "%zu",
                        reader->format, field, start, value, left, left / least);
    *out = (int64_t)value;
    return NIB_OK;
}
