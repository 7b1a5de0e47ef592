/* SPDX-License-Identifier: Apache-2.0
 *
 * The one hash of the library: XXH3, 64 bits. It identifies configs and layouts and checks sections
 * of files against accidents; it is no protection against forgery.
 */
#ifndef NIB_BASE_HASH_H
#define NIB_BASE_HASH_H

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

#endif
