/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs of older and newer callers, read and written.
 */
#include "base/struct.h"

#include <criterion/criterion.h>
#include <string.h>

/* The library's idea of a struct, the one before it and the one after it. */
typedef struct now {
    uint32_t size, a;
    uint64_t b;
} now;
typedef struct before {
    uint32_t size, a;
} before;
typedef struct after {
    now now;
    uint64_t c;
} after;

Test(versioned_struct, the_same_version_reads_whole)
{
    now from = {sizeof(now), 1, 2}, to = {0};
    cr_assert_eq(nib_struct_read(&to, sizeof(to), &from, sizeof(before), "now"), NIB_OK);
    cr_expect(to.size == sizeof(now) && to.a == 1 && to.b == 2);
    cr_assert_eq(nib_struct_read(&from, sizeof(from), &from, sizeof(before), "now"), NIB_OK,
                 "reading in place");
    cr_expect(from.a == 1 && from.b == 2);
}

Test(versioned_struct, an_older_one_reads_with_zeros)
{
    before from = {sizeof(before), 1};
    now to = {9, 9, 9};
    cr_assert_eq(nib_struct_read(&to, sizeof(to), &from, sizeof(before), "now"), NIB_OK);
    cr_expect(to.size == sizeof(now) && to.a == 1 && to.b == 0);
}

Test(versioned_struct, a_newer_one_reads_while_its_news_are_zero)
{
    after from = {{sizeof(after), 1, 2}, 0};
    now to = {0};
    cr_assert_eq(nib_struct_read(&to, sizeof(to), &from, sizeof(before), "now"), NIB_OK);
    cr_expect(to.size == sizeof(now) && to.a == 1 && to.b == 2);
    from.c = 1;
    to.a = 7;
    cr_expect_eq(nib_struct_read(&to, sizeof(to), &from, sizeof(before), "now"), NIB_UNSUPPORTED);
    cr_expect_eq(to.a, 7);
    cr_expect(strstr(nib_last_message(), "now uses a field at byte 16"));
}

Test(versioned_struct, one_without_a_size_is_refused)
{
    now from = {0, 1, 2}, to = {0};
    cr_expect_eq(nib_struct_read(&to, sizeof(to), &from, sizeof(before), "now"), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "set it to sizeof(now)"));
    cr_expect_eq(nib_struct_read(&to, sizeof(to), NULL, sizeof(before), "now"), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "now is NULL"));
}

Test(versioned_struct, writing_fills_what_the_caller_has)
{
    now from = {sizeof(now), 1, 2};
    after newer = {{sizeof(after), 9, 9}, 9};
    cr_assert_eq(nib_struct_write(&newer, &from, sizeof(from), sizeof(before), "now"), NIB_OK);
    cr_expect(newer.now.size == sizeof(after) && newer.now.a == 1 && newer.now.b == 2);
    cr_expect_eq(newer.c, 0);
    struct {
        before old;
        uint64_t guard;
    } older = {{sizeof(before), 9}, 77};
    cr_assert_eq(nib_struct_write(&older, &from, sizeof(from), sizeof(before), "now"), NIB_OK);
    cr_expect(older.old.size == sizeof(before) && older.old.a == 1 && older.guard == 77);
    older.old.size = 4;
    older.old.a = 5;
    cr_expect_eq(nib_struct_write(&older, &from, sizeof(from), sizeof(before), "now"), NIB_INVALID);
    cr_expect_eq(older.old.a, 5);
}
