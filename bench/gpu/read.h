/* SPDX-License-Identifier: Apache-2.0
 *
 * The read floor as a contender: the fastest of several shapes of kernels/read.cu over as many
 * bytes as a product's packed weights have. No kernel that reads the weights once from memory can
 * be much faster.
 */
#ifndef NIB_BENCH_GPU_READ_H
#define NIB_BENCH_GPU_READ_H

#include "gpu/rounds.h"

typedef struct bench_reader {
    bench_cuda *cuda;
    bench_kernel bulk, loads; /* bulk: nothing before capability 9.0 */
    bench_cuda_memory memory, sink;
    uint64_t bytes, stride; /* of a copy; from copy to copy */
    int copies, shape;
    char name[64]; /* of the shape that was fastest */
} bench_reader;

/* Compiles the kernels. False, with the reason: there is no compiler, or the driver refuses. */
bool bench_reader_open(bench_reader *reader, bench_cuda *cuda, char *why, size_t why_bytes);
void bench_reader_close(bench_reader *reader);

/* Takes `bytes` (rounded up to 16) and copies of it of at least `rotate` in all, and picks the
 * fastest shape; another call replaces them. False, with a line on stderr: it cannot. */
bool bench_reader_load(bench_reader *reader, uint64_t bytes, uint64_t rotate,
                       const bench_pace *pace);

/* A bench_launch_fn. */
int bench_reader_launch(void *user, int64_t call, void *stream);

#endif
