/* SPDX-License-Identifier: Apache-2.0
 *
 * From a tensor of the file to packed weights. A quantised tensor goes from the mapping straight to
 * its packed form. A dense one is read, quantised and let go a few megabytes at a time.
 */
#include "linear.h"

#include "error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DENSE_GROUP 32
#define SLAB_ELEMS  ((int64_t)1 << 20) /* of a dense tensor, held as f32 at a time */

nib_status llama_tensor_find(const nib_file *file, const char *name, int64_t n, int64_t k,
                             int64_t *index, nib_tensor *tensor)
{
    *tensor = (nib_tensor){.size = sizeof *tensor};
    nib_status status = nib_file_find(file, name, index);
    if (status == NIB_MISSING)
        return llama_fail(NIB_CORRUPT, "the file lacks the tensor %s", name);
    if (status == NIB_OK)
        status = nib_file_tensor(file, *index, tensor);
    if (status != NIB_OK)
        return llama_fail_nib(status, "tensor %s", name);
    if (k == 0 && (tensor->rank != 1 || tensor->shape[0] != n))
        return llama_fail(NIB_CORRUPT, "tensor %s must be a vector of %" PRId64, name, n);
    if (k != 0 && (tensor->rank != 2 || tensor->shape[0] != n || tensor->shape[1] != k))
        return llama_fail(NIB_CORRUPT,
                          "tensor %s has rank %d and %" PRId64 " rows; it must be [%" PRId64
                          ", %" PRId64 "]",
                          name, tensor->rank, tensor->rank ? tensor->shape[0] : 0, n, k);
    return NIB_OK;
}

static nib_weight_desc dense_desc(int64_t n, int64_t k)
{
    return (nib_weight_desc){.size = sizeof(nib_weight_desc),
                             .n = n,
                             .k = k,
                             .group = k < DENSE_GROUP ? k : DENSE_GROUP,
                             .type = NIB_I8,
                             .scale_type = NIB_F16};
}

/* Quantises rows slab by slab; rows are independent, so the slabs' results lie side by side. */
static nib_status quantize_rows(const nib_file *file, int64_t index, int64_t n, int64_t k,
                                int64_t slab_rows, float *slab, nib_weight_source *source)
{
    size_t row_codes, row_scales;
    nib_weight_desc row = dense_desc(1, k);
    nib_status status = nib_weight_desc_bytes(&row, &row_codes, &row_scales, NULL, NULL);
    for (int64_t r = 0; status == NIB_OK && r < n; r += slab_rows) {
        int64_t rows = n - r < slab_rows ? n - r : slab_rows;
        status = nib_file_read_f32(file, index, r, r + rows, slab);
        if (status != NIB_OK)
            break;
        nib_quantize_options options = {.size = sizeof options, .weight = dense_desc(rows, k)};
        nib_quantize_result result = {.size = sizeof result,
                                      .codes = (char *)source->codes + (size_t)r * row_codes,
                                      .scales = (char *)source->scales + (size_t)r * row_scales};
        status = nib_quantize(&options, slab, k, &result);
    }
    return status;
}

static nib_status load_dense(llama_engine *engine, const nib_file *file, int64_t index,
                             int64_t m_max, llama_linear *linear)
{
    nib_weight_source source = {.size = sizeof source};
    nib_weight_desc desc = dense_desc(linear->n, linear->k);
    int64_t slab_rows = SLAB_ELEMS / linear->k + 1;
    if (slab_rows > linear->n)
        slab_rows = linear->n;
    void *codes = NULL, *scales = NULL;
    float *slab = malloc((size_t)(slab_rows * linear->k) * sizeof *slab);
    nib_status status =
        nib_weight_desc_bytes(&desc, &source.codes_bytes, &source.scales_bytes, NULL, NULL);
    if (status != NIB_OK) {
        status = llama_fail_nib(status, "dense weights");
        goto fail;
    }
    source.codes = codes = malloc(source.codes_bytes);
    source.scales = scales = malloc(source.scales_bytes);
    if (!slab || !codes || !scales) {
        status = llama_fail(NIB_NO_MEMORY, "no memory for %zu bytes of codes", source.codes_bytes);
        goto fail;
    }
    status = quantize_rows(file, index, linear->n, linear->k, slab_rows, slab, &source);
    if (status != NIB_OK) {
        status = llama_fail_nib(status, "quantising dense weights");
        goto fail;
    }
    status = llama_engine_gemm(engine, &desc, m_max, &linear->gemm);
    if (status == NIB_OK && (status = nib_weights_pack(linear->gemm, &source, &linear->weights)))
        status = llama_fail_nib(status, "packing dense weights");
    linear->rounded = true;
fail:
    free(slab);
    free(codes);
    free(scales);
    return status;
}

static nib_status load_quantized(llama_engine *engine, const nib_file *file, int64_t index,
                                 int64_t m_max, llama_linear *linear)
{
    nib_weight_desc desc = {.size = sizeof desc};
    nib_weight_source source = {.size = sizeof source};
    nib_status status = nib_file_source(file, index, &desc, &source);
    if (status != NIB_OK)
        return llama_fail_nib(status, "its blocks");
    status = llama_engine_gemm(engine, &desc, m_max, &linear->gemm);
    if (status == NIB_OK &&
        (status = nib_file_weights(file, index, linear->gemm, &linear->weights)))
        status = llama_fail_nib(status, "packing");
    return status;
}

nib_status llama_linear_load(llama_engine *engine, const nib_file *file, const char *name,
                             int64_t n, int64_t k, int64_t m_max, llama_linear *out)
{
    llama_linear linear = {.n = n, .k = k};
    nib_tensor tensor;
    int64_t index;
    nib_status status = llama_tensor_find(file, name, n, k, &index, &tensor);
    if (status != NIB_OK)
        return status;
    if (!tensor.quantized && tensor.type != NIB_F32 && tensor.type != NIB_F16 &&
        tensor.type != NIB_BF16)
        return llama_fail(NIB_UNSUPPORTED,
                          "tensor %s is of type %s; linear layers may be F32, F16, BF16, or blocks "
                          "with one scale per group such as Q4_0, Q4_1 and Q8_0",
                          name, tensor.type_name);
    status = tensor.quantized ? load_quantized(engine, file, index, m_max, &linear)
                              : load_dense(engine, file, index, m_max, &linear);
    nib_weights_info info = {.size = sizeof info};
    if (status == NIB_OK && (status = nib_weights_get_info(linear.weights, &info)))
        status = llama_fail_nib(status, "packed weights");
    if (status != NIB_OK) {
        char reason[400]; /* a copy: the message is rewritten */
        snprintf(reason, sizeof reason, "%s", llama_message());
        llama_linear_free(&linear);
        return llama_fail(status, "tensor %s (%s): %s", name, tensor.type_name, reason);
    }
    linear.packed_bytes = info.packed_bytes;
    *out = linear;
    return NIB_OK;
}

void llama_linear_free(llama_linear *linear)
{
    nib_weights_destroy(linear->weights);
    *linear = (llama_linear){0};
}
