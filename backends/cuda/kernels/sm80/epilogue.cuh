/* SPDX-License-Identifier: Apache-2.0
 *
 * From sums over k to elements of out: scales of activations, alpha, bias, activation function, one
 * cast. All that depends on the launch is read from the parameters. Uses f32 throughout; error
 * bounds are in docs/numerics.md. Gated pairs need the sums of rows n and n + N/2 of W in one
 * thread. Kernels and reduce.cuh call it.
 *
 * Sums are f32, complete with scales and zeros, except where NIB_LATE_SCALE: i8 activations times
 * integers with one group along k and no zeros keep exact 32-bit sums to the end, across warps and
 * parts of K, and meet their scale here.
 */
#ifndef NIB_CUDA_SM80_EPILOGUE_CUH
#define NIB_CUDA_SM80_EPILOGUE_CUH

static constexpr bool NIB_LATE_SCALE =
    NIB_COMPUTE == NIB_COMPUTE_S8 && NIB_SPEC_GROUP == 0 && NIB_SPEC_ZERO == NIB_ZERO_NONE;

/* ---- functions ---------------------------------------------------------------------------- */

NIB_DEVICE float nib_exp2(float x)
{
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

NIB_DEVICE float nib_reciprocal(float x)
{
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static constexpr float NIB_LOG2_E = 1.44269504f;

NIB_DEVICE float nib_silu(float x)
{
    return x * nib_reciprocal(1.0f + nib_exp2(-x * NIB_LOG2_E));
}

/* erf by Abramowitz and Stegun 7.1.26, off by at most 1.5e-7. */
NIB_DEVICE float nib_gelu(float x)
{
    const float z = x < 0 ? x * -0.70710678f : x * 0.70710678f;
    const float t = nib_reciprocal(1.0f + 0.3275911f * z);
    float poly = 1.061405429f;
    poly = poly * t - 1.453152027f;
    poly = poly * t + 1.421413741f;
    poly = poly * t - 0.284496736f;
    poly = poly * t + 0.254829592f;
    /* 1 - erf(z) */
    const float tail = poly * t * nib_exp2(z * z * -NIB_LOG2_E);
    return 0.5f * x * (x < 0 ? tail : 2.0f - tail);
}

/* ---- scales ------------------------------------------------------------------------------- */

/* Place of row n among the 64 of its block in scales and zeros: n and n + 8 are neighbours. */
NIB_DEVICE int nib_scale_place(int row)
{
    return (row >> 3 & 1) | (row & 7) << 1 | (row & 0x30);
}

/* Scale of row n of W where there is one group along k. */
NIB_DEVICE float nib_row_scale(const nib_cuda_params &p, int64_t n)
{
    if constexpr (NIB_SPEC_SCALE == NIB_TYPE_NONE)
        return 1.0f;
    const int64_t at = p.one_scale ? 0 : (n & ~(int64_t)63) + nib_scale_place((int)(n & 63));
    return nib_float_from<NIB_SPEC_SCALE>(
        nib_load_element<nib_element_bytes(NIB_SPEC_SCALE)>(p.scales, at));
}

/* ---- elements ----------------------------------------------------------------------------- */

/* The factor of act's row m. */
NIB_DEVICE float nib_act_factor(const nib_cuda_params &p, int64_t m)
{
    if (p.act_scale_mode == NIB_ACT_SCALE_NONE)
        return 1.0f;
    return nib_load_float(p.act_scale, p.act_scale_mode == NIB_ACT_SCALE_ROW ? m : 0, NIB_F32);
}

NIB_DEVICE float nib_bias(const nib_cuda_params &p, int64_t n)
{
    return p.bias_type ? nib_load_float(p.bias, n, p.bias_type) : 0.0f;
}

/* A sum as f32: `sum` holds the bits of an i32 with NIB_LATE_SCALE. */
NIB_DEVICE float nib_sum_value(const nib_cuda_params &p, int64_t n, float sum)
{
    if constexpr (NIB_LATE_SCALE)
        return (float)(int32_t)nib_bits_from_float(sum) * nib_row_scale(p, n);
    return sum;
}

/* Partial sums of two warps, or of two parts of K. */
NIB_DEVICE float nib_sum_add(float a, float b)
{
    if constexpr (NIB_LATE_SCALE)
        return nib_float_from_bits(nib_bits_from_float(a) + nib_bits_from_float(b));
    return a + b;
}

/* alpha a x + bias */
NIB_DEVICE float nib_affine(const nib_cuda_params &p, float act_factor, float bias, float value)
{
    float y = value * act_factor * p.alpha;
    if (p.bias_type)
        y += bias;
    return y;
}

/* A call, at the end of all kernels: most outputs do not need it, and its code would be copied to
 * every place that stores, which takes the compiler long. */
static __device__ __noinline__ float nib_activation(float x, int32_t epilogue)
{
    return epilogue == NIB_EPILOGUE_GELU ? nib_gelu(x) : nib_silu(x);
}

/* What follows alpha and bias, but for gated products. */
NIB_DEVICE float nib_curve(const nib_cuda_params &p, float y)
{
    if (p.epilogue == NIB_EPILOGUE_RELU)
        return y < 0 ? 0.0f : y; /* NaN stays */
    return p.epilogue == NIB_EPILOGUE_NONE ? y : nib_activation(y, p.epilogue);
}

/* One output but for its cast, of every epilogue that is not gated. */
NIB_DEVICE float nib_epilogue_value(const nib_cuda_params &p, float act_factor, float bias,
                                    float value)
{
    return nib_curve(p, nib_affine(p, act_factor, bias, value));
}

/* Column n of out, row m, from the sum of row n of W; `gated`: of n < N/2 from the sums of rows n
 * and n + N/2, the latter `up`. One function for both, because stores are most of a kernel's code.
 */
NIB_DEVICE void nib_epilogue_put(const nib_cuda_params &p, int64_t m, int64_t n, float sum,
                                 float up, bool gated)
{
    const int64_t at = m * p.ldo + n;
    if constexpr (NIB_LATE_SCALE) {
        if (p.out_type == NIB_I32) {
            int32_t whole = (int32_t)nib_bits_from_float(sum);
            if (p.alpha != 1.0f)
                asm("cvt.rni.s32.f32 %0, %1;" : "=r"(whole) : "f"((float)whole * p.alpha));
            nib_store_element<4>(p.out, at, (uint32_t)whole);
            return;
        }
    }
    const float factor = nib_act_factor(p, m);
    float y = nib_affine(p, factor, nib_bias(p, n), nib_sum_value(p, n, sum));
    if (gated) {
        const int64_t other = n + p.n / 2;
        y = nib_activation(y, NIB_EPILOGUE_SILU) *
            nib_affine(p, factor, nib_bias(p, other), nib_sum_value(p, other, up));
    } else {
        y = nib_curve(p, y);
    }
    nib_store_float(p.out, at, p.out_type, y);
}

NIB_DEVICE void nib_epilogue_store(const nib_cuda_params &p, int64_t m, int64_t n, float sum)
{
    nib_epilogue_put(p, m, n, sum, 0.0f, false);
}

NIB_DEVICE void nib_epilogue_store_gated(const nib_cuda_params &p, int64_t m, int64_t n, float gate,
                                         float up)
{
    nib_epilogue_put(p, m, n, gate, up, true);
}

#endif
