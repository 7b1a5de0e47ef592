/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of one contest: random weights in the plain layout (and, where the description allows,
 * as Q4_0 blocks and as a dense f32 matrix for the rivals), activations, and a reference in double
 * precision on a sample of the output columns. contest.h runs contenders on it.
 */
#ifndef NIB_BENCH_PROBLEM_H
#define NIB_BENCH_PROBLEM_H

#include <nibblas/nibblas.h>
#include <stdbool.h>

/* Results are checked on this many of the n output features and of the m rows, the first and the
 * last included. */
#define BENCH_SAMPLES 192
#define BENCH_ROWS    160

/* What a problem may hold beside weights and activations. */
enum {
    BENCH_WANT_Q4_0 = 1,
    BENCH_WANT_DENSE = 2,
    BENCH_WANT_COARSE = 4 /* activations exact in e4m3 and e5m2 as well, in act_e4m3 and act_e5m2 */
};

/* What a result is compared with. */
typedef enum bench_reference {
    BENCH_REF_ACT = 0,
    BENCH_REF_I8 = 1,    /* activations rounded to i8, with their scales */
    BENCH_REF_SCALED = 2 /* activations times act_row_scale */
} bench_reference;

typedef struct bench_problem {
    nib_weight_desc weight;
    float alpha; /* of the tensor: e4m3 scales (NVFP4) come with one, else 1 */
    int64_t m;
    int64_t groups;
    uint8_t *codes;  /* plain: rows padded to whole bytes */
    uint8_t *scales; /* plain [n, groups] */
    uint8_t *zeros;  /* NULL without zeros */
    uint8_t *q4_0;   /* NULL unless asked for */
    float *dense;    /* [n, k]; NULL unless asked for */
    float *act;      /* [m, k], every value exact in f16 and bf16 too */
    uint16_t *act_f16;
    uint16_t *act_bf16;
    int8_t *act_i8;       /* act rounded, one scale a row */
    float *act_i8_scale;  /* [m] */
    float *act_row_scale; /* [m]: for 8-bit floats with a scale a row */
    uint8_t *act_e4m3, *act_e5m2;
    int64_t rows, samples;
    int64_t row[BENCH_ROWS]; /* ascending */
    int64_t column[BENCH_SAMPLES];
    double *ref;    /* [rows, samples] of act */
    double *ref_i8; /* [rows, samples] of act_i8 */
} bench_problem;

/* Whether the weights are what Q4_0 holds: i4, groups of 32, f16 scales, no zeros. */
bool bench_is_q4_0(const nib_weight_desc *weight);

/* Makes a problem; false (with a line on stderr) for what this benchmark does not generate. `want`:
 * bits of BENCH_WANT_*. */
bool bench_problem_make(bench_problem *p, const nib_weight_desc *weight, int64_t m, unsigned want);
void bench_problem_free(bench_problem *p);

/* Element i of an array of any type of 8 bits or more but i8 and i32. */
float bench_decode(nib_type type, const void *array, int64_t i);

/* The activations [m, k] in a type, NULL for types that this problem does not hold. */
const void *bench_problem_act(const bench_problem *p, nib_type type);

/* Norm of (out - reference) over the norm of the reference, on the sampled rows below m and
 * columns; out [m, n] in `out_type` (f32, f16 or bf16). NaN when anything is NaN. `worst`, which
 * may be NULL, receives the largest |out - reference| over |reference| + the root mean square of
 * all: one bad element shows there. */
double bench_problem_error(const bench_problem *p, int64_t m, const void *out, nib_type out_type,
                           bench_reference reference, double *worst);

#endif
