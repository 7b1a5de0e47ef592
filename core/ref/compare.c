/* SPDX-License-Identifier: Apache-2.0
 *
 * A result against the oracle's: element by element and as a whole. See ref.h and docs/numerics.md.
 */
#include "base/status.h"
#include "config/desc.h"
#include "config/dtype.h"
#include "ref/ref.h"

#include <inttypes.h>
#include <math.h>

/* Below this count a norm says no more than the elements. */
enum { NORM_LEAST = 64 };
/* Share of the elements' bounds that the errors may fill on the whole. */
static const double norm_share = 0.3;

/* The value a type stores for x. */
static double rounded(nib_type type, double x)
{
    unsigned char cell[4];
    nib_dtype_store(type, cell, 0, x);
    return nib_dtype_load(type, cell, 0);
}

/* Half the distance between neighbours at x. */
static double half_step(nib_type type, double x)
{
    const nib_dtype *row = nib_dtype_of(type);
    int exponent;
    if (type == NIB_I32)
        return 0;
    frexp(x, &exponent);
    int least = 1 - row->bias;
    if (x == 0 || exponent - 1 < least)
        exponent = least + 1;
    return ldexp(1, exponent - 2 - row->mantissa_bits);
}

/* Whether `got` may stand for `expected`; the error beyond the cast's own goes to `excess`. */
static bool fits(const nib_gemm_desc *desc, double expected, double bound, double got,
                 double *excess)
{
    nib_type type = desc->out_type;
    *excess = 0;
    if (isnan(expected))
        return bound == 0 ? isnan(got) : !isfinite(got) || (desc->epilogue && got == 0);
    if (isinf(bound))
        return true;
    if (isnan(got))
        return false;
    double low = rounded(type, expected - bound), high = rounded(type, expected + bound);
    if (isfinite(got) && isfinite(expected) && got != rounded(type, expected))
        *excess = fmax(0, fabs(got - expected) - half_step(type, expected));
    return got >= low && got <= high;
}

nib_status nib_ref_compare(const nib_gemm_desc *desc, int64_t m, const double *expected,
                           const double *bound, const void *out, int64_t ldo)
{
    int64_t cols = nib_desc_out_cols(desc), counted = 0, wrong = 0, first = 0;
    double error2 = 0, bound2 = 0;
    for (int64_t i = 0; i < m * cols; i++) {
        double got = nib_dtype_load(desc->out_type, out, i / cols * ldo + i % cols), excess;
        if (!fits(desc, expected[i], bound[i], got, &excess)) {
            if (wrong++ == 0)
                first = i;
        } else if (isfinite(expected[i]) && isfinite(bound[i])) {
            error2 += excess * excess;
            bound2 += bound[i] * bound[i];
            counted++;
        }
    }
    if (wrong) {
        int64_t row = first / cols, col = first % cols;
        return nib_fail(NIB_INTERNAL,
                        "%" PRId64 " of %" PRId64 " elements are wrong, the first at row %" PRId64
                        ", column %" PRId64 ": got %.9g, expected %.9g within %.3g",
                        wrong, m * cols, row, col,
                        nib_dtype_load(desc->out_type, out, row * ldo + col), expected[first],
                        bound[first]);
    }
    if (counted >= NORM_LEAST && sqrt(error2) > norm_share * sqrt(bound2))
        return nib_fail(NIB_INTERNAL,
                        "every element is within its bound, but the norm of the errors, %.3g, is "
                        "over %.3g: a systematic error",
                        sqrt(error2), norm_share * sqrt(bound2));
    return NIB_OK;
}
