/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib compile`: a pack with the kernels of some products, made ahead of time and without a device.
 */
#include "product.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ISAS = 64, MOST_JOBS = 256 };

typedef struct compile_options {
    const char *backend, *isas, *output;
    tool_list cases, lines;
    int64_t jobs;
    bool json, verbose;
    char **words;
    int word_count;
} compile_options;

typedef struct compile_state {
    const compile_options *options;
    nib_context *ctx;
    nib_gemm_desc *descs;
    size_t count, room;
    const char *isas[MAX_ISAS];
    size_t isa_count;
    char isa_text[1024];
    tool_progress progress;
} compile_state;

/* ---- products ---- */

static tool_exit add_line(compile_state *s, const char *line)
{
    tool_case what;
    tool_exit code = tool_case_parse(line, &what);
    if (code)
        return code;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        nib_gemm_desc *descs = realloc(s->descs, room * sizeof(*descs));
        if (!descs)
            return tool_error(TOOL_NO_MEMORY, "no memory for %zu products", room);
        s->descs = descs;
        s->room = room;
    }
    s->descs[s->count++] = what.desc;
    return TOOL_OK;
}

/* Blank lines and what follows '#' are comments; "-" is the standard input. */
static tool_exit add_file(compile_state *s, const char *path)
{
    char line[TOOL_LINE_BYTES];
    tool_exit code = TOOL_OK;
    FILE *file = strcmp(path, "-") ? fopen(path, "r") : stdin;
    if (!file)
        return tool_error(TOOL_MISSING, "%s: %s", path, strerror(errno));
    for (int64_t number = 1; !code && fgets(line, sizeof(line), file); number++) {
        if (strlen(line) + 1 == sizeof(line))
            code = tool_error(TOOL_USAGE, "the line is too long");
        line[strcspn(line, "#")] = 0;
        if (!code && line[strspn(line, " \t\r\n")])
            code = add_line(s, line);
        if (code)
            tool_error(code, "%s:%" PRId64 ": stopped here", path, number);
    }
    if (!code && ferror(file))
        code = tool_error(TOOL_MISSING, "%s: cannot read it", path);
    if (file != stdin)
        fclose(file);
    return code;
}

static tool_exit add_words(compile_state *s)
{
    char line[TOOL_LINE_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < s->options->word_count && used < sizeof(line); i++)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s ", s->options->words[i]);
    if (used >= sizeof(line))
        return tool_error(TOOL_USAGE, "the description is too long");
    return used ? add_line(s, line) : TOOL_OK;
}

static tool_exit collect_products(compile_state *s)
{
    const compile_options *o = s->options;
    tool_exit code = add_words(s);
    for (int i = 0; i < o->lines.count && !code; i++)
        code = add_line(s, o->lines.items[i]);
    for (int i = 0; i < o->cases.count && !code; i++)
        code = add_file(s, o->cases.items[i]);
    if (!code && !s->count)
        code =
            tool_error(TOOL_USAGE, "no product: give --desc 'n=4096 k=4096 w=i4 g=32' or --cases "
                                   "FILE");
    return code;
}

/* ---- ISAs ---- */

/* Names of all that the backend knows; answers how many, or -1 after a complaint. */
static int known_isas(compile_state *s, const char *names[MAX_ISAS], tool_exit *code)
{
    int count = 0;
    for (;;) {
        const char *name;
        nib_status status = nib_kernels_isa(s->ctx, s->options->backend, (uint32_t)count, &name);
        if (status == NIB_MISSING && count)
            return count;
        if (status) {
            *code = tool_fail(status);
            return -1;
        }
        if (count == MAX_ISAS)
            return count;
        names[count++] = name;
    }
}

static tool_exit choose_isas(compile_state *s)
{
    const char *known[MAX_ISAS];
    tool_exit code = TOOL_OK;
    int count = known_isas(s, known, &code);
    if (count < 0)
        return code;
    if (!s->options->isas) {
        tool_error(TOOL_USAGE, "which ISA? --isa takes some of these, or all:");
        for (int i = 0; i < count; i++)
            fprintf(stderr, "%s%s", i ? ", " : "  ", known[i]);
        fputc('\n', stderr);
        return TOOL_USAGE;
    }
    if (strlen(s->options->isas) >= sizeof(s->isa_text))
        return tool_error(TOOL_USAGE, "--isa is too long");
    strcpy(s->isa_text, s->options->isas);
    char *save;
    for (char *word = strtok_r(s->isa_text, ", ", &save); word;
         word = strtok_r(NULL, ", ", &save)) {
        bool all = !strcmp(word, "all"), found = all;
        for (int i = 0; i < count; i++) {
            if (!all && strcmp(word, known[i]))
                continue;
            found = true;
            for (size_t j = 0; j <= s->isa_count; j++) {
                if (j == s->isa_count && s->isa_count < MAX_ISAS) {
                    s->isas[s->isa_count++] = known[i];
                    break;
                }
                if (s->isas[j] == known[i])
                    break;
            }
        }
        if (found)
            continue;
        const char *near = tool_nearest(word, known, count);
        tool_error(TOOL_USAGE, "backend '%s' does not compile for '%s'%s%s%s", s->options->backend,
                   word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        fprintf(stderr, "  it knows: ");
        for (int i = 0; i < count; i++)
            fprintf(stderr, "%s%s", i ? ", " : "", known[i]);
        fputc('\n', stderr);
        return TOOL_USAGE;
    }
    return s->isa_count ? TOOL_OK : tool_error(TOOL_USAGE, "--isa names no ISA");
}

/* ---- the pack ---- */

static nib_status on_progress(void *user, int64_t done, int64_t total, const char *label)
{
    compile_state *s = user;
    s->progress.total = (double)total;
    tool_progress_at(&s->progress, (double)done, label);
    return tool_interrupted() ? NIB_INVALID : NIB_OK;
}

static void print_report(const compile_state *s, const nib_pack_report *r)
{
    const char *output = s->options->output;
    tool_json out = {.out = stdout};
    char bytes[32];
    if (s->options->json) {
        tool_json_begin(&out, NULL, '{');
        tool_json_text(&out, "pack", output);
        tool_json_text(&out, "backend", s->options->backend);
        tool_json_int(&out, "products", (int64_t)s->count);
        tool_json_int(&out, "isas", (int64_t)s->isa_count);
        tool_json_int(&out, "images", r->images);
        tool_json_int(&out, "compiled", r->compiled);
        tool_json_int(&out, "refused", r->refused);
        tool_json_int(&out, "bytes", (int64_t)r->bytes);
        tool_json_end(&out, '}');
        return;
    }
    printf("%s: %" PRId64 " kernels, %s; %" PRId64 " compiled, %" PRId64 " were there\n", output,
           r->images, tool_format_bytes(bytes, (double)r->bytes), r->compiled,
           r->images - r->compiled);
    if (r->refused)
        printf("%" PRId64 " of %zu pairs of product and ISA have no kernel; --verbose says why\n",
               r->refused, s->count * s->isa_count);
}

static tool_exit build(compile_state *s)
{
    nib_pack_report report = {.size = sizeof(report)};
    const nib_pack_options options = {
        .size = sizeof(options),
        .threads = (int32_t)s->options->jobs,
        .backend = s->options->backend,
        .isas = s->isas,
        .isa_count = s->isa_count,
        .descs = s->descs,
        .desc_count = s->count,
        .progress = on_progress,
        .user = s,
    };
    tool_interrupt_catch();
    tool_progress_begin(&s->progress, "compile", 1);
    nib_status status = nib_pack_build(s->ctx, &options, s->options->output, &report);
    tool_progress_end(&s->progress);
    if (status && tool_interrupted())
        return tool_error(TOOL_INTERRUPTED, "interrupted; %s was not written", s->options->output);
    if (status)
        return tool_fail(status);
    print_report(s, &report);
    return TOOL_OK;
}

static tool_exit work(const compile_options *o)
{
    compile_state s = {.options = o};
    nib_context_options open = {.size = sizeof(open), .log = o->verbose ? tool_log : NULL};
    nib_status status = nib_context_create(&open, &s.ctx);
    tool_exit code = status ? tool_fail(status) : choose_isas(&s);
    if (!code)
        code = collect_products(&s);
    if (!code)
        code = build(&s);
    free(s.descs);
    nib_context_destroy(s.ctx);
    return code;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    compile_options o = {.backend = "cuda"};
    const tool_option options[] = {
        {"backend", TOOL_TEXT, "NAME", &o.backend, "the backend whose kernels they are (cuda)"},
        {"isa", TOOL_TEXT, "NAME[,NAME]", &o.isas, "what to compile for, or 'all'"},
        {"desc", TOOL_LIST, "LINE", &o.lines, "a product; repeatable"},
        {"cases", TOOL_LIST, "FILE", &o.cases, "products, a line each; repeatable"},
        {"output", TOOL_TEXT, "FILE", &o.output, "the pack, NAME.nibpack; also -o"},
        {"jobs", TOOL_INT, "N", &o.jobs, "threads (the processors there are)"},
        {"json", TOOL_FLAG, NULL, &o.json, "print the report as JSON"},
        {"verbose", TOOL_FLAG, NULL, &o.verbose, "show the library's log"},
        {0}};
    static char output[] = "--output";
    tool_exit code;
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "-o"))
            argv[i] = output;
    if (!tool_parse(verb, options, argc, argv, &o.word_count, &code))
        return code;
    o.words = argv;
    if (!o.output)
        return tool_usage(verb, "where to? -o FILE.nibpack is needed");
    if (o.jobs < 0 || o.jobs > MOST_JOBS)
        return tool_usage(verb, "--jobs: expected 0..%d", MOST_JOBS);
    return work(&o);
}

const tool_verb tool_verb_compile = {
    .name = "compile",
    .summary = "kernels ahead of time, into a pack that programs find",
    .usage = "--isa NAMES (--desc LINE | --cases FILE) -o FILE.nibpack",
    .details = "Compiles every kernel that the products may use, each once, for every ISA\n"
               "named; no device is needed. Programs look for packs in NIB_PACK_PATH, or in\n"
               "the folder nibblas beside the installed library, before their own cache.\n"
               "Nothing stands at FILE before all is done.\n",
    .examples = "  nib compile --isa sm_80,sm_90a --cases model.cases -o model.nibpack\n"
                "  nib compile --isa all --desc 'n=4096 k=4096 w=u4 g=128' -o one.nibpack\n",
    .run = run,
};
