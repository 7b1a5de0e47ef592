/* SPDX-License-Identifier: Apache-2.0
 *
 * ChatML by recognition: templates are programs in Jinja, and instead of running one we look for
 * the marks of the one form we can write, and for its default system text.
 */
#include "chat.h"

#include "error.h"
#include "meta.h"

#include <stdlib.h>
#include <string.h>

#define START "<|im_start|>"
#define END   "<|im_end|>"

static const char *find(const char *text, size_t bytes, const char *what)
{
    return memmem(text, bytes, what, strlen(what));
}

/* The text between "<|im_start|>system\n" and "<|im_end|>" in the template, if it is a literal. The
 * newline may stand there itself or as the two characters \n. */
static void find_system(const char *template, size_t bytes, llama_chat *chat)
{
    const char *mark = find(template, bytes, START "system");
    if (!mark)
        return;
    const char *text = mark + strlen(START "system"), *end = template + bytes;
    if (text < end && *text == '\n')
        text++;
    else if (end - text >= 2 && text[0] == '\\' && text[1] == 'n')
        text += 2;
    else
        return;
    const char *stop = find(text, (size_t)(end - text), END);
    if (!stop || memchr(text, '\'', (size_t)(stop - text)) ||
        memchr(text, '\\', (size_t)(stop - text)) || memchr(text, '{', (size_t)(stop - text)))
        return;
    chat->system = text;
    chat->system_bytes = (size_t)(stop - text);
}

nib_status llama_chat_detect(const nib_file *file, const llama_tokenizer *tokenizer,
                             llama_chat *out)
{
    const char *template;
    int64_t bytes;
    llama_chat chat = {.start = llama_tokenizer_find(tokenizer, START),
                       .end = llama_tokenizer_find(tokenizer, END)};
    nib_status status =
        llama_meta_text(file, "tokenizer.chat_template", LLAMA_OPTIONAL, &template, &bytes);
    if (status != NIB_OK)
        return status;
    if (!template)
        chat.reason = "the file has no chat template";
    else if (!find(template, (size_t)bytes, START) || !find(template, (size_t)bytes, END))
        chat.reason = "the file's chat template is not understood (only ChatML is)";
    else if (!llama_tokenizer_is_control(tokenizer, chat.start) ||
             !llama_tokenizer_is_control(tokenizer, chat.end))
        chat.reason = "the chat template is ChatML, but its marks are no control tokens";
    else
        find_system(template, (size_t)bytes, &chat);
    chat.understood = !chat.reason;
    *out = chat;
    return NIB_OK;
}

static nib_status encode(const llama_tokenizer *tokenizer, const char *text, size_t bytes,
                         llama_tokens *out)
{
    return llama_tokenizer_encode(tokenizer, text, bytes, false, out);
}

/* The role's line and the text merge as one piece, as they do in the template's output. */
static nib_status message(const llama_chat *chat, const llama_tokenizer *tokenizer,
                          const char *role, const char *text, size_t bytes, llama_tokens *out)
{
    size_t role_bytes = strlen(role);
    char *joined = malloc(role_bytes + bytes + 2);
    if (!joined)
        return llama_fail(NIB_NO_MEMORY, "no memory for a message of %zu bytes", bytes);
    memcpy(joined, role, role_bytes);
    joined[role_bytes] = '\n';
    memcpy(joined + role_bytes + 1, text, bytes);
    nib_status status = llama_tokens_add(out, chat->start);
    if (status == NIB_OK)
        status = encode(tokenizer, joined, role_bytes + 1 + bytes, out);
    if (status == NIB_OK)
        status = llama_tokens_add(out, chat->end);
    if (status == NIB_OK)
        status = encode(tokenizer, "\n", 1, out);
    free(joined);
    return status;
}

nib_status llama_chat_encode(const llama_chat *chat, const llama_tokenizer *tokenizer,
                             const char *system, const char *user, llama_tokens *out)
{
    size_t system_bytes = system ? strlen(system) : chat->system_bytes;
    nib_status status = NIB_OK;
    if (system || chat->system)
        status =
            message(chat, tokenizer, "system", system ? system : chat->system, system_bytes, out);
    if (status == NIB_OK)
        status = message(chat, tokenizer, "user", user, strlen(user), out);
    if (status == NIB_OK)
        status = llama_tokens_add(out, chat->start);
    if (status == NIB_OK)
        status = encode(tokenizer, "assistant\n", 10, out);
    return status;
}
