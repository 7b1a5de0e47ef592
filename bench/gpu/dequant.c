/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence: see dequant.h.
 */
#include "gpu/dequant.h"

#include "gpu/nvrtc.h"
#include "gpu/rounds.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK   16 /* weights a thread makes at once */
#define THREADS 256
#define BLOCKS  8 /* a multiprocessor */

bool bench_dequant_can(const nib_gemm_desc *desc)
{
    const nib_weight_desc *w = &desc->weight;
    int64_t group = w->group == NIB_GROUP_ROW ? w->k : w->group;
    return w->type == NIB_I4 && w->zero == NIB_ZERO_NONE && !w->flags && group > 0 &&
           group % CHUNK == 0 && w->k % CHUNK == 0 && w->scale_type == desc->act_type &&
           (desc->act_type == NIB_F16 || desc->act_type == NIB_BF16);
}

static bool load_kernel(bench_dequant *d, nib_type type)
{
    char why[512];
    int cc = d->cuda->cc < 90 ? d->cuda->cc : 90;
    char *ptx = bench_nvrtc_compile("kernels/dequant.cu",
                                    type == NIB_BF16 ? "NIB_DEQUANT_BF16=1" : "NIB_DEQUANT_BF16=0",
                                    cc, why, sizeof(why));
    if (!ptx)
        fprintf(stderr, "bench: %s\n", why);
    bool good = ptx && bench_cuda_load(d->cuda, ptx, "nib_dequant", 0, &d->kernel);
    free(ptx);
    return good;
}

bool bench_dequant_open(bench_dequant *d, bench_cublas *b, bench_cuda *cuda,
                        const nib_weight_desc *weight, const void *codes, const void *scales,
                        const bench_dense_source *source)
{
    size_t codes_bytes, scales_bytes;
    bench_dense_source one = *source;
    one.bytes = 0;
    one.weights = NULL; /* the kernel writes them */
    *d = (bench_dequant){.cuda = cuda,
                         .group = weight->group == NIB_GROUP_ROW ? weight->k : weight->group};
    if (nib_weight_desc_bytes(weight, &codes_bytes, &scales_bytes, NULL, &d->groups) ||
        !load_kernel(d, source->type))
        return false;
    d->codes_bytes = codes_bytes;
    d->scales_bytes = scales_bytes;
    int copies = bench_copies_of(codes_bytes + scales_bytes, source->bytes);
    bool good = bench_cuda_alloc(cuda, codes_bytes * (size_t)copies, &d->codes) &&
                bench_cuda_alloc(cuda, scales_bytes * (size_t)copies, &d->scales) &&
                bench_dense_open(&d->dense, b, cuda, &one);
    for (; good && d->copies < copies; d->copies += good)
        good = bench_cuda_upload(cuda, d->codes + d->codes_bytes * (uint64_t)d->copies, codes,
                                 codes_bytes) &&
               bench_cuda_upload(cuda, d->scales + d->scales_bytes * (uint64_t)d->copies, scales,
                                 scales_bytes);
    /* What the kernel does not write must show. */
    return good && bench_cuda_fill(cuda, d->dense.weights[0], BENCH_POISON,
                                   (size_t)(weight->n * weight->k) * 2);
}

void bench_dequant_close(bench_dequant *d)
{
    if (!d->cuda)
        return;
    bench_dense_close(&d->dense, d->cuda);
    bench_cuda_free(d->cuda, d->codes);
    bench_cuda_free(d->cuda, d->scales);
    bench_cuda_unload(d->cuda, &d->kernel);
    *d = (bench_dequant){0};
}

int bench_dequant_launch(void *user, int64_t call, void *stream)
{
    bench_dequant *d = user;
    uint64_t copy = (uint64_t)(call % d->copies);
    bench_cuda_memory codes = d->codes + copy * d->codes_bytes;
    bench_cuda_memory scales = d->scales + copy * d->scales_bytes;
    unsigned long long count = (unsigned long long)(d->dense.n * d->dense.k / CHUNK);
    unsigned row = (unsigned)(d->dense.k / CHUNK), group = (unsigned)(d->group / CHUNK);
    unsigned groups = (unsigned)d->groups;
    void *parameters[] = {&codes, &scales, &d->dense.weights[0], &count, &row, &group, &groups};
    return !bench_cuda_launch(d->cuda, &d->kernel, BLOCKS * (unsigned)d->cuda->units, THREADS, 0,
                              parameters, stream) ||
           bench_dense_launch(&d->dense, call, stream);
}
