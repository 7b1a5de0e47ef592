/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging of one word. The tokenizer fills the table and calls this per word.
 */
#ifndef LLAMA_BPE_H
#define LLAMA_BPE_H

#include "tokens.h"

typedef struct llama_merge {
    int32_t left, right; /* left -1: the slot is free */
    int32_t rank;        /* lower merges first */
    int32_t result;
} llama_merge;

/* Merges by their pair: open addressing, at most half full. */
typedef struct llama_merges {
    llama_merge *slots;
    size_t mask; /* slots - 1, a power of two less one */
} llama_merges;

nib_status llama_merges_create(int64_t count, llama_merges *out);
void llama_merges_free(llama_merges *merges);
/* Of two merges of one pair the first stays. */
void llama_merges_add(llama_merges *merges, llama_merge merge);
const llama_merge *llama_merges_find(const llama_merges *merges, int32_t left, int32_t right);

/* Merges the tokens of a word's bytes, lowest rank first and leftmost among equals, and appends
 * what is left to `out`. A token of -1 (a byte the vocabulary lacks) merges with nothing and is
 * dropped. */
nib_status llama_bpe_word(const llama_merges *merges, const int32_t *bytes, int64_t count,
                          llama_tokens *out);

#endif
