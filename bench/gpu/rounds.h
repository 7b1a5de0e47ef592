/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing on a GPU: each contender is a CUDA graph of its calls, and the graphs are replayed in
 * turns. In a round every contender has one replay, and who begins moves on from round to round, so
 * that whatever else clock and temperature do falls on all alike.
 */
#ifndef NIB_BENCH_GPU_ROUNDS_H
#define NIB_BENCH_GPU_ROUNDS_H

#include "gpu/cuda.h"

/* The setting of every number. */
#define BENCH_ROTATE_BYTES \
    ((uint64_t)210000000)        /* of weights that a graph rotates over, at least */
#define BENCH_GRAPH_US    2500.0 /* a graph takes at least this long */
#define BENCH_LEAST_CALLS 20
#define BENCH_LONG_US     700.0 /* from here on graphs have LONG_CALLS at least */
#define BENCH_LONG_CALLS  8
#define BENCH_MOST_ROUNDS 31
#define BENCH_MOST_COPIES 64

typedef struct bench_pace {
    int rounds;
    bool smoke; /* few calls and one round: to see that all runs, the times mean nothing */
} bench_pace;

/* Copies of `one` that have `bytes` in all. */
int bench_copies_of(uint64_t one, uint64_t bytes);

/* Microseconds a call; all 0: not measured. */
typedef struct bench_stat {
    double us, least, most; /* median and extremes of the rounds */
    int64_t calls;          /* a replay */
} bench_stat;

typedef struct bench_runner {
    const char *name; /* for complaints */
    bench_launch_fn launch;
    void *user;
    int copies; /* of the weights; call number c uses copy c % copies */
    bench_graph graph;
    double us[BENCH_MOST_ROUNDS];
    bench_stat stat;
} bench_runner;

/* Makes the graph, with as many calls as the setting asks for, and replays it. False with a line on
 * stderr: it does not run. */
bool bench_runner_open(bench_cuda *cuda, bench_runner *runner, const bench_pace *pace);
void bench_runner_close(bench_cuda *cuda, bench_runner *runner);

/* The rounds; fills `stat` of each. */
bool bench_rounds(bench_cuda *cuda, bench_runner *const *list, int count, const bench_pace *pace);

#endif
