/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the oracle: decoded operands (operands.c), the sums over k that a result and its bound
 * need (sums.c), and what follows the sums (bound.c). ref.c puts them together.
 */
#ifndef NIB_REF_TERMS_H
#define NIB_REF_TERMS_H

#include "ref/ref.h"

#include <stdbool.h>

/* Rows of act that are summed together, so that the inner loop vectorises. */
enum { REF_LANES = 8 };
/* Blocks of such rows that share the decoding of a row of W. */
enum { REF_BLOCKS = 8 };

/* One row of W. `fold` and `size2` describe the terms a kernel may have when it takes zeros and
 * offsets out of the sum: docs/numerics.md names them f_k and t_k. */
typedef struct ref_row {
    double *w;      /* [k] the weight */
    double *fold;   /* [k] |zero part| + |offset part| */
    double *size2;  /* [k] (|code part| + fold)^2 */
    double *noise2; /* [k] the square of what multiplies an activation's rounding; dynamic i8 */
    double *reach2; /* [k] the square of what multiplies an activation in tensor cores of 8-bit
                     * floats: weight or scaled code, no smaller than the least normal number */
    double *code;   /* [k] the code's value; i32 accumulation */
    double *scale, *zero; /* [groups] */
    bool nan, inf;        /* some operand of the row is */
} ref_row;

/* Rows of act as double, scales applied: value[(k * REF_LANES) + lane]. */
typedef struct ref_act {
    double *value;
    double *noise2;          /* variance of an element's rounding to i8; NULL unless dynamic */
    double *reach;           /* size as tensor cores of 8-bit floats see it; NULL unless those may
                              * be used */
    double scale[REF_LANES]; /* of the row, where there is one scale a row or less */
    bool nan[REF_LANES], inf[REF_LANES];
} ref_act;

/* What one element needs. */
typedef struct ref_sums {
    double x;       /* sum a w */
    double fold;    /* sum a fold */
    double size2;   /* sum a^2 size2 */
    double noise2;  /* sum of variances of the activations' rounding, times weights squared */
    double round2;  /* sum of variances of the weights' rounding, times activations squared */
    double largest; /* |w|, where weights may be rounded */
    double length;  /* terms added in floating point */
    /* Only where tensor cores of 8-bit floats may be used. */
    double reach2; /* sum reach^2 reach2 */
    double drift;  /* sum a c s: what they add up when zeros are taken out */
} ref_sums;

/* True when sums within a group are integers modulo 2^32. */
bool ref_wraps(const nib_gemm_desc *desc);

/* Mantissa bits, the leading one included, that weights may be rounded to; 0: they are exact. */
int ref_weight_bits(const nib_gemm_desc *desc);

/* True when the sum may be one of 8-bit floats' tensor cores, which keep 14 bits of it: activations
 * of 8-bit floats by codes that such a float holds exactly. docs/numerics.md, section 2. */
bool ref_coarse(const nib_gemm_desc *desc);

int64_t ref_group(const nib_ref_problem *problem, int64_t k);

nib_status ref_row_create(const nib_gemm_desc *desc, ref_row *row);
void ref_row_destroy(ref_row *row);
void ref_row_fill(const nib_ref_problem *problem, int64_t n, ref_row *row);

nib_status ref_act_create(const nib_gemm_desc *desc, ref_act *act);
void ref_act_destroy(ref_act *act);
/* Rows m .. m + rows - 1; the other lanes are zero. */
void ref_act_fill(const nib_ref_problem *problem, int64_t m, int64_t rows, ref_act *act);

/* Rows m .. m + rows - 1, which `act` holds; other lanes are of no meaning. */
void ref_sum(const nib_ref_problem *problem, const ref_row *row, const ref_act *act, int64_t m,
             int64_t rows, ref_sums sums[REF_LANES]);

/* A value and how far a kernel's may be from it. */
typedef struct ref_value {
    double x, bound;
} ref_value;

/* alpha and bias. `nan` and `inf`: an operand of the sum was. */
ref_value ref_finish(const nib_ref_problem *problem, const ref_sums *sums, int64_t n, bool nan,
                     bool inf);
/* The epilogue; x2 is used when gated. */
ref_value ref_epilogue(nib_epilogue epilogue, ref_value x1, ref_value x2);

#endif
