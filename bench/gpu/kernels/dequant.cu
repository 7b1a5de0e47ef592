/* SPDX-License-Identifier: Apache-2.0
 *
 * Dequantises plain symmetric 4-bit codes to a dense 16-bit matrix, as the first half of
 * "dequantise, then cuBLAS": a thread makes 16 neighbours of a row, and memory is its limit (0.5
 * bytes read and 2 written a weight). NIB_DEQUANT_BF16 says the type of scales and results.
 */
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;

__device__ static float from_scale(u16 bits)
{
    float value;
#if NIB_DEQUANT_BF16
    value = __uint_as_float((u32)bits << 16);
#else
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
#endif
    return value;
}

__device__ static u32 to_pair(float low, float high)
{
    u32 pair;
#if NIB_DEQUANT_BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
    return pair;
}

/* codes [n, k / 2]; scales [n, groups]; out [n, k]. k and group are multiples of 16. */
extern "C" __global__ void nib_dequant(const uint2 *codes, const u16 *scales, uint4 *out, u64 count,
                                       u32 chunks_row, u32 chunks_group, u32 groups)
{
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        u32 row = (u32)(i / chunks_row), chunk = (u32)(i % chunks_row);
        float s = from_scale(scales[(u64)row * groups + chunk / chunks_group]);
        uint2 q = codes[i];
        u32 pair[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            u32 two = (j < 4 ? q.x : q.y) >> 8 * (j % 4);
            pair[j] =
                to_pair((float)((int)(two & 15) - 8) * s, (float)((int)(two >> 4 & 15) - 8) * s);
        }
        out[2 * i] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
        out[2 * i + 1] = make_uint4(pair[4], pair[5], pair[6], pair[7]);
    }
}
