/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib inspect`: what a .nib, GGUF, safetensors or npy file holds.
 */
#include "tool.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#define SHOWN_ITEMS 8  /* of an array */
#define SHOWN_BYTES 60 /* of a string */
#define SHAPE_BYTES 96

static void format_shape(char out[SHAPE_BYTES], const nib_tensor *tensor)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < tensor->rank && used < SHAPE_BYTES; i++)
        used += (size_t)snprintf(out + used, SHAPE_BYTES - used, "%s%" PRId64, i ? " x " : "",
                                 tensor->shape[i]);
    if (!tensor->rank)
        strcpy(out, "scalar");
}

/* Printable and short: control characters would act on the terminal. */
static void print_string(const char *text, int64_t bytes)
{
    int64_t shown = bytes < SHOWN_BYTES ? bytes : SHOWN_BYTES;
    putchar('"');
    for (int64_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            fputs("\\n", stdout);
        else
            putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
    printf("\"%s", shown < bytes ? " .." : "");
}

static void print_value(const nib_file *file, const nib_meta *value)
{
    switch (value->kind) {
    case NIB_META_INT:
        printf("%" PRId64, value->integer);
        break;
    case NIB_META_FLOAT:
        printf("%.9g", value->real);
        break;
    case NIB_META_BOOL:
        fputs(value->integer ? "true" : "false", stdout);
        break;
    case NIB_META_STRING:
        print_string(value->text, value->count);
        break;
    case NIB_META_ARRAY:
        printf("[%" PRId64 "]", value->count);
        for (int64_t i = 0; i < value->count && i < SHOWN_ITEMS; i++) {
            nib_meta item = {.size = sizeof(item)};
            if (nib_file_meta_item(file, value, i, &item))
                break;
            putchar(' ');
            print_value(file, &item);
        }
        if (value->count > SHOWN_ITEMS)
            fputs(" ..", stdout);
        break;
    }
}

static void json_value(tool_json *out, const nib_file *file, const char *key, const nib_meta *value)
{
    switch (value->kind) {
    case NIB_META_INT:
        tool_json_int(out, key, value->integer);
        break;
    case NIB_META_FLOAT:
        tool_json_real(out, key, value->real);
        break;
    case NIB_META_BOOL:
        tool_json_bool(out, key, value->integer != 0);
        break;
    case NIB_META_STRING:
        tool_json_text_n(out, key, value->text, (size_t)value->count);
        break;
    case NIB_META_ARRAY:
        tool_json_begin(out, key, '[');
        for (int64_t i = 0; i < value->count; i++) {
            nib_meta item = {.size = sizeof(item)};
            if (nib_file_meta_item(file, value, i, &item))
                break;
            json_value(out, file, NULL, &item);
        }
        tool_json_end(out, ']');
        break;
    }
}

static nib_status list_meta(const nib_file *file, tool_json *out)
{
    for (int64_t i = 0; i < nib_file_meta_count(file); i++) {
        const char *key;
        nib_meta value = {.size = sizeof(value)};
        nib_status status = nib_file_meta(file, i, &key, &value);
        if (status)
            return status;
        if (out) {
            json_value(out, file, key, &value);
        } else {
            printf("  %s = ", key);
            print_value(file, &value);
            putchar('\n');
        }
    }
    return NIB_OK;
}

static nib_status json_tensor(tool_json *out, const nib_file *file, int64_t index,
                              const nib_tensor *tensor)
{
    nib_weight_desc desc;
    nib_weight_source source = {.size = sizeof(source)};
    char line[512];
    tool_json_begin(out, NULL, '{');
    tool_json_text(out, "name", tensor->name);
    tool_json_text(out, "type", tensor->type_name);
    tool_json_begin(out, "shape", '[');
    for (int i = 0; i < tensor->rank; i++)
        tool_json_int(out, NULL, tensor->shape[i]);
    tool_json_end(out, ']');
    tool_json_int(out, "bytes", (int64_t)tensor->bytes);
    tool_json_int(out, "offset", (int64_t)tensor->offset);
    tool_json_bool(out, "quantized", tensor->quantized != 0);
    desc.size = sizeof(desc);
    if (tensor->quantized && !nib_file_source(file, index, &desc, &source) &&
        !nib_weight_desc_print(&desc, line, sizeof(line), NULL))
        tool_json_text(out, "weights", line);
    tool_json_end(out, '}');
    return NIB_OK;
}

static nib_status list_tensors(const nib_file *file, const char *glob, tool_json *out,
                               tool_table *table, int64_t *shown, double *bytes)
{
    for (int64_t i = 0; i < nib_file_tensor_count(file); i++) {
        nib_tensor tensor = {.size = sizeof(tensor)};
        nib_status status = nib_file_tensor(file, i, &tensor);
        if (status)
            return status;
        if (glob && fnmatch(glob, tensor.name, 0))
            continue;
        ++*shown;
        *bytes += (double)tensor.bytes;
        if (out) {
            if ((status = json_tensor(out, file, i, &tensor)))
                return status;
            continue;
        }
        char shape[SHAPE_BYTES], size[32];
        format_shape(shape, &tensor);
        tool_table_add(table, "%s", tensor.name);
        tool_table_add(table, "%s", shape);
        tool_table_add(table, "%s", tool_format_bytes(size, (double)tensor.bytes));
        tool_table_add(table, "%s", tensor.type_name);
    }
    return NIB_OK;
}

static nib_status show(const nib_file *file, const char *path, const char *glob, bool meta)
{
    static const char *const heads[] = {"tensor", ">shape", ">size", "type"};
    tool_table table;
    char size[32];
    int64_t shown = 0;
    double bytes = 0;
    tool_table_begin(&table, heads, 4);
    nib_status status = list_tensors(file, glob, NULL, &table, &shown, &bytes);
    printf("%s: %s, %" PRId64 " tensors, %" PRId64 " metadata values\n", path,
           nib_file_format(file), nib_file_tensor_count(file), nib_file_meta_count(file));
    if (meta && !status && nib_file_meta_count(file)) {
        puts("\nmetadata:");
        status = list_meta(file, NULL);
    }
    if (shown)
        putchar('\n');
    if (shown)
        tool_table_end(&table, TOOL_TABLE);
    printf("\n%" PRId64 " tensors shown, %s\n", shown, tool_format_bytes(size, bytes));
    return status;
}

static nib_status show_json(const nib_file *file, const char *path, const char *glob, bool meta)
{
    tool_json out = {.out = stdout};
    int64_t shown = 0;
    double bytes = 0;
    nib_status status = NIB_OK;
    tool_json_begin(&out, NULL, '{');
    tool_json_text(&out, "file", path);
    tool_json_text(&out, "format", nib_file_format(file));
    if (meta) {
        tool_json_begin(&out, "metadata", '{');
        status = list_meta(file, &out);
        tool_json_end(&out, '}');
    }
    tool_json_begin(&out, "tensors", '[');
    if (!status)
        status = list_tensors(file, glob, &out, NULL, &shown, &bytes);
    tool_json_end(&out, ']');
    tool_json_int(&out, "tensor_bytes", (int64_t)bytes);
    tool_json_end(&out, '}');
    return status;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    const char *glob = NULL;
    bool json = false, no_meta = false;
    const tool_option options[] = {
        {"tensors", TOOL_TEXT, "GLOB", &glob, "only tensors whose names match, '*.weight'"},
        {"no-metadata", TOOL_FLAG, NULL, &no_meta, "leave the metadata out"},
        {"json", TOOL_FLAG, NULL, &json, "print JSON, arrays and strings whole"},
        {0}};
    int operands;
    tool_exit code;
    nib_file *file;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if (operands != 1)
        return tool_usage(verb, "one file is needed");
    nib_status status = nib_file_open(argv[0], &file);
    if (status)
        return tool_fail(status);
    status = json ? show_json(file, argv[0], glob, !no_meta) : show(file, argv[0], glob, !no_meta);
    code = status ? tool_fail(status) : TOOL_OK;
    nib_file_close(file);
    return code;
}

const tool_verb tool_verb_inspect = {
    .name = "inspect",
    .summary = "what a .nib, GGUF, safetensors or npy file holds",
    .usage = "FILE [--tensors GLOB] [--no-metadata] [--json]",
    .details = "Shapes are outermost first: weights are [n, k].\n",
    .examples = "  nib inspect model.gguf\n"
                "  nib inspect model.nib --tensors '*attn*' --no-metadata --json\n",
    .run = run,
};
