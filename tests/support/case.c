/* SPDX-License-Identifier: Apache-2.0
 *
 * Case lines: the keys beyond a gemm description, and {lists}. See problem.h.
 */
#include "base/text.h"
#include "support/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const data_names[] = {
    [TEST_NORMAL] = "normal",       [TEST_ONES] = "ones",
    [TEST_ONEHOT] = "onehot",       [TEST_POSITIVE] = "positive",
    [TEST_EXTREME] = "extreme",     [TEST_TINY] = "tiny",
    [TEST_HUGE] = "huge",           [TEST_OUTLIER] = "outlier",
    [TEST_ALL_CODES] = "all_codes", [TEST_ALL_SCALES] = "all_scales",
    [TEST_NAN_SCALE] = "nan_scale", [TEST_INF_SCALE] = "inf_scale",
    [TEST_NAN_ZERO] = "nan_zero",   [TEST_NAN_ACT] = "nan_act",
    [TEST_INF_ACT] = "inf_act",     [TEST_NAN_BIAS] = "nan_bias",
    [TEST_INF_BIAS] = "inf_bias",   [TEST_G_IDX_OUT] = "g_idx_out",
};
enum { DATA_NAMES = sizeof(data_names) / sizeof(data_names[0]) };

static nib_status bad(const nib_field *field, const char *expected)
{
    return nib_fail(NIB_INVALID, "column %d: %s=%s, expected %s", field->column, field->key,
                    field->value, expected);
}

static nib_status take_number(const nib_field *field, int64_t least, int64_t *out)
{
    const char *text = field->value[0] == '+' ? field->value + 1 : field->value;
    if (!nib_parse_int(text, out) || *out < least)
        return bad(field, "a whole number, not that small");
    return NIB_OK;
}

static nib_status take_data(const nib_field *field, test_data *out)
{
    for (int i = 0; i < DATA_NAMES; i++)
        if (!strcmp(field->value, data_names[i])) {
            *out = (test_data)i;
            return NIB_OK;
        }
    return bad(field, "normal, ones, onehot, ... (tests/README.md)");
}

static nib_status take_expect(const nib_field *field, test_case *given)
{
    if (!strcmp(field->value, "ok"))
        given->expect = NIB_OK;
    else if (!strcmp(field->value, "invalid"))
        given->expect = NIB_INVALID;
    else if (!strcmp(field->value, "unsupported"))
        given->expect = NIB_UNSUPPORTED;
    else if (!strcmp(field->value, "ok_or_skip"))
        given->skip_invalid = true;
    else
        return bad(field, "ok, ok_or_skip, invalid or unsupported");
    return NIB_OK;
}

static nib_status take_field(const nib_field *field, test_case *given, bool *taken)
{
    int64_t number;
    nib_status status;
    char *end;
    *taken = true;
    if (!strcmp(field->key, "m"))
        return take_number(field, 0, &given->m);
    if (!strcmp(field->key, "lda"))
        return take_number(field, 0, &given->lda_more);
    if (!strcmp(field->key, "ldo"))
        return take_number(field, 0, &given->ldo_more);
    if (!strcmp(field->key, "align"))
        return take_number(field, 0, &given->align);
    if (!strcmp(field->key, "data"))
        return take_data(field, &given->data);
    if (!strcmp(field->key, "expect"))
        return take_expect(field, given);
    if (!strcmp(field->key, "seed")) {
        status = take_number(field, 0, &number);
        given->seed = (uint64_t)number;
        return status;
    }
    if (!strcmp(field->key, "alpha")) {
        given->alpha = strtof(field->value, &end);
        return *end ? bad(field, "a number") : NIB_OK;
    }
    *taken = false;
    return NIB_OK;
}

nib_status test_case_parse(const char *line, test_case *out)
{
    test_case given = {.m = 1, .seed = 1, .alpha = 1};
    char rest[TEST_LINE_BYTES];
    nib_text gemm = nib_text_into(rest, sizeof(rest));
    for (const char *cursor = line;;) {
        nib_field field;
        bool found, taken;
        nib_status status = nib_field_next(line, &cursor, &field, &found);
        if (!status && !found)
            break;
        if (!status)
            status = take_field(&field, &given, &taken);
        if (status)
            return status;
        if (!taken)
            nib_text_add(&gemm, "%s%s=%s", gemm.length ? " " : "", field.key, field.value);
    }
    if (gemm.length >= sizeof(rest))
        return nib_fail(NIB_INVALID, "the line is longer than %zu bytes", sizeof(rest));
    given.desc_status = nib_gemm_desc_parse(rest, &given.desc);
    *out = given;
    return NIB_OK;
}

/* One alternative in place of the list at [from, to]. */
static nib_status expand_one(const char *line, const char *from, const char *to, const char *item,
                             size_t length, test_line_fn use, void *user)
{
    char text[TEST_LINE_BYTES];
    int wrote = snprintf(text, sizeof(text), "%.*s%.*s%s", (int)(from - line), line, (int)length,
                         item, to + 1);
    if (wrote < 0 || (size_t)wrote >= sizeof(text))
        return nib_fail(NIB_INVALID, "the line is longer than %zu bytes", sizeof(text));
    return test_line_expand(text, use, user);
}

/* "3..9" as its numbers; `ranged` is false for anything else. */
static nib_status expand_range(const char *line, const char *from, const char *to, const char *item,
                               size_t length, test_line_fn use, void *user, bool *ranged)
{
    char *end;
    long low = strtol(item, &end, 10);
    *ranged = end != item && !strncmp(end, "..", 2);
    if (!*ranged)
        return NIB_OK;
    long high = strtol(end + 2, &end, 10);
    if (end != item + length)
        return nib_fail(NIB_INVALID, "'%.*s' is no range such as 3..9", (int)length, item);
    nib_status status = NIB_OK;
    for (long i = low; i <= high && !status; i++) {
        char number[24];
        int digits = snprintf(number, sizeof(number), "%ld", i);
        status = expand_one(line, from, to, number, (size_t)digits, use, user);
    }
    return status;
}

nib_status test_line_expand(const char *line, test_line_fn use, void *user)
{
    const char *from = strchr(line, '{');
    if (!from)
        return use(user, line);
    const char *to = strchr(from, '}');
    if (!to)
        return nib_fail(NIB_INVALID, "column %d: '{' without '}'", (int)(from - line) + 1);
    for (const char *item = from + 1;;) {
        size_t length = strcspn(item, ",}");
        bool ranged;
        nib_status status = expand_range(line, from, to, item, length, use, user, &ranged);
        if (!status && !ranged)
            status = expand_one(line, from, to, item, length, use, user);
        if (status || item + length == to)
            return status;
        item += length + 1;
    }
}
