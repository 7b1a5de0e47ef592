/* SPDX-License-Identifier: Apache-2.0
 *
 * The one hash of the library: XXH3, of 64 bits mostly. It identifies configs and layouts and
 * checks sections of files against accidents; it is no protection against forgery.
 */
#ifndef NIB_BASE_HASH_H
#define NIB_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t nib_hash(const void *data, size_t bytes);
uint64_t nib_hash_text(const char *text);

/* The same hash of bytes that come in pieces. */
typedef struct nib_hasher nib_hasher;
nib_hasher *nib_hasher_create(void); /* NULL: no memory */
void nib_hasher_destroy(nib_hasher *hasher);
void nib_hasher_restart(nib_hasher *hasher);
void nib_hasher_add(nib_hasher *hasher, const void *data, size_t bytes);
uint64_t nib_hasher_value(const nib_hasher *hasher);

/* XXH3, 128 bits, of texts with their final NULs, for identities that many parts decide: two lists
 * of texts hash alike only by accident. False: no memory. */
bool nib_hash_texts(const char *const *texts, size_t count, unsigned char out[16]);

#endif
