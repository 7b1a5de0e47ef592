/* SPDX-License-Identifier: Apache-2.0
 *
 * What tensors of files are made of: elements, or blocks of elements that share a scale. Each
 * format has a table of these rows under the names it uses; element.c has the decoding functions.
 */
#ifndef NIB_FORMATS_ELEMENT_H
#define NIB_FORMATS_ELEMENT_H

#include <nibblas/nibblas.h>

/* Decodes `count` elements, a whole number of blocks. `from` need not be aligned. */
typedef void nib_element_fn(const unsigned char *from, int64_t count, float *to);

/* How blocks read as weights: which layouts find codes, scales and zeros in them. */
typedef struct nib_block_weights {
    nib_type type;
    nib_type scale_type;
    nib_zero zero;
    nib_type zero_type;
    uint32_t source_flags;
    const char *layout, *scale_layout, *zero_layout;
} nib_block_weights;

typedef struct nib_element {
    const char *name;     /* as the file says */
    nib_type type;        /* NIB_TYPE_NONE for blocks, and for numbers nibblas has no type for */
    int32_t block;        /* elements */
    int32_t bytes;        /* of a block */
    nib_element_fn *read; /* NULL: the size is known but not the contents */
    const nib_block_weights *weights; /* NULL: dense, or blocks that are no groups */
} nib_element;

nib_element_fn nib_element_f32, nib_element_f16, nib_element_bf16, nib_element_f64;
nib_element_fn nib_element_i8, nib_element_i16, nib_element_i32, nib_element_i64;
nib_element_fn nib_element_u8, nib_element_u16, nib_element_u32, nib_element_u64;
nib_element_fn nib_element_e4m3, nib_element_e5m2, nib_element_e8m0;
nib_element_fn nib_element_q4_0, nib_element_q4_1, nib_element_q5_0, nib_element_q5_1;
nib_element_fn nib_element_q8_0, nib_element_mxfp4;

#endif
