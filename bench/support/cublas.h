/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS on the dequantised weights in f16, as the named baseline of bench-cuda. Opened at run
 * time; a machine without it has no such column.
 */
#ifndef NIB_BENCH_CUBLAS_H
#define NIB_BENCH_CUBLAS_H

#include "support/cuda.h"
#include "support/problem.h"

typedef struct bench_cublas {
    void *library, *handle;
    bench_cuda_memory workspace;
    int version;
    /* One problem: copies of the dense weights, beyond the cache in all. */
    int64_t m, n, k;
    int copies;
    bench_cuda_memory *weights;
    bench_cuda_memory act, out;
} bench_cublas;

/* `path`: NULL tries the usual names. False, with the reason: there is none. */
bool bench_cublas_open(bench_cublas *b, bench_cuda *cuda, const char *path, char *why,
                       size_t why_bytes);
void bench_cublas_close(bench_cublas *b, bench_cuda *cuda);

/* Takes a problem that has its dense weights, copies of at least `bytes` in all. */
bool bench_cublas_load(bench_cublas *b, bench_cuda *cuda, const bench_problem *p, uint64_t bytes);
void bench_cublas_unload(bench_cublas *b, bench_cuda *cuda);

/* A bench_launch_fn: out = act W^T for b->m rows. */
int bench_cublas_launch(void *user, int64_t call, void *stream);

#endif
