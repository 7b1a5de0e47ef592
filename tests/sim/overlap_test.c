/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches that may be under way together (griddepcontrol), and clusters, through the simulated
 * driver. Part of test-sim-driver; each test is a process of its own.
 */
#include "driver/api.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* k(out, in), 64 threads: word t of in, plus one, to word t of out, after what HOW says. idle does
 * nothing; rank(out) writes each block's rank. */
#define KERNEL(name, how)                                                            \
    ".visible .entry " name "(.param .u64 p0, .param .u64 p1)\n{\n"                  \
    "  .reg .pred %p0; .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"                         \
    "  ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x;\n"     \
    "  mad.wide.u32 %rd0, %r0, 4, %rd0; mad.wide.u32 %rd1, %r0, 4, %rd1;\n"          \
    "  griddepcontrol.launch_dependents;\n" how                                      \
    "  ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd0], %r1;\n" \
    "  ret;\n}\n"

static const char kernels[] = ".version 9.0\n.target sm_90\n.address_size 64\n" KERNEL(
    "waits", "griddepcontrol.wait;\n") KERNEL("hastes", "")
    KERNEL("one_waits", "setp.lt.u32 %p0, %r0, 32; @%p0 griddepcontrol.wait;\n") KERNEL(
        "one_waits_for_all", "setp.lt.u32 %p0, %r0, 32; @%p0 griddepcontrol.wait; bar.sync 0;\n")
        KERNEL(
            "writes_early",
            "st.global.u32 [%rd0], %r0; griddepcontrol.wait;\n") ".visible .entry idle()\n{\n  "
                                                                 "griddepcontrol.launch_dependents;"
                                                                 " ret;\n}\n"
                                                                 ".visible .entry rank(.param .u64 "
                                                                 "p0)\n{\n"
                                                                 "  .reg .b32 %r<2>; .reg .b64 "
                                                                 "%rd<2>;\n"
                                                                 "  ld.param.u64 %rd0, [p0]; "
                                                                 "mov.u32 %r0, %ctaid.x; mov.u32 "
                                                                 "%r1, %cluster_ctarank;\n"
                                                                 "  mad.wide.u32 %rd0, %r0, 4, "
                                                                 "%rd0; st.global.u32 [%rd0], %r1; "
                                                                 "ret;\n}\n";

enum { BYTES = 256 };

static CUmodule module;
static CUdeviceptr a, b, c;

static void start(void)
{
    CUcontext ctx;
    setenv("NIB_SIM_CC", "90", 1);
    setenv("NIB_SIM_LAZY", "1", 0);
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
    cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    cr_assert_eq(cuModuleLoadData(&module, kernels), CUDA_SUCCESS);
    cr_assert_eq(cuMemAlloc_v2(&a, BYTES), CUDA_SUCCESS);
    cr_assert_eq(cuMemAlloc_v2(&b, BYTES), CUDA_SUCCESS);
    cr_assert_eq(cuMemAlloc_v2(&c, BYTES), CUDA_SUCCESS);
    cr_assert_eq(cuMemsetD32_v2(a, 1, BYTES / 4), CUDA_SUCCESS);
}

static CUresult launch(const char *name, CUdeviceptr out, CUdeviceptr in, CUstream stream,
                       bool dependent)
{
    CUfunction function;
    CUlaunchAttribute attribute;
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = dependent;
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 64,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};
    void *params[] = {&out, &in};
    cr_assert_eq(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return cuLaunchKernelEx(&config, function, params, NULL);
}

static void ask(const char *name, CUdeviceptr out, CUdeviceptr in, bool dependent)
{
    cr_assert_eq(launch(name, out, in, NULL, dependent), CUDA_SUCCESS);
}

Test(sim_overlap, launches_that_wait_may_follow_each_other)
{
    uint32_t out[BYTES / 4];
    start();
    ask("waits", b, a, true);
    ask("waits", c, b, true);
    ask("one_waits_for_all", b, c, true);
    cr_assert_eq(cuMemcpyDtoH_v2(out, b, BYTES), CUDA_SUCCESS);
    cr_assert(out[0] == 4 && out[BYTES / 4 - 1] == 4);
}

Test(sim_overlap, a_launch_that_does_not_wait_must_not_read_what_is_being_written)
{
    start();
    ask("waits", b, a, true);
    ask("hastes", c, b, true);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

Test(sim_overlap, threads_that_are_not_told_of_a_wait_have_not_waited)
{
    start();
    ask("hastes", b, a, false);
    ask("one_waits", c, b, true);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

Test(sim_overlap, what_is_being_read_must_not_be_written)
{
    start();
    ask("waits", b, a, false);
    ask("writes_early", a, c, true);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

Test(sim_overlap, a_launch_that_does_not_wait_hides_the_one_before)
{
    start();
    ask("waits", b, a, true);
    ask("idle", 0, 0, true);
    ask("waits", c, b, true);
    cr_assert_eq(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

Test(sim_overlap, nothing_overlaps_that_was_not_asked_to)
{
    CUstream stream;
    CUevent event;
    start();
    ask("hastes", b, a, true);
    ask("hastes", c, b, false);
    cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    ask("hastes", b, c, true);
    cr_assert_eq(cuMemsetD8Async(a, 0, 1, NULL), CUDA_SUCCESS);
    ask("hastes", c, b, true);
    cr_assert_eq(cuEventCreate(&event, 0), CUDA_SUCCESS);
    cr_assert_eq(cuEventRecord(event, NULL), CUDA_SUCCESS);
    cr_assert_eq(cuEventSynchronize(event), CUDA_SUCCESS);
    ask("hastes", b, c, true);
    cr_assert_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    cr_assert_eq(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    ask("hastes", a, b, true);
    cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

Test(sim_overlap, launches_of_a_graph_overlap_as_well)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    for (int hastes = 0; hastes < 2; hastes++) {
        if (!hastes)
            start();
        cr_assert_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        cr_assert_eq(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
        launch("waits", b, a, stream, true);
        launch(hastes ? "hastes" : "waits", c, b, stream, true);
        cr_assert_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
        cr_assert_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
        cr_assert_eq(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        cr_assert_eq(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        cr_assert_eq(cuStreamSynchronize(stream), hastes ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    }
}

static CUresult launch_cluster(unsigned blocks, unsigned cluster)
{
    CUfunction function;
    CUlaunchAttribute attribute;
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = cluster;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    CUlaunchConfig config = {.gridDimX = blocks,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &attribute,
                             .numAttrs = 1};
    void *params[] = {&a};
    cr_assert_eq(cuModuleGetFunction(&function, module, "rank"), CUDA_SUCCESS);
    return cuLaunchKernelEx(&config, function, params, NULL);
}

Test(sim_overlap, clusters_are_as_the_launch_says)
{
    uint32_t out[8];
    start();
    cr_assert_eq(launch_cluster(8, 4), CUDA_SUCCESS);
    cr_assert_eq(cuMemcpyDtoH_v2(out, a, sizeof(out)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 8; i++)
        cr_assert_eq(out[i], i % 4);
    cr_assert_eq(launch_cluster(6, 4), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(launch_cluster(16, 16), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}
