/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's entries, own prototypes as the CUDA driver manual states them, and what cuda.h
 * promises on top of them.
 */
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NON_BLOCKING   1 /* CU_STREAM_NON_BLOCKING */
#define CAPTURE_GLOBAL 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL: a run that allocates or waits fails */

enum { /* CU_DEVICE_ATTRIBUTE_.., CU_JIT_.., CU_FUNC_ATTRIBUTE_.. */
       ATTRIBUTE_UNITS = 16,
       ATTRIBUTE_CC_MAJOR = 75,
       ATTRIBUTE_CC_MINOR = 76,
       JIT_ERROR_LOG = 5,
       JIT_ERROR_LOG_BYTES = 6,
       FUNCTION_SHARED_MOST = 8,
       FUNCTION_CARVEOUT = 9
};

/* field, symbol, parameters; all answer a CUresult, 0 for success. */
#define ENTRIES(X)                                                                             \
    X(init, cuInit, (unsigned))                                                                \
    X(version, cuDriverGetVersion, (int *))                                                    \
    X(error_name, cuGetErrorName, (int, const char **))                                        \
    X(device_count, cuDeviceGetCount, (int *))                                                 \
    X(device_get, cuDeviceGet, (int *, int))                                                   \
    X(device_name, cuDeviceGetName, (char *, int, int))                                        \
    X(retain, cuDevicePrimaryCtxRetain, (void **, int))                                        \
    X(release, cuDevicePrimaryCtxRelease_v2, (int))                                            \
    X(set_current, cuCtxSetCurrent, (void *))                                                  \
    X(stream_create, cuStreamCreate, (void **, unsigned))                                      \
    X(stream_destroy, cuStreamDestroy_v2, (void *))                                            \
    X(stream_wait, cuStreamSynchronize, (void *))                                              \
    X(capture_begin, cuStreamBeginCapture_v2, (void *, int))                                   \
    X(capture_end, cuStreamEndCapture, (void *, void **))                                      \
    X(instantiate, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))         \
    X(graph_launch, cuGraphLaunch, (void *, void *))                                           \
    X(graph_destroy, cuGraphDestroy, (void *))                                                 \
    X(exec_destroy, cuGraphExecDestroy, (void *))                                              \
    X(event_create, cuEventCreate, (void **, unsigned))                                        \
    X(event_record, cuEventRecord, (void *, void *))                                           \
    X(event_wait, cuEventSynchronize, (void *))                                                \
    X(event_elapsed, cuEventElapsedTime, (float *, void *, void *))                            \
    X(event_destroy, cuEventDestroy_v2, (void *))                                              \
    X(alloc, cuMemAlloc_v2, (bench_cuda_memory *, size_t))                                     \
    X(free, cuMemFree_v2, (bench_cuda_memory))                                                 \
    X(to_device, cuMemcpyHtoDAsync_v2, (bench_cuda_memory, const void *, size_t, void *))      \
    X(to_host, cuMemcpyDtoHAsync_v2, (void *, bench_cuda_memory, size_t, void *))              \
    X(on_device, cuMemcpyDtoDAsync_v2, (bench_cuda_memory, bench_cuda_memory, size_t, void *)) \
    X(fill, cuMemsetD8Async, (bench_cuda_memory, unsigned char, size_t, void *))               \
    X(attribute, cuDeviceGetAttribute, (int *, int, int))                                      \
    X(module_load, cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))      \
    X(module_unload, cuModuleUnload, (void *))                                                 \
    X(function, cuModuleGetFunction, (void **, void *, const char *))                          \
    X(function_set, cuFuncSetAttribute, (void *, int, int))                                    \
    X(launch, cuLaunchKernel,                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,   \
       void **, void **))

static struct {
#define FIELD(field, symbol, parameters) int(*field) parameters;
    ENTRIES(FIELD)
#undef FIELD
} driver;

static bool good(int result, const char *what)
{
    const char *name = NULL;
    if (!result)
        return true;
    driver.error_name(result, &name);
    fprintf(stderr, "bench: %s: %s (%d)\n", what, name ? name : "?", result);
    return false;
}

static bool find_entries(void *library, char *why, size_t why_bytes)
{
#define FIND(field, symbol, parameters)                                      \
    *(void **)&driver.field = dlsym(library, #symbol);                       \
    if (!driver.field) {                                                     \
        snprintf(why, why_bytes, "the CUDA driver library has no " #symbol); \
        return false;                                                        \
    }
    ENTRIES(FIND)
#undef FIND
    return true;
}

bool bench_cuda_open(bench_cuda *cuda, int index, char *why, size_t why_bytes)
{
    const char *path = getenv("NIB_CUDA_LIBRARY");
    int count = 0;
    *cuda = (bench_cuda){0};
    cuda->library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda->library) {
        snprintf(why, why_bytes, "no CUDA driver: %s", dlerror());
        return false;
    }
    if (!find_entries(cuda->library, why, why_bytes))
        return false;
    if (driver.init(0) || driver.device_count(&count) || index >= count) {
        snprintf(why, why_bytes, "there is no CUDA device %d; the driver counts %d", index, count);
        return false;
    }
    snprintf(why, why_bytes, "the device cannot be opened");
    driver.version(&cuda->version);
    int major = 0, minor = 0;
    if (!good(driver.device_get(&cuda->device, index), "cuDeviceGet") ||
        !good(driver.device_name(cuda->name, sizeof(cuda->name), cuda->device), "its name") ||
        !good(driver.attribute(&cuda->units, ATTRIBUTE_UNITS, cuda->device), "its units") ||
        !good(driver.attribute(&major, ATTRIBUTE_CC_MAJOR, cuda->device), "its capability") ||
        !good(driver.attribute(&minor, ATTRIBUTE_CC_MINOR, cuda->device), "its capability") ||
        !good(driver.retain(&cuda->context, cuda->device), "cuDevicePrimaryCtxRetain"))
        return false;
    cuda->cc = 10 * major + minor;
    if (good(driver.set_current(cuda->context), "cuCtxSetCurrent") &&
        good(driver.stream_create(&cuda->stream, NON_BLOCKING), "cuStreamCreate") &&
        good(driver.event_create(&cuda->from, 0), "cuEventCreate") &&
        good(driver.event_create(&cuda->to, 0), "cuEventCreate"))
        return true;
    bench_cuda_close(cuda);
    return false;
}

void bench_cuda_close(bench_cuda *cuda)
{
    if (cuda->from)
        driver.event_destroy(cuda->from);
    if (cuda->to)
        driver.event_destroy(cuda->to);
    if (cuda->stream)
        driver.stream_destroy(cuda->stream);
    if (cuda->context)
        driver.release(cuda->device);
    *cuda = (bench_cuda){0};
}

bool bench_graph_capture(bench_cuda *cuda, bench_launch_fn launch, void *user, int64_t calls,
                         bench_graph *out)
{
    void *graph = NULL;
    int failed = 0;
    *out = (bench_graph){.calls = calls};
    if (!good(driver.capture_begin(cuda->stream, CAPTURE_GLOBAL), "cuStreamBeginCapture"))
        return false;
    for (int64_t i = 0; i < calls && !failed; i++)
        failed = launch(user, i, cuda->stream);
    /* Also after a failure: the stream must leave the capture. */
    bool ended = good(driver.capture_end(cuda->stream, &graph), "cuStreamEndCapture");
    bool made = ended && !failed &&
                good(driver.instantiate(&out->exec, graph, 0), "cuGraphInstantiateWithFlags");
    if (graph)
        driver.graph_destroy(graph);
    return made;
}

bool bench_graph_replay(bench_cuda *cuda, const bench_graph *graph, double *us)
{
    float ms = 0;
    bool done = good(driver.event_record(cuda->from, cuda->stream), "cuEventRecord") &&
                good(driver.graph_launch(graph->exec, cuda->stream), "cuGraphLaunch") &&
                good(driver.event_record(cuda->to, cuda->stream), "cuEventRecord") &&
                good(driver.event_wait(cuda->to), "a replay") &&
                good(driver.event_elapsed(&ms, cuda->from, cuda->to), "cuEventElapsedTime");
    *us = 1e3 * (double)ms;
    return done;
}

void bench_graph_free(bench_cuda *cuda, bench_graph *graph)
{
    (void)cuda;
    if (graph->exec)
        driver.exec_destroy(graph->exec);
    *graph = (bench_graph){0};
}

bool bench_cuda_alloc(bench_cuda *cuda, size_t bytes, bench_cuda_memory *memory)
{
    (void)cuda;
    return good(driver.alloc(memory, bytes), "cuMemAlloc");
}

void bench_cuda_free(bench_cuda *cuda, bench_cuda_memory memory)
{
    (void)cuda;
    if (memory)
        driver.free(memory);
}

bool bench_cuda_upload(bench_cuda *cuda, bench_cuda_memory to, const void *from, size_t bytes)
{
    return good(driver.to_device(to, from, bytes, cuda->stream), "an upload") &&
           bench_cuda_wait(cuda);
}

bool bench_cuda_download(bench_cuda *cuda, void *to, bench_cuda_memory from, size_t bytes)
{
    return good(driver.to_host(to, from, bytes, cuda->stream), "a download") &&
           bench_cuda_wait(cuda);
}

bool bench_cuda_fill(bench_cuda *cuda, bench_cuda_memory memory, int byte, size_t bytes)
{
    return good(driver.fill(memory, (unsigned char)byte, bytes, cuda->stream), "cuMemsetD8Async") &&
           bench_cuda_wait(cuda);
}

bool bench_cuda_wait(bench_cuda *cuda)
{
    return good(driver.stream_wait(cuda->stream), "cuStreamSynchronize");
}

bool bench_cuda_load(bench_cuda *cuda, const char *ptx, const char *entry, int shared_bytes,
                     bench_kernel *out)
{
    char log[512] = "";
    int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    (void)cuda;
    *out = (bench_kernel){0};
    int result = driver.module_load(&out->module, ptx, 2, options, values);
    if (result) {
        fprintf(stderr, "bench: the driver refuses the code of %s: %s\n", entry, log);
        return good(result, "cuModuleLoadDataEx");
    }
    if (good(driver.function(&out->function, out->module, entry), entry) &&
        (!shared_bytes ||
         good(driver.function_set(out->function, FUNCTION_SHARED_MOST, shared_bytes),
              "its shared memory"))) {
        if (shared_bytes) /* as many blocks as fit shall be resident; a wish */
            driver.function_set(out->function, FUNCTION_CARVEOUT, 100);
        return true;
    }
    bench_cuda_unload(cuda, out);
    return false;
}

void bench_cuda_unload(bench_cuda *cuda, bench_kernel *kernel)
{
    (void)cuda;
    if (kernel->module)
        driver.module_unload(kernel->module);
    *kernel = (bench_kernel){0};
}

bool bench_cuda_launch(bench_cuda *cuda, const bench_kernel *kernel, unsigned blocks,
                       unsigned threads, unsigned shared_bytes, void **parameters, void *stream)
{
    (void)cuda;
    return good(driver.launch(kernel->function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream,
                              parameters, NULL),
                "cuLaunchKernel");
}

double bench_cuda_copy_rate(bench_cuda *cuda, size_t bytes)
{
    bench_cuda_memory a = 0, b = 0;
    double best = 0;
    if (bench_cuda_alloc(cuda, bytes, &a) && bench_cuda_alloc(cuda, bytes, &b) &&
        bench_cuda_fill(cuda, a, 0, bytes))
        for (int i = 0; i < 8; i++) {
            float ms = 0;
            if (!good(driver.event_record(cuda->from, cuda->stream), "cuEventRecord") ||
                !good(driver.on_device(b, a, bytes, cuda->stream), "cuMemcpyDtoDAsync") ||
                !good(driver.event_record(cuda->to, cuda->stream), "cuEventRecord") ||
                !good(driver.event_wait(cuda->to), "a copy") ||
                driver.event_elapsed(&ms, cuda->from, cuda->to))
                break;
            double rate = 2e-6 * (double)bytes / (double)ms;
            best = i && rate > best ? rate : best; /* the first is slow to start */
        }
    bench_cuda_free(cuda, a);
    bench_cuda_free(cuda, b);
    return best;
}
