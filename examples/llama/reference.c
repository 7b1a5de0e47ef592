/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads, compares and writes reference logits. tests/golden/llama holds the files of llama.cpp.
 */
#include "reference.h"

#include "error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP 8

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

nib_status llama_reference_unquote(const char **line, char **text, size_t *bytes)
{
    const char *s = *line;
    while (*s == ' ')
        s++;
    if (*s++ != '"')
        return llama_fail(NIB_CORRUPT, "a text must stand in quotes");
    char *out = malloc(strlen(s) + 1);
    size_t count = 0;
    if (!out)
        return llama_fail(NIB_NO_MEMORY, "no memory for a text");
    for (; *s && *s != '"'; s++) {
        char c = *s;
        if (c == '\\' && s[1] == 'x' && hex_digit(s[2]) >= 0 && hex_digit(s[3]) >= 0) {
            c = (char)(hex_digit(s[2]) << 4 | hex_digit(s[3]));
            s += 3;
        } else if (c == '\\' && s[1]) {
            c = *++s;
        }
        out[count++] = c;
    }
    if (*s != '"') {
        free(out);
        return llama_fail(NIB_CORRUPT, "a quoted text does not end");
    }
    out[count] = '\0';
    *text = out;
    *bytes = count;
    *line = s + 1;
    return NIB_OK;
}

static nib_status parse_ids(const char *s, llama_tokens *ids)
{
    nib_status status = NIB_OK;
    char *end;
    for (long id = strtol(s, &end, 10); end != s && status == NIB_OK; id = strtol(s, &end, 10)) {
        status = llama_tokens_add(ids, (int32_t)id);
        s = end;
    }
    return status;
}

/* "id:logit" pairs up to the first word that is none; returns where that begins. */
static const char *parse_logits(const char *s, llama_step *step)
{
    while (step->count < LLAMA_STEP_LOGITS) {
        int used = 0;
        if (sscanf(s, " %" SCNd32 ":%lf%n", &step->ids[step->count], &step->logits[step->count],
                   &used) != 2)
            break;
        step->count++;
        s += used;
    }
    return s;
}

static nib_status parse_step(const char *s, llama_step *step)
{
    int used = 0;
    *step = (llama_step){0};
    if (sscanf(s, "%" SCNd32 " mean %lf top%n", &step->chosen, &step->mean, &used) != 2 || !used)
        return llama_fail(NIB_CORRUPT, "a step must read 'step <id> mean <mean> top <id>:<logit> "
                                       "... fixed <id>:<logit> ...'");
    s = parse_logits(s + used, step);
    step->top_count = step->count;
    if (step->top_count < 2 || strncmp(s, " fixed", 6))
        return llama_fail(NIB_CORRUPT, "a step must have two top logits and then fixed ones");
    parse_logits(s + 6, step);
    return NIB_OK;
}

static nib_status add_prompt(llama_reference *reference, const char *name)
{
    size_t bytes = ((size_t)reference->count + 1) * sizeof *reference->prompts;
    llama_reference_prompt *prompts = realloc(reference->prompts, bytes);
    if (!prompts)
        return llama_fail(NIB_NO_MEMORY, "no memory for a prompt");
    reference->prompts = prompts;
    prompts[reference->count] = (llama_reference_prompt){0};
    snprintf(prompts[reference->count++].name, sizeof prompts->name, "%.31s", name);
    return NIB_OK;
}

static nib_status add_step(llama_reference_prompt *prompt, const char *s)
{
    size_t bytes = ((size_t)prompt->step_count + 1) * sizeof *prompt->steps;
    llama_step *steps = realloc(prompt->steps, bytes);
    if (!steps)
        return llama_fail(NIB_NO_MEMORY, "no memory for a step");
    prompt->steps = steps;
    nib_status status = parse_step(s, &steps[prompt->step_count]);
    prompt->step_count += status == NIB_OK;
    return status;
}

static nib_status parse_line(llama_reference *reference, const char *line)
{
    if (*line == '#' || !*line)
        return NIB_OK;
    if (!strncmp(line, "prompt ", 7))
        return add_prompt(reference, line + 7);
    if (reference->count == 0)
        return llama_fail(NIB_CORRUPT, "a 'prompt' line must come first");
    llama_reference_prompt *prompt = &reference->prompts[reference->count - 1];
    if (!strncmp(line, "text ", 5) && !prompt->text) {
        line += 5;
        return llama_reference_unquote(&line, &prompt->text, &prompt->text_bytes);
    }
    if (!strncmp(line, "ids ", 4))
        return parse_ids(line + 4, &prompt->ids);
    if (!strncmp(line, "step ", 5))
        return add_step(prompt, line + 5);
    return llama_fail(NIB_CORRUPT, "a line must begin with prompt, text, ids, step or #");
}

nib_status llama_reference_load(const char *path, llama_reference *out)
{
    llama_reference reference = {0};
    nib_status status = NIB_OK;
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return llama_fail(NIB_MISSING, "%s cannot be read: %m", path);
    int64_t number = 0;
    while (status == NIB_OK && getline(&line, &capacity, file) >= 0) {
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        status = parse_line(&reference, line);
    }
    if (status != NIB_OK) {
        char reason[300];
        snprintf(reason, sizeof reason, "%s", llama_message());
        status = llama_fail(status, "%s, line %" PRId64 ": %s", path, number, reason);
    }
    for (int64_t i = 0; i < reference.count && status == NIB_OK; i++)
        if (!reference.prompts[i].text || !reference.prompts[i].ids.count)
            status = llama_fail(NIB_CORRUPT, "%s: prompt %s has no text or no ids", path,
                                reference.prompts[i].name);
    free(line);
    fclose(file);
    if (status == NIB_OK)
        *out = reference;
    else
        llama_reference_free(&reference);
    return status;
}

void llama_reference_free(llama_reference *reference)
{
    for (int64_t i = 0; i < reference->count; i++) {
        free(reference->prompts[i].text);
        free(reference->prompts[i].steps);
        llama_tokens_free(&reference->prompts[i].ids);
    }
    free(reference->prompts);
    *reference = (llama_reference){0};
}

static int64_t largest(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static double mean_of(const float *logits, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += logits[i];
    return sum / (double)count;
}

static nib_status compare_step(const llama_step *step, const float *logits, int64_t vocab,
                               double bound, llama_deviation *d)
{
    for (int32_t i = 0; i < step->count; i++) {
        if (step->ids[i] < 0 || step->ids[i] >= vocab)
            return llama_fail(NIB_INVALID,
                              "the reference names token %" PRId32 ", which this model lacks",
                              step->ids[i]);
        double difference = fabs((double)logits[step->ids[i]] - step->logits[i]);
        /* written so that a NaN counts as the largest difference */
        if (!(difference <= d->logit_max))
            d->logit_max = isnan(difference) ? INFINITY : difference;
        d->logit_square_sum += difference * difference;
        d->logit_count++;
    }
    double difference = fabs(mean_of(logits, vocab) - step->mean);
    if (!(difference <= d->mean_max))
        d->mean_max = isnan(difference) ? INFINITY : difference;
    if (largest(logits, vocab) != step->chosen) {
        double gap = step->logits[0] - step->logits[1];
        d->other_ids++;
        d->wrong_ids += gap > bound;
        d->wrong_gap = fmax(d->wrong_gap, gap);
    }
    d->steps++;
    return NIB_OK;
}

nib_status llama_reference_compare(llama_session *session, const llama_reference_prompt *prompt,
                                   double bound, llama_deviation *deviation)
{
    llama_session_reset(session);
    nib_status status = llama_session_eval(session, prompt->ids.ids, prompt->ids.count);
    for (int64_t i = 0; i < prompt->step_count && status == NIB_OK; i++) {
        const llama_step *step = &prompt->steps[i];
        status =
            compare_step(step, session->logits, session->model->params.vocab, bound, deviation);
        if (status == NIB_OK && i + 1 < prompt->step_count)
            status = llama_session_eval(session, &step->chosen, 1);
    }
    return status;
}

/* Ids of the TOP largest logits, largest first and lower ids first among equals. */
static int find_top(const float *logits, int64_t vocab, int32_t ids[TOP])
{
    int count = 0;
    for (int64_t i = 0; i < vocab; i++) {
        if (count == TOP && logits[i] <= logits[ids[TOP - 1]])
            continue;
        int at = count < TOP ? count++ : TOP - 1;
        for (; at > 0 && logits[ids[at - 1]] < logits[i]; at--)
            ids[at] = ids[at - 1];
        ids[at] = (int32_t)i;
    }
    return count;
}

void llama_reference_write_step(FILE *file, const float *logits, int64_t vocab, int32_t chosen)
{
    int32_t ids[TOP];
    int count = find_top(logits, vocab, ids);
    fprintf(file, "step %" PRId32 " mean %.6f top", chosen, mean_of(logits, vocab));
    for (int i = 0; i < count; i++)
        fprintf(file, " %" PRId32 ":%.6f", ids[i], (double)logits[ids[i]]);
    fprintf(file, " fixed");
    for (int64_t id = 17, i = 0; id < vocab && i < 16; id += 3001, i++)
        fprintf(file, " %" PRId64 ":%.6f", id, (double)logits[id]);
    fprintf(file, "\n");
}
