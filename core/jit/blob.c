/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted bytes of images: see blob.h.
 */
#include "jit/blob.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static void destroy(nib_blob *blob)
{
    free(blob->data);
    free(blob->path);
    free(blob->compiler);
    free(blob->log);
    free(blob);
}

nib_status nib_blob_create(const nib_blob_parts *parts, nib_blob **out)
{
    nib_blob *blob = calloc(1, sizeof(*blob));
    if (!blob) {
        free(parts->data);
        return nib_fail(NIB_NO_MEMORY, "no memory for an image");
    }
    atomic_init(&blob->holders, 1);
    blob->origin = parts->origin;
    blob->data = parts->data;
    blob->bytes = parts->bytes;
    blob->date = parts->date;
    blob->path = strdup(parts->path ? parts->path : "");
    blob->compiler = strdup(parts->compiler ? parts->compiler : "");
    blob->log = strdup(parts->log ? parts->log : "");
    if (!blob->path || !blob->compiler || !blob->log) {
        destroy(blob);
        return nib_fail(NIB_NO_MEMORY, "no memory for an image");
    }
    *out = blob;
    return NIB_OK;
}

void nib_blob_hold(nib_blob *blob)
{
    atomic_fetch_add_explicit(&blob->holders, 1, memory_order_relaxed);
}

void nib_blob_drop(nib_blob *blob)
{
    /* The last one to drop must see what the others did with it. */
    if (blob && atomic_fetch_sub_explicit(&blob->holders, 1, memory_order_acq_rel) == 1)
        destroy(blob);
}
