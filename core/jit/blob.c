/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted bytes of images: see blob.h.
 */
#include "jit/blob.h"

#include <stdlib.h>
#include <string.h>

nib_blob *nib_blob_create(nib_image_origin origin, void *data, uint64_t bytes, const char *path)
{
    nib_blob *blob = calloc(1, sizeof(*blob));
    char *copy = blob && path ? strdup(path) : NULL;
    if (!blob || (path && !copy)) {
        free(blob);
        free(data);
        return NULL;
    }
    atomic_init(&blob->holders, 1);
    blob->origin = origin;
    blob->data = data;
    blob->bytes = bytes;
    blob->path = copy;
    return blob;
}

void nib_blob_hold(nib_blob *blob)
{
    atomic_fetch_add_explicit(&blob->holders, 1, memory_order_relaxed);
}

void nib_blob_drop(nib_blob *blob)
{
    /* The last one to drop must see what the others did with it. */
    if (!blob || atomic_fetch_sub_explicit(&blob->holders, 1, memory_order_acq_rel) != 1)
        return;
    free(blob->data);
    free(blob->path);
    free(blob);
}
