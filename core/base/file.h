/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: read-only mappings, and new files that appear whole or not at all. Messages carry the path
 * and the system's reason.
 */
#ifndef NIB_BASE_FILE_H
#define NIB_BASE_FILE_H

#include "base/status.h"

#include <stdio.h>

typedef struct nib_mapping {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
} nib_mapping;

/* Maps a regular file. NIB_MISSING: it cannot be opened. */
nib_status nib_map_open(const char *path, nib_mapping *out);
void nib_map_close(nib_mapping *map);

/* A file under construction beside its final path. */
typedef struct nib_new_file {
    FILE *stream;
    char *path;
    char *temporary;
} nib_new_file;

/* Creates the temporary. NIB_MISSING: the folder is not there or not writable. NIB_INVALID: the
 * path is a folder, a device or a FIFO, which is not replaced. */
nib_status nib_new_file_create(const char *path, nib_new_file *out);
/* Flushes to the disk, closes and renames over the path. On failure removes the temporary. Either
 * way nothing of the new file is left to release. */
nib_status nib_new_file_commit(nib_new_file *file);
/* Closes and removes the temporary. Harmless on a zeroed or already ended file. */
void nib_new_file_discard(nib_new_file *file);

#endif
