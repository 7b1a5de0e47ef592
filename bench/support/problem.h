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

/* Results are checked on this many of the n output features, the first and the last included. */
#define BENCH_SAMPLES 192

typedef struct bench_problem {
    nib_weight_desc weight;
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
    int8_t *act_i8;      /* act rounded, one scale a row */
    float *act_i8_scale; /* [m] */
    int64_t samples;
    int64_t column[BENCH_SAMPLES];
    double *ref;    /* [m, samples] of act */
    double *ref_i8; /* [m, samples] of act_i8 */
} bench_problem;

/* Whether the weights are what Q4_0 holds: i4, groups of 32, f16 scales, no zeros. */
bool bench_is_q4_0(const nib_weight_desc *weight);

/* Makes a problem; false (with a line on stderr) for what this benchmark does not generate. */
bool bench_problem_make(bench_problem *p, const nib_weight_desc *weight, int64_t m, bool want_q4_0,
                        bool want_dense);
void bench_problem_free(bench_problem *p);

/* Norm of (out - reference) over the norm of the reference, on the sampled columns; out [m, n] in
 * `out_type` (f32, f16 or bf16). NaN when anything is NaN. */
double bench_problem_error(const bench_problem *p, const void *out, nib_type out_type, bool i8);

#endif
