/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and their CSV: see row.h. The columns stand once, in the table below.
 */
#include "support/row.h"

#include <stdlib.h>
#include <string.h>

static const char *const twins[BENCH_TWINS] = {"aligned", "odd-n", "k-tail", "odd-k", "odd-a"};
static const char *const states[BENCH_STATES] = {"ok", "wrong", "failed", "lost"};

const char *bench_twin_name(bench_twin twin)
{
    return twins[twin];
}

bool bench_twin_parse(const char *name, bench_twin *twin)
{
    for (int i = 0; i < BENCH_TWINS; i++)
        if (!strcmp(name, twins[i])) {
            *twin = (bench_twin)i;
            return true;
        }
    return false;
}

void bench_twin_apply(bench_twin twin, nib_gemm_desc *desc)
{
    if (twin == BENCH_ODD_N)
        desc->weight.n -= 1;
    else if (twin == BENCH_K_TAIL)
        desc->weight.k -= 40;
    else if (twin == BENCH_ODD_K)
        desc->weight.k -= 41;
}

const char *bench_state_name(bench_state state)
{
    return states[state];
}

/* ---- CSV ---- */

typedef enum kind { INTEGER, REAL, US, TEXT, TWIN, STATE, FLAG, BYTES, CALLS } kind;

typedef struct column {
    const char *name;
    kind kind;
    size_t at, bytes;
} column;

#define AT(field) offsetof(bench_row, field)
#define TEXT_COLUMN(n, f)                           \
    {                                               \
        n, TEXT, AT(f), sizeof(((bench_row *)0)->f) \
    }
#define STAT_COLUMNS(n, f)                                        \
    {n "_us", US, AT(f.us), 0}, {n "_least", US, AT(f.least), 0}, \
    {                                                             \
        n "_most", US, AT(f.most), 0                              \
    }

/* clang-format off */
static const column columns[] = {
    {"n", INTEGER, AT(n), 0},
    {"k", INTEGER, AT(k), 0},
    TEXT_COLUMN("product", line),
    {"twin", TWIN, AT(twin), 0},
    {"m", INTEGER, AT(m), 0},
    {"state", STATE, AT(state), 0},
    TEXT_COLUMN("variant", variant),
    {"chosen", FLAG, AT(chosen), 0},
    {"error", REAL, AT(error), 0},
    {"worst", REAL, AT(worst), 0},
    {"error_after", REAL, AT(error_after), 0},
    {"bytes", BYTES, AT(bytes), 0},
    {"calls", CALLS, AT(ours.calls), 0},
    STAT_COLUMNS("ours", ours),
    {"planned_us", US, AT(planned), 0},
    STAT_COLUMNS("floor", floor),
    TEXT_COLUMN("floor_shape", floor_name),
    STAT_COLUMNS("cublas", cublas),
    STAT_COLUMNS("cublas_fp8", cublas_fp8),
    STAT_COLUMNS("dequant_cublas", dequant),
    {"marlin_us", US, AT(marlin), 0},
    {"humming_us", US, AT(humming), 0},
    {"best_us", US, AT(best), 0},
    TEXT_COLUMN("best_name", best_name),
};
/* clang-format on */
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

void bench_row_head(FILE *csv)
{
    for (int i = 0; i < COLUMNS; i++)
        fprintf(csv, "%s%s", i ? "," : "", columns[i].name);
    fputc('\n', csv);
}

static void write_text(FILE *csv, const char *text)
{
    bool quote = strchr(text, ',') != NULL;
    fprintf(csv, quote ? "\"%s\"" : "%s", text);
}

static void write_column(FILE *csv, const bench_row *row, const column *c)
{
    const void *at = (const char *)row + c->at;
    switch (c->kind) {
    case INTEGER:
    case CALLS:
        fprintf(csv, "%lld", (long long)*(const int64_t *)at);
        break;
    case BYTES:
        fprintf(csv, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case REAL:
        fprintf(csv, "%.3e", *(const double *)at);
        break;
    case US:
        if (*(const double *)at > 0)
            fprintf(csv, "%.3f", *(const double *)at);
        break;
    case TEXT:
        write_text(csv, at);
        break;
    case TWIN:
        fputs(twins[*(const bench_twin *)at], csv);
        break;
    case STATE:
        fputs(states[*(const bench_state *)at], csv);
        break;
    case FLAG:
        fprintf(csv, "%d", *(const int *)at);
        break;
    }
}

void bench_row_write(FILE *csv, const bench_row *row)
{
    for (int i = 0; i < COLUMNS; i++) {
        if (i)
            fputc(',', csv);
        write_column(csv, row, &columns[i]);
    }
    fputc('\n', csv);
}

/* Copies a field, without its quotes; answers where the next one begins, NULL past the last. */
static const char *take_field(const char *text, char *field, size_t bytes)
{
    bool quoted = *text == '"';
    const char *from = text + quoted, *to = from + strcspn(from, quoted ? "\"" : ",\r\n");
    snprintf(field, bytes, "%.*s", (int)(to - from), from);
    to += quoted && *to == '"';
    return *to == ',' ? to + 1 : NULL;
}

static bool parse_column(bench_row *row, const column *c, const char *field)
{
    void *at = (char *)row + c->at;
    char *end = NULL;
    switch (c->kind) {
    case INTEGER:
    case CALLS:
        *(int64_t *)at = strtoll(field, &end, 10);
        return end != field && !*end;
    case BYTES:
        *(uint64_t *)at = strtoull(field, &end, 10);
        return end != field && !*end;
    case REAL:
    case US:
        *(double *)at = strtod(field, &end);
        return !*end;
    case TEXT:
        return snprintf(at, c->bytes, "%s", field) < (int)c->bytes;
    case TWIN:
        return bench_twin_parse(field, at);
    case STATE:
        for (int i = 0; i < BENCH_STATES; i++)
            if (!strcmp(field, states[i])) {
                *(bench_state *)at = (bench_state)i;
                return true;
            }
        return false;
    case FLAG:
        *(int *)at = field[0] == '1';
        return field[0] && !field[1];
    }
    return false;
}

bool bench_row_parse(const char *text, bench_row *row)
{
    char field[256];
    *row = (bench_row){0};
    for (int i = 0; i < COLUMNS; i++) {
        if (!text)
            return false;
        text = take_field(text, field, sizeof(field));
        if (!parse_column(row, &columns[i], field))
            return false;
    }
    return true;
}

/* ---- lists ---- */

bool bench_rows_add(bench_rows *rows, const bench_row *row)
{
    if (rows->count == rows->capacity) {
        int capacity = rows->capacity ? 2 * rows->capacity : 64;
        bench_row *more = realloc(rows->row, (size_t)capacity * sizeof(*more));
        if (!more)
            return false;
        rows->row = more;
        rows->capacity = capacity;
    }
    rows->row[rows->count++] = *row;
    return true;
}

int bench_rows_read(bench_rows *rows, const char *path)
{
    char line[2048];
    FILE *file = fopen(path, "r");
    int count = 0, number = 0;
    if (!file) {
        fprintf(stderr, "bench: cannot read %s\n", path);
        return -1;
    }
    while (fgets(line, sizeof(line), file)) {
        bench_row row;
        if (!number++ || !strncmp(line, "n,k,", 4)) /* also the heads of files put together */
            continue;
        if (!bench_row_parse(line, &row) || !bench_rows_add(rows, &row)) {
            fprintf(stderr, "bench: %s:%d is no row of bench-cuda\n", path, number);
            count = -1;
            break;
        }
        count++;
    }
    fclose(file);
    return count;
}

const bench_row *bench_rows_find(const bench_rows *rows, const bench_row *like, bench_twin twin)
{
    for (int i = rows->count - 1; i >= 0; i--) {
        const bench_row *row = &rows->row[i];
        /* Without a variant: nothing could be chosen. */
        if ((row->chosen || !row->variant[0]) && row->n == like->n && row->k == like->k &&
            row->m == like->m && row->twin == twin && !strcmp(row->line, like->line))
            return row;
    }
    return NULL;
}

void bench_rows_free(bench_rows *rows)
{
    free(rows->row);
    *rows = (bench_rows){0};
}
