/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded text, fields of a line, whole numbers; and checked arithmetic.
 */
#include "base/text.h"

#include "base/checked.h"
#include "base/hash.h"

#include <criterion/criterion.h>
#include <string.h>

Test(text, counts_what_does_not_fit)
{
    for (size_t capacity = 0; capacity < 12; capacity++) {
        char out[16];
        size_t needed = 0;
        memset(out, '#', sizeof(out));
        nib_text text = nib_text_into(out, capacity);
        nib_text_add(&text, "abc%d", 12);
        nib_text_add(&text, "%s", "");
        nib_text_add(&text, "xyz");
        nib_text_end(&text, &needed);
        cr_expect_eq(needed, 9);
        cr_expect_eq(out[capacity], '#', "byte %zu is beyond the buffer", capacity);
        if (capacity)
            cr_expect(strlen(out) == (capacity < 9 ? capacity - 1 : 8) &&
                      !strncmp(out, "abc12xyz", strlen(out)));
    }
    nib_text none = nib_text_into(NULL, 10);
    nib_text_add(&none, "abc");
    nib_text_end(&none, NULL);
    cr_expect_eq(none.length, 3);
}

Test(text, fields_of_a_line)
{
    const char *line = "  a=1\tlong_key=x:y,z \n", *cursor = line;
    nib_field field;
    bool found;
    cr_assert_eq(nib_field_next(line, &cursor, &field, &found), NIB_OK);
    cr_expect(found && !strcmp(field.key, "a") && !strcmp(field.value, "1") && field.column == 3);
    cr_assert_eq(nib_field_next(line, &cursor, &field, &found), NIB_OK);
    cr_expect(found && !strcmp(field.key, "long_key") && !strcmp(field.value, "x:y,z"));
    cr_expect_eq(field.column, 7);
    cr_assert_eq(nib_field_next(line, &cursor, &field, &found), NIB_OK);
    cr_expect(!found);
}

Test(text, what_is_no_field_is_refused_with_its_column)
{
    static const struct {
        const char *line, *part;
    } bad[] = {
        {"word", "column 1: expected key=value"},
        {"  =x", "column 3: expected key=value"},
        {" a= b", "column 2: key 'a' has no usable value"},
        {"a=b=c", "column 1: key 'a' has no usable value"},
        {"a_key_of_more_than_thirty_one_characters=1", "column 1: expected key=value"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *cursor = bad[i].line;
        nib_field field;
        bool found;
        cr_expect_eq(nib_field_next(bad[i].line, &cursor, &field, &found), NIB_INVALID);
        cr_expect(strstr(nib_last_message(), bad[i].part), "'%s' lacks '%s'", nib_last_message(),
                  bad[i].part);
        cr_expect_eq(cursor, bad[i].line);
    }
}

Test(text, a_value_longer_than_a_field_is_refused)
{
    nib_field field;
    bool found;
    char line[sizeof(field.value) + 3] = "k=";
    memset(line + 2, 'a', sizeof(field.value));
    const char *cursor = line;
    cr_expect_eq(nib_field_next(line, &cursor, &field, &found), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "no usable value"));
    line[sizeof(field.value) + 1] = '\0'; /* one less fits */
    cr_expect_eq(nib_field_next(line, &cursor, &field, &found), NIB_OK);
}

Test(text, whole_numbers_and_nothing_else)
{
    int64_t value = 5;
    cr_expect(nib_parse_int("9223372036854775807", &value) && value == INT64_MAX);
    cr_expect(nib_parse_int("-9223372036854775808", &value) && value == INT64_MIN);
    cr_expect(nib_parse_int("007", &value) && value == 7);
    static const char *const bad[] = {"",     "-",   " 1",  "+1", "1 ",
                                      "0x10", "1e3", "--1", "1.", "9223372036854775808"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect(!nib_parse_int(bad[i], &value) && value == 7, "'%s'", bad[i]);
}

Test(checked, sizes_that_do_not_fit_are_noticed)
{
    size_t size = 3;
    int64_t extent = 3;
    cr_expect(nib_mul_size(SIZE_MAX / 2, 2, &size) && size == SIZE_MAX - 1);
    cr_expect(!nib_mul_size(SIZE_MAX / 2 + 1, 2, &size) && size == SIZE_MAX - 1);
    cr_expect(nib_add_size(SIZE_MAX - 1, 1, &size) && size == SIZE_MAX);
    cr_expect(!nib_add_size(SIZE_MAX, 1, &size) && size == SIZE_MAX);
    cr_expect(nib_mul_extent(INT64_MAX, 1, &extent) && extent == INT64_MAX);
    cr_expect(!nib_mul_extent(INT64_C(1) << 32, INT64_C(1) << 31, &extent));
    cr_expect(!nib_mul_extent(-1, 2, &extent) && !nib_mul_extent(2, -1, &extent));
    cr_expect_eq(extent, INT64_MAX);
    cr_expect(nib_ceil_div(0, 7) == 0 && nib_ceil_div(1, 7) == 1 && nib_ceil_div(14, 7) == 2);
    cr_expect_eq(nib_ceil_div(INT64_MAX, 2), INT64_MAX / 2 + 1);
    cr_expect(nib_round_up(0, 64) == 0 && nib_round_up(65, 64) == 128);
}

Test(hash, is_xxh3_of_64_bits)
{
    cr_expect_eq(nib_hash("", 0), UINT64_C(0x2d06800538d394c2), "the value XXH3 publishes");
    cr_expect_eq(nib_hash_text("nibblas"), nib_hash("nibblas", 7));
    cr_expect_neq(nib_hash_text("a"), nib_hash_text("b"));
}
