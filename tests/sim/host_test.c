/* SPDX-License-Identifier: Apache-2.0
 *
 * Manners of the CUDA backend on a simulated GPU: runs are captured into graphs, from many threads,
 * on two devices, leave the caller's context alone, wait for nothing, and fail clearly in a forked
 * child. ci/sim runs it, with NIB_CUDA_LIBRARY naming the library that this program is linked with.
 */
#include "cuda/driver/api.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <nibblas/nibblas.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 72, K = 256, M = 17, THREADS = 16, OUT_BYTES = M * N * 4 };

/* A product on a device, with everything it needs there. */
typedef struct product {
    nib_context *ctx;
    nib_device *dev;
    nib_gemm *gemm;
    nib_weights *weights;
    void *act, *workspace;
    size_t workspace_bytes;
} product;

static void *on_device(nib_device *dev, size_t bytes, const void *data)
{
    void *memory;
    cr_assert_eq(nib_memory_alloc(dev, bytes + 1, &memory), NIB_OK, "%s", nib_last_message());
    if (data)
        cr_assert_eq(nib_memory_copy(dev, memory, data, bytes, NIB_COPY_TO_DEVICE, NULL), NIB_OK);
    return memory;
}

static product make(const char *selector)
{
    static unsigned char codes[N * K / 2];
    static uint16_t act[M * K], scales[N * K / 32];
    product p = {0};
    nib_gemm_desc desc;
    test_random random = {5};
    for (size_t i = 0; i < sizeof(codes); i++)
        codes[i] = (unsigned char)test_random_next(&random);
    /* f16 between 1 and 2, of either sign for activations. */
    for (int i = 0; i < M * K; i++)
        act[i] = (uint16_t)(0x3c00 | (test_random_next(&random) & 0x83ff));
    for (int i = 0; i < N * K / 32; i++)
        scales[i] = (uint16_t)(0x2000 | (test_random_next(&random) & 0x3ff));
    nib_weight_source source = {.size = sizeof(source), .codes = codes, .scales = scales};
    cr_assert_eq(nib_gemm_desc_parse("n=72 k=256 w=u4 g=32 s=f16 a=f16 o=f32", &desc), NIB_OK);
    cr_assert_eq(nib_context_create(NULL, &p.ctx), NIB_OK);
    cr_assert_eq(nib_device_open(p.ctx, selector, &p.dev), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_create(p.dev, &desc, &p.gemm), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_weights_pack(p.gemm, &source, &p.weights), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_gemm_workspace(p.gemm, M, &p.workspace_bytes), NIB_OK);
    cr_assert_eq(nib_gemm_prepare(p.gemm, 1, M), NIB_OK, "%s", nib_last_message());
    p.act = on_device(p.dev, sizeof(act), act);
    p.workspace = on_device(p.dev, p.workspace_bytes, NULL);
    cr_assert_eq(nib_stream_synchronize(p.dev, NULL), NIB_OK);
    return p;
}

static void drop(product *p)
{
    nib_memory_free(p->dev, p->act);
    nib_memory_free(p->dev, p->workspace);
    nib_weights_destroy(p->weights);
    nib_gemm_destroy(p->gemm);
    nib_device_close(p->dev);
    nib_context_destroy(p->ctx);
}

static nib_status run(const product *p, int64_t m, void *out, void *workspace, CUstream stream)
{
    nib_gemm_args args = {.size = sizeof(args),
                          .m = m,
                          .act = p->act,
                          .lda = K,
                          .out = out,
                          .ldo = N,
                          .workspace = workspace,
                          .workspace_bytes = p->workspace_bytes,
                          .stream = stream};
    return nib_gemm_run(p->gemm, p->weights, &args);
}

static void fetch(const product *p, const void *memory, void *out)
{
    cr_assert_eq(nib_memory_copy(p->dev, out, memory, OUT_BYTES, NIB_COPY_TO_HOST, NULL), NIB_OK);
    cr_assert_eq(nib_stream_synchronize(p->dev, NULL), NIB_OK, "%s", nib_last_message());
}

static void expected(const product *p, void *out)
{
    void *memory = on_device(p->dev, OUT_BYTES, NULL);
    cr_assert_eq(run(p, M, memory, p->workspace, NULL), NIB_OK, "%s", nib_last_message());
    fetch(p, memory, out);
    nib_memory_free(p->dev, memory);
}

/* Some streams of the driver's own; its first device's primary context becomes current. */
static CUcontext enter(int device)
{
    CUcontext ctx;
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, device), CUDA_SUCCESS);
    cr_assert_eq(cuCtxPushCurrent_v2(ctx), CUDA_SUCCESS);
    return ctx;
}

static CUstream stream_of(CUcontext ctx)
{
    CUstream stream;
    cr_assert_eq(cuCtxPushCurrent_v2(ctx), CUDA_SUCCESS);
    cr_assert_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    cr_assert_eq(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    return stream;
}

Test(sim_host, the_library_is_the_one_that_the_backend_opens)
{
    /* Else what these tests do to the driver would be done to another one. */
    const char *named = getenv("NIB_CUDA_LIBRARY");
    cr_assert(named && strstr(named, "libcuda-sim"), "NIB_CUDA_LIBRARY must name libcuda-sim.so");
}

Test(sim_host, a_run_waits_for_nothing)
{
    setenv("NIB_SIM_LAZY", "1", 1);
    product p = make("cuda:0");
    CUcontext ctx = enter(0);
    CUstream stream = stream_of(ctx);
    void *out = on_device(p.dev, OUT_BYTES, NULL);
    cr_assert_eq(run(&p, M, out, p.workspace, stream), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    cr_assert_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
    nib_memory_free(p.dev, out);
    drop(&p);
}

Test(sim_host, a_captured_run_replays_to_the_same_bits)
{
    static unsigned char want[OUT_BYTES], got[OUT_BYTES];
    product p = make("cuda:0");
    CUcontext ctx = enter(0);
    CUstream stream = stream_of(ctx);
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes;
    expected(&p, want);
    void *out = on_device(p.dev, OUT_BYTES, NULL);
    cr_assert_eq(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    cr_assert_eq(run(&p, M, out, p.workspace, stream), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    cr_assert_eq(cuGraphGetNodes(graph, NULL, &nodes), CUDA_SUCCESS);
    cr_assert_geq(nodes, 1);
    cr_assert_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        memset(got, 0, sizeof(got));
        cr_assert_eq(cuMemsetD8Async((CUdeviceptr)(uintptr_t)out, 0xff, OUT_BYTES, stream),
                     CUDA_SUCCESS);
        cr_assert_eq(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        cr_assert_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
        fetch(&p, out, got);
        cr_expect(!memcmp(got, want, sizeof(got)), "replay %d", i);
        /* A run of fewer rows in between must leave the graph's own workspace use alone. */
        cr_assert_eq(run(&p, 1, out, p.workspace, stream), NIB_OK);
    }
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    nib_memory_free(p.dev, out);
    drop(&p);
}

Test(sim_host, a_run_leaves_the_callers_context_current)
{
    setenv("NIB_SIM_DEVICES", "2", 1);
    product p = make("cuda:0");
    CUcontext other = enter(1), now = NULL;
    void *out = on_device(p.dev, OUT_BYTES, NULL);
    cr_assert_eq(run(&p, M, out, p.workspace, NULL), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(cuCtxGetCurrent(&now), CUDA_SUCCESS);
    cr_assert_eq(now, other);
    nib_memory_free(p.dev, out);
    cuCtxGetCurrent(&now);
    cr_assert_eq(now, other);
    drop(&p);
    cuCtxGetCurrent(&now);
    cr_assert_eq(now, other);
}

Test(sim_host, two_devices_give_the_same_bits)
{
    static unsigned char first[OUT_BYTES], second[OUT_BYTES];
    setenv("NIB_SIM_DEVICES", "2", 1);
    product a = make("cuda:1"), b = make("cuda:0");
    expected(&a, first);
    expected(&b, second);
    expected(&a, first);
    cr_expect(!memcmp(first, second, sizeof(first)));
    drop(&a);
    drop(&b);
}

typedef struct worker {
    const product *p;
    const unsigned char *want;
    CUcontext ctx;
    bool good;
} worker;

static void *work(void *user)
{
    worker *w = user;
    unsigned char *got = malloc(OUT_BYTES);
    void *out = on_device(w->p->dev, OUT_BYTES, NULL);
    void *workspace = on_device(w->p->dev, w->p->workspace_bytes, NULL);
    CUstream stream = stream_of(w->ctx);
    w->good = true;
    for (int i = 0; i < 2 && w->good; i++) {
        memset(got, 0, OUT_BYTES);
        w->good = !run(w->p, M, out, workspace, stream) &&
                  !nib_memory_copy(w->p->dev, got, out, OUT_BYTES, NIB_COPY_TO_HOST, stream) &&
                  !nib_stream_synchronize(w->p->dev, stream) && !memcmp(got, w->want, OUT_BYTES);
    }
    nib_memory_free(w->p->dev, out);
    nib_memory_free(w->p->dev, workspace);
    free(got);
    return NULL;
}

Test(sim_host, sixteen_threads_share_one_gemm)
{
    static unsigned char want[OUT_BYTES];
    pthread_t threads[THREADS];
    worker workers[THREADS];
    product p = make("cuda:0");
    expected(&p, want);
    CUcontext ctx = enter(0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){&p, want, ctx, false};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(workers[i].good, "thread %d", i);
    }
    drop(&p);
}

Test(sim_host, a_forked_child_is_told_so)
{
    product p = make("cuda:0");
    void *out = on_device(p.dev, OUT_BYTES, NULL);
    pid_t child = fork();
    if (!child) {
        nib_context *ctx;
        nib_device *dev;
        bool refused = run(&p, M, out, p.workspace, NULL) && strstr(nib_last_message(), "fork");
        bool gone = !nib_context_create(NULL, &ctx) && nib_device_open(ctx, "cuda:0", &dev);
        _exit(refused && gone ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0);
    cr_expect_eq(run(&p, M, out, p.workspace, NULL), NIB_OK);
    nib_memory_free(p.dev, out);
    drop(&p);
}
