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
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    pthread_barrier_t ready,
        done; /* of all workers and the test, round the runs that are counted */
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

static bool equal_bits(shared *s, void *workspace, float *out)
{
    memset(out, 0, M_MAX * N * sizeof(float));
    return run_once(s, workspace, out) == NIB_OK &&
           !memcmp(out, s->expected, M_MAX * N * sizeof(float));
}

/* A thread that prepared nothing itself. */
static void *worker(void *given)
{
    shared *s = given;
    void *workspace = aligned_alloc(64, (s->workspace_bytes + 64) / 64 * 64);
    float *out = malloc(M_MAX * N * sizeof(float));
    pthread_barrier_wait(&s->ready);
    for (int i = 0; i < ROUNDS; i++)
        if (!equal_bits(s, workspace, out))
            atomic_fetch_add(&s->wrong, 1);
    pthread_barrier_wait(&s->done);
    free(out);
    free(workspace);
    return NULL;
}

static float act[M_MAX * K], expected[M_MAX * N];

static void make(shared *s, nib_device *dev, const char *line)
{
    static unsigned char codes[N * K];
    static float scales[N * 8];
    nib_gemm_desc desc;
    test_random random = {test_seed(3)};
    memset(s, 0, sizeof(*s));
    for (int i = 0; i < M_MAX * K; i++)
        act[i] = (float)test_random_unit(&random);
    for (int i = 0; i < N * K; i++)
        codes[i] = (unsigned char)test_random_next(&random);
    for (int i = 0; i < N * 8; i++)
        scales[i] = (float)test_random_unit(&random);
    s->act = act;
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(dev, &desc, &s->gemm), NIB_OK, "%s", nib_last_message());
    nib_weight_source source = {.size = sizeof(source), .codes = codes, .scales = scales};
    cr_assert_eq(nib_weights_pack(s->gemm, &source, &s->weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_workspace(s->gemm, M_MAX, &s->workspace_bytes), NIB_OK);
    cr_assert_eq(nib_gemm_prepare(s->gemm, 1, M_MAX), NIB_OK, "%s", nib_last_message());
}

static void drop(shared *s)
{
    nib_weights_destroy(s->weights);
    nib_gemm_destroy(s->gemm);
}

static const int64_t rows[] = {1, 5, M_MAX};

static void check_line(nib_device *dev, const char *line)
{
    shared s;
    make(&s, dev, line);
    void *workspace = aligned_alloc(64, (s.workspace_bytes + 64) / 64 * 64);
    for (int i = 0; i < 3; i++) {
        s.m = rows[i];
        memset(expected, 0, sizeof(expected));
        atomic_store(&allocations, 0);
        atomic_store(&counting, 1);
        nib_status status = run_once(&s, workspace, expected);
        atomic_store(&counting, 0);
        cr_assert_eq(status, NIB_OK, "%s", nib_last_message());
        s.expected = expected;
        pthread_t threads[THREADS];
        pthread_barrier_init(&s.ready, NULL, THREADS + 1);
        pthread_barrier_init(&s.done, NULL, THREADS + 1);
        for (int t = 0; t < THREADS; t++)
            cr_assert_eq(pthread_create(&threads[t], NULL, worker, &s), 0);
        pthread_barrier_wait(&s.ready);
        atomic_store(&counting, 1);
        pthread_barrier_wait(&s.done);
        atomic_store(&counting, 0);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        pthread_barrier_destroy(&s.ready);
        pthread_barrier_destroy(&s.done);
        cr_expect_eq(atomic_load(&allocations), 0, "%s m=%ld: %d allocations", line, (long)s.m,
                     atomic_load(&allocations));
        cr_expect_eq(atomic_load(&s.wrong), 0, "%s m=%ld", line, (long)s.m);
    }
    free(workspace);
    drop(&s);
}

static nib_device *open_device(nib_context **ctx)
{
    nib_device *dev;
    cr_assert_eq(nib_context_create(NULL, ctx), NIB_OK);
    cr_assert_eq(nib_device_open(*ctx, "cpu", &dev), NIB_OK, "%s", nib_last_message());
    return dev;
}

Test(run_rules, no_allocation_and_equal_bits_from_sixteen_threads)
{
    nib_context *ctx;
    nib_device *dev = open_device(&ctx);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        check_line(dev, lines[i]);
    nib_device_close(dev);
    nib_context_destroy(ctx);
}

Test(run_rules, bits_do_not_depend_on_the_number_of_threads)
{
    static const char *const counts[] = {"1", "2", "3", "7"};
    static float out[M_MAX * N];
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        for (int c = 0; c < 4; c++) {
            nib_context *ctx;
            shared s;
            setenv("OMP_NUM_THREADS", counts[c], 1);
            nib_device *dev = open_device(&ctx);
            make(&s, dev, lines[i]);
            void *workspace = aligned_alloc(64, (s.workspace_bytes + 64) / 64 * 64);
            s.m = 13;
            s.expected = expected;
            if (c == 0)
                memset(expected, 0, sizeof(expected));
            if (c == 0)
                cr_assert_eq(run_once(&s, workspace, expected), NIB_OK, "%s", nib_last_message());
            cr_expect(equal_bits(&s, workspace, out), "%s with %s threads", lines[i], counts[c]);
            free(workspace);
            drop(&s);
            nib_device_close(dev);
            nib_context_destroy(ctx);
        }
}

Test(run_rules, a_forked_child_computes_the_same_alone, .timeout = 60)
{
    static float out[M_MAX * N];
    nib_context *ctx;
    shared s;
    nib_device *dev = open_device(&ctx);
    make(&s, dev, lines[0]);
    void *workspace = aligned_alloc(64, (s.workspace_bytes + 64) / 64 * 64);
    s.m = M_MAX;
    s.expected = expected;
    cr_assert_eq(run_once(&s, workspace, expected), NIB_OK);
    pid_t child = fork();
    if (child == 0) {
        bool right = equal_bits(&s, workspace, out);
        drop(&s);
        nib_device_close(dev);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_expect(equal_bits(&s, workspace, out));
    free(workspace);
    drop(&s);
    nib_device_close(dev);
    nib_context_destroy(ctx);
}
