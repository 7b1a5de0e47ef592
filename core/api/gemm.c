/* SPDX-License-Identifier: Apache-2.0
 *
 * Products: from a description to kernels, and the run. A gemm is constant after creation but for
 * its table of kernels, where nib_gemm_prepare publishes each entry once.
 */
#include "api/internal.h"

#include "base/checked.h"
#include "base/struct.h"
#include "base/text.h"
#include "config/dtype.h"
#include "config/env.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static nib_status ask_layout(nib_device *dev, const nib_weight_desc *desc, nib_packing *out)
{
    nib_backend_layout texts = {.size = sizeof(texts)};
    nib_status status = dev->backend->api.layout(dev->handle, desc, &texts);
    return status ? status : nib_packing_make(desc, texts.codes, texts.scales, texts.zeros, out);
}

nib_status nib_gemm_create(nib_device *dev, const nib_gemm_desc *desc, nib_gemm **out)
{
    if (!dev || !out)
        return nib_fail(NIB_INVALID, "nib_gemm_create needs a device and a place for the gemm");
    nib_gemm_desc canonical;
    nib_status status = nib_gemm_desc_check(desc, &canonical);
    if (status)
        return status;
    nib_gemm *gemm = calloc(1, sizeof(*gemm));
    if (!gemm)
        return nib_fail(NIB_NO_MEMORY, "no memory for a gemm");
    gemm->dev = dev;
    gemm->desc = canonical;
    pthread_mutex_init(&gemm->prepare_lock, NULL);
    status = ask_layout(dev, &canonical.weight, &gemm->packing);
    if (!status)
        status = nib_plan_make(dev, &gemm->desc, &gemm->plan);
    const char *variant = nib_env("NIB_VARIANT");
    if (!status && variant && (status = nib_plan_force(&gemm->plan, variant)))
        status = nib_fail_within(status, "NIB_VARIANT on %s", dev->info.selector);
    if (status)
        goto fail;
    gemm->kernels = calloc((size_t)gemm->plan.count, sizeof(*gemm->kernels));
    if (!gemm->kernels) {
        status = nib_fail(NIB_NO_MEMORY, "no memory for %d kernels", gemm->plan.count);
        goto fail;
    }
    *out = gemm;
    return NIB_OK;

fail:
    nib_gemm_destroy(gemm);
    return status;
}

void nib_gemm_destroy(nib_gemm *gemm)
{
    if (!gemm)
        return;
    for (int32_t i = 0; gemm->kernels && i < gemm->plan.count; i++) {
        void *kernel = atomic_load(&gemm->kernels[i]);
        if (kernel)
            gemm->dev->backend->api.kernel_put(gemm->dev->handle, kernel);
    }
    free(gemm->kernels);
    nib_plan_release(&gemm->plan);
    pthread_mutex_destroy(&gemm->prepare_lock);
    free(gemm);
}

nib_status nib_gemm_supports(nib_device *dev, const nib_gemm_desc *desc)
{
    nib_gemm *gemm;
    nib_status status = nib_gemm_create(dev, desc, &gemm);
    if (!status)
        nib_gemm_destroy(gemm);
    return status;
}

nib_status nib_gemm_get_desc(const nib_gemm *gemm, nib_gemm_desc *desc)
{
    if (!gemm)
        return nib_fail(NIB_INVALID, "the gemm is NULL");
    return nib_struct_write(desc, &gemm->desc, sizeof(gemm->desc), sizeof(gemm->desc),
                            "nib_gemm_desc");
}

nib_status nib_gemm_workspace(nib_gemm *gemm, int64_t m_max, size_t *bytes)
{
    if (!gemm || !bytes)
        return nib_fail(NIB_INVALID, "nib_gemm_workspace needs a gemm and a place for the bytes");
    if (m_max < 0)
        return nib_fail(NIB_INVALID, "m_max is %" PRId64 ", expected at least 0", m_max);
    const nib_backend_api *api = &gemm->dev->backend->api;
    uint64_t most = 0;
    int32_t last = m_max ? nib_plan_bucket(m_max) : -1;
    for (int32_t bucket = 0; bucket <= last; bucket++) {
        int64_t m = bucket == last ? m_max : nib_plan_bucket_end(bucket);
        const nib_variant *variant = gemm->plan.candidates[gemm->plan.choice[bucket]].variant;
        uint64_t need = 0;
        nib_status status = api->workspace(gemm->dev->handle, variant, &gemm->desc, m, &need);
        if (status)
            return status;
        most = need > most ? need : most;
    }
    if (most > SIZE_MAX)
        return nib_fail(NIB_UNSUPPORTED, "a workspace of %" PRIu64 " bytes does not fit", most);
    *bytes = (size_t)most;
    return NIB_OK;
}

nib_status nib_gemm_prepare(nib_gemm *gemm, int64_t m_min, int64_t m_max)
{
    if (!gemm)
        return nib_fail(NIB_INVALID, "the gemm is NULL");
    if (m_min < 0 || m_max < m_min)
        return nib_fail(NIB_INVALID,
                        "m from %" PRId64 " to %" PRId64 ", expected 0 <= m_min <= m_max", m_min,
                        m_max);
    nib_status status = NIB_OK;
    pthread_mutex_lock(&gemm->prepare_lock);
    int32_t last = m_max ? nib_plan_bucket(m_max) : -1;
    for (int32_t bucket = nib_plan_bucket(m_min ? m_min : 1); bucket <= last && !status; bucket++) {
        int32_t index = gemm->plan.choice[bucket];
        if (atomic_load(&gemm->kernels[index]))
            continue;
        void *kernel = NULL;
        status = gemm->dev->backend->api.kernel_get(
            gemm->dev->handle, gemm->plan.candidates[index].variant, &gemm->desc, &kernel);
        if (!status)
            atomic_store(&gemm->kernels[index], kernel);
    }
    pthread_mutex_unlock(&gemm->prepare_lock);
    return status;
}

static nib_status check_args(const nib_gemm *gemm, const nib_weights *weights,
                             const nib_gemm_args *args)
{
    int64_t cols = nib_desc_out_cols(&gemm->desc);
    if (weights->packing.hash != gemm->packing.hash ||
        !nib_weight_desc_equal(&weights->desc, &gemm->desc.weight))
        return nib_fail(NIB_INVALID, "the weights were packed for another product: use "
                                     "nib_weights_pack or nib_weights_convert with this gemm");
    if (weights->dev->backend != gemm->dev->backend || weights->dev->index != gemm->dev->index)
        return nib_fail(NIB_INVALID,
                        "the weights are on %s, the gemm on %s: use nib_weights_convert",
                        weights->dev->info.selector, gemm->dev->info.selector);
    /* Weights of a product with float output fit too, but theirs may have an alpha. */
    if (gemm->desc.out_type == NIB_I32 && weights->packed.alpha != 1)
        return nib_fail(NIB_INVALID, "alpha is %g, but a product with i32 output needs 1",
                        weights->packed.alpha);
    if (args->m < 0)
        return nib_fail(NIB_INVALID, "m is %" PRId64 ", expected at least 0", args->m);
    if (args->m == 0)
        return NIB_OK;
    if (!args->act || !args->out)
        return nib_fail(NIB_INVALID, "%s is NULL", args->act ? "out" : "act");
    if (args->lda < gemm->desc.weight.k)
        return nib_fail(NIB_INVALID, "lda is %" PRId64 ", expected at least k = %" PRId64,
                        args->lda, gemm->desc.weight.k);
    if (args->ldo < cols)
        return nib_fail(NIB_INVALID, "ldo is %" PRId64 ", expected at least %" PRId64 " columns",
                        args->ldo, cols);
    int64_t elements;
    if (!nib_mul_extent(args->m, args->lda, &elements) || !nib_mul_extent(elements, 4, &elements) ||
        !nib_mul_extent(args->m, args->ldo, &elements) || !nib_mul_extent(elements, 4, &elements))
        return nib_fail(NIB_INVALID, "m = %" PRId64 " rows do not fit in 63 bits of bytes",
                        args->m);
    if (gemm->desc.act_scale && !args->act_scale)
        return nib_fail(NIB_INVALID, "act_scale is NULL but the product has activation scales");
    if (gemm->desc.bias_type && !args->bias)
        return nib_fail(NIB_INVALID, "bias is NULL but the product has a bias");
    return NIB_OK;
}

static nib_status check_workspace(const nib_gemm *gemm, const nib_variant *variant,
                                  const nib_gemm_args *args)
{
    uint64_t need = 0;
    nib_status status =
        gemm->dev->backend->api.workspace(gemm->dev->handle, variant, &gemm->desc, args->m, &need);
    if (status)
        return status;
    if (need && (!args->workspace || args->workspace_bytes < need))
        return nib_fail(NIB_INVALID,
                        "the workspace has %zu bytes, m = %" PRId64 " needs %" PRIu64
                        ": ask nib_gemm_workspace",
                        args->workspace ? args->workspace_bytes : 0, args->m, need);
    if (need && (uintptr_t)args->workspace % 64)
        return nib_fail(NIB_INVALID, "the workspace is not aligned to 64 bytes");
    return NIB_OK;
}

nib_status nib_gemm_run(nib_gemm *gemm, const nib_weights *weights, const nib_gemm_args *args)
{
    if (!gemm || !weights)
        return nib_fail(NIB_INVALID, "nib_gemm_run needs a gemm and weights");
    nib_gemm_args given;
    nib_status status =
        nib_struct_read(&given, sizeof(given), args, sizeof(given), "nib_gemm_args");
    if (!status)
        status = check_args(gemm, weights, &given);
    if (status || given.m == 0)
        return status;
    int32_t index = gemm->plan.choice[nib_plan_bucket(given.m)];
    void *kernel = atomic_load_explicit(&gemm->kernels[index], memory_order_acquire);
    if (!kernel)
        return nib_fail(NIB_INVALID,
                        "m = %" PRId64 " was not prepared: call nib_gemm_prepare first", given.m);
    status = check_workspace(gemm, gemm->plan.candidates[index].variant, &given);
    if (status)
        return status;
    return gemm->dev->backend->api.launch(gemm->dev->handle, kernel, &weights->packed, &given);
}

/* What the backend knows about the kernel that m runs, if it says and the kernel is prepared. */
static void explain_kernel(nib_gemm *gemm, int64_t m, nib_text *text)
{
    const nib_backend_api *api = &gemm->dev->backend->api;
    void *kernel = atomic_load(&gemm->kernels[gemm->plan.choice[nib_plan_bucket(m)]]);
    char facts[1024];
    if (api->explain && kernel &&
        api->explain(gemm->dev->handle, kernel, m, facts, sizeof(facts), NULL) == NIB_OK)
        nib_text_add(text, "kernel  %s\n", facts);
}

nib_status nib_gemm_explain(nib_gemm *gemm, int64_t m, char *out, size_t capacity, size_t *needed)
{
    if (!gemm)
        return nib_fail(NIB_INVALID, "the gemm is NULL");
    if (m < 1)
        return nib_fail(NIB_INVALID, "m is %" PRId64 ", expected at least 1", m);
    char line[NIB_DESC_LINE_BYTES];
    nib_gemm_desc_print(&gemm->desc, line, sizeof(line), NULL);
    nib_text text = nib_text_into(out, capacity);
    nib_text_add(&text, "product %s m=%" PRId64 "\n", line, m);
    nib_text_add(&text, "device  %s, %s, %s\n", gemm->dev->info.selector, gemm->dev->info.name,
                 gemm->dev->info.isa);
    nib_text_add(&text, "codes   %s\n", gemm->packing.codes_text);
    if (gemm->packing.scales_text[0])
        nib_text_add(&text, "scales  %s\n", gemm->packing.scales_text);
    if (gemm->packing.zeros_text[0])
        nib_text_add(&text, "zeros   %s\n", gemm->packing.zeros_text);
    nib_plan_explain(gemm->dev, &gemm->desc, &gemm->plan, m, &text);
    explain_kernel(gemm, m, &text);
    nib_text_end(&text, needed);
    return NIB_OK;
}

int32_t nib_gemm_variant_count(const nib_gemm *gemm)
{
    return gemm->plan.count;
}

const nib_candidate *nib_gemm_variant(const nib_gemm *gemm, int32_t index)
{
    return &gemm->plan.candidates[index];
}

nib_status nib_gemm_force_variant(nib_gemm *gemm, const char *id)
{
    return nib_plan_force(&gemm->plan, id);
}
