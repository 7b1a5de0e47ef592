/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell of bench-cuda's table: one product with m rows on one kernel, checked, then timed in
 * rounds with the read floor and the baselines, then checked again. A shape holds what its cells
 * share.
 */
#ifndef NIB_BENCH_CUDA_CELL_H
#define NIB_BENCH_CUDA_CELL_H

#include "gpu/dequant.h"
#include "gpu/read.h"
#include "support/problem.h"
#include "support/row.h"

/* What the process that measures has open. */
typedef struct cuda_bench {
    bench_cuda cuda;
    nib_context *ctx;
    nib_device *dev;
    bench_cublas *cublas; /* NULL: no baselines */
    bench_reader *reader; /* NULL: no floor */
    bool dequant;         /* also "dequantise, then cuBLAS" */
    bench_pace pace;
} cuda_bench;

/* Below, writing and reading the dense weights takes longer than any product. */
#define CUDA_DEQUANT_ROWS 256

#define CUDA_MOST_DENSE 2 /* the 16-bit baseline and fp8 */

typedef struct cuda_shape {
    cuda_bench *bench;
    nib_gemm_desc desc; /* with the twin's n and k */
    bench_twin twin;
    bench_problem problem;
    nib_gemm *gemm; /* that packed */
    nib_weights **weights;
    int copies;
    uint64_t packed_bytes;
    bench_cuda_memory act, act_scale, out;
    bench_cuda_memory act_at; /* within act, and the distance of rows */
    int64_t lda;
    bench_dense dense[CUDA_MOST_DENSE];
    int denses;
    bench_dequant dequant;
    bool has_dequant, has_floor;
} cuda_shape;

typedef struct cuda_candidate {
    char id[64];
    double predicted_us;
    bool chosen;
} cuda_candidate;

/* Each answers false with a line on stderr. The caller sets bench, desc (of the aligned product)
 * and twin of a shape, zero else; close it after a failure too. */
bool cuda_shape_open(cuda_shape *shape, int64_t m_max);
void cuda_shape_close(cuda_shape *shape);

/* The kernels that can run m rows, the chosen one first. */
int cuda_candidates(cuda_shape *shape, int64_t m, cuda_candidate *list, int capacity);

/* Checks and times one of them; fills what is measured of `row`, whose names the caller set.
 * `baselines`: with floor and cuBLAS. `facts`, when not NULL, receives what the backend says of the
 * kernel, for the caller to free. */
void cuda_cell_run(cuda_shape *shape, int64_t m, const cuda_candidate *variant, bool baselines,
                   bench_row *row, char **facts);

#endif
