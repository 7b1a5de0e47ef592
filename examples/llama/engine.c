/* SPDX-License-Identifier: Apache-2.0
 *
 * Products on a nibblas device. Norms and attention stay on the host: on a device with memory of
 * its own, activations and outputs are copied around every group of products that share their
 * activations. That is slow but simple, and nibblas is what this program shows.
 */
#include "engine.h"

#include "error.h"
#include "half.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double llama_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

nib_status llama_engine_open(llama_engine *engine, const llama_engine_options *options)
{
    nib_context_options context = {.size = sizeof context};
    engine->options = *options;
    nib_status status = nib_context_create(&context, &engine->ctx);
    if (status != NIB_OK)
        return llama_fail_nib(status, "nibblas does not start");
    status = nib_device_open(engine->ctx, options->device, &engine->dev);
    if (status != NIB_OK)
        return llama_fail_nib(status, "device '%s'", options->device ? options->device : "auto");
    engine->info.size = sizeof engine->info;
    status = nib_device_get_info(engine->dev, &engine->info);
    if (status != NIB_OK)
        return llama_fail_nib(status, "device '%s'", options->device ? options->device : "auto");
    engine->in_place = !strcmp(engine->info.backend, "cpu");
    /* A GPU's fast kernels take 16-bit activations. */
    if (engine->options.act_type == NIB_TYPE_NONE)
        engine->options.act_type = engine->in_place ? NIB_F32 : NIB_F16;
    return NIB_OK;
}

void llama_engine_close(llama_engine *engine)
{
    if (engine->dev) {
        nib_memory_free(engine->dev, engine->workspace);
        nib_memory_free(engine->dev, engine->act);
        nib_memory_free(engine->dev, engine->out);
    }
    for (int64_t i = 0; i < engine->product_count; i++)
        nib_gemm_destroy(engine->products[i].gemm);
    free(engine->products);
    free(engine->narrow);
    nib_device_close(engine->dev);
    nib_context_destroy(engine->ctx);
    *engine = (llama_engine){0};
}

static nib_status add_product(llama_engine *engine, const nib_weight_desc *weight)
{
    size_t bytes = ((size_t)engine->product_count + 1) * sizeof *engine->products;
    llama_product *products = realloc(engine->products, bytes);
    if (!products)
        return llama_fail(NIB_NO_MEMORY, "no memory for a product");
    engine->products = products;
    nib_gemm_desc desc = {.size = sizeof desc,
                          .flags = engine->options.act_dynamic_i8 ? NIB_GEMM_ACT_DYNAMIC_I8 : 0,
                          .weight = *weight,
                          .act_type = engine->options.act_type,
                          .acc_type = NIB_F32,
                          .out_type = NIB_F32};
    nib_gemm *gemm;
    nib_status status = nib_gemm_create(engine->dev, &desc, &gemm);
    if (status != NIB_OK)
        return llama_fail_nib(status, "device %s", engine->info.selector);
    products[engine->product_count++] = (llama_product){.weight = *weight, .gemm = gemm};
    return NIB_OK;
}

nib_status llama_engine_gemm(llama_engine *engine, const nib_weight_desc *weight, int64_t m_max,
                             nib_gemm **out)
{
    nib_weight_desc key = {.size = sizeof key};
    nib_status status = nib_weight_desc_check(weight, &key);
    if (status != NIB_OK)
        return llama_fail_nib(status, "weights");
    int64_t i = 0;
    while (i < engine->product_count && memcmp(&engine->products[i].weight, &key, sizeof key))
        i++;
    if (i == engine->product_count && (status = add_product(engine, &key)) != NIB_OK)
        return status;
    llama_product *product = &engine->products[i];
    if (product->m_max < m_max)
        product->m_max = m_max;
    if (engine->act_max < m_max * key.k)
        engine->act_max = m_max * key.k;
    if (engine->out_max < m_max * key.n)
        engine->out_max = m_max * key.n;
    *out = product->gemm;
    return NIB_OK;
}

static nib_status allocate(llama_engine *engine)
{
    size_t act_bytes = (size_t)engine->act_max * sizeof(float);
    size_t out_bytes = LLAMA_JOBS_MAX * (size_t)engine->out_max * sizeof(float);
    if (engine->options.act_type != NIB_F32 && !(engine->narrow = malloc(act_bytes / 2)))
        return llama_fail(NIB_NO_MEMORY, "no memory for %zu bytes of activations", act_bytes / 2);
    nib_status status = NIB_OK;
    if (engine->workspace_bytes)
        status = nib_memory_alloc(engine->dev, engine->workspace_bytes, &engine->workspace);
    if (status == NIB_OK && !engine->in_place)
        status = nib_memory_alloc(engine->dev, act_bytes, &engine->act);
    if (status == NIB_OK && !engine->in_place)
        status = nib_memory_alloc(engine->dev, out_bytes, &engine->out);
    return status == NIB_OK ? NIB_OK : llama_fail_nib(status, "buffers");
}

nib_status llama_engine_prepare(llama_engine *engine)
{
    for (int64_t i = 0; i < engine->product_count; i++) {
        llama_product *product = &engine->products[i];
        size_t bytes;
        nib_status status = nib_gemm_workspace(product->gemm, product->m_max, &bytes);
        if (status == NIB_OK)
            status = nib_gemm_prepare(product->gemm, 1, product->m_max);
        if (status != NIB_OK)
            return llama_fail_nib(status, "device %s", engine->info.selector);
        if (engine->workspace_bytes < bytes)
            engine->workspace_bytes = bytes;
    }
    return allocate(engine);
}

static void narrow(const llama_engine *engine, const float *act, int64_t count)
{
    uint16_t *to = engine->narrow;
    if (engine->options.act_type == NIB_F16)
        for (int64_t i = 0; i < count; i++)
            to[i] = llama_half_from_float(act[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = llama_bf16_from_float(act[i]);
}

/* A product from and to where the device reads and writes. */
static nib_status run_job(llama_engine *engine, const llama_job *job, const void *act, void *out,
                          int64_t k, int64_t m)
{
    nib_gemm_args args = {.size = sizeof args,
                          .m = m,
                          .act = act,
                          .lda = k,
                          .out = out,
                          .ldo = job->n,
                          .workspace = engine->workspace,
                          .workspace_bytes = engine->workspace_bytes};
    return nib_gemm_run(job->gemm, job->weights, &args);
}

/* All on the default stream, which keeps the order: only the results are waited for. */
static nib_status run_on_device(llama_engine *engine, const llama_job *jobs, int count,
                                const void *act, size_t act_bytes, int64_t k, int64_t m)
{
    nib_status status =
        nib_memory_copy(engine->dev, engine->act, act, act_bytes, NIB_COPY_TO_DEVICE, NULL);
    float *out = engine->out;
    for (int i = 0; i < count && status == NIB_OK; i++)
        status = run_job(engine, &jobs[i], engine->act, out + i * engine->out_max, k, m);
    for (int i = 0; i < count && status == NIB_OK; i++)
        status = nib_memory_copy(engine->dev, jobs[i].out, out + i * engine->out_max,
                                 (size_t)(m * jobs[i].n) * sizeof *out, NIB_COPY_TO_HOST, NULL);
    return status == NIB_OK ? nib_stream_synchronize(engine->dev, NULL) : status;
}

nib_status llama_engine_run_all(llama_engine *engine, const llama_job *jobs, int count, int64_t k,
                                const float *act, int64_t m)
{
    bool wide = engine->options.act_type == NIB_F32;
    if (!wide)
        narrow(engine, act, m * k);
    const void *host = wide ? (const void *)act : engine->narrow;
    size_t act_bytes = (size_t)(m * k) * (wide ? 4 : 2);
    nib_status status = NIB_OK;
    double start = llama_clock();
    if (!engine->in_place)
        status = run_on_device(engine, jobs, count, host, act_bytes, k, m);
    for (int i = 0; engine->in_place && i < count && status == NIB_OK; i++)
        status = run_job(engine, &jobs[i], host, jobs[i].out, k, m);
    engine->seconds += llama_clock() - start;
    engine->runs += count;
    return status == NIB_OK ? NIB_OK : llama_fail_nib(status, "a product failed");
}
