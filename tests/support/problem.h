/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases and the problems they name. A case is one line: a gemm description and a few more keys. A
 * problem is its numbers, made from the seed: what the oracle takes, and the same weights as the
 * public interface takes them. tests/README.md has the grammar of lines and case files.
 */
#ifndef NIB_TEST_PROBLEM_H
#define NIB_TEST_PROBLEM_H

#include "ref/ref.h"

#include <stdbool.h>

#define TEST_LINE_BYTES 640

/* What the numbers are like. */
typedef enum test_data {
    TEST_NORMAL = 0,
    TEST_ONES,       /* every product 1: out is k */
    TEST_ONEHOT,     /* each row of act has a single 1: out reads weights back */
    TEST_POSITIVE,   /* no activation below zero */
    TEST_EXTREME,    /* only the least and greatest codes and i8 activations */
    TEST_TINY,       /* outputs among the subnormals of f16 */
    TEST_HUGE,       /* outputs beyond f16 */
    TEST_OUTLIER,    /* some columns of act a thousand times larger */
    TEST_ALL_CODES,  /* codes and 8-bit activations run through all values, NaN included */
    TEST_ALL_SCALES, /* scale bytes run through all values, NaN included */
    TEST_NAN_SCALE,
    TEST_INF_SCALE,
    TEST_NAN_ZERO,
    TEST_NAN_ACT,
    TEST_INF_ACT,
    TEST_NAN_BIAS,
    TEST_INF_BIAS,
    TEST_G_IDX_OUT, /* a group index that is the number of groups */
} test_data;

typedef struct test_case {
    nib_gemm_desc desc; /* canonical, unless desc_status says why not */
    nib_status desc_status;
    nib_status expect; /* of making or packing; NIB_OK: it must run */
    bool skip_invalid; /* a refused description is left out: for lists that cross too much */
    int64_t m;
    int64_t lda_more, ldo_more; /* of strides over widths */
    int64_t align;              /* elements by which act, out and bias are moved */
    uint64_t seed;
    test_data data;
    float alpha;
} test_case;

/* NIB_INVALID: the line is no case line. A refused description is no failure of this function. */
nib_status test_case_parse(const char *line, test_case *out);

/* Calls `use` with every line a line with {lists} stands for. Stops at the first status that is not
 * NIB_OK and returns it. */
typedef nib_status (*test_line_fn)(void *user, const char *line);
nib_status test_line_expand(const char *line, test_line_fn use, void *user);

typedef struct test_problem {
    test_case given;
    nib_ref_problem ref;     /* points into the arrays below */
    nib_weight_source plain; /* so does this */
    uint8_t *codes;          /* [n, k] bytes */
    uint8_t *packed_codes;   /* plain layout */
    void *scales, *zeros, *act, *act_scale, *bias;
    int32_t *g_idx;
    float table[16];
    size_t packed_bytes, scales_bytes, zeros_bytes, act_bytes, act_scale_bytes, bias_bytes;
} test_problem;

/* The problem stays where it is: it holds pointers into itself. */
nib_status test_problem_create(const test_case *given, test_problem *out);
void test_problem_destroy(test_problem *problem);

#endif
