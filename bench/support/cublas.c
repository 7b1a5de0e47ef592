/* SPDX-License-Identifier: Apache-2.0
 *
 * cublasGemmEx with own prototypes: f16 in and out, f32 accumulation, the library's own choice of
 * kernel.
 */
#include "support/cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* cublasOperation_t, cudaDataType_t, cublasComputeType_t, cublasGemmAlgo_t */
       OP_N = 0,
       OP_T = 1,
       R_16F = 2,
       COMPUTE_32F = 68,
       ALGO_DEFAULT = -1
};

#define WORKSPACE_BYTES ((size_t)64 << 20) /* given, since a captured call must not allocate */

static struct {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*version)(void *, int *);
    int (*set_stream)(void *, void *);
    int (*set_workspace)(void *, void *, size_t);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *,
                int, int, const void *, void *, int, int, int, int);
} cublas;

static bool find(void *library, const char *symbol, void *entry)
{
    void *found = dlsym(library, symbol);
    memcpy(entry, &found, sizeof(found));
    return found;
}

bool bench_cublas_open(bench_cublas *b, bench_cuda *cuda, const char *path, char *why,
                       size_t why_bytes)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    *b = (bench_cublas){0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !b->library; i++)
        b->library = dlopen(path ? path : names[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->library) {
        snprintf(why, why_bytes, "%s", dlerror());
        return false;
    }
    snprintf(why, why_bytes, "it lacks an entry or does not start");
    if (!find(b->library, "cublasCreate_v2", &cublas.create) ||
        !find(b->library, "cublasDestroy_v2", &cublas.destroy) ||
        !find(b->library, "cublasGetVersion_v2", &cublas.version) ||
        !find(b->library, "cublasSetStream_v2", &cublas.set_stream) ||
        !find(b->library, "cublasSetWorkspace_v2", &cublas.set_workspace) ||
        !find(b->library, "cublasGemmEx", &cublas.gemm) || cublas.create(&b->handle))
        return false;
    cublas.version(b->handle, &b->version);
    if (bench_cuda_alloc(cuda, WORKSPACE_BYTES, &b->workspace) &&
        !cublas.set_stream(b->handle, cuda->stream) &&
        !cublas.set_workspace(b->handle, (void *)(uintptr_t)b->workspace, WORKSPACE_BYTES))
        return true;
    bench_cublas_close(b, cuda);
    return false;
}

void bench_cublas_close(bench_cublas *b, bench_cuda *cuda)
{
    bench_cublas_unload(b, cuda);
    if (b->handle)
        cublas.destroy(b->handle);
    bench_cuda_free(cuda, b->workspace);
    *b = (bench_cublas){0};
}

/* To f16, ties to even; the weights here are in its range, and what is subnormal becomes zero. */
static uint16_t to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude < 0x38800000)
        return (uint16_t)(bits >> 16 & 0x8000);
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)((bits >> 16 & 0x8000) | ((magnitude >> 13) - (112 << 10)));
}

static uint16_t *dense_f16(const bench_problem *p)
{
    int64_t count = p->weight.n * p->weight.k;
    uint16_t *out = malloc((size_t)count * sizeof(*out));
    if (!out)
        return NULL;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t i = 0; i < count; i++)
        out[i] = to_f16(p->dense[i]);
    return out;
}

bool bench_cublas_load(bench_cublas *b, bench_cuda *cuda, const bench_problem *p, uint64_t bytes)
{
    size_t one = (size_t)(p->weight.n * p->weight.k) * 2;
    size_t act = (size_t)(p->m * p->weight.k) * 2, out = (size_t)(p->m * p->weight.n) * 2;
    uint16_t *weights = dense_f16(p);
    int copies = (int)(bytes / one) + 1;
    b->n = p->weight.n;
    b->k = p->weight.k;
    b->weights = calloc((size_t)copies, sizeof(*b->weights));
    bool good = weights && b->weights && bench_cuda_alloc(cuda, act, &b->act) &&
                bench_cuda_alloc(cuda, out, &b->out) &&
                bench_cuda_upload(cuda, b->act, p->act_f16, act);
    for (; good && b->copies < copies; b->copies += good)
        good = bench_cuda_alloc(cuda, one, &b->weights[b->copies]) &&
               bench_cuda_upload(cuda, b->weights[b->copies], weights, one);
    free(weights);
    if (!good)
        bench_cublas_unload(b, cuda);
    return good;
}

void bench_cublas_unload(bench_cublas *b, bench_cuda *cuda)
{
    for (int i = 0; i < b->copies; i++)
        bench_cuda_free(cuda, b->weights[i]);
    bench_cuda_free(cuda, b->act);
    bench_cuda_free(cuda, b->out);
    free(b->weights);
    b->weights = NULL;
    b->act = b->out = 0;
    b->copies = 0;
}

int bench_cublas_launch(void *user, int64_t call, void *stream)
{
    bench_cublas *b = user;
    const float one = 1, zero = 0;
    const void *weights = (const void *)(uintptr_t)b->weights[call % b->copies];
    (void)stream; /* set when it was opened */
    /* Column-major there: C [n, m] = W^T-transposed [n, k] times act [k, m]. */
    return cublas.gemm(b->handle, OP_T, OP_N, (int)b->n, (int)b->m, (int)b->k, &one, weights, R_16F,
                       (int)b->k, (const void *)(uintptr_t)b->act, R_16F, (int)b->k, &zero,
                       (void *)(uintptr_t)b->out, R_16F, (int)b->n, COMPUTE_32F, ALGO_DEFAULT);
}
