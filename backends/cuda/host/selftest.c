/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of kernels on chips that this version does not know. All weights of the problem are
 * equal, so that its result is known whatever the layout: every plane is one repeated byte.
 *
 *     out[m, n] = epilogue(w sum_k act[m, k]),  w = 1, or -1 where zeros are subtracted
 *
 * Activations are small integers: a product that is dropped or taken twice, or a row in another's
 * place, shows. One problem is ragged, one has whole tiles.
 */
#include "host/host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_M = 5, TABLE_SIZE = 16, ALIGN_BYTES = 256 };

static const float zero_value = 2;

/* Arrays of a run, in one allocation. */
enum {
    ACT,
    OUT,
    CODES,
    CODES_LAST = CODES + NIB_MAX_PLANES - 1,
    SCALES,
    ZEROS,
    TABLE,
    G_IDX,
    ACT_SCALE,
    WORKSPACE,
    ARRAYS
};

typedef struct problem {
    nib_gemm_desc desc;
    int64_t m, groups, columns; /* columns of out */
    float weight;               /* the value of every one */
    int32_t planes, plane_bits[NIB_MAX_PLANES];
    size_t at[ARRAYS], bytes[ARRAYS], total;
    unsigned char *host, *memory;
} problem;

/* Small integers whose sums over k stay small. */
static int act_value(int64_t m, int64_t k)
{
    return (int)((m * 5 + k * 7 + k / 3) % 5) - 2;
}

static uint16_t half_of(float value)
{
    /* Integers of magnitude below 8 alone: exact in 3 bits. */
    int exponent;
    float fraction = frexpf(fabsf(value), &exponent);
    uint16_t bits = (uint16_t)((exponent + 14) << 10 | ((int)(fraction * 2048) & 1023));
    return value == 0 ? 0 : (uint16_t)(bits | (value < 0 ? 0x8000 : 0));
}

static float float_of_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                 : ldexpf((float)fraction, -24);
    return bits & 0x8000 ? -value : value;
}

/* The code with a value; code 1 of types without a table, whose values come with the problem. */
static int code_of(nib_type type, float value)
{
    const float *table = nib_cuda_host->decode_table(type);
    for (int code = 0; table && code < 1 << nib_cuda_host->type_bits(type); code++)
        if (table[code] == value)
            return code;
    return 1;
}

static void store(void *array, int64_t index, nib_type type, float value)
{
    uint32_t bits;
    uint16_t half = half_of(value);
    unsigned char byte;
    memcpy(&bits, &value, sizeof(bits));
    switch (type) {
    case NIB_F32:
        memcpy((char *)array + 4 * index, &bits, 4);
        return;
    case NIB_BF16:
        half = (uint16_t)(bits >> 16);
        memcpy((char *)array + 2 * index, &half, 2);
        return;
    case NIB_F16:
        memcpy((char *)array + 2 * index, &half, 2);
        return;
    case NIB_I8:
        ((signed char *)array)[index] = (signed char)value;
        return;
    case NIB_E8M0:
        byte = 127; /* 1 is all that is stored */
        break;
    default:
        byte = (unsigned char)code_of(type, value);
    }
    ((unsigned char *)array)[index] = byte;
}

static float fetch(const void *array, int64_t index, nib_type type)
{
    uint16_t half;
    uint32_t word;
    int32_t integer;
    float value;
    switch (type) {
    case NIB_F32:
        memcpy(&value, (const char *)array + 4 * index, 4);
        return value;
    case NIB_I32:
        memcpy(&integer, (const char *)array + 4 * index, 4);
        return (float)integer;
    default:
        memcpy(&half, (const char *)array + 2 * index, 2);
        if (type == NIB_F16)
            return float_of_half(half);
        word = (uint32_t)half << 16;
        memcpy(&value, &word, sizeof(value));
        return value;
    }
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Planes of the layout: 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2, 7 = 4 + 2 + 1. */
static void split_planes(problem *p)
{
    int32_t bits = nib_cuda_host->type_bits(p->desc.weight.type);
    p->planes = 0;
    for (int32_t b = 8; b; b /= 2)
        if (bits & b)
            p->plane_bits[p->planes++] = b;
}

static size_t out_bytes(nib_type type)
{
    return (size_t)nib_cuda_host->type_bits(type) / 8;
}

static void place_arrays(problem *p, uint64_t workspace)
{
    const nib_weight_desc *w = &p->desc.weight;
    size_t blocks = (size_t)(ceil_div(w->n, 64) * ceil_div(w->k, 128));
    size_t scales = (size_t)(ceil_div(w->n, 64) * p->groups) * 64;
    size_t *bytes = p->bytes;
    bytes[ACT] = (size_t)(p->m * w->k) * out_bytes(p->desc.act_type);
    bytes[OUT] = (size_t)(p->m * p->columns) * out_bytes(p->desc.out_type);
    for (int32_t i = 0; i < p->planes; i++)
        bytes[CODES + i] = blocks * 64 * 128 / 8 * (size_t)p->plane_bits[i];
    bytes[SCALES] = w->scale_type ? scales * out_bytes(w->scale_type) : 0;
    bytes[ZEROS] = !w->zero ? 0 : w->zero_type ? scales * out_bytes(w->zero_type) : scales;
    bytes[TABLE] = w->type == NIB_LUT4 ? TABLE_SIZE * sizeof(float) : 0;
    bytes[G_IDX] = w->flags & NIB_WEIGHT_G_IDX ? (size_t)w->k * sizeof(int32_t) : 0;
    bytes[ACT_SCALE] = !p->desc.act_scale                      ? 0
                       : p->desc.act_scale == NIB_ACT_SCALE_MX ? (size_t)(p->m * ceil_div(w->k, 32))
                                                               : p->m * sizeof(float);
    bytes[WORKSPACE] = (size_t)workspace;
    p->total = 0;
    for (int i = 0; i < ARRAYS; i++) {
        p->at[i] = p->total;
        p->total += (bytes[i] + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
}

static void fill_values(const problem *p, int array, nib_type type, float value)
{
    int64_t count = (int64_t)(p->bytes[array] / out_bytes(type));
    for (int64_t i = 0; i < count; i++)
        store(p->host + p->at[array], i, type, value);
}

/* Writes every array; what no kernel may read, and the output, is NaN in every type. */
static void fill_arrays(problem *p)
{
    const nib_weight_desc *w = &p->desc.weight;
    int code = code_of(w->type, 1);
    memset(p->host, 0xff, p->total);
    for (int64_t m = 0; m < p->m; m++)
        for (int64_t k = 0; k < w->k; k++)
            store(p->host + p->at[ACT], m * w->k + k, p->desc.act_type, (float)act_value(m, k));
    for (int32_t i = 0, shift = 0; i < p->planes; shift += p->plane_bits[i++]) {
        int most = (1 << p->plane_bits[i]) - 1;
        memset(p->host + p->at[CODES + i], (code >> shift & most) * (255 / most),
               p->bytes[CODES + i]);
    }
    if (p->bytes[SCALES])
        fill_values(p, SCALES, w->scale_type, 1);
    p->weight = 1;
    if (p->bytes[ZEROS] && w->zero_type)
        fill_values(p, ZEROS, w->zero_type, zero_value);
    else if (p->bytes[ZEROS])
        memset(p->host + p->at[ZEROS], w->type == NIB_U1 ? 0 : (int)zero_value, p->bytes[ZEROS]);
    if (w->zero_type || (w->zero && w->type != NIB_U1))
        p->weight -= zero_value;
    if (p->bytes[TABLE])
        fill_values(p, TABLE, NIB_F32, 1);
    for (int64_t k = 0; p->bytes[G_IDX] && k < w->k; k++) {
        int32_t group = (int32_t)(k / w->group);
        memcpy(p->host + p->at[G_IDX] + 4 * k, &group, sizeof(group));
    }
    if (p->bytes[ACT_SCALE])
        fill_values(p, ACT_SCALE, p->desc.act_scale == NIB_ACT_SCALE_MX ? NIB_E8M0 : NIB_F32, 1);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double epilogue(nib_epilogue which, double x)
{
    switch (which) {
    case NIB_EPILOGUE_RELU:
        return fmax(x, 0);
    case NIB_EPILOGUE_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case NIB_EPILOGUE_SILU:
        return silu(x);
    case NIB_EPILOGUE_SILU_GATED:
        return silu(x) * x;
    default:
        return x;
    }
}

/* Products and sums are exact in every accumulator; what is left is the output's rounding. */
static nib_status compare(const problem *p, const char *name)
{
    for (int64_t m = 0; m < p->m; m++) {
        double sum = 0;
        for (int64_t k = 0; k < p->desc.weight.k; k++)
            sum += act_value(m, k);
        double want = epilogue(p->desc.epilogue, p->weight * sum);
        for (int64_t n = 0; n < p->columns; n++) {
            double got = fetch(p->host + p->at[OUT], m * p->columns + n, p->desc.out_type);
            if (!(fabs(got - want) <= 0.02 * fabs(want) + 0.02))
                return nib_cuda_host->fail(NIB_UNSUPPORTED,
                                           "%s fails its self-test on this unknown chip: "
                                           "out[%lld, %lld] of n=%lld k=%lld is %g, expected %g",
                                           name, (long long)m, (long long)n,
                                           (long long)p->desc.weight.n, (long long)p->desc.weight.k,
                                           got, want);
        }
    }
    return NIB_OK;
}

/* Up, one launch on the default stream, down. */
static nib_status run_problem(nib_cuda_device *device, const nib_cuda_kernel *kernel, problem *p)
{
    nib_cuda_kernel run = *kernel;
    unsigned char *base = p->memory;
    nib_packed packed = {
        .size = sizeof(packed), .planes = (uint32_t)p->planes, .desc = &p->desc.weight, .alpha = 1};
    nib_gemm_args args = {.size = sizeof(args),
                          .m = p->m,
                          .act = base + p->at[ACT],
                          .lda = p->desc.weight.k,
                          .out = base + p->at[OUT],
                          .ldo = p->columns,
                          .workspace = base + p->at[WORKSPACE],
                          .workspace_bytes = p->bytes[WORKSPACE]};
    run.desc = p->desc;
    for (int32_t i = 0; i < p->planes; i++) {
        packed.codes[i] = base + p->at[CODES + i];
        packed.codes_bytes[i] = p->bytes[CODES + i];
    }
    packed.scales = p->bytes[SCALES] ? base + p->at[SCALES] : NULL;
    packed.zeros = p->bytes[ZEROS] ? base + p->at[ZEROS] : NULL;
    packed.table = (const float *)(const void *)(p->bytes[TABLE] ? base + p->at[TABLE] : NULL);
    packed.g_idx = (const int32_t *)(const void *)(p->bytes[G_IDX] ? base + p->at[G_IDX] : NULL);
    args.act_scale = p->bytes[ACT_SCALE] ? base + p->at[ACT_SCALE] : NULL;
    nib_status status =
        nib_cuda_memory_copy(device, base, p->host, p->total, NIB_COPY_TO_DEVICE, NULL);
    if (!status)
        status = nib_cuda_launch(device, &run, &packed, &args);
    if (!status)
        status = nib_cuda_memory_copy(device, p->host, base, p->total, NIB_COPY_TO_HOST, NULL);
    if (!status)
        status = nib_cuda_synchronize(device, NULL);
    return status;
}

static nib_status test_problem(nib_cuda_device *device, const nib_cuda_kernel *kernel, problem *p)
{
    const nib_cuda_row *row = kernel->row;
    const nib_weight_desc *w = &p->desc.weight;
    nib_cuda_shape shape = {0};
    void *memory = NULL;
    /* No more rows than the kernel is made for. */
    p->m = row->variant.m_max && row->variant.m_max < MOST_M ? row->variant.m_max : MOST_M;
    p->groups = w->group > 0 ? ceil_div(w->k, w->group) : 1;
    p->columns = p->desc.epilogue == NIB_EPILOGUE_SILU_GATED ? w->n / 2 : w->n;
    split_planes(p);
    row->family->shape(row, &device->chip, &p->desc, p->m, &shape);
    place_arrays(p, shape.workspace_bytes);
    p->host = malloc(p->total);
    if (!p->host)
        return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a self-test");
    fill_arrays(p);
    nib_status status = nib_cuda_memory_alloc(device, p->total, &memory);
    p->memory = memory;
    if (!status)
        status = run_problem(device, kernel, p);
    if (!status)
        status = compare(p, row->variant.id);
    if (memory)
        nib_cuda_memory_free(device, memory);
    free(p->host);
    return status;
}

/* Whether the kernel's own code runs a description. */
static bool same_code(const nib_cuda_device *device, const nib_cuda_kernel *kernel,
                      const nib_gemm_desc *desc)
{
    const nib_cuda_row *row = kernel->row;
    char *spec = NULL;
    if (nib_cuda_row_refusal(row, &device->chip, desc) ||
        nib_cuda_spec_make(row, &device->chip, desc, &spec))
        return false;
    bool same = !strcmp(spec, kernel->module->spec);
    free(spec);
    return same;
}

nib_status nib_cuda_selftest(nib_cuda_device *device, const nib_cuda_kernel *kernel)
{
    const nib_weight_desc *own = &kernel->desc.weight;
    int64_t group = own->group > 0 ? own->group : 64;
    const int64_t extents[3][2] = {{134, 2 * group + 19}, {256, 8 * group}, {own->n, own->k}};
    int ran = 0;
    /* The kernel's own extents where its code takes none of ours. */
    for (int i = 0; i < 3 && (i < 2 || !ran); i++) {
        problem p = {.desc = kernel->desc};
        p.desc.bias_type = NIB_TYPE_NONE;
        p.desc.weight.n = extents[i][0];
        p.desc.weight.k = extents[i][1];
        if (!same_code(device, kernel, &p.desc))
            continue;
        nib_status status = test_problem(device, kernel, &p);
        if (status)
            return status;
        ran++;
    }
    nib_cuda_host->log(ran ? NIB_LOG_INFO : NIB_LOG_WARNING, "%s on an unknown chip: %s",
                       kernel->row->variant.id, ran ? "self-test passed" : "no self-test fits");
    return NIB_OK;
}
