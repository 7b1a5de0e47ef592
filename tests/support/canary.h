/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers with guards round them, on any device: what a kernel writes beside its output or
 * workspace shows. The host keeps an image; poison goes up before a run and the image comes back
 * after.
 */
#ifndef NIB_TEST_CANARY_H
#define NIB_TEST_CANARY_H

#include <nibblas/nibblas.h>
#include <stdbool.h>

typedef struct test_canary {
    nib_device *dev;
    unsigned char *image;    /* host: guard, shift, body, guard */
    void *memory;            /* device: the same */
    size_t bytes;            /* of all */
    size_t body, body_bytes; /* offset and size of what the kernel may touch */
} test_canary;

/* `shift` bytes move the body from its 64-byte alignment. */
nib_status test_canary_create(nib_device *dev, size_t body_bytes, size_t shift, test_canary *out);
void test_canary_destroy(test_canary *canary);

/* The body's address on the device and in the image. */
void *test_canary_device(const test_canary *canary);
unsigned char *test_canary_host(const test_canary *canary);

/* Fills everything with `poison`, on both sides. */
nib_status test_canary_poison(test_canary *canary, unsigned char poison);
/* Sends the image up, or fetches it. */
nib_status test_canary_upload(test_canary *canary);
nib_status test_canary_download(test_canary *canary);
/* After a download: whether the guards still hold `poison`. `where` receives the first byte that
 * does not, relative to the body. */
bool test_canary_intact(const test_canary *canary, unsigned char poison, int64_t *where);

#endif
