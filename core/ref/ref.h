/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle: the product computed slowly in double, straight from the definition in
 * docs/numerics.md. It takes logical arrays only and shares no code with packing (it never includes
 * layout/), so that it cannot share its faults.
 */
#ifndef NIB_REF_REF_H
#define NIB_REF_REF_H

#include <nibblas/nibblas.h>

typedef struct nib_ref_problem {
    const nib_gemm_desc *desc; /* canonical */
    int64_t m;
    const uint8_t *codes; /* [n, k], one code a byte */
    const void *scales;   /* [n, groups] in scale_type, or [1] per tensor; NULL without */
    const void *zeros;    /* [n, groups] in zero_type, bytes for code zeros; NULL without */
    const int32_t *g_idx; /* [k] or NULL */
    const float *table;   /* [16] or NULL */
    float alpha;
    const void *act; /* [m, k], row stride lda */
    int64_t lda;
    const void *act_scale;
    const void *bias;
} nib_ref_problem;

/* w[n, k] as double, alpha aside. */
double nib_ref_weight(const nib_ref_problem *problem, int64_t n, int64_t k);

/* out[m, cols] before the cast to out_type, row stride cols = n, or n / 2 when gated. `bound` (may
 * be NULL), of the same shape, receives how far a kernel may be from that before its own cast, in
 * absolute terms; docs/numerics.md derives it. Three values say more than a number:
 *   expected NaN, bound 0         only NaN will do
 *   expected NaN, bound INFINITY  an infinite operand: any non-finite result, or 0 after an
 * epilogue finite, bound INFINITY        the accumulator may overflow: not checked
 */
nib_status nib_ref_gemm(const nib_ref_problem *problem, double *out, double *bound);

/* The same for rows m0..m1 only (out holds m1 - m0 rows), for sampling large products. */
nib_status nib_ref_gemm_rows(const nib_ref_problem *problem, int64_t m0, int64_t m1, double *out,
                             double *bound);

/* Checks a result (in out_type, row stride ldo) against the oracle's: every element between the
 * casts of expected - bound and expected + bound, and the whole matrix within the norm bound.
 * NIB_INTERNAL with the first wrong element in the message. */
nib_status nib_ref_compare(const nib_gemm_desc *desc, int64_t m, const double *expected,
                           const double *bound, const void *out, int64_t ldo);

/* Checks activations rounded to 8 bits: `args` after the call, all arrays in host memory.
 * NIB_INTERNAL with the first wrong scale or code in the message. */
nib_status nib_ref_quantize_check(const nib_act_quantizer_desc *desc,
                                  const nib_act_quantize_args *args);

#endif
