/* SPDX-License-Identifier: Apache-2.0
 *
 * Case lines: keys, lists, refusals; and the problems they make, which depend on the seed alone.
 */
#include "base/text.h"
#include "support/problem.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(case_line, keys_beyond_the_description)
{
    test_case c;
    cr_assert_eq(test_case_parse("n=17 k=40 w=u4 g=32 s=f16 m=5 lda=+3 ldo=2 align=1 alpha=0.5 "
                                 "data=nan_scale seed=7",
                                 &c),
                 NIB_OK, "%s", nib_last_message());
    cr_expect_eq(c.desc_status, NIB_OK);
    cr_expect(c.desc.weight.n == 17 && c.desc.weight.type == NIB_U4);
    cr_expect(c.m == 5 && c.lda_more == 3 && c.ldo_more == 2 && c.align == 1 && c.seed == 7);
    cr_expect(c.alpha == 0.5f && c.data == TEST_NAN_SCALE && c.expect == NIB_OK);
}

Test(case_line, a_refused_description_is_kept_as_such)
{
    test_case c;
    cr_assert_eq(test_case_parse("n=0 k=16 expect=invalid", &c), NIB_OK);
    cr_expect(c.desc_status == NIB_INVALID && c.expect == NIB_INVALID);
    cr_assert_eq(test_case_parse("n=1 k=16 expect=unsupported", &c), NIB_OK);
    cr_expect(c.desc_status == NIB_OK && c.expect == NIB_UNSUPPORTED);
}

Test(case_line, refuses_what_is_no_case)
{
    static const char *const bad[] = {"n=1 k=1 m=-1", "n=1 k=1 data=nice",  "n=1 k=1 expect=maybe",
                                      "n=1 k=1 m",    "n=1 k=1 alpha=high", "n=1 k=1 lda=-1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        test_case c = {.m = -7};
        cr_expect_eq(test_case_parse(bad[i], &c), NIB_INVALID, "%s", bad[i]);
        cr_expect_eq(c.m, -7);
        cr_expect(strstr(nib_last_message(), "column"), "%s", nib_last_message());
    }
}

static nib_status gather(void *user, const char *line)
{
    nib_text_add(user, "%s;", line);
    return NIB_OK;
}

static void expect_lines(const char *line, const char *expected)
{
    char out[512];
    nib_text text = nib_text_into(out, sizeof(out));
    cr_assert_eq(test_line_expand(line, gather, &text), NIB_OK, "%s", nib_last_message());
    cr_expect_str_eq(out, expected);
}

Test(case_line, lists_cross)
{
    expect_lines("n=1", "n=1;");
    expect_lines("n={1,7} w={i4,u4}", "n=1 w=i4;n=1 w=u4;n=7 w=i4;n=7 w=u4;");
    expect_lines("m={0..2,9}", "m=0;m=1;m=2;m=9;");
    expect_lines("z={none,float:f16}", "z=none;z=float:f16;");
    cr_expect_eq(test_line_expand("m={1,2", gather, NULL), NIB_INVALID);
    cr_expect_eq(test_line_expand("m={1..x}", gather, NULL), NIB_INVALID);
}

static nib_status stop(void *user, const char *line)
{
    (void)line;
    return ++*(int *)user == 2 ? NIB_MISSING : NIB_OK;
}

Test(case_line, expansion_stops_at_the_first_failure)
{
    int count = 0;
    cr_expect_eq(test_line_expand("m={1..9}", stop, &count), NIB_MISSING);
    cr_expect_eq(count, 2);
}

static void make(const char *line, test_problem *p)
{
    test_case c;
    cr_assert_eq(test_case_parse(line, &c), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(c.desc_status, NIB_OK);
    cr_assert_eq(test_problem_create(&c, p), NIB_OK);
}

Test(problem, depends_on_the_seed_alone)
{
    test_problem a, b, c;
    make("n=9 k=40 w=u3 g=16 s=f16 z=code a=f16 b=f32 m=3 seed=5", &a);
    make("n=9 k=40 w=u3 g=16 s=f16 z=code a=f16 b=f32 m=3 seed=5", &b);
    make("n=9 k=40 w=u3 g=16 s=f16 z=code a=f16 b=f32 m=3 seed=6", &c);
    cr_expect_eq(memcmp(a.codes, b.codes, 9 * 40), 0);
    cr_expect_eq(memcmp(a.act, b.act, a.act_bytes), 0);
    cr_expect_neq(memcmp(a.codes, c.codes, 9 * 40), 0);
    cr_expect_neq(memcmp(a.act, c.act, a.act_bytes), 0);
    test_problem_destroy(&a);
    test_problem_destroy(&b);
    test_problem_destroy(&c);
}

Test(problem, plain_codes_hold_the_codes)
{
    test_problem p;
    make("n=2 k=5 w=u3 s=f16 m=1", &p);
    cr_assert_eq(p.packed_bytes, 4);
    for (int n = 0; n < 2; n++) {
        unsigned bits = p.packed_codes[2 * n] | (unsigned)p.packed_codes[2 * n + 1] << 8;
        for (int k = 0; k < 5; k++)
            cr_expect_eq(bits >> 3 * k & 7, p.codes[5 * n + k]);
        cr_expect_eq(bits >> 15, 0);
    }
    test_problem_destroy(&p);
}

Test(problem, ones_are_k_everywhere)
{
    static const char *const types[] = {"u1", "i1", "i4", "i8", "nf4", "e2m1", "e4m3", "lut4"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char line[128];
        double out[6];
        test_problem p;
        snprintf(line, sizeof(line), "n=2 k=48 w=%s g=16 s=f16 a=i8 m=3 data=ones", types[i]);
        make(line, &p);
        cr_assert_eq(nib_ref_gemm(&p.ref, out, NULL), NIB_OK);
        for (int j = 0; j < 6; j++)
            cr_expect_eq(out[j], 48, "%s", line);
        test_problem_destroy(&p);
    }
}
