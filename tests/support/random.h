/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded random numbers for tests: splitmix64, so that a printed seed reproduces a run anywhere.
 */
#ifndef NIB_TEST_RANDOM_H
#define NIB_TEST_RANDOM_H

#include <stdint.h>

typedef struct test_random {
    uint64_t state;
} test_random;

uint64_t test_random_next(test_random *random);
/* In [0, count); count at least 1. */
int64_t test_random_below(test_random *random, int64_t count);
/* Uniform in [-1, 1). */
double test_random_unit(test_random *random);
/* NIB_TEST_SEED if set, else `fallback`; printed to stderr so that a failure can be rerun. */
uint64_t test_seed(uint64_t fallback);

#endif
