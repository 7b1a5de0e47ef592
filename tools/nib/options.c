/* SPDX-License-Identifier: Apache-2.0
 *
 * The option parser of all verbs, and their help: both read the same table, so that they agree.
 */
#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 40
#define MAX_WORD    48

/* Edits (insert, delete, replace, swap neighbours) from a to b; words past MAX_WORD are far. */
static int distance(const char *a, const char *b)
{
    int rows[3][MAX_WORD + 1];
    int na = (int)strlen(a), nb = (int)strlen(b);
    if (na > MAX_WORD || nb > MAX_WORD)
        return MAX_WORD;
    for (int j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[na % 3][nb];
}

const char *tool_nearest(const char *word, const char *const *candidates, int count)
{
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 2; /* a third of the letters may be wrong, and one more */
    for (int i = 0; i < count; i++) {
        int d = distance(word, candidates[i]);
        if (d < least) {
            least = d;
            best = candidates[i];
        }
    }
    return best;
}

tool_exit tool_usage(const tool_verb *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "nib %s: ", verb->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nusage: nib %s %s\n'nib %s --help' says more\n", verb->name, verb->usage,
            verb->name);
    va_end(args);
    return TOOL_USAGE;
}

static void print_help(const tool_verb *verb, const tool_option *options)
{
    printf("nib %s: %s\n\nusage: nib %s %s\n", verb->name, verb->summary, verb->name, verb->usage);
    if (verb->details)
        printf("\n%s", verb->details);
    printf("\noptions:\n");
    for (; options->name; options++) {
        char left[64];
        snprintf(left, sizeof(left), "--%s%s%s", options->name, options->value ? " " : "",
                 options->value ? options->value : "");
        printf("  %-21s %s\n", left, options->help);
    }
    printf("  %-21s %s\n", "--help", "this text");
    if (verb->examples)
        printf("\nexamples:\n%s", verb->examples);
}

static const tool_option *find(const tool_option *options, const char *name, size_t length)
{
    for (; options->name; options++)
        if (strlen(options->name) == length && !memcmp(options->name, name, length))
            return options;
    return NULL;
}

static tool_exit unknown(const tool_verb *verb, const tool_option *options, const char *word)
{
    const char *names[MAX_OPTIONS + 1];
    char name[MAX_WORD + 1];
    int count = 0;
    for (; options->name && count < MAX_OPTIONS; options++)
        names[count++] = options->name;
    names[count++] = "help";
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *near = tool_nearest(name, names, count);
    if (near)
        return tool_usage(verb, "there is no option '%s'; did you mean '--%s'?", word, near);
    return tool_usage(verb, "there is no option '%s'", word);
}

static bool store(const tool_option *option, const char *text)
{
    char *end;
    errno = 0;
    switch (option->kind) {
    case TOOL_INT: {
        long long value = strtoll(text, &end, 10);
        if (errno || end == text || *end)
            return false;
        *(int64_t *)option->out = value;
        return true;
    }
    case TOOL_REAL: {
        double value = strtod(text, &end);
        if (errno || end == text || *end || !(value > 0) || !isfinite(value))
            return false;
        *(double *)option->out = value;
        return true;
    }
    case TOOL_LIST: {
        tool_list *list = option->out;
        if (list->count == TOOL_MAX_LIST)
            return false;
        list->items[list->count++] = text;
        return true;
    }
    default:
        *(const char **)option->out = text;
        return true;
    }
}

/* One option at argv[*at]; moves *at over its value. */
static bool parse_option(const tool_verb *verb, const tool_option *options, int argc, char **argv,
                         int *at, tool_exit *code)
{
    const char *word = argv[*at];
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        print_help(verb, options);
        *code = TOOL_OK;
        return false;
    }
    size_t length = strcspn(word + 2, "=");
    const tool_option *option = find(options, word + 2, length);
    const char *value = word[2 + length] ? word + 3 + length : NULL;
    if (word[1] != '-' || !option) {
        *code = unknown(verb, options, word);
        return false;
    }
    if (option->kind == TOOL_FLAG) {
        if (value)
            *code = tool_usage(verb, "--%s takes no value", option->name);
        else
            *(bool *)option->out = true;
        return !value;
    }
    if (!value && *at + 1 == argc) {
        *code = tool_usage(verb, "--%s needs a value: %s", option->name, option->value);
        return false;
    }
    if (!value)
        value = argv[++*at];
    if (!store(option, value)) {
        const char *want = option->kind == TOOL_INT    ? "a whole number"
                           : option->kind == TOOL_REAL ? "a number above 0"
                                                       : "fewer repetitions";
        *code = tool_usage(verb, "--%s %s: expected %s", option->name, value, want);
        return false;
    }
    return true;
}

bool tool_parse(const tool_verb *verb, const tool_option *options, int argc, char **argv,
                int *operands, tool_exit *code)
{
    int kept = 0;
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        if (only_operands || argv[i][0] != '-' || !argv[i][1])
            argv[kept++] = argv[i];
        else if (!strcmp(argv[i], "--"))
            only_operands = true;
        else if (!parse_option(verb, options, argc, argv, &i, code))
            return false;
    }
    *operands = kept;
    return true;
}
