/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and cross-checks the model's extents. Every number is bounded before anything is sized by
 * it; the bounds are far above real models.
 */
#include "params.h"

#include "error.h"
#include "meta.h"

#include <string.h>

static nib_status check_architecture(const nib_file *file)
{
    const char *text;
    int64_t bytes;
    nib_status status =
        llama_meta_text(file, "general.architecture", LLAMA_REQUIRED, &text, &bytes);
    if (status != NIB_OK)
        return status;
    if (bytes != 5 || memcmp(text, "llama", 5))
        return llama_fail(NIB_UNSUPPORTED,
                          "general.architecture is '%.*s'; only 'llama' is understood",
                          (int)(bytes < 60 ? bytes : 60), text);
    int64_t experts = 0;
    status = llama_meta_int(file, "llama.expert_count", LLAMA_OPTIONAL, 0, INT64_MAX, &experts);
    if (status == NIB_OK && experts > 0)
        return llama_fail(NIB_UNSUPPORTED, "llama.expert_count is %lld; mixtures are not supported",
                          (long long)experts);
    return status;
}

static nib_status read_extents(const nib_file *file, int64_t vocab, llama_params *p)
{
    const struct {
        const char *key;
        llama_need need;
        int64_t most;
        int64_t *value;
    } rows[] = {
        {"llama.block_count", LLAMA_REQUIRED, 1024, &p->layers},
        {"llama.context_length", LLAMA_REQUIRED, (int64_t)1 << 24, &p->context},
        {"llama.embedding_length", LLAMA_REQUIRED, (int64_t)1 << 17, &p->embed},
        {"llama.feed_forward_length", LLAMA_REQUIRED, (int64_t)1 << 20, &p->ff},
        {"llama.attention.head_count", LLAMA_REQUIRED, 4096, &p->heads},
        {"llama.attention.head_count_kv", LLAMA_OPTIONAL, 4096, &p->kv_heads},
        {"llama.attention.key_length", LLAMA_OPTIONAL, 4096, &p->head_dim},
        {"llama.rope.dimension_count", LLAMA_OPTIONAL, 4096, &p->rope_dims},
        {"llama.vocab_size", LLAMA_OPTIONAL, (int64_t)1 << 31, &p->vocab},
    };
    p->vocab = vocab;
    nib_status status = NIB_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == NIB_OK; i++)
        status = llama_meta_int(file, rows[i].key, rows[i].need, 1, rows[i].most, rows[i].value);
    return status;
}

static nib_status check_extents(const nib_file *file, int64_t vocab, llama_params *p)
{
    if (p->vocab != vocab)
        return llama_fail(NIB_CORRUPT,
                          "llama.vocab_size is %lld, but the tokenizer has %lld tokens",
                          (long long)p->vocab, (long long)vocab);
    if (p->kv_heads == 0)
        p->kv_heads = p->heads;
    if (p->heads % p->kv_heads)
        return llama_fail(NIB_CORRUPT, "%lld query heads are no multiple of %lld key heads",
                          (long long)p->heads, (long long)p->kv_heads);
    if (p->head_dim == 0 && p->embed % p->heads)
        return llama_fail(NIB_CORRUPT, "an embedding of %lld does not divide into %lld heads",
                          (long long)p->embed, (long long)p->heads);
    if (p->head_dim == 0)
        p->head_dim = p->embed / p->heads;
    int64_t value_length = p->head_dim;
    nib_status status = llama_meta_int(file, "llama.attention.value_length", LLAMA_OPTIONAL, 1,
                                       4096, &value_length);
    if (status != NIB_OK)
        return status;
    if (value_length != p->head_dim)
        return llama_fail(
            NIB_UNSUPPORTED,
            "heads have %lld dimensions for keys and %lld for values; only equal ones "
            "are supported",
            (long long)p->head_dim, (long long)value_length);
    if (p->rope_dims == 0)
        p->rope_dims = p->head_dim;
    if (p->rope_dims > p->head_dim || p->rope_dims % 2)
        return llama_fail(NIB_CORRUPT,
                          "llama.rope.dimension_count is %lld; it must be even and at most %lld",
                          (long long)p->rope_dims, (long long)p->head_dim);
    return NIB_OK;
}

static nib_status read_rope_scaling(const nib_file *file, llama_params *p)
{
    const char *text;
    int64_t bytes;
    double factor = 1;
    nib_status status =
        llama_meta_text(file, "llama.rope.scaling.type", LLAMA_OPTIONAL, &text, &bytes);
    if (status == NIB_OK)
        status =
            llama_meta_real(file, "llama.rope.scaling.factor", LLAMA_OPTIONAL, 1e-6, 1e6, &factor);
    if (status != NIB_OK)
        return status;
    p->rope_scale = 1;
    if (!text || (bytes == 4 && !memcmp(text, "none", 4)))
        return NIB_OK;
    if (bytes != 6 || memcmp(text, "linear", 6))
        return llama_fail(NIB_UNSUPPORTED,
                          "llama.rope.scaling.type is '%.*s'; only 'none' and 'linear' are known",
                          (int)(bytes < 60 ? bytes : 60), text);
    p->rope_scale = 1 / factor;
    return NIB_OK;
}

nib_status llama_params_read(const nib_file *file, int64_t vocab, llama_params *out)
{
    llama_params p = {.rope_base = 10000};
    nib_status status = check_architecture(file);
    if (status == NIB_OK)
        status = read_extents(file, vocab, &p);
    if (status == NIB_OK)
        status = check_extents(file, vocab, &p);
    if (status == NIB_OK)
        status = llama_meta_real(file, "llama.attention.layer_norm_rms_epsilon", LLAMA_REQUIRED, 0,
                                 1, &p.norm_eps);
    if (status == NIB_OK)
        status =
            llama_meta_real(file, "llama.rope.freq_base", LLAMA_OPTIONAL, 1, 1e12, &p.rope_base);
    if (status == NIB_OK)
        status = read_rope_scaling(file, &p);
    if (status == NIB_OK)
        *out = p;
    return status;
}
