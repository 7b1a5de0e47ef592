/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of an image with where they came from, counted: threads that asked together share one.
 */
#ifndef NIB_JIT_BLOB_H
#define NIB_JIT_BLOB_H

#include <nibblas/backend.h>
#include <stdatomic.h>

typedef struct nib_blob {
    atomic_int holders;
    nib_image_origin origin;
    void *data; /* owned: from aligned_alloc(16), with a NUL behind */
    uint64_t bytes;
    char *path; /* owned; NULL: none */
} nib_blob;

/* With one holder. Takes `data`, also on failure, and copies `path` (may be NULL). NULL: no memory.
 */
nib_blob *nib_blob_create(nib_image_origin origin, void *data, uint64_t bytes, const char *path);
void nib_blob_hold(nib_blob *blob);
void nib_blob_drop(nib_blob *blob);

#endif
