/* SPDX-License-Identifier: Apache-2.0
 *
 * A row of bench-cuda's table: one product with m rows, what was measured of it and beside it. Rows
 * go from the process that measures to the one that prints through a pipe, and to and from CSV.
 */
#ifndef NIB_BENCH_ROW_H
#define NIB_BENCH_ROW_H

#include "gpu/rounds.h"

#include <nibblas/nibblas.h>
#include <stdio.h>

/* The same product with something odd about it. */
typedef enum bench_twin {
    BENCH_ALIGNED = 0,
    BENCH_ODD_N = 1,  /* n - 1 */
    BENCH_K_TAIL = 2, /* k - 40: rows stay aligned to 16 bytes, tiles of k do not fill */
    BENCH_ODD_K = 3,  /* k - 41: rows of act start at any element */
    BENCH_ODD_A = 4,  /* act starts one element late, rows are k + 1 apart */
    BENCH_TWINS = 5
} bench_twin;

const char *bench_twin_name(bench_twin twin); /* "aligned", "odd-n", .. */
bool bench_twin_parse(const char *name, bench_twin *twin);
/* Changes n and k of a description. */
void bench_twin_apply(bench_twin twin, nib_gemm_desc *desc);

typedef enum bench_state {
    BENCH_OK = 0,
    BENCH_WRONG = 1,  /* the result; nothing was timed, or the times do not count */
    BENCH_FAILED = 2, /* it did not run */
    BENCH_LOST = 3,   /* the process that measured died or hung */
    BENCH_STATES = 4
} bench_state;

const char *bench_state_name(bench_state state);

typedef struct bench_row {
    int64_t n, k, m; /* of the aligned product */
    char line[160];  /* the product without n and k */
    bench_twin twin;
    bench_state state;
    char variant[64];
    int chosen;          /* by the library itself */
    double error, worst; /* bench_problem_error before the rounds */
    double error_after;  /* and behind them */
    uint64_t bytes;      /* packed, of one copy */
    double planned;      /* us */
    /* floor: of reading as many bytes. cublas: of the activations' 16-bit type (8-bit ones: of the
     * output's); cublas_fp8: e4m3 by e4m3, for 8-bit activations; dequant: dequantise, then cuBLAS.
     */
    bench_stat ours, floor, cublas, cublas_fp8, dequant;
    char floor_name[64];
    /* Recorded elsewhere, us; 0: not measured. */
    double marlin, humming, best;
    char best_name[24];
} bench_row;

void bench_row_head(FILE *csv);
void bench_row_write(FILE *csv, const bench_row *row);
/* A line of CSV, as written by bench_row_write. */
bool bench_row_parse(const char *text, bench_row *row);

typedef struct bench_rows {
    bench_row *row;
    int count, capacity;
} bench_rows;

/* False: no memory. */
bool bench_rows_add(bench_rows *rows, const bench_row *row);
/* Adds the rows of a file; -1 with a line on stderr when it cannot be read, else how many. */
int bench_rows_read(bench_rows *rows, const char *path);
/* The library's own choice for the same product, m and twin; NULL: none. Of several the last one.
 */
const bench_row *bench_rows_find(const bench_rows *rows, const bench_row *like, bench_twin twin);
void bench_rows_free(bench_rows *rows);

#endif
