/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib help` and `nib version`.
 */
#include "tool.h"

static tool_exit help_run(const tool_verb *verb, int argc, char **argv)
{
    const tool_option options[] = {{0}};
    int operands;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if (operands > 1)
        return tool_usage(verb, "one verb at a time");
    const tool_verb *asked;
    if (operands) {
        asked = tool_verb_find(argv[0]);
        char help[] = "--help", *words[] = {help};
        return asked ? asked->run(asked, 1, words) : TOOL_USAGE;
    }
    puts("nib: low-bit matrix multiplication\n\nusage: nib VERB [options]\n\nverbs:");
    for (int i = 0; (asked = tool_verb_row(i)); i++)
        printf("  %-10s %s\n", asked->name, asked->summary);
    puts("\nenvironment:\n"
         "  NIB_DEVICE        the device that 'auto' means, for instance cpu or cuda:0\n"
         "  NIB_BACKEND_PATH  a folder with backend plugins, libnibblas-NAME.so\n"
         "  NIB_VARIANT       a kernel that every plan uses wherever it can\n"
         "  NIB_CPU_ISA       kernels of the CPU backend: portable, avx2 or avx512\n"
         "  NIB_CUDA_LIBRARY  the CUDA driver, in place of libcuda.so.1\n"
         "  NIB_NVRTC_LIBRARY the compiler of CUDA kernels, a libnvrtc.so\n"
         "  NIB_CACHE_DIR     the folder of the kernel cache (~/.cache/nibblas)\n"
         "  NIB_PACK_PATH     packs of compiled kernels: files or folders, ':' between\n"
         "  OMP_NUM_THREADS   threads of the CPU backend and of quantisers\n"
         "  NIB_PROGRESS      1 shows the progress bar always, anything else never\n"
         "\n'nib VERB --help' has a verb's options and examples, 'man nib' the exit codes.");
    return TOOL_OK;
}

const tool_verb tool_verb_help = {
    .name = "help",
    .summary = "this list, or the help of a verb",
    .usage = "[VERB]",
    .examples = "  nib help gemm\n",
    .run = help_run,
};

static tool_exit version_run(const tool_verb *verb, int argc, char **argv)
{
    bool json = false;
    const tool_option options[] = {{"json", TOOL_FLAG, NULL, &json, "print JSON"}, {0}};
    int operands;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if (operands)
        return tool_usage(verb, "'%s' is not needed", argv[0]);
    if (json) {
        tool_json out = {.out = stdout};
        tool_json_begin(&out, NULL, '{');
        tool_json_text(&out, "version", nib_version());
        tool_json_end(&out, '}');
    } else {
        printf("nib %s\n", nib_version());
    }
    return TOOL_OK;
}

const tool_verb tool_verb_version = {
    .name = "version",
    .summary = "the version of the library",
    .usage = "[--json]",
    .examples = "  nib version\n",
    .run = version_run,
};
