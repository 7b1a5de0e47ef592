/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns and JSON of `nib bench --baseline`: see baseline.h.
 */
#include "baseline.h"

#include <inttypes.h>

/* Heads of a baseline's time, and of what it is to ours: the floor's share of our time, of the
 * others how many times ours they take. */
static const char *const heads[TOOL_BASELINES][2] = {
    {">floor", ">% of it"}, {">cuBLAS", ">x"}, {">fp8", ">x"}};
static const char *const csv_heads[TOOL_BASELINES][2] = {
    {">floor us", ">floor %"}, {">cuBLAS us", ">x cuBLAS"}, {">cuBLAS fp8 us", ">x cuBLAS fp8"}};

/* In JSON: prefixes of the members. */
static const char *const keys[TOOL_BASELINES] = {"floor", "cublas", "cublas_fp8"};

void tool_beside_begin(tool_table *table, const tool_baseline *b, bool product)
{
    const char *list[TOOL_MAX_COLUMNS] = {">m", ">us", product ? ">min us" : ">min",
                                          product ? ">max us" : ">max", ">GB/s"};
    int count = 5;
    for (int i = 0; i < TOOL_BASELINES; i++)
        for (int j = 0; j < 2 && b->wanted[i]; j++)
            list[count++] = product ? csv_heads[i][j] : heads[i][j];
    list[count++] = "check";
    if (product)
        list[count++] = "product";
    tool_table_begin(table, list, count);
}

static double ratio_of(const bench_stat *other, const bench_stat *ours, int index)
{
    return (index == TOOL_FLOOR ? 100 : 1) * other->us / ours->us;
}

/* Three digits of short times, whole microseconds of long ones. */
static void add_us(tool_table *table, double us)
{
    tool_table_add(table, us < 100 ? "%.2f" : us < 1000 ? "%.1f" : "%.0f", us);
}

void tool_beside_add(tool_table *table, const tool_baseline *b, const tool_beside_row *row)
{
    const bench_stat *ours = &row->beside->ours;
    tool_table_add(table, "%" PRId64, row->m);
    add_us(table, ours->us);
    add_us(table, ours->least);
    add_us(table, ours->most);
    tool_table_add(table, "%.0f", (double)row->packed_bytes / ours->us * 1e-3);
    for (int i = 0; i < TOOL_BASELINES; i++) {
        const bench_stat *other = &row->beside->other[i];
        if (!b->wanted[i])
            continue;
        if (other->us > 0) {
            add_us(table, other->us);
            tool_table_add(table, i == TOOL_FLOOR ? "%.0f" : "%.2f", ratio_of(other, ours, i));
        } else {
            tool_table_add(table, "-");
            tool_table_add(table, "-");
        }
    }
    tool_table_add(table, "%s", row->verdict);
    if (row->product)
        tool_table_add(table, "%s", row->product);
}

static void json_stat(tool_json *json, const char *prefix, const bench_stat *stat)
{
    char key[64];
    snprintf(key, sizeof(key), "%s%smedian_us", prefix, *prefix ? "_" : "");
    tool_json_real(json, key, stat->us);
    snprintf(key, sizeof(key), "%s%smin_us", prefix, *prefix ? "_" : "");
    tool_json_real(json, key, stat->least);
    snprintf(key, sizeof(key), "%s%smax_us", prefix, *prefix ? "_" : "");
    tool_json_real(json, key, stat->most);
}

void tool_beside_json(tool_json *json, const tool_baseline *b, const tool_beside *beside)
{
    char key[64];
    tool_json_text(json, "clock", "graph");
    json_stat(json, "", &beside->ours);
    for (int i = 0; i < TOOL_BASELINES; i++) {
        if (!b->wanted[i] || !(beside->other[i].us > 0))
            continue;
        json_stat(json, keys[i], &beside->other[i]);
        snprintf(key, sizeof(key), "%s_%s", keys[i], i == TOOL_FLOOR ? "percent" : "ratio");
        tool_json_real(json, key, ratio_of(&beside->other[i], &beside->ours, i));
    }
}
