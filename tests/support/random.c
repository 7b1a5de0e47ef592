/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded random numbers: see random.h.
 */
#include "support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t test_random_next(test_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t test_random_below(test_random *random, int64_t count)
{
    return (int64_t)(test_random_next(random) % (uint64_t)count);
}

double test_random_unit(test_random *random)
{
    return (double)(test_random_next(random) >> 11) / 4503599627370496.0 - 1.0;
}

uint64_t test_seed(uint64_t fallback)
{
    const char *text = getenv("NIB_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : fallback;
    fprintf(stderr, "seed: rerun with NIB_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}
