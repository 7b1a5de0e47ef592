/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions: canonical form, refusals with their messages, the text line and its inverse.
 */
#include "config/desc.h"
#include "config/dtype.h"

#include <criterion/criterion.h>
#include <string.h>

static nib_weight_desc weight(void)
{
    return (nib_weight_desc){.size = sizeof(nib_weight_desc),
                             .n = 64,
                             .k = 128,
                             .group = 32,
                             .type = NIB_I4,
                             .scale_type = NIB_F16};
}

static void expect_refusal(nib_weight_desc desc, nib_status status, const char *part)
{
    nib_weight_desc out = {.n = -77};
    cr_expect_eq(nib_weight_desc_check(&desc, &out), status);
    cr_expect_eq(out.n, -77, "the output of a failed call is untouched");
    cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
}

Test(weight_desc, group_of_k_is_one_scale_a_row)
{
    nib_weight_desc d = weight();
    d.group = d.k;
    cr_assert_eq(nib_weight_desc_check(&d, &d), NIB_OK);
    cr_expect_eq(d.group, NIB_GROUP_ROW);
}

Test(weight_desc, refuses_extents_that_are_none)
{
    nib_weight_desc d = weight();
    d.n = 0;
    expect_refusal(d, NIB_INVALID, "n is 0");
    d.n = -5;
    expect_refusal(d, NIB_INVALID, "n is -5");
    d = weight();
    d.k = 0;
    expect_refusal(d, NIB_INVALID, "k is 0");
    d.k = INT64_MAX;
    d.n = INT64_MAX;
    expect_refusal(d, NIB_INVALID, "does not fit");
}

Test(weight_desc, refuses_groups_that_are_none)
{
    nib_weight_desc d = weight();
    d.group = 129;
    expect_refusal(d, NIB_INVALID, "larger than k = 128");
    d.group = -2;
    expect_refusal(d, NIB_INVALID, "group is -2");
}

Test(weight_desc, refuses_zeros_without_scales)
{
    nib_weight_desc d = weight();
    d.scale_type = NIB_TYPE_NONE;
    d.zero = NIB_ZERO_FLOAT;
    d.zero_type = NIB_F16;
    expect_refusal(d, NIB_INVALID, "zeros without scales");
}

Test(weight_desc, refuses_structs_of_other_versions_it_cannot_read)
{
    nib_weight_desc d = weight();
    d.size = 8;
    expect_refusal(d, NIB_INVALID, "set it to sizeof(nib_weight_desc)");
    struct {
        nib_weight_desc d;
        uint64_t more;
    } newer = {weight(), 0};
    newer.d.size = sizeof(newer);
    nib_weight_desc out;
    cr_expect_eq(nib_weight_desc_check(&newer.d, &out), NIB_OK);
    newer.more = 1;
    cr_expect_eq(nib_weight_desc_check(&newer.d, &out), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "newer header"));
}

static const char *const lines[] = {
    "n=64 k=128 w=i4 g=32 s=f16 z=none a=f16 acc=f32 o=f16",
    "n=64 k=128 w=u4 g=32 s=bf16 z=float:f32 a=bf16 acc=f32 o=bf16 b=f32 e=gelu",
    "n=64 k=128 w=u3 g=row s=f32 z=code a=f32 acc=f32 o=f32 e=silu_gated",
    "n=1 k=1 w=nf4 g=row s=f16 z=rescale:bf16 a=e4m3 acc=f32 o=f16 as=mx",
    "n=7 k=9 w=i8 g=tensor s=none z=none a=i8 acc=i32 o=i32",
    "n=7 k=9 w=u2 g=4 s=e4m3 z=none wf=g_idx a=f32 acc=f32 o=f32 f=batch_invariant,act_dynamic_i8",
};

Test(gemm_desc, a_printed_line_parses_back)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        nib_gemm_desc desc, again;
        char text[NIB_DESC_LINE_BYTES];
        size_t needed;
        cr_assert_eq(nib_gemm_desc_parse(lines[i], &desc), NIB_OK, "%s", nib_last_message());
        cr_assert_eq(nib_gemm_desc_print(&desc, text, sizeof(text), &needed), NIB_OK);
        cr_expect_str_eq(text, lines[i]);
        cr_expect_eq(needed, strlen(text) + 1);
        cr_assert_eq(nib_gemm_desc_parse(text, &again), NIB_OK);
        cr_expect_eq(memcmp(&desc, &again, sizeof(desc)), 0);
        cr_expect_eq(nib_gemm_desc_hash(&desc), nib_gemm_desc_hash(&again));
    }
}

static const struct {
    const char *line, *part;
} refusals[] = {
    {"n=64 k=128 w=q4", "'q4' is no type"},
    {"n=64 k=128 e=swish", "expected one of none, relu"},
    {"n=64 k=128 x=1", "column 12: unknown key 'x'"},
    {"n=64 n=64 k=128", "column 6: key 'n' stands twice"},
    {"n=64 k", "column 6: expected key=value"},
    {"n= k=128", "no usable value"},
    {"n=99999999999999999999 k=1", "no whole number"},
    {"n=64 k=128 g=-1", "a number from 1, row or tensor"},
    {"n=63 k=128 e=silu_gated", "even n"},
    {"n=64 k=128 acc=i32", "needs i8 activations"},
    {"n=64 k=128 acc=f16 a=bf16", "goes with act_type f16"},
    {"n=64 k=128 as=mx", "MX act scales"},
    {"n=64 k=128 o=i32", "needs acc_type i32"},
    {"n=64 k=128 z=code w=i4", "code zeros need codes u1..u8"},
    {"n=64 k=128 z=float w=i4", "zero_type is none"},
    {"k=128", "n is 0"},
};

Test(gemm_desc, refusals_say_what_would_be_right)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        nib_gemm_desc desc;
        cr_expect_eq(nib_gemm_desc_parse(refusals[i].line, &desc), NIB_INVALID, "%s",
                     refusals[i].line);
        cr_expect(strstr(nib_last_message(), refusals[i].part), "%s: '%s' lacks '%s'",
                  refusals[i].line, nib_last_message(), refusals[i].part);
    }
}

Test(gemm_desc, printing_into_a_short_buffer_cuts_and_counts)
{
    nib_gemm_desc desc;
    char text[10];
    size_t needed;
    cr_assert_eq(nib_gemm_desc_parse(lines[0], &desc), NIB_OK);
    cr_assert_eq(nib_gemm_desc_print(&desc, text, sizeof(text), &needed), NIB_OK);
    cr_expect_str_eq(text, "n=64 k=12");
    cr_expect_eq(needed, strlen(lines[0]) + 1);
    cr_assert_eq(nib_gemm_desc_print(&desc, NULL, 0, &needed), NIB_OK);
    cr_expect_eq(needed, strlen(lines[0]) + 1);
}

Test(desc, a_missing_place_for_the_answer_is_invalid)
{
    nib_gemm_desc desc;
    cr_assert_eq(nib_gemm_desc_parse("n=4 k=4 w=i4 s=f16 a=f32", &desc), NIB_OK);
    cr_expect_eq(nib_weight_desc_check(&desc.weight, NULL), NIB_INVALID);
    cr_expect_eq(nib_gemm_desc_check(&desc, NULL), NIB_INVALID);
    cr_expect_eq(nib_weight_desc_parse("n=4 k=4 w=i4 s=f16", NULL), NIB_INVALID);
    cr_expect_eq(nib_gemm_desc_parse("n=4 k=4 w=i4 s=f16 a=f32", NULL), NIB_INVALID);
    cr_expect_eq(nib_type_parse("u4", NULL), NIB_INVALID);
}
