/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds. In a round every contender has one turn, and the order moves by one from round to round,
 * so that whatever else the machine does falls on all alike. A turn is one run that is not timed
 * and then one timed run a copy of the weights.
 */
#include "support/contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A pool that has just worked keeps its threads spinning for a while (OpenBLAS for 2^26 cycles):
 * a pause this long lets them go to sleep before the next contender's turn. */
#define SETTLE_NS        40000000
#define CACHED_RUNS      12 /* timed runs of a turn when there is a single copy */
#define CACHED_WARM_RUNS 3

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int bench_copies(const bench_settings *settings, size_t bytes)
{
    if (settings->cached || !bytes)
        return 1;
    size_t copies = (4 * settings->cache_bytes + bytes - 1) / bytes;
    return copies < 2 ? 2 : (int)copies;
}

static void turn(bench_contender *c)
{
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
    int warm = c->copies == 1 ? CACHED_WARM_RUNS : 1;
    int runs = c->copies == 1 ? CACHED_RUNS : c->copies;
    for (int i = 0; i < warm; i++)
        c->run(c, c->copies - 1);
    for (int i = 0; i < runs && c->count < c->capacity; i++) {
        double start = now_us();
        c->run(c, i % c->copies);
        c->us[c->count++] = now_us() - start;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool check(bench_contender *c, const bench_problem *p)
{
    if (c->kind == BENCH_READ)
        return true;
    c->wrong = c->run(c, 0) != 0;
    if (c->wrong) {
        fprintf(stderr, "bench: %s does not run: %s\n", c->name,
                c->kind == BENCH_OURS ? nib_last_message() : "the adapter failed");
        return false;
    }
    c->error = bench_problem_error(p, p->m, c->out, c->out_type,
                                   c->i8 ? BENCH_REF_I8 : BENCH_REF_ACT, NULL);
    c->wrong = !(c->error <= c->tolerance);
    if (c->wrong)
        fprintf(stderr, "bench: %s is wrong: relative error %.3g, at most %.3g is right\n", c->name,
                c->error, c->tolerance);
    return !c->wrong;
}

int bench_contest_run(bench_contender *list, int count, const bench_problem *p,
                      const bench_settings *settings)
{
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        bench_contender *c = &list[i];
        wrong += !check(c, p);
        c->capacity = settings->rounds * (c->copies > CACHED_RUNS ? c->copies : CACHED_RUNS);
        c->us = malloc((size_t)c->capacity * sizeof(double));
        if (!c->us)
            c->capacity = 0;
    }
    for (int round = 0; round < settings->rounds; round++)
        for (int i = 0; i < count; i++) {
            bench_contender *c = &list[(i + round) % count];
            if (!c->wrong)
                turn(c);
        }
    for (int i = 0; i < count; i++)
        if (list[i].count)
            qsort(list[i].us, (size_t)list[i].count, sizeof(double), by_value);
    return wrong;
}

void bench_contender_free(bench_contender *c)
{
    if (c->destroy)
        c->destroy(c);
    free(c->out);
    free(c->us);
    *c = (bench_contender){0};
}

double bench_quantile(const bench_contender *c, double q)
{
    return c->count ? c->us[(int)lrint(q * (c->count - 1))] : NAN;
}
