/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in for libcuda: see fake.h. Device memory is host memory; kernels are the test's.
 */
#include "fake/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY __attribute__((visibility("default")))
enum { STACK = 16 };

struct CUfunc_st {
    char name[64];
};
struct CUmod_st {
    struct CUfunc_st functions[4];
    int count;
};
struct CUctx_st {
    int device;
};
struct CUevent_st {
    int records;
};

static fake_cuda state = {.cc = 80,
                          .devices = 1,
                          .version = 13000,
                          .units = 4,
                          .takes_cubin = true,
                          .takes_ptx = true,
                          .name = "Fake GPU"};
static struct CUctx_st primary[8];
static _Thread_local nib_cu_context stack[STACK];
static _Thread_local int depth;

ENTRY fake_cuda *fake_cuda_get(void);
ENTRY fake_cuda *fake_cuda_get(void)
{
    return &state;
}

/* Every prototype of driver.h is declared here, so that a mistake does not compile. */
#define NIB_ENTRY(field, symbol, parameters) ENTRY nib_cu_result symbol parameters;
NIB_CUDA_DRIVER_ENTRIES(NIB_ENTRY)
#undef NIB_ENTRY

static nib_cu_result need_context(void)
{
    return depth && stack[depth - 1] ? NIB_CU_SUCCESS : NIB_CU_INVALID_CONTEXT;
}

nib_cu_result cuInit(unsigned int flags)
{
    return flags ? NIB_CU_INVALID_VALUE : state.devices ? NIB_CU_SUCCESS : NIB_CU_NO_DEVICE;
}

nib_cu_result cuDriverGetVersion(int *version)
{
    *version = state.version;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuGetErrorName(nib_cu_result result, const char **name)
{
    *name = result == NIB_CU_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "FAKE_ERROR";
    return NIB_CU_SUCCESS;
}

nib_cu_result cuGetErrorString(nib_cu_result result, const char **text)
{
    (void)result;
    *text = "as the test wanted";
    return NIB_CU_SUCCESS;
}

nib_cu_result cuDeviceGetCount(int *count)
{
    *count = state.devices;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuDeviceGet(nib_cu_device *device, int index)
{
    *device = index;
    return index < state.devices ? NIB_CU_SUCCESS : NIB_CU_INVALID_DEVICE;
}

nib_cu_result cuDeviceGetName(char *name, int bytes, nib_cu_device device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "%s", state.name);
    return NIB_CU_SUCCESS;
}

nib_cu_result cuDeviceTotalMem_v2(size_t *bytes, nib_cu_device device)
{
    (void)device;
    *bytes = (size_t)1 << 30;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuDeviceGetAttribute(int *value, nib_cu_attribute which, nib_cu_device device)
{
    (void)device;
    *value = which == NIB_CU_MAJOR          ? state.cc / 10
             : which == NIB_CU_MINOR        ? state.cc % 10
             : which == NIB_CU_UNITS        ? state.units
             : which == NIB_CU_THREADS_UNIT ? 2048
                                            : 0;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuDevicePrimaryCtxRetain(nib_cu_context *context, nib_cu_device device)
{
    state.alive++;
    primary[device].device = device;
    *context = &primary[device];
    return NIB_CU_SUCCESS;
}

nib_cu_result cuDevicePrimaryCtxRelease_v2(nib_cu_device device)
{
    (void)device;
    state.alive--;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuCtxGetCurrent(nib_cu_context *context)
{
    *context = depth ? stack[depth - 1] : NULL;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuCtxPushCurrent_v2(nib_cu_context context)
{
    if (depth == STACK)
        return NIB_CU_INVALID_CONTEXT;
    stack[depth++] = context;
    state.pushes++;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuCtxPopCurrent_v2(nib_cu_context *context)
{
    if (!depth)
        return NIB_CU_INVALID_CONTEXT;
    *context = stack[--depth];
    state.pops++;
    return NIB_CU_SUCCESS;
}

static nib_cu_result refuse(unsigned int count, nib_cu_attribute *options, void **values,
                            nib_cu_result result)
{
    for (unsigned int i = 0; i < count; i++)
        if (options[i] == NIB_CU_JIT_ERROR_LOG)
            strcpy(values[i], "the log of a refusal");
    return result;
}

nib_cu_result cuModuleLoadDataEx(nib_cu_module *module, const void *image, unsigned int count,
                                 nib_cu_attribute *options, void **values)
{
    bool ptx = !strncmp(image, "ptx", 3);
    if (need_context())
        return need_context();
    state.slow++;
    state.loads++;
    if (!ptx && !state.takes_cubin)
        return refuse(count, options, values, NIB_CU_NO_BINARY_FOR_GPU);
    if (ptx && !state.takes_ptx)
        return refuse(count, options, values, NIB_CU_UNSUPPORTED_PTX_VERSION);
    state.cubins += !ptx;
    state.ptx += ptx;
    *module = calloc(1, sizeof(**module));
    return *module ? NIB_CU_SUCCESS : NIB_CU_OUT_OF_MEMORY;
}

nib_cu_result cuModuleUnload(nib_cu_module module)
{
    state.unloads++;
    free(module);
    return need_context();
}

nib_cu_result cuModuleGetFunction(nib_cu_function *function, nib_cu_module module, const char *name)
{
    *function = &module->functions[module->count++ % 4];
    snprintf((*function)->name, sizeof((*function)->name), "%s", name);
    return need_context();
}

nib_cu_result cuFuncGetAttribute(int *value, nib_cu_attribute which, nib_cu_function function)
{
    (void)function;
    *value = which == NIB_CU_FUNC_REGISTERS ? 96 : 0;
    return need_context();
}

nib_cu_result cuFuncSetAttribute(nib_cu_function function, nib_cu_attribute which, int value)
{
    (void)function, (void)which, (void)value;
    state.slow++;
    return need_context();
}

nib_cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, nib_cu_function function,
                                                          int threads, size_t shared)
{
    (void)function, (void)threads, (void)shared;
    *blocks = 2;
    return need_context();
}

nib_cu_result cuLaunchKernelEx(const nib_cu_launch_config *config, nib_cu_function function,
                               void **params, void **extra)
{
    const nib_cu_launch *launch = (const void *)config;
    (void)extra;
    if (need_context())
        return need_context();
    for (int i = 0; i < 3; i++)
        if (!launch->grid[i] || !launch->block[i])
            return NIB_CU_INVALID_VALUE;
    if (strstr(function->name, "reduce"))
        state.reductions++;
    state.launches++;
    state.last_stream = launch->stream;
    if (!state.launch_result && state.run)
        state.run(function->name, params[0]);
    return state.launch_result;
}

nib_cu_result cuMemAlloc_v2(nib_cu_pointer *memory, size_t bytes)
{
    void *made = NULL;
    state.slow++;
    if (state.alloc_result || !bytes)
        return bytes ? state.alloc_result : NIB_CU_INVALID_VALUE;
    if (need_context() || posix_memalign(&made, 256, bytes))
        return need_context() ? need_context() : NIB_CU_OUT_OF_MEMORY;
    *memory = (nib_cu_pointer)(uintptr_t)made;
    return NIB_CU_SUCCESS;
}

nib_cu_result cuMemFree_v2(nib_cu_pointer memory)
{
    state.slow++;
    free((void *)(uintptr_t)memory);
    return need_context();
}

nib_cu_result cuMemcpyHtoDAsync_v2(nib_cu_pointer to, const void *from, size_t bytes,
                                   nib_cu_stream stream)
{
    state.slow++;
    state.last_stream = stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return need_context();
}

nib_cu_result cuMemcpyDtoHAsync_v2(void *to, nib_cu_pointer from, size_t bytes,
                                   nib_cu_stream stream)
{
    state.slow++;
    state.last_stream = stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return need_context();
}

nib_cu_result cuMemcpyDtoDAsync_v2(nib_cu_pointer to, nib_cu_pointer from, size_t bytes,
                                   nib_cu_stream stream)
{
    return cuMemcpyHtoDAsync_v2(to, (void *)(uintptr_t)from, bytes, stream);
}

nib_cu_result cuStreamSynchronize(nib_cu_stream stream)
{
    (void)stream;
    state.slow++;
    return need_context();
}

nib_cu_result cuEventCreate(nib_cu_event *event, unsigned int flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return *event ? need_context() : NIB_CU_OUT_OF_MEMORY;
}

nib_cu_result cuEventRecord(nib_cu_event event, nib_cu_stream stream)
{
    (void)stream;
    event->records++;
    return need_context();
}

nib_cu_result cuEventSynchronize(nib_cu_event event)
{
    (void)event;
    state.slow++;
    return need_context();
}

nib_cu_result cuEventElapsedTime(float *ms, nib_cu_event from, nib_cu_event to)
{
    *ms = 0.5f;
    return from->records && to->records ? need_context() : NIB_CU_INVALID_HANDLE;
}

nib_cu_result cuEventDestroy_v2(nib_cu_event event)
{
    free(event);
    return need_context();
}
