/* SPDX-License-Identifier: Apache-2.0
 *
 * The subset of chat templates that is understood: ChatML,
 *     <|im_start|>role\ntext<|im_end|>\n
 */
#ifndef LLAMA_CHAT_H
#define LLAMA_CHAT_H

#include "tokenizer.h"

typedef struct llama_chat {
    bool understood;
    const char *reason; /* why not, a sentence's part; NULL when understood */
    int32_t start, end; /* <|im_start|> and <|im_end|> */
    const char *system; /* the template's own system text, in the file's memory; NULL: none */
    size_t system_bytes;
} llama_chat;

/* Looks at tokenizer.chat_template. No template, or another one, is no failure. */
nib_status llama_chat_detect(const nib_file *file, const llama_tokenizer *tokenizer,
                             llama_chat *out);

/* Appends the tokens of a conversation that asks `user` and awaits the assistant. `system` NULL is
 * the template's own. Control tokens written out in the texts stay text. */
nib_status llama_chat_encode(const llama_chat *chat, const llama_tokenizer *tokenizer,
                             const char *system, const char *user, llama_tokens *out);

#endif
