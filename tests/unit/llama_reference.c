/* SPDX-License-Identifier: Apache-2.0
 *
 * nib-llama against llama.cpp on SmolLM2-135M-Instruct: tokens, logits, greedy choices, and the
 * memory of a loaded model. tests/golden/llama says how the reference was made. Without the model,
 * which ci/model fetches, all of these tests are skipped and say so.
 */
#include "llama/chat.h"
#include "llama/error.h"
#include "llama/reference.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN NIB_SOURCE_DIR "/tests/golden/llama/"

/* Stated in examples/llama/README.md, with what was measured. */
static const double f32_cache_bound = 0.0005;
static const double f16_cache_bound = 0.05;

/* NIB_TEST_MODEL, or where ci/model puts it; NULL: skipped. */
static const char *model_path(void)
{
    static const char usual[] = NIB_BINARY_DIR "/../models/SmolLM2-135M-Instruct.Q4_1.gguf";
    const char *path = getenv("NIB_TEST_MODEL");
    if (!path || !*path)
        path = usual;
    if (!access(path, R_OK))
        return path;
    fprintf(stderr,
            "SKIPPED: no model at %s; run ci/model, or name the GGUF file in NIB_TEST_MODEL\n",
            path);
    return NULL;
}

static llama_model *open_model(const char *path)
{
    llama_engine_options options = {.device = "cpu", .act_type = NIB_F32};
    llama_model *model = NULL;
    cr_assert_eq(llama_model_open(path, &options, &model), NIB_OK, "%s", llama_message());
    return model;
}

static void expect_tokens(const llama_tokenizer *tokenizer, const char *line)
{
    char *text;
    size_t bytes;
    bool special = !strncmp(line, "special ", 8);
    const char *at = line + (special ? 8 : 6);
    llama_tokens ids = {0};
    cr_assert_eq(llama_reference_unquote(&at, &text, &bytes), NIB_OK, "%s", line);
    cr_assert_eq(llama_tokenizer_encode(tokenizer, text, bytes, special, &ids), NIB_OK);
    char *end;
    int64_t count = 0;
    for (long id = strtol(at, &end, 10); end != at; id = strtol(at, &end, 10), count++) {
        cr_expect(count < ids.count && ids.ids[count] == id, "token %" PRId64 " of %s", count,
                  line);
        at = end;
    }
    cr_expect_eq(count, ids.count, "%s", line);
    llama_tokens_free(&ids);
    free(text);
}

Test(llama_reference, tokens_equal_llama_cpp)
{
    const char *path = model_path();
    if (!path)
        cr_skip_test("no model");
    nib_file *model;
    llama_tokenizer *tokenizer;
    char line[2048];
    int64_t lines = 0;
    cr_assert_eq(nib_file_open(path, &model), NIB_OK);
    cr_assert_eq(llama_tokenizer_create(model, &tokenizer), NIB_OK, "%s", llama_message());
    FILE *file = fopen(GOLDEN "tokens.txt", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line == '#')
            continue;
        expect_tokens(tokenizer, line);
        lines++;
    }
    fclose(file);
    cr_expect_gt(lines, 70);
    llama_tokenizer_destroy(tokenizer);
    nib_file_close(model);
}

Test(llama_reference, prompts_and_chat_give_the_same_tokens)
{
    const char *path = model_path();
    if (!path)
        cr_skip_test("no model");
    llama_reference reference;
    llama_model *model = open_model(path);
    cr_assert_eq(llama_reference_load(GOLDEN "logits.txt", &reference), NIB_OK, "%s",
                 llama_message());
    cr_assert_eq(reference.count, 5);
    for (int64_t i = 0; i < reference.count; i++) {
        const llama_reference_prompt *prompt = &reference.prompts[i];
        llama_tokens ids = {0};
        cr_assert_eq(
            llama_tokenizer_encode(model->tokenizer, prompt->text, prompt->text_bytes, true, &ids),
            NIB_OK);
        cr_expect(ids.count == prompt->ids.count &&
                      !memcmp(ids.ids, prompt->ids.ids, (size_t)ids.count * sizeof *ids.ids),
                  "%s", prompt->name);
        llama_tokens_free(&ids);
    }
    llama_chat chat;
    llama_tokens ids = {0};
    const llama_tokens *wanted = &reference.prompts[1].ids;
    cr_assert_eq(llama_chat_detect(model->file, model->tokenizer, &chat), NIB_OK);
    cr_assert(chat.understood, "%s", chat.reason);
    cr_assert_eq(
        llama_chat_encode(&chat, model->tokenizer, NULL, "What is gravity? Answer briefly.", &ids),
        NIB_OK);
    cr_expect(ids.count == wanted->count &&
              !memcmp(ids.ids, wanted->ids, (size_t)ids.count * sizeof *ids.ids));
    llama_tokens_free(&ids);
    llama_reference_free(&reference);
    llama_model_close(model);
}

/* All prompts, all steps; the greedy choice must be the reference's wherever its first two logits
 * are further apart than the bound. */
static void expect_logits(nib_type cache_type, double bound)
{
    const char *path = model_path();
    if (!path)
        cr_skip_test("no model");
    llama_reference reference;
    llama_deviation d = {0};
    llama_model *model = open_model(path);
    llama_session_options options = {.context = 512, .cache_type = cache_type};
    llama_session *session;
    cr_assert_eq(llama_reference_load(GOLDEN "logits.txt", &reference), NIB_OK, "%s",
                 llama_message());
    cr_assert_eq(llama_session_create(model, &options, &session), NIB_OK, "%s", llama_message());
    for (int64_t i = 0; i < reference.count; i++)
        cr_assert_eq(llama_reference_compare(session, &reference.prompts[i], bound, &d), NIB_OK,
                     "%s", llama_message());
    fprintf(stderr,
            "%s cache: %" PRId64 " steps, largest logit difference %.6f, rms %.6f, largest mean "
            "difference %.6f; %" PRId64 " other choices, reference gap there at most %.6f\n",
            nib_type_name(cache_type), d.steps, d.logit_max,
            sqrt(d.logit_square_sum / (double)d.logit_count), d.mean_max, d.other_ids, d.wrong_gap);
    cr_expect_eq(d.steps, 5 * 64);
    cr_expect_leq(d.logit_max, bound);
    cr_expect_leq(d.mean_max, bound);
    cr_expect_eq(d.wrong_ids, 0);
    llama_session_destroy(session);
    llama_reference_free(&reference);
    llama_model_close(model);
}

Test(llama_reference, logits_agree_with_llama_cpp_with_an_f32_cache)
{
    expect_logits(NIB_F32, f32_cache_bound);
}

Test(llama_reference, logits_agree_with_llama_cpp_with_an_f16_cache)
{
    expect_logits(NIB_F16, f16_cache_bound);
}

/* The sanitizer's own memory would be counted. */
#if !defined(__SANITIZE_ADDRESS__)
/* A line of /proc/self/status in bytes. */
static int64_t process_bytes(const char *key)
{
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)))
            sscanf(line + strlen(key), ": %lld", &kib);
    fclose(file);
    cr_assert_geq(kib, 0);
    return kib * 1024;
}

Test(llama_reference, loading_takes_the_file_the_packed_weights_and_little_more)
{
    const char *path = model_path();
    if (!path)
        cr_skip_test("no model");
    int64_t before = process_bytes("VmRSS");
    llama_model *model = open_model(path);
    int64_t more =
        process_bytes("VmHWM") - before - (int64_t)model->file_bytes - (int64_t)model->packed_bytes;
    fprintf(stderr, "peak while loading: %.1f MB beyond file and packed weights\n",
            (double)more / 1e6);
    cr_expect_leq(more, 64 << 20);
    llama_model_close(model);
}
#endif
