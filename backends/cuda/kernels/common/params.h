/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands a kernel: one struct by value. Plain C that both compilers read; device code
 * includes it after kernels/common/types.cuh, the host after <stdint.h>.
 */
#ifndef NIB_CUDA_PARAMS_H
#define NIB_CUDA_PARAMS_H

/* All pointers are device memory. Layouts: docs/layouts.md, mma64x128 and mma64-scales. */
typedef struct nib_cuda_params {
    const void *act; /* [m, k], row stride lda elements */
    const void *act_scale;
    void *out; /* [m, out columns], row stride ldo elements */
    const void *bias;
    const void *codes[3]; /* planes; of n_blocks x k_blocks blocks */
    const void *scales;   /* [scale blocks][groups][64] */
    const void *zeros;
    const int32_t *g_idx; /* [k] or NULL */
    const float *table;   /* [16] of lut4 */
    float *partial;       /* split K: [split][m][n] f32 */
    int64_t m, n, k;
    int64_t lda, ldo;
    int64_t group; /* k a scale covers; k itself for one group a row */
    int64_t groups;
    int32_t n_blocks, k_blocks; /* ceil(n / 64), ceil(k / 128) */
    int32_t one_scale;          /* one scale and zero for the whole matrix */
    int32_t split;              /* parts of K, at least 1 */
    float alpha;
    int32_t out_type;       /* nib_type: f32, f16, bf16, i32 */
    int32_t bias_type;      /* nib_type or 0 */
    int32_t epilogue;       /* nib_epilogue */
    int32_t act_scale_mode; /* nib_act_scale */
    int32_t aligned;        /* act, lda and k allow 16-byte loads of rows of act */
    uint64_t nonce;         /* no other launch of the process has it; never 0 */
} nib_cuda_params;

/* The driver's description of act for tensor copies: {k, m}, rows of lda elements, boxes of 128
 * bytes of k, swizzled by 128 bytes, and as many rows as the shape said; zeros beyond k and m. */
typedef struct nib_cuda_map {
#ifdef __cplusplus
    alignas(64)
#else
    _Alignas(64)
#endif
        unsigned char bytes[128];
} nib_cuda_map;

/* The parameter of kernels whose shape has map_rows. */
typedef struct nib_cuda_mapped_params {
    nib_cuda_map act_map;
    /* mapped: act_map describes act. 0: act or its rows start where tensor copies may not; the
     * kernel loads elements. k itself may have any number of columns. */
    int32_t mapped;
    nib_cuda_params p;
} nib_cuda_mapped_params;

#endif
