/* SPDX-License-Identifier: Apache-2.0
 *
 * The sets: see cuda_sets.h.
 */
#include "support/cuda_sets.h"

#include <stdlib.h>
#include <string.h>

typedef struct set {
    const char *name;
    const char *const *lines;
    const int64_t (*shapes)[2];
    const int64_t *m;
    const bench_twin *twins;
    int line_count, shape_count, rows, twin_count;
} set;

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char *const base_lines[] = {"w=i4 g=128 s=f16 a=f16", "w=i4 g=128 s=bf16 a=bf16"};
static const char *const type_lines[] = {
    "w=i4 g=128 s=f16 a=f16",
    "w=i4 g=128 s=bf16 a=bf16",
    "w=u4 g=128 s=f16 z=code a=f16",
    "w=u4 g=128 s=f16 z=float:f16 a=f16",
    "w=u4 g=128 s=bf16 z=float:bf16 a=bf16",
    "w=i4 g=64 s=f16 a=f16",
    "w=i4 g=32 s=f16 a=f16",
    "w=i4 g=row s=f16 a=f16",
    "w=nf4 g=64 s=f16 a=f16",
    "w=e2m1 g=32 s=e8m0 a=bf16",
    "w=e2m1 g=32 s=e8m0 a=f16",
    "w=e2m1 g=16 s=e4m3 a=bf16",
    "w=e2m1 g=16 s=e4m3 a=f16",
};
static const char *const act8_lines[] = {
    "w=i4 g=128 s=f16 a=e4m3 as=row o=bf16",
    "w=i4 g=128 s=f16 a=i8 as=row o=f16",
};
static const int64_t all_shapes[][2] = {
    {4096, 4096}, {28672, 4096}, {8192, 8192}, {8192, 28672}, {6656, 19968}};
static const int64_t two_shapes[][2] = {{4096, 4096}, {8192, 8192}};
static const int64_t all_rows[] = {1,  2,   4,   8,   16,  24,   32,   48,  64,
                                   96, 128, 192, 256, 512, 1024, 2048, 4096};
static const int64_t some_rows[] = {1, 4, 16, 32, 64, 128, 256, 512, 2048};
static const bench_twin aligned[] = {BENCH_ALIGNED};
static const bench_twin all_twins[] = {BENCH_ALIGNED, BENCH_ODD_N, BENCH_K_TAIL, BENCH_ODD_K,
                                       BENCH_ODD_A};

#define SET(name, lines, shapes, rows, twins)                                                    \
    {                                                                                            \
        name, lines, shapes, rows, twins, COUNT(lines), COUNT(shapes), COUNT(rows), COUNT(twins) \
    }
static const set sets[] = {
    SET("base", base_lines, all_shapes, all_rows, aligned),
    SET("types", type_lines, two_shapes, all_rows, aligned),
    SET("act8", act8_lines, all_shapes, all_rows, aligned),
    SET("odd", base_lines, two_shapes, some_rows, all_twins),
};

/* Calls `take` with each of the words between commas. */
static bool each_word(bench_plan *plan, const char *list,
                      bool (*take)(bench_plan *plan, const char *word))
{
    char word[64];
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (length >= sizeof(word))
            return false;
        snprintf(word, sizeof(word), "%.*s", (int)length, at);
        if (!take(plan, word))
            return false;
        at += length;
        if (!*at)
            return true;
    }
}

static bool take_set(bench_plan *plan, const char *name)
{
    if (!strcmp(name, "all")) {
        plan->sets |= (1u << COUNT(sets)) - 1;
        return true;
    }
    for (int i = 0; i < COUNT(sets); i++)
        if (!strcmp(name, sets[i].name)) {
            plan->sets |= 1u << i;
            return true;
        }
    fprintf(stderr, "bench: there is no set '%s': base, types, act8, odd, all\n", name);
    return false;
}

static bool take_twin(bench_plan *plan, const char *name)
{
    return plan->twins < BENCH_PLAN_MOST && bench_twin_parse(name, &plan->twin[plan->twins++]);
}

static bool take_rows(bench_plan *plan, const char *text)
{
    char *end;
    long long m = strtoll(text, &end, 10);
    if (plan->rows == BENCH_PLAN_MOST || end == text || *end || m < 1 || m > 1 << 24)
        return false;
    plan->m[plan->rows++] = m;
    return true;
}

bool bench_plan_sets(bench_plan *plan, const char *names)
{
    return each_word(plan, names, take_set);
}

bool bench_plan_twins(bench_plan *plan, const char *names)
{
    return each_word(plan, names, take_twin);
}

bool bench_plan_rows(bench_plan *plan, const char *list)
{
    return each_word(plan, list, take_rows);
}

bool bench_plan_line(bench_plan *plan, const char *line)
{
    if (plan->lines == BENCH_PLAN_MOST || strlen(line) >= sizeof(((bench_row *)0)->line))
        return false;
    plan->line[plan->lines++] = line;
    return true;
}

bool bench_plan_shape(bench_plan *plan, const char *text)
{
    long long n, k;
    char rest;
    if (plan->shapes == BENCH_PLAN_MOST || sscanf(text, "%lld,%lld%c", &n, &k, &rest) != 2 ||
        n < 1 || k < 1)
        return false;
    plan->shape[plan->shapes][0] = n;
    plan->shape[plan->shapes++][1] = k;
    return true;
}

static bool add_job(bench_plan *plan, const bench_plan_job *job)
{
    for (int i = 0; i < plan->count; i++) {
        bench_plan_job *had = &plan->job[i];
        if (had->n == job->n && had->k == job->k && had->twin == job->twin &&
            !strcmp(had->line, job->line)) {
            if (job->rows > had->rows) {
                had->m = job->m;
                had->rows = job->rows;
            }
            return true;
        }
    }
    bench_plan_job *more = realloc(plan->job, (size_t)(plan->count + 1) * sizeof(*more));
    if (!more)
        return false;
    plan->job = more;
    plan->job[plan->count++] = *job;
    return true;
}

static bool add_set(bench_plan *plan, const set *s)
{
    bool good = true;
    for (int l = 0; l < s->line_count; l++)
        for (int i = 0; i < s->shape_count; i++)
            for (int t = 0; t < s->twin_count && good; t++) {
                bench_plan_job job = {.line = s->lines[l],
                                      .n = s->shapes[i][0],
                                      .k = s->shapes[i][1],
                                      .twin = s->twins[t],
                                      .m = s->m,
                                      .rows = s->rows};
                good = add_job(plan, &job);
            }
    return good;
}

bool bench_plan_finish(bench_plan *plan)
{
    bool good = true;
    if (!plan->sets)
        plan->sets = 1;
    for (int i = 0; i < COUNT(sets) && good; i++) {
        set s = sets[i];
        if (!(plan->sets >> i & 1))
            continue;
        if (plan->lines) {
            s.lines = plan->line;
            s.line_count = plan->lines;
        }
        if (plan->shapes) {
            s.shapes = (const int64_t(*)[2])plan->shape;
            s.shape_count = plan->shapes;
        }
        if (plan->rows) {
            s.m = plan->m;
            s.rows = plan->rows;
        }
        if (plan->twins) {
            s.twins = plan->twin;
            s.twin_count = plan->twins;
        }
        good = add_set(plan, &s);
    }
    return good;
}

void bench_plan_free(bench_plan *plan)
{
    free(plan->job);
    *plan = (bench_plan){0};
}
