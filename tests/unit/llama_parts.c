/* SPDX-License-Identifier: Apache-2.0
 *
 * nib-llama's parts that need no model: words, byte pairs, 16-bit floats, sampling, blocks, the
 * command line and reference files.
 */
#include "llama/blocks.h"
#include "llama/bpe.h"
#include "llama/error.h"
#include "llama/half.h"
#include "llama/options.h"
#include "llama/reference.h"
#include "llama/sample.h"
#include "llama/split.h"
#include "llama/unicode.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The words of a text, joined by "|". */
static void expect_words(const char *text, bool digits_separate, const char *words)
{
    llama_split split = {.text = text, .bytes = strlen(text), .digits_separate = digits_separate};
    char joined[256] = "";
    const char *word;
    size_t length;
    while (llama_split_next(&split, &word, &length)) {
        cr_assert_gt(length, 0);
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%.*s",
                 *joined ? "|" : "", (int)length, word);
    }
    cr_expect_str_eq(joined, words);
}

Test(llama_split, follows_the_gpt2_pattern)
{
    expect_words("Hello, world!", false, "Hello|,| world|!");
    expect_words("don't they'll 's", false, "don|'t| they|'ll| '|s");
    expect_words("a  b   c  ", false, "a| | b|  | c|  ");
    expect_words("x\n\ny \n", false, "x|\n|\n|y| \n");
    expect_words("abc123 456", false, "abc|123| 456");
    expect_words("caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82", false,
                 "caf\xc3\xa9| \xe4\xbd\xa0\xe5\xa5\xbd|\xe3\x80\x82");
    expect_words("", false, "");
}

Test(llama_split, separates_digits_for_smollm)
{
    expect_words("abc123 456", true, "abc|1|2|3| |4|5|6");
    expect_words("v2.0  7", true, "v|2|.|0|  |7");
    expect_words("\xc2\xbd x", true, "\xc2\xbd| x");
}

Test(llama_split, takes_broken_utf8_byte_by_byte)
{
    expect_words("a\xff\xfe b", false, "a|\xff\xfe| b");
    expect_words("\xc3", true, "\xc3");
    expect_words("\xf0\x9f\x91", true, "\xf0\x9f\x91");
}

Test(llama_unicode, refuses_overlong_forms_and_surrogates)
{
    static const char *const bad[] = {"\xc0\x80",         "\xe0\x80\x80",         "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t taken = 0;
        cr_expect_eq(llama_utf8_decode(bad[i], strlen(bad[i]), &taken), LLAMA_BAD_CODE_POINT);
        cr_expect_eq(taken, 1);
    }
    size_t taken;
    cr_expect_eq(llama_utf8_decode("\xf0\x9f\x91\x8d", 4, &taken), 0x1f44d);
    cr_expect_eq(taken, 4);
}

Test(llama_unicode, knows_classes_at_the_ends_of_their_ranges)
{
    static const struct {
        uint32_t code_point;
        llama_class kind;
    } rows[] = {{'@', LLAMA_OTHER},     {'A', LLAMA_LETTER},     {'Z', LLAMA_LETTER},
                {'[', LLAMA_OTHER},     {'0', LLAMA_NUMBER},     {'9', LLAMA_NUMBER},
                {0xaa, LLAMA_LETTER},   {0xb2, LLAMA_NUMBER},    {0xd7, LLAMA_OTHER},
                {0x2028, LLAMA_SPACE},  {0x3000, LLAMA_SPACE},   {0x200b, LLAMA_OTHER},
                {0x4e00, LLAMA_LETTER}, {0x1d7ff, LLAMA_NUMBER}, {0x3134a, LLAMA_LETTER},
                {0x301, LLAMA_OTHER},   {0x10ffff, LLAMA_OTHER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(llama_unicode_class(rows[i].code_point), rows[i].kind, "U+%04X",
                     (unsigned)rows[i].code_point);
}

Test(llama_bpe, merges_by_rank_and_from_the_left)
{
    /* tokens 0..2 are a b c; 3 = aa, 4 = ab, 5 = aab */
    llama_merges merges;
    cr_assert_eq(llama_merges_create(3, &merges), NIB_OK);
    llama_merges_add(&merges, (llama_merge){0, 0, 1, 3});
    llama_merges_add(&merges, (llama_merge){0, 1, 0, 4});
    llama_merges_add(&merges, (llama_merge){0, 4, 2, 5});
    const struct {
        int32_t in[6], count, out[6], out_count;
    } rows[] = {{{0, 0, 0}, 3, {3, 0}, 2},         {{0, 0, 1}, 3, {5}, 1},
                {{0, 0, 0, 1}, 4, {3, 4}, 2},      {{2, -1, 0, 1}, 4, {2, 4}, 2},
                {{0, -1, 1}, 3, {0, 1}, 2},        {{-1}, 1, {0}, 0},
                {{0, 0, 0, 0, 0}, 5, {3, 3, 0}, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        llama_tokens out = {0};
        cr_assert_eq(llama_bpe_word(&merges, rows[i].in, rows[i].count, &out), NIB_OK);
        cr_expect_eq(out.count, rows[i].out_count, "row %zu", i);
        for (int64_t j = 0; j < out.count && j < rows[i].out_count; j++)
            cr_expect_eq(out.ids[j], rows[i].out[j], "row %zu", i);
        llama_tokens_free(&out);
    }
    llama_merges_free(&merges);
}

Test(llama_half, is_the_inverse_on_every_half)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float value = llama_half_to_float((uint16_t)h);
        if (isnan(value)) {
            cr_expect_gt(h & 0x7fff, 0x7c00);
            continue;
        }
        int exponent = h >> 10 & 31;
        double magnitude = exponent == 31 ? INFINITY
                           : exponent     ? ldexp(1024 + (h & 0x3ff), exponent - 25)
                                          : ldexp(h & 0x3ff, -24);
        cr_expect_eq(fabs(value), magnitude, "%04x", (unsigned)h);
        cr_expect_eq(llama_half_from_float(value), h, "%04x", (unsigned)h);
    }
}

Test(llama_half, rounds_to_nearest_even)
{
    cr_expect_eq(llama_half_from_float(1 + 0x1p-11f), 0x3c00);
    cr_expect_eq(llama_half_from_float(1 + 3 * 0x1p-11f), 0x3c02);
    cr_expect_eq(llama_half_from_float(0x1p-25f), 0);
    cr_expect_eq(llama_half_from_float(0x1.8p-24f), 2);
    cr_expect_eq(llama_half_from_float(65519), 0x7bff);
    cr_expect_eq(llama_half_from_float(-65520), 0xfc00);
    cr_expect_eq(llama_bf16_from_float(1 + 0x1p-8f), 0x3f80);
    cr_expect_eq(llama_bf16_from_float(1 + 3 * 0x1p-8f), 0x3f82);
}

Test(llama_sample, is_greedy_at_temperature_zero_and_prefers_lower_ids)
{
    llama_sampler sampler;
    float logits[4] = {1, 3, 3, -INFINITY};
    int32_t id = -1;
    cr_assert_eq(llama_sampler_create(0, 1, 1, 4, &sampler), NIB_OK);
    cr_expect_eq(llama_sample(&sampler, logits, &id), NIB_OK);
    cr_expect_eq(id, 1);
    llama_sampler_free(&sampler);
}

Test(llama_sample, draws_by_probability_within_the_nucleus)
{
    llama_sampler sampler;
    float logits[4] = {logf(0.5f), logf(0.3f), logf(0.15f), logf(0.05f)};
    int64_t seen[4] = {0}, draws = 20000;
    cr_assert_eq(llama_sampler_create(1, 0.79, 42, 4, &sampler), NIB_OK);
    for (int64_t i = 0; i < draws; i++) {
        int32_t id;
        cr_assert_eq(llama_sample(&sampler, logits, &id), NIB_OK);
        seen[id]++;
    }
    /* 0.5 and 0.3 hold 0.8; five standard deviations are 0.017 */
    cr_expect_eq(seen[2] + seen[3], 0);
    cr_expect_float_eq((double)seen[0] / (double)draws, 0.625, 0.02);
    llama_sampler_free(&sampler);
}

Test(llama_sample, repeats_itself_from_the_same_seed)
{
    llama_sampler a, b;
    float logits[64];
    for (int i = 0; i < 64; i++)
        logits[i] = sinf((float)i);
    cr_assert_eq(llama_sampler_create(1.3, 0.9, 7, 64, &a), NIB_OK);
    cr_assert_eq(llama_sampler_create(1.3, 0.9, 7, 64, &b), NIB_OK);
    for (int i = 0; i < 100; i++) {
        int32_t x, y;
        cr_assert_eq(llama_sample(&a, logits, &x), NIB_OK);
        cr_assert_eq(llama_sample(&b, logits, &y), NIB_OK);
        cr_expect_eq(x, y);
    }
    llama_sampler_free(&a);
    llama_sampler_free(&b);
}

Test(llama_sample, refuses_nonsense)
{
    llama_sampler sampler;
    cr_expect_eq(llama_sampler_create(-1, 1, 1, 4, &sampler), NIB_INVALID);
    cr_expect_eq(llama_sampler_create(NAN, 1, 1, 4, &sampler), NIB_INVALID);
    cr_expect_eq(llama_sampler_create(1, 0, 1, 4, &sampler), NIB_INVALID);
    cr_assert_eq(llama_sampler_create(1, 1, 1, 4, &sampler), NIB_OK);
    float broken[4] = {1, 2, NAN, 3};
    int32_t id = -7;
    cr_expect_eq(llama_sample(&sampler, broken, &id), NIB_CORRUPT);
    cr_expect(strstr(llama_message(), "token 2"), "%s", llama_message());
    cr_expect_eq(id, -7);
    llama_sampler_free(&sampler);
}

Test(llama_options, reads_a_command_line)
{
    char *argv[] = {"nib-llama", "-m",     "x.gguf", "-p",        "hi",     "-n",
                    "7",         "--temp", "0.5",    "--kv",      "f32",    "--act",
                    "i8dyn",     "--seed", "9",      "--no-chat", "--json", NULL};
    llama_options o;
    llama_intent intent;
    cr_assert_eq(llama_options_parse(17, argv, &o, &intent), NIB_OK, "%s", llama_message());
    cr_expect_str_eq(o.model, "x.gguf");
    cr_expect_eq(o.tokens, 7);
    cr_expect_eq(o.temperature, 0.5);
    cr_expect_eq(o.cache_type, NIB_F32);
    cr_expect(o.engine.act_dynamic_i8 && o.engine.act_type == NIB_F32);
    cr_expect_eq(o.seed, 9);
    cr_expect_eq(o.chat, LLAMA_CHAT_OFF);
    cr_expect(o.json && intent == LLAMA_INTENT_RUN);
}

Test(llama_options, refuses_with_a_sentence)
{
    static const struct {
        const char *option, *value, *part;
    } rows[] = {{"-n", "0", "-n '0': must be a whole number within 1.."},
                {"-n", "9x", "must be a whole number"},
                {"--temp", "hot", "--temp 'hot': must be a number"},
                {"--temp", "-1", "within 0..100"},
                {"--top-p", "nan", "above 0"},
                {"--act", "e4m3", "must be f32, f16, bf16 or i8dyn"},
                {"--kv", "i8", "must be f16 or f32"},
                {"--batch", "257", "1..256"},
                {"--bogus", "1", "--bogus is no option"},
                {"more", "words", "goes after -p"},
                {"--synthetic", "--json", "two models"},
                {"--seed", NULL, "--seed needs a value"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *argv[] = {"nib-llama",
                        "-m",
                        "x",
                        "-p",
                        "y",
                        (char *)(uintptr_t)rows[i].option,
                        (char *)(uintptr_t)rows[i].value,
                        NULL};
        llama_options o;
        llama_intent intent;
        cr_expect_eq(llama_options_parse(rows[i].value ? 7 : 6, argv, &o, &intent), NIB_INVALID);
        cr_expect(strstr(llama_message(), rows[i].part), "%s", llama_message());
    }
}

Test(llama_options, help_fits_eighty_columns)
{
    for (const char *line = llama_usage; *line; line += strcspn(line, "\n") + 1)
        cr_expect_leq(strcspn(line, "\n"), 80, "%.100s", line);
}

Test(llama_reference, texts_are_quoted_and_back)
{
    const char *line = "  \"a\\\"b\\\\c\\x0a\\xff\" 1 2";
    char *text;
    size_t bytes;
    cr_assert_eq(llama_reference_unquote(&line, &text, &bytes), NIB_OK);
    cr_expect_eq(bytes, 7);
    cr_expect(!memcmp(text, "a\"b\\c\n\xff", 8));
    cr_expect_str_eq(line, " 1 2");
    free(text);
    line = "\"open";
    cr_expect_eq(llama_reference_unquote(&line, &text, &bytes), NIB_CORRUPT);
}

Test(llama_reference, broken_files_are_refused_with_the_line)
{
    static const struct {
        const char *content, *part;
    } rows[] = {
        {"step 1 mean 0 top 1:2 2:1 fixed 3:0\n", "line 1: a 'prompt' line must come first"},
        {"prompt a\ntext \"x\nids 1\n", "line 2: a quoted text does not end"},
        {"prompt a\ntext \"x\"\nids 1\nstep x\n", "line 4: a step must read"},
        {"prompt a\ntext \"x\"\nids 1\nstep 1 mean 0 top 1:2 fixed 1:2\n", "two top logits"},
        {"prompt a\nids 1\n", "prompt a has no text"},
        {"prompt a\nwhat\n", "line 2: a line must begin with"}};
    char path[] = "/tmp/nib-llama-reference-XXXXXX";
    int handle = mkstemp(path);
    cr_assert_geq(handle, 0);
    close(handle);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        llama_reference reference;
        FILE *file = fopen(path, "w");
        fputs(rows[i].content, file);
        fclose(file);
        cr_expect_eq(llama_reference_load(path, &reference), NIB_CORRUPT);
        cr_expect(strstr(llama_message(), rows[i].part), "%s", llama_message());
    }
    unlink(path);
}
