/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference logits of another implementation, as text, and the comparison with ours. A file is
 * lines:
 *
 *     prompt <name>
 *     text "<text>"              C-like: \" \\ and \xNN
 *     ids <id> ...               the prompt's tokens
 *     step <id> mean <mean of all logits> top <id>:<logit> ... fixed <id>:<logit> ...
 *
 * A step's id is the token chosen greedily there; the next step follows it. `#` begins a comment.
 */
#ifndef LLAMA_REFERENCE_H
#define LLAMA_REFERENCE_H

#include "graph.h"

#include <stdio.h>

#define LLAMA_STEP_LOGITS 32

typedef struct llama_step {
    int32_t chosen;
    double mean;
    int32_t count, top_count; /* logits given; the first top_count are the largest of all */
    int32_t ids[LLAMA_STEP_LOGITS];
    double logits[LLAMA_STEP_LOGITS];
} llama_step;

typedef struct llama_reference_prompt {
    char name[32];
    char *text;
    size_t text_bytes;
    llama_tokens ids;
    llama_step *steps;
    int64_t step_count;
} llama_reference_prompt;

typedef struct llama_reference {
    llama_reference_prompt *prompts;
    int64_t count;
} llama_reference;

/* How far our logits are from the reference. */
typedef struct llama_deviation {
    int64_t steps;
    double logit_max, mean_max; /* largest absolute differences */
    double logit_square_sum;
    int64_t logit_count;
    int64_t other_ids; /* steps where our greedy choice differs */
    int64_t
        wrong_ids; /* those of them whose reference gap between first and second is above bound */
    double wrong_gap; /* largest reference gap where our choice differs */
} llama_deviation;

nib_status llama_reference_load(const char *path, llama_reference *out);
void llama_reference_free(llama_reference *reference);

/* A quoted text at *line: allocates its bytes, NUL-terminated, and moves *line past it. */
nib_status llama_reference_unquote(const char **line, char **text, size_t *bytes);

/* Runs a prompt and its steps, teacher-forced, and adds to `deviation`, which begins as zero. */
nib_status llama_reference_compare(llama_session *session, const llama_reference_prompt *prompt,
                                   double bound, llama_deviation *deviation);

/* Writes one step line from logits. */
void llama_reference_write_step(FILE *file, const float *logits, int64_t vocab, int32_t chosen);

#endif
