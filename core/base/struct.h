/* SPDX-License-Identifier: Apache-2.0
 *
 * Versioned structs. Every public struct begins with its size as the caller knows it. Reading one
 * copies what the caller has and zeroes the rest; writing one fills no more than the caller has.
 */
#ifndef NIB_BASE_STRUCT_H
#define NIB_BASE_STRUCT_H

#include "base/status.h"

/* Reads `from` into a struct of `bytes` at `to`. NIB_INVALID: a size below `least`, the first
 * version of the struct, or one that no struct has. NIB_UNSUPPORTED: a newer struct that uses a
 * field this library does not know. */
nib_status nib_struct_read(void *to, size_t bytes, const void *from, size_t least,
                           const char *name);

/* Writes `from`, a struct of `bytes`, over the caller's `to`, keeping the caller's size field. */
nib_status nib_struct_write(void *to, const void *from, size_t bytes, size_t least,
                            const char *name);

#endif
