/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of error codes, and entry points by name.
 */
#include "state.h"

#include <dlfcn.h>
#include <string.h>

typedef struct error_text {
    CUresult code;
    const char *name, *text;
} error_text;

#define ERROR(name, text) \
    {                     \
        name, #name, text \
    }

static const error_text errors[] = {
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported"),
    ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX was compiled with an unsupported toolchain"),
    ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context is active"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "memory is already pinned"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory was not pinned"),
    ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted when a stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture failed due to an earlier error"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would have merged"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not begun in this stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "work of the capture was not joined to its stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a dependency on uncaptured work in a capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "an implicit dependency on a captured stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT, "not permitted on an event last recorded in a capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread"),
    ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const error_text *find(CUresult code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code == code)
            return &errors[i];
    }
    return NULL;
}

SIM_API CUresult cuGetErrorName(CUresult code, const char **name)
{
    const error_text *error = find(code);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGetErrorString(CUresult code, const char **text)
{
    const error_text *error = find(code);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = error ? error->text : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The newest form of a name: the one that a program compiled today calls. */
SIM_API CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    static const char *const suffixes[] = {"_v3", "_v2", "WithFlags", ""};
    Dl_info self;
    char name[128];
    void *found = NULL;
    (void)version;
    (void)flags;
    if (!symbol || !out)
        return CUDA_ERROR_INVALID_VALUE;
    void *library =
        dladdr((void *)find, &self) ? dlopen(self.dli_fname, RTLD_NOLOAD | RTLD_NOW) : NULL;
    for (int i = 0; library && !found && i < 4; i++) {
        /* Only the graph's instantiation changed its name so. */
        if (i == 2 && strcmp(symbol, "cuGraphInstantiate") != 0)
            continue;
        if (i == 1 && !strcmp(symbol, "cuGraphInstantiate"))
            continue;
        snprintf(name, sizeof(name), "%s%s", symbol, suffixes[i]);
        found = strncmp(name, "cu", 2) ? NULL : dlsym(library, name);
    }
    if (library)
        dlclose(library);
    *out = found;
    if (status)
        *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SIM_API CUresult cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}
