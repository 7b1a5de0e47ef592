/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables: aligned columns for people, CSV for spreadsheets, Markdown for the README. Also the
 * printing of quantities.
 */
#include "tool.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES 512

void tool_table_begin(tool_table *table, const char *const *heads, int columns)
{
    *table = (tool_table){.columns = columns};
    memcpy(table->heads, heads, (size_t)columns * sizeof(heads[0]));
}

void tool_table_add(tool_table *table, const char *format, ...)
{
    char text[CELL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = realloc(table->cells, capacity * sizeof(*cells));
        if (!cells) {
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    char *copy = strdup(text);
    if (copy)
        table->cells[table->count++] = copy;
    else
        table->failed = true;
}

static bool right(const tool_table *table, int column)
{
    return table->heads[column][0] == '>';
}

static const char *head(const tool_table *table, int column)
{
    return table->heads[column] + right(table, column);
}

/* Columns a UTF-8 text takes, one a character. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_padded(const char *text, int width, bool to_right, bool last)
{
    int pad = width - width_of(text);
    if (to_right)
        printf("%*s%s", pad, "", text);
    else if (last)
        fputs(text, stdout);
    else
        printf("%s%*s", text, pad, "");
}

static void print_aligned(const tool_table *table, bool markdown)
{
    int width[TOOL_MAX_COLUMNS];
    const char *gap = markdown ? " | " : "  ";
    for (int c = 0; c < table->columns; c++) {
        width[c] = width_of(head(table, c));
        for (size_t i = (size_t)c; i < table->count; i += (size_t)table->columns)
            if (width_of(table->cells[i]) > width[c])
                width[c] = width_of(table->cells[i]);
    }
    size_t rows = table->count / (size_t)table->columns;
    for (size_t r = 0; r <= rows; r++) {
        for (int c = 0; c < table->columns; c++) {
            const char *text =
                r ? table->cells[(r - 1) * (size_t)table->columns + (size_t)c] : head(table, c);
            fputs(c ? gap : markdown ? "| " : "", stdout);
            print_padded(text, width[c], right(table, c), c + 1 == table->columns && !markdown);
        }
        puts(markdown ? " |" : "");
        if (!r && markdown) {
            for (int c = 0; c < table->columns; c++)
                printf("|%s", right(table, c) ? " ---: " : " --- ");
            puts("|");
        }
    }
}

static void print_csv_cell(const char *text, bool last)
{
    bool quote = strpbrk(text, ",\"\n") != NULL;
    if (quote)
        putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    if (quote)
        putchar('"');
    putchar(last ? '\n' : ',');
}

void tool_table_free(tool_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (tool_table){0};
}

void tool_table_end(tool_table *table, tool_style style)
{
    if (table->failed) {
        fputs("nib: out of memory: the table below is not whole\n", stderr);
        for (size_t extra = table->count % (size_t)table->columns; extra; extra--)
            free(table->cells[--table->count]);
    }
    if (style == TOOL_CSV) {
        for (int c = 0; c < table->columns; c++)
            print_csv_cell(head(table, c), c + 1 == table->columns);
        for (size_t i = 0; i < table->count; i++)
            print_csv_cell(table->cells[i], (i + 1) % (size_t)table->columns == 0);
    } else {
        print_aligned(table, style == TOOL_MARKDOWN);
    }
    tool_table_free(table);
}

char *tool_format_bytes(char *out, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 32, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

char *tool_format_us(char *out, double us)
{
    if (us < 1e3)
        snprintf(out, 32, "%.1f us", us);
    else if (us < 1e6)
        snprintf(out, 32, "%.2f ms", us / 1e3);
    else
        snprintf(out, 32, "%.2f s", us / 1e6);
    return out;
}
