/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of a Llama: for every layer, norm, attention and residual, then norm, gated
 * layer and residual. Every linear layer is a nibblas product.
 */
#include "graph.h"

#include "error.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Floats of one row of all buffers but the logits. */
static int64_t row_elems(const llama_params *p)
{
    int64_t q_width = p->heads * p->head_dim, kv_width = p->kv_heads * p->head_dim;
    return 2 * p->embed + 2 * q_width + 2 * kv_width + 2 * p->ff + p->rope_dims;
}

static nib_status allocate(llama_session *s)
{
    const llama_params *p = &s->model->params;
    int64_t q_width = p->heads * p->head_dim, kv_width = p->kv_heads * p->head_dim;
    size_t elems = (size_t)(s->batch * row_elems(p) + p->vocab);
    float *next = s->memory = malloc(elems * sizeof *next);
    if (!next)
        return llama_fail(NIB_NO_MEMORY, "no memory for a batch of %" PRId64 " tokens", s->batch);
    const struct {
        float **buffer;
        int64_t width;
    } rows[] = {{&s->x, p->embed},           {&s->norm, p->embed}, {&s->q, q_width},
                {&s->mixed, q_width},        {&s->k, kv_width},    {&s->v, kv_width},
                {&s->gate, p->ff},           {&s->up, p->ff},      {&s->cosine, p->rope_dims / 2},
                {&s->sine, p->rope_dims / 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *rows[i].buffer = next;
        next += s->batch * rows[i].width;
    }
    s->logits = next;
    return NIB_OK;
}

nib_status llama_session_create(llama_model *model, const llama_session_options *options,
                                llama_session **out)
{
    if (options->context < 1 || options->context > model->params.context)
        return llama_fail(
            NIB_INVALID, "a context of %" PRId64 " tokens is asked for; this model has 1..%" PRId64,
            options->context, model->params.context);
    if (options->batch < 0 || options->batch > LLAMA_BATCH_MAX)
        return llama_fail(NIB_INVALID, "a batch of %" PRId64 " tokens; it must be within 1..%d",
                          options->batch, LLAMA_BATCH_MAX);
    llama_session *s = calloc(1, sizeof *s);
    if (!s)
        return llama_fail(NIB_NO_MEMORY, "no memory for a session");
    s->model = model;
    s->batch = options->batch ? options->batch : LLAMA_BATCH_MAX;
    if (s->batch > options->context)
        s->batch = options->context;
    nib_status status =
        llama_cache_create(&model->params, options->context, options->cache_type, &s->cache);
    if (status == NIB_OK)
        status = allocate(s);
    if (status != NIB_OK) {
        llama_session_destroy(s);
        return status;
    }
    *out = s;
    return NIB_OK;
}

void llama_session_destroy(llama_session *session)
{
    if (!session)
        return;
    llama_cache_free(&session->cache);
    free(session->memory);
    free(session);
}

void llama_session_reset(llama_session *session)
{
    session->position = 0;
}

/* out = x / rms(x) * weight, row by row. */
static void rms_norm(const float *x, const float *weight, int64_t rows, int64_t width, double eps,
                     float *out)
{
    for (int64_t r = 0; r < rows; r++, x += width, out += width) {
        double sum = 0;
        for (int64_t i = 0; i < width; i++)
            sum += (double)x[i] * x[i];
        float scale = (float)(1.0 / sqrt(sum / (double)width + eps));
        for (int64_t i = 0; i < width; i++)
            out[i] = x[i] * scale * weight[i];
    }
}

static void add(float *x, const float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] += y[i];
}

/* gate = silu(gate) * up, element by element */
static void gate_up(llama_session *s, int64_t count)
{
    float *gate = s->gate;
    const float *up = s->up;
    for (int64_t i = 0; i < count; i++)
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static llama_job job_of(const llama_linear *linear, float *out)
{
    return (llama_job){
        .gemm = linear->gemm, .weights = linear->weights, .n = linear->n, .out = out};
}

static nib_status run(llama_session *s, const llama_linear *linear, const float *act, int64_t m,
                      float *out)
{
    llama_job job = job_of(linear, out);
    return llama_engine_run_all(&s->model->engine, &job, 1, linear->k, act, m);
}

static nib_status attention_block(llama_session *s, int64_t index, int64_t rows)
{
    const llama_params *p = &s->model->params;
    const llama_layer *layer = &s->model->layers[index];
    rms_norm(s->x, layer->attn_norm, rows, p->embed, p->norm_eps, s->norm);
    const llama_job jobs[] = {job_of(&layer->q, s->q), job_of(&layer->k, s->k),
                              job_of(&layer->v, s->v)};
    nib_status status = llama_engine_run_all(&s->model->engine, jobs, 3, p->embed, s->norm, rows);
    if (status != NIB_OK)
        return status;
    llama_rope(p, s->cosine, s->sine, rows, p->heads, s->q);
    llama_rope(p, s->cosine, s->sine, rows, p->kv_heads, s->k);
    llama_cache_store(&s->cache, index, s->position, rows, s->k, s->v);
    llama_attend(p, &s->cache, index, s->position, rows, s->q, s->mixed);
    status = run(s, &layer->attn_out, s->mixed, rows, s->norm);
    if (status == NIB_OK)
        add(s->x, s->norm, rows * p->embed);
    return status;
}

static nib_status gated_block(llama_session *s, int64_t index, int64_t rows)
{
    const llama_params *p = &s->model->params;
    const llama_layer *layer = &s->model->layers[index];
    rms_norm(s->x, layer->ffn_norm, rows, p->embed, p->norm_eps, s->norm);
    const llama_job jobs[] = {job_of(&layer->gate, s->gate), job_of(&layer->up, s->up)};
    nib_status status = llama_engine_run_all(&s->model->engine, jobs, 2, p->embed, s->norm, rows);
    if (status != NIB_OK)
        return status;
    gate_up(s, rows * p->ff);
    status = run(s, &layer->down, s->gate, rows, s->norm);
    if (status == NIB_OK)
        add(s->x, s->norm, rows * p->embed);
    return status;
}

static nib_status eval_batch(llama_session *s, const int32_t *tokens, int64_t rows, bool last)
{
    llama_model *model = s->model;
    const llama_params *p = &model->params;
    nib_status status = NIB_OK;
    for (int64_t i = 0; i < rows; i++) {
        status = nib_file_read_f32(model->file, model->embedding, tokens[i], (int64_t)tokens[i] + 1,
                                   s->x + i * p->embed);
        if (status != NIB_OK)
            return llama_fail_nib(status, "the embedding of token %" PRId32, tokens[i]);
    }
    llama_rope_table(p, s->position, rows, s->cosine, s->sine);
    for (int64_t layer = 0; layer < p->layers && status == NIB_OK; layer++) {
        status = attention_block(s, layer, rows);
        if (status == NIB_OK)
            status = gated_block(s, layer, rows);
    }
    if (status != NIB_OK)
        return status;
    s->position += rows;
    if (!last)
        return NIB_OK;
    rms_norm(s->x + (rows - 1) * p->embed, model->output_norm, 1, p->embed, p->norm_eps, s->norm);
    return run(s, &model->output, s->norm, 1, s->logits);
}

nib_status llama_session_eval(llama_session *session, const int32_t *tokens, int64_t count)
{
    if (count < 1)
        return llama_fail(NIB_INVALID, "there is no token to evaluate; at least one is needed");
    if (count > session->cache.capacity - session->position)
        return llama_fail(NIB_INVALID,
                          "%" PRId64 " tokens after %" PRId64 " do not fit a context of %" PRId64,
                          count, session->position, session->cache.capacity);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= session->model->params.vocab)
            return llama_fail(NIB_INVALID,
                              "token %" PRId32 " is not of the vocabulary, 0..%" PRId64, tokens[i],
                              session->model->params.vocab - 1);
    nib_status status = NIB_OK;
    for (int64_t done = 0; done < count && status == NIB_OK; done += session->batch) {
        int64_t rows = count - done < session->batch ? count - done : session->batch;
        status = eval_batch(session, tokens + done, rows, done + rows == count);
    }
    return status;
}
