/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs and rounds: see rounds.h.
 */
#include "gpu/rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int bench_copies_of(uint64_t one, uint64_t bytes)
{
    uint64_t copies = bytes / one + 1;
    return copies < BENCH_MOST_COPIES ? (int)copies : BENCH_MOST_COPIES;
}

static bool make_graph(bench_cuda *cuda, bench_runner *r, int64_t calls, double *us)
{
    bench_graph_free(cuda, &r->graph);
    return bench_graph_capture(cuda, r->launch, r->user, calls, &r->graph) &&
           bench_graph_replay(cuda, &r->graph, us) && bench_graph_replay(cuda, &r->graph, us);
}

static bool open_graph(bench_cuda *cuda, bench_runner *r, const bench_pace *pace)
{
    double us = 0;
    int64_t calls = r->copies > 2 ? r->copies : 2;
    /* The first call is made by itself: a kernel's first launch may load it, which a capture
     * forbids. */
    if (r->launch(r->user, 0, cuda->stream) || !bench_cuda_wait(cuda) ||
        !make_graph(cuda, r, calls, &us))
        return false;
    if (pace->smoke)
        return true;
    double each = us / (double)calls;
    int64_t least = each > BENCH_LONG_US ? BENCH_LONG_CALLS : BENCH_LEAST_CALLS;
    int64_t enough = (int64_t)ceil(1.05 * BENCH_GRAPH_US / each);
    least = enough > least ? enough : least;
    return least <= calls || make_graph(cuda, r, least, &us);
}

bool bench_runner_open(bench_cuda *cuda, bench_runner *r, const bench_pace *pace)
{
    r->graph = (bench_graph){0};
    r->stat = (bench_stat){0};
    if (open_graph(cuda, r, pace))
        return true;
    fprintf(stderr, "bench: %s does not run\n", r->name);
    bench_runner_close(cuda, r);
    return false;
}

void bench_runner_close(bench_cuda *cuda, bench_runner *r)
{
    bench_graph_free(cuda, &r->graph);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bool bench_rounds(bench_cuda *cuda, bench_runner *const *list, int count, const bench_pace *pace)
{
    int rounds = pace->smoke ? 1 : pace->rounds;
    rounds = rounds < BENCH_MOST_ROUNDS ? rounds : BENCH_MOST_ROUNDS;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            bench_runner *r = list[(i + round) % count];
            if (!bench_graph_replay(cuda, &r->graph, &r->us[round]))
                return false;
            r->us[round] /= (double)r->graph.calls;
        }
    for (int i = 0; i < count; i++) {
        bench_runner *r = list[i];
        qsort(r->us, (size_t)rounds, sizeof(double), by_value);
        r->stat = (bench_stat){r->us[rounds / 2], r->us[0], r->us[rounds - 1], r->graph.calls};
    }
    return true;
}
