/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a GGUF file and turns its tensors into a model. A tensor that this program does not know is
 * refused: to ignore it would be to compute something else.
 */
#include "model.h"

#include "error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static nib_status read_vector(const nib_file *file, const char *name, int64_t n, float **out)
{
    nib_tensor tensor;
    int64_t index;
    nib_status status = llama_tensor_find(file, name, n, 0, &index, &tensor);
    if (status != NIB_OK)
        return status;
    *out = malloc((size_t)n * sizeof **out);
    if (!*out)
        return llama_fail(NIB_NO_MEMORY, "no memory for tensor %s", name);
    status = nib_file_read_f32(file, index, 0, 1, *out);
    return status == NIB_OK ? NIB_OK : llama_fail_nib(status, "tensor %s", name);
}

static nib_status load_linear(llama_model *model, const char *name, int64_t n, int64_t k,
                              int64_t m_max, llama_linear *out)
{
    nib_status status = llama_linear_load(&model->engine, model->file, name, n, k, m_max, out);
    model->packed_bytes += out->packed_bytes;
    model->rounded += out->rounded;
    return status;
}

static nib_status load_layer(llama_model *model, int64_t index, llama_layer *layer)
{
    const llama_params *p = &model->params;
    int64_t q_width = p->heads * p->head_dim, kv_width = p->kv_heads * p->head_dim;
    const struct {
        const char *name;
        int64_t n, k;
        llama_linear *linear;
    } rows[] = {
        {"attn_q", q_width, p->embed, &layer->q},
        {"attn_k", kv_width, p->embed, &layer->k},
        {"attn_v", kv_width, p->embed, &layer->v},
        {"attn_output", p->embed, q_width, &layer->attn_out},
        {"ffn_gate", p->ff, p->embed, &layer->gate},
        {"ffn_up", p->ff, p->embed, &layer->up},
        {"ffn_down", p->embed, p->ff, &layer->down},
    };
    char name[64];
    snprintf(name, sizeof name, "blk.%" PRId64 ".attn_norm.weight", index);
    nib_status status = read_vector(model->file, name, p->embed, &layer->attn_norm);
    if (status != NIB_OK)
        return status;
    snprintf(name, sizeof name, "blk.%" PRId64 ".ffn_norm.weight", index);
    status = read_vector(model->file, name, p->embed, &layer->ffn_norm);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == NIB_OK; i++) {
        snprintf(name, sizeof name, "blk.%" PRId64 ".%s.weight", index, rows[i].name);
        status = load_linear(model, name, rows[i].n, rows[i].k, LLAMA_BATCH_MAX, rows[i].linear);
    }
    return status;
}

static nib_status load_ends(llama_model *model)
{
    const llama_params *p = &model->params;
    nib_tensor tensor;
    int64_t output;
    nib_status status = llama_tensor_find(model->file, "token_embd.weight", p->vocab, p->embed,
                                          &model->embedding, &tensor);
    if (status == NIB_OK)
        status = read_vector(model->file, "output_norm.weight", p->embed, &model->output_norm);
    if (status != NIB_OK)
        return status;
    model->tied = nib_file_find(model->file, "output.weight", &output) != NIB_OK;
    /* only the last row of a batch needs logits */
    return load_linear(model, model->tied ? "token_embd.weight" : "output.weight", p->vocab,
                       p->embed, 1, &model->output);
}

/* Two vectors and seven matrices a layer, the embedding, the last norm and perhaps the output. All
 * of those were found, so a larger count means an unknown tensor; it is looked for by name. */
static nib_status refuse_unknown_tensors(const llama_model *model)
{
    int64_t known = 9 * model->params.layers + 2 + !model->tied;
    int64_t count = nib_file_tensor_count(model->file);
    for (int64_t i = 0; i < count && count > known; i++) {
        nib_tensor tensor = {.size = sizeof tensor};
        int64_t layer;
        char part[32] = "", rest[8] = "";
        if (nib_file_tensor(model->file, i, &tensor) != NIB_OK)
            continue;
        bool in_layer =
            sscanf(tensor.name, "blk.%" SCNd64 ".%31[a-z_].%7s", &layer, part, rest) == 3 &&
            layer < model->params.layers && !strcmp(rest, "weight");
        static const char *const parts[] = {"attn_norm", "ffn_norm", "attn_q",
                                            "attn_k",    "attn_v",   "attn_output",
                                            "ffn_gate",  "ffn_up",   "ffn_down"};
        bool familiar = !strcmp(tensor.name, "token_embd.weight") ||
                        !strcmp(tensor.name, "output_norm.weight") ||
                        !strcmp(tensor.name, "output.weight");
        for (size_t j = 0; in_layer && j < sizeof parts / sizeof *parts; j++)
            familiar = familiar || !strcmp(part, parts[j]);
        if (!familiar)
            return llama_fail(
                NIB_UNSUPPORTED,
                "the file holds the tensor %s, which this program cannot use; biases, "
                "rope factors and layers past llama.block_count are not supported",
                tensor.name);
    }
    return NIB_OK;
}

static nib_status load(llama_model *model, const char *path, const llama_engine_options *options)
{
    struct stat info;
    nib_status status = nib_file_open(path, &model->file);
    if (status != NIB_OK)
        return llama_fail_nib(status, "the model");
    if (strcmp(nib_file_format(model->file), "gguf"))
        return llama_fail(NIB_UNSUPPORTED, "%s is a %s file; a model is a GGUF file", path,
                          nib_file_format(model->file));
    if (!stat(path, &info))
        model->file_bytes = (uint64_t)info.st_size;
    status = llama_tokenizer_create(model->file, &model->tokenizer);
    if (status == NIB_OK)
        status =
            llama_params_read(model->file, llama_tokenizer_count(model->tokenizer), &model->params);
    if (status == NIB_OK)
        status = llama_engine_open(&model->engine, options);
    if (status != NIB_OK)
        return status;
    model->layers = calloc((size_t)model->params.layers, sizeof *model->layers);
    if (!model->layers)
        return llama_fail(NIB_NO_MEMORY, "no memory for %" PRId64 " layers", model->params.layers);
    for (int64_t i = 0; i < model->params.layers && status == NIB_OK; i++)
        status = load_layer(model, i, &model->layers[i]);
    if (status == NIB_OK)
        status = load_ends(model);
    if (status == NIB_OK)
        status = refuse_unknown_tensors(model);
    if (status == NIB_OK)
        status = llama_engine_prepare(&model->engine);
    return status;
}

nib_status llama_model_open(const char *path, const llama_engine_options *options,
                            llama_model **out)
{
    double start = llama_clock();
    llama_model *model = calloc(1, sizeof *model);
    if (!model)
        return llama_fail(NIB_NO_MEMORY, "no memory for a model");
    nib_status status = load(model, path, options);
    if (status != NIB_OK) {
        llama_model_close(model);
        return status;
    }
    model->load_seconds = llama_clock() - start;
    *out = model;
    return NIB_OK;
}

void llama_model_close(llama_model *model)
{
    if (!model)
        return;
    for (int64_t i = 0; model->layers && i < model->params.layers; i++) {
        llama_layer *layer = &model->layers[i];
        llama_linear *linears[] = {&layer->q,    &layer->k,  &layer->v,   &layer->attn_out,
                                   &layer->gate, &layer->up, &layer->down};
        for (size_t j = 0; j < sizeof linears / sizeof *linears; j++)
            llama_linear_free(linears[j]);
        free(layer->attn_norm);
        free(layer->ffn_norm);
    }
    llama_linear_free(&model->output);
    free(model->layers);
    free(model->output_norm);
    llama_engine_close(&model->engine);
    llama_tokenizer_destroy(model->tokenizer);
    nib_file_close(model->file);
    free(model);
}
