/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench-cuda measures: named sets of products, shapes, rows and twins, and what the command
 * line puts in their place. A plan is the list of jobs that follows.
 */
#ifndef NIB_BENCH_CUDA_SETS_H
#define NIB_BENCH_CUDA_SETS_H

#include "support/row.h"

#define BENCH_PLAN_MOST 64

typedef struct bench_plan_job {
    const char *line; /* without n and k */
    int64_t n, k;
    bench_twin twin;
    const int64_t *m;
    int rows;
} bench_plan_job;

typedef struct bench_plan {
    unsigned sets; /* bits */
    const char *line[BENCH_PLAN_MOST];
    int64_t shape[BENCH_PLAN_MOST][2], m[BENCH_PLAN_MOST];
    bench_twin twin[BENCH_PLAN_MOST];
    int lines, shapes, rows, twins;
    bench_plan_job *job;
    int count;
} bench_plan;

/* Each takes the text of an option; false: it is none, or there are too many. */
bool bench_plan_sets(bench_plan *plan, const char *names);
bool bench_plan_line(bench_plan *plan, const char *line);
bool bench_plan_shape(bench_plan *plan, const char *text);
bool bench_plan_rows(bench_plan *plan, const char *list);
bool bench_plan_twins(bench_plan *plan, const char *names);

/* Makes the jobs; what two sets have in common only once. */
bool bench_plan_finish(bench_plan *plan);
void bench_plan_free(bench_plan *plan);

#endif
