/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC with own prototypes: see nvrtc.h.
 */
#include "gpu/nvrtc.h"

#include <dlfcn.h>
#include <nibblas/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const nib_image_file bench_gpu_sources[]; /* embedded */

/* field, symbol, parameters; all answer a nvrtcResult, 0 for success. */
#define ENTRIES(X)                                                                          \
    X(create, nvrtcCreateProgram,                                                           \
      (void **, const char *, const char *, int, const char *const *, const char *const *)) \
    X(destroy, nvrtcDestroyProgram, (void **))                                              \
    X(compile, nvrtcCompileProgram, (void *, int, const char *const *))                     \
    X(log_bytes, nvrtcGetProgramLogSize, (void *, size_t *))                                \
    X(log, nvrtcGetProgramLog, (void *, char *))                                            \
    X(ptx_bytes, nvrtcGetPTXSize, (void *, size_t *))                                       \
    X(ptx, nvrtcGetPTX, (void *, char *))

static struct {
    void *library;
#define FIELD(field, symbol, parameters) int(*field) parameters;
    ENTRIES(FIELD)
#undef FIELD
} nvrtc;

static bool open_library(char *why, size_t why_bytes)
{
    static const char *const names[] = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12",
                                        "libnvrtc.so"};
    const char *named = getenv("NIB_NVRTC_LIBRARY");
    void *library = named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (nvrtc.library)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library && !(named && *named); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, why_bytes, "no NVRTC: %s", dlerror());
        return false;
    }
#define FIND(field, symbol, parameters)                                \
    *(void **)&nvrtc.field = dlsym(library, #symbol);                  \
    if (!nvrtc.field) {                                                \
        snprintf(why, why_bytes, "the NVRTC library has no " #symbol); \
        return false;                                                  \
    }
    ENTRIES(FIND)
#undef FIND
    nvrtc.library = library;
    return true;
}

static const char *source_text(const char *name)
{
    for (const nib_image_file *file = bench_gpu_sources; file->name; file++)
        if (!strcmp(file->name, name))
            return file->text;
    return NULL;
}

static char *read_ptx(void *program)
{
    size_t bytes = 0;
    char *ptx = nvrtc.ptx_bytes(program, &bytes) ? NULL : malloc(bytes + 1);
    if (ptx && nvrtc.ptx(program, ptx)) {
        free(ptx);
        return NULL;
    }
    return ptx;
}

static void read_log(void *program, const char *source, char *why, size_t why_bytes)
{
    size_t bytes = 0;
    char *log = nvrtc.log_bytes(program, &bytes) ? NULL : malloc(bytes + 1);
    if (log && nvrtc.log(program, log))
        *log = 0;
    snprintf(why, why_bytes, "NVRTC cannot compile %s: %s", source, log ? log : "no log");
    free(log);
}

char *bench_nvrtc_compile(const char *source, const char *definition, int cc, char *why,
                          size_t why_bytes)
{
    char arch[64], define[128], *ptx = NULL;
    const char *flags[] = {arch, "--std=c++17", define};
    void *program = NULL;
    if (!open_library(why, why_bytes))
        return NULL;
    snprintf(arch, sizeof(arch), "--gpu-architecture=compute_%d", cc);
    snprintf(define, sizeof(define), "-D%s", definition);
    if (nvrtc.create(&program, source_text(source), source, 0, NULL, NULL)) {
        snprintf(why, why_bytes, "NVRTC does not start");
        return NULL;
    }
    if (nvrtc.compile(program, 3, flags) || !(ptx = read_ptx(program)))
        read_log(program, source, why, why_bytes);
    nvrtc.destroy(&program);
    return ptx;
}
