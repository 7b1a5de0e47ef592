/* SPDX-License-Identifier: Apache-2.0
 *
 * The null backend: one device that accepts every description, packs plainly and computes nothing.
 * Its device memory is declared foreign, so that core's copies to and from devices are exercised.
 * It converts layouts one code at a time, as backend.h words it; with NIB_NULL_CONVERT=0 it
 * declines, and core copies in host memory. It compiles ahead of time by copying text, for tests of
 * packs: two images a weight type, which run nothing.
 */
#include <nibblas/backend.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const nib_host_api *host;

static const nib_variant variant = {.size = sizeof(variant),
                                    .id = "null",
                                    .isa = "none",
                                    .source = "null.c",
                                    .m_min = 1,
                                    .m_tile = 1,
                                    .n_tile = 1,
                                    .k_tile = 1,
                                    .efficiency = 1,
                                    .math_type = NIB_F32,
                                    .batch_invariant = 1};

static int device;
static bool converts;

static nib_status device_count(uint32_t *count, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    *count = 1;
    return NIB_OK;
}

static nib_status device_open(uint32_t index, void **dev)
{
    (void)index;
    const char *asked = host->env("NIB_NULL_CONVERT");
    converts = !asked || strcmp(asked, "0");
    *dev = &device;
    return NIB_OK;
}

static void device_close(void *dev)
{
    (void)dev;
}

static nib_status device_info(void *dev, nib_device_info *info)
{
    (void)dev;
    strcpy(info->name, "nothing");
    strcpy(info->isa, "none");
    info->units = 1;
    info->read_gb_per_s = 1;
    info->f32_tflop_per_s = 1;
    return NIB_OK;
}

static nib_status layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    (void)dev, (void)desc;
    out->codes = out->scales = out->zeros = "plain";
    return NIB_OK;
}

static nib_status get_variant(void *dev, uint32_t index, const nib_variant **out)
{
    (void)dev;
    *out = index == 0 ? &variant : NULL;
    return NIB_OK;
}

static nib_status supports(void *dev, const nib_variant *v, const nib_gemm_desc *desc, char *why,
                           size_t why_bytes)
{
    (void)dev, (void)v, (void)desc, (void)why, (void)why_bytes;
    return NIB_OK;
}

static nib_status workspace(void *dev, const nib_variant *v, const nib_gemm_desc *desc, int64_t m,
                            uint64_t *bytes)
{
    (void)dev, (void)v, (void)desc, (void)m;
    *bytes = 0;
    return NIB_OK;
}

static nib_status kernel_get(void *dev, const nib_variant *v, const nib_gemm_desc *desc,
                             void **kernel)
{
    (void)dev, (void)v, (void)desc;
    *kernel = &device;
    return NIB_OK;
}

static void kernel_put(void *dev, void *kernel)
{
    (void)dev, (void)kernel;
}

static nib_status launch(void *dev, void *kernel, const nib_packed *weights,
                         const nib_gemm_args *args)
{
    (void)dev, (void)kernel, (void)weights, (void)args;
    return NIB_OK;
}

static nib_status memory_alloc(void *dev, uint64_t bytes, void **out)
{
    (void)dev;
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!memory)
        return host->fail(NIB_NO_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    *out = memory;
    return NIB_OK;
}

static void memory_free(void *dev, void *memory)
{
    (void)dev;
    free(memory);
}

static nib_status memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                              nib_copy_kind kind, void *stream)
{
    (void)dev, (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return NIB_OK;
}

static nib_status synchronize(void *dev, void *stream)
{
    (void)dev, (void)stream;
    return NIB_OK;
}

static nib_status isa(uint32_t index, const char **name)
{
    static const char *const names[] = {"null_1", "null_2"};
    *name = index < 2 ? names[index] : NULL;
    return NIB_OK;
}

static nib_status compile(void *user, const nib_image_request *request, nib_image_build *out)
{
    (void)user;
    size_t bytes = strlen(request->spec) + strlen(request->files[0].text) + 64;
    char *text = malloc(bytes);
    if (!text)
        return host->fail(NIB_NO_MEMORY, "no memory for %zu bytes", bytes);
    snprintf(text, bytes, "// for %s\n%s%s", request->isa, request->spec, request->files[0].text);
    out->image = text;
    out->bytes = strlen(text);
    out->log = strdup("copied\n");
    strcpy(out->compiler, "copy 1.0");
    return NIB_OK;
}

static nib_status images(const char *chip, const nib_gemm_desc *desc,
                         nib_status (*each)(void *user, const nib_image_request *request),
                         void *user)
{
    static const nib_image_file files[] = {{"null.cu", "#include \"common/nothing.cuh\"\n"},
                                           {"common/nothing.cuh", "/* nothing */\n"}};
    const char *type = host->type_name(desc->weight.type);
    if (desc->weight.type == NIB_LUT4)
        return host->fail(NIB_UNSUPPORTED, "the null backend has no kernel for lut4");
    nib_status status = NIB_OK;
    for (int tile = 1; tile <= 2 && !status; tile++) {
        char label[64], spec[128];
        snprintf(label, sizeof(label), "null-%s-m%d", type, tile);
        snprintf(spec, sizeof(spec), "#define NIB_WEIGHT_%s 1\n#define NIB_TILE_M %d\n", type,
                 tile);
        const nib_image_request request = {.size = sizeof(request),
                                           .file_count = 2,
                                           .backend = "null",
                                           .isa = chip,
                                           .format = "txt",
                                           .label = label,
                                           .spec = spec,
                                           .files = files,
                                           .flags = "-O2",
                                           .compile = compile};
        status = each(user, &request);
    }
    return status;
}

/* Events keep the host's time: every run is over before it returns. */
static nib_status event_create(void *dev, void **event)
{
    (void)dev;
    struct timespec *time = calloc(1, sizeof(*time));
    if (!time)
        return host->fail(NIB_NO_MEMORY, "no memory for an event");
    *event = time;
    return NIB_OK;
}

static void event_destroy(void *dev, void *event)
{
    (void)dev;
    free(event);
}

static nib_status event_record(void *dev, void *event, void *stream)
{
    (void)dev, (void)stream;
    clock_gettime(CLOCK_MONOTONIC, event);
    return NIB_OK;
}

static nib_status event_elapsed(void *dev, void *from, void *to, double *us)
{
    const struct timespec *a = from, *b = to;
    (void)dev;
    *us = (double)(b->tv_sec - a->tv_sec) * 1e6 + (double)(b->tv_nsec - a->tv_nsec) * 1e-3;
    return NIB_OK;
}

static nib_status predict(void *dev, const nib_variant *v, const nib_gemm_desc *desc, int64_t m,
                          double *us, const char **bound)
{
    (void)dev, (void)v, (void)desc, (void)m;
    *us = 1;
    *bound = "nothing";
    return NIB_OK;
}

/* Where an element stands in a plane. */
typedef struct spot {
    const nib_plane_map *plane;
    uint64_t tile; /* bytes from the plane's start */
    uint64_t bit;  /* of the tile */
} spot;

static spot find(const nib_plane_map *plane, int64_t n, int64_t k)
{
    uint32_t low_n = (uint32_t)(n & ((INT64_C(1) << plane->n_bits) - 1));
    uint32_t low_k = (uint32_t)(k & ((INT64_C(1) << plane->k_bits) - 1));
    uint32_t cell = 0;
    for (int32_t i = 0; i < plane->n_bits + plane->k_bits; i++)
        cell |= (uint32_t)__builtin_parity((low_n | low_k << 16) & plane->addr[i]) << i;
    return (spot){plane,
                  plane->offset + (uint64_t)(n >> plane->n_bits) * plane->stride_n +
                      (uint64_t)(k >> plane->k_bits) * plane->stride_k,
                  (uint64_t)cell * (uint64_t)plane->cell};
}

static unsigned char *byte_of(const nib_plane_map *plane, uint64_t tile, uint64_t byte)
{
    return (unsigned char *)plane->memory + tile +
           (plane->piece ? byte / 4 * plane->piece + byte % 4 : byte);
}

static uint32_t load_code(const nib_matrix_map *from, int64_t n, int64_t k)
{
    uint32_t code = 0;
    for (int32_t p = 0; p < from->planes; p++) {
        spot at = find(&from->plane[p], n, k);
        for (int32_t i = 0; i < at.plane->bits; i++, at.bit++)
            code |= (uint32_t)(*byte_of(at.plane, at.tile, at.bit >> 3) >> (at.bit & 7) & 1)
                    << (at.plane->shift + i);
    }
    return code;
}

static void store_code(const nib_matrix_map *to, int64_t n, int64_t k, uint32_t code)
{
    for (int32_t p = 0; p < to->planes; p++) {
        spot at = find(&to->plane[p], n, k);
        for (int32_t i = 0; i < at.plane->bits; i++, at.bit++)
            *byte_of(at.plane, at.tile, at.bit >> 3) |=
                (unsigned char)((code >> (at.plane->shift + i) & 1) << (at.bit & 7));
    }
}

static void clear(const nib_plane_map *plane)
{
    for (int64_t n = 0; n < plane->tiles_n; n++)
        for (int64_t k = 0; k < plane->tiles_k; k++) {
            uint64_t bytes = k == plane->tiles_k - 1 ? plane->last_bytes : plane->tile_bytes;
            uint64_t tile =
                plane->offset + (uint64_t)n * plane->stride_n + (uint64_t)k * plane->stride_k;
            for (uint64_t i = 0; i < bytes; i++)
                *byte_of(plane, tile, i) = 0;
        }
}

static nib_status convert(void *dev, const nib_convert_args *args)
{
    (void)dev;
    int32_t bits = 0;
    if (!converts)
        return host->fail(NIB_UNSUPPORTED, "NIB_NULL_CONVERT is 0");
    for (int32_t p = 0; p < args->to->planes; p++) {
        clear(&args->to->plane[p]);
        bits += args->to->plane[p].bits;
    }
    uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    for (int64_t n = 0; n < args->to->n; n++)
        for (int64_t k = 0; k < args->to->k; k++) {
            uint32_t code = load_code(args->from, args->n0 + n, args->k0 + k);
            store_code(args->to, n, k, ((code + args->add) & mask) ^ (args->flip & mask));
        }
    return NIB_OK;
}

static const nib_backend_api api = {
    .size = sizeof(api),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .name = "null",
    .preference = -1000,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_info = device_info,
    .layout = layout,
    .variant = get_variant,
    .supports = supports,
    .workspace = workspace,
    .kernel_get = kernel_get,
    .kernel_put = kernel_put,
    .launch = launch,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_copy = memory_copy,
    .synchronize = synchronize,
    .isa = isa,
    .images = images,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_elapsed = event_elapsed,
    .predict = predict,
    .convert = convert,
};

nib_status nib_backend_entry(const nib_host_api *given, const nib_backend_api **out)
{
    host = given;
    *out = &api;
    return NIB_OK;
}
