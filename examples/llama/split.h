/* SPDX-License-Identifier: Apache-2.0
 *
 * The pre-tokenizer: cuts text into the words within which byte pairs merge.
 */
#ifndef LLAMA_SPLIT_H
#define LLAMA_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

/* Walks text[0..bytes). */
typedef struct llama_split {
    const char *text;
    size_t bytes;
    size_t position;      /* where the next word begins */
    size_t section;       /* words do not cross this offset */
    bool digits_separate; /* every \p{N} is a word: "smollm"; else runs are words: "gpt2" */
} llama_split;

/* Sets *word and *length to the next word; false at the end. */
bool llama_split_next(llama_split *split, const char **word, size_t *length);

#endif
