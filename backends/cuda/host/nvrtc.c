/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding, opening and calling NVRTC: see nvrtc.h. The search looks at files only, because opening
 * the library costs tens of milliseconds that a run from the cache must not pay.
 */
#include "host/nvrtc.h"

#include "host/host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct nvrtc_program *program; /* the vendor's handle, opaque */

/* Results of every entry: 0 is success. */
static struct {
    int (*version)(int *, int *);
    const char *(*error_text)(int);
    int (*create)(program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*destroy)(program *);
    int (*compile)(program, int, const char *const *);
    int (*log_bytes)(program, size_t *);
    int (*log)(program, char *);
    int (*cubin_bytes)(program, size_t *);
    int (*cubin)(program, char *);
    int (*ptx_bytes)(program, size_t *);
    int (*ptx)(program, char *);
} nvrtc;

enum { NEWEST_MAJOR = 13, OLDEST_MAJOR = 11, MOST_FLAGS = 16 };

static pthread_once_t find_once = PTHREAD_ONCE_INIT, open_once = PTHREAD_ONCE_INIT;
static int driver_major;
static char path[4096], find_reason[256], open_reason[NIB_CUDA_REASON_BYTES], compiler_name[64];

/* Whether a file of a folder is there; it then stands in `path`. */
static bool try_file(const char *folder, size_t length, int major)
{
    int written = snprintf(path, sizeof(path), "%.*s/libnvrtc.so.%d", (int)length, folder, major);
    if (written > 0 && (size_t)written < sizeof(path) && !access(path, R_OK))
        return true;
    path[0] = '\0';
    return false;
}

static bool try_folders(const char *folders, int major)
{
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        if (length && try_file(folders, length, major))
            return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

/* Asks the dynamic linker, which has to open the library for that. */
static bool try_linker(int major)
{
    char name[32];
    Dl_info info;
    snprintf(name, sizeof(name), "libnvrtc.so.%d", major);
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "nvrtcVersion") : NULL;
    if (!symbol || !dladdr(symbol, &info) || !info.dli_fname)
        return false;
    snprintf(path, sizeof(path), "%s", info.dli_fname);
    return true;
}

static void find_library(void)
{
    static const char folders[] =
        "/usr/local/cuda/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:"
        "/usr/lib";
    const char *named = nib_cuda_host->env("NIB_NVRTC_LIBRARY");
    if (named) {
        snprintf(path, sizeof(path), "%s", named);
        if (strchr(named, '/') && access(named, R_OK)) {
            snprintf(find_reason, sizeof(find_reason), "NIB_NVRTC_LIBRARY: no file %.200s", named);
            path[0] = '\0';
        }
        return;
    }
    for (int major = driver_major; major >= OLDEST_MAJOR; major--)
        if (try_folders(nib_cuda_host->env("LD_LIBRARY_PATH"), major) ||
            try_folders(folders, major) || try_linker(major))
            return;
    snprintf(find_reason, sizeof(find_reason),
             "no NVRTC (libnvrtc.so.%d) is installed; NIB_NVRTC_LIBRARY may name one",
             driver_major);
}

const char *nib_cuda_nvrtc_path(int driver, const char **why)
{
    /* The first caller decides; its driver is the only one a process has. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!driver_major)
        driver_major = driver ? driver / 1000 : NEWEST_MAJOR;
    pthread_mutex_unlock(&lock);
    pthread_once(&find_once, find_library);
    if (path[0])
        return path;
    *why = find_reason;
    return NULL;
}

static void open_library(void)
{
    static const struct {
        const char *name;
        void *place;
    } entries[] = {
        {"nvrtcVersion", &nvrtc.version},
        {"nvrtcGetErrorString", &nvrtc.error_text},
        {"nvrtcCreateProgram", &nvrtc.create},
        {"nvrtcDestroyProgram", &nvrtc.destroy},
        {"nvrtcCompileProgram", &nvrtc.compile},
        {"nvrtcGetProgramLogSize", &nvrtc.log_bytes},
        {"nvrtcGetProgramLog", &nvrtc.log},
        {"nvrtcGetCUBINSize", &nvrtc.cubin_bytes},
        {"nvrtcGetCUBIN", &nvrtc.cubin},
        {"nvrtcGetPTXSize", &nvrtc.ptx_bytes},
        {"nvrtcGetPTX", &nvrtc.ptx},
    };
    int major = 0, minor = 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(open_reason, sizeof(open_reason), "NVRTC does not open: %s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(library, entries[i].name);
        if (!symbol) {
            snprintf(open_reason, sizeof(open_reason),
                     "%.300s has no %s: it is no NVRTC of 11.1 "
                     "or newer",
                     path, entries[i].name);
            return;
        }
        memcpy(entries[i].place, &symbol, sizeof(symbol));
    }
    nvrtc.version(&major, &minor);
    snprintf(compiler_name, sizeof(compiler_name), "nvrtc %d.%d", major, minor);
}

/* Splits the request's flags in place and appends the architecture. */
static int split_flags(char *text, const char *isa, char *arch, size_t arch_bytes,
                       const char **flags)
{
    int count = 0;
    char *rest = NULL;
    snprintf(arch, arch_bytes, "--gpu-architecture=%s", isa);
    flags[count++] = arch;
    for (char *flag = strtok_r(text, " ", &rest); flag && count < MOST_FLAGS;
         flag = strtok_r(NULL, " ", &rest))
        flags[count++] = flag;
    return count;
}

static int run_compiler(program made, const nib_image_request *request)
{
    const char *flags[MOST_FLAGS];
    char arch[64], text[256];
    snprintf(text, sizeof(text), "%s", request->flags);
    int count = split_flags(text, request->isa, arch, sizeof(arch), flags);
    return nvrtc.compile(made, count, flags);
}

static char *read_log(program made)
{
    size_t bytes = 0;
    if (nvrtc.log_bytes(made, &bytes) || bytes < 2)
        return NULL;
    char *log = malloc(bytes);
    if (log && nvrtc.log(made, log)) {
        free(log);
        return NULL;
    }
    return log;
}

/* The image in memory of its own; a text keeps its NUL behind the counted bytes. */
static int read_image(program made, bool ptx, nib_image_build *out)
{
    size_t bytes = 0;
    int result = ptx ? nvrtc.ptx_bytes(made, &bytes) : nvrtc.cubin_bytes(made, &bytes);
    if (result)
        return result;
    char *image = malloc(bytes + 1);
    if (!image)
        return 1; /* out of memory, in the vendor's numbers too */
    result = ptx ? nvrtc.ptx(made, image) : nvrtc.cubin(made, image);
    if (result) {
        free(image);
        return result;
    }
    out->image = image;
    out->bytes = ptx ? bytes - 1 : bytes;
    return 0;
}

static nib_status create_program(const nib_image_request *request, program *made)
{
    const char *names[NIB_CUDA_MOST_FILES + 1], *texts[NIB_CUDA_MOST_FILES + 1];
    int count = 0;
    names[count] = "nib_spec.h";
    texts[count++] = request->spec;
    for (uint32_t i = 1; i < request->file_count && i < NIB_CUDA_MOST_FILES; i++) {
        names[count] = request->files[i].name;
        texts[count++] = request->files[i].text;
    }
    int result =
        nvrtc.create(made, request->files[0].text, request->files[0].name, count, texts, names);
    if (result)
        return nib_cuda_host->fail(NIB_INTERNAL, "nvrtcCreateProgram: %s (%d)",
                                   nvrtc.error_text(result), result);
    return NIB_OK;
}

/* Keeps the reason where the request's owner looks for it, and fails with it. */
static nib_status refuse(void *user, nib_status status, const char *reason)
{
    if (user)
        snprintf(user, NIB_CUDA_REASON_BYTES, "%s", reason);
    return nib_cuda_host->fail(status, "%s", reason);
}

nib_status nib_cuda_nvrtc_compile(void *user, const nib_image_request *request,
                                  nib_image_build *out)
{
    char reason[NIB_CUDA_REASON_BYTES];
    program made = NULL;
    nib_image_build build = {0};
    pthread_once(&open_once, open_library);
    if (open_reason[0])
        return refuse(user, NIB_MISSING, open_reason);
    nib_status status = create_program(request, &made);
    if (status)
        return status;
    int result = run_compiler(made, request);
    build.log = read_log(made);
    if (!result)
        result = read_image(made, !strcmp(request->format, "ptx"), &build);
    nvrtc.destroy(&made);
    if (result) {
        snprintf(reason, sizeof(reason), "%s cannot compile %s for %s: %s (%d): %s", compiler_name,
                 request->files[0].name, request->isa, nvrtc.error_text(result), result,
                 build.log ? build.log : "no log");
        free(build.log);
        return refuse(user, NIB_UNSUPPORTED, reason);
    }
    snprintf(build.compiler, sizeof(build.compiler), "%s", compiler_name);
    *out = build;
    return NIB_OK;
}
