/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the CPU backend say to each other. A product runs in three layers:
 *
 *     host/launch.c         one run: cuts workspace, calls a schedule
 *     kernels/common/       schedules: panel (f32), direct (few rows), integer; the same for all
 * ISAs kernels/<isa>/        what the schedules call: dequant, load, mainloop, direct, epilogue
 *
 * An ISA is a folder of kernels and a table of variants (variants/<isa>.c) that ends in one
 * nib_cpu_isa. Schedules decide who computes what; only an ISA's files know instructions.
 *
 * Packed codes: tiles of 16 rows of W. Lane n of a tile's 64 bytes is one 32-bit word that holds
 * 32 / B codes of row n. Code k of a plane of B bits sits at bit 8 * (k % 4) + B * (k / 4) of its
 * word, so that masking a word leaves four codes of consecutive k in its four bytes:
 *
 *     B = 4:  byte 3       byte 2       byte 1       byte 0
 *             k7     k3    k6     k2    k5     k1    k4     k0
 *
 * Scales and zeros: 16 rows side by side, then the next group.
 */
#ifndef NIB_CPU_KERNEL_H
#define NIB_CPU_KERNEL_H

#include <nibblas/backend.h>
#include <stdbool.h>

enum {
    NIB_CPU_LANES = 16,      /* rows of W in a tile */
    NIB_CPU_TILE_BYTES = 64, /* one word a lane */
    NIB_CPU_BLOCK_K = 256,   /* k that the panel schedule decodes at a time; a multiple of 32 */
    NIB_CPU_QUANT_K = 32,    /* k per scale of dynamic i8 and of MX activations */
    NIB_CPU_PANEL_N = 128,   /* most rows of W in a job of the panel schedule */
    NIB_CPU_ROWS_MAX = 16    /* no micro-kernel takes more rows of act */
};

/* How a code's value c becomes a weight. */
typedef enum nib_cpu_rule {
    NIB_CPU_RAW,     /* c */
    NIB_CPU_SCALE,   /* c s */
    NIB_CPU_SHIFT,   /* (c - z) s */
    NIB_CPU_RESCALE, /* c s - z */
} nib_cpu_rule;

/* Which integer path decodes a type: the operand is an unsigned byte u, value = (u - offset) * unit
 * where `unit` is a power of two. */
typedef enum nib_cpu_operand {
    NIB_CPU_OPERAND_NONE,
    NIB_CPU_OPERAND_FIELD, /* u is the code */
    NIB_CPU_OPERAND_FLIP,  /* u is the code with its top bit flipped: i8 */
    NIB_CPU_OPERAND_TABLE  /* u is looked up: e2m1, doubled and moved up by 12 */
} nib_cpu_operand;

/* Facts that follow from a description; made once per kernel. */
typedef struct nib_cpu_shape {
    nib_gemm_desc desc;
    int64_t n, k, n_tiles, groups, group;
    int32_t bits, planes, plane_bits[NIB_MAX_PLANES];
    int32_t unit;                        /* k in a word of the widest plane, plane 0 */
    int64_t units;                       /* ceil(k / unit) */
    uint64_t tile_bytes[NIB_MAX_PLANES]; /* of 16 rows and all k */
    int32_t scale_bytes, zero_bytes;     /* of one element; 0: there are none */
    bool per_tensor;                     /* one scale and zero for the matrix */
    nib_cpu_rule rule;
    const float *values; /* decode table; NULL for lut4, whose table comes with the weights */
    const float *e4m3;   /* decode tables of byte-sized activations and scales */
    const float *e5m2;
    const float *e8m0;
    /* The integer path. */
    nib_cpu_operand operand;
    int32_t operand_offset;
    float operand_unit;
} nib_cpu_shape;

/* Sixteen elements of an array of scales or zeros, from `index` on, as f32; code zeros come as
 * NIB_U8. */
typedef void (*nib_cpu_lanes_fn)(nib_type type, const void *array, int64_t index, float *to);

/* One run as the schedules see it: rows m0 .. m0 + rows - 1 of a call. */
typedef struct nib_cpu_run {
    const nib_cpu_shape *shape;
    const nib_packed *weights;
    const nib_gemm_args *args;
    const float *values;    /* the shape's, or the weights' table for lut4 */
    nib_cpu_lanes_fn lanes; /* the ISA's; NULL: element by element */
    int64_t m0, rows;
} nib_cpu_run;

/* Decodes `units` units of one n tile, starting at unit `unit`, into out[k][16]. `scale` and `zero`
 * are 16 floats each, constant over the call, and read as the rule says. */
typedef struct nib_cpu_codes {
    const unsigned char *plane[NIB_MAX_PLANES]; /* the n tile's first word */
    const float *values;
    nib_cpu_rule rule;
    int32_t bits;
    float scale[NIB_CPU_LANES], zero[NIB_CPU_LANES];
} nib_cpu_codes;

typedef void (*nib_cpu_dequant_fn)(const nib_cpu_codes *codes, int64_t unit, int64_t units,
                                   float *out);

/* The decode function of a weight type: one row a type, and a type is one function. */
typedef struct nib_cpu_dequant_row {
    nib_type type;
    nib_cpu_dequant_fn dequant;
} nib_cpu_dequant_row;

/* c[row][16 * tiles] += sum over k of a[k][panel_rows] * w[tile][k][16], one chain of additions per
 * element in the order of k. Row stride of c is ldc floats, tile stride of w is w_stride. */
typedef void (*nib_cpu_micro_fn)(const float *w, int64_t w_stride, const float *a, int64_t k,
                                 int rows, float *c, int64_t ldc);

/* A slice of the direct path: `tiles` n tiles against a block of `rows` rows of act, decoded in
 * registers and never stored. acc[row][16 * tiles] receives sums over k, before alpha; row stride
 * ld_acc. `rows` is a power of two, and what belongs to the rows is interleaved, so that one
 * pointer serves them all.
 *
 * The integer form (`dot`) sums bytes exactly over segments, runs of k that share every scale:
 * value = operand_unit * step * (dot(u, quant) - offset * count). */
typedef struct nib_cpu_direct {
    const nib_cpu_run *run;
    int64_t n_tile;
    int32_t tiles, rows;
    const float *sums; /* [groups][rows] sums of act over each group; only with zeros */
    const float *act;  /* f32 [k][rows], zero beyond k */
    /* dot only */
    const int8_t *quant;   /* [k / 4][rows][4], zero beyond k */
    const int32_t *counts; /* [segments][rows] sums of quant */
    const float *steps;    /* [segments][rows] */
    int64_t segment, segments;
    bool integers; /* out is i32: acc receives the sums' bits */
    float *acc;
    int64_t ld_acc;
} nib_cpu_direct;

typedef void (*nib_cpu_direct_fn)(const nib_cpu_direct *slice);

/* Where a row of results goes: out = cast(act(alpha * act_scale * x + bias)). */
typedef struct nib_cpu_store {
    nib_type out_type, bias_type;
    nib_epilogue epilogue; /* gated pairs: SILU_GATED, with x2 */
    float act_scale, alpha;
    const void *bias; /* at column 0; NULL: none */
    void *out;        /* the row's column 0 */
    int64_t gate;     /* columns between the halves of a gated pair */
} nib_cpu_store;

/* Columns n0 .. n0 + count - 1 of one row; x and x2 are at n0. x2 is NULL unless gated. */
typedef void (*nib_cpu_store_fn)(const nib_cpu_store *store, const float *x, const float *x2,
                                 int64_t n0, int64_t count);
/* `count` elements of an f32, f16 or bf16 array at any address, as f32. */
typedef void (*nib_cpu_load_fn)(nib_type type, const void *from, int64_t count, float *to);
/* Rounds up to 32 floats to i8 with one scale: to[i] = rint(from[i] / step), step returned; the
 * step is NaN if an element is not finite. Writes all 32. */
typedef float (*nib_cpu_round_fn)(const float *from, int64_t count, int8_t *to);

typedef enum nib_cpu_schedule {
    NIB_CPU_PANEL,   /* decode panels to f32, multiply as a dense f32 product: any description */
    NIB_CPU_INTEGER, /* the same in i32, for acc_type i32 */
    NIB_CPU_DIRECT,  /* decode in registers against f32 activations */
    NIB_CPU_DOT      /* decode to bytes in registers against i8 activations */
} nib_cpu_schedule;

/* A row of an ISA's table. */
typedef struct nib_cpu_row {
    nib_variant variant; /* first, so that the planner's pointer is ours */
    nib_cpu_schedule schedule;
    const struct nib_cpu_isa *isa;
    int32_t bits; /* of codes it takes; 0: any */
} nib_cpu_row;

typedef struct nib_cpu_isa {
    const char *name;                /* as NIB_CPU_ISA spells it */
    const char *(*present)(void);    /* the ISA string if this processor has it, else NULL */
    int32_t panel_rows, panel_tiles; /* of the micro-kernel */
    nib_cpu_dequant_fn (*dequant)(nib_type type);
    nib_cpu_micro_fn micro;
    nib_cpu_lanes_fn lanes; /* NULL: there is nothing faster than element by element */
    nib_cpu_load_fn load;
    nib_cpu_store_fn store;
    nib_cpu_round_fn round;
    int32_t direct_tiles, direct_rows; /* most of one slice; rows: a power of two */
    nib_cpu_direct_fn direct;          /* NULL: the ISA has none */
    nib_cpu_direct_fn dot;
    double f32_per_cycle; /* operations of one thread, a multiply-add being two */
    double i8_per_f32;    /* i8 operations in the time of one of f32 */
    const nib_cpu_row *rows;
    int32_t row_count;
} nib_cpu_isa;

extern const nib_cpu_isa nib_cpu_portable, nib_cpu_avx2, nib_cpu_avx512;

#endif
