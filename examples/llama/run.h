/* SPDX-License-Identifier: Apache-2.0
 *
 * What nib-llama does with a model: write text, or compare itself with reference logits.
 */
#ifndef LLAMA_RUN_H
#define LLAMA_RUN_H

#include "graph.h"

#include <stdbool.h>

typedef enum llama_chat_mode {
    LLAMA_CHAT_AUTO = 0, /* where the model's template is understood */
    LLAMA_CHAT_ON = 1,
    LLAMA_CHAT_OFF = 2
} llama_chat_mode;

typedef struct llama_options {
    const char *model, *prompt, *system;
    const char *teacher;         /* reference logits to compare with, NULL: write text */
    const char *logits_dump;     /* file for the logits of each step, NULL: none */
    const char *write_synthetic; /* file to write a synthetic model to, NULL: none */
    llama_engine_options engine;
    llama_chat_mode chat;
    nib_type cache_type;
    int64_t tokens, batch, threads;
    double temperature, top_p, bound;
    uint64_t seed;
    bool synthetic, ignore_end, json, quiet;
} llama_options;

/* What a run did and how long it took. */
typedef struct llama_stats {
    int64_t prompt_tokens, written_tokens, decode_steps;
    double prefill_seconds, prefill_nib_seconds;
    double decode_seconds, decode_nib_seconds;
    bool ended; /* the model ended its text */
} llama_stats;

/* Generates text for options->prompt. Unless options->json, the text goes to stdout as it comes. */
nib_status llama_run_generate(llama_model *model, const llama_options *options);

/* Compares with options->teacher; *agrees says whether all logits are within options->bound and all
 * ids equal where they must be. */
nib_status llama_run_teacher(llama_model *model, const llama_options *options, bool *agrees);

#endif
