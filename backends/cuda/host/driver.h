/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the CUDA driver library that this backend calls: own prototypes, opened at run time
 * from libcuda.so.1 (NIB_CUDA_LIBRARY). tests/unit/cuda_driver.c compares every prototype and
 * number here with the vendor's header where one is installed. Only host/ includes this.
 */
#ifndef NIB_CUDA_DRIVER_H
#define NIB_CUDA_DRIVER_H

#include <nibblas/nibblas.h>
#include <stdbool.h>

/* Handles, under the tags of cuda.h so that pointers to them are the same types there. */
typedef struct CUctx_st *nib_cu_context;
typedef struct CUmod_st *nib_cu_module;
typedef struct CUfunc_st *nib_cu_function;
typedef struct CUstream_st *nib_cu_stream;
typedef struct CUevent_st *nib_cu_event;
/* Passed as nib_cu_launch, which has its layout. */
typedef struct CUlaunchConfig_st nib_cu_launch_config;
typedef struct CUtensorMap_st nib_cu_tensor_map; /* 128 bytes, aligned to 64 */
typedef int nib_cu_device;
typedef unsigned long long nib_cu_pointer;
/* Enumerations of the vendor's, all of this width. */
typedef unsigned int nib_cu_result;
typedef unsigned int nib_cu_attribute;

enum { /* nib_cu_result */
       NIB_CU_SUCCESS = 0,
       NIB_CU_INVALID_VALUE = 1,
       NIB_CU_OUT_OF_MEMORY = 2,
       NIB_CU_NOT_INITIALIZED = 3,
       NIB_CU_NO_DEVICE = 100,
       NIB_CU_INVALID_DEVICE = 101,
       NIB_CU_INVALID_IMAGE = 200,
       NIB_CU_INVALID_CONTEXT = 201,
       NIB_CU_NO_BINARY_FOR_GPU = 209,
       NIB_CU_INVALID_PTX = 218,
       NIB_CU_JIT_COMPILER_NOT_FOUND = 221,
       NIB_CU_UNSUPPORTED_PTX_VERSION = 222,
       NIB_CU_JIT_COMPILATION_DISABLED = 223,
       NIB_CU_INVALID_SOURCE = 300,
       NIB_CU_INVALID_HANDLE = 400,
       NIB_CU_NOT_FOUND = 500,
       NIB_CU_CONTEXT_IS_DESTROYED = 709,
       NIB_CU_CAPTURE_FIRST = 900, /* stream capture: 900 to 908 */
       NIB_CU_CAPTURE_LAST = 908
};

enum { /* nib_cu_attribute of a device */
       NIB_CU_CLOCK_KHZ = 13,
       NIB_CU_UNITS = 16,
       NIB_CU_MEMORY_CLOCK_KHZ = 36,
       NIB_CU_MEMORY_BUS_BITS = 37,
       NIB_CU_CACHE_BYTES = 38,
       NIB_CU_THREADS_UNIT = 39, /* resident on a multiprocessor */
       NIB_CU_MAJOR = 75,
       NIB_CU_MINOR = 76,
       NIB_CU_SHARED_UNIT = 81,
       NIB_CU_REGISTERS_UNIT = 82,
       NIB_CU_SHARED_BLOCK_OPTIN = 97
};

enum { /* nib_cu_attribute of a function */
       NIB_CU_FUNC_SHARED_STATIC = 1,
       NIB_CU_FUNC_LOCAL = 3,
       NIB_CU_FUNC_REGISTERS = 4,
       NIB_CU_FUNC_SHARED_DYNAMIC_MAX = 8,
       NIB_CU_FUNC_SHARED_CARVEOUT = 9
};

enum { /* options of cuModuleLoadDataEx */
       NIB_CU_JIT_ERROR_LOG = 5,
       NIB_CU_JIT_ERROR_LOG_BYTES = 6
};

enum { /* ids of launch attributes */
       NIB_CU_LAUNCH_CLUSTER = 4,
       NIB_CU_LAUNCH_PROGRAMMATIC = 6 /* dependent launch */
};

enum { /* of cuTensorMapEncodeTiled: elements, swizzle, promotion in the second-level cache */
       NIB_CU_MAP_U8 = 0,
       NIB_CU_MAP_F16 = 6,
       NIB_CU_MAP_BF16 = 9,
       NIB_CU_MAP_SWIZZLE_128 = 3,
       NIB_CU_MAP_PROMOTE_256 = 3
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct nib_cu_launch_attribute {
    nib_cu_attribute id;
    char padding[4];
    union {
        char bytes[64];
        int allowed;
        unsigned int cluster[3];
    } value;
} nib_cu_launch_attribute;

typedef struct nib_cu_launch {
    unsigned int grid[3], block[3], shared_bytes;
    nib_cu_stream stream;
    nib_cu_launch_attribute *attributes;
    unsigned int attribute_count;
} nib_cu_launch;

/* Every entry: field, symbol, parameters. A list, because the table, the loader and the check
 * against cuda.h must agree on it. */
#define NIB_CUDA_DRIVER_ENTRIES(X)                                                                 \
    X(init, cuInit, (unsigned int))                                                                \
    X(driver_version, cuDriverGetVersion, (int *))                                                 \
    X(error_name, cuGetErrorName, (nib_cu_result, const char **))                                  \
    X(error_text, cuGetErrorString, (nib_cu_result, const char **))                                \
    X(device_count, cuDeviceGetCount, (int *))                                                     \
    X(device_get, cuDeviceGet, (nib_cu_device *, int))                                             \
    X(device_name, cuDeviceGetName, (char *, int, nib_cu_device))                                  \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *, nib_cu_device))                               \
    X(device_attribute, cuDeviceGetAttribute, (int *, nib_cu_attribute, nib_cu_device))            \
    X(primary_retain, cuDevicePrimaryCtxRetain, (nib_cu_context *, nib_cu_device))                 \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (nib_cu_device))                              \
    X(context_current, cuCtxGetCurrent, (nib_cu_context *))                                        \
    X(context_push, cuCtxPushCurrent_v2, (nib_cu_context))                                         \
    X(context_pop, cuCtxPopCurrent_v2, (nib_cu_context *))                                         \
    X(module_load, cuModuleLoadDataEx,                                                             \
      (nib_cu_module *, const void *, unsigned int, nib_cu_attribute *, void **))                  \
    X(module_unload, cuModuleUnload, (nib_cu_module))                                              \
    X(module_function, cuModuleGetFunction, (nib_cu_function *, nib_cu_module, const char *))      \
    X(function_get, cuFuncGetAttribute, (int *, nib_cu_attribute, nib_cu_function))                \
    X(function_set, cuFuncSetAttribute, (nib_cu_function, nib_cu_attribute, int))                  \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                      \
      (int *, nib_cu_function, int, size_t))                                                       \
    X(launch, cuLaunchKernelEx, (const nib_cu_launch_config *, nib_cu_function, void **, void **)) \
    X(memory_alloc, cuMemAlloc_v2, (nib_cu_pointer *, size_t))                                     \
    X(memory_free, cuMemFree_v2, (nib_cu_pointer))                                                 \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (nib_cu_pointer, const void *, size_t, nib_cu_stream)) \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void *, nib_cu_pointer, size_t, nib_cu_stream))         \
    X(copy_on_device, cuMemcpyDtoDAsync_v2,                                                        \
      (nib_cu_pointer, nib_cu_pointer, size_t, nib_cu_stream))                                     \
    X(stream_synchronize, cuStreamSynchronize, (nib_cu_stream))                                    \
    X(event_create, cuEventCreate, (nib_cu_event *, unsigned int))                                 \
    X(event_record, cuEventRecord, (nib_cu_event, nib_cu_stream))                                  \
    X(event_synchronize, cuEventSynchronize, (nib_cu_event))                                       \
    X(event_elapsed, cuEventElapsedTime, (float *, nib_cu_event, nib_cu_event))                    \
    X(event_destroy, cuEventDestroy_v2, (nib_cu_event))

/* Entries that a driver may lack: the field is then NULL. */
#define NIB_CUDA_DRIVER_OPTIONAL(X)                                                    \
    X(tensor_map, cuTensorMapEncodeTiled,                                              \
      (nib_cu_tensor_map *, nib_cu_attribute, unsigned int, void *, const uint64_t *,  \
       const uint64_t *, const unsigned int *, const unsigned int *, nib_cu_attribute, \
       nib_cu_attribute, nib_cu_attribute, nib_cu_attribute))

typedef struct nib_cuda_driver {
#define NIB_ENTRY(field, symbol, parameters) nib_cu_result(*field) parameters;
    NIB_CUDA_DRIVER_ENTRIES(NIB_ENTRY)
    NIB_CUDA_DRIVER_OPTIONAL(NIB_ENTRY)
#undef NIB_ENTRY
    int version; /* 13000: 13.0 */
} nib_cuda_driver;

/* The driver, opened and initialised at the first call; NULL with the reason when there is none,
 * and in a process forked after that first call, which the driver does not survive. */
const nib_cuda_driver *nib_cuda_driver_get(const char **why);

/* Microseconds of a clock that only goes forward. */
double nib_cuda_now_us(void);

/* Whether this process is the one that opened the driver. */
bool nib_cuda_driver_here(void);

/* NIB_OK for NIB_CU_SUCCESS, else the thread's message, "what: NAME (number), text", and the status
 * that fits: a caller's handle or capture NIB_INVALID, memory NIB_NO_MEMORY, an image
 * NIB_UNSUPPORTED, all else NIB_DEVICE_LOST. */
nib_status nib_cuda_result(nib_cu_result result, const char *what);

/* The vendor's name of a result, never NULL. */
const char *nib_cuda_result_name(nib_cu_result result);

#endif
