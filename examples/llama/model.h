/* SPDX-License-Identifier: Apache-2.0
 *
 * A Llama model in memory: the mapped file, its tokenizer, norms and linear layers.
 */
#ifndef LLAMA_MODEL_H
#define LLAMA_MODEL_H

#include "linear.h"
#include "params.h"
#include "tokenizer.h"

/* Rows that one pass through the layers takes at most: the prompt goes in pieces of this. */
#define LLAMA_BATCH_MAX 256

typedef struct llama_layer {
    float *attn_norm, *ffn_norm; /* [embed] */
    llama_linear q, k, v, attn_out, gate, up, down;
} llama_layer;

typedef struct llama_model {
    nib_file *file;
    llama_tokenizer *tokenizer;
    llama_params params;
    llama_engine engine;
    llama_layer *layers;
    float *output_norm;  /* [embed] */
    llama_linear output; /* to the vocabulary */
    int64_t embedding;   /* index of the tensor whose rows are token embeddings */
    bool tied;           /* `output` has the embedding's weights */
    uint64_t file_bytes, packed_bytes;
    int64_t rounded; /* linear layers that are not exact: see llama_linear.rounded */
    double load_seconds;
} llama_model;

nib_status llama_model_open(const char *path, const llama_engine_options *options,
                            llama_model **out);
void llama_model_close(llama_model *model);

#endif
