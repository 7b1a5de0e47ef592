/* SPDX-License-Identifier: Apache-2.0
 *
 * A cursor over the bytes of a file. Every read is checked against the end and fails with
 * NIB_CORRUPT, the field's name and the byte it begins at. Numbers are little endian.
 */
#ifndef NIB_FORMATS_READER_H
#define NIB_FORMATS_READER_H

#include "base/status.h"

#include <string.h>

typedef struct nib_reader {
    const char *format; /* "gguf": begins every message */
    const unsigned char *data;
    size_t bytes;
    size_t at; /* never past bytes */
} nib_reader;

/* Text of a file: not NUL-terminated, in the file's memory. */
typedef struct nib_span {
    const char *text;
    size_t bytes;
} nib_span;

nib_status nib_reader_u8(nib_reader *reader, const char *field, uint8_t *out);
nib_status nib_reader_u16(nib_reader *reader, const char *field, uint16_t *out);
nib_status nib_reader_u32(nib_reader *reader, const char *field, uint32_t *out);
nib_status nib_reader_u64(nib_reader *reader, const char *field, uint64_t *out);
/* A u64 that has to be an int64_t. */
nib_status nib_reader_i64(nib_reader *reader, const char *field, int64_t *out);
/* Steps over `bytes`, which `out` (may be NULL) then points at. */
nib_status nib_reader_take(nib_reader *reader, const char *field, uint64_t bytes,
                           const unsigned char **out);
/* A u64 count of things that take at least `least` bytes each: refused when the rest of the file
 * cannot hold them, so that memory for them stays in proportion to the file. */
nib_status nib_reader_count(nib_reader *reader, const char *field, size_t least, int64_t *out);

static inline uint16_t nib_load_u16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint32_t nib_load_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint64_t nib_load_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

#endif
