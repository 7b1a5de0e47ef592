/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-level BPE. Every byte has a printable stand-in character (the GPT-2 alphabet: printable
 * Latin-1 stands for itself, the rest follow from U+0100), and the vocabulary and the merges are
 * written in stand-ins. vocabulary.c finds tokens by text; split.c cuts words and bpe.c merges
 * them.
 */
#include "tokenizer.h"

#include "bpe.h"
#include "error.h"
#include "meta.h"
#include "split.h"
#include "unicode.h"
#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MERGES ((int64_t)1 << 22)

struct llama_tokenizer {
    llama_vocabulary vocabulary;
    llama_merges merges;
    int32_t byte_id[256];     /* token of a single byte, -1 if the vocabulary lacks it */
    bool starts_special[256]; /* some special token begins with this byte */
    int32_t *special;         /* ids of tokens that are found in text whole */
    int64_t special_count;
    char *pool;       /* decoded bytes of all tokens, one after another */
    uint32_t *offset; /* [count + 1] into pool */
    bool digits_separate;
    int32_t bos, eos;
};

static uint32_t stand_in(int byte)
{
    static const struct {
        int first, last;
    } printable[] = {{33, 126}, {161, 172}, {174, 255}};
    int before = 0; /* printable bytes below `byte` */
    for (size_t i = 0; i < 3; i++) {
        if (byte >= printable[i].first && byte <= printable[i].last)
            return (uint32_t)byte;
        if (byte > printable[i].last)
            before += printable[i].last - printable[i].first + 1;
    }
    return 0x100u + (uint32_t)(byte - before);
}

static nib_status read_kind(const nib_file *file, llama_tokenizer *t)
{
    const char *text;
    int64_t bytes;
    nib_status status =
        llama_meta_text(file, "tokenizer.ggml.model", LLAMA_REQUIRED, &text, &bytes);
    if (status != NIB_OK)
        return status;
    if (bytes != 4 || memcmp(text, "gpt2", 4))
        return llama_fail(NIB_UNSUPPORTED,
                          "tokenizer.ggml.model is '%.*s'; only 'gpt2', byte-level BPE, is known",
                          (int)(bytes < 60 ? bytes : 60), text);
    status = llama_meta_text(file, "tokenizer.ggml.pre", LLAMA_REQUIRED, &text, &bytes);
    if (status != NIB_OK)
        return status;
    t->digits_separate = bytes == 6 && !memcmp(text, "smollm", 6);
    if (!t->digits_separate && (bytes != 5 || memcmp(text, "gpt-2", 5)) &&
        (bytes != 4 || memcmp(text, "gpt2", 4)))
        return llama_fail(NIB_UNSUPPORTED,
                          "tokenizer.ggml.pre is '%.*s'; only 'smollm' and 'gpt-2' are known",
                          (int)(bytes < 60 ? bytes : 60), text);
    return NIB_OK;
}

static nib_status read_ends(const nib_file *file, llama_tokenizer *t)
{
    int64_t last = t->vocabulary.count - 1, bos = -1, eos = -1;
    bool add = false;
    nib_status status =
        llama_meta_int(file, "tokenizer.ggml.bos_token_id", LLAMA_OPTIONAL, 0, last, &bos);
    if (status == NIB_OK)
        status = llama_meta_int(file, "tokenizer.ggml.eos_token_id", LLAMA_OPTIONAL, 0, last, &eos);
    if (status == NIB_OK)
        status = llama_meta_bool(file, "tokenizer.ggml.add_bos_token", &add);
    if (status != NIB_OK)
        return status;
    if (add && bos < 0)
        return llama_fail(NIB_CORRUPT, "tokenizer.ggml.add_bos_token is true, but the metadata "
                                       "lack tokenizer.ggml.bos_token_id");
    t->bos = add ? (int32_t)bos : -1;
    t->eos = (int32_t)eos;
    return NIB_OK;
}

static nib_status read_merges(const nib_file *file, llama_tokenizer *t)
{
    static const char key[] = "tokenizer.ggml.merges";
    nib_meta array;
    nib_status status = llama_meta_array(file, key, LLAMA_REQUIRED, MAX_MERGES, &array);
    if (status == NIB_OK)
        status = llama_merges_create(array.count, &t->merges);
    for (int64_t i = 0; status == NIB_OK && i < array.count; i++) {
        llama_text left, right;
        status = llama_meta_text_item(file, key, &array, i, &left.bytes, &left.count);
        if (status != NIB_OK)
            break;
        const char *space = left.count ? memchr(left.bytes, ' ', (size_t)left.count) : NULL;
        if (!space)
            return llama_fail(NIB_CORRUPT,
                              "%s, item %lld is no pair of tokens with a space between", key,
                              (long long)i);
        right.bytes = space + 1;
        right.count = left.bytes + left.count - right.bytes;
        left.count = space - left.bytes;
        llama_merge merge = {.left = llama_vocabulary_find(&t->vocabulary, left, (llama_text){0}),
                             .right = llama_vocabulary_find(&t->vocabulary, right, (llama_text){0}),
                             .rank = (int32_t)i,
                             .result = llama_vocabulary_find(&t->vocabulary, left, right)};
        if (merge.left < 0 || merge.right < 0 || merge.result < 0)
            return llama_fail(NIB_CORRUPT, "%s, item %lld names a token the vocabulary lacks", key,
                              (long long)i);
        llama_merges_add(&t->merges, merge);
    }
    return status;
}

/* Undoes the stand-ins of a token into `out`, which has room for its text. A token with characters
 * outside the alphabet stands for its text. */
static size_t decode_text(const int16_t byte_of[512], llama_text text, char *out)
{
    size_t count = 0, taken;
    for (int64_t at = 0; at < text.count; at += (int64_t)taken) {
        uint32_t c = llama_utf8_decode(text.bytes + at, (size_t)(text.count - at), &taken);
        if (c >= 512 || byte_of[c] < 0) {
            memcpy(out, text.bytes, (size_t)text.count);
            return (size_t)text.count;
        }
        out[count++] = (char)byte_of[c];
    }
    return count;
}

static nib_status decode_all(llama_tokenizer *t)
{
    int16_t byte_of[512];
    memset(byte_of, -1, sizeof byte_of);
    for (int byte = 0; byte < 256; byte++) {
        char text[2];
        size_t length = llama_utf8_encode_short(stand_in(byte), text);
        byte_of[stand_in(byte)] = (int16_t)byte;
        t->byte_id[byte] = llama_vocabulary_find(
            &t->vocabulary, (llama_text){text, (int64_t)length}, (llama_text){0});
    }
    const llama_vocabulary *v = &t->vocabulary;
    t->pool = malloc((size_t)v->total_bytes + 1);
    t->offset = malloc(((size_t)v->count + 1) * sizeof *t->offset);
    if (!t->pool || !t->offset)
        return llama_fail(NIB_NO_MEMORY, "no memory for the texts of %lld tokens",
                          (long long)v->count);
    size_t used = 0;
    for (int64_t id = 0; id < v->count; id++) {
        t->offset[id] = (uint32_t)used;
        if (v->kinds[id] == LLAMA_TOKEN_NORMAL) {
            used += decode_text(byte_of, v->texts[id], t->pool + used);
        } else if (v->texts[id].count) {
            memcpy(t->pool + used, v->texts[id].bytes, (size_t)v->texts[id].count);
            used += (size_t)v->texts[id].count;
        }
    }
    t->offset[v->count] = (uint32_t)used;
    return NIB_OK;
}

static nib_status list_special(llama_tokenizer *t)
{
    const llama_vocabulary *v = &t->vocabulary;
    for (int64_t id = 0; id < v->count; id++)
        t->special_count += v->kinds[id] != LLAMA_TOKEN_NORMAL && v->texts[id].count;
    t->special = malloc(((size_t)t->special_count + 1) * sizeof *t->special);
    if (!t->special)
        return llama_fail(NIB_NO_MEMORY, "no memory for %lld special tokens",
                          (long long)t->special_count);
    for (int64_t id = 0, i = 0; id < v->count; id++) {
        if (v->kinds[id] == LLAMA_TOKEN_NORMAL || !v->texts[id].count)
            continue;
        t->special[i++] = (int32_t)id;
        t->starts_special[(unsigned char)v->texts[id].bytes[0]] = true;
    }
    return NIB_OK;
}

nib_status llama_tokenizer_create(const nib_file *file, llama_tokenizer **out)
{
    llama_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return llama_fail(NIB_NO_MEMORY, "no memory for a tokenizer");
    nib_status status = read_kind(file, t);
    if (status == NIB_OK)
        status = llama_vocabulary_read(file, &t->vocabulary);
    if (status == NIB_OK)
        status = read_ends(file, t);
    if (status == NIB_OK)
        status = read_merges(file, t);
    if (status == NIB_OK)
        status = decode_all(t);
    if (status == NIB_OK)
        status = list_special(t);
    if (status != NIB_OK) {
        llama_tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return NIB_OK;
}

void llama_tokenizer_destroy(llama_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    llama_vocabulary_free(&tokenizer->vocabulary);
    llama_merges_free(&tokenizer->merges);
    free(tokenizer->special);
    free(tokenizer->pool);
    free(tokenizer->offset);
    free(tokenizer);
}

int64_t llama_tokenizer_count(const llama_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.count;
}

int32_t llama_tokenizer_eos(const llama_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

int32_t llama_tokenizer_bos(const llama_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t llama_tokenizer_find(const llama_tokenizer *tokenizer, const char *text)
{
    return llama_vocabulary_find(&tokenizer->vocabulary, (llama_text){text, (int64_t)strlen(text)},
                                 (llama_text){0});
}

bool llama_tokenizer_is_control(const llama_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->vocabulary.count &&
           tokenizer->vocabulary.kinds[id] == LLAMA_TOKEN_CONTROL;
}

/* The longest special token that begins at `text`, -1 if none does. User-defined tokens count
 * always, control tokens only when asked for. */
static int32_t special_at(const llama_tokenizer *t, const char *text, size_t bytes, bool control)
{
    int32_t best = -1;
    int64_t best_length = 0;
    if (!t->starts_special[(unsigned char)text[0]])
        return -1;
    for (int64_t i = 0; i < t->special_count; i++) {
        int32_t id = t->special[i];
        llama_text name = t->vocabulary.texts[id];
        if (t->vocabulary.kinds[id] == LLAMA_TOKEN_CONTROL && !control)
            continue;
        if (name.count > best_length && (size_t)name.count <= bytes &&
            !memcmp(name.bytes, text, (size_t)name.count)) {
            best = id;
            best_length = name.count;
        }
    }
    return best;
}

static nib_status encode_words(const llama_tokenizer *t, const char *text, size_t bytes,
                               llama_tokens *out)
{
    nib_status status = NIB_OK;
    llama_split split = {.text = text, .bytes = bytes, .digits_separate = t->digits_separate};
    const char *word;
    size_t length, capacity = 0;
    int32_t *ids = NULL;
    while (status == NIB_OK && llama_split_next(&split, &word, &length)) {
        if (length > capacity) {
            free(ids);
            capacity = 2 * length;
            ids = malloc(capacity * sizeof *ids);
            if (!ids)
                return llama_fail(NIB_NO_MEMORY, "no memory for a word of %zu bytes", length);
        }
        for (size_t i = 0; i < length; i++)
            ids[i] = t->byte_id[(unsigned char)word[i]];
        status = llama_bpe_word(&t->merges, ids, (int64_t)length, out);
    }
    free(ids);
    return status;
}

nib_status llama_tokenizer_encode(const llama_tokenizer *tokenizer, const char *text, size_t bytes,
                                  bool special, llama_tokens *out)
{
    int64_t before = out->count;
    nib_status status = NIB_OK;
    size_t start = 0;
    for (size_t at = 0; at < bytes && status == NIB_OK;) {
        int32_t id = special_at(tokenizer, text + at, bytes - at, special);
        if (id < 0) {
            at++;
            continue;
        }
        status = encode_words(tokenizer, text + start, at - start, out);
        if (status == NIB_OK)
            status = llama_tokens_add(out, id);
        at += (size_t)tokenizer->vocabulary.texts[id].count;
        start = at;
    }
    if (status == NIB_OK)
        status = encode_words(tokenizer, text + start, bytes - start, out);
    if (status != NIB_OK)
        out->count = before;
    return status;
}

const char *llama_tokenizer_piece(const llama_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    *bytes = 0;
    if (id < 0 || id >= tokenizer->vocabulary.count)
        return "";
    *bytes = tokenizer->offset[id + 1] - tokenizer->offset[id];
    return tokenizer->pool + tokenizer->offset[id];
}
