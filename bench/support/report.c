/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing. Every number of the table is also in the JSON and CSV, losers and wrong ones included.
 */
#include "support/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Everything that is printed of one contender. */
typedef struct row {
    double median, min, spread; /* us; the spread is from the 10th to the 90th percentile */
    double gb_per_s, tflop_per_s;
    double share;     /* of the streaming bandwidth */
    double of_floor;  /* median of the read floor over ours */
    double ratio;     /* baseline over this, medians */
    double ratio_min; /* the same by minima */
} row;

static void cpu_name(char *out, size_t capacity)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, capacity, "unknown");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (colon && !strncmp(line, "model name", 10)) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(out, capacity, "%s", colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

void bench_machine_describe(bench_machine *machine)
{
    struct utsname u;
    double load[1];
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    cpu_name(machine->cpu, sizeof(machine->cpu));
    if (!uname(&u))
        snprintf(machine->kernel, sizeof(machine->kernel), "%.30s %.60s", u.sysname, u.release);
    snprintf(machine->compiler, sizeof(machine->compiler), "%.60s", __VERSION__);
    machine->l2_bytes = l2 > 0 ? (size_t)l2 : 0;
    machine->cache_bytes = l3 > 0 ? (size_t)l3 : (size_t)32 << 20;
    machine->load = getloadavg(load, 1) == 1 ? load[0] : NAN;
}

static row row_of(const bench_machine *machine, const bench_problem *p, const bench_contender *c,
                  bool cached, const bench_contender *floor, const bench_contender *baseline)
{
    row r = {.median = bench_quantile(c, 0.5), .min = bench_quantile(c, 0)};
    double flops = 2.0 * (double)p->m * (double)p->weight.n * (double)p->weight.k;
    r.spread = bench_quantile(c, 0.9) - bench_quantile(c, 0.1);
    r.gb_per_s = (double)c->bytes / r.median * 1e-3;
    r.tflop_per_s = c->kind == BENCH_READ ? NAN : flops / r.median * 1e-6;
    /* Meaningless for weights that stay in the cache. */
    r.share = cached ? NAN : (double)c->bytes / r.median * 1e-3 / machine->read_gb_per_s;
    /* Of equal bytes: a contender whose format takes more is not punished here. */
    r.of_floor =
        floor ? bench_quantile(floor, 0.5) / (double)floor->bytes * (double)c->bytes / r.median
              : NAN;
    r.ratio = baseline ? bench_quantile(baseline, 0.5) / r.median : NAN;
    r.ratio_min = baseline ? bench_quantile(baseline, 0) / r.min : NAN;
    return r;
}

void bench_report_begin(bench_report *report, const bench_machine *m)
{
    if (report->table)
        fprintf(report->table,
                "%s, %d threads, L2 %.2f MB, last-level cache %.0f MB, %s, gcc %s\n"
                "streaming read %.2f GB/s, load at start %.2f%s%s%s%s\n",
                m->cpu, m->threads, (double)m->l2_bytes / 1048576, (double)m->cache_bytes / 1048576,
                m->kernel, m->compiler, m->read_gb_per_s, m->load, *m->isa ? ", nibblas runs " : "",
                m->isa, *m->openblas ? ", openblas " : "", m->openblas);
    if (report->json)
        fprintf(report->json,
                "{\"cpu\":\"%s\",\"kernel\":\"%s\",\"compiler\":\"%s\",\"threads\":%d,"
                "\"l2_bytes\":%zu,\"cache_bytes\":%zu,\"read_gb_per_s\":%.3f,\"load\":%.2f,"
                "\"isa\":\"%s\",\"openblas\":\"%s\",\"version\":\"%s\",\"contests\":[",
                m->cpu, m->kernel, m->compiler, m->threads, m->l2_bytes, m->cache_bytes,
                m->read_gb_per_s, m->load, m->isa, m->openblas, nib_version());
    if (report->csv)
        fprintf(report->csv,
                "weight,m,residency,contender,baseline,bytes,samples,error,median_us,min_us,"
                "spread_us,gb_per_s,share_of_stream,of_floor,tflop_per_s,ratio,"
                "ratio_min,planned_us,variant\n");
    report->first_in_json = true;
}

/* NaN is no JSON: null. */
static void json_number(FILE *f, const char *key, double value)
{
    if (isfinite(value))
        fprintf(f, ",\"%s\":%.6g", key, value);
    else
        fprintf(f, ",\"%s\":null", key);
}

static void json_contender(FILE *f, const bench_contender *c, const row *r, bool first)
{
    fprintf(f, "%s{\"contender\":\"%s\",\"bytes\":%zu,\"copies\":%d,\"samples\":%d,\"wrong\":%s",
            first ? "" : ",", c->name, c->bytes, c->copies, c->count, c->wrong ? "true" : "false");
    json_number(f, "error", c->error < 0 ? NAN : c->error);
    json_number(f, "median_us", r->median);
    json_number(f, "min_us", r->min);
    json_number(f, "spread_us", r->spread);
    json_number(f, "gb_per_s", r->gb_per_s);
    json_number(f, "share_of_stream", r->share);
    json_number(f, "of_floor", r->of_floor);
    json_number(f, "tflop_per_s", r->tflop_per_s);
    if (*c->variant)
        fprintf(f, ",\"variant\":\"%s\"", c->variant);
    json_number(f, "planned_us", c->predicted_us > 0 ? c->predicted_us : NAN);
    json_number(f, "ratio", r->ratio);
    json_number(f, "ratio_min", r->ratio_min);
    fputc('}', f);
}

static void table_cell(FILE *f, const char *format, const char *blank, double value)
{
    if (isfinite(value))
        fprintf(f, format, value);
    else
        fputs(blank, f);
}

static void table_contender(FILE *f, const bench_contender *c, const row *r)
{
    fprintf(f, "  %-30s", c->name);
    if (c->wrong) {
        fprintf(f, " WRONG: relative error %.3g\n", c->error);
        return;
    }
    table_cell(f, " %8.1e", "        -", c->error < 0 ? NAN : c->error);
    fprintf(f, " %10.1f %10.1f %9.1f", r->median, r->min, r->spread);
    table_cell(f, " %7.2f", "       -", r->gb_per_s);
    table_cell(f, " %7.1f%%", "        -", r->share * 100);
    table_cell(f, " %7.1f%%", "        -", r->of_floor * 100);
    table_cell(f, " %8.4f", "        -", r->tflop_per_s);
    table_cell(f, " %7.2f", "       -", r->ratio);
    table_cell(f, " %7.2f", "       -", r->ratio_min);
    table_cell(f, " %10.1f", "", c->predicted_us > 0 ? c->predicted_us : NAN);
    fprintf(f, "%s%s\n", *c->variant ? " " : "", c->variant);
}

/* NaN is an empty cell. */
static void csv_number(FILE *f, double value)
{
    if (isfinite(value))
        fprintf(f, ",%.6g", value);
    else
        fputc(',', f);
}

static void csv_contender(FILE *f, const char *line, const bench_problem *p, bool cached,
                          const bench_contender *c, const row *r, const char *baseline)
{
    const double numbers[] = {c->error < 0 ? NAN : c->error,
                              r->median,
                              r->min,
                              r->spread,
                              r->gb_per_s,
                              r->share,
                              r->of_floor,
                              r->tflop_per_s,
                              r->ratio,
                              r->ratio_min,
                              c->predicted_us > 0 ? c->predicted_us : NAN};
    fprintf(f, "%s,%lld,%s,%s,%s,%zu,%d", line, (long long)p->m, cached ? "cached" : "memory",
            c->name, baseline, c->bytes, c->count);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        csv_number(f, numbers[i]);
    fprintf(f, ",%s\n", c->variant);
}

void bench_report_contest(bench_report *report, const bench_machine *machine,
                          const bench_problem *p, const bench_settings *settings,
                          const bench_contender *list, int count, int baseline)
{
    char line[256] = "?";
    const bench_contender *floor = NULL;
    nib_weight_desc_print(&p->weight, line, sizeof(line), NULL);
    for (int i = 0; i < count; i++)
        if (list[i].kind == BENCH_READ)
            floor = &list[i];
    const bench_contender *base = baseline >= 0 ? &list[baseline] : NULL;
    const char *base_name = base ? base->name : "-";
    if (report->table)
        fprintf(report->table,
                "\n%s m=%lld, weights %s, stream %.2f GB/s, ratios to %s\n"
                "  %-30s %8s %10s %10s %9s %7s %8s %8s %8s %7s %7s %10s\n",
                line, (long long)p->m,
                settings->cached ? "in the cache where they fit" : "from memory",
                machine->read_gb_per_s, base_name, "", "error", "median us", "min us", "spread us",
                "GB/s", "stream", "floor", "TFLOP/s", "ratio", "by min", "planned us");
    if (report->json)
        fprintf(report->json,
                "%s{\"weight\":\"%s\",\"m\":%lld,\"cached\":%s,\"read_gb_per_s\":%.3f,\"baseline\":"
                "\"%s\","
                "\"results\":[",
                report->first_in_json ? "" : ",", line, (long long)p->m,
                settings->cached ? "true" : "false", machine->read_gb_per_s, base_name);
    report->first_in_json = false;
    for (int i = 0; i < count; i++) {
        row r = row_of(machine, p, &list[i], settings->cached, floor, base);
        if (report->table)
            table_contender(report->table, &list[i], &r);
        if (report->json)
            json_contender(report->json, &list[i], &r, i == 0);
        if (report->csv)
            csv_contender(report->csv, line, p, settings->cached, &list[i], &r, base_name);
    }
    if (report->json)
        fputs("]}", report->json);
    if (report->table)
        fflush(report->table);
}

bool bench_report_end(bench_report *report)
{
    FILE *files[] = {report->table, report->json, report->csv};
    bool good = true;
    if (report->json)
        fputs("]}\n", report->json);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i] && (fflush(files[i]) || ferror(files[i])))
            good = false;
    if (!good)
        fprintf(stderr, "bench: an output could not be written\n");
    return good;
}
