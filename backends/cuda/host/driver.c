/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the driver library, once a process, and turning its results into statuses: see driver.h.
 */
#include "host/driver.h"

#include "host/host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_VERSION = 11000 /* the first driver that knows compute capability 8.0 */ };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static nib_cuda_driver driver;
static char reason[256]; /* "": the driver is there */
static pid_t opened_by;

static bool find_entries(void *library)
{
    const struct {
        const char *name;
        void **place;
        bool needed;
    } entries[] = {
#define NIB_ENTRY(field, symbol, parameters) {#symbol, (void **)(void *)&driver.field, true},
        NIB_CUDA_DRIVER_ENTRIES(NIB_ENTRY)
#undef NIB_ENTRY
#define NIB_ENTRY(field, symbol, parameters) {#symbol, (void **)(void *)&driver.field, false},
            NIB_CUDA_DRIVER_OPTIONAL(NIB_ENTRY)
#undef NIB_ENTRY
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(library, entries[i].name);
        if (!symbol && entries[i].needed) {
            snprintf(reason, sizeof(reason), "the CUDA driver library has no %s: it is too old",
                     entries[i].name);
            return false;
        }
        /* ISO C has no cast from object to function pointers. */
        memcpy(entries[i].place, &symbol, sizeof(symbol));
    }
    return true;
}

double nib_cuda_now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void open_driver(void)
{
    const char *named = nib_cuda_host->env("NIB_CUDA_LIBRARY");
    const char *name = named ? named : "libcuda.so.1";
    opened_by = getpid();
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(reason, sizeof(reason), named ? "NIB_CUDA_LIBRARY: %s" : "no CUDA driver: %s",
                 dlerror());
        return;
    }
    if (!find_entries(library))
        return;
    double begin = nib_cuda_now_us();
    nib_cu_result result = driver.init(0);
    nib_cuda_host->log(NIB_LOG_DEBUG, "timed: driver %.0f us cuInit", nib_cuda_now_us() - begin);
    if (result == NIB_CU_NO_DEVICE) {
        snprintf(reason, sizeof(reason), "the CUDA driver finds no GPU");
        return;
    }
    if (!result)
        result = driver.driver_version(&driver.version);
    if (result)
        snprintf(reason, sizeof(reason), "the CUDA driver does not start: %s (%u)",
                 nib_cuda_result_name(result), result);
    else if (driver.version < LEAST_VERSION)
        snprintf(reason, sizeof(reason), "the CUDA driver is of version %d.%d, 11.0 is the least",
                 driver.version / 1000, driver.version % 1000 / 10);
}

const nib_cuda_driver *nib_cuda_driver_get(const char **why)
{
    pthread_once(&once, open_driver);
    if (!reason[0] && nib_cuda_driver_here())
        return &driver;
    *why = reason[0] ? reason
                     : "the CUDA driver was started before fork(), which it does not survive: open "
                       "devices in the child alone";
    return NULL;
}

bool nib_cuda_driver_here(void)
{
    return getpid() == opened_by;
}

const char *nib_cuda_result_name(nib_cu_result result)
{
    const char *name = NULL;
    if (driver.error_name(result, &name) || !name)
        return "an unknown error";
    return name;
}

static nib_status status_of(nib_cu_result result)
{
    if (result >= NIB_CU_CAPTURE_FIRST && result <= NIB_CU_CAPTURE_LAST)
        return NIB_INVALID;
    switch (result) {
    case NIB_CU_INVALID_VALUE:
    case NIB_CU_INVALID_CONTEXT:
    case NIB_CU_INVALID_HANDLE:
    case NIB_CU_CONTEXT_IS_DESTROYED:
        return NIB_INVALID;
    case NIB_CU_OUT_OF_MEMORY:
        return NIB_NO_MEMORY;
    case NIB_CU_INVALID_IMAGE:
    case NIB_CU_NO_BINARY_FOR_GPU:
    case NIB_CU_INVALID_PTX:
    case NIB_CU_JIT_COMPILER_NOT_FOUND:
    case NIB_CU_UNSUPPORTED_PTX_VERSION:
    case NIB_CU_JIT_COMPILATION_DISABLED:
    case NIB_CU_INVALID_SOURCE:
        return NIB_UNSUPPORTED;
    default:
        return NIB_DEVICE_LOST;
    }
}

nib_status nib_cuda_result(nib_cu_result result, const char *what)
{
    if (result == NIB_CU_SUCCESS)
        return NIB_OK;
    const char *text = NULL;
    if (driver.error_text(result, &text) || !text)
        text = "no description";
    return nib_cuda_host->fail(status_of(result), "%s: %s (%u), %s", what,
                               nib_cuda_result_name(result), result, text);
}
