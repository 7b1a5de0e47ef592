/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a compiled kernel on the screen: texts as they are, machine code through the vendor's
 * disassembler where that is installed. On a terminal all goes through $PAGER.
 */
#include "kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char tool_kernel_parts[] = "spec, source, log, image, ptx or sass";

#define PATH_BYTES 4096

/* ---- where text goes ---- */

static FILE *open_pager(void)
{
    const char *pager = getenv("PAGER");
    fflush(stdout);
    return pager && *pager && isatty(STDOUT_FILENO) ? popen(pager, "w") : NULL;
}

static tool_exit print_bytes(const void *data, size_t bytes)
{
    FILE *pager = open_pager();
    FILE *out = pager ? pager : stdout;
    fwrite(data, 1, bytes, out);
    if (bytes && ((const char *)data)[bytes - 1] != '\n' && (pager || isatty(STDOUT_FILENO)))
        fputc('\n', out);
    if (pager)
        pclose(pager);
    return TOOL_OK;
}

/* ---- disassembly ---- */

/* A program on PATH or of an installed toolkit. */
static bool find_program(const char *name, char path[PATH_BYTES])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t length = strcspn(at, ":");
        int used = snprintf(path, PATH_BYTES, "%.*s/%s", (int)length, at, name);
        if (length && used < PATH_BYTES && !access(path, X_OK))
            return true;
        at += length + (at[length] == ':');
    }
    snprintf(path, PATH_BYTES, "/usr/local/cuda/bin/%s", name);
    return !access(path, X_OK);
}

/* Runs `program option file` with its output where text goes. */
static tool_exit run_program(const char *program, const char *option, const char *file)
{
    FILE *pager = open_pager();
    int status = 0;
    pid_t child = fork();
    if (!child) {
        if (pager)
            dup2(fileno(pager), STDOUT_FILENO);
        execl(program, program, option, file, (char *)NULL);
        _exit(127);
    }
    bool ran = child > 0 && waitpid(child, &status, 0) == child;
    if (pager)
        pclose(pager);
    if (!ran || !WIFEXITED(status) || WEXITSTATUS(status))
        return tool_error(TOOL_MISSING, "%s failed on the image", program);
    return TOOL_OK;
}

static tool_exit disassemble(const void *data, size_t bytes)
{
    char program[PATH_BYTES], file[PATH_BYTES];
    const char *folder = getenv("TMPDIR"), *option = "-c";
    if (!find_program("nvdisasm", program)) {
        option = "-sass";
        if (!find_program("cuobjdump", program))
            return tool_error(TOOL_MISSING,
                              "neither nvdisasm nor cuobjdump is on PATH or in /usr/local/cuda/bin:"
                              "\ninstall NVIDIA's package cuda-nvdisasm or the CUDA toolkit");
    }
    snprintf(file, sizeof(file), "%s/nib-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(file);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!out)
        return tool_error(TOOL_MISSING, "cannot create %s: %s", file, strerror(errno));
    bool wrote = fwrite(data, 1, bytes, out) == bytes;
    wrote = !fclose(out) && wrote;
    tool_exit code = wrote ? run_program(program, option, file)
                           : tool_error(TOOL_MISSING, "cannot write %s", file);
    unlink(file);
    return code;
}

/* ---- parts ---- */

static tool_exit get_part(nib_kernels *kernels, int64_t index, int part, const void **data,
                          size_t *bytes)
{
    nib_status status = nib_kernels_part(kernels, index, (nib_kernel_part)part, NULL, data, bytes);
    return status ? tool_fail(status) : TOOL_OK;
}

static tool_exit show_source(nib_kernels *kernels, int64_t index, const nib_kernel *kernel,
                             const char *file)
{
    const void *data;
    size_t bytes;
    for (int i = 0; i < kernel->files; i++) {
        const char *name;
        nib_status status = nib_kernels_part(kernels, index, (nib_kernel_part)(NIB_KERNEL_FILE + i),
                                             &name, &data, &bytes);
        if (status)
            return tool_fail(status);
        const char *slash = strrchr(name, '/');
        if (!file || !strcmp(name, file) || (slash && !strcmp(slash + 1, file)))
            return print_bytes(data, bytes);
    }
    tool_error(TOOL_USAGE, "%s has no source file '%s'; it has:", kernel->label, file);
    for (int i = 0; i < kernel->files; i++) {
        const char *name;
        if (!nib_kernels_part(kernels, index, (nib_kernel_part)(NIB_KERNEL_FILE + i), &name, &data,
                              &bytes))
            fprintf(stderr, "  %s\n", name);
    }
    return TOOL_USAGE;
}

static tool_exit show_code(nib_kernels *kernels, int64_t index, const nib_kernel *kernel,
                           bool machine)
{
    const void *data;
    size_t bytes;
    const char *format = kernel->format;
    if (machine && strcmp(format, "cubin"))
        return tool_error(TOOL_UNSUPPORTED,
                          "the image of %s is %s, not machine code: the driver makes that when it"
                          "\nloads it; --show image prints what is here",
                          kernel->label, format);
    if (!machine && strcmp(format, "ptx"))
        return tool_error(TOOL_UNSUPPORTED, "the image of %s is %s, not PTX%s", kernel->label,
                          format, strcmp(format, "cubin") ? "" : ": --show sass disassembles it");
    tool_exit code = get_part(kernels, index, NIB_KERNEL_IMAGE, &data, &bytes);
    if (code)
        return code;
    return machine ? disassemble(data, bytes) : print_bytes(data, bytes);
}

static tool_exit show_image(nib_kernels *kernels, int64_t index)
{
    const void *data;
    size_t bytes;
    tool_exit code = get_part(kernels, index, NIB_KERNEL_IMAGE, &data, &bytes);
    if (code)
        return code;
    if (memchr(data, 0, bytes) && isatty(STDOUT_FILENO))
        return tool_error(TOOL_USAGE, "the image is not text: send it to a file with '> FILE'");
    return print_bytes(data, bytes);
}

tool_exit tool_kernel_show(nib_kernels *kernels, int64_t index, const char *part, const char *file)
{
    nib_kernel kernel = {.size = sizeof(kernel)};
    const void *data;
    size_t bytes;
    nib_status status = nib_kernels_get(kernels, index, &kernel);
    if (status)
        return tool_fail(status);
    if (!strcmp(part, "source"))
        return show_source(kernels, index, &kernel, file);
    if (!strcmp(part, "ptx") || !strcmp(part, "sass"))
        return show_code(kernels, index, &kernel, part[0] == 's');
    if (!strcmp(part, "image"))
        return show_image(kernels, index);
    tool_exit code = get_part(
        kernels, index, !strcmp(part, "spec") ? NIB_KERNEL_SPEC : NIB_KERNEL_LOG, &data, &bytes);
    return code ? code : print_bytes(data, bytes);
}
