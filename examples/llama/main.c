/* SPDX-License-Identifier: Apache-2.0
 *
 * nib-llama: a small language-model runner on nibblas. This file turns options into one of three
 * actions and statuses into exit codes; run.c does the work, options.c knows the command line.
 */
#include "error.h"
#include "options.h"
#include "synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DIFFERS = 3 };

#define MAX_PROMPT_BYTES ((size_t)1 << 24)

static int fail(int code)
{
    fflush(stdout);
    fprintf(stderr, "nib-llama: %s\n", llama_message());
    return code;
}

/* Must come before nibblas starts: its CPU backend counts its threads once. */
static void set_threads(int64_t threads)
{
    char text[24];
    if (threads == 0)
        return;
    snprintf(text, sizeof text, "%lld", (long long)threads);
    setenv("OMP_NUM_THREADS", text, 1);
}

/* Standard input to its end, NUL-terminated. */
static nib_status read_prompt(char **out)
{
    size_t count = 0, capacity = 4096;
    char *text = malloc(capacity);
    while (text && count < MAX_PROMPT_BYTES) {
        count += fread(text + count, 1, capacity - 1 - count, stdin);
        if (count < capacity - 1)
            break;
        char *larger = realloc(text, capacity *= 2);
        if (!larger)
            free(text);
        text = larger;
    }
    if (!text)
        return llama_fail(NIB_NO_MEMORY, "no memory for the prompt");
    text[count] = '\0';
    if (count < MAX_PROMPT_BYTES && strlen(text) == count) {
        *out = text;
        return NIB_OK;
    }
    free(text);
    return llama_fail(NIB_INVALID, "standard input must be text of at most %zu bytes without NUL",
                      MAX_PROMPT_BYTES);
}

static nib_status write_synthetic(const char *path)
{
    llama_synthetic synthetic = llama_synthetic_default();
    return llama_synthetic_write(&synthetic, path);
}

/* Through a temporary file, which needs no name once it is mapped. */
static nib_status open_synthetic(const llama_options *options, llama_model **out)
{
    char path[512];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/nib-llama-XXXXXX", folder && *folder ? folder : "/tmp");
    int handle = mkstemp(path);
    if (handle < 0)
        return llama_fail(NIB_MISSING, "%s cannot be made: %m", path);
    close(handle);
    nib_status status = write_synthetic(path);
    if (status == NIB_OK)
        status = llama_model_open(path, &options->engine, out);
    unlink(path);
    return status;
}

static int with_model(llama_model *model, llama_options *options)
{
    bool agrees = true;
    char *prompt = NULL;
    nib_status status = NIB_OK;
    if (options->teacher) {
        status = llama_run_teacher(model, options, &agrees);
    } else {
        if (!strcmp(options->prompt, "-") && (status = read_prompt(&prompt)) == NIB_OK)
            options->prompt = prompt;
        if (status == NIB_OK)
            status = llama_run_generate(model, options);
    }
    free(prompt);
    if (status != NIB_OK)
        return fail(EXIT_FAILED);
    return agrees ? EXIT_DONE : EXIT_DIFFERS;
}

int main(int argc, char **argv)
{
    llama_options options;
    llama_intent intent;
    if (llama_options_parse(argc, argv, &options, &intent) != NIB_OK) {
        fail(EXIT_USAGE);
        fprintf(stderr, "nib-llama: 'nib-llama --help' lists all options\n");
        return EXIT_USAGE;
    }
    if (intent == LLAMA_INTENT_HELP) {
        fputs(llama_usage, stdout);
        return EXIT_DONE;
    }
    if (intent == LLAMA_INTENT_VERSION) {
        printf("nib-llama, nibblas %s\n", nib_version());
        return EXIT_DONE;
    }
    if (options.write_synthetic)
        return write_synthetic(options.write_synthetic) == NIB_OK ? EXIT_DONE : fail(EXIT_FAILED);
    set_threads(options.threads);
    llama_model *model;
    nib_status status = options.synthetic
                            ? open_synthetic(&options, &model)
                            : llama_model_open(options.model, &options.engine, &model);
    if (status != NIB_OK)
        return fail(EXIT_FAILED);
    int code = with_model(model, &options);
    llama_model_close(model);
    return code;
}
