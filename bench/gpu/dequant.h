/* SPDX-License-Identifier: Apache-2.0
 *
 * "Dequantise once, then cuBLAS" as a contender: a kernel that writes the dense 16-bit weights and
 * cublasGemmEx on them, as one sequence of launches. What a fused kernel must beat at large m.
 */
#ifndef NIB_BENCH_GPU_DEQUANT_H
#define NIB_BENCH_GPU_DEQUANT_H

#include "gpu/cublas.h"

typedef struct bench_dequant {
    bench_cuda *cuda;
    bench_kernel kernel;
    bench_dense dense; /* one copy, which each call writes anew */
    bench_cuda_memory codes, scales;
    uint64_t codes_bytes, scales_bytes; /* of a copy */
    int copies;
    int64_t group, groups;
} bench_dequant;

/* Whether there is such a kernel: i4 without zeros or act-order, f16 or bf16 scales of the
 * activations' type, groups of a multiple of 16. */
bool bench_dequant_can(const nib_gemm_desc *desc);

/* Takes plain codes and scales, copies of at least source->bytes in all. False with a line on
 * stderr; close it then too. */
bool bench_dequant_open(bench_dequant *d, bench_cublas *b, bench_cuda *cuda,
                        const nib_weight_desc *weight, const void *codes, const void *scales,
                        const bench_dense_source *source);
void bench_dequant_close(bench_dequant *d);

/* A bench_launch_fn; rows are set in d->dense. */
int bench_dequant_launch(void *user, int64_t call, void *stream);

#endif
