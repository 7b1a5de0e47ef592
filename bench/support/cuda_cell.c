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
    nib_weight_source source = {.size = sizeof(source),
                                .codes = p->codes,
                                .scales = p->scales,
                                .zeros = p->zeros,
                                .alpha = p->alpha};
    nib_weights_info info = {.size = sizeof(info)};
    nib_weights *first = NULL;
    if (!said(nib_weights_pack(s->gemm, &source, &first), "packing"))
        return false;
    if (!said(nib_weights_get_info(first, &info), "packed weights")) {
        nib_weights_destroy(first);
        return false;
    }
    s->packed_bytes = info.packed_bytes;
    int copies = s->bench->pace.smoke ? 1 : bench_copies_of(info.packed_bytes, BENCH_ROTATE_BYTES);
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

/* Uploads act, for BENCH_ODD_A moved by an element and with rows k + 1 apart. */
static bool load_act(cuda_shape *s)
{
    const bench_problem *p = &s->problem;
    const char *act = bench_problem_act(p, s->desc.act_type);
    size_t elem = (size_t)nib_type_bits(s->desc.act_type) / 8, k = (size_t)p->weight.k;
    size_t rows = (size_t)p->m, odd = s->twin == BENCH_ODD_A;
    size_t bytes = (rows * (k + odd) + odd) * elem;
    char *moved = odd ? malloc(bytes) : NULL;
    if (!act || (odd && !moved)) {
        fprintf(stderr, "bench: no memory for activations, or they are of no type made here\n");
        return false;
    }
    if (odd) {
        memset(moved, BENCH_POISON, bytes);
        for (size_t row = 0; row < rows; row++)
            memcpy(moved + (row * (k + 1) + 1) * elem, act + row * k * elem, k * elem);
    }
    s->lda = (int64_t)(k + odd);
    bool good = bench_cuda_alloc(&s->bench->cuda, bytes, &s->act) &&
                bench_cuda_upload(&s->bench->cuda, s->act, odd ? moved : act, bytes);
    s->act_at = s->act + odd * elem;
    free(moved);
    return good;
}

static bool load(cuda_shape *s)
{
    const bench_problem *p = &s->problem;
    bench_cuda *cuda = &s->bench->cuda;
    size_t out = (size_t)(p->m * p->weight.n) * (size_t)nib_type_bits(s->desc.out_type) / 8;
    if (!load_act(s) || !bench_cuda_alloc(cuda, out, &s->out))
        return false;
    if (!s->desc.act_scale)
        return true;
    size_t scales = (size_t)p->m * sizeof(float);
    const float *from = s->desc.act_type == NIB_I8 ? p->act_i8_scale : p->act_row_scale;
    return bench_cuda_alloc(cuda, scales, &s->act_scale) &&
           bench_cuda_upload(cuda, s->act_scale, from, scales);
}

static bool is_small_float(nib_type type)
{
    return type == NIB_E4M3 || type == NIB_E5M2;
}

/* The 16-bit baseline of a product: activations' type, or for 8-bit ones the output's. */
static nib_type dense_type(const nib_gemm_desc *desc)
{
    nib_type type = nib_type_bits(desc->act_type) == 8 ? desc->out_type : desc->act_type;
    return type == NIB_BF16 ? NIB_BF16 : NIB_F16;
}

static void open_dense(cuda_shape *s, nib_type type)
{
    const bench_problem *p = &s->problem;
    nib_type out = s->desc.out_type == NIB_BF16 ? NIB_BF16 : NIB_F16;
    bench_dense_source source = {.m = p->m,
                                 .n = p->weight.n,
                                 .k = p->weight.k,
                                 .type = type,
                                 .out_type = out,
                                 .weights = p->dense,
                                 .act = p->act,
                                 .bytes = s->bench->pace.smoke ? 0 : BENCH_ROTATE_BYTES};
    bench_dense *d = &s->dense[s->denses];
    if (bench_dense_open(d, s->bench->cublas, &s->bench->cuda, &source))
        s->denses++;
    else
        bench_dense_close(d, &s->bench->cuda);
    if (!s->bench->dequant || type == NIB_E4M3 || p->m < CUDA_DEQUANT_ROWS ||
        !bench_dequant_can(&s->desc))
        return;
    s->has_dequant = bench_dequant_open(&s->dequant, s->bench->cublas, &s->bench->cuda, &p->weight,
                                        p->codes, p->scales, &source);
    if (!s->has_dequant)
        bench_dequant_close(&s->dequant);
}

/* A twin is compared with its aligned product: its baselines would be other products'. */
static bool has_baselines(const cuda_shape *s)
{
    return s->bench->cublas && s->twin == BENCH_ALIGNED;
}

static void open_baselines(cuda_shape *s)
{
    cuda_bench *b = s->bench;
    s->has_floor =
        b->reader && bench_reader_load(b->reader, s->packed_bytes, BENCH_ROTATE_BYTES, &b->pace);
    if (!has_baselines(s))
        return;
    open_dense(s, dense_type(&s->desc));
    if (nib_type_bits(s->desc.act_type) == 8)
        open_dense(s, NIB_E4M3);
    free(s->problem.dense);
    s->problem.dense = NULL;
}

bool cuda_shape_open(cuda_shape *s, int64_t m_max)
{
    const nib_gemm_desc *desc = &s->desc;
    bool eight = nib_type_bits(desc->act_type) == 8;
    bench_twin_apply(s->twin, &s->desc);
    if (desc->bias_type || desc->epilogue || desc->out_type == NIB_I32 ||
        (desc->act_scale != NIB_ACT_SCALE_NONE && desc->act_scale != NIB_ACT_SCALE_ROW) ||
        (desc->act_scale && !eight) || (desc->act_type == NIB_I8 && !desc->act_scale)) {
        fprintf(stderr, "bench: timed are activations without scales and 8-bit ones with as=row, "
                        "without bias and epilogue, o=f32, f16 or bf16\n");
        return false;
    }
    /* fp8 baselines read e4m3 activations also where ours are i8. */
    unsigned want = (has_baselines(s) ? BENCH_WANT_DENSE : 0) | (eight ? BENCH_WANT_COARSE : 0);
    if (!bench_problem_make(&s->problem, &desc->weight, m_max, want) ||
        !said(nib_gemm_create(s->bench->dev, desc, &s->gemm), "planning") || !pack(s) || !load(s) ||
        !said(nib_stream_synchronize(s->bench->dev, NULL), "packing"))
        return false;
    open_baselines(s);
    return true;
}

void cuda_shape_close(cuda_shape *s)
{
    bench_cuda *cuda = &s->bench->cuda;
    for (int i = 0; i < s->copies; i++)
        nib_weights_destroy(s->weights[i]);
    free(s->weights);
    nib_gemm_destroy(s->gemm);
    bench_cuda_free(cuda, s->act);
    bench_cuda_free(cuda, s->act_scale);
    bench_cuda_free(cuda, s->out);
    for (int i = 0; i < s->denses; i++)
        bench_dense_close(&s->dense[i], cuda);
    if (s->has_dequant)
        bench_dequant_close(&s->dequant);
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

static bool open_call(cuda_shape *s, const cuda_candidate *variant, int64_t m, call *c)
{
    size_t workspace = 0;
    c->shape = s;
    c->args = (nib_gemm_args){.size = sizeof(c->args),
                              .m = m,
                              .act = (const void *)(uintptr_t)s->act_at,
                              .lda = s->lda,
                              .act_scale = (const void *)(uintptr_t)s->act_scale,
                              .out = (void *)(uintptr_t)s->out,
                              .ldo = s->desc.weight.n};
    /* The library's own choice is left to itself. */
    if (!variant->chosen)
        setenv("NIB_VARIANT", variant->id, 1);
    nib_status status = nib_gemm_create(s->bench->dev, &s->desc, &c->gemm);
    unsetenv("NIB_VARIANT");
    if (!status)
        status = nib_gemm_prepare(c->gemm, m, m);
    if (!status)
        status = nib_gemm_workspace(c->gemm, m, &workspace);
    if (!status && workspace)
        status = nib_memory_alloc(s->bench->dev, workspace, &c->args.workspace);
    c->args.workspace_bytes = status ? 0 : workspace;
    return said(status, variant->id);
}

static void close_call(call *c)
{
    if (c->args.workspace)
        nib_memory_free(c->shape->bench->dev, c->args.workspace);
    nib_gemm_destroy(c->gemm);
}

/* What a replay leaves in poisoned memory, against the reference. */
typedef struct checked {
    bench_cuda_memory out;
    nib_type type;
    int64_t m;
    bench_reference reference;
} checked;

static bool check(cuda_shape *s, const bench_runner *r, const checked *what, double *error,
                  double *worst)
{
    bench_cuda *cuda = &s->bench->cuda;
    size_t bytes = (size_t)(what->m * s->desc.weight.n) * (size_t)nib_type_bits(what->type) / 8;
    void *host = malloc(bytes);
    double us;
    bool good = host && bench_cuda_fill(cuda, what->out, BENCH_POISON, bytes) &&
                bench_graph_replay(cuda, &r->graph, &us) &&
                bench_cuda_download(cuda, host, what->out, bytes);
    if (good)
        *error =
            bench_problem_error(&s->problem, what->m, host, what->type, what->reference, worst);
    free(host);
    return good;
}

/* Rounding of the output, and about as much again for the accumulation. */
static double tolerance(nib_type out_type)
{
    return out_type == NIB_F32 ? 1e-4 : out_type == NIB_F16 ? 1e-3 : 8e-3;
}

static bool is_right(const cuda_shape *s, double error, double worst)
{
    double limit = tolerance(s->desc.out_type);
    return error < limit && worst < 4 * limit;
}

/* Contenders beside ours that ran and computed about the same; the others are left out. */
typedef struct beside {
    bench_runner runner[CUDA_MOST_DENSE + 2];
    bench_stat *to[CUDA_MOST_DENSE + 2];
    int count;
} beside;

static bench_runner *add(cuda_shape *s, beside *b, const bench_runner *runner, bench_stat *to)
{
    bench_runner *r = &b->runner[b->count];
    *r = *runner;
    if (!bench_runner_open(&s->bench->cuda, r, &s->bench->pace))
        return NULL;
    b->to[b->count++] = to;
    return r;
}

/* `limit`: rounding of the weights to the baseline's type, 2^-9 in bf16 and 2^-4 at most in e4m3.
 */
static void add_dense(cuda_shape *s, beside *b, bench_dense *d, const bench_runner *runner,
                      int64_t m, bench_stat *to)
{
    double error = NAN, limit = d->type == NIB_F16 ? 2e-3 : d->type == NIB_BF16 ? 1e-2 : 6e-2;
    checked what = {d->out, d->out_type, m, BENCH_REF_ACT};
    if (!bench_dense_rows(d, m))
        return;
    bench_runner *r = add(s, b, runner, to);
    if (!r || (check(s, r, &what, &error, NULL) && error < limit))
        return;
    fprintf(stderr, "bench: %s is not timed here: error %g\n", r->name, error);
    bench_runner_close(&s->bench->cuda, r);
    b->count--;
}

static void add_all(cuda_shape *s, beside *b, int64_t m, bench_row *row)
{
    if (s->has_floor) {
        bench_runner runner = {.name = "the floor",
                               .launch = bench_reader_launch,
                               .user = s->bench->reader,
                               .copies = s->bench->reader->copies};
        add(s, b, &runner, &row->floor);
        snprintf(row->floor_name, sizeof(row->floor_name), "%s", s->bench->reader->name);
    }
    for (int i = 0; i < s->denses; i++) {
        bench_dense *d = &s->dense[i];
        bool fp8 = d->type == NIB_E4M3;
        bench_runner runner = {.name = fp8 ? "cuBLAS fp8" : "cuBLAS",
                               .launch = bench_dense_launch,
                               .user = d,
                               .copies = d->copies};
        add_dense(s, b, d, &runner, m, fp8 ? &row->cublas_fp8 : &row->cublas);
    }
    if (s->has_dequant && m >= CUDA_DEQUANT_ROWS) {
        bench_runner runner = {.name = "dequantise, then cuBLAS",
                               .launch = bench_dequant_launch,
                               .user = &s->dequant,
                               .copies = s->dequant.copies};
        add_dense(s, b, &s->dequant.dense, &runner, m, &row->dequant);
    }
}

static bool time_all(cuda_shape *s, bench_runner *ours, beside *b, bench_row *row)
{
    bench_runner *list[CUDA_MOST_DENSE + 3] = {ours};
    for (int i = 0; i < b->count; i++)
        list[i + 1] = &b->runner[i];
    if (!bench_rounds(&s->bench->cuda, list, b->count + 1, &s->bench->pace))
        return false;
    row->ours = ours->stat;
    for (int i = 0; i < b->count; i++)
        *b->to[i] = b->runner[i].stat;
    return true;
}

static char *read_facts(nib_gemm *gemm, int64_t m)
{
    char *text = malloc(EXPLAIN_BYTES), *copy = NULL;
    if (text && !nib_gemm_explain(gemm, m, text, EXPLAIN_BYTES, NULL)) {
        char *facts = strstr(text, "\nkernel  ");
        copy = facts ? strdup(facts + 9) : NULL;
    }
    free(text);
    return copy;
}

static bench_reference reference_of(const nib_gemm_desc *desc)
{
    return desc->act_type == NIB_I8                            ? BENCH_REF_I8
           : desc->act_scale && is_small_float(desc->act_type) ? BENCH_REF_SCALED
                                                               : BENCH_REF_ACT;
}

static bench_state run_cell(cuda_shape *s, const cuda_candidate *variant, bool baselines,
                            bench_row *row, char **facts)
{
    call c = {0};
    beside b = {0};
    bench_runner ours = {.name = variant->id, .launch = launch, .user = &c, .copies = s->copies};
    checked what = {s->out, s->desc.out_type, row->m, reference_of(&s->desc)};
    double worst = NAN;
    bench_state state = BENCH_FAILED;
    if (!open_call(s, variant, row->m, &c) ||
        !bench_runner_open(&s->bench->cuda, &ours, &s->bench->pace) ||
        !check(s, &ours, &what, &row->error, &row->worst))
        goto done;
    state = is_right(s, row->error, row->worst) ? BENCH_OK : BENCH_WRONG;
    if (facts)
        *facts = read_facts(c.gemm, row->m);
    if (state)
        goto done;
    if (baselines)
        add_all(s, &b, row->m, row);
    if (!time_all(s, &ours, &b, row) || !check(s, &ours, &what, &row->error_after, &worst))
        state = BENCH_FAILED;
    else if (!is_right(s, row->error_after, worst))
        state = BENCH_WRONG;
done:
    for (int i = 0; i < b.count; i++)
        bench_runner_close(&s->bench->cuda, &b.runner[i]);
    bench_runner_close(&s->bench->cuda, &ours);
    close_call(&c);
    return state;
}

void cuda_cell_run(cuda_shape *s, int64_t m, const cuda_candidate *variant, bool baselines,
                   bench_row *row, char **facts)
{
    row->m = m;
    row->error = row->worst = row->error_after = NAN;
    row->bytes = s->packed_bytes;
    row->planned = variant->predicted_us;
    row->chosen = variant->chosen;
    snprintf(row->variant, sizeof(row->variant), "%s", variant->id);
    row->state = run_cell(s, variant, baselines, row, facts);
    if (row->state)
        row->ours = (bench_stat){0};
}
