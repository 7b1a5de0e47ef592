/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of weights and products: validation, canonical form, hash, one-line text, and the
 * extents that follow from them. Everything else in core takes canonical descriptions only.
 */
#ifndef NIB_CONFIG_DESC_H
#define NIB_CONFIG_DESC_H

#include <nibblas/nibblas.h>
#include <stdbool.h>

/* Groups along k of a canonical description: 1 for rows and tensors. */
int64_t nib_desc_groups(const nib_weight_desc *desc);
/* k per group as a number: k itself for rows and tensors. */
int64_t nib_desc_group_size(const nib_weight_desc *desc);
/* Scales and zeros form a matrix [rows, groups]; rows is n, or 1 for tensors. */
int64_t nib_desc_scale_rows(const nib_weight_desc *desc);
/* Element bits of the zeros array: 0 without zeros, of zero_type, or of the codes for ZERO_CODE. */
int32_t nib_desc_zero_bits(const nib_weight_desc *desc);
/* Columns of out: n, or n / 2 when gated. */
int64_t nib_desc_out_cols(const nib_gemm_desc *desc);

/* Equal canonical descriptions hash equally, across machines and versions: the hash of the line. */
uint64_t nib_weight_desc_hash(const nib_weight_desc *desc);
uint64_t nib_gemm_desc_hash(const nib_gemm_desc *desc);
bool nib_weight_desc_equal(const nib_weight_desc *a, const nib_weight_desc *b);

/* Bytes one gemm or weight line takes at most, NUL included. */
#define NIB_DESC_LINE_BYTES 320

#endif
