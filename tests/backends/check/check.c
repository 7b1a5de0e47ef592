/* SPDX-License-Identifier: Apache-2.0
 *
 * The check backend: wraps another and asserts, on every call, what backend.h promises to a backend
 * and what a backend promises to core. A broken promise returns NIB_INTERNAL with "check:" in the
 * message; where no status can be returned it prints the same and aborts, which fails the test.
 *
 * Device memory gets a canary before and after. Kernels, memory and events are counted, and must
 * all be gone when their device closes.
 */
#include <inttypes.h>
#include <nibblas/backend.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const nib_host_api *host;
static const nib_backend_api *inner;

enum { DEVICE_MAGIC = 0x6e696244, KERNEL_MAGIC = 0x6e69624b, CANARY = 0xa5, CANARY_BYTES = 256 };

typedef struct device {
    uint32_t magic;
    void *inner;
    pthread_mutex_t lock;
    int kernels, memories, events;
} device;

typedef struct kernel {
    uint32_t magic;
    void *inner;
    device *dev;
    const nib_variant *variant;
    nib_gemm_desc desc;
} kernel;

/* Lies before each piece of memory handed out; CANARY_BYTES in all, with canaries after it. */
typedef struct memory_head {
    device *dev;
    uint64_t bytes;
} memory_head;

#define BROKEN(...) host->fail(NIB_INTERNAL, "check: " __VA_ARGS__)

#define EXPECT(condition)                                           \
    do {                                                            \
        if (!(condition))                                           \
            return BROKEN("%s: expected %s", __func__, #condition); \
    } while (0)

#define INSIST(condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "check: %s: expected %s\n", __func__, #condition); \
            abort();                                                           \
        }                                                                      \
    } while (0)

static void count(device *dev, int *counter, int by)
{
    pthread_mutex_lock(&dev->lock);
    *counter += by;
    pthread_mutex_unlock(&dev->lock);
}

static device *live(void *dev)
{
    device *d = dev;
    return d && d->magic == DEVICE_MAGIC ? d : NULL;
}

static nib_status device_count(uint32_t *out, char *why, size_t why_bytes)
{
    EXPECT(out && why && why_bytes);
    return inner->device_count(out, why, why_bytes);
}

static nib_status device_open(uint32_t index, void **out)
{
    EXPECT(out);
    device *d = calloc(1, sizeof(*d));
    EXPECT(d);
    nib_status status = inner->device_open(index, &d->inner);
    if (status) {
        free(d);
        return status;
    }
    d->magic = DEVICE_MAGIC;
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return NIB_OK;
}

static void device_close(void *dev)
{
    device *d = live(dev);
    INSIST(d);
    INSIST(d->kernels == 0);
    INSIST(d->memories == 0);
    INSIST(d->events == 0);
    inner->device_close(d->inner);
    d->magic = 0;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static nib_status device_info(void *dev, nib_device_info *info)
{
    device *d = live(dev);
    EXPECT(d && info && info->size == sizeof(*info));
    nib_status status = inner->device_info(d->inner, info);
    if (status)
        return status;
    EXPECT(info->units >= 1 && info->read_gb_per_s > 0 && info->f32_tflop_per_s > 0);
    EXPECT(info->name[0] && info->isa[0] && info->launch_us >= 0);
    return NIB_OK;
}

static nib_status check_weight_desc(const nib_weight_desc *d)
{
    EXPECT(d && d->size == sizeof(*d));
    EXPECT(d->n >= 1 && d->k >= 1 && d->group >= NIB_GROUP_ROW && d->group <= d->k);
    EXPECT(host->type_bits(d->type) >= 1 && host->type_bits(d->type) <= 8);
    EXPECT((d->zero == NIB_ZERO_FLOAT || d->zero == NIB_ZERO_RESCALE) == (d->zero_type != 0));
    EXPECT(d->scale_type || (d->group == NIB_GROUP_TENSOR && d->zero == NIB_ZERO_NONE));
    return NIB_OK;
}

static nib_status check_gemm_desc(const nib_gemm_desc *d)
{
    EXPECT(d && d->size == sizeof(*d));
    EXPECT(d->act_type && d->acc_type && d->out_type);
    return check_weight_desc(&d->weight);
}

static nib_status layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    device *d = live(dev);
    EXPECT(d && out && out->size == sizeof(*out));
    nib_status status = check_weight_desc(desc);
    if (!status)
        status = inner->layout(d->inner, desc, out);
    if (status)
        return status;
    EXPECT(out->codes);
    EXPECT(out->scales || !desc->scale_type);
    EXPECT(out->zeros || !desc->zero);
    return NIB_OK;
}

static nib_status check_variant(const nib_variant *v)
{
    EXPECT(v->size >= sizeof(*v));
    EXPECT(v->id && v->id[0] && v->isa && v->isa[0] && v->source && v->source[0]);
    EXPECT(v->m_min >= 1 && (v->m_max == 0 || v->m_max >= v->m_min));
    EXPECT(v->m_tile >= 1 && v->n_tile >= 1 && v->k_tile >= 1);
    EXPECT(v->efficiency > 0 && v->efficiency <= 1 && v->decode_per_ns >= 0);
    return NIB_OK;
}

static nib_status variant(void *dev, uint32_t index, const nib_variant **out)
{
    device *d = live(dev);
    EXPECT(d && out);
    nib_status status = inner->variant(d->inner, index, out);
    return status || !*out ? status : check_variant(*out);
}

static nib_status supports(void *dev, const nib_variant *v, const nib_gemm_desc *desc, char *why,
                           size_t why_bytes)
{
    device *d = live(dev);
    EXPECT(d && v && why && why_bytes);
    nib_status status = check_gemm_desc(desc);
    if (status)
        return status;
    status = inner->supports(d->inner, v, desc, why, why_bytes);
    EXPECT(status == NIB_OK || status == NIB_UNSUPPORTED);
    EXPECT(status == NIB_OK || (why[0] && memchr(why, 0, why_bytes)));
    return status;
}

static nib_status workspace(void *dev, const nib_variant *v, const nib_gemm_desc *desc, int64_t m,
                            uint64_t *bytes)
{
    device *d = live(dev);
    EXPECT(d && v && bytes && m >= 1);
    nib_status status = check_gemm_desc(desc);
    if (!status)
        status = inner->workspace(d->inner, v, desc, m, bytes);
    if (status || m == 1)
        return status;
    uint64_t less;
    status = inner->workspace(d->inner, v, desc, m - 1, &less);
    EXPECT(status || less <= *bytes);
    return status;
}

static nib_status kernel_get(void *dev, const nib_variant *v, const nib_gemm_desc *desc, void **out)
{
    device *d = live(dev);
    EXPECT(d && v && out);
    char why[256] = "";
    nib_status status = supports(dev, v, desc, why, sizeof(why));
    EXPECT(status == NIB_OK);
    kernel *k = calloc(1, sizeof(*k));
    EXPECT(k);
    status = inner->kernel_get(d->inner, v, desc, &k->inner);
    if (status) {
        free(k);
        return status;
    }
    k->magic = KERNEL_MAGIC;
    k->dev = d;
    k->variant = v;
    k->desc = *desc;
    count(d, &d->kernels, 1);
    *out = k;
    return NIB_OK;
}

static void kernel_put(void *dev, void *given)
{
    device *d = live(dev);
    kernel *k = given;
    INSIST(d && k && k->magic == KERNEL_MAGIC && k->dev == d);
    inner->kernel_put(d->inner, k->inner);
    k->magic = 0;
    free(k);
    count(d, &d->kernels, -1);
}

static nib_status check_packed(const nib_packed *p, const nib_gemm_desc *desc)
{
    EXPECT(p && p->size == sizeof(*p) && p->desc);
    EXPECT(!memcmp(p->desc, &desc->weight, sizeof(*p->desc)));
    EXPECT(p->planes >= 1 && p->planes <= NIB_MAX_PLANES);
    for (uint32_t i = 0; i < p->planes; i++)
        EXPECT(p->codes[i] && p->codes_bytes[i] && (uintptr_t)p->codes[i] % 64 == 0);
    EXPECT((p->scales != NULL) == (desc->weight.scale_type != 0));
    EXPECT((p->zeros != NULL) == (desc->weight.zero != NIB_ZERO_NONE));
    EXPECT((p->g_idx != NULL) == ((desc->weight.flags & NIB_WEIGHT_G_IDX) != 0));
    EXPECT((p->table != NULL) == (desc->weight.type == NIB_LUT4));
    EXPECT((uintptr_t)p->scales % 64 == 0 && (uintptr_t)p->zeros % 64 == 0);
    return NIB_OK;
}

static nib_status launch(void *dev, void *given, const nib_packed *weights,
                         const nib_gemm_args *args)
{
    device *d = live(dev);
    kernel *k = given;
    EXPECT(d && k && k->magic == KERNEL_MAGIC && k->dev == d);
    nib_status status = check_packed(weights, &k->desc);
    if (status)
        return status;
    int64_t cols = k->desc.weight.n / (k->desc.epilogue == NIB_EPILOGUE_SILU_GATED ? 2 : 1);
    EXPECT(args && args->size == sizeof(*args) && args->act && args->out);
    EXPECT(args->m >= k->variant->m_min && (!k->variant->m_max || args->m <= k->variant->m_max));
    EXPECT(args->lda >= k->desc.weight.k && args->ldo >= cols);
    EXPECT(args->act_scale || !k->desc.act_scale);
    EXPECT(args->bias || !k->desc.bias_type);
    uint64_t need;
    status = inner->workspace(d->inner, k->variant, &k->desc, args->m, &need);
    EXPECT(status == NIB_OK);
    EXPECT(need == 0 || (args->workspace && args->workspace_bytes >= need));
    EXPECT(need == 0 || (uintptr_t)args->workspace % 64 == 0);
    return inner->launch(d->inner, k->inner, weights, args);
}

static nib_status memory_alloc(void *dev, uint64_t bytes, void **out)
{
    device *d = live(dev);
    EXPECT(d && out);
    void *base;
    nib_status status = inner->memory_alloc(d->inner, bytes + 2 * CANARY_BYTES, &base);
    if (status)
        return status;
    EXPECT((uintptr_t)base % 64 == 0);
    unsigned char *memory = (unsigned char *)base + CANARY_BYTES;
    memset(base, CANARY, CANARY_BYTES);
    memset(memory + bytes, CANARY, CANARY_BYTES);
    *(memory_head *)base = (memory_head){d, bytes};
    count(d, &d->memories, 1);
    *out = memory;
    return NIB_OK;
}

static void memory_free(void *dev, void *given)
{
    device *d = live(dev);
    unsigned char *memory = given;
    INSIST(d && memory);
    memory_head *head = (memory_head *)(void *)(memory - CANARY_BYTES);
    INSIST(head->dev == d);
    for (size_t i = sizeof(*head); i < CANARY_BYTES; i++)
        INSIST(((unsigned char *)head)[i] == CANARY);
    for (size_t i = 0; i < CANARY_BYTES; i++)
        INSIST(memory[head->bytes + i] == CANARY);
    inner->memory_free(d->inner, head);
    count(d, &d->memories, -1);
}

static nib_status memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                              nib_copy_kind kind, void *stream)
{
    device *d = live(dev);
    EXPECT(d && to && from && bytes);
    EXPECT(kind >= NIB_COPY_TO_DEVICE && kind <= NIB_COPY_ON_DEVICE);
    return inner->memory_copy(d->inner, to, from, bytes, kind, stream);
}

static nib_status synchronize(void *dev, void *stream)
{
    device *d = live(dev);
    EXPECT(d);
    return inner->synchronize(d->inner, stream);
}

static nib_status event_create(void *dev, void **event)
{
    device *d = live(dev);
    EXPECT(d && event);
    if (!inner->event_create)
        return host->fail(NIB_UNSUPPORTED, "the wrapped backend has no events");
    nib_status status = inner->event_create(d->inner, event);
    if (!status)
        count(d, &d->events, 1);
    return status;
}

static void event_destroy(void *dev, void *event)
{
    device *d = live(dev);
    INSIST(d && event);
    inner->event_destroy(d->inner, event);
    count(d, &d->events, -1);
}

static nib_status event_record(void *dev, void *event, void *stream)
{
    device *d = live(dev);
    EXPECT(d && event);
    return inner->event_record(d->inner, event, stream);
}

static nib_status event_elapsed(void *dev, void *from, void *to, double *us)
{
    device *d = live(dev);
    EXPECT(d && from && to && us);
    nib_status status = inner->event_elapsed(d->inner, from, to, us);
    EXPECT(status || *us >= 0);
    return status;
}

static nib_status explain(void *dev, void *given, int64_t m, char *text, size_t capacity,
                          size_t *needed)
{
    device *d = live(dev);
    kernel *k = given;
    EXPECT(d && k && k->magic == KERNEL_MAGIC && m >= 1);
    if (!inner->explain)
        return host->fail(NIB_UNSUPPORTED, "the wrapped backend explains nothing");
    return inner->explain(d->inner, k->inner, m, text, capacity, needed);
}

static int32_t host_memory(void *dev)
{
    device *d = live(dev);
    return d && inner->host_memory ? inner->host_memory(d->inner) : 0;
}

static nib_status isa(uint32_t index, const char **name)
{
    EXPECT(name);
    if (!inner->isa)
        return host->fail(NIB_UNSUPPORTED, "the wrapped backend does not compile");
    nib_status status = inner->isa(index, name);
    EXPECT(status || !*name || (*name)[0]);
    return status;
}

/* Hands on the caller's `each` with what it needs. */
typedef struct image_caller {
    nib_status (*each)(void *user, const nib_image_request *request);
    void *user;
} image_caller;

static nib_status each_image(void *user, const nib_image_request *r)
{
    image_caller *caller = user;
    EXPECT(r && r->size >= sizeof(*r) && r->file_count && r->files);
    EXPECT(!strcmp(r->backend, inner->name) && r->isa && r->format && r->spec);
    EXPECT(!r->compiler_path || r->compile);
    nib_image_request request = *r;
    request.backend = "check";
    return caller->each(caller->user, &request);
}

static nib_status images(const char *chip, const nib_gemm_desc *desc,
                         nib_status (*each)(void *user, const nib_image_request *request),
                         void *user)
{
    EXPECT(chip && each);
    if (!inner->images)
        return host->fail(NIB_UNSUPPORTED, "the wrapped backend does not compile");
    image_caller caller = {each, user};
    nib_status status = check_gemm_desc(desc);
    return status ? status : inner->images(chip, desc, each_image, &caller);
}

static nib_status predict(void *dev, const nib_variant *v, const nib_gemm_desc *desc, int64_t m,
                          double *us, const char **bound)
{
    device *d = live(dev);
    EXPECT(d && v && m >= 1 && us && bound);
    nib_status bad = check_gemm_desc(desc);
    if (bad)
        return bad;
    if (!inner->predict)
        return host->fail(NIB_UNSUPPORTED, "the wrapped backend has no model");
    nib_status status = inner->predict(d->inner, v, desc, m, us, bound);
    EXPECT(status || (*us > 0 && *bound && (*bound)[0]));
    return status;
}

static nib_status act_quantizer_get(void *dev, const nib_act_quantizer_desc *desc, void **out)
{
    device *d = live(dev);
    EXPECT(d && desc && desc->size == sizeof(*desc) && out);
    EXPECT(desc->from == NIB_F32 || desc->from == NIB_F16 || desc->from == NIB_BF16);
    EXPECT(desc->to == NIB_I8 || desc->to == NIB_E4M3 || desc->to == NIB_E5M2);
    EXPECT(desc->scale == NIB_ACT_SCALE_ROW || desc->scale == NIB_ACT_SCALE_TENSOR);
    if (!inner->act_quantizer_get)
        return host->fail(NIB_UNSUPPORTED, "the wrapped backend has no quantizers");
    nib_status status = inner->act_quantizer_get(d->inner, desc, out);
    EXPECT(status || *out);
    if (!status)
        count(d, &d->kernels, 1);
    return status;
}

static void act_quantizer_put(void *dev, void *quantizer)
{
    device *d = live(dev);
    INSIST(d && quantizer);
    count(d, &d->kernels, -1);
    inner->act_quantizer_put(d->inner, quantizer);
}

static nib_status quantize_activations(void *dev, void *quantizer, const nib_act_quantize_args *a)
{
    device *d = live(dev);
    EXPECT(d && quantizer && a && a->size == sizeof(*a));
    EXPECT(a->m >= 1 && a->k >= 1 && a->lda >= a->k && a->ldo >= a->k);
    EXPECT(a->act && a->out && a->scale);
    return inner->quantize_activations(d->inner, quantizer, a);
}

static const nib_backend_api api = {
    .size = sizeof(api),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .name = "check",
    .preference = -1000,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_info = device_info,
    .layout = layout,
    .variant = variant,
    .supports = supports,
    .workspace = workspace,
    .kernel_get = kernel_get,
    .kernel_put = kernel_put,
    .launch = launch,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_copy = memory_copy,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_elapsed = event_elapsed,
    .explain = explain,
    .host_memory = host_memory,
    .isa = isa,
    .images = images,
    .predict = predict,
    .act_quantizer_get = act_quantizer_get,
    .act_quantizer_put = act_quantizer_put,
    .quantize_activations = quantize_activations,
};

nib_status nib_backend_entry(const nib_host_api *given, const nib_backend_api **out)
{
    host = given;
    const char *name = host->env("NIB_CHECK_BACKEND");
    nib_status status = host->backend(name ? name : "cpu", &inner);
    if (!status)
        *out = &api;
    return status;
}
