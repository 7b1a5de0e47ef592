/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompt in, text out, with the time of both phases; or teacher-forced comparison.
 */
#include "run.h"

#include "chat.h"
#include "error.h"
#include "reference.h"
#include "report.h"
#include "sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything one generation owns. */
typedef struct writing {
    llama_model *model;
    const llama_options *options;
    llama_chat chat;
    bool chatting;
    llama_tokens prompt, written;
    llama_session *session;
    llama_sampler sampler;
    FILE *dump;
    llama_stats stats;
} writing;

static nib_status encode_prompt(writing *w)
{
    const llama_tokenizer *tokenizer = w->model->tokenizer;
    const llama_options *options = w->options;
    nib_status status = llama_chat_detect(w->model->file, tokenizer, &w->chat);
    if (status != NIB_OK)
        return status;
    if (options->chat == LLAMA_CHAT_ON && !w->chat.understood)
        return llama_fail(NIB_UNSUPPORTED, "--chat: %s", w->chat.reason);
    w->chatting = options->chat != LLAMA_CHAT_OFF && w->chat.understood;
    if (options->chat == LLAMA_CHAT_AUTO && !w->chat.understood && !options->quiet)
        fprintf(stderr, "nib-llama: %s: the prompt is continued as plain text\n", w->chat.reason);
    if (llama_tokenizer_bos(tokenizer) >= 0)
        status = llama_tokens_add(&w->prompt, llama_tokenizer_bos(tokenizer));
    if (status != NIB_OK)
        return status;
    if (w->chatting)
        return llama_chat_encode(&w->chat, tokenizer, options->system, options->prompt, &w->prompt);
    return llama_tokenizer_encode(tokenizer, options->prompt, strlen(options->prompt), true,
                                  &w->prompt);
}

static nib_status open_session(writing *w)
{
    const llama_options *options = w->options;
    int64_t most = w->model->params.context;
    if (w->prompt.count == 0)
        return llama_fail(NIB_INVALID, "the prompt is empty; give some text with -p");
    if (w->prompt.count > most || options->tokens > most - w->prompt.count)
        return llama_fail(NIB_INVALID,
                          "a prompt of %" PRId64 " tokens and %" PRId64
                          " more do not fit the model's context of %" PRId64,
                          w->prompt.count, options->tokens, most);
    llama_session_options session = {.context = w->prompt.count + options->tokens,
                                     .batch = options->batch,
                                     .cache_type = options->cache_type};
    nib_status status = llama_session_create(w->model, &session, &w->session);
    if (status == NIB_OK)
        status = llama_sampler_create(options->temperature, options->top_p, options->seed,
                                      w->model->params.vocab, &w->sampler);
    if (status == NIB_OK && options->logits_dump && !(w->dump = fopen(options->logits_dump, "w")))
        status = llama_fail(NIB_MISSING, "%s cannot be written: %m", options->logits_dump);
    return status;
}

static void dump_prompt(const writing *w)
{
    fprintf(w->dump, "# SPDX-License-Identifier: Apache-2.0\nprompt run\ntext ");
    llama_report_quoted(w->dump, w->options->prompt, strlen(w->options->prompt));
    fprintf(w->dump, "\nids");
    for (int64_t i = 0; i < w->prompt.count; i++)
        fprintf(w->dump, " %" PRId32, w->prompt.ids[i]);
    fprintf(w->dump, "\n");
}

static bool ends_text(const writing *w, int32_t id)
{
    return id == llama_tokenizer_eos(w->model->tokenizer) || (w->chatting && id == w->chat.end);
}

static void show(const writing *w, int32_t id)
{
    size_t bytes;
    const char *piece = llama_tokenizer_piece(w->model->tokenizer, id, &bytes);
    if (w->options->json || llama_tokenizer_is_control(w->model->tokenizer, id))
        return;
    fwrite(piece, 1, bytes, stdout);
    fflush(stdout);
}

/* Samples, shows and evaluates tokens until the text ends or is long enough. */
static nib_status decode(writing *w)
{
    nib_status status = NIB_OK;
    while (w->written.count < w->options->tokens) {
        int32_t id;
        status = llama_sample(&w->sampler, w->session->logits, &id);
        if (status != NIB_OK)
            return status;
        if (w->dump)
            llama_reference_write_step(w->dump, w->session->logits, w->model->params.vocab, id);
        w->stats.ended = ends_text(w, id);
        if (w->stats.ended && !w->options->ignore_end)
            break;
        status = llama_tokens_add(&w->written, id);
        if (status != NIB_OK)
            return status;
        show(w, id);
        if (w->written.count == w->options->tokens)
            break;
        status = llama_session_eval(w->session, &id, 1);
        if (status != NIB_OK)
            return status;
        w->stats.decode_steps++;
    }
    w->stats.written_tokens = w->written.count;
    return status;
}

static nib_status write_text(writing *w)
{
    llama_engine *engine = &w->model->engine;
    double nib = engine->seconds, start = llama_clock();
    nib_status status = llama_session_eval(w->session, w->prompt.ids, w->prompt.count);
    if (status != NIB_OK)
        return status;
    w->stats.prompt_tokens = w->prompt.count;
    w->stats.prefill_seconds = llama_clock() - start;
    w->stats.prefill_nib_seconds = engine->seconds - nib;
    if (w->dump)
        dump_prompt(w);
    nib = engine->seconds;
    start = llama_clock();
    status = decode(w);
    w->stats.decode_seconds = llama_clock() - start;
    w->stats.decode_nib_seconds = engine->seconds - nib;
    if (w->dump && ferror(w->dump) && status == NIB_OK)
        status =
            llama_fail(NIB_MISSING, "%s cannot be written to its end", w->options->logits_dump);
    return status;
}

nib_status llama_run_generate(llama_model *model, const llama_options *options)
{
    writing w = {.model = model, .options = options};
    nib_status status = encode_prompt(&w);
    if (status == NIB_OK)
        status = open_session(&w);
    if (status == NIB_OK && !options->quiet && !options->json)
        llama_report_model(stderr, model);
    if (status == NIB_OK)
        status = write_text(&w);
    if (status == NIB_OK && options->json)
        llama_report_json(stdout, model, w.session, &w.written, &w.stats);
    if (status == NIB_OK && !options->json)
        printf("\n");
    if (status == NIB_OK && !options->json && !options->quiet)
        llama_report_stats(stderr, model, w.session, &w.stats);
    if (w.dump)
        fclose(w.dump);
    llama_sampler_free(&w.sampler);
    llama_session_destroy(w.session);
    llama_tokens_free(&w.prompt);
    llama_tokens_free(&w.written);
    return status;
}

static nib_status compare_prompt(llama_model *model, const llama_options *options,
                                 const llama_reference_prompt *prompt, llama_deviation *deviation)
{
    llama_session *session;
    llama_session_options wanted = {.context = prompt->ids.count + prompt->step_count,
                                    .batch = options->batch,
                                    .cache_type = options->cache_type};
    nib_status status = llama_session_create(model, &wanted, &session);
    if (status != NIB_OK)
        return status;
    status = llama_reference_compare(session, prompt, options->bound, deviation);
    llama_session_destroy(session);
    return status;
}

nib_status llama_run_teacher(llama_model *model, const llama_options *options, bool *agrees)
{
    llama_reference reference;
    nib_status status = llama_reference_load(options->teacher, &reference);
    if (status != NIB_OK)
        return status;
    bool all = true;
    printf("%-10s %6s %10s %10s %10s %6s %6s %8s\n", "prompt", "steps", "max |d|", "rms d",
           "max |dmean|", "other", "wrong", "gap");
    for (int64_t i = 0; i < reference.count && status == NIB_OK; i++) {
        llama_deviation d = {0};
        status = compare_prompt(model, options, &reference.prompts[i], &d);
        if (status != NIB_OK)
            break;
        printf("%-10s %6" PRId64 " %10.6f %10.6f %10.6f %6" PRId64 " %6" PRId64 " %8.5f\n",
               reference.prompts[i].name, d.steps, d.logit_max,
               sqrt(d.logit_square_sum / fmax(1, (double)d.logit_count)), d.mean_max, d.other_ids,
               d.wrong_ids, d.wrong_gap);
        all = all && d.logit_max <= options->bound && d.wrong_ids == 0;
    }
    llama_reference_free(&reference);
    if (status == NIB_OK) {
        printf("%s a bound of %g\n", all ? "agrees within" : "does not agree within",
               options->bound);
        *agrees = all;
    }
    return status;
}
