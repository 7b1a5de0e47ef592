/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib bench`: a file of cases, each checked and then timed; with --baseline in turns with others.
 */
#include "baseline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_BUDGET 1e8

typedef struct bench_options {
    const char *device, *path, *baselines;
    tool_baseline baseline;
    int64_t seed;
    double seconds;
    bool warm, no_check, json, csv;
    tool_startup startup;
} bench_options;

typedef struct bench_state {
    const bench_options *options;
    tool_baseline *baseline; /* NULL: none wanted */
    nib_device *dev;
    nib_device_info info;
    tool_table table;
    tool_json json;
    tool_progress progress;
    int64_t cases, wrong, skipped;
    bool began; /* something was printed */
    FILE *file;
    const char *path;
    double file_bytes, read_bytes;
    double measured_gb_per_s; /* 0: not measured, shares are of the nominal one */
    bool device_clock;        /* of the last case */
} bench_state;

static const char *const heads[] = {">m",    ">median us", ">min us",  ">p90 us", ">runs",
                                    ">GB/s", ">roof %",    ">GFLOP/s", "check",   "product"};
#define HEADS ((int)(sizeof(heads) / sizeof(heads[0])))

static nib_status print_desc(void *user, char *text, size_t capacity, size_t *needed)
{
    return nib_gemm_desc_print(user, text, capacity, needed);
}

/* What shares are of, GB/s. */
static double roof_of(const bench_state *s)
{
    return s->measured_gb_per_s > 0 ? s->measured_gb_per_s : s->info.read_gb_per_s;
}

static const char *verdict_of(const bench_state *s, const tool_check *check)
{
    return s->options->no_check ? "-" : check->wrong ? "WRONG" : "ok";
}

static void report(bench_state *s, const tool_runner *r, const tool_product *p, int64_t m,
                   const tool_check *check, const tool_timing *t, const char *line)
{
    double flop = 2.0 * (double)m * (double)p->desc.weight.n * (double)p->desc.weight.k;
    double gb_per_s = (double)r->packed_bytes / t->median_us * 1e-3;
    double roof = roof_of(s) > 0 ? 100 * gb_per_s / roof_of(s) : 0;
    const char *verdict = verdict_of(s, check);
    if (s->options->json) {
        tool_json *out = &s->json;
        tool_json_begin(out, NULL, '{');
        tool_json_int(out, "m", m);
        tool_json_text(out, "product", line);
        tool_json_int(out, "packed_bytes", (int64_t)r->packed_bytes);
        tool_json_int(out, "runs", t->runs);
        tool_json_text(out, "clock", t->device ? "device" : "host");
        tool_json_real(out, "median_us", t->median_us);
        tool_json_real(out, "min_us", t->min_us);
        tool_json_real(out, "p90_us", t->high_us);
        tool_json_real(out, "gb_per_s", gb_per_s);
        tool_json_real(out, "roof_percent", roof);
        tool_json_real(out, "gflop_per_s", flop / t->median_us * 1e-3);
        tool_json_text(out, "check", verdict);
        tool_json_end(out, '}');
        return;
    }
    tool_table_add(&s->table, "%" PRId64, m);
    tool_table_add(&s->table, "%.1f", t->median_us);
    tool_table_add(&s->table, "%.1f", t->min_us);
    tool_table_add(&s->table, "%.1f", t->high_us);
    tool_table_add(&s->table, "%" PRId64, t->runs);
    tool_table_add(&s->table, "%.2f", gb_per_s);
    tool_table_add(&s->table, "%.1f", roof);
    tool_table_add(&s->table, "%.1f", flop / t->median_us * 1e-3);
    tool_table_add(&s->table, "%s", verdict);
    tool_table_add(&s->table, "%s", line);
}

/* Times a checked product in turns with the baselines, and reports. */
static tool_exit bench_beside(bench_state *s, tool_runner *r, const tool_product *p, int64_t m,
                              const tool_check *check, const char *line)
{
    tool_beside beside;
    tool_exit code = tool_baseline_time(s->baseline, r, p, m, &beside);
    if (code)
        return code;
    s->wrong += check->wrong > 0;
    s->device_clock = true;
    if (s->options->json) {
        tool_json_begin(&s->json, NULL, '{');
        tool_json_int(&s->json, "m", m);
        tool_json_text(&s->json, "product", line);
        tool_json_int(&s->json, "packed_bytes", (int64_t)r->packed_bytes);
        tool_beside_json(&s->json, s->baseline, &beside);
        tool_json_text(&s->json, "check", verdict_of(s, check));
        tool_json_end(&s->json, '}');
        return TOOL_OK;
    }
    tool_beside_row row = {m, r->packed_bytes, verdict_of(s, check), s->options->csv ? line : NULL,
                           &beside};
    tool_beside_add(&s->table, s->baseline, &row);
    return TOOL_OK;
}

/* With baselines each product has a table of its own: one for all would not fit 80 columns. */
static void begin_product(bench_state *s, const char *line)
{
    if (!s->baseline || s->options->json || s->options->csv)
        return;
    printf("%s%s\n", s->cases ? "\n" : "", line);
    tool_beside_begin(&s->table, s->baseline, false);
}

static void end_product(bench_state *s)
{
    if (!s->baseline || s->options->json || s->options->csv || !s->table.columns)
        return;
    tool_table_end(&s->table, TOOL_TABLE);
    fflush(stdout);
}

static tool_exit bench_rows(bench_state *s, tool_runner *r, tool_product *p, int64_t m,
                            const char *line)
{
    tool_check check = {0};
    tool_timing timing;
    tool_exit code = TOOL_OK;
    if (!s->options->no_check) {
        void *out = malloc(p->out_bytes + 1);
        if (!out)
            return tool_error(TOOL_NO_MEMORY, "no memory for the result");
        memset(out, 0xff, p->out_bytes + 1);
        code = tool_runner_run(r, p, m, out);
        if (!code)
            code = tool_product_check(p, m, out, CHECK_BUDGET, &check);
        free(out);
    }
    if (!code && s->baseline)
        return bench_beside(s, r, p, m, &check, line);
    if (!code)
        code = tool_runner_time(r, m, s->options->seconds, &timing);
    if (code)
        return code;
    s->wrong += check.wrong > 0;
    s->device_clock = timing.device;
    report(s, r, p, m, &check, &timing, line);
    return TOOL_OK;
}

static tool_exit bench_case(bench_state *s, const tool_case *what)
{
    tool_product product = {0};
    tool_runner runner = {0};
    int64_t most = 0;
    nib_status status;
    if (nib_gemm_supports(s->dev, &what->desc) == NIB_UNSUPPORTED) {
        fprintf(stderr, "nib: skipped: %s\n", nib_last_message());
        s->skipped++;
        return TOOL_OK;
    }
    char *line = tool_print(print_desc, (void *)&what->desc, &status);
    if (!line)
        return tool_fail(status);
    for (int i = 0; i < what->count; i++)
        most = what->m[i] > most ? what->m[i] : most;
    tool_exit code = tool_product_create(&what->desc, most, (uint64_t)s->options->seed, &product);
    if (!code)
        code = tool_runner_create(s->dev, &product, !s->options->warm, &runner);
    if (!code && s->baseline)
        code = tool_baseline_load(s->baseline, &runner, &product);
    if (!code)
        begin_product(s, line);
    for (int i = 0; i < what->count && !code && !tool_interrupted(); i++) {
        tool_progress_at(&s->progress, s->read_bytes, line);
        if (what->m[i] > 0)
            code = bench_rows(s, &runner, &product, what->m[i], line);
    }
    end_product(s);
    if (s->baseline)
        tool_baseline_unload(s->baseline);
    tool_runner_destroy(&runner);
    tool_product_destroy(&product);
    free(line);
    return code;
}

/* With the first case: a file without any prints nothing, and costs no measurement. */
static void begin_output(bench_state *s)
{
    s->began = true;
    s->measured_gb_per_s = tool_roof_measure(s->dev, &s->info);
    if (!s->options->json && s->baseline) {
        if (s->options->csv)
            tool_beside_begin(&s->table, s->baseline, true);
        return;
    }
    if (!s->options->json) {
        tool_table_begin(&s->table, heads, HEADS);
        return;
    }
    s->json.out = stdout;
    tool_json_begin(&s->json, NULL, '{');
    tool_json_text(&s->json, "device", s->info.selector);
    tool_json_text(&s->json, "name", s->info.name);
    tool_json_text(&s->json, "isa", s->info.isa);
    tool_json_int(&s->json, "units", s->info.units);
    tool_json_real(&s->json, "read_gb_per_s", s->info.read_gb_per_s);
    if (s->measured_gb_per_s > 0)
        tool_json_real(&s->json, "measured_read_gb_per_s", s->measured_gb_per_s);
    tool_json_text(&s->json, "roof_of", tool_roof_kind(&s->info));
    tool_json_text(&s->json, "roof", s->measured_gb_per_s > 0 ? "measured" : "nominal");
    tool_json_bool(&s->json, "cold", !s->options->warm);
    tool_json_begin(&s->json, "cases", '[');
}

static void print_count(const bench_state *s)
{
    printf("\n%" PRId64 " cases, %" PRId64 " wrong, %" PRId64 " unsupported\n", s->cases, s->wrong,
           s->skipped);
}

static void end_output(bench_state *s)
{
    if (s->options->json) {
        tool_json_end(&s->json, ']');
        tool_json_end(&s->json, '}');
        return;
    }
    if (s->baseline && !s->options->csv) {
        printf("\n%s: %s, %s, %d units; weights %s\n"
               "us: medians of CUDA graphs in turns; floor: reading as many bytes; x: a\n"
               "baseline's time over ours\n",
               s->info.selector, s->info.name, s->info.isa, s->info.units,
               s->options->warm ? "warm" : "beyond the cache");
        print_count(s);
        return;
    }
    if (!s->options->csv)
        printf("%s: %s, %s, %d units; weights %s; times by the %s clock\n"
               "roof: %s %s bandwidth, %.1f GB/s\n\n",
               s->info.selector, s->info.name, s->info.isa, s->info.units,
               s->options->warm ? "warm" : "beyond the cache",
               s->device_clock ? "device's" : "host's",
               s->measured_gb_per_s > 0 ? "measured" : "nominal",
               s->measured_gb_per_s > 0 ? tool_roof_kind(&s->info) : "read", roof_of(s));
    tool_table_end(&s->table, s->options->csv ? TOOL_CSV : TOOL_TABLE);
    if (!s->options->csv)
        print_count(s);
}

/* Blank lines and what follows '#' are comments. */
static tool_exit bench_file(bench_state *s)
{
    char line[TOOL_LINE_BYTES];
    for (int64_t number = 1; fgets(line, sizeof(line), s->file); number++) {
        tool_case what;
        size_t length = strlen(line);
        if (length + 1 == sizeof(line))
            return tool_error(TOOL_USAGE, "%s:%" PRId64 ": the line is too long", s->path, number);
        s->read_bytes += (double)length;
        line[strcspn(line, "#")] = 0;
        if (!line[strspn(line, " \t\r\n")])
            continue;
        tool_exit code = tool_case_parse(line, &what);
        if (!code && !s->began)
            begin_output(s);
        if (!code)
            code = bench_case(s, &what);
        if (code)
            return tool_error(code, "%s:%" PRId64 ": stopped here", s->path, number);
        if (tool_interrupted())
            return TOOL_INTERRUPTED;
        s->cases++;
    }
    if (ferror(s->file))
        return tool_error(TOOL_MISSING, "%s: cannot read it", s->path);
    if (!s->cases)
        return tool_error(TOOL_USAGE,
                          "%s: there is no case in it: a case is a line like 'n=4096 k=4096 "
                          "w=i4 g=32 m=1'",
                          s->path);
    return TOOL_OK;
}

static tool_exit open_file(bench_state *s)
{
    s->file = strcmp(s->path, "-") ? fopen(s->path, "r") : stdin;
    if (!s->file)
        return tool_error(TOOL_MISSING, "%s: %s", s->path, strerror(errno));
    if (s->file != stdin && !fseek(s->file, 0, SEEK_END)) {
        s->file_bytes = (double)ftell(s->file);
        rewind(s->file);
    }
    return TOOL_OK;
}

static tool_exit bench(void *user, nib_device *dev)
{
    bench_options *o = user;
    bench_state s = {.options = o, .dev = dev, .path = o->path, .info = {.size = sizeof(s.info)}};
    nib_status status = nib_device_get_info(dev, &s.info);
    if (status)
        return tool_fail(status);
    tool_exit code = open_file(&s);
    if (!code && tool_baseline_wanted(&o->baseline)) {
        s.baseline = &o->baseline;
        code = tool_baseline_open(s.baseline, &s.info, o->seconds, o->warm);
    }
    if (!code) {
        tool_interrupt_catch();
        tool_progress_begin(&s.progress, "bench", s.file_bytes);
        code = bench_file(&s);
        tool_progress_end(&s.progress);
    }
    if (s.began)
        end_output(&s);
    if (s.baseline)
        tool_baseline_close(s.baseline);
    if (s.file && s.file != stdin)
        fclose(s.file);
    return code ? code : s.wrong ? TOOL_WRONG : TOOL_OK;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    bench_options o = {.seed = 1, .seconds = 0.5};
    const tool_option options[] = {
        {"device", TOOL_TEXT, "NAME", &o.device, "auto, cpu, .. ('nib devices')"},
        {"seconds", TOOL_REAL, "S", &o.seconds, "how long to time each case and m (0.5)"},
        {"baseline", TOOL_TEXT, "LIST", &o.baselines,
         "in turns with: floor,cublas,cublas-fp8 (CUDA)"},
        {"warm", TOOL_FLAG, NULL, &o.warm, "one copy of the weights, left in the cache"},
        {"no-check", TOOL_FLAG, NULL, &o.no_check, "time without checking first"},
        {"seed", TOOL_INT, "N", &o.seed, "of the random operands (1)"},
        {"json", TOOL_FLAG, NULL, &o.json, "print JSON"},
        {"csv", TOOL_FLAG, NULL, &o.csv, "print CSV"},
        {"verbose", TOOL_FLAG, NULL, &o.startup.verbose, "show the library's log"},
        {0}};
    int operands;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if (operands != 1)
        return tool_usage(verb, "one case file is needed ('-' reads the standard input)");
    o.path = argv[0];
    code = tool_baseline_parse(verb, o.baselines, &o.baseline);
    if (code)
        return code;
    return tool_device_with(o.device, &o.startup, bench, &o);
}

const tool_verb tool_verb_bench = {
    .name = "bench",
    .summary = "check and time the products of a case file",
    .usage = "FILE [--json | --csv] [options]",
    .details = "A case is a line that describes a product, with m=1,16,128 for its rows; '#'\n"
               "begins a comment. Each is checked first and timed second. Weights rotate\n"
               "through copies that exceed the last-level cache twice, unless --warm. GB/s\n"
               "counts packed weights; roof % is its share of a bandwidth measured first: of\n"
               "reading host memory where the weights stand there, else of copying in the\n"
               "device's memory, read plus written.\n"
               "\n"
               "--baseline times CUDA graphs of calls in turns with the read floor (the\n"
               "fastest kernel that only reads as many bytes) and with cuBLAS on the\n"
               "dequantised weights, in 16 bits and in e4m3. Both are found at run time; what\n"
               "is not there has no numbers. Below --seconds 0.01 one short round shows that\n"
               "all runs.\n",
    .examples = "  nib bench bench/cases/decode.cases\n"
                "  nib bench some.cases --device cuda:0 --baseline floor,cublas\n"
                "  echo 'n=4096 k=4096 w=i4 g=32 m=1,128' | nib bench - --csv\n",
    .run = run,
};
