/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share. A job is one call of nib_quantize. It fits one affine map
 * (scale and zero) a group, rounds it to the types it is stored in, and only then looks for codes,
 * so that codes always answer to the scales a kernel will read. Start at quantize.c.
 */
#ifndef NIB_QUANTIZE_QUANTIZE_H
#define NIB_QUANTIZE_QUANTIZE_H

#include "base/checked.h"
#include "config/desc.h"
#include "config/dtype.h"

#define NIB_QUANTIZE_CHUNK 256 /* codes that are held unpacked at a time */
#define NIB_HQQ_POWERS     256
#define NIB_QUANTIZE_PARTS 16 /* a matrix is cut into at most so many runs of rows */

/* A rectangle of weights: a group within a row, or the whole matrix. */
typedef struct nib_region {
    const float *w;
    int64_t ldw, rows, cols;
} nib_region;

/* The values codes stand for, and what finding the nearest takes. */
typedef struct nib_grid {
    nib_type type;
    int32_t bits;
    nib_code_class class_;
    float low, high; /* least and greatest finite value */
    int32_t base;    /* integers: code = value - base, in the low bits */
    int32_t mantissa_bits, least_exponent;
    float middle[15]; /* tables: halfway between neighbours, ascending */
    float value[256]; /* by code */
} nib_grid;

/* w = step * value + offset. */
typedef struct nib_affine {
    double scale, zero; /* as stored, in their types */
    double step, offset;
    float mul, shift; /* value = (w - shift) * mul */
} nib_affine;

typedef struct nib_job {
    nib_weight_desc desc; /* canonical */
    nib_quantizer method;
    double percentile;
    int32_t iterations, threads;
    int64_t groups, group_size;
    nib_grid grid;
    bool table_known; /* false while lut4 waits for its table */
    double alpha;
    float power[NIB_HQQ_POWERS + 1]; /* nib_hqq_tabulate */
    nib_region all;
    void *codes, *scales, *zeros;
} nib_job;

/* ---- quantize.c */

/* Refuses act-order and arrays that are missing or too narrow. */
nib_status nib_quantize_check_arrays(const nib_weight_desc *desc, const nib_quantize_result *result,
                                     const float *w, int64_t ldw);

/* ---- region.c */

/* Threads to use when the caller does not say: OMP_NUM_THREADS, else the CPUs of this process. */
int32_t nib_quantize_threads(int32_t asked);
/* Calls body(ctx, i) for i in 0..count-1, each once, in any order. */
void nib_quantize_parallel(int32_t threads, int64_t count, void (*body)(void *ctx, int64_t index),
                           void *ctx);
/* Clears `parts` partial results of `bytes` each and runs fn on as many runs of rows; returns
 * parts, which depends on the region's shape alone. `partials` has room for NIB_QUANTIZE_PARTS. */
typedef void (*nib_region_fn)(const void *ctx, const nib_region *part, void *partial);
int32_t nib_region_reduce(const nib_region *region, int32_t threads, nib_region_fn fn,
                          const void *ctx, void *partials, size_t bytes);

/* ---- grid.c */

void nib_grid_make(nib_type type, nib_grid *out);
/* Gives a lut4 grid its table, which must not descend. */
void nib_grid_set_table(nib_grid *grid, const float *table);
/* Nearest codes of (w - shift) * mul, ties to even (tables: to the lower). */
void nib_grid_encode(const nib_grid *grid, const float *w, int32_t count, const nib_affine *map,
                     uint8_t *codes);

/* The plain layout of a row: bits of codes one after the other, least significant first. */
typedef struct nib_bit_writer {
    unsigned char *out;
    uint64_t held;
    int32_t count, bits;
} nib_bit_writer;
void nib_bits_put(nib_bit_writer *writer, const uint8_t *codes, int32_t count);
void nib_bits_end(nib_bit_writer *writer);
void nib_bits_get(const unsigned char *row, int32_t bits, int64_t first, int32_t count,
                  uint8_t *codes);

/* ---- scale.c */

/* Nearest scale that can be stored, finite and not zero. */
double nib_scale_round(nib_type type, double x);
/* The neighbour of a rounded scale on the other side of x; `rounded` where there is none. */
double nib_scale_beside(nib_type type, double rounded, double x);
/* Rounds a zero to where it is stored, finite. */
double nib_zero_round(const nib_weight_desc *desc, double x);
nib_affine nib_affine_of(const nib_weight_desc *desc, double alpha, double scale, double zero);
/* The map of group `g` of a row, as the arrays have it. */
nib_affine nib_affine_load(const nib_weight_desc *desc, double alpha, const void *scales,
                           const void *zeros, int64_t row, int64_t g);

/* ---- range.c */

/* The range that codes should cover: min and max, or the job's quantiles. */
void nib_range_of(const nib_job *job, const nib_region *region, double *low, double *high);
/* Mean of |w|. */
double nib_range_mean_abs(const nib_job *job, const nib_region *region);

/* ---- fit.c, hqq.c, lut.c */

/* Sum of squared errors of a map. */
double nib_fit_error(const nib_job *job, const nib_region *region, const nib_affine *map);
/* Round-to-nearest's map for a region, refined if the method is HQQ. */
nib_affine nib_fit(const nib_job *job, const nib_region *region);
/* Fills the job's table of powers, [NIB_HQQ_POWERS + 1]. */
void nib_hqq_tabulate(float *power);
/* Improves `map`, never to a greater squared error. */
void nib_hqq_refine(const nib_job *job, const nib_region *region, nib_affine *map);
/* Fits 16 values to the weights, normalised by the scales and zeros in the job's arrays. */
nib_status nib_lut_fit(const nib_job *job, float *table);

#endif
