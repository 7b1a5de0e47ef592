/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a problem from its seed: see problem.h. Everything is written once as logical values;
 * the plain layout is packed here by hand, so that packing in core is judged by other code.
 */
#include "support/problem.h"

#include "base/checked.h"
#include "base/status.h"
#include "config/desc.h"
#include "config/dtype.h"
#include "support/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MX_BLOCK = 32 };

typedef struct maker {
    test_problem *p;
    const nib_gemm_desc *d;
    const nib_weight_desc *w;
    test_random random;
    double half;   /* about the largest code value */
    double middle; /* of the code values */
    double spread; /* what activations are like, act scales included */
} maker;

static double normal(test_random *random)
{
    double u = 1 - (test_random_unit(random) + 1) / 2; /* in (0, 1] */
    double v = (test_random_unit(random) + 1) / 2;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static uint32_t random_finite_code(maker *mk, nib_type type)
{
    for (;;) {
        uint32_t code = (uint32_t)test_random_below(&mk->random, (int64_t)1 << nib_type_bits(type));
        if (type == NIB_LUT4 || isfinite(nib_dtype_decode(type, code)))
            return code;
    }
}

static void describe_codes(maker *mk)
{
    nib_type type = mk->w->type;
    double low = 0, high = 0;
    for (uint32_t code = 0; code < 1u << nib_type_bits(type); code++) {
        double value = type == NIB_LUT4 ? mk->p->table[code] : nib_dtype_decode(type, code);
        if (isfinite(value)) {
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    mk->half = fmax(high, -low);
    mk->middle = (low + high) / 2;
}

static uint32_t one_code(maker *mk)
{
    return mk->w->type == NIB_LUT4 ? 5 : nib_dtype_encode(mk->w->type, 1);
}

static uint32_t extreme_code(maker *mk, nib_type type)
{
    uint32_t all = (1u << nib_type_bits(type)) - 1;
    bool high = test_random_below(&mk->random, 2);
    if (type == NIB_I8)
        return high ? 0x7f : 0x80;
    if (type == NIB_E4M3)
        return high ? 0x7e : 0xfe;
    if (type == NIB_E5M2)
        return high ? 0x7b : 0xfb;
    return high ? all : 0;
}

static void make_codes(maker *mk)
{
    const nib_weight_desc *w = mk->w;
    int32_t bits = nib_type_bits(w->type);
    int64_t row_bytes = nib_ceil_div(w->k * bits, 8);
    for (int64_t i = 0; i < w->n * w->k; i++) {
        uint32_t code;
        switch (mk->p->given.data) {
        case TEST_ONES:
            code = one_code(mk);
            break;
        case TEST_EXTREME:
            code = extreme_code(mk, w->type);
            break;
        case TEST_ALL_CODES:
            code = (uint32_t)i & ((1u << bits) - 1);
            break;
        default:
            code = random_finite_code(mk, w->type);
        }
        mk->p->codes[i] = (uint8_t)code;
        for (int32_t b = 0; b < bits; b++) {
            int64_t bit = i % w->k * bits + b;
            if (code >> b & 1)
                mk->p->packed_codes[i / w->k * row_bytes + bit / 8] |= (uint8_t)(1 << bit % 8);
        }
    }
}

/* A scale that brings outputs to about 1, and keeps narrow scale types among their normals. */
static double scale_base(maker *mk)
{
    double base = 1 / (mk->half * mk->spread * sqrt((double)mk->w->k));
    if (mk->w->scale_type == NIB_E4M3)
        base = fmax(base, 0.25);
    if (mk->w->scale_type == NIB_F16)
        base = fmax(base, 0x1p-12);
    if (mk->p->given.data == TEST_TINY)
        base *= 0x1p-17;
    if (mk->p->given.data == TEST_HUGE)
        base *= 0x1p16;
    return base;
}

static void make_scales(maker *mk)
{
    const nib_weight_desc *w = mk->w;
    int64_t count = nib_desc_scale_rows(w) * nib_desc_groups(w);
    double base = scale_base(mk);
    for (int64_t i = 0; i < count && w->scale_type; i++) {
        double s = base * exp2(test_random_unit(&mk->random));
        if (w->scale_type != NIB_E8M0 && test_random_below(&mk->random, 8) == 0)
            s = -s;
        if (mk->p->given.data == TEST_ONES)
            s = 1;
        nib_dtype_store(w->scale_type, mk->p->scales, i, s);
        if (mk->p->given.data == TEST_ALL_SCALES)
            ((uint8_t *)mk->p->scales)[i * nib_type_bits(w->scale_type) / 8] = (uint8_t)i;
    }
    if (w->scale_type && mk->p->given.data == TEST_NAN_SCALE)
        nib_dtype_store(w->scale_type, mk->p->scales, test_random_below(&mk->random, count), NAN);
    if (w->scale_type && mk->p->given.data == TEST_INF_SCALE)
        nib_dtype_store(w->scale_type, mk->p->scales, test_random_below(&mk->random, count),
                        INFINITY);
}

static void make_zeros(maker *mk)
{
    const nib_weight_desc *w = mk->w;
    int64_t count = nib_desc_scale_rows(w) * nib_desc_groups(w);
    for (int64_t i = 0; i < count && w->zero; i++) {
        double z = mk->middle + normal(&mk->random) * mk->half / 8;
        if (w->zero == NIB_ZERO_RESCALE)
            z *= nib_dtype_load(w->scale_type, mk->p->scales, i);
        if (mk->p->given.data == TEST_ONES)
            z = 0;
        if (w->zero != NIB_ZERO_CODE)
            nib_dtype_store(w->zero_type, mk->p->zeros, i, isfinite(z) ? z : 0);
        else
            ((uint8_t *)mk->p->zeros)[i] =
                mk->p->given.data == TEST_ONES ? 0 : (uint8_t)random_finite_code(mk, w->type);
    }
    if (w->zero && w->zero != NIB_ZERO_CODE && mk->p->given.data == TEST_NAN_ZERO)
        nib_dtype_store(w->zero_type, mk->p->zeros, test_random_below(&mk->random, count), NAN);
}

/* Columns in random order, so that groups interleave. */
static void make_g_idx(maker *mk)
{
    int64_t k = mk->w->k;
    int32_t *g = mk->p->g_idx;
    for (int64_t i = 0; g && i < k; i++)
        g[i] = (int32_t)(i / mk->w->group);
    for (int64_t i = k - 1; g && i > 0; i--) {
        int64_t j = test_random_below(&mk->random, i + 1);
        int32_t held = g[i];
        g[i] = g[j];
        g[j] = held;
    }
    if (g && mk->p->given.data == TEST_G_IDX_OUT)
        g[test_random_below(&mk->random, k)] = (int32_t)nib_desc_groups(mk->w);
}

static double act_value(maker *mk, int64_t m, int64_t k)
{
    switch (mk->p->given.data) {
    case TEST_ONES:
        return 1;
    case TEST_ONEHOT:
        return (m * 7 + (int64_t)mk->p->given.seed) % mk->w->k == k;
    case TEST_POSITIVE:
        return fabs(normal(&mk->random)) * (mk->d->act_type == NIB_I8 ? 50 : 1);
    case TEST_OUTLIER:
        return normal(&mk->random) * (k % 97 == 11 ? 50 : 0.5);
    default:
        return normal(&mk->random);
    }
}

static void make_act(maker *mk)
{
    nib_type type = mk->d->act_type;
    int64_t lda = mk->p->ref.lda, count = mk->p->given.m * lda;
    bool byte = nib_type_bits(type) == 8;
    test_data data = mk->p->given.data;
    for (int64_t i = 0; i < count; i++) {
        int64_t m = i / lda, k = i % lda;
        double value = act_value(mk, m, k);
        if (k >= mk->w->k) /* the gap between rows: a kernel that reads it shows */
            nib_dtype_store(type, mk->p->act, i, type == NIB_I8 ? 101 : NAN);
        else if (data == TEST_ALL_CODES && byte)
            ((uint8_t *)mk->p->act)[i] = (uint8_t)(m * mk->w->k + k);
        else if (data == TEST_EXTREME && byte)
            ((uint8_t *)mk->p->act)[i] = (uint8_t)extreme_code(mk, type);
        else if (type == NIB_I8 && (data == TEST_NORMAL || data >= TEST_TINY))
            ((uint8_t *)mk->p->act)[i] = (uint8_t)random_finite_code(mk, NIB_I8);
        else
            nib_dtype_store(type, mk->p->act, i, value);
    }
    if (count && type != NIB_I8 && (data == TEST_NAN_ACT || data == TEST_INF_ACT)) {
        int64_t m = test_random_below(&mk->random, mk->p->given.m);
        int64_t k = test_random_below(&mk->random, mk->w->k);
        nib_dtype_store(type, mk->p->act, m * lda + k, data == TEST_NAN_ACT ? NAN : INFINITY);
    }
}

static void make_act_scale(maker *mk)
{
    bool mx = mk->d->act_scale == NIB_ACT_SCALE_MX;
    int64_t count = (int64_t)mk->p->act_scale_bytes / (mx ? 1 : 4);
    for (int64_t i = 0; i < count; i++) {
        double s = exp2(2 * test_random_unit(&mk->random)) / 8;
        if (mk->p->given.data == TEST_ONES)
            s = 1;
        nib_dtype_store(mx ? NIB_E8M0 : NIB_F32, mk->p->act_scale, i, s);
    }
}

static void make_bias(maker *mk)
{
    test_data data = mk->p->given.data;
    for (int64_t i = 0; i < mk->w->n && mk->d->bias_type; i++)
        nib_dtype_store(mk->d->bias_type, mk->p->bias, i,
                        data == TEST_ONES   ? 0
                        : data == TEST_TINY ? normal(&mk->random) * 0x1p-20
                                            : normal(&mk->random));
    if (mk->d->bias_type && (data == TEST_NAN_BIAS || data == TEST_INF_BIAS))
        nib_dtype_store(mk->d->bias_type, mk->p->bias, test_random_below(&mk->random, mk->w->n),
                        data == TEST_NAN_BIAS ? NAN : INFINITY);
}

static void make_table(maker *mk)
{
    for (int i = 0; i < 16; i++)
        mk->p->table[i] = (float)normal(&mk->random);
    mk->p->table[5] = 1;
}

static size_t act_scale_bytes(const nib_gemm_desc *d, int64_t m)
{
    switch (d->act_scale) {
    case NIB_ACT_SCALE_TENSOR:
        return sizeof(float);
    case NIB_ACT_SCALE_ROW:
        return (size_t)m * sizeof(float);
    case NIB_ACT_SCALE_MX:
        return (size_t)(m * nib_ceil_div(d->weight.k, MX_BLOCK));
    default:
        return 0;
    }
}

/* Zeroed memory, one byte at least, so that NULL means failure. */
static void *array(size_t bytes, bool *failed)
{
    void *memory = calloc(bytes + 1, 1);
    *failed |= !memory;
    return memory;
}

static nib_status allocate(test_problem *p)
{
    const nib_gemm_desc *d = &p->given.desc;
    const nib_weight_desc *w = &d->weight;
    int64_t lda = w->k + p->given.lda_more;
    bool failed = false;
    nib_status status =
        nib_weight_desc_bytes(w, &p->packed_bytes, &p->scales_bytes, &p->zeros_bytes, NULL);
    if (status)
        return status;
    p->act_bytes = (size_t)(p->given.m * lda * nib_type_bits(d->act_type) / 8);
    p->act_scale_bytes = act_scale_bytes(d, p->given.m);
    p->bias_bytes = (size_t)(w->n * nib_type_bits(d->bias_type) / 8);
    p->codes = array((size_t)(w->n * w->k), &failed);
    p->packed_codes = array(p->packed_bytes, &failed);
    p->scales = array(p->scales_bytes, &failed);
    p->zeros = array(p->zeros_bytes, &failed);
    p->act = array(p->act_bytes, &failed);
    p->act_scale = array(p->act_scale_bytes, &failed);
    p->bias = array(p->bias_bytes, &failed);
    if (w->flags & NIB_WEIGHT_G_IDX)
        p->g_idx = array((size_t)w->k * sizeof(int32_t), &failed);
    return failed ? nib_fail(NIB_NO_MEMORY, "no memory for a test problem") : NIB_OK;
}

static void point(test_problem *p)
{
    const nib_gemm_desc *d = &p->given.desc;
    const float *table = d->weight.type == NIB_LUT4 ? p->table : NULL;
    p->ref = (nib_ref_problem){.desc = d,
                               .m = p->given.m,
                               .codes = p->codes,
                               .scales = d->weight.scale_type ? p->scales : NULL,
                               .zeros = d->weight.zero ? p->zeros : NULL,
                               .g_idx = p->g_idx,
                               .table = table,
                               .alpha = p->given.alpha,
                               .act = p->act,
                               .lda = d->weight.k + p->given.lda_more,
                               .act_scale = d->act_scale ? p->act_scale : NULL,
                               .bias = d->bias_type ? p->bias : NULL};
    p->plain = (nib_weight_source){.size = sizeof(nib_weight_source),
                                   .codes = p->packed_codes,
                                   .scales = p->ref.scales,
                                   .zeros = p->ref.zeros,
                                   .g_idx = p->g_idx,
                                   .table = table,
                                   .alpha = p->given.alpha,
                                   .codes_bytes = p->packed_bytes,
                                   .scales_bytes = p->scales_bytes,
                                   .zeros_bytes = p->zeros_bytes};
}

nib_status test_problem_create(const test_case *given, test_problem *out)
{
    *out = (test_problem){.given = *given};
    nib_status status = allocate(out);
    if (status) {
        test_problem_destroy(out);
        return status;
    }
    point(out);
    maker mk = {.p = out,
                .d = &out->given.desc,
                .w = &out->given.desc.weight,
                .random = {given->seed * 0x9e3779b97f4a7c15u + 1},
                .spread = 1};
    if (mk.d->act_type == NIB_I8)
        mk.spread = 74; /* of a uniform byte */
    if (mk.d->act_scale)
        mk.spread /= 8;
    make_table(&mk);
    describe_codes(&mk);
    make_codes(&mk);
    make_scales(&mk);
    make_zeros(&mk);
    make_g_idx(&mk);
    make_act(&mk);
    make_act_scale(&mk);
    make_bias(&mk);
    return NIB_OK;
}

void test_problem_destroy(test_problem *p)
{
    free(p->codes);
    free(p->packed_codes);
    free(p->scales);
    free(p->zeros);
    free(p->act);
    free(p->act_scale);
    free(p->bias);
    free(p->g_idx);
    *p = (test_problem){0};
}
