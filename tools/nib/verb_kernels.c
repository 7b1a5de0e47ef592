/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib kernels`: the compiled kernels in packs and in the cache, and what each is made of.
 */
#include "kernels.h"
#include "product.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct kernels_options {
    const char *backend, *isa, *show, *file;
    bool clear, json, csv, verbose;
    char **words; /* keys, beginnings of keys, or labels; none: all */
    int word_count;
} kernels_options;

static const char *const origins[] = {"?", "pack", "cache"};

enum { LEAST_DIGITS = 4 }; /* of a key that is cut short */

/* ---- which ---- */

static bool word_names(const char *word, const nib_kernel *kernel)
{
    size_t length = strlen(word);
    return !strcmp(word, kernel->label) ||
           (length >= LEAST_DIGITS && !strncmp(word, kernel->key, length));
}

static bool wanted(const kernels_options *o, const nib_kernel *kernel)
{
    bool named = o->word_count == 0;
    if (o->isa && strcmp(o->isa, kernel->isa))
        return false;
    for (int i = 0; i < o->word_count; i++)
        named = named || word_names(o->words[i], kernel);
    return named;
}

/* Numbers of the wanted kernels, freed by the caller. */
static tool_exit choose(const kernels_options *o, nib_kernels *list, int64_t **out, int64_t *count)
{
    int64_t total = nib_kernels_count(list);
    int64_t *numbers = malloc((size_t)(total + 1) * sizeof(*numbers));
    if (!numbers)
        return tool_error(TOOL_NO_MEMORY, "no memory for %" PRId64 " kernels", total);
    *count = 0;
    for (int64_t i = 0; i < total; i++) {
        nib_kernel kernel = {.size = sizeof(kernel)};
        if (!nib_kernels_get(list, i, &kernel) && wanted(o, &kernel))
            numbers[(*count)++] = i;
    }
    *out = numbers;
    return TOOL_OK;
}

/* A word that names nothing, with the nearest label. */
static tool_exit complain(const kernels_options *o, nib_kernels *list)
{
    const char *labels[256];
    int count = 0;
    for (int64_t i = 0; i < nib_kernels_count(list) && count < 256; i++) {
        nib_kernel kernel = {.size = sizeof(kernel)};
        if (!nib_kernels_get(list, i, &kernel))
            labels[count++] = kernel.label;
    }
    for (int w = 0; w < o->word_count; w++) {
        bool found = false;
        for (int64_t i = 0; i < nib_kernels_count(list) && !found; i++) {
            nib_kernel kernel = {.size = sizeof(kernel)};
            found = !nib_kernels_get(list, i, &kernel) && word_names(o->words[w], &kernel);
        }
        const char *near = found ? NULL : tool_nearest(o->words[w], labels, count);
        if (near)
            return tool_error(TOOL_MISSING, "there is no kernel '%s'; did you mean '%s'?",
                              o->words[w], near);
        if (!found)
            return tool_error(TOOL_MISSING,
                              "there is no kernel '%s': 'nib kernels' lists labels and keys",
                              o->words[w]);
    }
    return TOOL_OK;
}

/* ---- listing ---- */

static void format_date(char out[32], int64_t date)
{
    time_t seconds = (time_t)date;
    struct tm parts;
    if (!gmtime_r(&seconds, &parts) || !strftime(out, 32, "%Y-%m-%d %H:%M", &parts))
        strcpy(out, "?");
}

static void print_json(nib_kernels *list, const int64_t *numbers, int64_t count)
{
    tool_json out = {.out = stdout};
    tool_json_begin(&out, NULL, '[');
    for (int64_t i = 0; i < count; i++) {
        nib_kernel k = {.size = sizeof(k)};
        if (nib_kernels_get(list, numbers[i], &k))
            continue;
        tool_json_begin(&out, NULL, '{');
        tool_json_text(&out, "key", k.key);
        tool_json_text(&out, "label", k.label);
        tool_json_text(&out, "backend", k.backend);
        tool_json_text(&out, "isa", k.isa);
        tool_json_text(&out, "format", k.format);
        tool_json_text(&out, "origin", origins[k.origin]);
        tool_json_text(&out, "path", k.path);
        tool_json_int(&out, "bytes", (int64_t)k.bytes);
        tool_json_int(&out, "files", k.files);
        tool_json_text(&out, "compiler", k.compiler);
        tool_json_text(&out, "flags", k.flags);
        tool_json_int(&out, "date", k.date);
        tool_json_end(&out, '}');
    }
    tool_json_end(&out, ']');
}

/* `chosen`: only some of the kernels there are were asked for. */
static void print_table(nib_kernels *list, const int64_t *numbers, int64_t count, bool csv,
                        bool chosen)
{
    /* The label last: the longest, and with the others it fits 80 columns. */
    static const char *const heads[] = {"key", "isa", ">bytes", "from", "label"};
    static const char *const all[] = {"key",    "isa",  ">bytes",   "from", "label",
                                      "format", "date", "compiler", "path", "backend"};
    tool_table table;
    uint64_t bytes = 0;
    tool_table_begin(&table, csv ? all : heads, csv ? 10 : 5);
    for (int64_t i = 0; i < count; i++) {
        nib_kernel k = {.size = sizeof(k)};
        char size[32], date[32];
        if (nib_kernels_get(list, numbers[i], &k))
            continue;
        bytes += k.bytes;
        format_date(date, k.date);
        snprintf(size, sizeof(size), "%" PRIu64, k.bytes);
        tool_table_add(&table, csv ? "%s" : "%.8s", k.key);
        tool_table_add(&table, "%s", k.isa);
        tool_table_add(&table, "%s", csv ? size : tool_format_bytes(size, (double)k.bytes));
        tool_table_add(&table, "%s", origins[k.origin]);
        tool_table_add(&table, "%s", k.label);
        if (!csv)
            continue;
        tool_table_add(&table, "%s", k.format);
        tool_table_add(&table, "%s", date);
        tool_table_add(&table, "%s", k.compiler);
        tool_table_add(&table, "%s", k.path);
        tool_table_add(&table, "%s", k.backend);
    }
    tool_table_end(&table, csv ? TOOL_CSV : TOOL_TABLE);
    char total[32];
    if (!csv && !count && chosen)
        puts("\nno kernels of that backend and ISA: 'nib kernels' lists what there is");
    else if (!csv && !count)
        puts("\nno kernels: a backend that compiles fills the cache when a product is prepared,"
             "\nand 'nib compile' writes packs");
    else if (!csv)
        printf("\n%" PRId64 " kernel%s, %s\n", count, count == 1 ? "" : "s",
               tool_format_bytes(total, (double)bytes));
}

static void print_details(nib_kernels *list, int64_t number)
{
    nib_kernel k = {.size = sizeof(k)};
    char date[32];
    if (nib_kernels_get(list, number, &k))
        return;
    format_date(date, k.date);
    printf("%s\n  key       %s\n  backend   %s, %s\n  image     %s, %" PRIu64 " bytes\n"
           "  compiler  %s, %s\n  flags     %s\n  from      %s %s\n  files    ",
           k.label, k.key, k.backend, k.isa, k.format, k.bytes, k.compiler, date, k.flags,
           origins[k.origin], k.path);
    for (int f = 0; f < k.files; f++) {
        const char *name;
        const void *data;
        size_t bytes;
        if (nib_kernels_part(list, number, (nib_kernel_part)(NIB_KERNEL_FILE + f), &name, &data,
                             &bytes)) {
            printf(" (%s)", nib_last_message());
            break;
        }
        printf("%s%s", f ? "\n            " : " ", name);
    }
    putchar('\n');
}

/* ---- the verb ---- */

static tool_exit clear(const kernels_options *o, nib_kernels *list, const int64_t *numbers,
                       int64_t count)
{
    int64_t removed = 0;
    nib_status status = NIB_OK;
    if (!o->word_count && !o->isa && !o->backend) {
        status = nib_kernels_clear(NULL, &removed);
        count = 0;
    }
    for (int64_t i = 0; i < count && !status; i++) {
        nib_kernel kernel = {.size = sizeof(kernel)};
        int64_t one = 0;
        if (nib_kernels_get(list, numbers[i], &kernel) || kernel.origin != NIB_KERNEL_CACHE)
            continue;
        status = nib_kernels_clear(kernel.key, &one);
        removed += one;
    }
    if (status)
        return tool_fail(status);
    printf("%" PRId64 " kernel%s removed from the cache\n", removed, removed == 1 ? "" : "s");
    return TOOL_OK;
}

static tool_exit show(const kernels_options *o, nib_kernels *list, int64_t *numbers, int64_t count)
{
    /* The same kernel in a pack and in the cache is one: the pack's, which comes first, is what
     * runs. */
    int64_t kept = 0;
    nib_kernel one = {.size = sizeof(one)};
    char last[64] = "";
    for (int64_t i = 0; i < count; i++) {
        if (nib_kernels_get(list, numbers[i], &one) || !strcmp(one.key, last))
            continue;
        snprintf(last, sizeof(last), "%s", one.key);
        numbers[kept++] = numbers[i];
    }
    if (kept == 1)
        return tool_kernel_show(list, numbers[0], o->show, o->file);
    if (!kept)
        return tool_error(TOOL_MISSING,
                          "there is no such kernel: 'nib kernels' lists what there is");
    tool_error(TOOL_USAGE, "that names %" PRId64 " kernels; --show needs one, by its key:", kept);
    for (int64_t i = 0; i < kept && i < 20; i++)
        if (!nib_kernels_get(list, numbers[i], &one))
            fprintf(stderr, "  %.8s  %s  %s\n", one.key, one.isa, one.label);
    return TOOL_USAGE;
}

static tool_exit work(const kernels_options *o, nib_kernels *list)
{
    int64_t *numbers = NULL, count = 0;
    tool_exit code = complain(o, list);
    if (!code)
        code = choose(o, list, &numbers, &count);
    if (code)
        return code;
    if (o->clear)
        code = clear(o, list, numbers, count);
    else if (o->show)
        code = show(o, list, numbers, count);
    else if (o->json)
        print_json(list, numbers, count);
    else if (o->word_count && !o->csv)
        for (int64_t i = 0; i < count; i++)
            print_details(list, numbers[i]);
    else
        print_table(list, numbers, count, o->csv, o->backend || o->isa);
    free(numbers);
    return code;
}

static tool_exit check_show(const tool_verb *verb, const kernels_options *o)
{
    static const char *const parts[] = {"spec", "source", "log", "image", "ptx", "sass"};
    int count = (int)(sizeof(parts) / sizeof(parts[0]));
    if (!o->show)
        return o->file ? tool_usage(verb, "--file goes with --show source") : TOOL_OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(o->show, parts[i]))
            return o->file && strcmp(o->show, "source")
                       ? tool_usage(verb, "--file goes with --show source")
                       : TOOL_OK;
    const char *near = tool_nearest(o->show, parts, count);
    return tool_usage(verb, "--show %s: expected %s%s%s", o->show, tool_kernel_parts,
                      near ? "; perhaps " : "", near ? near : "");
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    kernels_options o = {.show = NULL};
    const tool_option options[] = {
        {"backend", TOOL_TEXT, "NAME", &o.backend, "only kernels of this backend"},
        {"isa", TOOL_TEXT, "NAME", &o.isa, "only kernels for this ISA"},
        {"show", TOOL_TEXT, "PART", &o.show, tool_kernel_parts},
        {"file", TOOL_TEXT, "NAME", &o.file, "with --show source: another file than the first"},
        {"clear", TOOL_FLAG, NULL, &o.clear, "remove them from the cache; packs stay"},
        {"json", TOOL_FLAG, NULL, &o.json, "print JSON"},
        {"csv", TOOL_FLAG, NULL, &o.csv, "print CSV, all columns"},
        {"verbose", TOOL_FLAG, NULL, &o.verbose, "say which packs and entries are damaged"},
        {0}};
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &o.word_count, &code))
        return code;
    o.words = argv;
    if ((code = check_show(verb, &o)))
        return code;
    if (o.clear && o.show)
        return tool_usage(verb, "--clear and --show do not go together");
    /* For its log alone. */
    nib_context_options open = {.size = sizeof(open), .log = tool_log};
    nib_context *ctx = NULL;
    nib_kernels *list;
    nib_status status = o.verbose ? nib_context_create(&open, &ctx) : NIB_OK;
    if (!status)
        status = nib_kernels_open(o.backend, &list);
    if (status)
        code = tool_fail(status);
    else
        code = work(&o, list);
    if (!status)
        nib_kernels_close(list);
    nib_context_destroy(ctx);
    return code;
}

const tool_verb tool_verb_kernels = {
    .name = "kernels",
    .summary = "compiled kernels in packs and in the cache",
    .usage = "[LABEL | KEY ..] [--show PART | --clear] [options]",
    .details = "Lists what backends that compile at run time have compiled, and where each\n"
               "kernel stands. A label or the first digits of a key choose some of them. Texts\n"
               "open in $PAGER on a terminal; sass needs NVIDIA's nvdisasm or cuobjdump.\n"
               "docs/kernels.md says how to read them.\n",
    .examples = "  nib kernels\n"
                "  nib kernels 3f09c1 --show spec\n"
                "  nib kernels 3f09c1 --show source --file dequant.cuh\n"
                "  nib kernels --clear\n",
    .run = run,
};
