/* SPDX-License-Identifier: Apache-2.0
 *
 * nib-llama on synthetic models: the forward pass against a plain one in double, exactness of
 * quantised weights, batches, contexts, chat, and files whose metadata lie.
 */
#include "llama/chat.h"
#include "llama/error.h"
#include "llama/graph.h"
#include "llama/synthetic.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/nib-llama-model-XXXXXX";

static void make_path(void)
{
    int handle = mkstemp(path);
    cr_assert_geq(handle, 0);
    close(handle);
}

static void remove_path(void)
{
    unlink(path);
}

TestSuite(llama_model, .init = make_path, .fini = remove_path);

static llama_synthetic small(void)
{
    return (llama_synthetic){
        .layers = 2, .embed = 96, .heads = 6, .kv_heads = 2, .ff = 160, .context = 64, .seed = 3};
}

static llama_model *open_on(const char *device, const llama_synthetic *synthetic, nib_type act_type)
{
    llama_engine_options options = {.device = device, .act_type = act_type};
    llama_model *model = NULL;
    cr_assert_eq(llama_synthetic_write(synthetic, path), NIB_OK, "%s", llama_message());
    cr_assert_eq(llama_model_open(path, &options, &model), NIB_OK, "%s", llama_message());
    return model;
}

static llama_model *open_model(const llama_synthetic *synthetic, nib_type act_type)
{
    return open_on("cpu", synthetic, act_type);
}

static llama_session *open_session(llama_model *model, nib_type cache_type, int64_t batch)
{
    llama_session_options options = {
        .context = model->params.context, .batch = batch, .cache_type = cache_type};
    llama_session *session = NULL;
    cr_assert_eq(llama_session_create(model, &options, &session), NIB_OK, "%s", llama_message());
    return session;
}

/* ---- a forward pass in double, over the weights that the products use ---------------------- */

typedef struct matrix {
    int64_t n, k;
    float *weights;
} matrix;

static matrix dequantize(const llama_linear *linear)
{
    matrix m = {linear->n, linear->k, malloc((size_t)(linear->n * linear->k) * sizeof(float))};
    cr_assert_eq(nib_weights_dequantize(linear->weights, 0, m.n, m.weights, m.k), NIB_OK);
    return m;
}

static void multiply(const matrix *m, const double *x, double *out)
{
    for (int64_t n = 0; n < m->n; n++) {
        out[n] = 0;
        for (int64_t k = 0; k < m->k; k++)
            out[n] += x[k] * (double)m->weights[n * m->k + k];
    }
}

static void norm(const double *x, const float *weight, int64_t width, double eps, double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < width; i++)
        out[i] = x[i] / sqrt(sum / (double)width + eps) * (double)weight[i];
}

static void rotate(double *head, int64_t dims, double base, int64_t position)
{
    for (int64_t i = 0; i < dims; i += 2) {
        double angle = (double)position * pow(base, -(double)i / (double)dims);
        double x = head[i], y = head[i + 1];
        head[i] = x * cos(angle) - y * sin(angle);
        head[i + 1] = x * sin(angle) + y * cos(angle);
    }
}

/* Row t of the result attends to keys and values of rows 0..t. */
static void attend(const llama_params *p, const double *q, const double *k, const double *v,
                   int64_t t, double *out)
{
    int64_t dim = p->head_dim, width = p->kv_heads * dim;
    for (int64_t h = 0; h < p->heads; h++) {
        int64_t kv = h / (p->heads / p->kv_heads) * dim;
        double weights[64], sum = 0;
        for (int64_t s = 0; s <= t; s++) {
            double score = 0;
            for (int64_t i = 0; i < dim; i++)
                score += q[h * dim + i] * k[s * width + kv + i];
            sum += weights[s] = exp(score / sqrt((double)dim));
        }
        for (int64_t i = 0; i < dim; i++) {
            out[h * dim + i] = 0;
            for (int64_t s = 0; s <= t; s++)
                out[h * dim + i] += weights[s] / sum * v[s * width + kv + i];
        }
    }
}

/* Widest buffer of the small models here. */
enum { WIDE = 512, ROWS = 24 };

typedef struct plain {
    double x[ROWS][WIDE], a[WIDE], q[WIDE], mixed[WIDE], gate[WIDE], up[WIDE];
    double k[ROWS * WIDE], v[ROWS * WIDE];
} plain;

static void plain_layer(const llama_model *model, const llama_layer *layer, plain *b, int64_t rows)
{
    const llama_params *p = &model->params;
    int64_t kv_width = p->kv_heads * p->head_dim;
    matrix m[7];
    const llama_linear *linears[7] = {&layer->q,    &layer->k,  &layer->v,   &layer->attn_out,
                                      &layer->gate, &layer->up, &layer->down};
    for (int i = 0; i < 7; i++)
        m[i] = dequantize(linears[i]);
    for (int64_t t = 0; t < rows; t++) {
        norm(b->x[t], layer->attn_norm, p->embed, p->norm_eps, b->a);
        multiply(&m[0], b->a, b->q);
        multiply(&m[1], b->a, b->k + t * kv_width);
        multiply(&m[2], b->a, b->v + t * kv_width);
        for (int64_t h = 0; h < p->heads; h++)
            rotate(b->q + h * p->head_dim, p->rope_dims, p->rope_base, t);
        for (int64_t h = 0; h < p->kv_heads; h++)
            rotate(b->k + t * kv_width + h * p->head_dim, p->rope_dims, p->rope_base, t);
        attend(p, b->q, b->k, b->v, t, b->mixed);
        multiply(&m[3], b->mixed, b->a);
        for (int64_t i = 0; i < p->embed; i++)
            b->x[t][i] += b->a[i];
        norm(b->x[t], layer->ffn_norm, p->embed, p->norm_eps, b->a);
        multiply(&m[4], b->a, b->gate);
        multiply(&m[5], b->a, b->up);
        for (int64_t i = 0; i < p->ff; i++)
            b->gate[i] = b->gate[i] / (1 + exp(-b->gate[i])) * b->up[i];
        multiply(&m[6], b->gate, b->a);
        for (int64_t i = 0; i < p->embed; i++)
            b->x[t][i] += b->a[i];
    }
    for (int i = 0; i < 7; i++)
        free(m[i].weights);
}

static void plain_logits(const llama_model *model, const int32_t *tokens, int64_t rows,
                         double *logits)
{
    const llama_params *p = &model->params;
    plain *b = calloc(1, sizeof *b);
    float embedding[WIDE];
    for (int64_t t = 0; t < rows; t++) {
        cr_assert_eq(
            nib_file_read_f32(model->file, model->embedding, tokens[t], tokens[t] + 1, embedding),
            NIB_OK);
        for (int64_t i = 0; i < p->embed; i++)
            b->x[t][i] = (double)embedding[i];
    }
    for (int64_t i = 0; i < p->layers; i++)
        plain_layer(model, &model->layers[i], b, rows);
    norm(b->x[rows - 1], model->output_norm, p->embed, p->norm_eps, b->a);
    matrix output = dequantize(&model->output);
    multiply(&output, b->a, logits);
    free(output.weights);
    free(b);
}

/* Largest difference between the model's logits and the plain ones, over the largest logit. */
static double difference(llama_model *model, nib_type cache_type, int64_t batch)
{
    int32_t tokens[ROWS];
    for (int i = 0; i < ROWS; i++)
        tokens[i] = (37 * i + 11) % (int32_t)model->params.vocab;
    double *wanted = malloc((size_t)model->params.vocab * sizeof *wanted);
    double most = 0, largest = 0;
    llama_session *session = open_session(model, cache_type, batch);
    for (int64_t rows = ROWS - 1; rows <= ROWS; rows++) { /* a prompt, then one step */
        nib_status status = rows < ROWS ? llama_session_eval(session, tokens, rows)
                                        : llama_session_eval(session, tokens + rows - 1, 1);
        cr_assert_eq(status, NIB_OK, "%s", llama_message());
        plain_logits(model, tokens, rows, wanted);
        for (int64_t i = 0; i < model->params.vocab; i++) {
            most = fmax(most, fabs((double)session->logits[i] - wanted[i]));
            largest = fmax(largest, fabs(wanted[i]));
        }
    }
    llama_session_destroy(session);
    free(wanted);
    return most / largest;
}

Test(llama_model, computes_what_a_plain_forward_pass_computes)
{
    llama_synthetic synthetic = small();
    for (int tied = 0; tied < 2; tied++) {
        synthetic.tied = tied;
        llama_model *model = open_model(&synthetic, NIB_F32);
        cr_expect_eq(model->tied, tied);
        double f32 = difference(model, NIB_F32, 0), f16 = difference(model, NIB_F16, 0);
        printf("tied %d: relative difference %.2g with an f32 cache, %.2g with f16\n", tied, f32,
               f16);
        cr_expect_lt(f32, 5e-6);
        cr_expect_lt(f16, 2e-3);
        cr_expect_gt(f16, f32, "the f16 cache should show");
        llama_model_close(model);
    }
}

Test(llama_model, narrow_activations_stay_close)
{
    llama_synthetic synthetic = small();
    static const struct {
        nib_type type;
        double bound;
    } rows[] = {{NIB_F16, 4e-3}, {NIB_BF16, 4e-2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        llama_model *model = open_model(&synthetic, rows[i].type);
        cr_expect_lt(difference(model, NIB_F32, 0), rows[i].bound);
        llama_model_close(model);
    }
}

Test(llama_model, pieces_of_a_prompt_give_the_same_logits)
{
    llama_synthetic synthetic = small();
    llama_model *model = open_model(&synthetic, NIB_F32);
    for (int64_t batch = 1; batch <= 16; batch += 5)
        cr_expect_lt(difference(model, NIB_F32, batch), 5e-6, "batch %" PRId64, batch);
    llama_model_close(model);
}

/* The check backend is a device that is not named cpu: activations and outputs are copied. It also
 * validates every call. */
Test(llama_model, runs_on_a_device_with_memory_of_its_own)
{
    llama_synthetic synthetic = small();
    setenv("NIB_BACKEND_PATH", NIB_BINARY_DIR "/lib/test-backends", 1);
    static const nib_type types[] = {NIB_F32, NIB_F16};
    for (size_t i = 0; i < 2; i++) {
        llama_model *model = open_on("check:0", &synthetic, types[i]);
        cr_expect(!model->engine.in_place);
        cr_expect_lt(difference(model, NIB_F32, 7), i ? 4e-3 : 5e-6);
        llama_model_close(model);
    }
}

Test(llama_model, keeps_quantised_weights_exactly)
{
    llama_synthetic synthetic = small();
    llama_model *model = open_model(&synthetic, NIB_F32);
    const struct {
        const char *name;
        const llama_linear *linear;
        bool exact;
    } rows[] = {{"blk.1.attn_q.weight", &model->layers[1].q, true},
                {"blk.1.attn_k.weight", &model->layers[1].k, true},
                {"blk.0.attn_v.weight", &model->layers[0].v, true},
                {"blk.0.ffn_gate.weight", &model->layers[0].gate, true},
                {"output.weight", &model->output, true},
                {"blk.0.attn_output.weight", &model->layers[0].attn_out, false},
                {"blk.0.ffn_down.weight", &model->layers[0].down, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const llama_linear *linear = rows[i].linear;
        size_t count = (size_t)(linear->n * linear->k);
        float *in_file = malloc(count * sizeof *in_file), *ours = malloc(count * sizeof *ours);
        int64_t index;
        cr_assert_eq(nib_file_find(model->file, rows[i].name, &index), NIB_OK);
        cr_assert_eq(nib_file_read_f32(model->file, index, 0, linear->n, in_file), NIB_OK);
        cr_assert_eq(nib_weights_dequantize(linear->weights, 0, linear->n, ours, linear->k),
                     NIB_OK);
        cr_expect_eq(!memcmp(in_file, ours, count * sizeof *ours), rows[i].exact, "%s",
                     rows[i].name);
        cr_expect_eq(linear->rounded, !rows[i].exact, "%s", rows[i].name);
        /* i8 with a scale per 32: within a step of 1/127 of the largest weight */
        for (size_t j = 0; j < count && !rows[i].exact; j++)
            cr_assert_lt(fabsf(in_file[j] - ours[j]), 0.008f * sqrtf(3.0f / (float)linear->k));
        free(in_file);
        free(ours);
    }
    cr_expect_eq(model->rounded, 2 * model->params.layers);
    llama_model_close(model);
}

Test(llama_model, refuses_to_go_past_its_context)
{
    llama_synthetic synthetic = small();
    llama_model *model = open_model(&synthetic, NIB_F32);
    llama_session_options options = {.context = 65, .cache_type = NIB_F16};
    llama_session *session = NULL;
    cr_expect_eq(llama_session_create(model, &options, &session), NIB_INVALID);
    cr_expect(strstr(llama_message(), "this model has 1..64"), "%s", llama_message());
    options.context = 4;
    cr_assert_eq(llama_session_create(model, &options, &session), NIB_OK);
    int32_t tokens[5] = {1, 2, 3, 4, 5}, foreign = (int32_t)model->params.vocab;
    cr_expect_eq(llama_session_eval(session, tokens, 5), NIB_INVALID);
    cr_expect(strstr(llama_message(), "do not fit a context of 4"), "%s", llama_message());
    cr_expect_eq(llama_session_eval(session, &foreign, 1), NIB_INVALID);
    cr_expect_eq(llama_session_eval(session, tokens, 0), NIB_INVALID);
    cr_expect_eq(llama_session_eval(session, tokens, 4), NIB_OK);
    cr_expect_eq(llama_session_eval(session, tokens, 1), NIB_INVALID);
    llama_session_destroy(session);
    llama_model_close(model);
}

Test(llama_model, understands_its_own_chat_template)
{
    llama_synthetic synthetic = small();
    llama_model *model = open_model(&synthetic, NIB_F32);
    llama_chat chat;
    llama_tokens ids = {0}, plain_ids = {0};
    cr_assert_eq(llama_chat_detect(model->file, model->tokenizer, &chat), NIB_OK);
    cr_expect(chat.understood);
    cr_expect_null(chat.system);
    /* marks in the user's text stay text */
    cr_assert_eq(llama_chat_encode(&chat, model->tokenizer, "be brief", "hi<|im_end|>", &ids),
                 NIB_OK);
    int64_t starts = 0, ends = 0;
    for (int64_t i = 0; i < ids.count; i++) {
        starts += ids.ids[i] == chat.start;
        ends += ids.ids[i] == chat.end;
    }
    cr_expect_eq(starts, 3);
    cr_expect_eq(ends, 2);
    static const char written[] = "<|im_start|>user\nthe row<|im_end|>\n<|im_start|>assistant\n";
    ids.count = 0;
    cr_assert_eq(llama_chat_encode(&chat, model->tokenizer, NULL, "the row", &ids), NIB_OK);
    cr_assert_eq(
        llama_tokenizer_encode(model->tokenizer, written, strlen(written), true, &plain_ids),
        NIB_OK);
    cr_assert_eq(ids.count, plain_ids.count);
    cr_expect(!memcmp(ids.ids, plain_ids.ids, (size_t)ids.count * sizeof *ids.ids));
    llama_tokens_free(&ids);
    llama_tokens_free(&plain_ids);
    llama_model_close(model);
}

Test(llama_model, decodes_what_it_encodes)
{
    llama_synthetic synthetic = small();
    llama_model *model = open_model(&synthetic, NIB_F32);
    static const char text[] = "the weight of 12 nibbles \xc3\xa9\xf0\x9f\x91\x8d\xff\x01 end\n";
    char back[sizeof text] = "";
    size_t used = 0;
    llama_tokens ids = {0};
    cr_assert_eq(llama_tokenizer_encode(model->tokenizer, text, sizeof text - 1, true, &ids),
                 NIB_OK);
    cr_expect_lt(ids.count, (int64_t)sizeof text - 1, "some words merged");
    for (int64_t i = 0; i < ids.count; i++) {
        size_t bytes;
        const char *piece = llama_tokenizer_piece(model->tokenizer, ids.ids[i], &bytes);
        cr_assert_lt(used + bytes, sizeof back);
        memcpy(back + used, piece, bytes);
        used += bytes;
    }
    cr_expect_str_eq(back, text);
    llama_tokens_free(&ids);
    llama_model_close(model);
}

/* ---- files that lie ------------------------------------------------------------------------ */

static char *read_all(size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*bytes);
    cr_assert_eq(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

/* Writes the synthetic model with `length` bytes changed, `skip` past the end of `what`, which
 * stands in the file, and expects that it does not open. */
static void expect_refusal(const char *what, size_t skip, const char *value, size_t length,
                           nib_status status, const char *part)
{
    llama_synthetic synthetic = small();
    llama_engine_options options = {.device = "cpu", .act_type = NIB_F32};
    llama_model *model = NULL;
    size_t bytes;
    cr_assert_eq(llama_synthetic_write(&synthetic, path), NIB_OK);
    char *data = read_all(&bytes);
    char *place = memmem(data, bytes, what, strlen(what));
    cr_assert_not_null(place, "%s", what);
    memcpy(place + strlen(what) + skip, value, length);
    FILE *file = fopen(path, "wb");
    fwrite(data, 1, bytes, file);
    fclose(file);
    free(data);
    cr_expect_eq(llama_model_open(path, &options, &model), status, "%s: %s", what, llama_message());
    cr_expect_null(model);
    cr_expect(strstr(llama_message(), part), "'%s' lacks '%s'", llama_message(), part);
}

/* After a key come its kind, four bytes, and the value. */
static void expect_bad_int(const char *key, uint32_t value, nib_status status, const char *part)
{
    expect_refusal(key, 4, (const char *)&value, sizeof value, status, part);
}

/* Renames a key by changing its last character. */
static void expect_missing(const char *key, const char *part)
{
    char start[64];
    snprintf(start, sizeof start, "%.*s", (int)strlen(key) - 1, key);
    expect_refusal(start, 0, "?", 1, NIB_CORRUPT, part);
}

Test(llama_model, refuses_missing_keys)
{
    expect_missing("general.architecture", "lack 'general.architecture'");
    expect_missing("llama.block_count", "lack 'llama.block_count', which must be an integer");
    expect_missing("llama.embedding_length", "lack 'llama.embedding_length'");
    expect_missing("llama.attention.layer_norm_rms_epsilon", "lack 'llama.attention.layer_norm");
    expect_missing("tokenizer.ggml.model", "lack 'tokenizer.ggml.model', which must be a string");
    expect_missing("tokenizer.ggml.tokens", "lack 'tokenizer.ggml.tokens', which must be an array");
    expect_missing("tokenizer.ggml.merges", "lack 'tokenizer.ggml.merges'");
}

Test(llama_model, refuses_wrong_kinds)
{
    uint32_t f32 = 6;
    expect_refusal("llama.block_count", 0, (const char *)&f32, 4, NIB_CORRUPT,
                   "'llama.block_count' is a real number; it must be an integer");
    uint32_t u32 = 4;
    expect_refusal("llama.rope.freq_base", 0, (const char *)&u32, 4, NIB_CORRUPT,
                   "'llama.rope.freq_base' is an integer; it must be a real number");
}

Test(llama_model, refuses_absurd_sizes)
{
    expect_bad_int("llama.block_count", 0, NIB_CORRUPT, "is 0; it must be within 1..1024");
    expect_bad_int("llama.block_count", 0xffffffffu, NIB_CORRUPT, "must be within 1..1024");
    expect_bad_int("llama.embedding_length", 0x7fffffff, NIB_CORRUPT, "must be within 1..");
    expect_bad_int("llama.attention.head_count", 7, NIB_CORRUPT, "no multiple of 2 key heads");
    expect_bad_int("llama.attention.head_count_kv", 4, NIB_CORRUPT, "no multiple of 4 key heads");
    expect_bad_int("llama.rope.dimension_count", 15, NIB_CORRUPT, "must be even and at most 16");
    expect_bad_int("llama.vocab_size", 1000, NIB_CORRUPT, "llama.vocab_size is 1000, but the");
    expect_bad_int("tokenizer.ggml.eos_token_id", 100000, NIB_CORRUPT, "eos_token_id' is 100000");
}

Test(llama_model, refuses_layers_that_are_not_there)
{
    expect_bad_int("llama.block_count", 3, NIB_CORRUPT, "lacks the tensor blk.2.attn_norm.weight");
    expect_bad_int("llama.block_count", 1, NIB_UNSUPPORTED, "holds the tensor blk.1.attn_norm");
    expect_bad_int("llama.feed_forward_length", 192, NIB_CORRUPT, "it must be [192, 96]");
}

Test(llama_model, refuses_what_it_does_not_know)
{
    expect_refusal("general.architecture", 4 + 8, "gemma", 5, NIB_UNSUPPORTED,
                   "general.architecture is 'gemma'; only 'llama'");
    expect_refusal("tokenizer.ggml.model", 4 + 8, "bert", 4, NIB_UNSUPPORTED,
                   "tokenizer.ggml.model is 'bert'");
    expect_refusal("tokenizer.ggml.pre", 4 + 8, "qwenqw", 6, NIB_UNSUPPORTED,
                   "tokenizer.ggml.pre is 'qwenqw'");
    expect_refusal("tokenizer.ggml.merges", 4 + 4 + 8 + 8, "zzzz", 4, NIB_CORRUPT,
                   "tokenizer.ggml.merges, item 0");
    expect_refusal("blk.1.attn_norm.", 0, "weighs", 6, NIB_CORRUPT,
                   "lacks the tensor blk.1.attn_norm");
}

Test(llama_model, refuses_files_that_are_no_models)
{
    llama_engine_options options = {.device = "cpu", .act_type = NIB_F32};
    llama_model *model = NULL;
    cr_expect_eq(llama_model_open("/nonexistent.gguf", &options, &model), NIB_MISSING);
    FILE *file = fopen(path, "w");
    fputs("just some text that is no model at all", file);
    fclose(file);
    cr_expect_neq(llama_model_open(path, &options, &model), NIB_OK);
    cr_expect_gt(strlen(llama_message()), 20);
    cr_expect_null(model);
}

/* Bytes of the metadata and the tensor table change at random: the model opens or is refused with a
 * sentence; if it opens it can be run. */
Test(llama_model, survives_random_damage)
{
    llama_synthetic synthetic = small();
    llama_engine_options options = {.device = "cpu", .act_type = NIB_F32};
    test_random random = {test_seed(20240517)};
    size_t bytes;
    cr_assert_eq(llama_synthetic_write(&synthetic, path), NIB_OK);
    char *data = read_all(&bytes);
    const char *table_end = memmem(data, bytes, "output.weight", 13);
    cr_assert_not_null(table_end);
    int opened = 0, refused = 0;
    for (int i = 0; i < 150; i++) {
        llama_model *model = NULL;
        int64_t place = test_random_below(&random, i % 2 ? 900 : table_end + 40 - data);
        char before = data[place];
        data[place] = (char)test_random_next(&random);
        FILE *file = fopen(path, "wb");
        fwrite(data, 1, bytes, file);
        fclose(file);
        data[place] = before;
        if (llama_model_open(path, &options, &model) != NIB_OK) {
            cr_expect_gt(strlen(llama_message()), 10);
            refused++;
            continue;
        }
        llama_session_options small_session = {.context = 1, .cache_type = NIB_F16};
        llama_session *session;
        int32_t token = 5;
        if (llama_session_create(model, &small_session, &session) == NIB_OK) {
            cr_expect_eq(llama_session_eval(session, &token, 1), NIB_OK, "%s", llama_message());
            llama_session_destroy(session);
        }
        llama_model_close(model);
        opened++;
    }
    cr_expect_gt(opened, 10);
    cr_expect_gt(refused, 10);
    free(data);
}

Test(llama_model, synthetic_files_are_the_same_from_the_same_seed)
{
    llama_synthetic synthetic = small();
    size_t bytes_a, bytes_b;
    cr_assert_eq(llama_synthetic_write(&synthetic, path), NIB_OK);
    char *a = read_all(&bytes_a);
    cr_assert_eq(llama_synthetic_write(&synthetic, path), NIB_OK);
    char *b = read_all(&bytes_b);
    cr_expect(bytes_a == bytes_b && !memcmp(a, b, bytes_a));
    free(a);
    free(b);
    synthetic.embed = 100;
    cr_expect_eq(llama_synthetic_write(&synthetic, path), NIB_INVALID);
}
