/* SPDX-License-Identifier: Apache-2.0
 *
 * Identities of kernel images: 128 bits of hash over backend, ISA, format, spec, the files' names
 * and texts, and flags. The label and the compiler are not part of it.
 */
#ifndef NIB_JIT_KEY_H
#define NIB_JIT_KEY_H

#include <nibblas/backend.h>
#include <stdbool.h>

enum { NIB_KEY_BYTES = 16, NIB_KEY_TEXT_BYTES = 33 };

typedef struct nib_key {
    unsigned char bytes[NIB_KEY_BYTES];
} nib_key;

/* Refuses what could not be stored: a name that leaves its folder, a control character in a line of
 * text. Copies into `out` and makes NULL texts empty. NIB_INVALID with the reason. */
nib_status nib_request_check(const nib_image_request *request, nib_image_request *out);

/* The identity of a checked request. NIB_NO_MEMORY. */
nib_status nib_key_of(const nib_image_request *request, nib_key *out);

/* 32 hexadecimal digits, and back; nothing else is a key. */
void nib_key_print(const nib_key *key, char out[NIB_KEY_TEXT_BYTES]);
bool nib_key_parse(const char *text, nib_key *out);
bool nib_key_equal(const nib_key *a, const nib_key *b);

/* Whether a name of a file may be stored: relative, of plain components. */
bool nib_file_name_fits(const char *name);

#endif
