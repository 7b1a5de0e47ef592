/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of tensor cores: see tensor.h. Inner loops run over the eight columns, so that
 * they become vectors.
 */
#include "tensor.h"

#include "number.h"

#define NO_EXPONENT (-100000)

static void split(enum sim_type type, uint32_t code, int32_t *mantissa, int32_t *exponent,
                  bool *special)
{
    const sim_format *f = sim_format_of(type);
    const int m = f->mantissa;
    const uint32_t top = (1u << f->exponent) - 1, e = code >> m & top;
    const uint32_t fraction = code & ((1u << m) - 1);
    const bool negative = (code >> (m + f->exponent) & 1) != 0;
    const int32_t size = (int32_t)(fraction | (e != 0 ? 1u << m : 0));
    *special =
        (f->special == 2 && e == top) || (f->special == 1 && e == top && fraction == (1u << m) - 1);
    *mantissa = negative ? -size : size;
    *exponent = (e != 0 ? (int32_t)e : 1) - f->bias;
}

void sim_tile_set_a(sim_tile *tile, enum sim_type type, int row, int k, uint32_t code)
{
    bool special;
    split(type, code, &tile->a_mantissa[row][k], &tile->a_exponent[row][k], &special);
    tile->a_special[row] |= special;
    tile->a_value[row][k] = special ? sim_format_decode(sim_format_of(type), code) : 0;
    if (special) {
        tile->a_mantissa[row][k] = 0;
    }
}

void sim_tile_set_b(sim_tile *tile, enum sim_type type, int k, int column, uint32_t code)
{
    bool special;
    split(type, code, &tile->b_mantissa[k][column], &tile->b_exponent[k][column], &special);
    tile->b_special[column] |= special;
    tile->b_value[k][column] = special ? sim_format_decode(sim_format_of(type), code) : 0;
    if (special) {
        tile->b_mantissa[k][column] = 0;
    }
}

/* One row and one block of k: eight columns at a time. out: the sums as integers, and the exponent
 * of their bit `fraction`; NO_EXPONENT where everything is zero. */
static inline __attribute__((always_inline)) void row_block(const sim_tile *tile, int row,
                                                            int first, int count, unsigned fraction,
                                                            int64_t *restrict out,
                                                            int32_t *restrict out_exponent)
{
    int32_t product[SIM_TILE_K][SIM_TILE_N], exponent[SIM_TILE_K][SIM_TILE_N];
    int32_t top[SIM_TILE_N], low[SIM_TILE_N] = {0}, high[SIM_TILE_N] = {0};
    const int lift = (int)fraction - tile->a_bits - tile->b_bits;
    for (int n = 0; n < SIM_TILE_N; ++n) {
        const uint32_t bits = sim_bits32(tile->c[row][n]);
        const int32_t e = (int32_t)(bits >> 23 & 255);
        top[n] = (bits & 0x7fffffffu) == 0 ? NO_EXPONENT : (e != 0 ? e : 1) - 127;
    }
    for (int k = 0; k < count; ++k) {
        const int32_t mantissa = tile->a_mantissa[row][first + k];
        const int32_t base = tile->a_exponent[row][first + k];
        for (int n = 0; n < SIM_TILE_N; ++n) {
            const int32_t p = mantissa * tile->b_mantissa[first + k][n];
            const int32_t e = p != 0 ? base + tile->b_exponent[first + k][n] : NO_EXPONENT;
            product[k][n] = p;
            exponent[k][n] = e;
            top[n] = top[n] > e ? top[n] : e;
        }
    }
    /* Eight aligned products are below 2^30: two halves of 32 bits hold a block of 16. */
    for (int k = 0; k < count; ++k) {
        int32_t *sum = (k & 8) != 0 ? high : low;
        for (int n = 0; n < SIM_TILE_N; ++n) {
            const int32_t distance = top[n] - exponent[k][n], shift = distance > 31 ? 31 : distance;
            const int32_t p = product[k][n], sign = p >> 31;
            const uint32_t size = (uint32_t)((p ^ sign) - sign) << lift >> shift;
            sum[n] += ((int32_t)size ^ sign) - sign;
        }
    }
    for (int n = 0; n < SIM_TILE_N; ++n) {
        const uint32_t bits = sim_bits32(tile->c[row][n]);
        const int32_t e = (int32_t)(bits >> 23 & 255);
        const int64_t mantissa = (bits & 0x7fffffu) | (e != 0 ? 0x800000u : 0);
        const int32_t down = top[n] - ((e != 0 ? e : 1) - 127);
        const int32_t shift = down > 40 ? 40 : down < 0 ? 0 : down; /* < 0: c is zero */
        const int64_t size = (mantissa << 8) >> (shift + 31 - (int)fraction);
        const int64_t addend = mantissa == 0 ? 0 : (bits >> 31 != 0 ? -size : size);
        out[n] = (int64_t)low[n] + high[n] + addend;
        out_exponent[n] = top[n];
    }
}

static void row_block_plain(const sim_tile *tile, int row, int first, int count, unsigned fraction,
                            int64_t *out, int32_t *exponent)
{
    row_block(tile, row, first, count, fraction, out, exponent);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void row_block_avx2(const sim_tile *tile, int row, int first,
                                                           int count, unsigned fraction,
                                                           int64_t *out, int32_t *exponent)
{
    row_block(tile, row, first, count, fraction, out, exponent);
}

static bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}
#else
#define row_block_avx2 row_block_plain

static bool have_avx2(void)
{
    return false;
}
#endif

/* Infinities and NaN: as IEEE would have it. */
static double special_sum(const sim_tile *tile, int row, int column, double sum)
{
    for (int k = 0; k < tile->k; ++k) {
        const double a =
            tile->a_value[row][k] != 0
                ? tile->a_value[row][k]
                : ldexp(tile->a_mantissa[row][k], tile->a_exponent[row][k] - tile->a_bits);
        const double b =
            tile->b_value[k][column] != 0
                ? tile->b_value[k][column]
                : ldexp(tile->b_mantissa[k][column], tile->b_exponent[k][column] - tile->b_bits);
        sum += a * b;
    }
    return sum;
}

static double scale_of(int32_t exponent)
{
    return sim_f64((uint64_t)(exponent + 1023) << 52);
}

static void finish_row(sim_tile *tile, int row, const sim_tensor_rule *rule, const int64_t *sum,
                       const int32_t *exponent, bool last)
{
    for (int n = 0; n < SIM_TILE_N; ++n) {
        double *to = &tile->sum[row][n];
        *to = exponent[n] == NO_EXPONENT
                  ? tile->c[row][n]
                  : (double)sum[n] * scale_of(exponent[n] - (int32_t)rule->fraction);
        if (!last) {
            tile->c[row][n] = sim_tensor_f32(*to, rule->kept);
        }
    }
}

void sim_tile_multiply(sim_tile *tile, const sim_tensor_rule *rule)
{
    const bool fast = have_avx2();
    for (int row = 0; row < SIM_TILE_M; ++row) {
        bool special[SIM_TILE_N];
        float c[SIM_TILE_N];
        memcpy(c, tile->c[row], sizeof c);
        for (int n = 0; n < SIM_TILE_N; ++n) {
            special[n] = tile->a_special[row] || tile->b_special[n] || !isfinite(c[n]);
            tile->c[row][n] = special[n] ? 0 : c[n];
        }
        for (int first = 0; first < tile->k; first += (int)rule->block) {
            const int left = tile->k - first;
            const int count = left < (int)rule->block ? left : (int)rule->block;
            int64_t sum[SIM_TILE_N];
            int32_t exponent[SIM_TILE_N];
            (fast ? row_block_avx2 : row_block_plain)(tile, row, first, count, rule->fraction, sum,
                                                      exponent);
            finish_row(tile, row, rule, sum, exponent, first + count >= tile->k);
        }
        for (int n = 0; n < SIM_TILE_N; ++n) {
            if (special[n]) {
                tile->sum[row][n] = special_sum(tile, row, n, c[n]);
            }
        }
    }
}

float sim_tensor_f32(double sum, unsigned kept)
{
    if (sum != sum) {
        return sim_f32(0x7fffffff);
    }
    float value = (float)sum;
    if (fabs((double)value) > fabs(sum) && !isinf(sum)) {
        value = sim_f32(sim_bits32(value) - 1);
    }
    if (fabs(sum) >= 0x1p128) {
        value = sum < 0 ? -INFINITY : INFINITY;
    }
    const uint32_t cut = kept < 24 && isfinite(value) ? (1u << (24 - kept)) - 1 : 0;
    return sim_f32(sim_bits32(value) & ~cut);
}

uint32_t sim_tensor_f16(double sum)
{
    return sim_to_f16(sim_odd_f32(sum));
}
