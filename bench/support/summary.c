/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges and targets: see summary.h.
 */
#include "support/summary.h"

#include <math.h>
#include <string.h>

#define ANY INT64_MAX

typedef struct range {
    const char *name;
    int64_t least, most;
} range;

static const range ranges[] = {{"M = 1", 1, 1},
                               {"M = 2-8", 2, 8},
                               {"M = 16-24", 16, 24},
                               {"M = 32-128", 32, 128},
                               {"M >= 192", 192, ANY}};
#define RANGES ((int)(sizeof(ranges) / sizeof(ranges[0])))

/* Which rows a target is of. */
typedef enum whose { REFERENCE, FP8, OTHER, TWINS } whose;

typedef struct target {
    whose whose;
    bench_metric metric;
    int64_t least, most;
    bool geomean;        /* of the range; else of every cell */
    double limit, small; /* small: of 4096 x 4096, 0: as limit */
} target;

/* clang-format off */
static const target targets[] = {
    {REFERENCE, BENCH_SHARE_OF_FLOOR,   1,   1, false, 0.95, 0.90},
    {REFERENCE, BENCH_SHARE_OF_FLOOR,   2,   8, false, 0.90, 0.80},
    {REFERENCE, BENCH_SHARE_OF_FLOOR,  16,  24, false, 0.85, 0.70},
    {REFERENCE, BENCH_X_CUBLAS,        32, 128, true,  1.90, 0},
    {REFERENCE, BENCH_X_CUBLAS,        32, 128, false, 1.30, 0},
    {REFERENCE, BENCH_X_PEER,          32, 128, true,  1.50, 0},
    {REFERENCE, BENCH_X_CUBLAS,       192, ANY, false, 1.00, 0},
    {REFERENCE, BENCH_X_CUBLAS,       192, ANY, true,  1.06, 0},
    {FP8,       BENCH_X_FP8,          512, ANY, false, 0.97, 0},
    {OTHER,     BENCH_OVER_REFERENCE,   1,   1, true,  1.07, 0},
    {OTHER,     BENCH_OVER_REFERENCE,   2,   8, true,  1.07, 0},
    {OTHER,     BENCH_OVER_REFERENCE,  16,  24, true,  1.07, 0},
    {OTHER,     BENCH_OVER_REFERENCE,  32, 128, true,  1.07, 0},
    {OTHER,     BENCH_OVER_REFERENCE, 192, ANY, true,  1.07, 0},
    {TWINS,     BENCH_OVER_ALIGNED,     1, ANY, false, 1.15, 0},
};
/* clang-format on */
#define TARGETS ((int)(sizeof(targets) / sizeof(targets[0])))

static const char *const metric_names[] = {
    "of the floor",          "x cuBLAS",         "x cuBLAS fp8",          "x best W4A16 peer",
    "x dequantise + cuBLAS", "times int4 g=128", "times its aligned twin"};

/* ---- metrics ---- */

static bool parse(const bench_row *row, nib_gemm_desc *desc)
{
    char line[256];
    snprintf(line, sizeof(line), "n=%lld k=%lld %s", (long long)row->n, (long long)row->k,
             row->line);
    *desc = (nib_gemm_desc){.size = sizeof(*desc)};
    return !nib_gemm_desc_parse(line, desc);
}

bool bench_is_reference(const nib_gemm_desc *d, nib_type act_type)
{
    const nib_weight_desc *w = &d->weight;
    return w->type == NIB_I4 && w->group == 128 && w->scale_type == act_type &&
           w->zero == NIB_ZERO_NONE && !w->flags && d->act_type == act_type &&
           d->out_type == act_type && d->acc_type == NIB_F32 && !d->flags &&
           (act_type == NIB_F16 || act_type == NIB_BF16);
}

static bool counts(const bench_row *row)
{
    return row->state == BENCH_OK && row->chosen && row->ours.us > 0;
}

/* int4, group 128, of the same activations; f16 itself is what bf16 is compared with. */
static const bench_row *reference_of(const bench_rows *rows, const bench_row *row)
{
    nib_gemm_desc desc, other;
    if (row->twin || !parse(row, &desc) || bench_is_reference(&desc, NIB_F16))
        return NULL;
    bool is_bf16 = bench_is_reference(&desc, NIB_BF16);
    for (int i = rows->count - 1; i >= 0; i--) {
        const bench_row *r = &rows->row[i];
        if (r->n == row->n && r->k == row->k && r->m == row->m && !r->twin && counts(r) &&
            parse(r, &other) && bench_is_reference(&other, is_bf16 ? NIB_F16 : desc.act_type))
            return r;
    }
    return NULL;
}

static double ratio(double over, double under)
{
    return over > 0 && under > 0 ? over / under : NAN;
}

double bench_metric_of(const bench_rows *rows, const bench_row *row, bench_metric metric)
{
    const bench_row *other = NULL;
    switch (metric) {
    case BENCH_SHARE_OF_FLOOR:
        return ratio(row->floor.us, row->ours.us);
    case BENCH_X_CUBLAS:
        return ratio(row->cublas.us, row->ours.us);
    case BENCH_X_FP8:
        return ratio(row->cublas_fp8.us, row->ours.us);
    case BENCH_X_PEER:
        return ratio(row->best, row->ours.us);
    case BENCH_X_DEQUANT:
        return ratio(row->dequant.us, row->ours.us);
    case BENCH_OVER_REFERENCE:
        other = reference_of(rows, row);
        break;
    case BENCH_OVER_ALIGNED:
        other = row->twin ? bench_rows_find(rows, row, BENCH_ALIGNED) : NULL;
        break;
    case BENCH_METRICS:
        break;
    }
    return other && counts(other) ? ratio(row->ours.us, other->ours.us) : NAN;
}

/* The row itself, not one that was measured again later. */
static bool is_of(const bench_rows *rows, const bench_row *row, const char *line, bench_twin twin,
                  int64_t least, int64_t most)
{
    return counts(row) && row->twin == twin && row->m >= least && row->m <= most &&
           !strcmp(row->line, line) && bench_rows_find(rows, row, twin) == row;
}

static bool smaller_is_better(bench_metric metric)
{
    return metric == BENCH_OVER_REFERENCE || metric == BENCH_OVER_ALIGNED;
}

bench_tally bench_tally_of(const bench_rows *rows, const char *line, bench_twin twin, int64_t least,
                           int64_t most, bench_metric metric)
{
    bench_tally t = {.worst = NAN};
    double logs = 0;
    for (int i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        double value =
            is_of(rows, row, line, twin, least, most) ? bench_metric_of(rows, row, metric) : NAN;
        if (isnan(value))
            continue;
        bool worse = smaller_is_better(metric) ? value > t.worst : value < t.worst;
        if (!t.cells++ || worse) {
            t.worst = value;
            t.worst_row = row;
        }
        logs += log(value);
    }
    t.geomean = t.cells ? exp(logs / t.cells) : NAN;
    return t;
}

/* ---- printing ---- */

static void print_value(FILE *out, bench_metric metric, double value)
{
    if (isnan(value))
        fputs("-", out);
    else if (metric == BENCH_SHARE_OF_FLOOR)
        fprintf(out, "%.0f %%", 100 * value);
    else
        fprintf(out, "%.2f", value);
}

static void print_cell_name(FILE *out, const bench_row *row)
{
    fprintf(out, "%lld x %lld, M = %lld", (long long)row->n, (long long)row->k, (long long)row->m);
}

/* Rows that are the first of their product and twin: each pair is printed once. */
static bool is_first(const bench_rows *rows, int index)
{
    for (int i = 0; i < index; i++)
        if (rows->row[i].twin == rows->row[index].twin &&
            !strcmp(rows->row[i].line, rows->row[index].line))
            return false;
    return true;
}

static void print_product(FILE *out, const bench_row *of)
{
    fprintf(out, "| `%s`%s%s |", of->line, of->twin ? ", " : "",
            of->twin ? bench_twin_name(of->twin) : "");
}

static void print_range(FILE *out, const bench_rows *rows, const bench_row *of, const range *in)
{
    bench_tally tally[BENCH_METRICS];
    int cells = 0;
    for (int m = 0; m < BENCH_METRICS; m++) {
        tally[m] = bench_tally_of(rows, of->line, of->twin, in->least, in->most, (bench_metric)m);
        cells = tally[m].cells > cells ? tally[m].cells : cells;
    }
    if (!cells)
        return;
    print_product(out, of);
    fprintf(out, " %s | %d |", in->name, cells);
    for (int m = 0; m < BENCH_METRICS; m++) {
        fputc(' ', out);
        print_value(out, (bench_metric)m, tally[m].geomean);
        if (tally[m].cells) {
            fputs(" (", out);
            print_value(out, (bench_metric)m, tally[m].worst);
            fputs(")", out);
        }
        fputs(" |", out);
    }
    fputc('\n', out);
}

static void print_ranges(FILE *out, const bench_rows *rows)
{
    fputs("\nGeometric means, in parentheses the worst cell, of the library's own choices.\n"
          "\n| product | range | cells |",
          out);
    for (int m = 0; m < BENCH_METRICS; m++)
        fprintf(out, " %s |", metric_names[m]);
    fputs("\n|---|---|---|", out);
    for (int m = 0; m < BENCH_METRICS; m++)
        fputs("---|", out);
    fputc('\n', out);
    for (int i = 0; i < rows->count; i++)
        for (int r = 0; r < RANGES && is_first(rows, i); r++)
            print_range(out, rows, &rows->row[i], &ranges[r]);
}

static bool is_whose(const bench_row *row, whose who)
{
    nib_gemm_desc d;
    if (!parse(row, &d))
        return false;
    bool reference = bench_is_reference(&d, NIB_F16) || bench_is_reference(&d, NIB_BF16);
    if (row->twin)
        return who == TWINS;
    if (nib_type_bits(d.act_type) == 8)
        return who == FP8;
    /* bf16 is held to both: the reference's targets and the distance from f16. */
    return reference ? who == REFERENCE || (who == OTHER && d.act_type == NIB_BF16) : who == OTHER;
}

static double limit_of(const target *t, const bench_row *row)
{
    return t->small > 0 && row->n == 4096 && row->k == 4096 ? t->small : t->limit;
}

static bool misses(const target *t, double value, double limit)
{
    return smaller_is_better(t->metric) ? !(value <= limit) : !(value >= limit);
}

static void print_target_name(FILE *out, const target *t, const bench_row *of)
{
    char most[24] = "";
    if (t->most != ANY && t->most != t->least)
        snprintf(most, sizeof(most), "-%lld", (long long)t->most);
    print_product(out, of);
    fprintf(out, " M %s %lld%s, %s, %s | %s ", t->most == ANY ? ">=" : "=", (long long)t->least,
            most, metric_names[t->metric], t->geomean ? "geometric mean" : "every cell",
            smaller_is_better(t->metric) ? "<=" : ">=");
    print_value(out, t->metric, t->limit);
    if (t->small > 0) {
        fputs(" (", out);
        print_value(out, t->metric, t->small);
        fputs(" at 4096 x 4096)", out);
    }
}

static void print_missed(FILE *out, const bench_rows *rows, const target *t, const bench_row *of)
{
    int missed = 0, cells = 0;
    for (int i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        if (!is_of(rows, row, of->line, of->twin, t->least, t->most))
            continue;
        double value = bench_metric_of(rows, row, t->metric);
        if (isnan(value))
            continue;
        cells++;
        if (!misses(t, value, limit_of(t, row)))
            continue;
        fputs(missed++ ? "; " : " | ", out);
        print_cell_name(out, row);
        fputs(": ", out);
        print_value(out, t->metric, value);
    }
    if (missed)
        fprintf(out, " | NOT met in %d of %d |\n", missed, cells);
    else
        fprintf(out, " | all %d | met |\n", cells);
}

static void print_target(FILE *out, const bench_rows *rows, const target *t, const bench_row *of)
{
    bench_tally tally = bench_tally_of(rows, of->line, of->twin, t->least, t->most, t->metric);
    if (!tally.cells)
        return;
    print_target_name(out, t, of);
    if (!t->geomean) {
        print_missed(out, rows, t, of);
        return;
    }
    fputs(" | ", out);
    print_value(out, t->metric, tally.geomean);
    fputs(" (worst ", out);
    print_value(out, t->metric, tally.worst);
    fputs(", ", out);
    print_cell_name(out, tally.worst_row);
    fprintf(out, ") | %s |\n", misses(t, tally.geomean, t->limit) ? "NOT met" : "met");
}

static void print_bad(FILE *out, const bench_rows *rows)
{
    int bad = 0;
    for (int i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        if (row->state == BENCH_OK)
            continue;
        const bench_row *last = bench_rows_find(rows, row, row->twin);
        if (last && last > row && last->state == BENCH_OK) /* measured again */
            continue;
        fputs(bad++ ? "" : "Cells without a time:\n\n", out);
        fprintf(out, "- `%s`, %s, ", row->line, bench_twin_name(row->twin));
        print_cell_name(out, row);
        fprintf(out, ", %s: %s (error %.1e, worst element %.1e)\n", row->variant,
                bench_state_name(row->state), row->error, row->worst);
    }
}

void bench_summary(FILE *out, const bench_rows *rows)
{
    print_bad(out, rows);
    print_ranges(out, rows);
    fputs("\n| product | target | asked | measured | |\n|---|---|---|---|---|\n", out);
    for (int t = 0; t < TARGETS; t++)
        for (int i = 0; i < rows->count; i++)
            if (is_first(rows, i) && is_whose(&rows->row[i], targets[t].whose))
                print_target(out, rows, &targets[t], &rows->row[i]);
}
