/* SPDX-License-Identifier: Apache-2.0
 *
 * Where packs lie: files *.nibpack that NIB_PACK_PATH names (files or folders, ':' between them),
 * else those that were installed or built with the library.
 */
#ifndef NIB_JIT_PACKS_H
#define NIB_JIT_PACKS_H

#include "jit/blob.h"
#include "jit/pack.h"

/* Paths of files, owned. */
typedef struct nib_pack_paths {
    char **items;
    size_t count, room;
} nib_pack_paths;

/* All packs in the order of search; folders that are not there are logged and skipped.
 * NIB_NO_MEMORY. */
nib_status nib_packs_list(nib_pack_paths *out);
void nib_packs_list_free(nib_pack_paths *paths);

/* An image from the first pack that has it. Packs are looked for once a process, and opened when
 * their backend is first asked for. NIB_MISSING: none has it; a damaged one is logged and skipped.
 */
nib_status nib_packs_find(const char *backend, const nib_key *key, nib_blob **out);

#endif
