/* SPDX-License-Identifier: Apache-2.0
 *
 * What a description means to the kernels of kernels/sm80 and kernels/general: shared by the files
 * of this folder, nobody else. A weight type of a new kind has its bits and class here.
 */
#ifndef NIB_CUDA_RULES_H
#define NIB_CUDA_RULES_H

#include <nibblas/backend.h>
#include <stdbool.h>

#include "variants/variants.h"

/* Columns of a block of codes, and of a stage of the sm80 kernels. */
enum { NIB_CUDA_STAGE_K = 128 };

int64_t nib_cuda_ceil_div(int64_t a, int64_t b);

/* u1..u8 and i1..i8. */
bool nib_cuda_is_integer(nib_type type);
/* nf4 and lut4: values of a table. */
bool nib_cuda_is_table(nib_type type);
/* As nib_type_bits, without core. */
int nib_cuda_type_bits(nib_type type);
int nib_cuda_element_bytes(nib_type type);

/* NIB_SPEC_GROUP of kernels/common/types.cuh: the widest of 128, 64, 32, 16 columns whose multiple
 * groups are; 0: one group a row. */
int nib_cuda_group_class(const nib_weight_desc *weight);

/* i8 activations with integer codes go through integer products. */
bool nib_cuda_multiplies_integers(const nib_gemm_desc *desc);
/* Products with operands of one code: value tables are sums of 16-bit numbers. */
int nib_cuda_limbs(const nib_gemm_desc *desc);
bool nib_cuda_gated(const nib_gemm_desc *desc);

/* Tiles of a product of m rows of act. */
int64_t nib_cuda_tiles(const nib_cuda_row *row, const nib_gemm_desc *desc, int64_t m);
/* Workspace of a kernel of kernels/sm90 (work.cuh) for m rows, whole tiles of them: sums of one
 * tile of each block behind flags of each of its consumers, if `streams` says that K is shared as a
 * stream for m or fewer rows; it must not shrink as m grows. */
uint64_t nib_cuda_stream_bytes(const nib_cuda_row *row, const nib_cuda_chip *chip,
                               const nib_gemm_desc *desc, int64_t m,
                               bool (*streams)(const nib_cuda_row *row, const nib_cuda_chip *chip,
                                               const nib_gemm_desc *desc, int64_t m));
/* From as many tiles a multiprocessor on K is never shared as a stream: nothing is won. */
enum { NIB_CUDA_MOST_STREAM_WAVES = 8 };

/* Why no kernel of kernels/sm80 runs a description, or NULL: the rest is each family's. */
const char *nib_cuda_sm80_refusal(const nib_gemm_desc *desc);
/* The constants that say what was described: those of kernels/common/types.cuh. */
void nib_cuda_sm80_spec(const nib_gemm_desc *desc, nib_cuda_spec *text);

#endif
