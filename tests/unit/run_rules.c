/* SPDX-License-Identifier: Apache-2.0
 *
 * What nib_gemm_run promises: it does not allocate, and one gemm run from many threads at once
 * gives the same bits as alone.
 */
#include "support/random.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <nibblas/nibblas.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Every allocation of the process, OpenMP's included, passes here while counting is on.
 * AddressSanitizer needs malloc for itself, so its build counts nothing. */
static atomic_int counting, allocations;

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void note(void)
{
    if (atomic_load(&counting))
        atomic_fetch_add(&allocations, 1);
}

void *malloc(size_t bytes)
{
    note();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    note();
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    note();
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    note();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    note();
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : 12;
}
#endif

enum { N = 80, K = 160, M_MAX = 130, THREADS = 16, ROUNDS = 8 };

static const char *const lines[] = {
    "n=80 k=160 w=i4 g=32 s=f32 a=f32 o=f32",
    "n=80 k=160 w=nf4 g=32 s=f32 a=f32 o=f32 e=silu_gated",
    "n=80 k=160 w=u3 g=20 s=f32 a=f32 o=f32",
    "n=80 k=160 w=i4 g=32 s=f32 a=f32 o=f32 f=act_dynamic_i8",
    "n=80 k=160 w=i8 g=row s=f32 a=i8 o=f32",
    "n=80 k=160 w=i4 g=32 s=f32 a=f32 o=f32 f=batch_invariant",
};

typedef struct shared {
    nib_gemm *gemm;
    nib_weights *weights;
    const void *act;
    size_t workspace_bytes;
    int64_t m;
    const float *expected;
    atomic_int wrong;
} shared;

static nib_status run_once(const shared *s, void *workspace, float *out)
{
    nib_gemm_args args = {.size = sizeof(args),
                          .m = s->m,
                          .act = s->act,
                          .lda = K,
                          .out = out,
                          .ldo = N,
                          .workspace = workspace,
                          .workspace_bytes = s->workspace_bytes};
    return nib_gemm_run(s->gemm, s->weights, &args);
}

static void *worker(void *given)
{
    shared *s = given;
    void *workspace = aligned_alloc(64, (s->workspace_bytes + 64) / 64 * 64);
    float *out = malloc(M_MAX * N * sizeof(float));
    for (int i = 0; i < ROUNDS; i++) {
        memset(out, 0, M_MAX * N * sizeof(float));
        if (run_once(s, workspace, out) || memcmp(out, s->expected, M_MAX * N * sizeof(float)))
            atomic_fetch_add(&s->wrong, 1);
    }
    free(out);
    free(workspace);
    return NULL;
}

static void check_line(nib_device *dev, const char *line)
{
    static float act[M_MAX * K], expected[M_MAX * N];
    static unsigned char codes[N * K];
    static float scales[N * 8];
    nib_gemm_desc desc;
    shared s = {.act = act};
    test_random random = {test_seed(3)};
    for (int i = 0; i < M_MAX * K; i++)
        act[i] = (float)test_random_unit(&random);
    for (int i = 0; i < N * K; i++)
        codes[i] = (unsigned char)test_random_next(&random);
    for (int i = 0; i < N * 8; i++)
        scales[i] = (float)test_random_unit(&random);
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(dev, &desc, &s.gemm), NIB_OK, "%s", nib_last_message());
    nib_weight_source source = {.size = sizeof(source), .codes = codes, .scales = scales};
    cr_assert_eq(nib_weights_pack(s.gemm, &source, &s.weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_workspace(s.gemm, M_MAX, &s.workspace_bytes), NIB_OK);
    cr_assert_eq(nib_gemm_prepare(s.gemm, 1, M_MAX), NIB_OK, "%s", nib_last_message());
    void *workspace = aligned_alloc(64, (s.workspace_bytes + 64) / 64 * 64);
    static const int64_t rows[] = {1, 5, M_MAX};
    for (int i = 0; i < 3; i++) {
        s.m = rows[i];
        memset(expected, 0, sizeof(expected));
        atomic_store(&allocations, 0);
        atomic_store(&counting, 1);
        nib_status status = run_once(&s, workspace, expected);
        atomic_store(&counting, 0);
        cr_assert_eq(status, NIB_OK, "%s", nib_last_message());
        cr_expect_eq(atomic_load(&allocations), 0, "%s m=%ld: %d allocations", line, (long)s.m,
                     atomic_load(&allocations));
        s.expected = expected;
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            cr_assert_eq(pthread_create(&threads[t], NULL, worker, &s), 0);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        cr_expect_eq(atomic_load(&s.wrong), 0, "%s m=%ld", line, (long)s.m);
    }
    free(workspace);
    nib_weights_destroy(s.weights);
    nib_gemm_destroy(s.gemm);
}

Test(run_rules, no_allocation_and_equal_bits_from_sixteen_threads)
{
    nib_context *ctx;
    nib_device *dev;
    cr_assert_eq(nib_context_create(NULL, &ctx), NIB_OK);
    cr_assert_eq(nib_device_open(ctx, "cpu", &dev), NIB_OK, "%s", nib_last_message());
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        check_line(dev, lines[i]);
    nib_device_close(dev);
    nib_context_destroy(ctx);
}
