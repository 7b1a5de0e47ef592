/* SPDX-License-Identifier: Apache-2.0
 *
 * What the project promises of bench-cuda's table, and whether a table keeps it: geometric means
 * and worst cells by ranges of m, and every cell that misses a target.
 */
#ifndef NIB_BENCH_SUMMARY_H
#define NIB_BENCH_SUMMARY_H

#include "support/row.h"

/* Of a row, or of a row and another one of the same n, k and m. */
typedef enum bench_metric {
    BENCH_SHARE_OF_FLOOR = 0, /* floor / ours */
    BENCH_X_CUBLAS = 1,       /* theirs / ours: above 1 is faster than they are */
    BENCH_X_FP8 = 2,
    BENCH_X_PEER = 3, /* the recorded best W4A16 kernel */
    BENCH_X_DEQUANT = 4,
    BENCH_OVER_REFERENCE = 5, /* ours / ours of int4, group 128, same activations */
    BENCH_OVER_ALIGNED = 6,   /* ours / ours of the aligned twin */
    BENCH_METRICS = 7
} bench_metric;

/* NaN: not measured, or not of this row. */
double bench_metric_of(const bench_rows *rows, const bench_row *row, bench_metric metric);

typedef struct bench_tally {
    int cells;
    double geomean; /* NaN without cells */
    double worst;   /* the least; of OVER_.. the largest */
    const bench_row *worst_row;
} bench_tally;

/* Over the rows of a product and twin with m in [least, most] that are right, the library's own
 * choice and have the metric; of rows measured twice the last one. */
bench_tally bench_tally_of(const bench_rows *rows, const char *line, bench_twin twin, int64_t least,
                           int64_t most, bench_metric metric);

/* int4 without zeros in groups of 128 with activations of this 16-bit type and nothing else. */
bool bench_is_reference(const nib_gemm_desc *desc, nib_type act_type);

/* Markdown. */
void bench_summary(FILE *out, const bench_rows *rows);

#endif
