/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file from nothing: metadata, a vocabulary of bytes and a few words with the merges that
 * make them, and random tensors. Rows of the output that belong to whole words are larger than the
 * others, so that the text consists mostly of words.
 */
#include "synthetic.h"

#include "blocks.h"
#include "error.h"
#include "unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT  32
#define MAX_TOKENS 640
#define MAX_TEXT   24

/* Kinds of metadata values. */
enum { KIND_U32 = 4, KIND_I32 = 5, KIND_F32 = 6, KIND_BOOL = 7, KIND_STRING = 8, KIND_ARRAY = 9 };

typedef struct tensor {
    char name[40];
    int64_t n, k; /* k 0: a vector of n */
    llama_gguf_type type;
} tensor;

typedef struct draft {
    llama_bytes bytes;
    char texts[MAX_TOKENS][MAX_TEXT];
    char merges[MAX_TOKENS][MAX_TEXT + 2];
    bool is_word[MAX_TOKENS]; /* a whole word, not a byte or the beginning of a word */
    int64_t token_count, merge_count;
    tensor *tensors;
    int64_t tensor_count;
    uint64_t state;
} draft;

llama_synthetic llama_synthetic_default(void)
{
    return (llama_synthetic){.layers = 4,
                             .embed = 256,
                             .heads = 8,
                             .kv_heads = 4,
                             .ff = 704,
                             .context = 1024,
                             .seed = 1};
}

/* splitmix64, as a float in [-1, 1). */
static float noise(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) * 0x1p-23f - 1;
}

/* The token of a text, added if it is new. */
static int64_t add_token(draft *d, const char *text)
{
    int64_t id = 0;
    while (id < d->token_count && strcmp(d->texts[id], text))
        id++;
    if (id == d->token_count && d->token_count < MAX_TOKENS)
        snprintf(d->texts[d->token_count++], MAX_TEXT, "%s", text);
    return id;
}

/* A word becomes a chain of merges: its first two characters, then one more each time. The first
 * character is the stand-in of a space, which takes two bytes. */
static void add_word(draft *d, const char *word)
{
    char whole[MAX_TEXT];
    snprintf(whole, sizeof whole, "\xc4\xa0%s", word);
    for (size_t length = 2; whole[length]; length++) {
        char merge[MAX_TEXT + 2], text[MAX_TEXT];
        snprintf(merge, sizeof merge, "%.*s %c", (int)length, whole, whole[length]);
        snprintf(text, sizeof text, "%.*s", (int)length + 1, whole);
        int64_t before = d->token_count;
        int64_t id = add_token(d, text);
        d->is_word[id] = d->is_word[id] || !whole[length + 1];
        if (d->token_count > before)
            memcpy(d->merges[d->merge_count++], merge, sizeof merge);
    }
}

static void make_vocabulary(draft *d)
{
    static const char *const words[] = {
        "a",      "and",   "bit",   "code",   "for",     "from",   "group", "is",     "it",
        "matrix", "of",    "row",   "scale",  "sum",     "the",    "to",    "weight", "with",
        "zero",   "small", "large", "nibble", "product", "number", "layer"};
    add_token(d, "<|endoftext|>");
    add_token(d, "<|im_start|>");
    add_token(d, "<|im_end|>");
    for (uint32_t c = 0, next = 0x100; c < 256; c++) {
        bool printable = (c > 32 && c < 127) || (c > 160 && c != 173);
        char text[3] = "";
        llama_utf8_encode_short(printable ? c : next++, text);
        add_token(d, text);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add_word(d, words[i]);
}

static void add_tensor(draft *d, const char *name, int64_t n, int64_t k, llama_gguf_type type)
{
    tensor *t = &d->tensors[d->tensor_count++];
    *t = (tensor){.n = n, .k = k, .type = type};
    snprintf(t->name, sizeof t->name, "%s.weight", name);
}

static nib_status list_tensors(draft *d, const llama_synthetic *m)
{
    int64_t kv_width = m->embed / m->heads * m->kv_heads;
    const struct {
        const char *name;
        int64_t n, k;
        llama_gguf_type type;
    } rows[] = {{"attn_norm", m->embed, 0, LLAMA_GGUF_F32},
                {"attn_q", m->embed, m->embed, LLAMA_GGUF_Q4_0},
                {"attn_k", kv_width, m->embed, LLAMA_GGUF_Q4_1},
                {"attn_v", kv_width, m->embed, LLAMA_GGUF_Q8_0},
                {"attn_output", m->embed, m->embed, LLAMA_GGUF_F16},
                {"ffn_norm", m->embed, 0, LLAMA_GGUF_F32},
                {"ffn_gate", m->ff, m->embed, LLAMA_GGUF_Q4_1},
                {"ffn_up", m->ff, m->embed, LLAMA_GGUF_Q4_0},
                {"ffn_down", m->embed, m->ff, LLAMA_GGUF_F32}};
    size_t row_count = sizeof rows / sizeof *rows;
    d->tensors = calloc((size_t)m->layers * row_count + 3, sizeof *d->tensors);
    if (!d->tensors)
        return llama_fail(NIB_NO_MEMORY, "no memory for a synthetic model");
    add_tensor(d, "token_embd", d->token_count, m->embed,
               m->tied ? LLAMA_GGUF_F16 : LLAMA_GGUF_Q8_0);
    for (int64_t layer = 0; layer < m->layers; layer++)
        for (size_t i = 0; i < row_count; i++) {
            char name[32];
            snprintf(name, sizeof name, "blk.%" PRId64 ".%s", layer, rows[i].name);
            add_tensor(d, name, rows[i].n, rows[i].k, rows[i].type);
        }
    add_tensor(d, "output_norm", m->embed, 0, LLAMA_GGUF_F32);
    if (!m->tied)
        add_tensor(d, "output", d->token_count, m->embed, LLAMA_GGUF_Q8_0);
    return NIB_OK;
}

static void write_key(llama_bytes *bytes, const char *key, uint32_t kind, uint64_t *count)
{
    llama_bytes_string(bytes, key);
    llama_bytes_int(bytes, kind, 4);
    ++*count;
}

static void write_strings(llama_bytes *bytes, const char *texts, size_t stride, int64_t count)
{
    llama_bytes_int(bytes, KIND_STRING, 4);
    llama_bytes_int(bytes, (uint64_t)count, 8);
    for (int64_t i = 0; i < count; i++)
        llama_bytes_string(bytes, texts + (size_t)i * stride);
}

static void write_vocabulary(draft *d, uint64_t *count)
{
    llama_bytes *b = &d->bytes;
    write_key(b, "tokenizer.ggml.tokens", KIND_ARRAY, count);
    write_strings(b, d->texts[0], sizeof d->texts[0], d->token_count);
    write_key(b, "tokenizer.ggml.merges", KIND_ARRAY, count);
    write_strings(b, d->merges[0], sizeof d->merges[0], d->merge_count);
    write_key(b, "tokenizer.ggml.token_type", KIND_ARRAY, count);
    llama_bytes_int(b, KIND_I32, 4);
    llama_bytes_int(b, (uint64_t)d->token_count, 8);
    for (int64_t i = 0; i < d->token_count; i++)
        llama_bytes_int(b, i < 3 ? 3 : 1, 4);
    write_key(b, "tokenizer.ggml.add_bos_token", KIND_BOOL, count);
    llama_bytes_int(b, 0, 1);
}

static uint64_t write_meta(draft *d, const llama_synthetic *m)
{
    const struct {
        const char *key, *text;
    } texts[] = {{"general.architecture", "llama"},
                 {"general.name", "synthetic"},
                 {"tokenizer.ggml.model", "gpt2"},
                 {"tokenizer.ggml.pre", "smollm"},
                 {"tokenizer.chat_template",
                  "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + "
                  "'<|im_end|>\n'}}{% endfor %}"}};
    const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"llama.block_count", m->layers},
                {"llama.context_length", m->context},
                {"llama.embedding_length", m->embed},
                {"llama.feed_forward_length", m->ff},
                {"llama.attention.head_count", m->heads},
                {"llama.attention.head_count_kv", m->kv_heads},
                {"llama.vocab_size", d->token_count},
                {"llama.rope.dimension_count", m->embed / m->heads},
                {"tokenizer.ggml.eos_token_id", 2},
                {"tokenizer.ggml.bos_token_id", 1}};
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_key(&d->bytes, texts[i].key, KIND_STRING, &count);
        llama_bytes_string(&d->bytes, texts[i].text);
    }
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        write_key(&d->bytes, ints[i].key, KIND_U32, &count);
        llama_bytes_int(&d->bytes, (uint64_t)ints[i].value, 4);
    }
    write_key(&d->bytes, "llama.attention.layer_norm_rms_epsilon", KIND_F32, &count);
    llama_bytes_int(&d->bytes, 0x3727c5ac, 4); /* 1e-5 */
    write_key(&d->bytes, "llama.rope.freq_base", KIND_F32, &count);
    llama_bytes_int(&d->bytes, 0x461c4000, 4); /* 10000 */
    write_vocabulary(d, &count);
    return count;
}

static void write_tensor_table(draft *d)
{
    uint64_t offset = 0;
    for (int64_t i = 0; i < d->tensor_count; i++) {
        const tensor *t = &d->tensors[i];
        llama_bytes_string(&d->bytes, t->name);
        llama_bytes_int(&d->bytes, t->k ? 2 : 1, 4);
        if (t->k)
            llama_bytes_int(&d->bytes, (uint64_t)t->k, 8); /* innermost first */
        llama_bytes_int(&d->bytes, (uint64_t)t->n, 8);
        llama_bytes_int(&d->bytes, (uint64_t)t->type, 4);
        llama_bytes_int(&d->bytes, offset, 8);
        offset += llama_blocks_bytes(t->type, t->k ? t->n * t->k : t->n);
        offset = (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

/* Norms near one, matrices of variance 1/k, so that activations keep their size. */
static nib_status write_tensor_data(draft *d, const tensor *t)
{
    int64_t width = t->k ? t->k : t->n, rows = t->k ? t->n : 1;
    bool output = !strncmp(t->name, "output.", 7);
    float *row = malloc((size_t)width * sizeof *row);
    if (!row)
        return llama_fail(NIB_NO_MEMORY, "no memory for a synthetic model");
    float scale = t->k ? sqrtf(3.0f / (float)width) : 0.1f;
    for (int64_t r = 0; r < rows; r++) {
        float size = !output ? scale : d->is_word[r] ? 3 * scale : 0.3f * scale;
        for (int64_t i = 0; i < width; i++)
            row[i] = (t->k ? 0 : 1) + size * noise(&d->state);
        llama_blocks_write(&d->bytes, t->type, row, width);
    }
    free(row);
    llama_bytes_align(&d->bytes, ALIGNMENT);
    return NIB_OK;
}

static nib_status check(const llama_synthetic *m)
{
    if (m->layers < 1 || m->layers > 64 || m->embed < 32 || m->embed > 4096 || m->ff < 32 ||
        m->ff > 16384 || m->context < 1 || m->heads < 1 || m->kv_heads < 1)
        return llama_fail(NIB_INVALID, "a synthetic model of these extents makes no sense");
    if (m->embed % 32 || m->ff % 32 || m->embed % (2 * m->heads) || m->heads % m->kv_heads)
        return llama_fail(NIB_INVALID, "a synthetic model needs embed and ff in multiples of 32, "
                                       "heads of even size and heads in multiples of kv_heads");
    return NIB_OK;
}

static nib_status save(const llama_bytes *bytes, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return llama_fail(NIB_MISSING, "%s cannot be written: %m", path);
    bool written = fwrite(bytes->data, 1, bytes->count, file) == bytes->count;
    if (fclose(file) || !written) {
        remove(path);
        return llama_fail(NIB_MISSING, "%s cannot be written to its end", path);
    }
    return NIB_OK;
}

nib_status llama_synthetic_write(const llama_synthetic *model, const char *path)
{
    nib_status status = check(model);
    if (status != NIB_OK)
        return status;
    draft *d = calloc(1, sizeof *d);
    if (!d)
        return llama_fail(NIB_NO_MEMORY, "no memory for a synthetic model");
    d->state = model->seed;
    make_vocabulary(d);
    if ((status = list_tensors(d, model)) != NIB_OK)
        goto fail;
    llama_bytes_int(&d->bytes, 0x46554747, 4); /* "GGUF" */
    llama_bytes_int(&d->bytes, 3, 4);
    llama_bytes_int(&d->bytes, (uint64_t)d->tensor_count, 8);
    size_t count_at = d->bytes.count;
    llama_bytes_int(&d->bytes, 0, 8);
    uint64_t count = write_meta(d, model);
    write_tensor_table(d);
    llama_bytes_align(&d->bytes, ALIGNMENT);
    for (int64_t i = 0; i < d->tensor_count && status == NIB_OK; i++)
        status = write_tensor_data(d, &d->tensors[i]);
    if (status == NIB_OK && d->bytes.failed)
        status = llama_fail(NIB_NO_MEMORY, "no memory for a synthetic model");
    if (status == NIB_OK) {
        d->bytes.data[count_at] = (unsigned char)count; /* fewer than 256 */
        status = save(&d->bytes, path);
    }
fail:
    llama_bytes_free(&d->bytes);
    free(d->tensors);
    free(d);
    return status;
}
