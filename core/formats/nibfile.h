/* SPDX-License-Identifier: Apache-2.0
 *
 * The .nib container below the public interface: named tensors made of checked sections. The public
 * nib_file_* functions read it like any other format; core/api uses these to load and store packed
 * weights without a copy.
 */
#ifndef NIB_FORMATS_NIBFILE_H
#define NIB_FORMATS_NIBFILE_H

#include "layout/layout.h"

/* Sections of a weights tensor. Codes have one section a plane. */
typedef enum nib_section_kind {
    NIB_SECTION_CODES0 = 0,
    NIB_SECTION_CODES1 = 1,
    NIB_SECTION_CODES2 = 2,
    NIB_SECTION_SCALES = 3,
    NIB_SECTION_ZEROS = 4,
    NIB_SECTION_G_IDX = 5,
    NIB_SECTION_TABLE = 6,
    NIB_SECTION_KINDS = 7
} nib_section_kind;

/* Weights as stored: texts and sections, absent sections NULL with 0 bytes. When read, everything
 * points into the mapping; sections start at multiples of 64 bytes. */
typedef struct nib_stored_weights {
    nib_weight_desc desc;
    float alpha;
    const char *layout, *scale_layout, *zero_layout; /* concrete layout texts */
    const void *section[NIB_SECTION_KINDS];
    size_t bytes[NIB_SECTION_KINDS];
} nib_stored_weights;

/* The weights of tensor `index`. Descriptions, layout texts and section sizes have been checked
 * against each other when the file was opened; the checksums of the sections are checked here.
 * NIB_INVALID: a dense tensor. NIB_CORRUPT: a checksum is off, by section and offset. */
nib_status nib_file_stored_weights(const nib_file *file, int64_t index, nib_stored_weights *out);

/* Rows r0..r1 of weights as f32, alpha included, row stride ldo. */
nib_status nib_stored_read_f32(const nib_stored_weights *weights, int64_t r0, int64_t r1,
                               float *out, int64_t ldo);

/* What packing and writing ask of a source beside its arrays: flags that make sense, a table and
 * g_idx where the (canonical) description has them, indices in range. */
nib_status nib_source_check(const nib_weight_desc *desc, const nib_weight_source *source);
/* What happens to a checked source's zeros on their way, as its flags and zero_offset say. */
nib_copy_change nib_source_zero_change(const nib_weight_desc *desc,
                                       const nib_weight_source *source);

nib_status nib_writer_add_stored(nib_writer *writer, const char *name,
                                 const nib_stored_weights *weights);

#endif
