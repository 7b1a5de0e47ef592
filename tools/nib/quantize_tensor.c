/* SPDX-License-Identifier: Apache-2.0
 *
 * One tensor of `nib quantize`. Rows are read and quantised in slabs, so that an interrupt is
 * noticed within a moment and the mapping's pages do not add up.
 */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLAB_WEIGHTS (1 << 22)

/* Arrays of one tensor. `w` is the mapping itself or `copy`. */
typedef struct arrays {
    const float *w;
    float *copy;
    size_t codes_bytes, scales_bytes, zeros_bytes;
    nib_quantize_result result;
    float table[16];
} arrays;

void tool_forget_pages(const void *data, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)data + bytes) / page * page;
    /* Read-only file pages come back from the file should they be touched again. */
    if (data && to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

tool_exit tool_quantize_desc(const quantize_how *how, int64_t n, int64_t k, nib_weight_desc *desc)
{
    char line[512], *end;
    bool bare_float = !strcmp(how->zero, "float") || !strcmp(how->zero, "rescale");
    const char *group = strtoll(how->group, &end, 10) > k && !*end ? "row" : how->group;
    int length = snprintf(line, sizeof(line), "n=%lld k=%lld w=%s g=%s s=%s z=%s%s%s", (long long)n,
                          (long long)k, how->type, group, how->scale, how->zero,
                          bare_float ? ":" : "", bare_float ? how->scale : "");
    if (length < 0 || (size_t)length >= sizeof(line))
        return tool_error(TOOL_USAGE, "the description of the weights is too long");
    nib_status status = nib_weight_desc_parse(line, desc);
    return status ? tool_fail(status) : TOOL_OK;
}

static void release(arrays *a)
{
    free(a->copy);
    free(a->result.codes);
    free(a->result.scales);
    free(a->result.zeros);
}

static bool take(void **out, size_t bytes)
{
    *out = bytes ? malloc(bytes) : NULL;
    return *out || !bytes;
}

static tool_exit allocate(const nib_weight_desc *desc, const nib_tensor *tensor, arrays *a)
{
    nib_status status =
        nib_weight_desc_bytes(desc, &a->codes_bytes, &a->scales_bytes, &a->zeros_bytes, NULL);
    if (status)
        return tool_fail(status);
    size_t weights = 0, bytes;
    a->result = (nib_quantize_result){.size = sizeof(a->result), .alpha = 1};
    if (desc->type == NIB_LUT4)
        a->result.table = a->table;
    if (tensor->type == NIB_F32 && tensor->data && (uintptr_t)tensor->data % sizeof(float) == 0)
        a->w = tensor->data;
    else if (__builtin_mul_overflow((size_t)desc->n, (size_t)desc->k, &weights) ||
             __builtin_mul_overflow(weights, sizeof(float), &bytes) ||
             !(a->w = a->copy = malloc(bytes)))
        return tool_error(TOOL_NO_MEMORY, "%s: no memory for %zu weights", tensor->name, weights);
    if (!take(&a->result.codes, a->codes_bytes) || !take(&a->result.scales, a->scales_bytes) ||
        !take(&a->result.zeros, a->zeros_bytes))
        return tool_error(TOOL_NO_MEMORY, "%s: no memory for its codes", tensor->name);
    return TOOL_OK;
}

static int64_t slab_rows(const nib_weight_desc *desc)
{
    int64_t rows = SLAB_WEIGHTS / desc->k;
    return rows < 1 ? 1 : rows;
}

static tool_exit read_rows(const nib_file *file, int64_t index, const nib_tensor *tensor,
                           const nib_weight_desc *desc, arrays *a)
{
    int64_t step = slab_rows(desc);
    uint64_t row_bytes = tensor->bytes / (uint64_t)desc->n;
    if (!a->copy)
        return TOOL_OK;
    for (int64_t r = 0; r < desc->n; r += step) {
        int64_t end = r + step < desc->n ? r + step : desc->n;
        nib_status status = nib_file_read_f32(file, index, r, end, a->copy + r * desc->k);
        if (status)
            return tool_fail(status);
        if (tensor->data)
            tool_forget_pages((const char *)tensor->data + (uint64_t)r * row_bytes,
                              (uint64_t)(end - r) * row_bytes);
        if (tool_interrupted())
            return TOOL_INTERRUPTED;
    }
    return TOOL_OK;
}

/* Rows stand alone unless something is fitted to the whole tensor: its one scale, its table, or the
 * second level over e4m3 scales. */
static bool rows_are_independent(const nib_weight_desc *desc)
{
    return desc->group != NIB_GROUP_TENSOR && desc->type != NIB_LUT4 &&
           desc->scale_type != NIB_E4M3;
}

static tool_exit quantize_rows(const quantize_how *how, const nib_weight_desc *desc, arrays *a,
                               quantize_progress *progress, const char *name)
{
    nib_quantize_options options = {.size = sizeof(options),
                                    .method = how->method,
                                    .weight = *desc,
                                    .percentile = how->percentile,
                                    .iterations = (int32_t)how->iterations,
                                    .threads = (int32_t)how->threads};
    size_t n = (size_t)desc->n;
    int64_t step = rows_are_independent(desc) ? slab_rows(desc) : desc->n;
    for (int64_t r = 0; r < desc->n; r += step) {
        int64_t rows = r + step < desc->n ? step : desc->n - r;
        nib_quantize_result part = a->result;
        part.codes = (char *)part.codes + a->codes_bytes / n * (size_t)r;
        if (part.scales)
            part.scales = (char *)part.scales + a->scales_bytes / n * (size_t)r;
        if (part.zeros)
            part.zeros = (char *)part.zeros + a->zeros_bytes / n * (size_t)r;
        options.weight.n = rows;
        nib_status status = nib_quantize(&options, a->w + r * desc->k, desc->k, &part);
        if (status)
            return tool_fail(status);
        a->result.alpha = part.alpha;
        progress->done += (double)(rows * desc->k);
        tool_progress_at(&progress->bar, progress->done, name);
        if (tool_interrupted())
            return TOOL_INTERRUPTED;
    }
    return TOOL_OK;
}

tool_exit tool_quantize_tensor(const nib_file *file, int64_t index, const nib_tensor *tensor,
                               const quantize_how *how, nib_writer *writer,
                               quantize_progress *progress, quantize_outcome *outcome)
{
    arrays a = {0};
    quantize_outcome done = {.report.size = sizeof(done.report)};
    tool_exit code = tool_quantize_desc(how, tensor->shape[0], tensor->shape[1], &done.desc);
    if (!code)
        code = allocate(&done.desc, tensor, &a);
    if (!code)
        code = read_rows(file, index, tensor, &done.desc, &a);
    if (!code)
        code = quantize_rows(how, &done.desc, &a, progress, tensor->name);
    if (code) {
        release(&a);
        return code == TOOL_INTERRUPTED ? code
                                        : tool_error(code, "tensor '%s' failed", tensor->name);
    }
    nib_status status = nib_quantize_measure(&done.desc, &a.result, a.w, done.desc.k, &done.report);
    nib_weight_source source = {.size = sizeof(source),
                                .codes = a.result.codes,
                                .scales = a.result.scales,
                                .zeros = a.result.zeros,
                                .table = a.result.table,
                                .alpha = a.result.alpha,
                                .codes_bytes = a.codes_bytes,
                                .scales_bytes = a.scales_bytes,
                                .zeros_bytes = a.zeros_bytes};
    if (!status)
        status = nib_writer_add_source(writer, tensor->name, &done.desc, &source);
    done.bytes = a.codes_bytes + a.scales_bytes + a.zeros_bytes;
    release(&a);
    tool_forget_pages(tensor->data, tensor->bytes);
    if (status)
        return tool_fail(status);
    *outcome = done;
    return TOOL_OK;
}

static bool storable(nib_type type)
{
    switch (type) {
    case NIB_F32:
    case NIB_F16:
    case NIB_BF16:
    case NIB_I32:
    case NIB_I8:
    case NIB_U8:
    case NIB_E4M3:
    case NIB_E5M2:
        return true;
    default:
        return false;
    }
}

tool_exit tool_copy_tensor(const nib_file *file, int64_t index, const nib_tensor *tensor,
                           nib_writer *writer, bool *converted)
{
    nib_status status;
    *converted = !storable(tensor->type) || !tensor->data;
    if (!*converted) {
        status = nib_writer_add_dense(writer, tensor->name, tensor->type, tensor->rank,
                                      tensor->shape, tensor->data);
        tool_forget_pages(tensor->data, tensor->bytes);
        return status ? tool_fail(status) : TOOL_OK;
    }
    size_t count = 1;
    int64_t columns = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(count, (size_t)tensor->shape[i], &count))
            return tool_error(TOOL_CORRUPT, "%s: its shape is too large", tensor->name);
    float *values = count > SIZE_MAX / sizeof(float) ? NULL : malloc((count + 1) * sizeof(float));
    if (!values)
        return tool_error(TOOL_NO_MEMORY, "%s: no memory for %zu values", tensor->name, count);
    int64_t rows = columns ? (int64_t)count / columns : 0;
    status = nib_file_read_f32(file, index, 0, rows, values);
    if (!status)
        status = nib_writer_add_dense(writer, tensor->name, NIB_F32, tensor->rank, tensor->shape,
                                      values);
    free(values);
    tool_forget_pages(tensor->data, tensor->bytes);
    return status ? tool_fail(status) : TOOL_OK;
}
