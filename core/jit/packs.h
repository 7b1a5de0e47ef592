/* SPDX-License-Identifier: Apache-2.0
 *
 * The packs of this process: files *.nibpack that NIB_PACK_PATH names (files or folders, ':'
 * between them), else those that lie by the library or the program. Looked for once.
 */
#ifndef NIB_JIT_PACKS_H
#define NIB_JIT_PACKS_H

#include "jit/blob.h"
#include "jit/key.h"

/* An image from the first pack that has it. NIB_MISSING: none has; a damaged one is logged. */
nib_status nib_packs_find(const char *backend, const nib_key *key, nib_blob **out);

#endif
