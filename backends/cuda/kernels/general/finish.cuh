/* SPDX-License-Identifier: Apache-2.0
 *
 * From a sum to an element of out, for the general kernel: scale of the activations, alpha, bias,
 * activation function, one cast. docs/numerics.md, section 1. Everything here is decided at run
 * time; it runs once an output.
 */
#ifndef NIB_CUDA_GENERAL_FINISH_CUH
#define NIB_CUDA_GENERAL_FINISH_CUH

#include "kernels/general/number.cuh"

#include "kernels/common/params.h"

/* alpha x + bias, for row `row` of W. */
__device__ __forceinline__ float finish_linear(const nib_cuda_params &p, float x, int64_t m,
                                               int64_t row)
{
    if (p.act_scale_mode == NIB_ACT_SCALE_TENSOR)
        x *= load_given<NIB_F32>(p.act_scale, 0);
    if (p.act_scale_mode == NIB_ACT_SCALE_ROW)
        x *= load_given<NIB_F32>(p.act_scale, m);
    x *= p.alpha;
    return p.bias_type ? x + nib_load_float(p.bias, row, p.bias_type) : x;
}

__device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + expf(-x));
}

__device__ __forceinline__ float activate(int32_t epilogue, float x)
{
    switch (epilogue) {
    case NIB_EPILOGUE_RELU:
        return x < 0 ? 0 : x; /* NaN stays */
    case NIB_EPILOGUE_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case NIB_EPILOGUE_SILU:
        return silu(x);
    default:
        return x;
    }
}

/* Stores out[m, col]. x1 is the sum of row `col` of W; x2 that of its partner when gated. Where out
 * is i32, x1 holds the integer's bits. */
__device__ __forceinline__ void finish(const nib_cuda_params &p, float x1, float x2, int64_t m,
                                       int64_t col)
{
    int64_t at = m * p.ldo + col;
    if (p.out_type == NIB_I32) {
        nib_store_element<4>(p.out, at, nib_bits_from_float(x1));
        return;
    }
    float y = finish_linear(p, x1, m, col);
    if (p.epilogue == NIB_EPILOGUE_SILU_GATED)
        y = silu(y) * finish_linear(p, x2, m, p.n / 2 + col);
    else
        y = activate(p.epilogue, y);
    nib_store_float(p.out, at, p.out_type, y);
}

#endif
