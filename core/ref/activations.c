/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges activations that were rounded to 8 bits, straight from the definition in nibblas.h and
 * section 5 of docs/numerics.md: the scale must be the f32 nearest to the exact quotient, and each
 * code the rounding of a quotient as near to the exact one as three roundings in f32 can leave it.
 */
#include "base/status.h"
#include "config/dtype.h"
#include "ref/ref.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

/* The scale, its inverse and the product are each rounded once; the scale is known as it is. */
static const double quotient_error = 0x1.1p-23;

static double largest_value(nib_type to)
{
    return to == NIB_I8 ? 127 : nib_dtype_decode(to, to == NIB_E4M3 ? 0x7e : 0x7b);
}

/* The scale a row must have; NaN and infinity where it holds one. */
static float row_scale(const nib_act_quantizer_desc *desc, const nib_act_quantize_args *args,
                       int64_t m)
{
    double most = 0;
    bool nan = false;
    for (int64_t k = 0; k < args->k; k++) {
        double a = nib_dtype_load(desc->from, args->act, m * args->lda + k);
        nan = nan || isnan(a);
        most = fmax(most, fabs(a));
    }
    return nan ? NAN : (float)fmax(most / largest_value(desc->to), 0x1p-126);
}

static double rounded(nib_type to, double x)
{
    double most = largest_value(to);
    return nib_dtype_decode(to, nib_dtype_encode(to, fmax(-most, fmin(most, x))));
}

/* Whether a code's value may stand for `a` with this scale. */
static bool code_fits(nib_type to, double a, double scale, double got)
{
    double quotient = a / scale, slack = fabs(quotient) * quotient_error;
    if (isnan(quotient))
        return to == NIB_I8 ? got == 0 : isnan(got);
    if (isinf(quotient))
        return got == copysign(largest_value(to), quotient);
    return got >= rounded(to, quotient - slack) && got <= rounded(to, quotient + slack);
}

static nib_status check_row(const nib_act_quantizer_desc *desc, const nib_act_quantize_args *args,
                            int64_t m)
{
    bool given = desc->scale == NIB_ACT_SCALE_TENSOR;
    float scale = args->scale[given ? 0 : m], wanted = given ? scale : row_scale(desc, args, m);
    if (scale != wanted && !(isnan(scale) && isnan(wanted)))
        return nib_fail(NIB_INTERNAL, "the scale of row %" PRId64 " is %.9g, expected %.9g", m,
                        (double)scale, (double)wanted);
    for (int64_t k = 0; k < args->k; k++) {
        double a = nib_dtype_load(desc->from, args->act, m * args->lda + k);
        double got = nib_dtype_load(desc->to, args->out, m * args->ldo + k);
        bool fits =
            given || isfinite(scale) ? code_fits(desc->to, a, (double)scale, got) : got == 0;
        if (!fits)
            return nib_fail(NIB_INTERNAL,
                            "row %" PRId64 ", column %" PRId64
                            ": %.9g with the scale %.9g became %.9g",
                            m, k, a, (double)scale, got);
    }
    return NIB_OK;
}

nib_status nib_ref_quantize_check(const nib_act_quantizer_desc *desc,
                                  const nib_act_quantize_args *args)
{
    nib_status status = NIB_OK;
    for (int64_t m = 0; m < args->m && !status; m++)
        status = check_row(desc, args, m);
    return status;
}
