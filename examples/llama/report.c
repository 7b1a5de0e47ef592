/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of a run.
 */
#include "report.h"

#include "meta.h"
#include "unicode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MB 1e6

static double rate(int64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static const char *act_name(const llama_model *model)
{
    return model->engine.options.act_dynamic_i8 ? "i8dyn"
                                                : nib_type_name(model->engine.options.act_type);
}

static void model_name(const llama_model *model, const char **name, int64_t *bytes)
{
    if (llama_meta_text(model->file, "general.name", LLAMA_OPTIONAL, name, bytes) != NIB_OK ||
        !*name) {
        *name = "unnamed";
        *bytes = 7;
    }
    if (*bytes > 100)
        *bytes = 100;
}

void llama_report_model(FILE *file, const llama_model *model)
{
    const char *name;
    int64_t bytes;
    const nib_device_info *info = &model->engine.info;
    model_name(model, &name, &bytes);
    fprintf(file, "model   %.*s: %" PRId64 " layers, %" PRId64 " wide, %" PRId64 " tokens\n",
            (int)bytes, name, model->params.layers, model->params.embed, model->params.vocab);
    fprintf(file, "device  %s, %s, %s, %d units; activations %s\n", info->selector, info->name,
            info->isa, (int)info->units, act_name(model));
    int64_t linears = 7 * model->params.layers + 1;
    if (model->rounded)
        fprintf(file,
                "weights %" PRId64 " of %" PRId64
                " linear layers are 16 or 32 bits in the file and "
                "were rounded\n        to i8 with one scale per 32; the others are exact\n",
                model->rounded, linears);
    else
        fprintf(file, "weights %" PRId64 " linear layers, as quantised in the file\n", linears);
    fprintf(file, "\n");
}

void llama_report_stats(FILE *file, const llama_model *model, const llama_session *session,
                        const llama_stats *stats)
{
    fprintf(file, "\nload    %.2f s\n", model->load_seconds);
    fprintf(file, "prefill %" PRId64 " tokens, %.1f tokens/s, %.0f %% of the time in nibblas\n",
            stats->prompt_tokens, rate(stats->prompt_tokens, stats->prefill_seconds),
            100 * share(stats->prefill_nib_seconds, stats->prefill_seconds));
    fprintf(file, "decode  %" PRId64 " tokens, %.1f tokens/s, %.0f %% of the time in nibblas\n",
            stats->decode_steps, rate(stats->decode_steps, stats->decode_seconds),
            100 * share(stats->decode_nib_seconds, stats->decode_seconds));
    fprintf(file,
            "memory  file %.1f MB mapped, packed weights %.1f MB, cache %.1f MB for %" PRId64
            " tokens\n",
            (double)model->file_bytes / MB, (double)model->packed_bytes / MB,
            (double)session->cache.bytes / MB, session->cache.capacity);
}

/* A JSON string's inside. Bytes that are no UTF-8 become U+FFFD. */
static void json_text(FILE *file, const char *text, size_t bytes)
{
    size_t taken;
    for (size_t i = 0; i < bytes; i += taken) {
        uint32_t c = llama_utf8_decode(text + i, bytes - i, &taken);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", (char)c);
        else if (c < 0x20 || c == LLAMA_BAD_CODE_POINT)
            fprintf(file, "\\u%04x", (unsigned)c);
        else
            fwrite(text + i, 1, taken, file);
    }
}

/* The text as one array first: a character may be spread over tokens. */
static void json_tokens(FILE *file, const llama_model *model, const llama_tokens *tokens)
{
    size_t bytes, total = 0;
    for (int64_t i = 0; i < tokens->count; i++) {
        llama_tokenizer_piece(model->tokenizer, tokens->ids[i], &bytes);
        total += bytes;
    }
    char *text = malloc(total + 1);
    if (!text)
        return;
    total = 0;
    for (int64_t i = 0; i < tokens->count; i++) {
        const char *piece = llama_tokenizer_piece(model->tokenizer, tokens->ids[i], &bytes);
        memcpy(text + total, piece, bytes);
        total += bytes;
    }
    json_text(file, text, total);
    free(text);
}

void llama_report_json(FILE *file, const llama_model *model, const llama_session *session,
                       const llama_tokens *written, const llama_stats *stats)
{
    const char *name;
    int64_t bytes;
    model_name(model, &name, &bytes);
    fprintf(file, "{\"text\": \"");
    json_tokens(file, model, written);
    fprintf(file, "\",\n \"ids\": [");
    for (int64_t i = 0; i < written->count; i++)
        fprintf(file, "%s%" PRId32, i ? ", " : "", written->ids[i]);
    fprintf(file, "],\n \"ended\": %s,\n \"model\": \"", stats->ended ? "true" : "false");
    json_text(file, name, (size_t)bytes);
    fprintf(file, "\",\n \"device\": \"%s\", \"isa\": \"%s\", \"act\": \"%s\", \"kv\": \"%s\",\n",
            model->engine.info.selector, model->engine.info.isa, act_name(model),
            nib_type_name(session->cache.type));
    fprintf(file, " \"load_s\": %.3f,\n", model->load_seconds);
    fprintf(file,
            " \"prefill\": {\"tokens\": %" PRId64 ", \"tokens_per_s\": %.2f, \"nibblas_share\": "
            "%.3f},\n",
            stats->prompt_tokens, rate(stats->prompt_tokens, stats->prefill_seconds),
            share(stats->prefill_nib_seconds, stats->prefill_seconds));
    fprintf(file,
            " \"decode\": {\"tokens\": %" PRId64 ", \"tokens_per_s\": %.2f, \"nibblas_share\": "
            "%.3f},\n",
            stats->decode_steps, rate(stats->decode_steps, stats->decode_seconds),
            share(stats->decode_nib_seconds, stats->decode_seconds));
    fprintf(file,
            " \"file_bytes\": %" PRIu64 ", \"packed_bytes\": %" PRIu64 ", \"cache_bytes\": %" PRIu64
            ", \"rounded_layers\": %" PRId64 "}\n",
            model->file_bytes, model->packed_bytes, session->cache.bytes, model->rounded);
}

void llama_report_quoted(FILE *file, const char *text, size_t bytes)
{
    fputc('"', file);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c >= 32 && c < 127)
            fputc(c, file);
        else
            fprintf(file, "\\x%02x", c);
    }
    fputc('"', file);
}
