/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend's own declarations of the driver against the vendor's header, where that is
 * installed. Types are compared by the compiler: this file then does not compile when one is wrong.
 */
#include "host/driver.h"
#include "kernels/common/params.h"

#include <criterion/criterion.h>
#include <stdio.h>

#ifdef NIB_HAVE_CUDA_H
#include <cuda.h>

/* Enumerations are compatible with the integer type that the compiler gives them. */
#define NIB_ENTRY(field, symbol, parameters)                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), nib_cu_result(*) parameters), \
                   #symbol " is declared otherwise in cuda.h");
NIB_CUDA_DRIVER_ENTRIES(NIB_ENTRY)
NIB_CUDA_DRIVER_OPTIONAL(NIB_ENTRY)
#undef NIB_ENTRY

Test(cuda_driver, numbers_are_those_of_the_vendors_header)
{
    static const struct {
        const char *name;
        long ours, theirs;
    } rows[] = {
        {"success", NIB_CU_SUCCESS, CUDA_SUCCESS},
        {"invalid value", NIB_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
        {"out of memory", NIB_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY},
        {"no device", NIB_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE},
        {"invalid device", NIB_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE},
        {"invalid image", NIB_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE},
        {"invalid context", NIB_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT},
        {"no binary", NIB_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {"invalid ptx", NIB_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX},
        {"jit not found", NIB_CU_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_JIT_COMPILER_NOT_FOUND},
        {"ptx version", NIB_CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
        {"jit disabled", NIB_CU_JIT_COMPILATION_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED},
        {"invalid source", NIB_CU_INVALID_SOURCE, CUDA_ERROR_INVALID_SOURCE},
        {"invalid handle", NIB_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE},
        {"context destroyed", NIB_CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED},
        {"capture, first", NIB_CU_CAPTURE_FIRST, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"capture, last", NIB_CU_CAPTURE_LAST, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {"clock", NIB_CU_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        {"units", NIB_CU_UNITS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {"memory clock", NIB_CU_MEMORY_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
        {"memory bus", NIB_CU_MEMORY_BUS_BITS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
        {"cache", NIB_CU_CACHE_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
        {"threads", NIB_CU_THREADS_UNIT, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
        {"major", NIB_CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {"minor", NIB_CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {"shared of a unit", NIB_CU_SHARED_UNIT,
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
        {"registers", NIB_CU_REGISTERS_UNIT, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
        {"shared of a block", NIB_CU_SHARED_BLOCK_OPTIN,
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
        {"static shared", NIB_CU_FUNC_SHARED_STATIC, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES},
        {"local", NIB_CU_FUNC_LOCAL, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES},
        {"registers of a thread", NIB_CU_FUNC_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS},
        {"dynamic shared", NIB_CU_FUNC_SHARED_DYNAMIC_MAX,
         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
        {"carve-out", NIB_CU_FUNC_SHARED_CARVEOUT,
         CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT},
        {"log", NIB_CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER},
        {"cluster", NIB_CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
        {"map of bytes", NIB_CU_MAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8},
        {"map of f16", NIB_CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
        {"map of bf16", NIB_CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
        {"map, swizzle", NIB_CU_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B},
        {"map, promotion", NIB_CU_MAP_PROMOTE_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B},
        {"map, size", sizeof(nib_cuda_map), sizeof(CUtensorMap)},
        {"dependent launch", NIB_CU_LAUNCH_PROGRAMMATIC,
         CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION},
        {"launch, bytes", sizeof(nib_cu_launch), sizeof(CUlaunchConfig)},
        {"launch, stream", offsetof(nib_cu_launch, stream), offsetof(CUlaunchConfig, hStream)},
        {"launch, attributes", offsetof(nib_cu_launch, attributes),
         offsetof(CUlaunchConfig, attrs)},
        {"launch, count", offsetof(nib_cu_launch, attribute_count),
         offsetof(CUlaunchConfig, numAttrs)},
        {"attribute, bytes", sizeof(nib_cu_launch_attribute), sizeof(CUlaunchAttribute)},
        {"attribute, value", offsetof(nib_cu_launch_attribute, value),
         offsetof(CUlaunchAttribute, value)},
        {"log bytes", NIB_CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(rows[i].ours, rows[i].theirs, "%s: %ld, cuda.h has %ld", rows[i].name,
                     rows[i].ours, rows[i].theirs);
}
#else
Test(cuda_driver, numbers_are_those_of_the_vendors_header)
{
    cr_skip("SKIPPED: there is no cuda.h");
}
#endif
