/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files read and written whole, and folders, for the cache: no FIFO is waited for, no link
 * followed into what is removed.
 */
#ifndef NIB_JIT_DISK_H
#define NIB_JIT_DISK_H

#include "base/status.h"

#include <stdbool.h>

enum { NIB_PATH_BYTES = 4096 };

/* "folder/name". False: too long. `out` may not be `folder`. */
bool nib_path_join(char out[NIB_PATH_BYTES], const char *folder, const char *name);

/* Reads a regular file of exactly `bytes`, or, with `bytes` SIZE_MAX, of at most `most`. `out` is
 * from aligned_alloc(16), with a NUL behind. NIB_MISSING: not there or not readable; NIB_CORRUPT:
 * something else, or of another size. */
nib_status nib_disk_read(const char *path, size_t bytes, size_t most, void **out, size_t *got);

/* Creates a file, which must not be there. With `sync`, its bytes are on the disk afterwards. */
nib_status nib_disk_write(const char *path, const void *data, size_t bytes, bool sync);

/* Creates a folder and those above it, for this user alone. False: errno says why. */
bool nib_disk_make(const char *path);
/* Creates the folders above a path. */
bool nib_disk_make_above(const char *path);

/* Removes a file or a folder with all in it. False when something is left; errno says why. */
bool nib_disk_remove(const char *path);

#endif
