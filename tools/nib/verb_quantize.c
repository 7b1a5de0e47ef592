/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib quantize`: a file of float tensors in, a .nib file out, with what it cost. Which tensors are
 * quantised is decided here; quantize_tensor.c does one.
 */
#include "quantize.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct quantize_options {
    quantize_how how;
    const char *method;
    tool_list include, exclude;
    bool requantize, json;
} quantize_options;

typedef enum fate { QUANTIZE, KEEP_WEIGHTS, COPY } fate;

typedef struct quantize_state {
    const quantize_options *options;
    const nib_file *file;
    nib_writer *writer;
    quantize_progress progress;
    tool_table table;
    tool_json json; /* into json_text, so that a run that fails prints no half document */
    char *json_text;
    size_t json_bytes;
    int64_t quantized, kept, copied, converted;
    double before, after; /* bytes of all tensors */
} quantize_state;

static const char *const methods[] = {"rtn", "percentile", "hqq"};

static bool matches(const tool_list *globs, const char *name)
{
    for (int i = 0; i < globs->count; i++)
        if (!fnmatch(globs->items[i], name, 0))
            return true;
    return false;
}

static fate fate_of(const quantize_options *o, const nib_tensor *tensor)
{
    bool floating = tensor->type == NIB_F32 || tensor->type == NIB_F16 || tensor->type == NIB_BF16;
    bool wanted = (!o->include.count || matches(&o->include, tensor->name)) &&
                  !matches(&o->exclude, tensor->name);
    bool matrix = tensor->rank == 2 && tensor->shape[0] > 0 && tensor->shape[1] > 0;
    if (wanted && matrix && (floating || (tensor->quantized && o->requantize)))
        return QUANTIZE;
    return tensor->quantized ? KEEP_WEIGHTS : COPY;
}

/* Weights that are quantised already go over as they are, bit for bit. */
static tool_exit keep_weights(quantize_state *s, int64_t index, const nib_tensor *tensor)
{
    nib_weight_desc desc = {.size = sizeof(desc)};
    nib_weight_source source = {.size = sizeof(source)};
    nib_status status = nib_file_source(s->file, index, &desc, &source);
    if (!status)
        status = nib_writer_add_source(s->writer, tensor->name, &desc, &source);
    tool_forget_pages(tensor->data, tensor->bytes);
    return status ? tool_fail(status) : TOOL_OK;
}

static void report_json(tool_json *out, const nib_tensor *tensor, const quantize_outcome *done)
{
    static const char *const levels[] = {"0.5", "0.9", "0.99", "0.999"};
    const nib_quantize_report *r = &done->report;
    char line[512] = "";
    nib_weight_desc_print(&done->desc, line, sizeof(line), NULL);
    tool_json_begin(out, NULL, '{');
    tool_json_text(out, "name", tensor->name);
    tool_json_text(out, "weights", line);
    tool_json_int(out, "bytes_before", (int64_t)tensor->bytes);
    tool_json_int(out, "bytes", (int64_t)done->bytes);
    tool_json_real(out, "snr_db", r->snr_db);
    tool_json_real(out, "abs_mean", r->abs_mean);
    tool_json_real(out, "abs_max", r->abs_max);
    tool_json_begin(out, "abs_quantiles", '{');
    for (int i = 0; i < 4; i++)
        tool_json_real(out, levels[i], r->abs_quantile[i]);
    tool_json_end(out, '}');
    tool_json_real(out, "rel_mean", r->rel_mean);
    tool_json_real(out, "rel_max", r->rel_max);
    tool_json_begin(out, "rel_quantiles", '{');
    for (int i = 0; i < 4; i++)
        tool_json_real(out, levels[i], r->rel_quantile[i]);
    tool_json_end(out, '}');
    tool_json_real(out, "histogram_limit", r->histogram_limit);
    tool_json_begin(out, "histogram", '[');
    for (int i = 0; i < NIB_HISTOGRAM_BINS; i++)
        tool_json_int(out, NULL, r->histogram[i]);
    tool_json_end(out, ']');
    tool_json_end(out, '}');
}

static void report_row(tool_table *table, const nib_tensor *tensor, const quantize_outcome *done)
{
    const nib_quantize_report *r = &done->report;
    char size[32];
    tool_table_add(table, "%s", tensor->name);
    tool_table_add(table, "%" PRId64 " x %" PRId64, done->desc.n, done->desc.k);
    tool_table_add(table, "%.2f", r->snr_db);
    tool_table_add(table, "%.3g", r->abs_mean);
    tool_table_add(table, "%.3g", r->abs_quantile[2]);
    tool_table_add(table, "%.3g", r->abs_max);
    tool_table_add(table, "%.3g", r->rel_quantile[0]);
    tool_table_add(table, "%s", tool_format_bytes(size, (double)done->bytes));
}

static tool_exit one_tensor(quantize_state *s, int64_t index, const nib_tensor *tensor)
{
    quantize_outcome done;
    bool converted = false;
    tool_exit code;
    s->before += (double)tensor->bytes;
    switch (fate_of(s->options, tensor)) {
    case QUANTIZE:
        code = tool_quantize_tensor(s->file, index, tensor, &s->options->how, s->writer,
                                    &s->progress, &done);
        if (code)
            return code;
        if (s->options->json)
            report_json(&s->json, tensor, &done);
        else
            report_row(&s->table, tensor, &done);
        s->quantized++;
        s->after += (double)done.bytes;
        return TOOL_OK;
    case KEEP_WEIGHTS:
        s->kept++;
        s->after += (double)tensor->bytes;
        return keep_weights(s, index, tensor);
    default:
        code = tool_copy_tensor(s->file, index, tensor, s->writer, &converted);
        s->copied++;
        s->converted += converted;
        s->after += (double)tensor->bytes;
        return code;
    }
}

/* Weights that will be quantised, for the progress bar. */
static double count_work(const quantize_state *s)
{
    double work = 0;
    for (int64_t i = 0; i < nib_file_tensor_count(s->file); i++) {
        nib_tensor tensor = {.size = sizeof(tensor)};
        if (!nib_file_tensor(s->file, i, &tensor) && fate_of(s->options, &tensor) == QUANTIZE)
            work += (double)tensor.shape[0] * (double)tensor.shape[1];
    }
    return work;
}

/* Scalars and strings; arrays (vocabularies) stay with the source file. */
static nib_status copy_meta(const quantize_state *s)
{
    nib_status status = NIB_OK;
    for (int64_t i = 0; i < nib_file_meta_count(s->file) && !status; i++) {
        const char *key;
        char number[64];
        char *text = NULL;
        nib_meta value = {.size = sizeof(value)};
        if ((status = nib_file_meta(s->file, i, &key, &value)))
            break;
        if (value.kind == NIB_META_STRING)
            text = strndup(value.text, (size_t)value.count);
        else if (value.kind == NIB_META_FLOAT)
            snprintf(number, sizeof(number), "%.9g", value.real);
        else if (value.kind == NIB_META_BOOL)
            snprintf(number, sizeof(number), "%s", value.integer ? "true" : "false");
        else
            snprintf(number, sizeof(number), "%" PRId64, value.integer);
        if (value.kind != NIB_META_ARRAY)
            status = nib_writer_add_meta(s->writer, key, text ? text : number);
        free(text);
    }
    return status;
}

static tool_exit all_tensors(quantize_state *s)
{
    for (int64_t i = 0; i < nib_file_tensor_count(s->file); i++) {
        nib_tensor tensor = {.size = sizeof(tensor)};
        nib_status status = nib_file_tensor(s->file, i, &tensor);
        if (status)
            return tool_fail(status);
        tool_exit code = one_tensor(s, i, &tensor);
        if (code)
            return code;
        if (tool_interrupted())
            return TOOL_INTERRUPTED;
    }
    nib_status status = copy_meta(s);
    return status ? tool_fail(status) : TOOL_OK;
}

static tool_exit begin_output(quantize_state *s)
{
    static const char *const heads[] = {"tensor",     ">shape",   ">SNR dB",     ">mean err",
                                        ">99% below", ">max err", ">median rel", ">size"};
    tool_table_begin(&s->table, heads, 8);
    if (!s->options->json)
        return TOOL_OK;
    s->json.out = open_memstream(&s->json_text, &s->json_bytes);
    if (!s->json.out)
        return tool_error(TOOL_NO_MEMORY, "no memory for the report");
    tool_json_begin(&s->json, NULL, '{');
    tool_json_begin(&s->json, "tensors", '[');
    return TOOL_OK;
}

/* The summary, behind the tensors; false: the report did not fit in memory. */
static bool end_json(quantize_state *s, const char *out)
{
    tool_json_end(&s->json, ']');
    tool_json_text(&s->json, "file", out);
    tool_json_int(&s->json, "quantized", s->quantized);
    tool_json_int(&s->json, "kept", s->kept);
    tool_json_int(&s->json, "copied", s->copied);
    tool_json_real(&s->json, "bytes_before", s->before);
    tool_json_real(&s->json, "bytes", s->after);
    tool_json_end(&s->json, '}');
    return !fflush(s->json.out) && !ferror(s->json.out);
}

static void end_table(quantize_state *s, const char *out)
{
    char before[32], after[32];
    if (s->quantized)
        tool_table_end(&s->table, TOOL_TABLE);
    printf("%s%s: %" PRId64 " tensors quantised, %" PRId64 " kept as they were quantised, %" PRId64
           " copied dense",
           s->quantized ? "\n" : "", out, s->quantized, s->kept, s->copied);
    if (s->converted)
        printf(" (%" PRId64 " as f32)", s->converted);
    printf("; %s became %s\n", tool_format_bytes(before, s->before),
           tool_format_bytes(after, s->after));
}

static tool_exit quantize_file(const quantize_options *o, const nib_file *file, const char *out)
{
    quantize_state s = {.options = o, .file = file};
    nib_status status = nib_writer_create(out, &s.writer);
    if (status)
        return tool_fail(status);
    tool_interrupt_catch();
    tool_progress_begin(&s.progress.bar, "quantize", count_work(&s));
    tool_exit code = begin_output(&s);
    if (!code)
        code = all_tensors(&s);
    tool_progress_end(&s.progress.bar);
    if (!code && o->json && !end_json(&s, out))
        code = tool_error(TOOL_NO_MEMORY, "no memory for the report");
    if (code)
        nib_writer_discard(s.writer);
    else if ((status = nib_writer_finish(s.writer)))
        code = tool_fail(status);
    else if (o->json)
        fwrite(s.json_text, 1, s.json_bytes, stdout);
    else
        end_table(&s, out);
    if (code == TOOL_INTERRUPTED)
        fprintf(stderr, "nib: interrupted; %s was not written\n", out);
    if (s.json.out)
        fclose(s.json.out);
    free(s.json_text);
    tool_table_free(&s.table);
    return code;
}

static tool_exit find_method(const tool_verb *verb, quantize_options *o)
{
    for (int i = 0; i < 3; i++)
        if (!strcmp(o->method, methods[i])) {
            o->how.method = (nib_quantizer)i;
            return TOOL_OK;
        }
    const char *near = tool_nearest(o->method, methods, 3);
    return tool_usage(verb, "--method %s: expected rtn, percentile or hqq%s%s", o->method,
                      near ? "; perhaps " : "", near ? near : "");
}

enum { MOST_COUNT = 100000 }; /* of iterations or threads: more is a slip of the keyboard */

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    quantize_options o = {.how = {.type = "i4", .group = "128", .scale = "f16", .zero = "none"},
                          .method = "rtn"};
    const tool_option options[] = {
        {"type", TOOL_TEXT, "TYPE", &o.how.type, "u1..u8 i1..i8 nf4 e2m1 e4m3 lut4 .. (i4)"},
        {"group", TOOL_TEXT, "G", &o.how.group, "inputs a scale: a number, row or tensor (128)"},
        {"scale", TOOL_TEXT, "TYPE", &o.how.scale, "f16 bf16 f32 e8m0 e4m3 (f16)"},
        {"zero", TOOL_TEXT, "MODE", &o.how.zero, "none, code, float[:TYPE], rescale[:TYPE] (none)"},
        {"method", TOOL_TEXT, "NAME", &o.method, "rtn, percentile or hqq (rtn)"},
        {"percentile", TOOL_REAL, "P", &o.how.percentile, "of the percentile method (99.9)"},
        {"iterations", TOOL_INT, "N", &o.how.iterations, "of HQQ (20)"},
        {"threads", TOOL_INT, "N", &o.how.threads,
         "OMP_NUM_THREADS, else processors this process may use"},
        {"include", TOOL_LIST, "GLOB", &o.include, "only tensors whose names match; repeatable"},
        {"exclude", TOOL_LIST, "GLOB", &o.exclude, "not tensors whose names match; repeatable"},
        {"requantize", TOOL_FLAG, NULL, &o.requantize, "also tensors that are quantised already"},
        {"json", TOOL_FLAG, NULL, &o.json, "print the report as JSON, histograms included"},
        {0}};
    int operands;
    tool_exit code;
    nib_file *file;
    nib_weight_desc desc;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if (operands != 2)
        return tool_usage(verb, "a file to read and one to write are needed");
    if (o.how.iterations < 0 || o.how.iterations > MOST_COUNT || o.how.threads < 0 ||
        o.how.threads > MOST_COUNT)
        return tool_usage(verb, "--iterations and --threads: expected 0..%d", MOST_COUNT);
    if ((code = find_method(verb, &o)))
        return code;
    /* A wrong description shall fail before anything is read. */
    if ((code = tool_quantize_desc(&o.how, 4096, 4096, &desc)))
        return code;
    nib_status status = nib_file_open(argv[0], &file);
    if (status)
        return tool_fail(status);
    code = quantize_file(&o, file, argv[1]);
    nib_file_close(file);
    return code;
}

const tool_verb tool_verb_quantize = {
    .name = "quantize",
    .summary = "safetensors, GGUF or npy in, .nib out, with an error report",
    .usage = "IN OUT.nib [options]",
    .details = "2-D float tensors are quantised, tensors that are quantised already go over\n"
               "bit for bit, the rest is copied. Nothing stands at OUT before all is done.\n"
               "MXFP4 is --type e2m1 --scale e8m0 --group 32, NVFP4 is --type e2m1\n"
               "--scale e4m3 --group 16.\n",
    .examples = "  nib quantize model.safetensors model.nib --type u4 --group 64 \\\n"
                "      --zero float --method hqq --exclude '*embed*' --exclude lm_head.weight\n"
                "  nib quantize w.npy w.nib --type nf4 --group 64 --json\n",
    .run = run,
};
