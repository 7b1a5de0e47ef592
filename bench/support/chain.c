/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains: see chain.h. Weights are such that values neither grow nor vanish along the layers.
 */
#include "support/chain.h"

#include "support/problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP    128
#define COLUMNS  48   /* checked of each layer */
#define GATE     4.0f /* bias of x1: silu is then nearly linear, so that values keep their size */
#define VARIANCE 17.5 /* of a code that is -7..7, 0 twice as often */

struct chain_kind_data {
    nib_gemm_desc desc;
    uint8_t *codes;
    uint16_t *scales, *bias;
    int64_t out_cols;
};

struct chain_side {
    nib_device *dev;
    nib_gemm *gemm[CHAIN_MOST_KINDS];
    nib_weights **weights; /* of each layer */
    void *workspace;
    size_t workspace_bytes;
    uint64_t bytes[CHAIN_MOST_KINDS];
};

static bool said(nib_status status, const char *what)
{
    if (status)
        fprintf(stderr, "bench: %s: %s: %s\n", what, nib_status_name(status), nib_last_message());
    return !status;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u); /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The bits of a value in f16's normal range, cut off. */
static uint16_t to_bits(nib_type type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (type == NIB_BF16)
        return (uint16_t)(bits >> 16);
    if (!(bits & 0x7fffffff))
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits & 0x7fffffff) >> 13) - (112 << 10)));
}

/* ---- data ---- */

/* Sums of k products keep the activations' size; what a gate of GATE multiplies by, the layer that
 * reads it divides by. */
static double scale_of(const chain_model *model, int index)
{
    int before = (index + model->kinds - 1) % model->kinds;
    double gain = model->kind[before].gated ? 1 / (double)GATE : 1;
    return gain / sqrt(VARIANCE * (double)model->kind[index].k);
}

static void fill_kind(chain_kind_data *d, double scale, nib_type type, uint64_t seed)
{
    int64_t n = d->desc.weight.n, k = d->desc.weight.k;
    for (int64_t i = 0; i < n * k / 2; i += 8) {
        uint64_t r = next_random(&seed);
        /* Without code 0 (-8), which has no counterpart: a mean other than 0 would grow. */
        uint64_t some = (r | r >> 1 | r >> 2 | r >> 3) & 0x1111111111111111u;
        r |= (some ^ 0x1111111111111111u) << 3;
        memcpy(d->codes + i, &r, 8);
    }
    for (int64_t i = 0; i < n * k / GROUP; i++) {
        double part = (double)(next_random(&seed) >> 40) * 0x1p-24; /* [0, 1) */
        d->scales[i] = to_bits(type, (float)(scale * (0.75 + 0.5 * part)));
    }
    for (int64_t i = 0; d->bias && i < n; i++)
        d->bias[i] = to_bits(type, i < n / 2 ? GATE : 0);
}

static bool make_kind(chain *c, int index)
{
    const chain_kind *kind = &c->model->kind[index];
    chain_kind_data *d = &c->data[index];
    const char *name = nib_type_name(c->type);
    char line[160];
    snprintf(line, sizeof(line), "n=%lld k=%lld w=i4 g=%d s=%s a=%s%s%s%s", (long long)kind->n,
             (long long)kind->k, GROUP, name, name, kind->gated ? " b=" : "",
             kind->gated ? name : "", kind->gated ? " e=silu_gated" : "");
    d->desc.size = sizeof(d->desc);
    if (!said(nib_gemm_desc_parse(line, &d->desc), line))
        return false;
    d->out_cols = kind->gated ? kind->n / 2 : kind->n;
    d->codes = malloc((size_t)(kind->n * kind->k / 2) + 8);
    d->scales = malloc((size_t)(kind->n * kind->k / GROUP) * 2);
    d->bias = kind->gated ? malloc((size_t)kind->n * 2) : NULL;
    if (!d->codes || !d->scales || (kind->gated && !d->bias)) {
        fprintf(stderr, "bench: no memory for the weights of a chain\n");
        return false;
    }
    fill_kind(d, scale_of(c->model, index), c->type, 77 + (uint64_t)index);
    if (!d->bias)
        return true;
    return bench_cuda_alloc(c->cuda, (size_t)kind->n * 2, &c->bias[index]) &&
           bench_cuda_upload(c->cuda, c->bias[index], d->bias, (size_t)kind->n * 2);
}

/* Columns of what a layer writes, which are the next layer's row stride. */
static int64_t width_before(const chain *c, int layer)
{
    return layer ? c->data[(layer - 1) % c->model->kinds].out_cols : c->model->kind[0].k;
}

static bool make_buffers(chain *c)
{
    int64_t widest = 0, count = c->m_max * c->model->kind[0].k;
    uint64_t seed = 4711;
    for (int i = 0; i < c->model->kinds; i++)
        widest = c->data[i].out_cols > widest ? c->data[i].out_cols : widest;
    c->buffer_bytes = (size_t)(c->m_max * widest) * 2;
    uint16_t *input = c->input = malloc((size_t)count * 2);
    for (int64_t i = 0; input && i < count; i++) /* eighths up to 2: exact in both types */
        input[i] = to_bits(c->type, (float)((int)(next_random(&seed) >> 59) - 16) / 8);
    return input && bench_cuda_alloc(c->cuda, (size_t)count * 2, &c->act) &&
           bench_cuda_upload(c->cuda, c->act, input, (size_t)count * 2) &&
           bench_cuda_alloc(c->cuda, c->buffer_bytes, &c->buffer[0]) &&
           bench_cuda_alloc(c->cuda, c->buffer_bytes, &c->buffer[1]);
}

/* ---- devices ---- */

/* Layers of a kind hold the same values in memory of their own: each is read from memory. */
static bool make_weights(const chain *c, chain_side *s)
{
    const chain_model *model = c->model;
    for (int i = 0; i < model->layers; i++) {
        int kind = i % model->kinds;
        const chain_kind_data *d = &c->data[kind];
        nib_weight_source source = {.size = sizeof(source), .codes = d->codes, .scales = d->scales};
        nib_weights_info info = {.size = sizeof(info)};
        nib_status status =
            i < model->kinds ? nib_weights_pack(s->gemm[kind], &source, &s->weights[i])
                             : nib_weights_convert(s->weights[kind], s->gemm[kind], &s->weights[i]);
        if (!status)
            status = nib_weights_get_info(s->weights[i], &info);
        if (!said(status, "packing a chain"))
            return false;
        s->bytes[kind] = info.packed_bytes;
    }
    return true;
}

static chain_side *open_side(const chain *c, nib_device *dev)
{
    chain_side *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->dev = dev;
    s->weights = calloc((size_t)c->model->layers, sizeof(*s->weights));
    nib_status status = s->weights ? NIB_OK : NIB_NO_MEMORY;
    for (int i = 0; i < c->model->kinds && !status; i++) {
        size_t workspace = 0;
        status = nib_gemm_create(dev, &c->data[i].desc, &s->gemm[i]);
        if (!status)
            status = nib_gemm_workspace(s->gemm[i], c->m_max, &workspace);
        if (!status)
            status = nib_gemm_prepare(s->gemm[i], 1, c->m_max);
        s->workspace_bytes = workspace > s->workspace_bytes ? workspace : s->workspace_bytes;
    }
    if (!status && s->workspace_bytes)
        status = nib_memory_alloc(dev, s->workspace_bytes, &s->workspace);
    if (!said(status, "planning a chain"))
        return s;
    if (make_weights(c, s))
        said(nib_stream_synchronize(dev, NULL), "packing a chain");
    return s;
}

static bool is_open(const chain *c, const chain_side *s)
{
    return s && s->weights && s->weights[c->model->layers - 1];
}

static void close_side(const chain *c, chain_side *s)
{
    if (!s)
        return;
    for (int i = 0; s->weights && i < c->model->layers; i++)
        nib_weights_destroy(s->weights[i]);
    for (int i = 0; i < c->model->kinds; i++)
        nib_gemm_destroy(s->gemm[i]);
    if (s->workspace)
        nib_memory_free(s->dev, s->workspace);
    free(s->weights);
    free(s);
}

bool chain_open(chain *c, bench_cuda *cuda, nib_device *const dev[2], const chain_model *model,
                nib_type type, int64_t m_max)
{
    *c = (chain){.cuda = cuda, .model = model, .type = type, .m_max = m_max};
    c->data = calloc((size_t)model->kinds, sizeof(*c->data));
    for (int i = 0; i < model->kinds; i++)
        if (!c->data || !make_kind(c, i))
            return false;
    if (!make_buffers(c))
        return false;
    for (int i = 0; i < 2; i++) {
        c->side[i] = open_side(c, dev[i]);
        if (!is_open(c, c->side[i]))
            return false;
    }
    return true;
}

void chain_close(chain *c)
{
    for (int i = 0; i < 2; i++) {
        close_side(c, c->side[i]);
        bench_cuda_free(c->cuda, c->buffer[i]);
    }
    bench_cuda_free(c->cuda, c->act);
    for (int i = 0; c->data && i < c->model->kinds; i++) {
        bench_cuda_free(c->cuda, c->bias[i]);
        free(c->data[i].codes);
        free(c->data[i].scales);
        free(c->data[i].bias);
    }
    free(c->data);
    free(c->input);
    *c = (chain){0};
}

uint64_t chain_bytes(const chain *c, int kind)
{
    return c->side[0]->bytes[kind];
}

/* ---- runs ---- */

typedef struct run {
    chain *chain;
    chain_side *side;
    int64_t m;
} run;

static bool launch_layer(const run *r, int layer, void *stream)
{
    chain *c = r->chain;
    int kind = layer % c->model->kinds;
    const chain_kind_data *d = &c->data[kind];
    bench_cuda_memory from = layer ? c->buffer[(layer - 1) % 2] : c->act;
    nib_gemm_args args = {.size = sizeof(args),
                          .m = r->m,
                          .act = (const void *)(uintptr_t)from,
                          .lda = width_before(c, layer),
                          .out = (void *)(uintptr_t)c->buffer[layer % 2],
                          .ldo = d->out_cols,
                          .bias = (const void *)(uintptr_t)c->bias[kind],
                          .workspace = r->side->workspace,
                          .workspace_bytes = r->side->workspace_bytes,
                          .stream = stream};
    return said(nib_gemm_run(r->side->gemm[kind], r->side->weights[layer], &args), "a layer");
}

/* A bench_launch_fn: the whole chain. */
static int launch_chain(void *user, int64_t call, void *stream)
{
    const run *r = user;
    (void)call;
    for (int i = 0; i < r->chain->model->layers; i++)
        if (!launch_layer(r, i, stream))
            return 1;
    return 0;
}

/* ---- checks ---- */

static float weight_at(const chain_kind_data *d, nib_type type, int64_t n, int64_t k)
{
    int64_t at = n * d->desc.weight.k + k;
    int code = d->codes[at / 2] >> 4 * (at % 2) & 15;
    return (float)(code - 8) * bench_decode(type, d->scales, at / GROUP);
}

static double sum_of(const chain *c, const chain_kind_data *d, const uint16_t *act, int64_t row,
                     int64_t lda, int64_t n)
{
    double sum = d->bias ? (double)bench_decode(c->type, d->bias, n) : 0;
    for (int64_t k = 0; k < d->desc.weight.k; k++)
        sum +=
            (double)weight_at(d, c->type, n, k) * (double)bench_decode(c->type, act, row * lda + k);
    return sum;
}

/* Relative error of some columns of a layer; NaN when anything is NaN. */
static double layer_error(const chain *c, int layer, int64_t m, const uint16_t *act,
                          const uint16_t *out)
{
    const chain_kind_data *d = &c->data[layer % c->model->kinds];
    int64_t lda = width_before(c, layer), half = d->desc.weight.n / 2;
    double error = 0, norm = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : error, norm)
#endif
    for (int64_t i = 0; i < m * COLUMNS; i++) {
        int64_t row = i / COLUMNS, n = i % COLUMNS * (d->out_cols - 1) / (COLUMNS - 1);
        double want = sum_of(c, d, act, row, lda, n);
        if (d->bias)
            want = want / (1 + exp(-want)) * sum_of(c, d, act, row, lda, n + half);
        double off = (double)bench_decode(c->type, out, row * d->out_cols + n) - want;
        error += off * off;
        norm += want * want;
    }
    return sqrt(error / norm);
}

static bool fetch(chain *c, int layer, int64_t m, uint16_t *to)
{
    size_t bytes = (size_t)(m * c->data[layer % c->model->kinds].out_cols) * 2;
    return bench_cuda_download(c->cuda, to, c->buffer[layer % 2], bytes);
}

/* Layers one by one, each checked; leaves the last layer's output in `last`. */
static bool run_singly(const run *r, uint16_t *before, uint16_t *last, double *worst)
{
    chain *c = r->chain;
    uint16_t *act = before, *out = last;
    memcpy(act, c->input, (size_t)(r->m * c->model->kind[0].k) * 2);
    *worst = 0;
    for (int i = 0; i < c->model->layers; i++) {
        if (!bench_cuda_fill(c->cuda, c->buffer[i % 2], BENCH_POISON, c->buffer_bytes) ||
            !launch_layer(r, i, c->cuda->stream) || !bench_cuda_wait(c->cuda) ||
            !fetch(c, i, r->m, out))
            return false;
        double error = layer_error(c, i, r->m, act, out);
        *worst = error <= *worst ? *worst : error; /* a NaN stays */
        uint16_t *other = act;
        act = out;
        out = other;
    }
    if (act != last)
        memcpy(last, act, c->buffer_bytes);
    return true;
}

static bool replay_equals(chain *c, const bench_runner *r, int64_t m, const uint16_t *want,
                          uint16_t *got, bool *equal)
{
    double us;
    int layer = c->model->layers - 1;
    if (!bench_cuda_fill(c->cuda, c->buffer[0], BENCH_POISON, c->buffer_bytes) ||
        !bench_cuda_fill(c->cuda, c->buffer[1], BENCH_POISON, c->buffer_bytes) ||
        !bench_graph_replay(c->cuda, &r->graph, &us) || !fetch(c, layer, m, got))
        return false;
    size_t bytes = (size_t)(m * c->data[layer % c->model->kinds].out_cols) * 2;
    *equal = *equal && !memcmp(want, got, bytes);
    return true;
}

static void read_variant(nib_gemm *gemm, int64_t m, char *out, size_t bytes)
{
    char text[32768];
    char *line = nib_gemm_explain(gemm, m, text, sizeof(text), NULL) ? NULL : strstr(text, "\n* ");
    snprintf(out, bytes, "%.*s", line ? (int)strcspn(line + 3, " ") : 1, line ? line + 3 : "?");
}

/* ---- one measurement ---- */

typedef struct contenders {
    run runs[2];
    bench_runner runner[2 + CHAIN_MOST_KINDS];
    int count;
} contenders;

static bool open_contenders(chain *c, int64_t m, bench_reader *readers, const bench_pace *pace,
                            contenders *all)
{
    static const char *const names[] = {"the chain", "the chain without dependent launch"};
    for (int i = 0; i < 2; i++) {
        all->runs[i] = (run){c, c->side[i], m};
        all->runner[i] = (bench_runner){
            .name = names[i], .launch = launch_chain, .user = &all->runs[i], .copies = 1};
        if (!bench_runner_open(c->cuda, &all->runner[i], pace))
            return false;
        all->count++;
    }
    for (int i = 0; readers && i < c->model->kinds; i++) {
        all->runner[2 + i] = (bench_runner){.name = "the floor",
                                            .launch = bench_reader_launch,
                                            .user = &readers[i],
                                            .copies = readers[i].copies};
        if (!bench_runner_open(c->cuda, &all->runner[2 + i], pace))
            return false;
        all->count++;
    }
    return true;
}

static void take_times(const chain *c, const contenders *all, chain_result *out)
{
    out->dependent = all->runner[0].stat;
    out->plain = all->runner[1].stat;
    for (int i = 2; i < all->count; i++) {
        out->floor[i - 2] = all->runner[i].stat;
        out->floor_us +=
            all->runner[i].stat.us * (double)c->model->layers / (double)c->model->kinds;
    }
}

bool chain_run(chain *c, int64_t m, bench_reader *readers, const bench_pace *pace,
               chain_result *out)
{
    contenders all = {0};
    bench_runner *list[2 + CHAIN_MOST_KINDS];
    size_t input = (size_t)(c->m_max * c->model->kind[0].k) * 2;
    size_t bytes = input > c->buffer_bytes ? input : c->buffer_bytes;
    uint16_t *want = malloc(bytes), *got = malloc(bytes);
    *out = (chain_result){.equal = true};
    run single = {c, c->side[1], m};
    bool good = want && got && run_singly(&single, got, want, &out->error) &&
                open_contenders(c, m, readers, pace, &all) &&
                replay_equals(c, &all.runner[0], m, want, got, &out->equal) &&
                replay_equals(c, &all.runner[1], m, want, got, &out->equal);
    for (int i = 0; i < all.count; i++)
        list[i] = &all.runner[i];
    good = good && bench_rounds(c->cuda, list, all.count, pace) &&
           replay_equals(c, &all.runner[0], m, want, got, &out->equal);
    out->right = out->error < (c->type == NIB_F16 ? 1e-3 : 8e-3);
    if (good)
        take_times(c, &all, out);
    for (int i = 0; i < c->model->kinds; i++)
        read_variant(c->side[0]->gemm[i], m, out->variant[i], sizeof(out->variant[i]));
    for (int i = 0; i < all.count; i++)
        bench_runner_close(c->cuda, &all.runner[i]);
    free(want);
    free(got);
    return good;
}
