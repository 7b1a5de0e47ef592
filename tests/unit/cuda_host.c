/* SPDX-License-Identifier: Apache-2.0
 *
 * The host side of the CUDA backend behind the public interface, on a driver and a compiler that
 * only pretend (tests/fake): reasons, contexts, fork, launches, and every way to code.
 */
#include "fake/fake.h"
#include "host/host.h"
#include "support/image.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <nibblas/nibblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAKE_CUDA  NIB_BINARY_DIR "/lib/test-fake/libfake-cuda.so"
#define FAKE_NVRTC NIB_BINARY_DIR "/lib/test-fake/libfake-nvrtc.so"
#define LINE       "n=192 k=256 w=i4 g=64 s=f16 a=f16"

enum { N = 192, K = 256, ROWS = 3 };

static test_cache cache;
static fake_cuda *fake;
static nib_context *ctx;
static char said[8192]; /* the log */

static void listen(void *user, nib_log_level level, const char *message)
{
    (void)user, (void)level;
    size_t length = strlen(said);
    snprintf(said + length, sizeof(said) - length, "%s\n", message);
}

static void *entry_of(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library, "%s", dlerror());
    return dlsym(library, name);
}

static void begin(void)
{
    nib_context_options options = {.size = sizeof(options), .log = listen};
    fake_cuda_fn get;
    void *symbol = entry_of("fake_cuda_get");
    memcpy(&get, &symbol, sizeof(symbol));
    fake = get();
    test_cache_begin(&cache);
    setenv("NIB_CUDA_LIBRARY", FAKE_CUDA, 1);
    setenv("NIB_NVRTC_LIBRARY", FAKE_NVRTC, 1);
    cr_assert_eq(nib_context_create(&options, &ctx), NIB_OK);
}

static void end(void)
{
    nib_context_destroy(ctx);
    test_cache_end(&cache);
}

TestSuite(cuda_host, .init = begin, .fini = end);

static nib_device *open_device(void)
{
    nib_device *dev = NULL;
    cr_assert_eq(nib_device_open(ctx, "cuda:0", &dev), NIB_OK, "%s", nib_last_message());
    return dev;
}

/* A product, its weights, and device memory for a run of ROWS rows. */
typedef struct product {
    nib_device *dev;
    nib_gemm *gemm;
    nib_weights *weights;
    nib_gemm_args args;
} product;

static void pack(product *p)
{
    static unsigned char codes[N * K / 2];
    static uint16_t scales[N * K / 64];
    nib_weight_source source = {.size = sizeof(source), .codes = codes, .scales = scales};
    cr_assert_eq(nib_weights_pack(p->gemm, &source, &p->weights), NIB_OK, "%s", nib_last_message());
}

static product make_product(const char *line)
{
    product p = {.dev = open_device(), .args = {.size = sizeof(p.args), .m = ROWS}};
    nib_gemm_desc desc;
    size_t bytes = 0;
    cr_assert_eq(nib_gemm_desc_parse(line, &desc), NIB_OK);
    cr_assert_eq(nib_gemm_create(p.dev, &desc, &p.gemm), NIB_OK, "%s", nib_last_message());
    pack(&p);
    cr_assert_eq(nib_gemm_workspace(p.gemm, ROWS, &bytes), NIB_OK);
    void *act, *out, *workspace;
    cr_assert_eq(nib_memory_alloc(p.dev, ROWS * K * 2, &act), NIB_OK);
    cr_assert_eq(nib_memory_alloc(p.dev, ROWS * N * 2, &out), NIB_OK);
    cr_assert_eq(nib_memory_alloc(p.dev, bytes, &workspace), NIB_OK);
    p.args.act = act;
    p.args.lda = K;
    p.args.out = out;
    p.args.ldo = N;
    p.args.workspace = workspace;
    p.args.workspace_bytes = bytes;
    return p;
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

static nib_status prepare(product *p)
{
    return nib_gemm_prepare(p->gemm, ROWS, ROWS);
}

/* ---- none there ---- */

static uint32_t count_after(void)
{
    uint32_t count = 0;
    cr_assert_eq(nib_device_count(ctx, &count), NIB_OK);
    return count;
}

Test(cuda_host, a_library_that_is_not_there_is_a_reason)
{
    setenv("NIB_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    cr_expect_eq(count_after(), 1, "only the CPU is there");
    cr_expect(strstr(said, "NIB_CUDA_LIBRARY: /nowhere/libcuda.so.1"), "%s", said);
    nib_device *dev = NULL;
    cr_expect_eq(nib_device_open(ctx, "cuda:0", &dev), NIB_MISSING);
    cr_expect_null(dev);
    cr_expect_eq(nib_device_open(ctx, "auto", &dev), NIB_OK, "the CPU serves");
    nib_device_close(dev);
}

Test(cuda_host, a_library_without_the_entries_is_a_reason)
{
    setenv("NIB_CUDA_LIBRARY", FAKE_NVRTC, 1);
    cr_expect_eq(count_after(), 1);
    cr_expect(strstr(said, "has no cuInit"), "%s", said);
}

Test(cuda_host, a_driver_without_a_gpu_is_a_reason)
{
    fake->devices = 0;
    cr_expect_eq(count_after(), 1);
    cr_expect(strstr(said, "finds no GPU"), "%s", said);
}

Test(cuda_host, a_gpu_that_is_too_old_is_a_reason)
{
    fake->cc = 70;
    cr_expect_eq(count_after(), 1);
    cr_expect(strstr(said, "compute capability 7.0"), "%s", said);
}

Test(cuda_host, a_driver_that_is_too_old_is_a_reason)
{
    fake->version = 10020;
    cr_expect_eq(count_after(), 1);
    cr_expect(strstr(said, "version 10.2"), "%s", said);
}

/* ---- devices ---- */

Test(cuda_host, a_device_says_what_it_is)
{
    nib_device_info info = {.size = sizeof(info)};
    fake->cc = 90;
    fake->name = "NVIDIA H200";
    nib_device *dev = open_device();
    cr_assert_eq(nib_device_get_info(dev, &info), NIB_OK);
    cr_expect_str_eq(info.isa, "sm_90a");
    cr_expect_str_eq(info.driver, "CUDA 13.0");
    cr_expect_str_eq(info.name, "NVIDIA H200");
    cr_expect_eq(info.units, 4);
    /* The product has 132 multiprocessors: this part of it has a share of its rates. */
    cr_expect_float_eq(info.read_gb_per_s, 4800 * 4 / 132.0, 1e-6);
    nib_device_close(dev);
    cr_expect_eq(fake->alive, 0, "the primary context is given back");
}

Test(cuda_host, a_device_stands_before_the_cpu)
{
    nib_device *dev = NULL;
    nib_device_info info = {.size = sizeof(info)};
    cr_assert_eq(nib_device_open(ctx, "auto", &dev), NIB_OK);
    cr_assert_eq(nib_device_get_info(dev, &info), NIB_OK);
    cr_expect_str_eq(info.selector, "cuda:0");
    nib_device_close(dev);
}

/* ---- contexts ---- */

static nib_cu_context current_context(void)
{
    nib_cu_result (*get)(nib_cu_context *);
    nib_cu_context context = NULL;
    void *symbol = entry_of("cuCtxGetCurrent");
    memcpy(&get, &symbol, sizeof(symbol));
    cr_assert_eq(get(&context), 0u);
    return context;
}

static void push_context(nib_cu_context context)
{
    nib_cu_result (*push)(nib_cu_context);
    void *symbol = entry_of("cuCtxPushCurrent_v2");
    memcpy(&push, &symbol, sizeof(symbol));
    cr_assert_eq(push(context), 0u);
}

static void use_everything(void)
{
    char text[16384];
    void *memory = NULL;
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK, "%s", nib_last_message());
    cr_expect_eq(nib_gemm_explain(p.gemm, ROWS, text, sizeof(text), NULL), NIB_OK);
    fake->alloc_result = NIB_CU_OUT_OF_MEMORY;
    cr_expect_eq(nib_memory_alloc(p.dev, 64, &memory), NIB_NO_MEMORY);
    fake->launch_result = 700;
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_DEVICE_LOST);
    cr_expect(strstr(nib_last_message(), "700"), "%s", nib_last_message());
    fake->launch_result = NIB_CU_INVALID_HANDLE;
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_INVALID, "a wrong stream");
    free_product(&p);
}

Test(cuda_host, the_current_context_is_as_before_without_any)
{
    use_everything();
    cr_expect_null(current_context());
    cr_expect_eq(fake->pushes, fake->pops);
    cr_expect_eq(fake->loads, fake->unloads);
}

Test(cuda_host, the_current_context_is_as_before_with_anothers)
{
    int other;
    nib_cu_context mine = (nib_cu_context)(void *)&other;
    push_context(mine);
    int pushes = fake->pushes;
    use_everything();
    cr_expect_eq(current_context(), mine);
    cr_expect_eq(fake->pushes - pushes, fake->pops);
}

/* ---- runs ---- */

Test(cuda_host, a_run_makes_no_slow_call_and_uses_the_callers_stream)
{
    int stream;
    product p = make_product(LINE);
    cr_assert_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    int slow = fake->slow, launches = fake->launches;
    p.args.stream = &stream;
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK);
    cr_expect_eq(fake->slow, slow);
    cr_expect_gt(fake->launches, launches);
    cr_expect_eq((void *)fake->last_stream, (void *)&stream);
    p.args.m = 0;
    launches = fake->launches;
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK);
    cr_expect_eq(fake->launches, launches, "no rows, no launch");
    free_product(&p);
}

static nib_cuda_params seen;

static void see(const char *kernel, const nib_cuda_params *params)
{
    if (!strstr(kernel, "reduce"))
        seen = *params;
}

Test(cuda_host, a_kernel_is_told_the_shape_and_the_alignment)
{
    product p = make_product(LINE);
    cr_assert_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    fake->run = see;
    cr_assert_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK);
    cr_expect(seen.m == ROWS && seen.n == N && seen.k == K && seen.lda == K && seen.ldo == N);
    cr_expect(seen.group == 64 && seen.groups == 4 && !seen.one_scale);
    cr_expect(seen.n_blocks == 3 && seen.k_blocks == 2);
    cr_expect_eq(seen.aligned, 1);
    cr_expect_eq(seen.out_type, NIB_F16);
    cr_expect_float_eq(seen.alpha, 1, 0);
    const char *act = p.args.act;
    p.args.act = act + 2;
    p.args.m = 1;
    cr_assert_eq(nib_gemm_prepare(p.gemm, 1, 1), NIB_OK);
    cr_assert_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK);
    cr_expect_eq(seen.aligned, 0, "an address that is no multiple of 16");
    p.args.act = act;
    p.args.lda = K + 1;
    cr_assert_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK);
    cr_expect_eq(seen.aligned, 0, "a stride that is no multiple of 16 bytes");
    free_product(&p);
}

static product shared;
static atomic_int failures;

static void *run_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++)
        if (nib_gemm_run(shared.gemm, shared.weights, &shared.args) || current_context())
            failures++;
    return NULL;
}

Test(cuda_host, sixteen_threads_run_at_once)
{
    pthread_t threads[16];
    shared = make_product(LINE);
    cr_assert_eq(prepare(&shared), NIB_OK, "%s", nib_last_message());
    int slow = fake->slow, launches = fake->launches - fake->reductions;
    for (int i = 0; i < 16; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, run_many, NULL), 0);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(failures, 0);
    cr_expect_eq(fake->launches - fake->reductions - launches, 16 * 200);
    cr_expect_eq(fake->slow, slow);
    free_product(&shared);
}

/* ---- fork ---- */

static int wait_for(pid_t child)
{
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(cuda_host, a_child_gets_a_clear_error_and_leaves_the_driver_alone)
{
    product p = make_product(LINE);
    cr_assert_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    pid_t child = fork();
    if (child == 0) {
        int launches = fake->launches, pushes = fake->pushes, slow = fake->slow;
        uint32_t count = 9;
        void *memory = NULL;
        int wrong = nib_gemm_run(p.gemm, p.weights, &p.args) != NIB_UNSUPPORTED;
        wrong |= 2 * !strstr(nib_last_message(), "before fork()");
        wrong |= 4 * (nib_memory_alloc(p.dev, 64, &memory) != NIB_UNSUPPORTED);
        wrong |= 8 * (nib_device_count(ctx, &count) != NIB_OK || count != 1);
        free_product(&p);
        wrong |= 16 * (fake->launches != launches || fake->pushes != pushes || fake->slow != slow);
        _exit(wrong);
    }
    cr_expect_eq(wait_for(child), 0);
    cr_expect_eq(nib_gemm_run(p.gemm, p.weights, &p.args), NIB_OK, "the parent goes on");
    free_product(&p);
}

Test(cuda_host, opening_a_device_that_is_not_there_tells_the_reason)
{
    nib_device *dev = NULL;
    uint32_t count = 0;
    cr_assert_eq(nib_device_count(ctx, &count), NIB_OK); /* starts the driver */
    cr_expect_eq(nib_device_open(ctx, "cuda:5", &dev), NIB_MISSING);
    cr_expect_str_eq(nib_last_message(), "no device 'cuda:5'; there are: cuda:0, cpu:0");
    pid_t child = fork();
    if (child == 0) {
        int wrong = nib_device_open(ctx, "cuda:0", &dev) != NIB_MISSING;
        wrong |= 2 * !strstr(nib_last_message(), "before fork()");
        wrong |= 4 * !strstr(nib_last_message(), "there are: cpu:0");
        _exit(wrong);
    }
    cr_expect_eq(wait_for(child), 0);
}

Test(cuda_host, a_child_may_open_what_its_parent_did_not)
{
    pid_t child = fork();
    if (child == 0) {
        nib_device *dev = NULL;
        nib_status status = nib_device_open(ctx, "cuda:0", &dev);
        nib_device_close(dev);
        _exit(status);
    }
    cr_expect_eq(wait_for(child), 0);
}

/* ---- ways to code ---- */

Test(cuda_host, code_is_a_cubin_compiled_once_and_then_cached)
{
    for (int i = 0; i < 2; i++) {
        char text[16384];
        product p = make_product(LINE);
        cr_assert_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
        cr_assert_eq(nib_gemm_explain(p.gemm, ROWS, text, sizeof(text), NULL), NIB_OK);
        cr_expect(strstr(text, i ? "sm_80 from the cache" : "sm_80 from NVRTC"), "%s", text);
        cr_expect(strstr(text, "96 registers"), "%s", text);
        free_product(&p);
    }
    cr_expect(fake->cubins > 0 && fake->ptx == 0);
}

Test(cuda_host, a_driver_that_takes_no_cubin_gets_ptx)
{
    fake->takes_cubin = false;
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    int loads = fake->loads, ptx = fake->ptx;
    cr_expect(ptx > 0 && fake->cubins == 0);
    cr_expect_eq(nib_gemm_prepare(p.gemm, 1, 4096), NIB_OK);
    cr_expect_eq(fake->loads - loads, fake->ptx - ptx, "it is not asked again");
    free_product(&p);
}

Test(cuda_host, a_compiler_that_does_not_know_the_chip_makes_ptx)
{
    setenv("FAKE_NVRTC_REFUSES", "sm_", 1);
    fake->cc = 103;
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    cr_expect_gt(fake->ptx, 0);
    free_product(&p);
}

Test(cuda_host, without_any_code_the_whole_chain_of_reasons_is_told)
{
    fake->takes_cubin = fake->takes_ptx = false;
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_UNSUPPORTED);
    const char *message = nib_last_message();
    cr_expect(strstr(message, "cubin for sm_80: the log of a refusal") ||
                  strstr(message, "cubin: this driver refused one before"),
              "%s", message);
    cr_expect(strstr(message, "PTX for compute_80: the log of a refusal"), "%s", message);
    free_product(&p);
}

Test(cuda_host, without_a_compiler_the_reason_names_it)
{
    setenv("NIB_NVRTC_LIBRARY", "/nowhere/libnvrtc.so.13", 1);
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_UNSUPPORTED);
    const char *message = nib_last_message();
    cr_expect(strstr(message, "NIB_NVRTC_LIBRARY: no file /nowhere/libnvrtc.so.13"), "%s", message);
    free_product(&p);
}

/* ---- chips that are not known ---- */

/* What the self-test expects, in f16: weights are 1, and without a zero so is their sum's factor.
 */
static void compute(const char *kernel, const nib_cuda_params *p)
{
    if (strstr(kernel, "reduce"))
        return;
    for (int64_t m = 0; m < p->m; m++)
        for (int64_t n = 0; n < p->n; n++) {
            int sum = 0;
            for (int64_t k = 0; k < p->k; k++) {
                uint16_t bits = ((const uint16_t *)p->act)[m * p->lda + k];
                int value = !(bits & 0x7fff) ? 0 : (bits & 0x7fff) == 0x3c00 ? 1 : 2;
                sum += bits & 0x8000 ? -value : value;
            }
            _Float16 out = (_Float16)sum;
            memcpy((char *)p->out + 2 * (m * p->ldo + n), &out, 2);
        }
}

Test(cuda_host, an_unknown_chip_gets_tested_ptx)
{
    fake->cc = 150;
    fake->run = compute;
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_OK, "%s", nib_last_message());
    cr_expect(fake->ptx > 0 && fake->cubins == 0);
    cr_expect(strstr(said, "15.0, which this version does not know"), "%s", said);
    cr_expect(strstr(said, "self-test passed"), "%s", said);
    free_product(&p);
}

Test(cuda_host, a_kernel_that_fails_its_self_test_is_refused)
{
    fake->cc = 150; /* and nothing computes: the output stays as it was */
    product p = make_product(LINE);
    cr_expect_eq(prepare(&p), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "self-test"), "%s", nib_last_message());
    free_product(&p);
}

/* ---- packs ---- */

/* In a child, so that this process looks for the compiler anew. */
static int pack_in_child(const char *path, const char *isa, const nib_gemm_desc *desc)
{
    pid_t child = fork();
    if (child == 0) {
        nib_pack_options options = {.size = sizeof(options),
                                    .backend = "cuda",
                                    .isas = &isa,
                                    .isa_count = 1,
                                    .descs = desc,
                                    .desc_count = 1};
        _exit(nib_pack_build(ctx, &options, path, NULL));
    }
    return wait_for(child);
}

static void expect_pack_serves(const char *name, int cc, int units, const char *isa)
{
    char path[TEST_PATH_BYTES + 32];
    nib_gemm_desc desc;
    nib_gemm *gemm = NULL;
    nib_device *dev;
    snprintf(path, sizeof(path), "%s/cuda.nibpack", cache.folder);
    cr_assert_eq(nib_gemm_desc_parse("n=4096 k=4096 w=u4 g=128 s=f16 z=code a=f16", &desc), NIB_OK);
    cr_assert_eq(nib_gemm_desc_check(&desc, &desc), NIB_OK);
    cr_assert_eq(pack_in_child(path, isa, &desc), NIB_OK);
    setenv("NIB_PACK_PATH", path, 1);
    setenv("NIB_CACHE_DIR", "/nowhere", 1);
    setenv("NIB_NVRTC_LIBRARY", "/nowhere/libnvrtc.so.13", 1);
    fake->name = name;
    fake->cc = cc;
    fake->units = units;
    dev = open_device();
    cr_assert_eq(nib_gemm_create(dev, &desc, &gemm), NIB_OK, "%s", nib_last_message());
    cr_expect_eq(nib_gemm_prepare(gemm, 1, 16384), NIB_OK, "%s", nib_last_message());
    cr_expect(fake->cubins > 0 && fake->ptx == 0);
    nib_gemm_destroy(gemm);
    nib_device_close(dev);
}

Test(cuda_host, a_pack_has_all_that_plans_on_a_known_product_run)
{
    expect_pack_serves("NVIDIA H200", 90, 132, "sm_90a");
}

Test(cuda_host, a_pack_serves_a_product_of_another_chip)
{
    expect_pack_serves("NVIDIA GeForce RTX 4090", 89, 128, "sm_89");
}

/* ---- sources ---- */

static bool embedded(const char *name, size_t length)
{
    for (const nib_image_file *file = nib_cuda_sources; file->name; file++)
        if (strlen(file->name) == length && !memcmp(file->name, name, length))
            return true;
    return false;
}

Test(cuda_host, kernels_include_what_is_embedded)
{
    static const char word[] = "\n#include \"";
    int count = 0;
    for (const nib_image_file *file = nib_cuda_sources; file->name; file++, count++)
        for (const char *at = file->text; (at = strstr(at, word)) != NULL;) {
            at += sizeof(word) - 1;
            size_t length = strcspn(at, "\"");
            cr_expect(embedded(at, length) || !strncmp(at, "nib_spec.h", length),
                      "%s includes %.*s: name it from backends/cuda on", file->name, (int)length,
                      at);
        }
    cr_expect_gt(count, 0);
}
