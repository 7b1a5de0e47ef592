/* SPDX-License-Identifier: Apache-2.0
 *
 * From nib_act_quantize_args to a launch of the quantising kernel: see quantize.h.
 */
#include "variants/quantize.h"

enum {
    LEAST_THREADS = 128,
    MOST_THREADS = 1024,
    WARP = 32,
    KEPT = 4 /* loads of a thread that stay in registers: as in the kernel */
};

void nib_cuda_quantize_spec(const nib_act_quantizer_desc *desc,
                            char text[NIB_CUDA_QUANTIZE_SPEC_BYTES])
{
    nib_cuda_spec spec = {.text = text, .capacity = NIB_CUDA_QUANTIZE_SPEC_BYTES};
    nib_cuda_spec_add(&spec, "NIB_FROM", desc->from);
    nib_cuda_spec_add(&spec, "NIB_TO", desc->to);
    nib_cuda_spec_add(&spec, "NIB_GIVEN", desc->scale == NIB_ACT_SCALE_TENSOR);
}

/* Whether rows of `stride` elements of `bytes` begin at multiples of `align` bytes. */
static bool rows_align(const void *array, int64_t stride, int64_t bytes, int64_t align)
{
    return (uintptr_t)array % (uint64_t)align == 0 && stride % (align / bytes) == 0;
}

void nib_cuda_quantize_make(const nib_act_quantizer_desc *desc, const nib_act_quantize_args *args,
                            nib_cuda_quantize_job *out)
{
    int64_t act_bytes = desc->from == NIB_F32 ? 4 : 2,
            per_load = NIB_CUDA_QUANTIZE_BYTES / act_bytes;
    bool wide = rows_align(args->act, args->lda, act_bytes, NIB_CUDA_QUANTIZE_BYTES) &&
                rows_align(args->out, args->ldo, 1, per_load);
    int64_t loads = (args->k + per_load - 1) / per_load, threads = (loads + KEPT - 1) / KEPT;
    threads = threads < LEAST_THREADS  ? LEAST_THREADS
              : threads > MOST_THREADS ? MOST_THREADS
                                       : (threads + WARP - 1) / WARP * WARP;
    *out = (nib_cuda_quantize_job){
        .grid = args->m > INT32_MAX ? INT32_MAX : (uint32_t)args->m, /* the kernel strides */
        .block = (uint32_t)threads,
        .params = {.act = args->act,
                   .out = args->out,
                   .scale = args->scale,
                   .m = args->m,
                   .k = args->k,
                   .lda = args->lda,
                   .ldo = args->ldo,
                   .vectors = wide ? args->k / per_load : 0}};
}
