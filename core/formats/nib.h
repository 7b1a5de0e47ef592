/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a .nib file, for its reader (nib_read.c) and its writer (nib_write.c,
 * nib_source.c). docs/formats.md describes them one by one.
 *
 *     header       64 bytes
 *     sections     each at the next multiple of 64, in the order of the directory
 *     directory    at the next multiple of 64, to the end of the file
 */
#ifndef NIB_FORMATS_NIB_H
#define NIB_FORMATS_NIB_H

#include "formats/element.h"
#include "formats/nibfile.h"

#define NIB_FILE_MAGIC   "\x89NIB\r\n\x1a\n" /* a transfer as text would change it */
#define NIB_FILE_VERSION 1
#define NIB_FILE_ALIGN   64

/* Places of the header's fields. */
enum {
    NIB_FILE_AT_MAGIC = 0,
    NIB_FILE_AT_VERSION = 8,
    NIB_FILE_AT_HEADER_BYTES = 12,
    NIB_FILE_AT_FILE_BYTES = 16,
    NIB_FILE_AT_DIRECTORY = 24,
    NIB_FILE_AT_DIRECTORY_BYTES = 32,
    NIB_FILE_AT_DIRECTORY_HASH = 40,
    NIB_FILE_AT_RESERVED = 48,
    NIB_FILE_AT_HEADER_HASH = 56, /* of all before it */
    NIB_FILE_HEADER_BYTES = 64
};

/* Kinds of tensors in the directory. */
enum { NIB_FILE_DENSE = 0, NIB_FILE_WEIGHTS = 1 };

typedef struct nib_section {
    uint64_t offset, bytes, hash;
} nib_section;

/* "scales" and so on, for messages. */
const char *nib_section_name(nib_section_kind kind);

/* The element of a dense type, NULL for types that .nib files do not hold. */
const nib_element *nib_dense_element(nib_type type);
const nib_element *nib_dense_element_named(const char *name);

/* Checks that texts, sizes and description of stored weights fit each other; the description must
 * be canonical. NIB_INVALID with the part that is wrong. */
nib_status nib_stored_check(const nib_stored_weights *weights);

#endif
