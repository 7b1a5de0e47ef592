/* SPDX-License-Identifier: Apache-2.0
 *
 * Random problems and their reference. The decode rules are written out here again, apart from the
 * library's, so that the check in a benchmark is worth something.
 */
#include "support/problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u); /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float decode_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    float magnitude = exponent ? ldexpf((float)(1024 + fraction), (int)exponent - 25)
                               : ldexpf((float)fraction, -24);
    return sign ? -magnitude : magnitude;
}

float bench_decode(nib_type type, const void *array, int64_t i)
{
    switch (type) {
    case NIB_F32:
        return ((const float *)array)[i];
    case NIB_F16:
        return decode_f16(((const uint16_t *)array)[i]);
    case NIB_BF16:
        return float_of_bits((uint32_t)((const uint16_t *)array)[i] << 16);
    default:
        return nib_type_decode(type, ((const uint8_t *)array)[i]);
    }
}

/* Random values in [2^e, 2^(e+1)) of a scale type, written as its bits. */
static void fill_positive(nib_type type, void *array, int64_t count, int e, uint64_t *seed)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t r = (uint32_t)(next_random(seed) >> 32);
        if (type == NIB_F32)
            ((float *)array)[i] = float_of_bits((uint32_t)(e + 127) << 23 | (r & 0x7fffff));
        else if (type == NIB_F16)
            ((uint16_t *)array)[i] = (uint16_t)((e + 15) << 10 | (r & 1023));
        else if (type == NIB_BF16)
            ((uint16_t *)array)[i] = (uint16_t)((e + 127) << 7 | (r & 127));
        else if (type == NIB_E8M0)
            ((uint8_t *)array)[i] = (uint8_t)(e + 127 + (int)(r & 1));
        else /* e4m3 */
            ((uint8_t *)array)[i] = (uint8_t)((e < -6 ? 1 : e + 7) << 3 | (r & 7));
    }
}

bool bench_is_q4_0(const nib_weight_desc *w)
{
    return w->type == NIB_I4 && w->group == 32 && w->scale_type == NIB_F16 &&
           w->zero == NIB_ZERO_NONE && w->k % 32 == 0 && !w->flags;
}

static bool make_weights(bench_problem *p, uint64_t *seed)
{
    const nib_weight_desc *w = &p->weight;
    size_t codes, scales, zeros;
    if (nib_weight_desc_bytes(w, &codes, &scales, &zeros, &p->groups)) {
        fprintf(stderr, "bench: %s\n", nib_last_message());
        return false;
    }
    if (w->flags || w->type == NIB_LUT4 || w->group == NIB_GROUP_TENSOR ||
        nib_type_bits(w->type) > 8) {
        fprintf(stderr, "bench: act-order, lut4, per-tensor and unscaled weights are not timed\n");
        return false;
    }
    p->codes = malloc(codes + 8);
    p->scales = malloc(scales + 8);
    p->zeros = zeros ? malloc(zeros + 8) : NULL;
    if (!p->codes || !p->scales || (zeros && !p->zeros))
        return false;
    for (size_t i = 0; i < codes; i += 8) {
        uint64_t r = next_random(seed);
        memcpy(p->codes + i, &r, 8);
    }
    if (nib_type_bits(w->type) == 8) /* NaN and infinity would make every sum one */
        for (size_t i = 0; i < codes; i++)
            if (!isfinite(nib_type_decode(w->type, p->codes[i])))
                p->codes[i] = 0;
    int64_t count = w->n * p->groups;
    fill_positive(w->scale_type, p->scales, count, -7, seed);
    int bits = nib_type_bits(w->type);
    if (w->zero == NIB_ZERO_CODE)
        for (int64_t i = 0; i < count; i++)
            p->zeros[i] = (uint8_t)(next_random(seed) & ((1u << bits) - 1));
    else if (w->zero != NIB_ZERO_NONE) /* about half the range of the codes, scaled for RESCALE */
        fill_positive(w->zero_type, p->zeros, count,
                      w->zero == NIB_ZERO_FLOAT ? bits - 2 : bits - 2 - 7, seed);
    return true;
}

static uint32_t code_at(const bench_problem *p, int64_t row, int64_t k)
{
    int bits = nib_type_bits(p->weight.type);
    int64_t row_bytes = (p->weight.k * bits + 7) / 8, bit = k * bits;
    const uint8_t *at = p->codes + row * row_bytes + bit / 8;
    uint32_t two = at[0];
    if (bit % 8 + bits > 8)
        two |= (uint32_t)at[1] << 8;
    return two >> bit % 8 & ((1u << bits) - 1);
}

static void dequantize_row(const bench_problem *p, int64_t row, float *out)
{
    const nib_weight_desc *w = &p->weight;
    int64_t group = w->group == NIB_GROUP_ROW ? w->k : w->group;
    float value[256];
    for (uint32_t code = 0; code < 1u << nib_type_bits(w->type); code++)
        value[code] = nib_type_decode(w->type, code);
    for (int64_t k = 0; k < w->k; k++) {
        int64_t at = row * p->groups + k / group;
        float scale = bench_decode(w->scale_type, p->scales, at), c = value[code_at(p, row, k)];
        if (w->zero == NIB_ZERO_FLOAT)
            c -= bench_decode(w->zero_type, p->zeros, at);
        else if (w->zero == NIB_ZERO_CODE)
            c -= nib_type_decode(w->type, p->zeros[at]);
        out[k] = c * scale;
        if (w->zero == NIB_ZERO_RESCALE)
            out[k] -= bench_decode(w->zero_type, p->zeros, at);
        out[k] *= p->alpha;
    }
}

/* Blocks of 18 bytes: the f16 scale, then element j low and element j + 16 high in byte j. */
static bool make_q4_0(bench_problem *p)
{
    int64_t blocks = p->weight.n * p->groups;
    p->q4_0 = malloc((size_t)blocks * 18);
    if (!p->q4_0)
        return false;
    for (int64_t b = 0; b < blocks; b++) {
        uint8_t *to = p->q4_0 + b * 18;
        const uint8_t *from = p->codes + b * 16;
        memcpy(to, p->scales + b * 2, 2);
        for (int j = 0; j < 16; j++) {
            int low = from[j / 2] >> 4 * (j % 2) & 15, high = from[8 + j / 2] >> 4 * (j % 2) & 15;
            to[2 + j] = (uint8_t)(low | high << 4);
        }
    }
    return true;
}

/* About normal (a sum of twelve), cut to as many significant bits as every type of activations here
 * holds: eight, or for the eight-bit floats three. */
static float random_act(uint64_t *seed, bool coarse)
{
    float sum = -6.0f;
    for (int i = 0; i < 12; i++)
        sum += (float)(next_random(seed) >> 40) * 0x1p-24f;
    float cut = float_of_bits(bits_of_float(sum) & (coarse ? 0xffe00000u : 0xffff0000u));
    return fabsf(cut) < (coarse ? 0x1p-6f : 0x1p-8f) ? 0.0f : cut;
}

/* The bits of a value that a small float of this many mantissa bits and bias holds exactly. */
static uint8_t small_float(float value, int mantissa, int bias)
{
    uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
    if (!magnitude)
        return 0;
    uint32_t rebased = (magnitude >> (23 - mantissa)) - ((uint32_t)(127 - bias) << mantissa);
    return (uint8_t)(bits >> 24 & 0x80) | (uint8_t)rebased;
}

static void make_act_row(bench_problem *p, int64_t row)
{
    int64_t k = p->weight.k;
    uint64_t seed = 0x5eed + (uint64_t)row * 0x9e3779b97f4a7c15u; /* rows may be made at once */
    float largest = 0;
    for (int64_t i = row * k; i < (row + 1) * k; i++) {
        float value = p->act[i] = random_act(&seed, p->act_e4m3 != NULL);
        uint32_t bits = bits_of_float(value);
        largest = fmaxf(largest, fabsf(value));
        p->act_bf16[i] = (uint16_t)(bits >> 16);
        /* Exact: rebias the exponent by 127 - 15; values lie in [2^-8, 8). */
        p->act_f16[i] = (uint16_t)((bits >> 16 & 0x8000) |
                                   (value ? ((bits & 0x7fffffff) >> 13) - (112 << 10) : 0));
        if (p->act_e4m3) {
            p->act_e4m3[i] = small_float(value, 3, 7);
            p->act_e5m2[i] = small_float(value, 2, 15);
        }
    }
    p->act_row_scale[row] = 0.5f + (float)(row % 7) / 8;
    p->act_i8_scale[row] = largest > 0 ? largest / 127 : 1;
    for (int64_t i = row * k; i < (row + 1) * k; i++)
        p->act_i8[i] = (int8_t)lrintf(p->act[i] / p->act_i8_scale[row]);
}

static bool make_act(bench_problem *p, bool coarse)
{
    size_t count = (size_t)(p->m * p->weight.k);
    p->act = malloc(count * sizeof(float));
    p->act_f16 = malloc(count * 2);
    p->act_bf16 = malloc(count * 2);
    p->act_i8 = malloc(count);
    p->act_i8_scale = malloc((size_t)p->m * sizeof(float));
    p->act_row_scale = malloc((size_t)p->m * sizeof(float));
    p->act_e4m3 = coarse ? malloc(count) : NULL;
    p->act_e5m2 = coarse ? malloc(count) : NULL;
    if (!p->act || !p->act_f16 || !p->act_bf16 || !p->act_i8 || !p->act_i8_scale ||
        !p->act_row_scale || (coarse && (!p->act_e4m3 || !p->act_e5m2)))
        return false;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t row = 0; row < p->m; row++)
        make_act_row(p, row);
    return true;
}

/* All rows, or the first half of the sample and then ever fewer: the rows around each power of two,
 * where tiles of rows end, and the last. */
static void choose_rows(bench_problem *p)
{
    if (p->m <= BENCH_ROWS) {
        for (p->rows = 0; p->rows < p->m; p->rows++)
            p->row[p->rows] = p->rows;
        return;
    }
    for (p->rows = 0; p->rows < BENCH_ROWS / 2; p->rows++)
        p->row[p->rows] = p->rows;
    for (int64_t power = 64; power < p->m && p->rows + 4 < BENCH_ROWS; power *= 2)
        for (int64_t row = power - 1; row <= power + power / 2; row += row < power ? 1 : power / 2)
            if (row > p->row[p->rows - 1] && row < p->m - 1)
                p->row[p->rows++] = row;
    p->row[p->rows++] = p->m - 1;
}

static void reference_column(bench_problem *p, int64_t s, float *row)
{
    int64_t k = p->weight.k;
    dequantize_row(p, p->column[s], row);
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t m = p->row[r];
        double sum = 0, sum_i8 = 0;
        for (int64_t i = 0; i < k; i++) {
            sum += (double)row[i] * p->act[m * k + i];
            sum_i8 += (double)row[i] * p->act_i8[m * k + i];
        }
        p->ref[r * p->samples + s] = sum;
        p->ref_i8[r * p->samples + s] = sum_i8 * p->act_i8_scale[m];
    }
}

static bool make_reference(bench_problem *p)
{
    int64_t n = p->weight.n, k = p->weight.k;
    bool whole = true;
    p->samples = n < BENCH_SAMPLES ? n : BENCH_SAMPLES;
    choose_rows(p);
    p->ref = malloc((size_t)(p->rows * p->samples) * sizeof(double));
    p->ref_i8 = malloc((size_t)(p->rows * p->samples) * sizeof(double));
    if (!p->ref || !p->ref_i8)
        return false;
    for (int64_t s = 0; s < p->samples; s++)
        p->column[s] = p->samples > 1 ? s * (n - 1) / (p->samples - 1) : 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) reduction(&& : whole)
#endif
    for (int64_t s = 0; s < p->samples; s++) {
        float *row = malloc((size_t)k * sizeof(float));
        whole = whole && row;
        if (row)
            reference_column(p, s, row);
        free(row);
    }
    return whole;
}

static bool make_dense(bench_problem *p)
{
    int64_t n = p->weight.n, k = p->weight.k;
    p->dense = malloc((size_t)(n * k) * sizeof(float));
    if (!p->dense)
        return false;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t row = 0; row < n; row++)
        dequantize_row(p, row, p->dense + row * k);
    return true;
}

bool bench_problem_make(bench_problem *p, const nib_weight_desc *weight, int64_t m, unsigned want)
{
    uint64_t seed = 20240601;
    *p = (bench_problem){
        .weight = *weight, .alpha = weight->scale_type == NIB_E4M3 ? 0.375f : 1, .m = m};
    if (make_weights(p, &seed) && make_act(p, want & BENCH_WANT_COARSE) && make_reference(p) &&
        (!(want & BENCH_WANT_Q4_0) || make_q4_0(p)) &&
        (!(want & BENCH_WANT_DENSE) || make_dense(p)))
        return true;
    bench_problem_free(p);
    return false;
}

void bench_problem_free(bench_problem *p)
{
    free(p->codes);
    free(p->scales);
    free(p->zeros);
    free(p->q4_0);
    free(p->dense);
    free(p->act);
    free(p->act_f16);
    free(p->act_bf16);
    free(p->act_i8);
    free(p->act_i8_scale);
    free(p->act_row_scale);
    free(p->act_e4m3);
    free(p->act_e5m2);
    free(p->ref);
    free(p->ref_i8);
    *p = (bench_problem){0};
}

const void *bench_problem_act(const bench_problem *p, nib_type type)
{
    switch (type) {
    case NIB_F32:
        return p->act;
    case NIB_F16:
        return p->act_f16;
    case NIB_BF16:
        return p->act_bf16;
    case NIB_I8:
        return p->act_i8;
    case NIB_E4M3:
        return p->act_e4m3;
    case NIB_E5M2:
        return p->act_e5m2;
    default:
        return NULL;
    }
}

/* The part of a reference that belongs to row r of the sample. */
static double row_factor(const bench_problem *p, int64_t r, bench_reference reference)
{
    return reference == BENCH_REF_SCALED ? (double)p->act_row_scale[p->row[r]] : 1;
}

double bench_problem_error(const bench_problem *p, int64_t m, const void *out, nib_type out_type,
                           bench_reference reference, double *worst)
{
    const double *ref = reference == BENCH_REF_I8 ? p->ref_i8 : p->ref;
    double error = 0, norm = 0, most = 0;
    int64_t rows = 0;
    while (rows < p->rows && p->row[rows] < m)
        rows++;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < p->samples; s++) {
            double want = ref[r * p->samples + s] * row_factor(p, r, reference);
            norm += want * want;
        }
    double rms = sqrt(norm / (double)(rows * p->samples));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < p->samples; s++) {
            double want = ref[r * p->samples + s] * row_factor(p, r, reference);
            double got = bench_decode(out_type, out, p->row[r] * p->weight.n + p->column[s]);
            double share = fabs(got - want) / (fabs(want) + rms);
            error += (got - want) * (got - want);
            most = share <= most ? most : share; /* a NaN stays */
        }
    if (worst)
        *worst = most;
    return sqrt(error / norm);
}
