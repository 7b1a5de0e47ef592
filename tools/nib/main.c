/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `nib`: finds the verb and runs it. The table of verbs is here; a verb is one file
 * verb_*.c that defines a tool_verb. tool.h has what they share.
 */
#include "tool.h"

#include <stdarg.h>
#include <string.h>

static const tool_verb *const verbs[] = {
    &tool_verb_devices, &tool_verb_gemm,   &tool_verb_explain, &tool_verb_quantize,
    &tool_verb_inspect, &tool_verb_layout, &tool_verb_bench,   &tool_verb_kernels,
    &tool_verb_compile, &tool_verb_help,   &tool_verb_version,
};
#define VERBS ((int)(sizeof(verbs) / sizeof(verbs[0])))

const tool_verb *tool_verb_row(int index)
{
    return index >= 0 && index < VERBS ? verbs[index] : NULL;
}

const tool_verb *tool_verb_find(const char *name)
{
    const char *names[VERBS];
    for (int i = 0; i < VERBS; i++) {
        if (!strcmp(verbs[i]->name, name))
            return verbs[i];
        names[i] = verbs[i]->name;
    }
    const char *near = tool_nearest(name, names, VERBS);
    if (near)
        fprintf(stderr, "nib: there is no verb '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "nib: there is no verb '%s'; 'nib help' lists them\n", name);
    return NULL;
}

tool_exit tool_fail(nib_status status)
{
    /* By status number, as documented in the manual page. */
    static const tool_exit codes[] = {TOOL_OK,          TOOL_USAGE,     TOOL_UNSUPPORTED,
                                      TOOL_MISSING,     TOOL_NO_MEMORY, TOOL_CORRUPT,
                                      TOOL_DEVICE_LOST, TOOL_INTERNAL};
    bool known = status >= 0 && status < (nib_status)(sizeof(codes) / sizeof(codes[0]));
    fprintf(stderr, "nib: %s\n", nib_last_message());
    return known ? codes[status] : TOOL_INTERNAL;
}

tool_exit tool_error(tool_exit code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("nib: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

/* "nib --help" and "nib --version" are what strangers type first. */
static const char *verb_name(const char *word)
{
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        return "help";
    if (!strcmp(word, "--version") || !strcmp(word, "-V"))
        return "version";
    return word;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? verb_name(argv[1]) : "help";
    const tool_verb *verb = tool_verb_find(name);
    if (!verb)
        return TOOL_USAGE;
    tool_exit code = verb->run(verb, argc > 2 ? argc - 2 : 0, argv + 2);
    if (argc < 2)
        code = TOOL_USAGE;
    /* A full disk or closed pipe shows only now. */
    if (fflush(stdout) || ferror(stdout))
        return code ? code : tool_error(TOOL_MISSING, "cannot write the output");
    return code;
}
