/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic for sizes that come from callers and files. Each function answers false when the
 * result does not fit, and leaves `out` alone then. Use them for every product that sizes a buffer.
 */
#ifndef NIB_BASE_CHECKED_H
#define NIB_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool nib_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool nib_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Product of two non-negative extents; false on a negative one too. */
static inline bool nib_mul_extent(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* x / y rounded up, for x >= 0 and y > 0; cannot overflow. */
static inline int64_t nib_ceil_div(int64_t x, int64_t y)
{
    return x / y + (x % y != 0);
}

/* x rounded up to a multiple of y. The caller knows that the result fits. */
static inline int64_t nib_round_up(int64_t x, int64_t y)
{
    return nib_ceil_div(x, y) * y;
}

#endif
