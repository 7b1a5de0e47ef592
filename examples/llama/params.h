/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that make a Llama: extents and constants from a GGUF file's metadata.
 */
#ifndef LLAMA_PARAMS_H
#define LLAMA_PARAMS_H

#include <nibblas/nibblas.h>

typedef struct llama_params {
    int64_t layers;
    int64_t context;  /* positions the model was trained for */
    int64_t embed;    /* width of the residual stream */
    int64_t ff;       /* width of the gated layer */
    int64_t heads;    /* query heads */
    int64_t kv_heads; /* key and value heads; each serves heads / kv_heads query heads */
    int64_t head_dim;
    int64_t rope_dims; /* the first dimensions of a head that rotate, in adjacent pairs */
    int64_t vocab;
    double norm_eps;
    double rope_base;
    double rope_scale; /* positions are multiplied by this: 1 over the linear scaling factor */
} llama_params;

/* `vocab` is the tokenizer's count, which the file's own must equal. */
nib_status llama_params_read(const nib_file *file, int64_t vocab, llama_params *out);

#endif
