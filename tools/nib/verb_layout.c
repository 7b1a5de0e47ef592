/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib layout`: layouts as data. Lists the rows, draws one, converts a raw matrix from one to
 * another or says what a conversion would move.
 */
#include "product.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct layout_options {
    int64_t bits, n, k;
    bool explain, json;
} layout_options;

typedef struct explain_call {
    const char *layout, *to;
    int32_t bits;
} explain_call;

static nib_status print_explain(void *user, char *text, size_t capacity, size_t *needed)
{
    explain_call *call = user;
    return nib_layout_explain(call->layout, call->to, call->bits, text, capacity, needed);
}

static nib_status print_layout(void *user, char *text, size_t capacity, size_t *needed)
{
    explain_call *call = user;
    return nib_layout_print(call->layout, call->bits, text, capacity, needed);
}

static tool_exit list(bool json)
{
    static const char *const heads[] = {"layout", "what it is"};
    const char *name, *summary;
    tool_json out = {.out = stdout};
    tool_table table;
    tool_table_begin(&table, heads, 2);
    if (json)
        tool_json_begin(&out, NULL, '[');
    for (uint32_t i = 0; nib_layout_row(i, &name, &summary) == NIB_OK; i++) {
        if (json) {
            tool_json_begin(&out, NULL, '{');
            tool_json_text(&out, "name", name);
            tool_json_text(&out, "summary", summary);
            tool_json_end(&out, '}');
        } else {
            tool_table_add(&table, "%s", name);
            tool_table_add(&table, "%s", summary);
        }
    }
    if (json)
        tool_json_end(&out, ']');
    else
        tool_table_end(&table, TOOL_TABLE);
    return TOOL_OK;
}

static tool_exit explain(const char *from, const char *to, const layout_options *o)
{
    explain_call call = {from, to, (int32_t)o->bits};
    nib_status status;
    char *concrete = tool_print(print_layout, &call, &status);
    char *text = concrete ? tool_print(print_explain, &call, &status) : NULL;
    if (!text) {
        free(concrete);
        return tool_fail(status);
    }
    if (o->json) {
        tool_json out = {.out = stdout};
        tool_json_begin(&out, NULL, '{');
        tool_json_text(&out, "layout", concrete);
        if (to)
            tool_json_text(&out, "to", to);
        tool_json_text(&out, "explanation", text);
        tool_json_end(&out, '}');
    } else {
        fputs(text, stdout);
    }
    free(text);
    free(concrete);
    return TOOL_OK;
}

/* Reads a file of exactly `bytes`. */
static tool_exit read_whole(const char *path, size_t bytes, void *out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return tool_error(TOOL_MISSING, "%s: cannot open it", path);
    size_t got = fread(out, 1, bytes, file);
    bool longer = fgetc(file) != EOF;
    fclose(file);
    if (got != bytes || longer)
        return tool_error(TOOL_CORRUPT,
                          "%s: it has %s than the %zu bytes that this layout and shape take", path,
                          longer ? "more" : "less", bytes);
    return TOOL_OK;
}

static tool_exit write_whole(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(data, 1, bytes, file) == bytes;
    if (file && fclose(file))
        written = false;
    if (written)
        return TOOL_OK;
    if (file)
        remove(path);
    return tool_error(TOOL_MISSING, "%s: cannot write it", path);
}

static tool_exit convert(const char *from, const char *to, const char *in, const char *out,
                         const layout_options *o)
{
    size_t from_bytes, to_bytes;
    int32_t bits = (int32_t)o->bits;
    nib_status status;
    if ((status = nib_layout_bytes(from, bits, o->n, o->k, &from_bytes)) ||
        (status = nib_layout_bytes(to, bits, o->n, o->k, &to_bytes)))
        return tool_fail(status);
    /* Layout loads are of words: both buffers get the alignment that device memory has. */
    void *source = aligned_alloc(64, (from_bytes + 63) / 64 * 64);
    void *target = aligned_alloc(64, (to_bytes + 63) / 64 * 64);
    tool_exit code = TOOL_OK;
    if (!source || !target)
        code = tool_error(TOOL_NO_MEMORY, "no memory for %zu bytes", from_bytes + to_bytes);
    if (!code)
        code = read_whole(in, from_bytes, source);
    if (!code && (status = nib_layout_convert(from, source, to, target, bits, o->n, o->k)))
        code = tool_fail(status);
    if (!code)
        code = write_whole(out, target, to_bytes);
    free(source);
    free(target);
    return code;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    layout_options o = {.bits = 4};
    const tool_option options[] = {
        {"bits", TOOL_INT, "B", &o.bits, "of an element, 1..32 (4)"},
        {"n", TOOL_INT, "N", &o.n, "rows of the matrix in the file"},
        {"k", TOOL_INT, "K", &o.k, "columns of the matrix in the file"},
        {"explain", TOOL_FLAG, NULL, &o.explain, "say what the conversion moves; no files"},
        {"json", TOOL_FLAG, NULL, &o.json, "print JSON"},
        {0}};
    static const char *const actions[] = {"list", "describe", "convert"};
    int count;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &count, &code))
        return code;
    if (o.bits < 0 || o.bits > 32)
        return tool_usage(verb, "--bits %" PRId64 ": expected 1..32", o.bits);
    if (!count || !strcmp(argv[0], "list"))
        return list(o.json);
    if (!strcmp(argv[0], "describe"))
        return count == 2 ? explain(argv[1], NULL, &o)
                          : tool_usage(verb, "describe which layout? one name or text");
    if (strcmp(argv[0], "convert")) {
        const char *near = tool_nearest(argv[0], actions, 3);
        return near ? tool_usage(verb, "'%s' is no action; did you mean '%s'?", argv[0], near)
                    : tool_usage(verb, "'%s' is no action", argv[0]);
    }
    if (o.explain)
        return count == 3 ? explain(argv[1], argv[2], &o)
                          : tool_usage(verb, "convert --explain takes two layouts");
    if (count != 5)
        return tool_usage(verb, "convert takes two layouts, a file to read and one to write");
    if (o.n < 1 || o.k < 1)
        return tool_usage(verb, "convert needs --n and --k, the shape of the matrix");
    return convert(argv[1], argv[2], argv[3], argv[4], &o);
}

const tool_verb tool_verb_layout = {
    .name = "layout",
    .summary = "packed-weight layouts: list, describe, convert",
    .usage = "[list | describe L | convert FROM TO [IN OUT]] [options]",
    .details = "A layout is a row's name or a layout text: docs/layouts.md has the grammar.\n"
               "'convert' reads and writes raw matrices of codes; with --explain it only says\n"
               "whether the bytes of one serve a kernel for the other as they are.\n",
    .examples = "  nib layout list\n"
                "  nib layout describe marlin\n"
                "  nib layout convert gptq marlin --explain\n"
                "  nib layout convert awq plain a.bin b.bin --n 4096 --k 4096\n",
    .run = run,
};
