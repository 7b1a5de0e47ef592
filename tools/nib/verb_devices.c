/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib devices`: what the machine has, and which types each device multiplies.
 */
#include "product.h"

#include <stdlib.h>
#include <string.h>

static const nib_type weight_types[] = {NIB_U1,   NIB_U2,   NIB_U3,   NIB_U4,   NIB_U5,  NIB_U6,
                                        NIB_U7,   NIB_U8,   NIB_I1,   NIB_I2,   NIB_I3,  NIB_I4,
                                        NIB_I5,   NIB_I6,   NIB_I7,   NIB_I8,   NIB_NF4, NIB_E2M1,
                                        NIB_LUT4, NIB_E3M2, NIB_E2M3, NIB_E4M3, NIB_E5M2};
static const nib_type act_types[] = {NIB_F32, NIB_F16, NIB_BF16, NIB_E4M3, NIB_E5M2, NIB_I8};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define CELL_BYTES   64

/* The activation types with which a device multiplies a weight type: "f32 f16", or "-". */
static void support_cell(nib_device *dev, nib_type weight, char cell[CELL_BYTES])
{
    size_t used = 0;
    cell[0] = 0;
    for (int i = 0; i < COUNT(act_types); i++) {
        nib_gemm_desc desc = {
            .size = sizeof(desc),
            .weight = {.size = sizeof(desc.weight),
                       .n = 4096,
                       .k = 4096,
                       .group = 32,
                       .type = weight,
                       .scale_type = NIB_F16},
            .act_type = act_types[i],
        };
        if (nib_gemm_supports(dev, &desc) == NIB_OK)
            used += (size_t)snprintf(cell + used, CELL_BYTES - used, "%s%s", used ? " " : "",
                                     nib_type_name(act_types[i]));
    }
    if (!used)
        strcpy(cell, "-");
}

static tool_exit print_types(nib_context *ctx, uint32_t count, tool_style style, bool json)
{
    nib_device *devices[TOOL_MAX_COLUMNS - 1] = {NULL};
    nib_device_info infos[TOOL_MAX_COLUMNS - 1];
    const char *heads[TOOL_MAX_COLUMNS] = {"weights"};
    int columns = 1;
    tool_json out = {.out = stdout};
    tool_table table;
    for (uint32_t i = 0; i < count && columns < TOOL_MAX_COLUMNS; i++) {
        nib_device_info *info = &infos[columns - 1];
        info->size = sizeof(*info);
        if (nib_device_describe(ctx, i, info) ||
            nib_device_open(ctx, info->selector, &devices[columns - 1]))
            continue;
        heads[columns++] = info->selector;
    }
    if (json)
        tool_json_begin(&out, NULL, '[');
    else
        tool_table_begin(&table, heads, columns);
    for (int t = 0; t < COUNT(weight_types); t++) {
        const char *name = nib_type_name(weight_types[t]);
        if (json) {
            tool_json_begin(&out, NULL, '{');
            tool_json_text(&out, "weights", name);
        } else {
            tool_table_add(&table, "%s", name);
        }
        for (int d = 0; d + 1 < columns; d++) {
            char cell[CELL_BYTES];
            support_cell(devices[d], weight_types[t], cell);
            if (json)
                tool_json_text(&out, heads[d + 1], cell);
            else
                tool_table_add(&table, "%s", cell);
        }
        if (json)
            tool_json_end(&out, '}');
    }
    if (json)
        tool_json_end(&out, ']');
    else
        tool_table_end(&table, style);
    for (int d = 0; d + 1 < columns; d++)
        nib_device_close(devices[d]);
    return TOOL_OK;
}

static void print_json(const nib_device_info *infos, uint32_t count)
{
    tool_json out = {.out = stdout};
    tool_json_begin(&out, NULL, '[');
    for (uint32_t i = 0; i < count; i++) {
        tool_json_begin(&out, NULL, '{');
        tool_json_text(&out, "selector", infos[i].selector);
        tool_json_text(&out, "backend", infos[i].backend);
        tool_json_text(&out, "name", infos[i].name);
        tool_json_text(&out, "isa", infos[i].isa);
        tool_json_text(&out, "driver", infos[i].driver);
        tool_json_int(&out, "units", infos[i].units);
        tool_json_int(&out, "memory_bytes", (int64_t)infos[i].memory_bytes);
        tool_json_int(&out, "cache_bytes", (int64_t)infos[i].cache_bytes);
        tool_json_int(&out, "shared_bytes", (int64_t)infos[i].shared_bytes);
        tool_json_real(&out, "read_gb_per_s", infos[i].read_gb_per_s);
        tool_json_real(&out, "f32_tflop_per_s", infos[i].f32_tflop_per_s);
        tool_json_real(&out, "f16_tflop_per_s", infos[i].f16_tflop_per_s);
        tool_json_real(&out, "i8_top_per_s", infos[i].i8_top_per_s);
        tool_json_real(&out, "launch_us", infos[i].launch_us);
        tool_json_end(&out, '}');
    }
    tool_json_end(&out, ']');
}

static void print_table(const nib_device_info *infos, uint32_t count, tool_style style)
{
    static const char *const heads[] = {"device",  "name",   "isa",          ">units",
                                        ">memory", ">cache", ">nominal GB/s"};
    tool_table table;
    tool_table_begin(&table, heads, COUNT(heads));
    for (uint32_t i = 0; i < count; i++) {
        char memory[32], cache[32];
        tool_table_add(&table, "%s", infos[i].selector);
        tool_table_add(&table, "%s", infos[i].name);
        tool_table_add(&table, "%s", infos[i].isa);
        tool_table_add(&table, "%d", infos[i].units);
        tool_table_add(&table, "%s", tool_format_bytes(memory, (double)infos[i].memory_bytes));
        tool_table_add(&table, "%s", tool_format_bytes(cache, (double)infos[i].cache_bytes));
        tool_table_add(&table, "%.1f", infos[i].read_gb_per_s);
    }
    tool_table_end(&table, style);
}

static tool_exit list(nib_context *ctx, tool_style style, bool json, bool types)
{
    uint32_t count;
    nib_status status = nib_device_count(ctx, &count);
    if (status)
        return tool_fail(status);
    if (types)
        return print_types(ctx, count, style, json);
    nib_device_info *infos = calloc(count + 1, sizeof(*infos));
    if (!infos)
        return tool_error(TOOL_NO_MEMORY, "no memory for %u devices", count);
    for (uint32_t i = 0; i < count && !status; i++) {
        infos[i].size = sizeof(infos[i]);
        status = nib_device_describe(ctx, i, &infos[i]);
    }
    tool_exit code = status ? tool_fail(status) : TOOL_OK;
    if (!status && json)
        print_json(infos, count);
    else if (!status)
        print_table(infos, count, style);
    free(infos);
    return code;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    bool json = false, types = false, markdown = false, verbose = false;
    const tool_option options[] = {
        {"types", TOOL_FLAG, NULL, &types, "which activations each device takes per weight type"},
        {"json", TOOL_FLAG, NULL, &json, "print JSON"},
        {"markdown", TOOL_FLAG, NULL, &markdown, "print a Markdown table"},
        {"verbose", TOOL_FLAG, NULL, &verbose, "say why backends and plugins have no devices"},
        {0}};
    int operands;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if (operands)
        return tool_usage(verb, "'%s' is not needed", argv[0]);
    nib_context_options open = {.size = sizeof(open), .log = verbose ? tool_log : NULL};
    nib_context *ctx;
    nib_status status = nib_context_create(&open, &ctx);
    if (status)
        return tool_fail(status);
    code = list(ctx, markdown ? TOOL_MARKDOWN : TOOL_TABLE, json, types);
    nib_context_destroy(ctx);
    return code;
}

const tool_verb tool_verb_devices = {
    .name = "devices",
    .summary = "what this machine has, in the order 'auto' prefers",
    .usage = "[--types] [--json | --markdown] [--verbose]",
    .details = "The first column is what --device and NIB_DEVICE take. Read bandwidth and\n"
               "peaks are nominal: what the planner assumes of such a device, not measured here.\n"
               "'nib bench' measures the read bandwidth of host memory.\n",
    .examples = "  nib devices\n  nib devices --types --markdown\n",
    .run = run,
};
