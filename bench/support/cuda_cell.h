/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell of bench-cuda's table: one product with m rows on one kernel, checked and then timed by
 * replaying a graph of calls that rotate over copies of the weights. A shape holds what its cells
 * share.
 */
#ifndef NIB_BENCH_CUDA_CELL_H
#define NIB_BENCH_CUDA_CELL_H

#include "support/cublas.h"

/* The setting of every number this program prints. */
#define CUDA_ROTATE_BYTES ((uint64_t)210000000) /* of weights a graph rotates over, at least */
#define CUDA_LEAST_CALLS  20
#define CUDA_GRAPH_US     2500.0
#define CUDA_REPLAYS      7
#define CUDA_LONG_US      1500.0 /* calls above this are replayed 5 times */

typedef struct cuda_times {
    int count;
    int64_t calls;           /* a replay */
    double us[CUDA_REPLAYS]; /* a call; sorted */
} cuda_times;

typedef struct cuda_shape {
    bench_cuda *cuda;
    nib_device *dev;
    bench_cublas *cublas; /* NULL: no baseline */
    nib_gemm_desc desc;
    bench_problem problem;
    bool smoke;     /* one copy and few calls: for simulators, whose times mean nothing */
    nib_gemm *gemm; /* that packed */
    nib_weights **weights;
    int copies;
    uint64_t packed_bytes;
    bench_cuda_memory act, act_scale, out;
    size_t out_bytes; /* of a row */
} cuda_shape;

typedef struct cuda_candidate {
    char id[64];
    double predicted_us;
    bool chosen;
} cuda_candidate;

typedef struct cuda_cell {
    int64_t m;
    cuda_candidate variant;
    double error, worst; /* bench_problem_error */
    bool wrong;          /* and so not timed */
    cuda_times ours;
    char facts[1024]; /* lines: what the backend says of the kernel, "" if nothing */
} cuda_cell;

/* Each answers false with a line on stderr. The caller sets cuda, dev, cublas, desc and smoke of a
 * shape, zero else; close it after a failure too. */
bool cuda_shape_open(cuda_shape *shape, int64_t m_max);
void cuda_shape_close(cuda_shape *shape);

/* The kernels that can run m rows, the chosen one first. */
int cuda_candidates(cuda_shape *shape, int64_t m, cuda_candidate *list, int capacity);

/* Checks and times one of them. `baseline`, when not NULL and there is cuBLAS, receives its times,
 * replayed in turns with ours. False: it could not run. */
bool cuda_cell_run(cuda_shape *shape, int64_t m, const cuda_candidate *variant, cuda_cell *cell,
                   cuda_times *baseline);

double cuda_median(const cuda_times *times); /* NaN without any */

#endif
