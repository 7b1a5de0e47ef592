/* SPDX-License-Identifier: Apache-2.0
 *
 * What `nib bench --baseline` times in turns with a product on an NVIDIA GPU: the read floor and
 * cuBLAS, by replays of CUDA graphs (bench/gpu).
 */
#ifndef NIB_TOOL_BASELINE_H
#define NIB_TOOL_BASELINE_H

#include "gpu/cublas.h"
#include "gpu/read.h"
#include "product.h"

enum { /* in the order of the columns */
       TOOL_FLOOR = 0,
       TOOL_CUBLAS = 1,
       TOOL_CUBLAS_FP8 = 2,
       TOOL_BASELINES = 3
};

typedef struct tool_baseline {
    bool wanted[TOOL_BASELINES];
    bool loaded[TOOL_BASELINES]; /* for the current product */
    bench_cuda cuda;
    bench_cublas cublas;
    bool has_cublas;
    bench_reader reader;
    bool has_reader;
    bench_dense dense[TOOL_BASELINES]; /* of the two cuBLAS */
    double seconds;
    uint64_t rotate; /* bytes that copies exceed */
    bool smoke;
} tool_baseline;

/* Microseconds a call; zero: not measured. */
typedef struct tool_beside {
    bench_stat ours, other[TOOL_BASELINES];
} tool_beside;

/* "cublas", "cublas-fp8", "floor". */
const char *tool_baseline_name(int index);
/* Takes the option's text; complains about names there are not. */
tool_exit tool_baseline_parse(const tool_verb *verb, const char *list, tool_baseline *out);
bool tool_baseline_wanted(const tool_baseline *b);

/* On the GPU of `info`. What a machine lacks is said on stderr, and is no failure. */
tool_exit tool_baseline_open(tool_baseline *b, const nib_device_info *info, double seconds,
                             bool warm);
void tool_baseline_close(tool_baseline *b);

/* For one product, on the runner's weights. */
tool_exit tool_baseline_load(tool_baseline *b, const tool_runner *runner,
                             const tool_product *product);
void tool_baseline_unload(tool_baseline *b);
/* Times m rows, prepared and checked, and what is loaded in turns. */
tool_exit tool_baseline_time(tool_baseline *b, tool_runner *runner, const tool_product *product,
                             int64_t m, tool_beside *out);

/* ---- what was measured, as columns and as JSON (baseline_report.c) ---- */

typedef struct tool_beside_row {
    int64_t m;
    uint64_t packed_bytes;
    const char *verdict;
    const char *product; /* a last column; NULL: none */
    const tool_beside *beside;
} tool_beside_row;

/* Columns for what is wanted; without a product they fit 80 characters. */
void tool_beside_begin(tool_table *table, const tool_baseline *b, bool product);
void tool_beside_add(tool_table *table, const tool_baseline *b, const tool_beside_row *row);
/* Members of the object that is open. */
void tool_beside_json(tool_json *json, const tool_baseline *b, const tool_beside *beside);

#endif
