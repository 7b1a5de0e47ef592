/* SPDX-License-Identifier: Apache-2.0
 *
 * Guarded buffers: see canary.h.
 */
#include "support/canary.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Wider than any vector store or tile row that might run over. A multiple of 64. */
enum { GUARD = 4096 };

nib_status test_canary_create(nib_device *dev, size_t body_bytes, size_t shift, test_canary *out)
{
    test_canary canary = {.dev = dev,
                          .body = GUARD + shift,
                          .body_bytes = body_bytes,
                          .bytes = GUARD + shift + body_bytes + GUARD};
    canary.image = malloc(canary.bytes);
    if (!canary.image)
        return nib_fail(NIB_NO_MEMORY, "no memory for %zu guarded bytes", body_bytes);
    nib_status status = nib_memory_alloc(dev, canary.bytes, &canary.memory);
    if (status) {
        free(canary.image);
        return status;
    }
    *out = canary;
    return NIB_OK;
}

void test_canary_destroy(test_canary *canary)
{
    if (canary->memory)
        nib_memory_free(canary->dev, canary->memory);
    free(canary->image);
    *canary = (test_canary){0};
}

void *test_canary_device(const test_canary *canary)
{
    return (unsigned char *)canary->memory + canary->body;
}

unsigned char *test_canary_host(const test_canary *canary)
{
    return canary->image + canary->body;
}

static nib_status copy(test_canary *canary, nib_copy_kind kind)
{
    void *to = kind == NIB_COPY_TO_DEVICE ? canary->memory : canary->image;
    const void *from = kind == NIB_COPY_TO_DEVICE ? canary->image : canary->memory;
    nib_status status = nib_memory_copy(canary->dev, to, from, canary->bytes, kind, NULL);
    return status ? status : nib_stream_synchronize(canary->dev, NULL);
}

nib_status test_canary_poison(test_canary *canary, unsigned char poison)
{
    memset(canary->image, poison, canary->bytes);
    return copy(canary, NIB_COPY_TO_DEVICE);
}

nib_status test_canary_upload(test_canary *canary)
{
    return copy(canary, NIB_COPY_TO_DEVICE);
}

nib_status test_canary_download(test_canary *canary)
{
    return copy(canary, NIB_COPY_TO_HOST);
}

bool test_canary_intact(const test_canary *canary, unsigned char poison, int64_t *where)
{
    for (size_t i = 0; i < canary->bytes; i++) {
        if (i == canary->body)
            i += canary->body_bytes;
        if (i < canary->bytes && canary->image[i] != poison) {
            *where = (int64_t)i - (int64_t)canary->body;
            return false;
        }
    }
    return true;
}
