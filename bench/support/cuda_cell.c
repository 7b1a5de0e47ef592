/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes and cells: see cuda_cell.h.
 */
#include "support/cuda_cell.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPLAIN_BYTES 32768

static bool said(nib_status status, const char *what)
{
    if (status)
        fprintf(stderr, "bench: %s: %s: %s\n", what, nib_status_name(status), nib_last_message());
    return !status;
}

/* ---- shapes ---- */

static bool pack(cuda_shape *s)
{
    const bench_problem *p = &s->problem;
    nib_weight_source source = {
        .size = sizeof(source), .codes = p->codes, .scales = p->scales, .zeros = p->zeros};
    nib_weights_info info = {.size = sizeof(info)};
    nib_weights *first = NULL;
    if (!said(nib_weights_pack(s->gemm, &source, &first), "packing"))
        return false;
    if (!said(nib_weights_get_info(first, &info), "packed weights")) {
        nib_weights_destroy(first);
        return false;
    }
    s->packed_bytes = info.packed_bytes;
    int copies = s->smoke ? 1 : (int)(CUDA_ROTATE_BYTES / info.packed_bytes) + 1;
    s->weights = calloc((size_t)copies, sizeof(nib_weights *));
    if (!s->weights) {
        nib_weights_destroy(first);
        return false;
    }
    s->weights[s->copies++] = first;
    while (s->copies < copies) {
        if (!said(nib_weights_convert(first, s->gemm, &s->weights[s->copies]), "copying weights"))
            return false;
        s->copies++;
    }
    return true;
}

static bool load(cuda_shape *s)
{
    const bench_problem *p = &s->problem;
    size_t act = (size_t)(p->m * p->weight.k) * (size_t)nib_type_bits(s->desc.act_type) / 8;
    s->out_bytes = (size_t)p->weight.n * (size_t)nib_type_bits(s->desc.out_type) / 8;
    if (!bench_cuda_alloc(s->cuda, act, &s->act) ||
        !bench_cuda_upload(s->cuda, s->act, bench_problem_act(p, s->desc.act_type), act) ||
        !bench_cuda_alloc(s->cuda, (size_t)p->m * s->out_bytes, &s->out))
        return false;
    if (!s->desc.act_scale)
        return true;
    size_t scales = (size_t)p->m * sizeof(float);
    return bench_cuda_alloc(s->cuda, scales, &s->act_scale) &&
           bench_cuda_upload(s->cuda, s->act_scale, p->act_i8_scale, scales);
}

bool cuda_shape_open(cuda_shape *s, int64_t m_max)
{
    const nib_gemm_desc *desc = &s->desc;
    bool small = desc->act_type == NIB_E4M3 || desc->act_type == NIB_E5M2;
    bool i8 = desc->act_type == NIB_I8;
    if (desc->bias_type || desc->epilogue || desc->out_type == NIB_I32 ||
        desc->act_scale != (i8 ? NIB_ACT_SCALE_ROW : NIB_ACT_SCALE_NONE)) {
        fprintf(stderr, "bench: timed are activations without scales and a=i8 as=row, without bias "
                        "and epilogue, o=f32, f16 or bf16\n");
        return false;
    }
    unsigned want = (s->cublas ? BENCH_WANT_DENSE : 0) | (small ? BENCH_WANT_COARSE : 0);
    if (!bench_problem_make(&s->problem, &desc->weight, m_max, want) ||
        !said(nib_gemm_create(s->dev, desc, &s->gemm), "planning") || !pack(s) || !load(s) ||
        !said(nib_stream_synchronize(s->dev, NULL), "packing"))
        return false;
    if (s->cublas && !bench_cublas_load(s->cublas, s->cuda, &s->problem, CUDA_ROTATE_BYTES))
        s->cublas = NULL;
    free(s->problem.dense);
    s->problem.dense = NULL;
    return true;
}

void cuda_shape_close(cuda_shape *s)
{
    for (int i = 0; i < s->copies; i++)
        nib_weights_destroy(s->weights[i]);
    free(s->weights);
    nib_gemm_destroy(s->gemm);
    bench_cuda_free(s->cuda, s->act);
    bench_cuda_free(s->cuda, s->act_scale);
    bench_cuda_free(s->cuda, s->out);
    if (s->cublas)
        bench_cublas_unload(s->cublas, s->cuda);
    bench_problem_free(&s->problem);
    *s = (cuda_shape){0};
}

/* Lines "* id 12.34 us  chosen, .." and "  id 12.34 us  1.20 times .." of an explanation. */
int cuda_candidates(cuda_shape *s, int64_t m, cuda_candidate *list, int capacity)
{
    char *text = malloc(EXPLAIN_BYTES), *save;
    int count = 0;
    if (!text || !said(nib_gemm_explain(s->gemm, m, text, EXPLAIN_BYTES, NULL), "explaining")) {
        free(text);
        return 0;
    }
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        cuda_candidate c = {.chosen = line[0] == '*'};
        char unit[4] = "";
        if ((line[0] != '*' && line[0] != ' ') || count == capacity ||
            sscanf(line + 1, "%63s %lf %3s", c.id, &c.predicted_us, unit) != 3 ||
            strcmp(unit, "us"))
            continue;
        list[count++] = c;
        if (c.chosen) {
            list[count - 1] = list[0];
            list[0] = c;
        }
    }
    free(text);
    return count;
}

/* ---- cells ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cuda_median(const cuda_times *t)
{
    return t->count ? t->us[t->count / 2] : NAN;
}

typedef struct call {
    nib_gemm *gemm;
    nib_gemm_args args;
    cuda_shape *shape;
} call;

static int launch(void *user, int64_t number, void *stream)
{
    call *c = user;
    c->args.stream = stream;
    return !said(nib_gemm_run(c->gemm, c->shape->weights[number % c->shape->copies], &c->args),
                 "a run");
}

/* A contender: its calls, and the graph of them. */
typedef struct runner {
    bench_launch_fn launch;
    void *user;
    int copies;
    bool smoke;
    bench_graph graph;
    cuda_times *times;
} runner;

/* Captures as many calls as the setting asks for, and replays them once. */
static bool warm_up(bench_cuda *cuda, runner *r)
{
    double us = 0;
    int64_t least = r->smoke ? 2 : CUDA_LEAST_CALLS;
    int64_t calls = r->copies > least ? r->copies : least;
    /* The first call is made by itself: a kernel's first launch may load it, which a capture
     * forbids. */
    if (r->launch(r->user, 0, cuda->stream) || !bench_cuda_wait(cuda) ||
        !bench_graph_capture(cuda, r->launch, r->user, calls, &r->graph) ||
        !bench_graph_replay(cuda, &r->graph, &us) || !bench_graph_replay(cuda, &r->graph, &us))
        return false;
    if (us < CUDA_GRAPH_US && !r->smoke) {
        calls = (int64_t)ceil(1.05 * CUDA_GRAPH_US / (us / (double)calls));
        bench_graph_free(cuda, &r->graph);
        if (!bench_graph_capture(cuda, r->launch, r->user, calls, &r->graph) ||
            !bench_graph_replay(cuda, &r->graph, &us))
            return false;
    }
    r->times->calls = calls;
    r->times->count = us / (double)calls > CUDA_LONG_US ? 5 : CUDA_REPLAYS;
    return true;
}

/* Second warm-up and the timed replays, in turns. */
static bool time_runners(bench_cuda *cuda, runner *list, int count)
{
    double us;
    for (int i = 0; i < count; i++)
        if (!bench_graph_replay(cuda, &list[i].graph, &us))
            return false;
    for (int round = 0; round < CUDA_REPLAYS; round++)
        for (int i = 0; i < count; i++) {
            cuda_times *t = list[i].times;
            if (round >= t->count)
                continue;
            if (!bench_graph_replay(cuda, &list[i].graph, &us))
                return false;
            t->us[round] = us / (double)t->calls;
        }
    for (int i = 0; i < count; i++)
        qsort(list[i].times->us, (size_t)list[i].times->count, sizeof(double), by_value);
    return true;
}

/* What a replay leaves in poisoned memory, against the reference. */
static bool check(cuda_shape *s, const runner *r, bench_cuda_memory out, nib_type type, int64_t m,
                  bool i8, double *error, double *worst)
{
    size_t bytes = (size_t)(m * s->desc.weight.n) * (size_t)nib_type_bits(type) / 8;
    void *host = malloc(bytes);
    double us;
    bool good = host && bench_cuda_poison(s->cuda, out, bytes) &&
                bench_graph_replay(s->cuda, &r->graph, &us) &&
                bench_cuda_download(s->cuda, host, out, bytes);
    if (good)
        *error = bench_problem_error(&s->problem, m, host, type, i8, worst);
    free(host);
    return good;
}

/* Rounding of the output, and about as much again for the accumulation. */
static double tolerance(nib_type out_type)
{
    return out_type == NIB_F32 ? 1e-4 : out_type == NIB_F16 ? 1e-3 : 8e-3;
}

static bool make_call(cuda_shape *s, const cuda_candidate *variant, int64_t m, call *c)
{
    size_t workspace = 0;
    c->shape = s;
    c->args = (nib_gemm_args){.size = sizeof(c->args),
                              .m = m,
                              .act = (const void *)(uintptr_t)s->act,
                              .lda = s->desc.weight.k,
                              .act_scale = (const void *)(uintptr_t)s->act_scale,
                              .out = (void *)(uintptr_t)s->out,
                              .ldo = s->desc.weight.n};
    setenv("NIB_VARIANT", variant->id, 1);
    nib_status status = nib_gemm_create(s->dev, &s->desc, &c->gemm);
    unsetenv("NIB_VARIANT");
    if (!status)
        status = nib_gemm_prepare(c->gemm, m, m);
    if (!status)
        status = nib_gemm_workspace(c->gemm, m, &workspace);
    if (!status && workspace)
        status = nib_memory_alloc(s->dev, workspace, &c->args.workspace);
    c->args.workspace_bytes = status ? 0 : workspace;
    return said(status, variant->id);
}

static void read_facts(nib_gemm *gemm, int64_t m, cuda_cell *cell)
{
    char *text = malloc(EXPLAIN_BYTES);
    if (text && !nib_gemm_explain(gemm, m, text, EXPLAIN_BYTES, NULL)) {
        char *facts = strstr(text, "\nkernel  ");
        if (facts)
            snprintf(cell->facts, sizeof(cell->facts), "%s", facts + 9);
    }
    free(text);
}

/* cuBLAS, if it computes the same; it is left out when it does not. */
static int add_baseline(cuda_shape *s, int64_t m, cuda_times *times, runner *r)
{
    double error = NAN, worst = NAN;
    s->cublas->m = m;
    *r = (runner){.launch = bench_cublas_launch,
                  .user = s->cublas,
                  .copies = s->cublas->copies,
                  .times = times};
    if (warm_up(s->cuda, r) && check(s, r, s->cublas->out, NIB_F16, m, false, &error, &worst) &&
        error < 2e-3)
        return 1;
    fprintf(stderr, "bench: cuBLAS is not timed here: error %g\n", error);
    bench_graph_free(s->cuda, &r->graph);
    times->count = 0;
    return 0;
}

bool cuda_cell_run(cuda_shape *s, int64_t m, const cuda_candidate *variant, cuda_cell *cell,
                   cuda_times *baseline)
{
    call c = {0};
    *cell = (cuda_cell){.m = m, .variant = *variant, .error = NAN, .worst = NAN};
    runner list[2] = {{.launch = launch,
                       .user = &c,
                       .copies = s->copies,
                       .smoke = s->smoke,
                       .times = &cell->ours}};
    int count = 1;
    bool i8 = s->desc.act_type == NIB_I8;
    double limit = tolerance(s->desc.out_type);
    bool good = make_call(s, variant, m, &c) && warm_up(s->cuda, &list[0]) &&
                check(s, &list[0], s->out, s->desc.out_type, m, i8, &cell->error, &cell->worst);
    cell->wrong = !(cell->error < limit && cell->worst < 4 * limit);
    if (good)
        read_facts(c.gemm, m, cell);
    if (good && !cell->wrong && s->cublas && baseline)
        count += add_baseline(s, m, baseline, &list[1]);
    if (good && !cell->wrong)
        good = time_runners(s->cuda, list, count);
    if (!good || cell->wrong)
        cell->ours.count = 0;
    for (int i = 0; i < count; i++)
        bench_graph_free(s->cuda, &list[i].graph);
    if (c.args.workspace)
        nib_memory_free(s->dev, c.args.workspace);
    nib_gemm_destroy(c.gemm);
    return good;
}
