/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle's bound for weights that a kernel rounds to the activations' type: it admits that
 * rounding once, not where exact weights were asked for, not twice as coarse, and not a dropped
 * term.
 */
#include "ref/ref.h"

#include "config/desc.h"
#include "config/dtype.h"
#include "support/problem.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* Outputs of a kernel that rounds weights to `type` and is exact otherwise, without column
 * `dropped` of row 0 of act. */
static void rounding_kernel(const nib_ref_problem *r, nib_type type, int64_t dropped, float *out)
{
    int64_t cols = r->desc->weight.n, depth = r->desc->weight.k;
    for (int64_t m = 0; m < r->m; m++)
        for (int64_t n = 0; n < cols; n++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                unsigned char cell[4];
                nib_dtype_store(type, cell, 0, nib_ref_weight(r, n, k));
                if (m != 0 || k != dropped)
                    sum += nib_dtype_load(type, cell, 0) *
                           nib_dtype_load(r->desc->act_type, r->act, m * r->lda + k);
            }
            out[m * cols + n] = (float)sum;
        }
}

/* A column whose term is nowhere small. */
static int64_t large_column(const nib_ref_problem *r)
{
    int64_t best = 0;
    for (int64_t k = 0; k < r->desc->weight.k; k++)
        if (fabs(nib_dtype_load(r->desc->act_type, r->act, k)) >
            fabs(nib_dtype_load(r->desc->act_type, r->act, best)))
            best = k;
    return best;
}

/* Whether a kernel that rounds to `type` is admitted. */
static bool admitted(const char *line, uint32_t flags, nib_type type, bool drop)
{
    test_case given;
    test_problem p;
    cr_assert_eq(test_case_parse(line, &given), NIB_OK, "%s", nib_last_message());
    given.desc.flags |= flags;
    cr_assert_eq(test_problem_create(&given, &p), NIB_OK);
    size_t count = (size_t)(given.m * given.desc.weight.n);
    double *expected = calloc(count, sizeof(double)), *bound = calloc(count, sizeof(double));
    float *out = calloc(count, sizeof(float));
    cr_assert_eq(nib_ref_gemm(&p.ref, expected, bound), NIB_OK);
    rounding_kernel(&p.ref, type, drop ? large_column(&p.ref) : -1, out);
    nib_status status =
        nib_ref_compare(p.ref.desc, given.m, expected, bound, out, given.desc.weight.n);
    free(out);
    free(bound);
    free(expected);
    test_problem_destroy(&p);
    return status == NIB_OK;
}

static const char *const f16_lines[] = {
    "n=24 k=128 w=i4 g=128 s=f16 a=f16 o=f32 m=5 seed=3",
    "n=24 k=4096 w=i4 g=128 s=f16 a=f16 o=f32 m=5 seed=4",
    "n=24 k=1000 w=u4 z=float:f16 g=32 s=f16 a=f16 o=f32 m=5 seed=5",
    "n=24 k=2048 w=nf4 g=64 s=f32 a=f16 o=f32 m=5 seed=6",
};
static const char *const bf16_lines[] = {
    "n=24 k=128 w=i4 g=128 s=bf16 a=bf16 o=f32 m=5 seed=7",
    "n=24 k=4096 w=u4 z=code g=128 s=bf16 a=bf16 o=f32 m=5 seed=8",
};

Test(ref_rounding, is_admitted_once_and_catches_a_dropped_term)
{
    for (size_t i = 0; i < sizeof(f16_lines) / sizeof(f16_lines[0]); i++) {
        cr_expect(admitted(f16_lines[i], 0, NIB_F16, false), "%s: %s", f16_lines[i],
                  nib_last_message());
        cr_expect_not(admitted(f16_lines[i], 0, NIB_F16, true), "%s: a term", f16_lines[i]);
    }
    for (size_t i = 0; i < sizeof(bf16_lines) / sizeof(bf16_lines[0]); i++) {
        cr_expect(admitted(bf16_lines[i], 0, NIB_BF16, false), "%s: %s", bf16_lines[i],
                  nib_last_message());
        cr_expect_not(admitted(bf16_lines[i], 0, NIB_BF16, true), "%s: a term", bf16_lines[i]);
    }
}

Test(ref_rounding, coarser_types_do_not_pass)
{
    for (size_t i = 0; i < sizeof(f16_lines) / sizeof(f16_lines[0]); i++)
        cr_expect_not(admitted(f16_lines[i], 0, NIB_BF16, false), "%s", f16_lines[i]);
}

Test(ref_rounding, exact_weights_are_held_to_the_narrow_bound)
{
    for (size_t i = 0; i < sizeof(f16_lines) / sizeof(f16_lines[0]); i++)
        cr_expect_not(admitted(f16_lines[i], NIB_GEMM_EXACT_WEIGHTS, NIB_F16, false), "%s",
                      f16_lines[i]);
    for (size_t i = 0; i < sizeof(bf16_lines) / sizeof(bf16_lines[0]); i++)
        cr_expect_not(admitted(bf16_lines[i], NIB_GEMM_EXACT_WEIGHTS, NIB_BF16, false), "%s",
                      bf16_lines[i]);
}
