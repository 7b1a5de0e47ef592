/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in for NVRTC: an image is its format and the architecture. A spec or architecture with
 * FAKE_NVRTC_REFUSES in the environment in it does not compile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY __attribute__((visibility("default")))

typedef struct program {
    char arch[64];
    int refused;
} program;

ENTRY int nvrtcVersion(int *major, int *minor);
ENTRY const char *nvrtcGetErrorString(int result);
ENTRY int nvrtcCreateProgram(program **, const char *, const char *, int, const char *const *,
                             const char *const *);
ENTRY int nvrtcDestroyProgram(program **);
ENTRY int nvrtcCompileProgram(program *, int, const char *const *);
ENTRY int nvrtcGetProgramLogSize(program *, size_t *);
ENTRY int nvrtcGetProgramLog(program *, char *);
ENTRY int nvrtcGetCUBINSize(program *, size_t *);
ENTRY int nvrtcGetCUBIN(program *, char *);
ENTRY int nvrtcGetPTXSize(program *, size_t *);
ENTRY int nvrtcGetPTX(program *, char *);

static const char complaint[] = "kernel.cu(1): error: as the test wanted";

int nvrtcVersion(int *major, int *minor)
{
    *major = 99;
    *minor = 1;
    return 0;
}

const char *nvrtcGetErrorString(int result)
{
    return result ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}

int nvrtcCreateProgram(program **out, const char *text, const char *name, int count,
                       const char *const *headers, const char *const *names)
{
    (void)name, (void)headers;
    /* The spec must be found under its name. */
    if (count < 1 || strcmp(names[0], "nib_spec.h") || !strstr(text, "__global__"))
        return 3;
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : 1;
}

int nvrtcDestroyProgram(program **made)
{
    free(*made);
    *made = NULL;
    return 0;
}

int nvrtcCompileProgram(program *made, int count, const char *const *flags)
{
    const char *refuses = getenv("FAKE_NVRTC_REFUSES");
    for (int i = 0; i < count; i++)
        if (!strncmp(flags[i], "--gpu-architecture=", 19))
            snprintf(made->arch, sizeof(made->arch), "%s", flags[i] + 19);
    made->refused = refuses && strstr(made->arch, refuses) != NULL;
    return made->refused ? 6 : 0;
}

int nvrtcGetProgramLogSize(program *made, size_t *bytes)
{
    *bytes = made->refused ? sizeof(complaint) : 1;
    return 0;
}

int nvrtcGetProgramLog(program *made, char *log)
{
    strcpy(log, made->refused ? complaint : "");
    return 0;
}

int nvrtcGetCUBINSize(program *made, size_t *bytes)
{
    *bytes = strlen(made->arch) + 6;
    return 0;
}

int nvrtcGetCUBIN(program *made, char *image)
{
    memcpy(image, "cubin ", 6);
    memcpy(image + 6, made->arch, strlen(made->arch));
    return 0;
}

int nvrtcGetPTXSize(program *made, size_t *bytes)
{
    *bytes = strlen(made->arch) + 5; /* with its NUL */
    return 0;
}

int nvrtcGetPTX(program *made, char *image)
{
    sprintf(image, "ptx %s", made->arch);
    return 0;
}
