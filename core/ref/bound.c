/* SPDX-License-Identifier: Apache-2.0
 *
 * From sums to results, and how far a kernel may be from them: alpha, bias, epilogue, each with its
 * error. docs/numerics.md derives every constant here.
 */
#include "config/dtype.h"
#include "ref/terms.h"

#include <float.h>
#include <math.h>

/* Unit roundoffs of the accumulators. */
static const double f32_unit = 0x1p-24, f16_unit = 0x1p-11;
/* The largest f16, and where rounding to it ends in infinity. */
static const double f16_largest = 65504, f16_limit = 65520;
/* Slopes of gelu and silu never exceed this. */
static const double steepest = 1.13;
/* What an implementation of gelu or silu may be off, in units of f32. */
static const double function_units = 16;

/* What tensor cores of 8-bit floats keep of a sum: 13 bits behind the leading one. */
static const double coarse_unit = 0x1p-13;

static double type_unit(nib_type acc)
{
    return acc == NIB_F16 ? f16_unit : f32_unit;
}

/* The accumulator's error of a sum, before alpha; INFINITY where it may overflow. */
static double sum_bound(const nib_gemm_desc *desc, const ref_sums *sums, double alpha)
{
    if (desc->out_type == NIB_I32)
        return 0;
    double spread = sqrt(sums->size2);
    double reach = fabs(sums->x) + 2 * fabs(sums->fold) + spread;
    double most = reach + sqrt(sums->length) * spread; /* at least the sum of all sizes */
    double limit = desc->acc_type == NIB_F16 ? f16_largest : FLT_MAX;
    if (most > limit || most * fabs(alpha) > FLT_MAX)
        return INFINITY;
    if (ref_weight_bits(desc) && desc->act_type == NIB_F16 && sums->largest >= f16_limit)
        return INFINITY;
    double least = desc->acc_type == NIB_F16 ? 0x1p-25 : 0x1p-126;
    double rounding = type_unit(desc->acc_type) * (8 + 2.5 * sqrt(sums->length)) * reach;
    double drift = fmax(fabs(sums->x), fabs(sums->drift)), coarse = 0;
    if (ref_coarse(desc))
        coarse = coarse_unit * (25 * drift + 20 * sqrt(sums->reach2));
    return rounding + coarse + sums->length * least + 6 * sqrt(sums->noise2 + sums->round2);
}

ref_value ref_finish(const nib_ref_problem *problem, const ref_sums *sums, int64_t n, bool nan,
                     bool inf)
{
    const nib_gemm_desc *desc = problem->desc;
    double alpha = problem->alpha;
    double bias = desc->bias_type ? nib_dtype_load(desc->bias_type, problem->bias, n) : 0;
    bool dynamic = desc->flags & NIB_GEMM_ACT_DYNAMIC_I8;
    if (isinf(alpha) || inf || (nan && dynamic))
        return (ref_value){NAN, INFINITY};
    if (nan || isnan(alpha) || isnan(bias))
        return (ref_value){NAN, 0};
    double product = alpha * sums->x, y = product + bias;
    if (isinf(bias))
        return (ref_value){bias, 0};
    if (desc->out_type == NIB_I32)
        return (ref_value){y, alpha == 1 ? 0 : f32_unit * 2 * fabs(y)};
    double bound = fabs(alpha) * sum_bound(desc, sums, alpha);
    return (ref_value){y, bound + f32_unit * 2 * (fabs(product) + fabs(bias) + fabs(y))};
}

static double silu(double x)
{
    return x == -INFINITY ? NAN : x / (1 + exp(-x));
}

static double gelu(double x)
{
    return x == -INFINITY ? NAN : x * 0.5 * erfc(-x / sqrt(2));
}

/* A function of slope at most `slope` whose own evaluation errs by `own`. The formulas meet
 * -infinity times zero at -infinity, so any kind of non-finite result or zero will do there. */
static ref_value through(double fx, ref_value x, double slope, double own)
{
    if (isnan(x.x))
        return x;
    if (isnan(fx))
        return (ref_value){NAN, INFINITY};
    return (ref_value){fx, isinf(fx) ? 0 : slope * x.bound + own};
}

ref_value ref_epilogue(nib_epilogue epilogue, ref_value x1, ref_value x2)
{
    double unit = f32_unit * function_units, floor = 0x1p-100;
    ref_value gate;
    switch (epilogue) {
    case NIB_EPILOGUE_RELU:
        return through(fmax(x1.x, 0), x1, 1, 0);
    case NIB_EPILOGUE_GELU:
        /* 1 + erf(x) cancels for negative x: the error is one of x, not of the result. */
        return through(gelu(x1.x), x1, steepest, unit * fabs(x1.x) + floor);
    case NIB_EPILOGUE_SILU:
        return through(silu(x1.x), x1, steepest, unit * fabs(silu(x1.x)) + floor);
    case NIB_EPILOGUE_SILU_GATED:
        break;
    default:
        return x1;
    }
    gate = through(silu(x1.x), x1, steepest, unit * fabs(silu(x1.x)) + floor);
    if (isnan(gate.x) || isnan(x2.x)) {
        bool any = gate.bound == INFINITY || x2.bound == INFINITY;
        bool strict = (isnan(gate.x) && gate.bound == 0) || (isnan(x2.x) && x2.bound == 0);
        return (ref_value){NAN, any && !strict ? INFINITY : 0};
    }
    double y = gate.x * x2.x;
    if (!isfinite(y))
        return (ref_value){NAN, INFINITY};
    double bound = fabs(gate.x) * x2.bound + fabs(x2.x) * gate.bound + gate.bound * x2.bound;
    return (ref_value){y, bound + 2 * f32_unit * fabs(y) + floor};
}
