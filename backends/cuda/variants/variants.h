/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of kernels and families. A family is one kernel source with its rules: what it can run, the
 * constants of its specialisations, the shape of a launch and a model of its time. A row is a
 * family with a tile. host/ knows families only through this table; a new chip's kernels are a new
 * file here and a folder in kernels/.
 */
#ifndef NIB_CUDA_VARIANTS_H
#define NIB_CUDA_VARIANTS_H

#include <nibblas/backend.h>
#include <stdbool.h>

#include "kernels/common/params.h"

/* What the rules may depend on: facts of a chip, the same in every process. */
typedef struct nib_cuda_chip {
    int32_t cc;                        /* 80, 86, 89, 90, 100, 103, 120: major * 10 + minor */
    int32_t units;                     /* multiprocessors */
    int32_t shared_block, shared_unit; /* bytes: of one block (opt-in), of a multiprocessor */
    int32_t registers_unit;
    double ghz;
    double read_gb_per_s, f16_tflop_per_s, i8_top_per_s, f32_tflop_per_s;
    uint64_t cache_bytes;
} nib_cuda_chip;

typedef struct nib_cuda_row nib_cuda_row;

/* How one launch looks. */
typedef struct nib_cuda_shape {
    uint32_t grid[3], block;
    uint32_t shared_bytes; /* dynamic */
    int32_t split;         /* parts of K; above 1 the family's reduction follows, if it has one */
    int32_t cluster;       /* neighbouring blocks along x that share memory; 0 and 1: none */
    uint32_t before;       /* blocks of 128 threads of the family's `before`; 0: none */
    int32_t map_rows;      /* rows of act a tensor copy brings; 0: no nib_cuda_mapped_params */
    uint64_t workspace_bytes;
} nib_cuda_shape;

/* Text under construction: nib_spec.h. */
typedef struct nib_cuda_spec {
    char *text;
    size_t capacity, length; /* length counts on beyond capacity */
} nib_cuda_spec;

typedef struct nib_cuda_family {
    const char *name;   /* "decode" */
    const char *source; /* "kernels/sm80/decode.cu" */
    const char *entry;  /* the extern "C" kernel */
    /* Entry of the reduction after split K, in the same image; NULL: none. It strides over its
     * elements: any grid of blocks of 256 threads will do. */
    const char *reduce;
    /* Entry of a kernel that runs before the entry, with its parameters, and leaves something in
     * the workspace; NULL: none. It strides: any grid will do. */
    const char *before;
    /* From sm_90 on the entry and the reduction wait by griddepcontrol for the kernel before them,
     * before they touch anything but weights and bias, so they may start while that one ends. */
    bool waits;
    /* NULL when the row can run the description on the chip for every m of its range, else why
     * not, a constant string. */
    const char *(*refusal)(const nib_cuda_row *row, const nib_cuda_chip *chip,
                           const nib_gemm_desc *desc);
    /* Appends the specialisation's constants. Two descriptions with equal text share an image. */
    void (*spec)(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                 nib_cuda_spec *spec);
    /* The launch for m rows (at least 1). Depends on nothing else; workspace must not shrink as m
     * grows. With NIB_GEMM_BATCH_INVARIANT in desc the split must not depend on m. */
    void (*shape)(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                  int64_t m, nib_cuda_shape *out);
    /* Microseconds without the launch; `bound` as in nib_backend_api. */
    double (*predict)(const nib_cuda_row *row, const nib_cuda_chip *chip, const nib_gemm_desc *desc,
                      int64_t m, const char **bound);
} nib_cuda_family;

struct nib_cuda_row {
    nib_variant variant; /* first: the planner sees only this */
    const nib_cuda_family *family;
    int32_t cc_min, cc_max; /* chips it is for; cc_max 0: all newer ones */
    bool portable;          /* its PTX runs on every newer chip */
    int32_t tile_n, tile_m; /* of a block */
    int32_t warps_n, warps_m, warps_k;
    int32_t stages;
    int32_t option; /* the family's own */
};

/* Appends "#define name value\n". */
void nib_cuda_spec_add(nib_cuda_spec *spec, const char *name, int64_t value);

/* The tables, most special first, ended by a row whose variant.id is NULL. */
extern const nib_cuda_row nib_cuda_sm90_decode_rows[];
extern const nib_cuda_row nib_cuda_sm80_decode_rows[];
extern const nib_cuda_row nib_cuda_sm90_gemm_rows[];
extern const nib_cuda_row nib_cuda_sm90_gemm8_rows[];
extern const nib_cuda_row nib_cuda_sm80_gemm_rows[];
extern const nib_cuda_row nib_cuda_general_rows[];

#endif
