/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache folder for a test and a compiler that is none: what it "compiles" is its spec and sources
 * behind each other, and every compilation leaves a byte in a file, so that processes can be
 * counted together.
 */
#ifndef NIB_TEST_IMAGE_H
#define NIB_TEST_IMAGE_H

#include <nibblas/backend.h>
#include <stdbool.h>

enum { TEST_PATH_BYTES = 512 };

typedef struct test_cache {
    char folder[64];                /* a fresh one, everything below lies in it */
    char kernels[TEST_PATH_BYTES];  /* where the entries will be */
    char counter[TEST_PATH_BYTES];  /* one byte a compilation */
    char compiler[TEST_PATH_BYTES]; /* a file that poses as the compiler's */
    int sleep_ms;                   /* of every compilation */
    nib_status answer;              /* of every compilation */
} test_cache;

/* Makes the folder and points NIB_CACHE_DIR and NIB_PACK_PATH into it. */
void test_cache_begin(test_cache *cache);
void test_cache_end(test_cache *cache);

/* Compilations so far, of all processes. */
int test_cache_compiled(const test_cache *cache);

/* A request of backend "fake" for this spec, with two source files and the compiler above. */
nib_image_request test_image_request(test_cache *cache, const char *spec);

/* Whether an image is what the compiler makes of this spec. */
bool test_image_is(const nib_image *image, const char *spec);

/* Gets the image and checks it: its origin, or 0 when something is wrong. */
int test_image_origin(test_cache *cache, const char *spec);

/* Writes a pack of backend "fake" with the images of these specs as <folder>/packs/<name>, where
 * NIB_PACK_PATH points: for packs to be found, before the first image is asked for. `path` (may be
 * NULL) receives its path. */
void test_pack_write(test_cache *cache, const char *name, const char *const *specs, int count,
                     char path[TEST_PATH_BYTES]);

#endif
