/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens by id and by text.
 */
#include "vocabulary.h"

#include "error.h"
#include "meta.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS      ((int64_t)1 << 21)
#define MAX_TOKEN_BYTES 4096
#define MAX_TOTAL_BYTES ((int64_t)1 << 28)

/* FNV-1a over one text, continuing from `hash`. */
static uint64_t hash_text(uint64_t hash, llama_text text)
{
    for (int64_t i = 0; i < text.count; i++)
        hash = (hash ^ (unsigned char)text.bytes[i]) * 0x100000001b3u;
    return hash;
}

static size_t slot_of(const llama_vocabulary *v, llama_text a, llama_text b)
{
    uint64_t hash = hash_text(hash_text(0xcbf29ce484222325u, a), b);
    return (size_t)(hash ^ hash >> 32) & v->mask;
}

static bool same(llama_text text, llama_text a, llama_text b)
{
    return text.count == a.count + b.count &&
           (!a.count || !memcmp(text.bytes, a.bytes, (size_t)a.count)) &&
           (!b.count || !memcmp(text.bytes + a.count, b.bytes, (size_t)b.count));
}

int32_t llama_vocabulary_find(const llama_vocabulary *vocabulary, llama_text a, llama_text b)
{
    size_t slot = slot_of(vocabulary, a, b);
    for (; vocabulary->slots[slot] >= 0; slot = (slot + 1) & vocabulary->mask)
        if (same(vocabulary->texts[vocabulary->slots[slot]], a, b))
            return vocabulary->slots[slot];
    return -1;
}

static nib_status allocate(llama_vocabulary *v, int64_t count)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)count)
        slots *= 2;
    v->texts = malloc((size_t)count * sizeof *v->texts);
    v->kinds = calloc((size_t)count, sizeof *v->kinds);
    v->slots = malloc(slots * sizeof *v->slots);
    if (!v->texts || !v->kinds || !v->slots)
        return llama_fail(NIB_NO_MEMORY, "no memory for %lld tokens", (long long)count);
    memset(v->slots, -1, slots * sizeof *v->slots);
    v->mask = slots - 1;
    return NIB_OK;
}

static nib_status read_texts(const nib_file *file, llama_vocabulary *v, const nib_meta *array)
{
    static const char key[] = "tokenizer.ggml.tokens";
    for (int64_t id = 0; id < array->count; id++) {
        llama_text *text = &v->texts[id];
        nib_status status = llama_meta_text_item(file, key, array, id, &text->bytes, &text->count);
        if (status != NIB_OK)
            return status;
        if (text->count > MAX_TOKEN_BYTES)
            return llama_fail(NIB_CORRUPT, "%s, item %lld has %lld bytes; at most %d make sense",
                              key, (long long)id, (long long)text->count, MAX_TOKEN_BYTES);
        v->total_bytes += text->count;
        if (v->total_bytes > MAX_TOTAL_BYTES)
            return llama_fail(NIB_CORRUPT, "%s: the texts take over %lld bytes", key,
                              (long long)MAX_TOTAL_BYTES);
        size_t slot = slot_of(v, *text, (llama_text){0});
        while (v->slots[slot] >= 0 && !same(v->texts[v->slots[slot]], *text, (llama_text){0}))
            slot = (slot + 1) & v->mask;
        v->slots[slot] = (int32_t)id; /* of equal texts the last one is found */
    }
    return NIB_OK;
}

static nib_status read_kinds(const nib_file *file, llama_vocabulary *v)
{
    static const char key[] = "tokenizer.ggml.token_type";
    nib_meta array;
    nib_status status = llama_meta_array(file, key, LLAMA_OPTIONAL, MAX_TOKENS, &array);
    if (status != NIB_OK || array.count == 0)
        return status;
    if (array.count != v->count)
        return llama_fail(NIB_CORRUPT, "%s has %lld items for %lld tokens", key,
                          (long long)array.count, (long long)v->count);
    for (int64_t id = 0; id < v->count; id++) {
        int64_t type = 0;
        status = llama_meta_int_item(file, key, &array, id, &type);
        if (status != NIB_OK)
            return status;
        /* 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte */
        v->kinds[id] = type == 3   ? LLAMA_TOKEN_CONTROL
                       : type == 4 ? LLAMA_TOKEN_USER
                                   : LLAMA_TOKEN_NORMAL;
    }
    return NIB_OK;
}

nib_status llama_vocabulary_read(const nib_file *file, llama_vocabulary *out)
{
    nib_meta array;
    nib_status status =
        llama_meta_array(file, "tokenizer.ggml.tokens", LLAMA_REQUIRED, MAX_TOKENS, &array);
    if (status != NIB_OK)
        return status;
    if (array.count < 1)
        return llama_fail(NIB_CORRUPT, "tokenizer.ggml.tokens is empty");
    status = allocate(out, array.count);
    if (status == NIB_OK)
        status = read_texts(file, out, &array);
    if (status != NIB_OK)
        return status;
    out->count = array.count;
    return read_kinds(file, out);
}

void llama_vocabulary_free(llama_vocabulary *vocabulary)
{
    free(vocabulary->texts);
    free(vocabulary->kinds);
    free(vocabulary->slots);
    *vocabulary = (llama_vocabulary){0};
}
