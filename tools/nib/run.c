/* SPDX-License-Identifier: Apache-2.0
 *
 * Running products on a device, and timing them with the host's clock.
 */
#include "product.h"

#include <stdlib.h>
#include <string.h>

#define MAX_COPIES     64
#define MAX_COPY_BYTES ((uint64_t)1 << 30)
#define MAX_RUNS       100000

void tool_log(void *user, nib_log_level level, const char *message)
{
    static const char *const names[] = {"debug", "info", "warning"};
    (void)user;
    fprintf(stderr, "nib: %s: %s\n", names[level], message);
}

tool_exit tool_device_with(const char *selector, bool verbose, tool_device_work work, void *user)
{
    nib_context_options options = {.size = sizeof(options), .log = verbose ? tool_log : NULL};
    nib_context *ctx;
    nib_device *dev;
    nib_status status = nib_context_create(&options, &ctx);
    if (status)
        return tool_fail(status);
    tool_exit code;
    if ((status = nib_device_open(ctx, selector, &dev))) {
        code = tool_fail(status);
    } else {
        code = work(user, dev);
        nib_device_close(dev);
    }
    nib_context_destroy(ctx);
    return code;
}

char *tool_print(tool_print_fn print, void *user, nib_status *status)
{
    size_t needed = 0;
    *status = print(user, NULL, 0, &needed);
    if (*status)
        return NULL;
    char *text = malloc(needed);
    if (!text) {
        *status = NIB_NO_MEMORY;
        return NULL;
    }
    *status = print(user, text, needed, &needed);
    if (*status) {
        free(text);
        return NULL;
    }
    return text;
}

/* Allocates on the device and copies; nothing for an empty array. */
static nib_status upload(nib_device *dev, const void *from, size_t bytes, const void **out)
{
    void *memory = NULL;
    if (!bytes)
        return NIB_OK;
    nib_status status = nib_memory_alloc(dev, bytes, &memory);
    *out = memory;
    if (status || !from)
        return status;
    return nib_memory_copy(dev, memory, from, bytes, NIB_COPY_TO_DEVICE, NULL);
}

/* The number of copies whose bytes exceed the cache twice. */
static int copies_for(nib_device *dev, uint64_t packed_bytes)
{
    nib_device_info info = {.size = sizeof(info)};
    if (nib_device_get_info(dev, &info) || !packed_bytes)
        return 1;
    uint64_t bytes = 2 * info.cache_bytes;
    if (bytes > MAX_COPY_BYTES)
        bytes = MAX_COPY_BYTES;
    uint64_t copies = (bytes + packed_bytes - 1) / packed_bytes;
    return copies < 1 ? 1 : copies > MAX_COPIES ? MAX_COPIES : (int)copies;
}

static nib_status pack(tool_runner *r, const tool_product *p, bool cold)
{
    nib_weights_info info = {.size = sizeof(info)};
    nib_weights *first;
    double begun = tool_now_us();
    nib_status status = nib_weights_pack(r->gemm, &p->source, &first);
    r->pack_us = tool_now_us() - begun;
    if (status)
        return status;
    status = nib_weights_get_info(first, &info);
    r->packed_bytes = info.packed_bytes;
    int copies = cold && !status ? copies_for(r->dev, info.packed_bytes) : 1;
    r->weights = calloc((size_t)copies, sizeof(*r->weights));
    if (!r->weights) {
        nib_weights_destroy(first);
        return NIB_NO_MEMORY;
    }
    r->weights[r->copies++] = first;
    while (!status && r->copies < copies) {
        status = nib_weights_pack(r->gemm, &p->source, &r->weights[r->copies]);
        r->copies += !status;
    }
    return status;
}

static nib_status upload_all(tool_runner *r, const tool_product *p)
{
    size_t workspace = 0;
    nib_gemm_args *args = &r->args;
    nib_status status;
    *args = (nib_gemm_args){.size = sizeof(*args), .lda = p->desc.weight.k, .ldo = p->out_cols};
    if ((status = upload(r->dev, p->act, p->act_bytes, &args->act)) ||
        (status = upload(r->dev, p->act_scale, p->act_scale_bytes, &args->act_scale)) ||
        (status = upload(r->dev, p->bias, p->bias_bytes, &args->bias)) ||
        (status = upload(r->dev, NULL, p->out_bytes, (const void **)&args->out)) ||
        (status = nib_gemm_workspace(r->gemm, p->m, &workspace)))
        return status;
    args->workspace_bytes = workspace;
    return upload(r->dev, NULL, workspace, (const void **)&args->workspace);
}

tool_exit tool_runner_create(nib_device *dev, const tool_product *product, bool cold,
                             tool_runner *out)
{
    tool_runner r = {.dev = dev};
    double begun = tool_now_us();
    nib_status status = nib_gemm_create(dev, &product->desc, &r.gemm);
    r.create_us = tool_now_us() - begun;
    if (status)
        goto fail;
    if ((status = pack(&r, product, cold)))
        goto fail;
    begun = tool_now_us();
    status = nib_gemm_prepare(r.gemm, 0, product->m);
    r.prepare_us = tool_now_us() - begun;
    if (status || (status = upload_all(&r, product)))
        goto fail;
    *out = r;
    return TOOL_OK;
fail:;
    tool_exit code = tool_fail(status);
    tool_runner_destroy(&r);
    return code;
}

void tool_runner_destroy(tool_runner *r)
{
    void *arrays[] = {(void *)r->args.act, (void *)r->args.act_scale, (void *)r->args.bias,
                      r->args.out, r->args.workspace};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        if (arrays[i])
            nib_memory_free(r->dev, arrays[i]);
    for (int i = 0; i < r->copies; i++)
        nib_weights_destroy(r->weights[i]);
    free(r->weights);
    nib_gemm_destroy(r->gemm);
    *r = (tool_runner){0};
}

static nib_status run_once(tool_runner *r, int64_t m, int64_t turn)
{
    r->args.m = m;
    nib_status status = nib_gemm_run(r->gemm, r->weights[turn % r->copies], &r->args);
    return status ? status : nib_stream_synchronize(r->dev, NULL);
}

tool_exit tool_runner_run(tool_runner *r, const tool_product *p, int64_t m, void *out)
{
    double begun = tool_now_us();
    nib_status status = run_once(r, m, 0);
    if (r->first_us == 0)
        r->first_us = tool_now_us() - begun;
    if (!status && out && m && p->out_bytes) {
        size_t bytes = p->out_bytes / (size_t)p->m * (size_t)m;
        status = nib_memory_copy(r->dev, out, r->args.out, bytes, NIB_COPY_TO_HOST, NULL);
        if (!status)
            status = nib_stream_synchronize(r->dev, NULL);
    }
    return status ? tool_fail(status) : TOOL_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tool_exit tool_runner_time(tool_runner *r, int64_t m, double seconds, tool_timing *out)
{
    double *times = malloc(MAX_RUNS * sizeof(*times));
    nib_status status = NIB_OK;
    int64_t runs = 0;
    if (!times)
        return tool_error(TOOL_NO_MEMORY, "no memory for %d times", MAX_RUNS);
    for (int i = 0; i < 3 && !status; i++)
        status = run_once(r, m, i);
    double end = tool_now_us() + 1e6 * seconds;
    /* At least five runs, whatever the clock says. */
    while (!status && runs < MAX_RUNS && (runs < 5 || tool_now_us() < end)) {
        double begun = tool_now_us();
        status = run_once(r, m, runs);
        times[runs++] = tool_now_us() - begun;
    }
    if (!status) {
        qsort(times, (size_t)runs, sizeof(*times), by_value);
        *out = (tool_timing){.runs = runs,
                             .min_us = times[0],
                             .median_us = times[runs / 2],
                             .high_us = times[runs * 9 / 10]};
    }
    free(times);
    return status ? tool_fail(status) : TOOL_OK;
}
