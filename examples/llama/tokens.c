/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing list of token ids.
 */
#include "tokens.h"

#include "error.h"

#include <stdlib.h>

nib_status llama_tokens_add(llama_tokens *tokens, int32_t id)
{
    if (tokens->count == tokens->capacity) {
        int64_t capacity = tokens->capacity ? 2 * tokens->capacity : 64;
        int32_t *ids = realloc(tokens->ids, (size_t)capacity * sizeof *ids);
        if (!ids)
            return llama_fail(NIB_NO_MEMORY, "no memory for %lld tokens", (long long)capacity);
        tokens->ids = ids;
        tokens->capacity = capacity;
    }
    tokens->ids[tokens->count++] = id;
    return NIB_OK;
}

void llama_tokens_free(llama_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (llama_tokens){0};
}
