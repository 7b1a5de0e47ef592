/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel after split K: adds the partial sums in the order of the parts, so that results do not
 * depend on timing, and runs the epilogue. Kernels with split K include it last. Partials are
 * [split][m][n]: f32, or exact i32 with NIB_LATE_SCALE (epilogue.cuh). Any grid and block will do.
 */
#ifndef NIB_CUDA_SM80_REDUCE_CUH
#define NIB_CUDA_SM80_REDUCE_CUH

NIB_DEVICE float nib_sum_parts(const float *partial, int64_t stride, int split)
{
    float sum = partial[0];
    for (int part = 1; part < split; part++)
        sum = nib_sum_add(sum, partial[part * stride]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) nib_reduce(const nib_cuda_params p)
{
    const bool gated = p.epilogue == NIB_EPILOGUE_SILU_GATED;
    const int64_t columns = gated ? p.n / 2 : p.n, stride = p.m * p.n;
    const int64_t total = p.m * columns, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        const int64_t m = i / columns, n = i - m * columns;
        const float *at = p.partial + m * p.n + n;
        const float sum = nib_sum_parts(at, stride, p.split);
        if (gated)
            nib_epilogue_store_gated(p, m, n, sum, nib_sum_parts(at + columns, stride, p.split));
        else
            nib_epilogue_store(p, m, n, sum);
    }
}

#endif
