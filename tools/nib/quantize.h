/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside `nib quantize`: verb_quantize.c decides what happens to each tensor of a file,
 * quantize_tensor.c does it to one.
 */
#ifndef NIB_TOOL_QUANTIZE_H
#define NIB_TOOL_QUANTIZE_H

#include "tool.h"

typedef struct quantize_how {
    const char *type, *group, *scale, *zero;
    nib_quantizer method;
    double percentile;
    int64_t iterations, threads;
} quantize_how;

/* Progress of the whole file: `done` is in weights. */
typedef struct quantize_progress {
    tool_progress bar;
    double done;
} quantize_progress;

/* What became of a tensor. */
typedef struct quantize_outcome {
    nib_weight_desc desc;
    nib_quantize_report report;
    uint64_t bytes; /* codes, scales and zeros */
} quantize_outcome;

/* The description for a matrix [n, k]; a group longer than k becomes a row. */
tool_exit tool_quantize_desc(const quantize_how *how, int64_t n, int64_t k, nib_weight_desc *desc);

/* Quantises a 2-D tensor, measures the result and adds it to the writer. Memory: the weights as f32
 * (none if the file holds f32) and the codes; the file's pages are given back as they are read. */
tool_exit tool_quantize_tensor(const nib_file *file, int64_t index, const nib_tensor *tensor,
                               const quantize_how *how, nib_writer *writer,
                               quantize_progress *progress, quantize_outcome *outcome);

/* Adds a dense tensor as it is, or as f32 when a .nib file has no such type (*converted). */
tool_exit tool_copy_tensor(const nib_file *file, int64_t index, const nib_tensor *tensor,
                           nib_writer *writer, bool *converted);

/* Tells the system that a part of a mapping will not be needed again. */
void tool_forget_pages(const void *data, uint64_t bytes);

#endif
