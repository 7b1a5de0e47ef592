/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver interface as far as the simulator has it. Names and numbers are the ones that
 * programs are compiled against. Where NVIDIA's header is found the build compiles the simulator a
 * second time with it in this file's place (NIB_SIM_VENDOR_HEADER), so that a prototype that
 * differs does not compile. state.h has what stands behind the handles.
 */
#ifndef NIB_SIM_API_H
#define NIB_SIM_API_H

#include <stddef.h>
#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))

#ifdef NIB_SIM_VENDOR_HEADER
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#else

typedef enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_FILE_NOT_FOUND = 301,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,
    CUDA_ERROR_UNKNOWN = 999
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef void (*CUhostFn)(void *user);

#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum {
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_EVENT_INTERPROCESS = 4
};

typedef enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
    CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE = 108,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
    CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127
} CUdevice_attribute;

typedef enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
} CUfunction_attribute;

typedef enum {
    CU_FUNC_CACHE_PREFER_NONE = 0,
    CU_FUNC_CACHE_PREFER_SHARED = 1,
    CU_FUNC_CACHE_PREFER_L1 = 2,
    CU_FUNC_CACHE_PREFER_EQUAL = 3
} CUfunc_cache;

typedef enum {
    CU_JIT_WALL_TIME = 2,
    CU_JIT_INFO_LOG_BUFFER = 3,
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
} CUjit_option;

typedef enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MAPPED = 13
} CUpointer_attribute;

typedef enum {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
    CU_TENSOR_MAP_DATA_TYPE_UINT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT32,
    CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT64,
    CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
} CUtensorMapDataType;

typedef enum {
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
    CU_TENSOR_MAP_INTERLEAVE_16B,
    CU_TENSOR_MAP_INTERLEAVE_32B
} CUtensorMapInterleave;

typedef enum {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_32B,
    CU_TENSOR_MAP_SWIZZLE_64B,
    CU_TENSOR_MAP_SWIZZLE_128B
} CUtensorMapSwizzle;

typedef enum {
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3
} CUtensorMapL2promotion;

typedef enum {
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
} CUtensorMapFloatOOBfill;

typedef struct CUtensorMap_st {
    _Alignas(64) cuuint64_t opaque[16];
} CUtensorMap;

typedef enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 } CUmemorytype;

typedef enum {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
} CUstreamCaptureStatus;

typedef enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;

typedef enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0,
    CU_GRAPH_NODE_TYPE_MEMCPY = 1,
    CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_GRAPH_NODE_TYPE_HOST = 3,
    CU_GRAPH_NODE_TYPE_GRAPH = 4,
    CU_GRAPH_NODE_TYPE_EMPTY = 5,
    CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7
} CUgraphNodeType;

typedef enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
} CUdriverProcAddressQueryResult;

typedef enum {
    CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
} CUlaunchAttributeID;

typedef union CUlaunchAttributeValue_union {
    char pad[64];
    int cooperative;
    struct {
        unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

/* enter.c */
SIM_API CUresult cuInit(unsigned int flags);

/* errors.c */
SIM_API CUresult cuGetErrorName(CUresult code, const char **name);
SIM_API CUresult cuGetErrorString(CUresult code, const char **text);
SIM_API CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status);
SIM_API CUresult cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags);

/* device.c */
SIM_API CUresult cuDriverGetVersion(int *version);
SIM_API CUresult cuDeviceGetCount(int *count);
SIM_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
SIM_API CUresult cuDeviceGetName(char *name, int length, CUdevice number);
SIM_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice number);
SIM_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice number);
SIM_API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice number);
SIM_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice number);
SIM_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice number);
SIM_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice number, CUdevice peer);
SIM_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice number);

/* context.c */
SIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice number);
SIM_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number);
SIM_API CUresult cuDevicePrimaryCtxRelease(CUdevice number);
SIM_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice number);
SIM_API CUresult cuDevicePrimaryCtxGetState(CUdevice number, unsigned int *flags, int *active);
SIM_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice number, unsigned int flags);
SIM_API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice number);
SIM_API CUresult cuCtxDestroy_v2(CUcontext ctx);
SIM_API CUresult cuCtxPushCurrent_v2(CUcontext ctx);
SIM_API CUresult cuCtxPopCurrent_v2(CUcontext *ctx);
SIM_API CUresult cuCtxSetCurrent(CUcontext ctx);
SIM_API CUresult cuCtxGetCurrent(CUcontext *ctx);
SIM_API CUresult cuCtxGetDevice(CUdevice *device);
SIM_API CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id);
SIM_API CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version);
SIM_API CUresult cuCtxGetFlags(unsigned int *flags);
SIM_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
SIM_API CUresult cuCtxSynchronize(void);

/* memory.c */
SIM_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total);
SIM_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes);
SIM_API CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                    unsigned int element);
SIM_API CUresult cuMemFree_v2(CUdeviceptr address);
SIM_API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle);
SIM_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle);
SIM_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
SIM_API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
SIM_API CUresult cuMemAllocHost_v2(void **out, size_t bytes);
SIM_API CUresult cuMemFreeHost(void *memory);
SIM_API CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags);
SIM_API CUresult cuMemHostUnregister(void *memory);
SIM_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *memory, unsigned int flags);
SIM_API CUresult cuMemHostGetFlags(unsigned int *flags, void *memory);
SIM_API CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                       CUdeviceptr address);
SIM_API CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr address);

/* copy.c */
SIM_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
SIM_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
SIM_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
SIM_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                      CUstream stream);
SIM_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
SIM_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                      CUstream stream);
SIM_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
SIM_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
SIM_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                              CUcontext from_ctx, size_t bytes);
SIM_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                                   CUcontext from_ctx, size_t bytes, CUstream stream);
SIM_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
SIM_API CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
SIM_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
SIM_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                 CUstream stream);
SIM_API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                  CUstream stream);
SIM_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                  CUstream stream);

/* tensor.c */
SIM_API CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                        void *address, const cuuint64_t *size,
                                        const cuuint64_t *stride, const cuuint32_t *box,
                                        const cuuint32_t *step, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill);

/* module.c */
SIM_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                                    CUjit_option *options, void **values);
SIM_API CUresult cuModuleLoadData(CUmodule *out, const void *image);
SIM_API CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image);
SIM_API CUresult cuModuleLoad(CUmodule *out, const char *path);
SIM_API CUresult cuModuleUnload(CUmodule module);
SIM_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name);
SIM_API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module);
SIM_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module,
                                      const char *name);
SIM_API CUresult cuFuncGetName(const char **name, CUfunction function);
SIM_API CUresult cuFuncGetModule(CUmodule *module, CUfunction function);
SIM_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                                    size_t *bytes);
SIM_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                    CUfunction function);
SIM_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
SIM_API CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config);
SIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                      CUfunction function,
                                                                      int threads, size_t dynamic,
                                                                      unsigned int flags);
SIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                             int threads, size_t dynamic);

/* launch.c */
SIM_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                  void **extra);
SIM_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                void **params, void **extra);

/* queue.c */
SIM_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority);
SIM_API CUresult cuStreamCreate(CUstream *out, unsigned int flags);
SIM_API CUresult cuStreamDestroy_v2(CUstream handle);
SIM_API CUresult cuStreamSynchronize(CUstream handle);
SIM_API CUresult cuStreamQuery(CUstream handle);
SIM_API CUresult cuLaunchHostFunc(CUstream handle, CUhostFn call, void *user);
SIM_API CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags);
SIM_API CUresult cuStreamGetPriority(CUstream handle, int *priority);
SIM_API CUresult cuStreamGetId(CUstream handle, unsigned long long *id);
SIM_API CUresult cuStreamGetCtx(CUstream handle, CUcontext *out);

/* event.c */
SIM_API CUresult cuEventCreate(CUevent *out, unsigned int flags);
SIM_API CUresult cuEventDestroy_v2(CUevent event);
SIM_API CUresult cuEventRecord(CUevent event, CUstream handle);
SIM_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags);
SIM_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags);
SIM_API CUresult cuEventSynchronize(CUevent event);
SIM_API CUresult cuEventQuery(CUevent event);
SIM_API CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to);
SIM_API CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to);

/* capture.c */
SIM_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
SIM_API CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode);
SIM_API CUresult cuStreamEndCapture(CUstream handle, CUgraph *out);
SIM_API CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status);
SIM_API CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **dependencies, size_t *count);

/* graph.c */
SIM_API CUresult cuGraphCreate(CUgraph *out, unsigned int flags);
SIM_API CUresult cuGraphDestroy(CUgraph graph);
SIM_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
SIM_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type);
SIM_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                             unsigned long long flags);
SIM_API CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                                       char *log, size_t log_bytes);
SIM_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle);
SIM_API CUresult cuGraphUpload(CUgraphExec exec, CUstream handle);
SIM_API CUresult cuGraphExecDestroy(CUgraphExec exec);

#endif
#endif
