/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies behind the public handles, shared by the files of this folder, and hooks for the tests.
 */
#ifndef NIB_API_INTERNAL_H
#define NIB_API_INTERNAL_H

#include "config/desc.h"
#include "formats/nibfile.h"
#include "layout/layout.h"
#include "plan/plan.h"

#include <pthread.h>
#include <stdatomic.h>

/* The three layouts of packed weights, parsed, with their canonical texts and one hash of all. */
typedef struct nib_packing {
    nib_layout codes, scales, zeros;
    char codes_text[NIB_LAYOUT_TEXT_BYTES];
    char scales_text[NIB_LAYOUT_TEXT_BYTES];
    char zeros_text[NIB_LAYOUT_TEXT_BYTES];
    uint64_t hash;
} nib_packing;

struct nib_gemm {
    nib_device *dev;
    nib_gemm_desc desc;
    nib_packing packing;
    nib_plan plan;
    pthread_mutex_t prepare_lock;
    _Atomic(void *) *kernels; /* by candidate; NULL until prepared */
};

struct nib_weights {
    nib_device *dev; /* owns the memory of `packed` */
    nib_weight_desc desc;
    nib_packing packing;
    nib_packed packed;
    void *memory;   /* device memory of all sections; NULL when they are in a file's mapping */
    nib_file *file; /* the mapping, when these weights own it */
    uint64_t memory_bytes;
};

/* Parses a packing from three texts (scales and zeros may be NULL where the description has none).
 */
nib_status nib_packing_make(const nib_weight_desc *desc, const char *codes, const char *scales,
                            const char *zeros, nib_packing *out);

/* Bytes of each section of packed weights, absent ones 0. */
nib_status nib_packing_bytes(const nib_packing *packing, const nib_weight_desc *desc,
                             size_t bytes[NIB_SECTION_KINDS]);

/* Weights of a gemm with fresh device memory and nothing in it. */
nib_status nib_weights_new(nib_gemm *gemm, float alpha, nib_weights **out);

/* The sections of weights where they are, in the device's memory. */
nib_status nib_weights_in_place(const nib_weights *weights, nib_stored_weights *out);

/* The matrix whose planes are the sections from `first` on, in the layout of `text`. */
nib_status nib_stored_matrix(const nib_stored_weights *stored, const char *text, int32_t bits,
                             int64_t n, int64_t k, int first, nib_layout *made, nib_matrix *out);

/* The sections of weights as host memory: the memory itself, or a copy that `owned` then holds. */
nib_status nib_weights_host(const nib_weights *weights, nib_stored_weights *out, void **owned);

/* Weights from stored ones (a .nib tensor, or other weights on the host), converted for a gemm:
 * the region [n0, n1) x [k0, k1), which must match the gemm's extents. */
nib_status nib_weights_from_stored(const nib_stored_weights *stored, int64_t n0, int64_t n1,
                                   int64_t k0, int64_t k1, nib_gemm *gemm, nib_weights **out);

/* Test hooks: candidates by index, and a plan that uses one of them wherever it can. Only before
 * nib_gemm_prepare. */
int32_t nib_gemm_variant_count(const nib_gemm *gemm);
const nib_candidate *nib_gemm_variant(const nib_gemm *gemm, int32_t index);
nib_status nib_gemm_force_variant(nib_gemm *gemm, const char *id);

#endif
