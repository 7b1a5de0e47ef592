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
    int64_t date; /* of its compilation, seconds since 1970 */
    char *path;   /* owned, like the next two, and never NULL: "" is none */
    char *compiler;
    char *log; /* of the compiler */
} nib_blob;

/* What a blob is made of; texts are copied and may be NULL. */
typedef struct nib_blob_parts {
    nib_image_origin origin;
    void *data;
    uint64_t bytes;
    int64_t date;
    const char *path, *compiler, *log;
} nib_blob_parts;

/* With one holder. Takes `data`, also on failure. NIB_NO_MEMORY. */
nib_status nib_blob_create(const nib_blob_parts *parts, nib_blob **out);
void nib_blob_hold(nib_blob *blob);
void nib_blob_drop(nib_blob *blob);

#endif
