/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte-level BPE tokenizer of a GGUF file: text to token ids and back to bytes.
 */
#ifndef LLAMA_TOKENIZER_H
#define LLAMA_TOKENIZER_H

#include "tokens.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct llama_tokenizer llama_tokenizer;

/* Reads tokenizer.ggml.*. The file must outlive the tokenizer: token texts stay in its memory.
 * NIB_UNSUPPORTED: another kind of tokenizer. NIB_CORRUPT: the tables contradict each other. */
nib_status llama_tokenizer_create(const nib_file *file, llama_tokenizer **out);
void llama_tokenizer_destroy(llama_tokenizer *tokenizer);

int64_t llama_tokenizer_count(const llama_tokenizer *tokenizer);
/* Token that ends a text, -1 if the file names none. */
int32_t llama_tokenizer_eos(const llama_tokenizer *tokenizer);
/* Token that must begin a text, -1 if none must. */
int32_t llama_tokenizer_bos(const llama_tokenizer *tokenizer);
/* The token of exactly this text, as the vocabulary writes it; -1 if there is none. */
int32_t llama_tokenizer_find(const llama_tokenizer *tokenizer, const char *text);
bool llama_tokenizer_is_control(const llama_tokenizer *tokenizer, int32_t id);

/* Appends the tokens of a text. With `special`, control tokens written out in the text
 * ("<|im_end|>") become those tokens; without, they are text like any other. */
nib_status llama_tokenizer_encode(const llama_tokenizer *tokenizer, const char *text, size_t bytes,
                                  bool special, llama_tokens *out);

/* The bytes that a token stands for, not NUL-terminated; they may be part of a UTF-8 sequence. A
 * control token stands for its own name. */
const char *llama_tokenizer_piece(const llama_tokenizer *tokenizer, int32_t id, size_t *bytes);

#endif
