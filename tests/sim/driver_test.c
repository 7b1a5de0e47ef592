/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated driver's own rules: contexts, memory, streams that do nothing until waited for,
 * capture, faults. Linked with libcuda-sim.so; each test is a process of its own.
 */
#include "driver/api.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* k(out, in, n): out[i] = in[i] + 1 for the first n bytes, one thread a byte. */
static const char kernel[] =
    ".version 9.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".global .align 4 .b8 v[64];\n"
    ".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2)\n"
    ".maxntid 256, 1, 1\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .b16 %rs<3>; .reg .b32 %r<6>; .reg .b64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [k_param_0];\n"
    "  ld.param.u64 %rd2, [k_param_1];\n"
    "  ld.param.u32 %r1, [k_param_2];\n"
    "  mov.u32 %r2, %ctaid.x;\n"
    "  mov.u32 %r3, %ntid.x;\n"
    "  mov.u32 %r4, %tid.x;\n"
    "  mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.s32 %p1, %r5, %r1;\n"
    "  @%p1 bra $done;\n"
    "  cvta.to.global.u64 %rd3, %rd1;\n"
    "  cvta.to.global.u64 %rd4, %rd2;\n"
    "  cvt.s64.s32 %rd5, %r5;\n"
    "  add.s64 %rd6, %rd4, %rd5;\n"
    "  add.s64 %rd7, %rd3, %rd5;\n"
    "  ld.global.u8 %rs1, [%rd6];\n"
    "  add.s16 %rs2, %rs1, 1;\n"
    "  st.global.u8 [%rd7], %rs2;\n"
    "$done:\n"
    "  ret;\n"
    "}\n";

enum { BYTES = 1000 };

static CUcontext start(void)
{
    CUcontext ctx;
    setenv("NIB_SIM_LAZY", "1", 0);
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
    cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    return ctx;
}

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr memory;
    cr_assert_eq(cuMemAlloc_v2(&memory, bytes), CUDA_SUCCESS);
    return memory;
}

static CUfunction load(void)
{
    CUmodule module;
    CUfunction function;
    cr_assert_eq(cuModuleLoadData(&module, kernel), CUDA_SUCCESS);
    cr_assert_eq(cuModuleGetFunction(&function, module, "k"), CUDA_SUCCESS);
    return function;
}

static CUresult launch(CUfunction function, CUdeviceptr out, CUdeviceptr in, int count,
                       CUstream stream)
{
    void *params[] = {&out, &in, &count};
    return cuLaunchKernel(function, ((unsigned)count + 255) / 256, 1, 1, 256, 1, 1, 0, stream,
                          params, NULL);
}

static CUstream stream(unsigned flags)
{
    CUstream made;
    cr_assert_eq(cuStreamCreate(&made, flags), CUDA_SUCCESS);
    return made;
}

static bool all(const unsigned char *bytes, size_t count, unsigned char value)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != value)
            return false;
    }
    return true;
}

Test(sim_driver, answers_nothing_before_cuInit)
{
    int count;
    CUcontext ctx;
    cr_assert_eq(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_ERROR_NOT_INITIALIZED);
}

Test(sim_driver, poses_as_the_chip_it_was_asked_for)
{
    int major, minor, units, clusters;
    char name[64];
    setenv("NIB_SIM_CC", "130", 1);
    setenv("NIB_SIM_DEVICES", "2", 1);
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 1);
    cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1);
    cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1);
    cr_assert(major == 13 && minor == 0 && units > 0 && clusters == 1);
    cr_assert_eq(cuDeviceGetName(name, sizeof(name), 1), CUDA_SUCCESS);
    cr_assert(strstr(name, "simulated"));
    cr_assert_eq(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2),
                 CUDA_ERROR_INVALID_DEVICE);
}

Test(sim_driver, a_child_of_the_process_that_started_it_has_no_driver)
{
    start();
    pid_t child = fork();
    if (!child) {
        int count;
        bool right = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                     cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
        _exit(right ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
}

Test(sim_driver, a_primary_context_lives_as_long_as_it_is_retained)
{
    CUcontext ctx = start(), again;
    CUdeviceptr memory;
    cr_assert_eq(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
    cr_assert_eq(again, ctx);
    cr_assert_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    cr_assert_eq(cuMemAlloc_v2(&memory, 16), CUDA_SUCCESS);
    cr_assert_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    cr_assert_eq(cuMemAlloc_v2(&memory, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    cr_assert_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

Test(sim_driver, each_thread_has_its_own_stack_of_contexts)
{
    CUcontext ctx = start(), other, top;
    cr_assert_eq(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    cr_assert_eq(cuCtxGetCurrent(&top), CUDA_SUCCESS);
    cr_assert_eq(top, other);
    cr_assert_eq(cuCtxPushCurrent_v2(ctx), CUDA_SUCCESS);
    cr_assert_eq(cuCtxPopCurrent_v2(&top), CUDA_SUCCESS);
    cr_assert_eq(top, ctx);
    cr_assert_eq(cuCtxDestroy_v2(other), CUDA_SUCCESS);
    cr_assert_eq(cuCtxGetCurrent(&top), CUDA_SUCCESS);
    cr_assert_eq(top, ctx);
    cr_assert_eq(cuCtxPushCurrent_v2(other), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    cr_assert_eq(cuCtxPushCurrent_v2((CUcontext)&top), CUDA_ERROR_INVALID_CONTEXT);
}

static void *without_context(void *user)
{
    CUdeviceptr memory;
    *(CUresult *)user = cuMemAlloc_v2(&memory, 16);
    return NULL;
}

Test(sim_driver, a_thread_without_a_context_gets_nothing)
{
    CUresult result = CUDA_SUCCESS;
    pthread_t thread;
    start();
    pthread_create(&thread, NULL, without_context, &result);
    pthread_join(thread, NULL);
    cr_assert_eq(result, CUDA_ERROR_INVALID_CONTEXT);
}

Test(sim_driver, the_host_cannot_follow_a_device_pointer)
{
    start();
    volatile char *memory = (volatile char *)(uintptr_t)allocate(4096);
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers have handlers of their own */
        memory[0] = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

Test(sim_driver, memory_is_poisoned_bounded_and_freed_once)
{
    unsigned char host[BYTES + 1] = {0};
    start();
    CUdeviceptr memory = allocate(BYTES), other = allocate(BYTES);
    cr_assert_eq(cuMemcpyDtoH_v2(host, memory, BYTES), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 0xff));
    cr_assert_eq(cuMemcpyDtoH_v2(host, memory, BYTES + 1), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemcpyHtoD_v2(memory + 1, host, BYTES), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, host, 1), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemFree_v2(memory + 512), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemFree_v2(memory), CUDA_SUCCESS);
    cr_assert_eq(cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemcpyDtoH_v2(host, memory, 1), CUDA_ERROR_INVALID_VALUE);
    cr_assert_neq(allocate(BYTES), memory);
    cr_assert_eq(cuMemFree_v2(other), CUDA_SUCCESS);
    cr_assert_eq(cuMemFree_v2(0), CUDA_SUCCESS);
}

Test(sim_driver, memory_runs_out)
{
    CUdeviceptr memory;
    size_t unused, total;
    setenv("NIB_SIM_MEMORY", "1", 1);
    start();
    cr_assert_eq(cuMemAlloc_v2(&memory, (1 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(cuMemAlloc_v2(&memory, 1 << 19), CUDA_SUCCESS);
    cr_assert_eq(cuMemGetInfo_v2(&unused, &total), CUDA_SUCCESS);
    cr_assert(unused == 1 << 19 && total == 1 << 20);
    cr_assert_eq(cuMemAlloc_v2(&memory, (1 << 19) + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

Test(sim_driver, nothing_is_done_until_somebody_waits)
{
    unsigned char *host;
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuMemHostAlloc((void **)&host, BYTES, 0), CUDA_SUCCESS);
    memset(host, 3, BYTES);
    cr_assert_eq(cuMemcpyHtoDAsync_v2(memory, host, BYTES, s), CUDA_SUCCESS);
    memset(host, 4, BYTES); /* too early: the copy has not read it */
    cr_assert_eq(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    memset(host, 0, BYTES);
    cr_assert_eq(cuMemcpyDtoHAsync_v2(host, memory, BYTES, s), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 0));
    cr_assert_eq(cuStreamSynchronize(s), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 4));
    cr_assert_eq(cuMemFreeHost(host), CUDA_SUCCESS);
}

Test(sim_driver, pageable_memory_is_taken_at_the_call_and_given_before_its_end)
{
    unsigned char host[BYTES];
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    memset(host, 3, BYTES);
    cr_assert_eq(cuMemcpyHtoDAsync_v2(memory, host, BYTES, s), CUDA_SUCCESS);
    memset(host, 4, BYTES);
    cr_assert_eq(cuMemcpyDtoHAsync_v2(host, memory, BYTES, s), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 3));
}

/* A synchronous copy from pageable memory may still be on its way when it returns, and a stream
 * that does not heed the null stream overtakes it. */
Test(sim_driver, the_null_stream_orders_only_those_that_heed_it)
{
    unsigned char host[BYTES] = {0};
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUstream heeding = stream(CU_STREAM_DEFAULT), free_one = stream(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuMemcpyHtoD_v2(memory, host, BYTES), CUDA_SUCCESS);
    cr_assert_eq(cuMemcpyDtoHAsync_v2(host, memory, BYTES, free_one), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 0xff));
    cr_assert_eq(cuMemcpyDtoHAsync_v2(host, memory, BYTES, heeding), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 0));
}

Test(sim_driver, events_order_streams_and_carry_simulated_time)
{
    unsigned char host[BYTES];
    float ms = -1;
    CUevent begun, done;
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    cuEventCreate(&begun, 0);
    cuEventCreate(&done, 0);
    cr_assert_eq(cuEventRecord(begun, a), CUDA_SUCCESS);
    cr_assert_eq(cuMemsetD8Async(memory, 7, BYTES, a), CUDA_SUCCESS);
    cr_assert_eq(cuEventRecord(done, a), CUDA_SUCCESS);
    cr_assert_eq(cuEventElapsedTime(&ms, begun, done), CUDA_ERROR_NOT_READY);
    cr_assert_eq(cuStreamWaitEvent(b, done, 0), CUDA_SUCCESS);
    cr_assert_eq(cuMemcpyDtoHAsync_v2(host, memory, BYTES, b), CUDA_SUCCESS);
    cr_assert(all(host, BYTES, 7));
    cr_assert_eq(cuEventQuery(done), CUDA_SUCCESS);
    cr_assert_eq(cuEventElapsedTime(&ms, begun, done), CUDA_SUCCESS);
    cr_assert(ms > 0);
    cr_assert_eq(cuEventDestroy_v2(done), CUDA_SUCCESS);
    cr_assert_eq(cuEventSynchronize(done), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_driver, a_question_asked_often_enough_is_answered)
{
    CUevent done;
    CUresult result = CUDA_ERROR_NOT_READY;
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    cuEventCreate(&done, 0);
    for (int i = 0; i < 5; i++)
        cuMemsetD8Async(memory, (unsigned char)i, BYTES, s);
    cuEventRecord(done, s);
    cr_assert_eq(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    for (int i = 0; i < 10 && result == CUDA_ERROR_NOT_READY; i++)
        result = cuEventQuery(done);
    cr_assert_eq(result, CUDA_SUCCESS);
}

Test(sim_driver, a_launch_reads_its_parameters_at_the_call)
{
    unsigned char host[BYTES];
    start();
    CUdeviceptr in = allocate(BYTES), out = allocate(BYTES);
    CUfunction function = load();
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    cuMemsetD8Async(in, 5, BYTES, s);
    cr_assert_eq(launch(function, out, in, BYTES, s), CUDA_SUCCESS);
    cuMemcpyDtoHAsync_v2(host, out, BYTES, s);
    cr_assert(all(host, BYTES, 6));
}

Test(sim_driver, a_launch_beyond_the_limits_is_refused)
{
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUfunction function = load();
    int count = BYTES;
    void *params[] = {&memory, &memory, &count};
    cr_assert_eq(cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, NULL, params, NULL),
                 CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuLaunchKernel(function, 1, 1, 1, 512, 1, 1, 0, NULL, params, NULL),
                 CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 60000, NULL, params, NULL),
                 CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(
        cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200000),
        CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(
        cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000),
        CUDA_SUCCESS);
    cr_assert_eq(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 60000, NULL, params, NULL),
                 CUDA_SUCCESS);
    cr_assert_eq(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL),
                 CUDA_ERROR_INVALID_VALUE);
}

Test(sim_driver, a_fault_is_told_later_and_stays)
{
    CUdeviceptr more;
    char line[512] = "", path[] = "sim-report-XXXXXX";
    close(mkstemp(path));
    setenv("NIB_SIM_REPORT", path, 1);
    start();
    CUdeviceptr in = allocate(BYTES), out = allocate(BYTES - 1);
    CUfunction function = load();
    cr_assert_eq(launch(function, out, in, BYTES, NULL), CUDA_SUCCESS);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_assert_eq(cuMemAlloc_v2(&more, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_assert_eq(launch(function, in, in, BYTES, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    FILE *report = fopen(path, "r");
    cr_assert(report && fgets(line, sizeof(line), report));
    fclose(report);
    unlink(path);
    cr_assert(strstr(line, "launch 1"), "the report says: %s", line);
}

Test(sim_driver, memory_freed_too_early_is_found)
{
    start();
    CUdeviceptr in = allocate(BYTES), out = allocate(BYTES);
    CUfunction function = load();
    cuMemFree_v2(out);
    launch(function, out, in, BYTES, NULL);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_driver, memory_of_another_device_is_out_of_reach)
{
    CUcontext second;
    setenv("NIB_SIM_DEVICES", "2", 1);
    start();
    CUdeviceptr here = allocate(BYTES);
    cuDevicePrimaryCtxRetain(&second, 1);
    cuCtxPushCurrent_v2(second);
    CUdeviceptr there = allocate(BYTES);
    CUfunction function = load();
    launch(function, there, here, BYTES, NULL);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    cuCtxPopCurrent_v2(NULL);
    cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

Test(sim_driver, handles_belong_to_their_context)
{
    CUcontext second;
    setenv("NIB_SIM_DEVICES", "2", 1);
    start();
    CUdeviceptr here = allocate(BYTES);
    CUfunction function = load();
    CUstream s = stream(CU_STREAM_DEFAULT);
    cuDevicePrimaryCtxRetain(&second, 1);
    cuCtxPushCurrent_v2(second);
    cr_assert_eq(launch(function, here, here, BYTES, NULL), CUDA_ERROR_INVALID_HANDLE);
    cr_assert_eq(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    cr_assert_eq(cuMemFree_v2(here), CUDA_ERROR_INVALID_VALUE);
    cuCtxPopCurrent_v2(NULL);
    cr_assert_eq(cuStreamDestroy_v2(s), CUDA_SUCCESS);
    cr_assert_eq(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_driver, binaries_and_newer_targets_are_refused)
{
    static const unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    char log[200] = "";
    CUmodule module;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    start();
    cr_assert_eq(cuModuleLoadDataEx(&module, elf, 2, options, values),
                 CUDA_ERROR_NO_BINARY_FOR_GPU);
    values[1] = (void *)(uintptr_t)sizeof(log);
    cr_assert_eq(cuModuleLoadDataEx(&module, ".version 9.0\n.target sm_90\n.address_size 64\n", 2,
                                    options, values),
                 CUDA_ERROR_INVALID_PTX);
    cr_assert(strstr(log, "sm_90") && strlen(log) == (size_t)(uintptr_t)values[1]);
    cr_assert_eq(cuModuleLoadData(&module, ".version 99.0\n.target sm_80\n.address_size 64\n"),
                 CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    cr_assert_eq(cuModuleLoadData(&module, "nonsense"), CUDA_ERROR_INVALID_IMAGE);
}

Test(sim_driver, a_target_with_an_a_runs_on_its_chip_alone)
{
    CUmodule module;
    setenv("NIB_SIM_CC", "100", 1);
    start();
    cr_assert_eq(cuModuleLoadData(&module, ".version 9.0\n.target sm_90a\n.address_size 64\n"),
                 CUDA_ERROR_INVALID_PTX);
    cr_assert_eq(cuModuleLoadData(&module, kernel), CUDA_SUCCESS);
}

Test(sim_driver, a_variable_of_a_module_is_device_memory)
{
    CUmodule module;
    CUdeviceptr variable;
    size_t bytes;
    unsigned char host[64];
    start();
    cuModuleLoadData(&module, kernel);
    cr_assert_eq(cuModuleGetGlobal_v2(&variable, &bytes, module, "v"), CUDA_SUCCESS);
    cr_assert_eq(bytes, 64);
    cr_assert_eq(cuMemsetD8_v2(variable, 9, bytes), CUDA_SUCCESS);
    cr_assert_eq(cuMemcpyDtoH_v2(host, variable, bytes), CUDA_SUCCESS);
    cr_assert(all(host, bytes, 9));
    cr_assert_eq(cuModuleGetGlobal_v2(&variable, &bytes, module, "w"), CUDA_ERROR_NOT_FOUND);
    cr_assert_eq(cuModuleUnload(module), CUDA_SUCCESS);
    cr_assert_eq(cuMemcpyDtoH_v2(host, variable, bytes), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_driver, entry_points_are_found_by_name)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    cr_assert_eq(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status), CUDA_SUCCESS);
    cr_assert_eq((uintptr_t)found, (uintptr_t)cuMemAlloc_v2);
    cr_assert_eq(cuGetProcAddress_v2("cuGraphInstantiate", &found, 12000, 0, &status),
                 CUDA_SUCCESS);
    cr_assert_eq((uintptr_t)found, (uintptr_t)cuGraphInstantiateWithFlags);
    cr_assert_eq(cuGetProcAddress_v2("cuNothing", &found, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
    cr_assert(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

/* ---- capture ------------------------------------------------------------------------------ */

Test(sim_driver, a_captured_graph_runs_again_and_again)
{
    unsigned char host[BYTES];
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes;
    start();
    CUdeviceptr a = allocate(BYTES), b = allocate(BYTES);
    CUfunction function = load();
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    cuMemsetD8Async(a, 0, BYTES, s);
    cr_assert_eq(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    launch(function, b, a, BYTES, s);
    launch(function, a, b, BYTES, s);
    cr_assert_eq(cuStreamEndCapture(s, &graph), CUDA_SUCCESS);
    cr_assert_eq(cuGraphGetNodes(graph, NULL, &nodes), CUDA_SUCCESS);
    cr_assert_eq(nodes, 2);
    cr_assert_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    cr_assert_eq(cuGraphDestroy(graph), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(cuGraphLaunch(exec, s), CUDA_SUCCESS);
    cr_assert_eq(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    cuMemcpyDtoHAsync_v2(host, a, BYTES, s);
    cr_assert(all(host, BYTES, 6));
    cr_assert_eq(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_driver, a_capture_follows_events_into_other_streams)
{
    CUgraph graph;
    CUevent fork_point, join_point;
    start();
    CUdeviceptr memory = allocate(BYTES);
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    cuEventCreate(&fork_point, 0);
    cuEventCreate(&join_point, 0);
    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuEventRecord(fork_point, a);
    cr_assert_eq(cuStreamWaitEvent(b, fork_point, 0), CUDA_SUCCESS);
    cuMemsetD8Async(memory, 1, BYTES, b);
    cr_assert_eq(cuEventRecord(join_point, b), CUDA_SUCCESS);
    cr_assert_eq(cuStreamWaitEvent(a, join_point, 0), CUDA_SUCCESS);
    cuMemsetD8Async(memory, 2, BYTES, a);
    cr_assert_eq(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    cr_assert_eq(cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
    cr_assert_eq(cuEventQuery(join_point), CUDA_ERROR_CAPTURED_EVENT);

    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuEventRecord(fork_point, a);
    cuStreamWaitEvent(b, fork_point, 0);
    cuMemsetD8Async(memory, 1, BYTES, b);
    cr_assert_eq(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static CUstream capturing(unsigned flags)
{
    CUstream s = stream(flags);
    cr_assert_eq(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    return s;
}

static void spoiled(CUstream s)
{
    CUgraph graph;
    cr_assert_eq(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    cr_assert_null(graph);
}

Test(sim_driver, what_a_capture_forbids_spoils_it)
{
    unsigned char host[16] = {0};
    CUdeviceptr more;
    CUmodule module;
    CUevent event;
    start();
    CUdeviceptr memory = allocate(16);
    cuEventCreate(&event, 0);
    cuEventRecord(event, NULL);

    CUstream s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    spoiled(s);
    s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuMemAlloc_v2(&more, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    spoiled(s);
    s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuMemcpyHtoD_v2(memory, host, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    spoiled(s);
    s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuModuleLoadData(&module, kernel), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    spoiled(s);
    s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    spoiled(s);
    s = capturing(CU_STREAM_DEFAULT);
    cr_assert_eq(cuMemsetD8Async(memory, 1, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    spoiled(s);
    s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuStreamWaitEvent(s, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    spoiled(s);
    s = capturing(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuMemcpyHtoDAsync_v2(memory, host, 16, s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    spoiled(s);
    cr_assert_eq(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* ---- threads ------------------------------------------------------------------------------ */

typedef struct worker {
    CUcontext ctx;
    CUfunction function;
    bool good;
} worker;

static void *work(void *user)
{
    worker *w = user;
    unsigned char host[BYTES];
    CUstream s;
    CUdeviceptr a, b;
    w->good = !cuCtxPushCurrent_v2(w->ctx) && !cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) &&
              !cuMemAlloc_v2(&a, BYTES) && !cuMemAlloc_v2(&b, BYTES) &&
              !cuMemsetD8Async(a, 1, BYTES, s);
    for (int i = 0; i < 8 && w->good; i++)
        w->good = !launch(w->function, i % 2 ? a : b, i % 2 ? b : a, BYTES, s);
    w->good = w->good && !cuMemcpyDtoHAsync_v2(host, a, BYTES, s) && all(host, BYTES, 9) &&
              !cuMemFree_v2(a) && !cuMemFree_v2(b) && !cuStreamDestroy_v2(s);
    return NULL;
}

Test(sim_driver, sixteen_threads_share_a_context)
{
    pthread_t threads[16];
    worker workers[16];
    setenv("NIB_SIM_LAZY", "0", 1);
    CUcontext ctx = start();
    CUfunction function = load();
    for (int i = 0; i < 16; i++) {
        workers[i] = (worker){ctx, function, false};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(workers[i].good, "thread %d", i);
    }
}

static void call_back(void *user)
{
    ++*(int *)user;
}

Test(sim_driver, the_host_is_called_in_the_streams_order)
{
    int calls = 0;
    start();
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    cr_assert_eq(cuLaunchHostFunc(s, call_back, &calls), CUDA_SUCCESS);
    cr_assert_eq(cuLaunchHostFunc(s, call_back, &calls), CUDA_SUCCESS);
    cr_assert_eq(calls, 0);
    cr_assert_eq(cuStreamSynchronize(s), CUDA_SUCCESS);
    cr_assert_eq(calls, 2);
}

/* ---- tensor maps --------------------------------------------------------------------------- */

/* k(map, out): the box at column 32, row 1 of the map's tensor of 16-bit elements to out. */
static const char tensor_kernel[] =
    ".version 9.0\n"
    ".target sm_90a\n"
    ".address_size 64\n"
    ".shared .align 1024 .b8 tile[1024];\n"
    ".shared .align 8 .b64 bar;\n"
    ".visible .entry k(.param .align 64 .b8 k_param_0[128], .param .u64 k_param_1)\n"
    ".maxntid 64, 1, 1\n"
    "{\n"
    "  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<6>;\n"
    "  mov.b64 %rd0, k_param_0; cvta.param.u64 %rd1, %rd0;\n"
    "  ld.param.u64 %rd2, [k_param_1]; mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0;\n"
    "  mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r3, 1024; mov.u32 %r4, 32; mov.u32 %r5, 1;\n"
    "  @%p0 bra $on;\n"
    "  prefetch.tensormap [%rd1];\n"
    "  mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], %r3;\n"
    "  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [%r1], [%rd1, {%r4, %r5}], [%r2];\n"
    "$on: bar.sync 0;\n"
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra $wait;\n"
    "  mad.lo.u32 %r1, %r0, 16, %r1; mad.wide.u32 %rd2, %r0, 16, %rd2;\n"
    "  ld.shared.v2.b64 {%rd4, %rd5}, [%r1]; st.global.v2.b64 [%rd2], {%rd4, %rd5};\n"
    "  ret;\n"
    "}\n";

static CUresult encode(CUtensorMap *map, CUdeviceptr address, cuuint64_t columns, cuuint64_t stride,
                       cuuint32_t box, CUtensorMapSwizzle swizzle)
{
    const cuuint64_t size[] = {columns, 8};
    const cuuint32_t boxes[] = {box, 8}, steps[] = {1, 1};
    return cuTensorMapEncodeTiled(
        map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)(uintptr_t)address, size, &stride, boxes,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

Test(sim_driver, a_kernel_copies_boxes_by_a_map_in_its_parameters)
{
    enum { COLUMNS = 80, ROWS = 8 };
    uint16_t host[ROWS * COLUMNS], out[512];
    CUtensorMap map;
    CUmodule module;
    CUfunction function;
    setenv("NIB_SIM_CC", "90", 1);
    start();
    CUdeviceptr memory = allocate(sizeof(host)), result = allocate(sizeof(out));
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        host[i] = (uint16_t)(i * 77);
    cuMemcpyHtoD_v2(memory, host, sizeof(host));
    cr_assert_eq(encode(&map, memory, COLUMNS, COLUMNS * 2, 64, CU_TENSOR_MAP_SWIZZLE_128B),
                 CUDA_SUCCESS);
    cr_assert_eq(cuModuleLoadData(&module, tensor_kernel), CUDA_SUCCESS);
    cr_assert_eq(cuModuleGetFunction(&function, module, "k"), CUDA_SUCCESS);
    void *params[] = {&map, &result};
    cr_assert_eq(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL), CUDA_SUCCESS);
    memset(&map, 0, sizeof(map)); /* the launch has its own */
    cr_assert_eq(cuMemcpyDtoH_v2(out, result, sizeof(out)), CUDA_SUCCESS);
    for (unsigned row = 0; row < 8; row++) {
        for (unsigned column = 0; column < 64; column++) {
            unsigned at = row * 64 + (column ^ (row & 7) << 3);
            bool inside = row + 1 < ROWS && column + 32 < COLUMNS;
            cr_assert_eq(out[at], inside ? host[(row + 1) * COLUMNS + column + 32] : 0);
        }
    }
}

Test(sim_driver, maps_that_a_copy_could_not_use_are_refused)
{
    CUtensorMap maps[2];
    char *odd = (char *)maps + 16;
    setenv("NIB_SIM_CC", "90", 1);
    start();
    CUdeviceptr memory = allocate(4096);
    CUtensorMap *map = (CUtensorMap *)(void *)maps;
    cr_assert_eq(encode(map, memory, 80, 160, 64, CU_TENSOR_MAP_SWIZZLE_128B), CUDA_SUCCESS);
    const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
    cr_assert_eq(encode((CUtensorMap *)(void *)odd, memory, 80, 160, 64, 0), invalid);
    cr_assert_eq(encode(map, memory + 8, 80, 160, 64, 0), invalid);
    cr_assert_eq(encode(map, memory, 80, 168, 64, 0), invalid);
    cr_assert_eq(encode(map, memory, 80, UINT64_C(1) << 40, 64, 0), invalid);
    cr_assert_eq(encode(map, memory, 0, 160, 64, 0), invalid);
    cr_assert_eq(encode(map, memory, 80, 160, 0, 0), invalid);
    cr_assert_eq(encode(map, memory, 80, 160, 12, 0), invalid);
    cr_assert_eq(encode(map, memory, 80, 160, 264, 0), invalid);
    cr_assert_eq(encode(map, memory, 80, 160, 64, CU_TENSOR_MAP_SWIZZLE_64B), invalid);
    cr_assert_eq(encode(NULL, memory, 80, 160, 64, 0), invalid);
}

Test(sim_driver, chips_before_hopper_have_no_tensor_maps)
{
    CUtensorMap map;
    setenv("NIB_SIM_CC", "89", 1);
    start();
    cr_assert_eq(encode(&map, allocate(4096), 80, 160, 64, 0), CUDA_ERROR_NOT_SUPPORTED);
}
