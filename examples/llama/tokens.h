/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing list of token ids.
 */
#ifndef LLAMA_TOKENS_H
#define LLAMA_TOKENS_H

#include <nibblas/nibblas.h>

typedef struct llama_tokens {
    int32_t *ids;
    int64_t count, capacity;
} llama_tokens;

nib_status llama_tokens_add(llama_tokens *tokens, int32_t id);
void llama_tokens_free(llama_tokens *tokens);

#endif
