/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS on the dequantised weights, the named baseline: f16 or bf16 (cublasGemmEx), and e4m3 by
 * e4m3 (cublasLt). Opened at run time; a machine without it has no such column.
 */
#ifndef NIB_BENCH_GPU_CUBLAS_H
#define NIB_BENCH_GPU_CUBLAS_H

#include "gpu/cuda.h"

#include <nibblas/nibblas.h>

typedef struct bench_cublas {
    void *library, *handle;
    void *lt_library, *lt_handle; /* NULL: no fp8 */
    bench_cuda_memory workspace;
    int version;
} bench_cublas;

/* `path`: NULL tries the usual names; cublasLt is looked for beside it. False, with the reason:
 * there is none. */
bool bench_cublas_open(bench_cublas *b, bench_cuda *cuda, const char *path, char *why,
                       size_t why_bytes);
void bench_cublas_close(bench_cublas *b, bench_cuda *cuda);

/* One dense product out[m, n] = act[m, k] W^T, with copies of W beyond the cache in all. */
typedef struct bench_dense {
    bench_cublas *cublas;
    int64_t m, n, k;
    nib_type type, out_type; /* of act and W: f16, bf16 or e4m3; f16 or bf16 */
    float scale;             /* W is stored times this: e4m3's range */
    int copies;
    bench_cuda_memory *weights;
    bench_cuda_memory act, out;
    /* e4m3: the plan for m rows */
    void *desc, *layout[3], *preference;
    unsigned long long algorithm[8];
    int64_t planned_m;
} bench_dense;

/* Takes W [n, k] and activations [m, k], rounded to `type`; copies of W of at least `bytes` in all,
 * 0: one. False with a line on stderr; close it then too. */
typedef struct bench_dense_source {
    int64_t m, n, k;
    nib_type type, out_type;
    const float *weights, *act; /* weights NULL: the caller writes them on the device */
    uint64_t bytes;
} bench_dense_source;
bool bench_dense_open(bench_dense *d, bench_cublas *b, bench_cuda *cuda,
                      const bench_dense_source *source);
void bench_dense_close(bench_dense *d, bench_cuda *cuda);

/* Sets the rows of the next calls. False with a line on stderr: cuBLAS has no kernel for it. */
bool bench_dense_rows(bench_dense *d, int64_t m);
/* A bench_launch_fn. */
int bench_dense_launch(void *user, int64_t call, void *stream);

#endif
