/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a small Llama with random weights as a GGUF file: for demonstrations without a network and
 * for tests. Its text means nothing, but every part of the program runs.
 */
#ifndef LLAMA_SYNTHETIC_H
#define LLAMA_SYNTHETIC_H

#include <nibblas/nibblas.h>

#include <stdbool.h>

typedef struct llama_synthetic {
    int64_t layers, embed, heads, kv_heads, ff; /* embed and ff multiples of 32 */
    int64_t context;
    bool tied; /* the output has the embedding's weights */
    uint64_t seed;
} llama_synthetic;

/* A model of some megabytes. */
llama_synthetic llama_synthetic_default(void);

/* Linear layers take turns in Q4_0, Q4_1, Q8_0, F16 and F32. Nothing stands at `path` after a
 * failure. */
nib_status llama_synthetic_write(const llama_synthetic *model, const char *path);

#endif
