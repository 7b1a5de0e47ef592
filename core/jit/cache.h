/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel cache on disk: a folder for each key, shared by all processes of a user. A key's lock
 * is held by whoever compiles it, and only its holder changes anything about the key: so a
 * temporary whose lock is free was left by a process that died.
 */
#ifndef NIB_JIT_CACHE_H
#define NIB_JIT_CACHE_H

#include "jit/blob.h"
#include "jit/disk.h"
#include "jit/key.h"

/* The folder of the entries: NIB_CACHE_DIR, $XDG_CACHE_HOME/nibblas or ~/.cache/nibblas, and
 * "/kernels". NIB_MISSING: none of the variables is set. */
nib_status nib_cache_folder(char out[NIB_PATH_BYTES]);

/* An image from the cache or the compiler. NIB_MISSING: neither has it. */
nib_status nib_cache_get(const nib_image_request *request, const nib_key *key, nib_blob **out);

/* From the cache alone, without waiting for anybody. NIB_MISSING: no good entry is there. */
nib_status nib_cache_find(const nib_image_request *request, const nib_key *key, nib_blob **out);

/* Removes an entry (NULL: all), what was moved aside and what died processes left; entries that are
 * being made stay. `removed` counts the entries. NIB_MISSING: something could not be removed. */
nib_status nib_cache_clear(const nib_key *key, uint64_t *removed);

#endif
