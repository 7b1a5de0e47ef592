/* SPDX-License-Identifier: Apache-2.0
 *
 * Running products on a device, and timing them: with the device's clock where it has one, else
 * with the host's.
 */
#include "product.h"

#include <stdlib.h>
#include <string.h>

#define MAX_COPIES     64
#define MAX_COPY_BYTES ((uint64_t)1 << 30)
#define MAX_RUNS       100000
#define BATCH          16      /* runs that queue up */
#define HOLD_US        200.0   /* that the copy before them takes, by the nominal bandwidth */
#define LONG_US        20000.0 /* runs above this are timed one by one */

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

/* What rounds activations before each run, from memory of its own to the run's. */
static nib_status make_quantizer(tool_runner *r, const tool_product *p)
{
    const nib_act_quantizer_desc desc = {.size = sizeof(desc),
                                         .from = p->act_from,
                                         .to = p->desc.act_type,
                                         .scale = p->desc.act_scale};
    if (!p->act_from)
        return NIB_OK;
    r->quantize = (nib_act_quantize_args){.size = sizeof(r->quantize),
                                          .k = p->desc.weight.k,
                                          .lda = p->desc.weight.k,
                                          .out = (void *)(uintptr_t)r->args.act,
                                          .ldo = r->args.lda,
                                          .scale = (float *)(uintptr_t)r->args.act_scale};
    nib_status status = upload(r->dev, p->wide, p->wide_bytes, &r->quantize.act);
    return status ? status : nib_act_quantizer_create(r->dev, &desc, &r->quantizer);
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
    status = upload_all(&r, product);
    if (!status)
        status = make_quantizer(&r, product);
    if (!status)
        status = nib_stream_synchronize(dev, NULL);
    r.upload_us = tool_now_us() - begun;
    if (status)
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
    void *arrays[] = {(void *)r->args.act,  (void *)r->args.act_scale,
                      (void *)r->args.bias, (void *)r->quantize.act,
                      r->args.out,          r->args.workspace};
    nib_act_quantizer_destroy(r->quantizer);
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        if (arrays[i])
            nib_memory_free(r->dev, arrays[i]);
    for (int i = 0; i < r->copies; i++)
        nib_weights_destroy(r->weights[i]);
    free(r->weights);
    nib_gemm_destroy(r->gemm);
    *r = (tool_runner){0};
}

/* Queues one run, of m rows as set. */
static nib_status start(tool_runner *r, int64_t turn)
{
    r->quantize.m = r->args.m;
    nib_status status =
        r->quantizer ? nib_quantize_activations(r->quantizer, &r->quantize) : NIB_OK;
    return status ? status : nib_gemm_run(r->gemm, r->weights[turn % r->copies], &r->args);
}

static nib_status run_once(tool_runner *r, int64_t m, int64_t turn)
{
    r->args.m = m;
    nib_status status = start(r, turn);
    return status ? status : nib_stream_synchronize(r->dev, NULL);
}

static nib_status first_result(tool_runner *r, int64_t m)
{
    double begun = tool_now_us();
    nib_status status = nib_gemm_prepare(r->gemm, m, m);
    double prepared = tool_now_us();
    if (!status)
        status = run_once(r, m, 0);
    double ran = tool_now_us();
    if (status || r->first_us > 0)
        return status;
    status = run_once(r, m, 0);
    r->prepare_us = prepared - begun;
    r->first_us = ran - prepared;
    r->second_us = tool_now_us() - ran;
    return status;
}

/* What activations became: the product that a check expects. */
static nib_status fetch_rounded(const tool_runner *r, tool_product *p)
{
    nib_status status =
        nib_memory_copy(r->dev, p->act, r->args.act, p->act_bytes, NIB_COPY_TO_HOST, NULL);
    if (!status)
        status = nib_memory_copy(r->dev, p->act_scale, r->args.act_scale, p->act_scale_bytes,
                                 NIB_COPY_TO_HOST, NULL);
    return status;
}

tool_exit tool_runner_run(tool_runner *r, tool_product *p, int64_t m, void *out)
{
    nib_status status = first_result(r, m);
    if (!status && r->quantizer && m)
        status = fetch_rounded(r, p);
    if (!status && out && m && p->out_bytes) {
        size_t bytes = p->out_bytes / (size_t)p->m * (size_t)m;
        status = nib_memory_copy(r->dev, out, r->args.out, bytes, NIB_COPY_TO_HOST, NULL);
        if (!status)
            status = nib_stream_synchronize(r->dev, NULL);
    }
    return status ? tool_fail(status) : TOOL_OK;
}

/* ---- timing ---- */

/* Times of runs, as they come. */
typedef struct samples {
    double *us;
    int64_t count;
    double end_us; /* when it is enough */
} samples;

/* At least five runs, whatever the clock says. */
static bool wanted(const samples *s)
{
    return s->count < MAX_RUNS && (s->count < 5 || tool_now_us() < s->end_us);
}

static nib_status time_on_host(tool_runner *r, int64_t m, samples *s)
{
    nib_status status = NIB_OK;
    while (!status && wanted(s)) {
        double begun = tool_now_us();
        status = run_once(r, m, s->count);
        s->us[s->count++] = tool_now_us() - begun;
    }
    return status;
}

/* Events of a batch, and memory to copy while it queues up. */
typedef struct device_clock {
    nib_event *event[BATCH + 1];
    void *from, *to;
    size_t bytes; /* 0: nothing is copied */
} device_clock;

static void clock_close(nib_device *dev, device_clock *c)
{
    for (int i = 0; i <= BATCH; i++)
        nib_event_destroy(c->event[i]);
    nib_memory_free(dev, c->from);
    nib_memory_free(dev, c->to);
}

/* False: this device is timed by the host. */
static bool clock_open(nib_device *dev, device_clock *c)
{
    nib_device_info info = {.size = sizeof(info)};
    *c = (device_clock){0};
    /* The CPU's events are the host's clock, and its runs end before they return. */
    if (nib_device_get_info(dev, &info) || !strcmp(info.backend, "cpu"))
        return false;
    for (int i = 0; i <= BATCH; i++)
        if (nib_event_create(dev, &c->event[i])) {
            clock_close(dev, c);
            return false;
        }
    double bytes = HOLD_US * info.read_gb_per_s * 1e3 / 2; /* a copy reads and writes them */
    double most = (double)info.memory_bytes / 32;
    c->bytes = (size_t)(bytes < most ? bytes : most);
    if (c->bytes &&
        (nib_memory_alloc(dev, c->bytes, &c->from) || nib_memory_alloc(dev, c->bytes, &c->to)))
        c->bytes = 0;
    return true;
}

static nib_status time_batch(tool_runner *r, int64_t m, const device_clock *c, int count,
                             samples *s)
{
    nib_status status = NIB_OK;
    if (c->bytes && count > 1)
        status = nib_memory_copy(r->dev, c->to, c->from, c->bytes, NIB_COPY_ON_DEVICE, NULL);
    if (!status)
        status = nib_event_record(c->event[0], NULL);
    r->args.m = m;
    for (int i = 0; i < count && !status; i++) {
        status = start(r, s->count + i);
        if (!status)
            status = nib_event_record(c->event[i + 1], NULL);
    }
    for (int i = 0; i < count && !status && s->count < MAX_RUNS; i++)
        status = nib_event_elapsed(c->event[i], c->event[i + 1], &s->us[s->count++]);
    return status;
}

static nib_status time_runs(tool_runner *r, int64_t m, double seconds, samples *s, bool *device)
{
    device_clock c;
    double longest = 0;
    nib_status status = nib_gemm_prepare(r->gemm, m, m);
    for (int i = 0; i < 3 && !status; i++) {
        double begun = tool_now_us();
        status = run_once(r, m, i);
        longest = tool_now_us() - begun;
    }
    s->end_us = tool_now_us() + 1e6 * seconds;
    *device = m > 0 && !status && clock_open(r->dev, &c);
    if (!*device)
        return status ? status : time_on_host(r, m, s);
    while (!status && wanted(s))
        status = time_batch(r, m, &c, longest > LONG_US ? 1 : BATCH, s);
    clock_close(r->dev, &c);
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tool_exit tool_runner_time(tool_runner *r, int64_t m, double seconds, tool_timing *out)
{
    samples s = {.us = malloc(MAX_RUNS * sizeof(*s.us))};
    bool device;
    if (!s.us)
        return tool_error(TOOL_NO_MEMORY, "no memory for %d times", MAX_RUNS);
    nib_status status = time_runs(r, m, seconds, &s, &device);
    if (!status) {
        qsort(s.us, (size_t)s.count, sizeof(*s.us), by_value);
        *out = (tool_timing){.runs = s.count,
                             .device = device,
                             .min_us = s.us[0],
                             .median_us = s.us[s.count / 2],
                             .high_us = s.us[s.count * 9 / 10]};
    }
    free(s.us);
    return status ? tool_fail(status) : TOOL_OK;
}
