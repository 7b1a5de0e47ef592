/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend on simulated GPUs (tests/sim): the real kernels by the real compiler through the
 * whole host side, in a captured graph, from 16 threads and on two devices. Needs NVRTC.
 */
#include "support/image.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <nibblas/nibblas.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SIMULATOR NIB_BINARY_DIR "/lib/libcuda-sim.so"

enum {
    N = 72,
    K = 112,
    GROUP = 28,
    ROWS = 3,
    THREADS = 16,
    ACT_BYTES = ROWS * K * 2,
    OUT_BYTES = ROWS * N * 2,
    CAPTURE_GLOBAL = 0
};

/* The driver's calls that only a caller makes. */
static struct {
    unsigned (*stream_create)(void **, unsigned);
    unsigned (*begin_capture)(void *, int);
    unsigned (*end_capture)(void *, void **);
    unsigned (*instantiate)(void **, void *, unsigned long long);
    unsigned (*graph_launch)(void *, void *);
    unsigned (*retain)(void **, int);
    unsigned (*push)(void *);
    unsigned (*pop)(void **);
    unsigned (*current)(void **);
} cu;

static test_cache cache;
static nib_context *ctx;

static bool find_driver(void)
{
    static const struct {
        const char *name;
        void *place;
    } entries[] = {
        {"cuStreamCreate", &cu.stream_create},   {"cuStreamBeginCapture_v2", &cu.begin_capture},
        {"cuStreamEndCapture", &cu.end_capture}, {"cuGraphInstantiateWithFlags", &cu.instantiate},
        {"cuGraphLaunch", &cu.graph_launch},     {"cuDevicePrimaryCtxRetain", &cu.retain},
        {"cuCtxPushCurrent_v2", &cu.push},       {"cuCtxPopCurrent_v2", &cu.pop},
        {"cuCtxGetCurrent", &cu.current},
    };
    void *library = dlopen(SIMULATOR, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(library, entries[i].name);
        cr_assert(symbol, "the simulator has no %s", entries[i].name);
        memcpy(entries[i].place, &symbol, sizeof(symbol));
    }
    return library != NULL;
}

static void begin(void)
{
    if (!find_driver())
        cr_skip("SKIPPED: there is no simulator");
    test_cache_begin(&cache);
    setenv("NIB_CUDA_LIBRARY", SIMULATOR, 1);
    cr_assert_eq(nib_context_create(NULL, &ctx), NIB_OK);
}

static void end(void)
{
    nib_context_destroy(ctx);
    test_cache_end(&cache);
}

TestSuite(cuda_sim, .init = begin, .fini = end, .timeout = 300);

/* Small halves: exponents of 0.25 .. 1, any sign and fraction. */
static void random_halves(test_random *random, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)test_random_next(random);
        out[i] = (uint16_t)((bits & 0x83ff) | (13 + bits % 2) << 10);
    }
}

typedef struct product {
    nib_device *dev;
    nib_gemm *gemm;
    nib_weights *weights;
    nib_gemm_args args;
    uint16_t act[2][ROWS * K]; /* on the host */
} product;

static void upload(product *p, int which)
{
    cr_assert_eq(nib_memory_copy(p->dev, (void *)(uintptr_t)p->args.act, p->act[which], ACT_BYTES,
                                 NIB_COPY_TO_DEVICE, NULL),
                 NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_stream_synchronize(p->dev, NULL), NIB_OK);
}

static void download(product *p, const void *from, uint16_t *out)
{
    cr_assert_eq(nib_memory_copy(p->dev, out, from, OUT_BYTES, NIB_COPY_TO_HOST, NULL), NIB_OK,
                 "%s", nib_last_message());
    cr_assert_eq(nib_stream_synchronize(p->dev, NULL), NIB_OK);
}

static void make_product(product *p, const char *selector)
{
    uint8_t codes[N * K / 2];
    uint16_t scales[N * K / GROUP];
    void *act, *out, *workspace;
    size_t bytes;
    nib_gemm_desc desc;
    test_random random = {31};
    nib_weight_source source = {.size = sizeof(source), .codes = codes, .scales = scales};
    memset(p, 0, sizeof(*p));
    for (size_t i = 0; i < sizeof(codes); i++)
        codes[i] = (uint8_t)test_random_next(&random);
    random_halves(&random, scales, N * K / GROUP);
    random_halves(&random, p->act[0], ROWS * K);
    random_halves(&random, p->act[1], ROWS * K);
    cr_assert_eq(nib_gemm_desc_parse("n=72 k=112 w=i4 g=28 s=f16 a=f16", &desc), NIB_OK);
    cr_assert_eq(nib_device_open(ctx, selector, &p->dev), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(p->dev, &desc, &p->gemm), NIB_OK, "%s", nib_last_message());
    nib_status status = nib_gemm_prepare(p->gemm, 1, ROWS);
    if (status == NIB_UNSUPPORTED && strstr(nib_last_message(), "NVRTC"))
        cr_skip("SKIPPED: %s", nib_last_message());
    cr_assert_eq(status, NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_weights_pack(p->gemm, &source, &p->weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_workspace(p->gemm, ROWS, &bytes), NIB_OK);
    cr_assert_eq(nib_memory_alloc(p->dev, ACT_BYTES, &act), NIB_OK);
    cr_assert_eq(nib_memory_alloc(p->dev, OUT_BYTES, &out), NIB_OK);
    cr_assert_eq(nib_memory_alloc(p->dev, bytes + 64, &workspace), NIB_OK);
    p->args = (nib_gemm_args){.size = sizeof(p->args),
                              .m = ROWS,
                              .act = act,
                              .lda = K,
                              .out = out,
                              .ldo = N,
                              .workspace = workspace,
                              .workspace_bytes = bytes};
    upload(p, 0);
}

static void free_product(product *p)
{
    nib_memory_free(p->dev, (void *)(uintptr_t)p->args.act);
    nib_memory_free(p->dev, p->args.out);
    nib_memory_free(p->dev, p->args.workspace);
    nib_weights_destroy(p->weights);
    nib_gemm_destroy(p->gemm);
    nib_device_close(p->dev);
}

static void run_plain(product *p, uint16_t *out)
{
    cr_assert_eq(nib_gemm_run(p->gemm, p->weights, &p->args), NIB_OK, "%s", nib_last_message());
    download(p, p->args.out, out);
}

Test(cuda_sim, a_captured_run_replays)
{
    static product p;
    uint16_t want[2][ROWS * N], got[ROWS * N];
    void *primary, *popped, *stream, *graph, *exec;
    make_product(&p, "cuda:0");
    for (int i = 0; i < 2; i++) {
        upload(&p, i);
        run_plain(&p, want[i]);
    }
    cr_assert_neq(memcmp(want[0], want[1], OUT_BYTES), 0);
    cr_assert_eq(cu.retain(&primary, 0), 0u);
    cr_assert_eq(cu.push(primary), 0u);
    cr_assert_eq(cu.stream_create(&stream, 1), 0u);
    /* In this mode the driver refuses every call that could wait or allocate. */
    cr_assert_eq(cu.begin_capture(stream, CAPTURE_GLOBAL), 0u);
    p.args.stream = stream;
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(cu.end_capture(stream, &graph), 0u);
    cr_assert_eq(cu.instantiate(&exec, graph, 0), 0u);
    for (int i = 0; i < 4; i++) {
        upload(&p, i & 1);
        cr_assert_eq(cu.graph_launch(exec, stream), 0u);
        cr_assert_eq(nib_stream_synchronize(p.dev, stream), NIB_OK);
        download(&p, p.args.out, got);
        cr_expect_arr_eq(got, want[i & 1], OUT_BYTES, "replay %d", i);
    }
    cr_assert_eq(cu.pop(&popped), 0u);
    free_product(&p);
}

Test(cuda_sim, pointers_between_elements_give_the_same_bits)
{
    static product p;
    uint16_t want[ROWS * N], got[ROWS * N];
    void *act, *out;
    make_product(&p, "cuda:0");
    run_plain(&p, want);
    cr_assert_eq(nib_memory_alloc(p.dev, ACT_BYTES + 1, &act), NIB_OK);
    cr_assert_eq(nib_memory_alloc(p.dev, OUT_BYTES + 1, &out), NIB_OK);
    nib_gemm_args args = p.args;
    args.act = (char *)act + 1;
    args.out = (char *)out + 1;
    cr_assert_eq(
        nib_memory_copy(p.dev, (char *)act + 1, p.args.act, ACT_BYTES, NIB_COPY_ON_DEVICE, NULL),
        NIB_OK);
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &args), NIB_OK, "%s", nib_last_message());
    download(&p, args.out, got);
    cr_expect_arr_eq(got, want, OUT_BYTES);
    nib_memory_free(p.dev, act);
    nib_memory_free(p.dev, out);
    free_product(&p);
}

typedef struct worker {
    const product *p;
    void *out;
    nib_status status;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    nib_gemm_args args = w->p->args;
    void *current = NULL;
    args.out = w->out;
    args.m = 1; /* one tile: no workspace to share */
    args.workspace = NULL;
    args.workspace_bytes = 0;
    w->status = nib_gemm_run(w->p->gemm, w->p->weights, &args);
    cu.current(&current);
    if (current)
        w->status = NIB_INTERNAL;
    return NULL;
}

Test(cuda_sim, sixteen_threads_get_the_same_bits)
{
    static product p;
    uint16_t want[ROWS * N], got[ROWS * N];
    pthread_t threads[THREADS];
    worker workers[THREADS];
    make_product(&p, "cuda:0");
    run_plain(&p, want);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.p = &p};
        cr_assert_eq(nib_memory_alloc(p.dev, OUT_BYTES, &workers[i].out), NIB_OK);
        cr_assert_eq(
            nib_memory_copy(p.dev, workers[i].out, want, OUT_BYTES, NIB_COPY_TO_DEVICE, NULL),
            NIB_OK);
    }
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(workers[i].status, NIB_OK, "thread %d: %s", i,
                     nib_status_name(workers[i].status));
    }
    for (int i = 0; i < THREADS; i++) {
        download(&p, workers[i].out, got);
        cr_expect_arr_eq(got, want, OUT_BYTES, "thread %d", i);
        nib_memory_free(p.dev, workers[i].out);
    }
    free_product(&p);
}

Test(cuda_sim, two_devices_work_side_by_side)
{
    static product p[2];
    uint16_t out[2][ROWS * N];
    void *context, *current = NULL, *popped;
    setenv("NIB_SIM_DEVICES", "2", 1);
    make_product(&p[0], "cuda:0");
    make_product(&p[1], "cuda:1");
    cr_assert_eq(cu.retain(&context, 0), 0u);
    cr_assert_eq(cu.push(context), 0u);
    run_plain(&p[1], out[1]);
    run_plain(&p[0], out[0]);
    cr_assert_eq(cu.current(&current), 0u);
    cr_expect_eq(current, context, "the caller's device is as before");
    cr_expect_arr_eq(out[0], out[1], OUT_BYTES);
    cr_assert_eq(cu.pop(&popped), 0u);
    free_product(&p[1]);
    free_product(&p[0]);
}

/* Kernels of conversions in the cache after packing one small matrix. */
static int converters(void)
{
    static product p;
    nib_kernels *kernels;
    int found = 0;
    make_product(&p, "cuda:0");
    free_product(&p);
    cr_assert_eq(nib_kernels_open("cuda", &kernels), NIB_OK, "%s", nib_last_message());
    for (int64_t i = 0; i < nib_kernels_count(kernels); i++) {
        nib_kernel kernel = {.size = sizeof(kernel)};
        cr_assert_eq(nib_kernels_get(kernels, i, &kernel), NIB_OK);
        found += !strcmp(kernel.label, "convert");
    }
    nib_kernels_close(kernels);
    return found;
}

Test(cuda_sim, a_small_conversion_is_not_worth_a_compilation)
{
    cr_expect_eq(converters(), 0);
}

Test(cuda_sim, a_small_conversion_is_compiled_when_it_is_asked_for)
{
    setenv("NIB_CUDA_CONVERT", "device", 1);
    cr_expect_eq(converters(), 1);
}
