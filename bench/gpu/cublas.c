/* SPDX-License-Identifier: Apache-2.0
 *
 * cublasGemmEx and cublasLtMatmul with own prototypes, f32 accumulation, the library's own choice
 * of kernel. e4m3 uses its fast accumulation, the harder baseline.
 */
#include "gpu/cublas.h"

#include "gpu/rounds.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* cublasOperation_t, cudaDataType_t, cublasComputeType_t, cublasGemmAlgo_t */
       OP_N = 0,
       OP_T = 1,
       R_32F = 0,
       R_16F = 2,
       R_16BF = 14,
       R_8F_E4M3 = 28,
       COMPUTE_32F = 68,
       ALGO_DEFAULT = -1
};

enum { /* cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t */
       DESC_TRANSA = 3,
       DESC_TRANSB = 4,
       DESC_FAST_ACCUM = 25,
       PREF_WORKSPACE = 1
};

#define WORKSPACE_BYTES ((size_t)64 << 20) /* given, since a captured call must not allocate */

/* cublasLtMatmulHeuristicResult_t */
typedef struct heuristic {
    unsigned long long algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} heuristic;

static struct {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*version)(void *, int *);
    int (*set_stream)(void *, void *);
    int (*set_workspace)(void *, void *, size_t);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *,
                int, int, const void *, void *, int, int, int, int);
} cublas;

static struct {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*desc_create)(void **, int, int);
    int (*desc_destroy)(void *);
    int (*desc_set)(void *, int, const void *, size_t);
    int (*layout_create)(void **, int, uint64_t, uint64_t, int64_t);
    int (*layout_destroy)(void *);
    int (*preference_create)(void **);
    int (*preference_destroy)(void *);
    int (*preference_set)(void *, int, const void *, size_t);
    int (*choose)(void *, void *, void *, void *, void *, void *, void *, int, heuristic *, int *);
    int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *,
                  const void *, const void *, void *, void *, void *, const void *, void *, size_t,
                  void *);
} lt;

static bool find(void *library, const char *symbol, void *entry)
{
    void *found = dlsym(library, symbol);
    memcpy(entry, &found, sizeof(found));
    return found;
}

/* ---- the libraries ---- */

static bool open_lt(bench_cublas *b, const char *path)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                        "/usr/local/cuda/lib64/libcublasLt.so"};
    char beside[4096] = "";
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        snprintf(beside, sizeof(beside), "%.*s/libcublasLt.so", (int)(slash - path), path);
    b->lt_library = slash ? dlopen(beside, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !b->lt_library; i++)
        b->lt_library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    void *l = b->lt_library;
    return l && find(l, "cublasLtCreate", &lt.create) && find(l, "cublasLtDestroy", &lt.destroy) &&
           find(l, "cublasLtMatmulDescCreate", &lt.desc_create) &&
           find(l, "cublasLtMatmulDescDestroy", &lt.desc_destroy) &&
           find(l, "cublasLtMatmulDescSetAttribute", &lt.desc_set) &&
           find(l, "cublasLtMatrixLayoutCreate", &lt.layout_create) &&
           find(l, "cublasLtMatrixLayoutDestroy", &lt.layout_destroy) &&
           find(l, "cublasLtMatmulPreferenceCreate", &lt.preference_create) &&
           find(l, "cublasLtMatmulPreferenceDestroy", &lt.preference_destroy) &&
           find(l, "cublasLtMatmulPreferenceSetAttribute", &lt.preference_set) &&
           find(l, "cublasLtMatmulAlgoGetHeuristic", &lt.choose) &&
           find(l, "cublasLtMatmul", &lt.matmul) && !lt.create(&b->lt_handle);
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
    if (!open_lt(b, path))
        b->lt_handle = NULL;
    if (bench_cuda_alloc(cuda, WORKSPACE_BYTES, &b->workspace) &&
        !cublas.set_stream(b->handle, cuda->stream) &&
        !cublas.set_workspace(b->handle, (void *)(uintptr_t)b->workspace, WORKSPACE_BYTES))
        return true;
    bench_cublas_close(b, cuda);
    return false;
}

void bench_cublas_close(bench_cublas *b, bench_cuda *cuda)
{
    if (b->handle)
        cublas.destroy(b->handle);
    if (b->lt_handle)
        lt.destroy(b->lt_handle);
    bench_cuda_free(cuda, b->workspace);
    *b = (bench_cublas){0};
}

/* ---- weights ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* To a float with this many bits of mantissa and this bias, ties to even; what is beyond its
 * largest finite value becomes that, what is below its normal numbers zero. Good enough for
 * weights. */
static uint32_t narrow(float value, int mantissa, int bias, uint32_t largest)
{
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff, drop = (uint32_t)(23 - mantissa);
    uint32_t base = (uint32_t)(127 - bias) << mantissa, sign = bits >> 31;
    magnitude += (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
    uint32_t small = magnitude >> drop;
    small = small <= base + (1u << mantissa) - 1 ? 0 : small - base;
    small = small > largest ? largest : small;
    return small | sign << (mantissa == 10 || mantissa == 7 ? 15 : 7);
}

static void *convert(const float *values, int64_t count, nib_type type, float scale)
{
    void *out = malloc((size_t)count * (type == NIB_E4M3 ? 1 : 2));
    if (!out)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        float value = values[i] * scale;
        if (type == NIB_F16)
            ((uint16_t *)out)[i] = (uint16_t)narrow(value, 10, 15, 0x7bff);
        else if (type == NIB_BF16)
            ((uint16_t *)out)[i] = (uint16_t)narrow(value, 7, 127, 0x7f7f);
        else
            ((uint8_t *)out)[i] = (uint8_t)narrow(value, 3, 7, 0x7e);
    }
    return out;
}

/* A power of two that brings the largest weight near e4m3's largest value. */
static float e4m3_scale(const bench_dense_source *s)
{
    float most = 0;
    int exponent;
    for (int64_t i = 0; i < s->n * s->k; i++) {
        float w = fabsf(s->weights[i]);
        most = w > most ? w : most;
    }
    frexpf(most, &exponent);
    return most > 0 ? ldexpf(1, 8 - exponent) : 1;
}

static int vendor_type(nib_type type)
{
    return type == NIB_F16 ? R_16F : type == NIB_BF16 ? R_16BF : R_8F_E4M3;
}

bool bench_dense_open(bench_dense *d, bench_cublas *b, bench_cuda *cuda,
                      const bench_dense_source *s)
{
    size_t bytes = s->type == NIB_E4M3 ? 1 : 2, one = (size_t)(s->n * s->k) * bytes;
    size_t act = (size_t)(s->m * s->k) * bytes;
    *d = (bench_dense){.cublas = b,
                       .n = s->n,
                       .k = s->k,
                       .type = s->type,
                       .out_type = s->out_type,
                       .scale = s->type == NIB_E4M3 && s->weights ? e4m3_scale(s) : 1};
    if (s->type == NIB_E4M3 && !b->lt_handle) {
        fprintf(stderr, "bench: there is no cublasLt, so no e4m3 baseline\n");
        return false;
    }
    int copies = bench_copies_of(one, s->bytes);
    void *weights = s->weights ? convert(s->weights, s->n * s->k, s->type, d->scale) : NULL;
    void *rows = convert(s->act, s->m * s->k, s->type, 1);
    d->weights = calloc((size_t)copies, sizeof(*d->weights));
    bool good = (weights || !s->weights) && rows && d->weights &&
                bench_cuda_alloc(cuda, act, &d->act) &&
                bench_cuda_alloc(cuda, (size_t)(s->m * s->n) * 2, &d->out) &&
                bench_cuda_upload(cuda, d->act, rows, act);
    for (; good && d->copies < copies; d->copies += good)
        good = bench_cuda_alloc(cuda, one, &d->weights[d->copies]) &&
               (!weights || bench_cuda_upload(cuda, d->weights[d->copies], weights, one));
    free(weights);
    free(rows);
    return good;
}

static void forget_plan(bench_dense *d)
{
    for (int i = 0; i < 3; i++)
        if (d->layout[i])
            lt.layout_destroy(d->layout[i]);
    if (d->preference)
        lt.preference_destroy(d->preference);
    if (d->desc)
        lt.desc_destroy(d->desc);
    d->layout[0] = d->layout[1] = d->layout[2] = d->preference = d->desc = NULL;
}

void bench_dense_close(bench_dense *d, bench_cuda *cuda)
{
    forget_plan(d);
    for (int i = 0; i < d->copies; i++)
        bench_cuda_free(cuda, d->weights[i]);
    bench_cuda_free(cuda, d->act);
    bench_cuda_free(cuda, d->out);
    free(d->weights);
    *d = (bench_dense){0};
}

/* ---- calls ---- */

/* Column-major there: D [n, m] = (W [k, n])^T times act [k, m]. */
static bool plan_lt(bench_dense *d)
{
    int transpose = OP_T, plain = OP_N, found = 0;
    size_t workspace = WORKSPACE_BYTES;
    signed char fast = 1;
    uint64_t n = (uint64_t)d->n, k = (uint64_t)d->k, m = (uint64_t)d->m;
    heuristic best;
    forget_plan(d);
    if (lt.desc_create(&d->desc, COMPUTE_32F, R_32F) ||
        lt.desc_set(d->desc, DESC_TRANSA, &transpose, sizeof(transpose)) ||
        lt.desc_set(d->desc, DESC_TRANSB, &plain, sizeof(plain)) ||
        lt.desc_set(d->desc, DESC_FAST_ACCUM, &fast, sizeof(fast)) ||
        lt.layout_create(&d->layout[0], vendor_type(d->type), k, n, d->k) ||
        lt.layout_create(&d->layout[1], vendor_type(d->type), k, m, d->k) ||
        lt.layout_create(&d->layout[2], vendor_type(d->out_type), n, m, d->n) ||
        lt.preference_create(&d->preference) ||
        lt.preference_set(d->preference, PREF_WORKSPACE, &workspace, sizeof(workspace)) ||
        lt.choose(d->cublas->lt_handle, d->desc, d->layout[0], d->layout[1], d->layout[2],
                  d->layout[2], d->preference, 1, &best, &found) ||
        !found)
        return false;
    memcpy(d->algorithm, best.algorithm, sizeof(best.algorithm));
    return true;
}

bool bench_dense_rows(bench_dense *d, int64_t m)
{
    d->m = m;
    if (d->type != NIB_E4M3 || plan_lt(d))
        return true;
    fprintf(stderr, "bench: cublasLt has no e4m3 kernel for n=%lld k=%lld m=%lld\n",
            (long long)d->n, (long long)d->k, (long long)m);
    return false;
}

int bench_dense_launch(void *user, int64_t call, void *stream)
{
    bench_dense *d = user;
    const float zero = 0, alpha = 1 / d->scale;
    const void *weights = (const void *)(uintptr_t)d->weights[call % d->copies];
    const void *act = (const void *)(uintptr_t)d->act;
    void *out = (void *)(uintptr_t)d->out;
    int type = vendor_type(d->type), out_type = vendor_type(d->out_type);
    if (d->type == NIB_E4M3)
        return lt.matmul(d->cublas->lt_handle, d->desc, &alpha, weights, d->layout[0], act,
                         d->layout[1], &zero, out, d->layout[2], out, d->layout[2], d->algorithm,
                         (void *)(uintptr_t)d->cublas->workspace, WORKSPACE_BYTES, stream);
    /* The stream was set when the library was opened. */
    return cublas.gemm(d->cublas->handle, OP_T, OP_N, (int)d->n, (int)d->m, (int)d->k, &alpha,
                       weights, type, (int)d->k, act, type, (int)d->k, &zero, out, out_type,
                       (int)d->n, COMPUTE_32F, ALGO_DEFAULT);
}
