/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel after split K: adds the partial sums in the order of the parts, so that results do not
 * depend on timing, and runs the epilogue. Kernels with split K include it last. Partials are
 * [split][m][n]: f32, or exact i32 with NIB_LATE_SCALE (epilogue.cuh). Any grid and block will do.
 *
 * From sm_90 on it is launched as a dependent of the kernel before: its blocks start while that one
 * ends, and wait.
 */
#ifndef NIB_CUDA_SM80_REDUCE_CUH
#define NIB_CUDA_SM80_REDUCE_CUH

/* Parts are loaded 8 at a time, so that their latencies are one; and added in order. */
NIB_DEVICE float nib_sum_parts(const float *partial, int64_t stride, int split)
{
    float sum = partial[0];
    for (int first = 1; first < split; first += 8) {
        float part[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            part[i] = first + i < split ? partial[(first + i) * stride] : 0.0f;
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (first + i < split)
                sum = nib_sum_add(sum, part[i]);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) nib_reduce(const nib_cuda_params p)
{
    const bool gated = p.epilogue == NIB_EPILOGUE_SILU_GATED;
    const int64_t columns = gated ? p.n / 2 : p.n, stride = p.m * p.n;
    const int64_t total = p.m * columns, step = (int64_t)gridDim.x * blockDim.x;
    nib_wait_for_primary(); /* orders the parts' stores before the loads below */
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        /* A division of 64 bits takes longer than the rest. */
        const int64_t m = total < 1u << 31 ? (uint32_t)i / (uint32_t)columns : i / columns;
        const int64_t n = i - m * columns;
        const float *at = p.partial + m * p.n + n;
        const float sum = nib_sum_parts(at, stride, p.split);
        if (gated)
            nib_epilogue_store_gated(p, m, n, sum, nib_sum_parts(at + columns, stride, p.split));
        else
            nib_epilogue_store(p, m, n, sum);
    }
}

#endif
