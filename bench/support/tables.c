/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables: see tables.h.
 */
#include "support/tables.h"

#include <string.h>

typedef struct column {
    const char *head;
    bool (*has)(const bench_row *row); /* NULL: always there */
    void (*print)(FILE *out, const bench_row *row);
} column;

/* Three digits, as far as there are so many. */
static void print_us(FILE *out, double us)
{
    fprintf(out, us < 10 ? "%.2f" : us < 100 ? "%.1f" : "%.0f", us);
}

static void print_stat(FILE *out, const bench_stat *stat)
{
    print_us(out, stat->us);
    fputs(" (", out);
    print_us(out, stat->least);
    fputs("..", out);
    print_us(out, stat->most);
    fputs(")", out);
}

static void print_times(FILE *out, double theirs, double ours)
{
    print_us(out, theirs);
    fprintf(out, " | %.2f", theirs / ours);
}

static bool has_floor(const bench_row *row)
{
    return row->floor.us > 0;
}

static bool has_cublas(const bench_row *row)
{
    return row->cublas.us > 0;
}

static bool has_fp8(const bench_row *row)
{
    return row->cublas_fp8.us > 0;
}

static bool has_dequant(const bench_row *row)
{
    return row->dequant.us > 0;
}

static bool has_peer(const bench_row *row)
{
    return row->best > 0;
}

static void print_ours(FILE *out, const bench_row *row)
{
    print_stat(out, &row->ours);
}

static void print_gb(FILE *out, const bench_row *row)
{
    fprintf(out, "%.0f", (double)row->bytes / row->ours.us * 1e-3);
}

static void print_tflop(FILE *out, const bench_row *row)
{
    fprintf(out, "%.0f", 2e-6 * (double)row->n * (double)row->k * (double)row->m / row->ours.us);
}

static void print_variant(FILE *out, const bench_row *row)
{
    fputs(row->variant, out);
}

static void print_planned(FILE *out, const bench_row *row)
{
    print_us(out, row->planned);
}

static void print_floor(FILE *out, const bench_row *row)
{
    print_us(out, row->floor.us);
    fprintf(out, " | %.0f %%", 100 * row->floor.us / row->ours.us);
}

static void print_cublas(FILE *out, const bench_row *row)
{
    print_times(out, row->cublas.us, row->ours.us);
}

static void print_fp8(FILE *out, const bench_row *row)
{
    print_times(out, row->cublas_fp8.us, row->ours.us);
}

static void print_dequant(FILE *out, const bench_row *row)
{
    print_times(out, row->dequant.us, row->ours.us);
}

static void print_peer(FILE *out, const bench_row *row)
{
    fprintf(out, "%s ", row->best_name);
    print_times(out, row->best, row->ours.us);
}

/* A head with a bar stands over two columns. */
static const column columns[] = {
    {"us (least..most)", NULL, print_ours},
    {"GB/s", NULL, print_gb},
    {"TFLOP/s", NULL, print_tflop},
    {"planned us", NULL, print_planned},
    {"kernel", NULL, print_variant},
    {"floor us | of it", has_floor, print_floor},
    {"cuBLAS us | x", has_cublas, print_cublas},
    {"cuBLAS fp8 us | x", has_fp8, print_fp8},
    {"dequantise + cuBLAS us | x", has_dequant, print_dequant},
    {"best peer us | x", has_peer, print_peer},
};
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

static bool is_same(const bench_row *a, const bench_row *b)
{
    return a->twin == b->twin && !strcmp(a->line, b->line);
}

static bool is_shown(const bench_rows *rows, const bench_row *of, const column *c)
{
    for (int i = 0; i < rows->count; i++)
        if (is_same(&rows->row[i], of) && !rows->row[i].state && (!c->has || c->has(&rows->row[i])))
            return true;
    return false;
}

static void print_row(FILE *out, const bench_rows *rows, const bench_row *row)
{
    fprintf(out, "| %lld x %lld | %lld |", (long long)row->n, (long long)row->k, (long long)row->m);
    for (int c = 0; c < COLUMNS; c++) {
        if (!is_shown(rows, row, &columns[c]))
            continue;
        fputc(' ', out);
        if (row->state && !c)
            fputs(bench_state_name(row->state), out);
        else if (row->state || (columns[c].has && !columns[c].has(row)))
            fputs(strchr(columns[c].head, '|') ? "- | -" : "-", out);
        else
            columns[c].print(out, row);
        fputs(" |", out);
    }
    fputc('\n', out);
}

static void print_table(FILE *out, const bench_rows *rows, const bench_row *of)
{
    int count = 2;
    fprintf(out, "\n`%s`%s%s\n\n| N x K | M |", of->line, of->twin ? ", " : "",
            of->twin ? bench_twin_name(of->twin) : "");
    for (int c = 0; c < COLUMNS; c++)
        if (is_shown(rows, of, &columns[c])) {
            fprintf(out, " %s |", columns[c].head);
            count += strchr(columns[c].head, '|') ? 2 : 1;
        }
    fputs("\n|", out);
    while (count--)
        fputs("---|", out);
    fputc('\n', out);
    for (int i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        if (is_same(row, of) && bench_rows_find(rows, row, row->twin) == row)
            print_row(out, rows, row);
    }
}

void bench_tables(FILE *out, const bench_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        bool first = true;
        for (int j = 0; j < i && first; j++)
            first = !is_same(&rows->row[i], &rows->row[j]);
        if (first)
            print_table(out, rows, &rows->row[i]);
    }
}
