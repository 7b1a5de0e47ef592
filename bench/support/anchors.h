/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of other libraries' kernels, measured once and kept as a table (bench/anchors_h200.csv has
 * those of an H200; docs/performance.md says how). For ratios beside a measurement.
 */
#ifndef NIB_BENCH_ANCHORS_H
#define NIB_BENCH_ANCHORS_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_MAX_ANCHORS 256

typedef struct bench_anchor {
    int64_t n, k, m;
    double cublas, marlin, humming, cutlass, gemlite, best, floor; /* us; 0: not measured */
    char best_name[24];
} bench_anchor;

typedef struct bench_anchors {
    int count;
    bench_anchor row[BENCH_MAX_ANCHORS];
} bench_anchors;

/* False: the file cannot be read, or a line is none of the table. */
bool bench_anchors_read(const char *path, bench_anchors *out);
/* NULL: not in the table. */
const bench_anchor *bench_anchors_find(const bench_anchors *anchors, int64_t n, int64_t k,
                                       int64_t m);

#endif
