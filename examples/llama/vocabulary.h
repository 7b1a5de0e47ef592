/* SPDX-License-Identifier: Apache-2.0
 *
 * The token table of a GGUF file and the way from a text to its token.
 */
#ifndef LLAMA_VOCABULARY_H
#define LLAMA_VOCABULARY_H

#include <nibblas/nibblas.h>

typedef struct llama_text {
    const char *bytes;
    int64_t count;
} llama_text;

/* tokenizer.ggml.token_type, as far as it matters here. */
typedef enum llama_token_kind {
    LLAMA_TOKEN_NORMAL = 0, /* written in the byte alphabet */
    LLAMA_TOKEN_CONTROL = 1,
    LLAMA_TOKEN_USER = 2 /* literal text, found in any input */
} llama_token_kind;

typedef struct llama_vocabulary {
    int64_t count;
    llama_text *texts; /* in the file's memory */
    uint8_t *kinds;    /* llama_token_kind */
    int32_t *slots;    /* ids by hash of their text, open addressing; -1: free */
    size_t mask;
    int64_t total_bytes; /* of all texts */
} llama_vocabulary;

/* `out` must be zero; free it after a failure too. */
nib_status llama_vocabulary_read(const nib_file *file, llama_vocabulary *out);
void llama_vocabulary_free(llama_vocabulary *vocabulary);
/* The token whose text is a followed by b, -1 if there is none. */
int32_t llama_vocabulary_find(const llama_vocabulary *vocabulary, llama_text a, llama_text b);

#endif
