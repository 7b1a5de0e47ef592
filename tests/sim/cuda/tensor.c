/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of tensor cores: see tensor.h. Inner loops run over the eight columns, so that
 * they become vectors.
 */
#include "tensor.h"

#include "number.h"

#define NO_EXPONENT (-100000)

/* value = mantissa * 2^(exponent - bits of the format's mantissa). Infinities and NaN are zero
 * here, and marked. */
typedef struct numbers {
    int32_t a_mantissa[SIM_TILE_M][SIM_TILE_K], a_exponent[SIM_TILE_M][SIM_TILE_K];
    int32_t b_mantissa[SIM_TILE_K][SIM_TILE_N], b_exponent[SIM_TILE_K][SIM_TILE_N];
    bool a_special[SIM_TILE_M], b_special[SIM_TILE_N];
    int a_bits, b_bits; /* of the formats' mantissas, without the hidden one */
} numbers;

/* A row of codes; marks in special[] what is no finite number. The format's constants are known
 * where this is inlined. */
static inline __attribute__((always_inline)) void
split_row(int m, int e_bits, int bias, bool ieee, const uint16_t *restrict code, int count,
          int32_t *restrict mantissa, int32_t *restrict exponent, uint32_t *restrict special)
{
    const int32_t top = (1 << e_bits) - 1, ones = (1 << m) - 1;
    for (int i = 0; i < count; ++i) {
        const int32_t c = code[i], e = c >> m & top, fraction = c & ones;
        const int32_t size = fraction | (e != 0 ? 1 << m : 0), sign = -(c >> (m + e_bits) & 1);
        const bool odd = e == top && (ieee || fraction == ones);
        special[i] = odd;
        mantissa[i] = odd ? 0 : (size ^ sign) - sign;
        exponent[i] = (e != 0 ? e : 1) - bias;
    }
}

static void split(enum sim_type type, const uint16_t *code, int count, int32_t *mantissa,
                  int32_t *exponent, uint32_t *special)
{
    switch (type) {
    case SIM_F16:
        split_row(10, 5, 15, true, code, count, mantissa, exponent, special);
        break;
    case SIM_BF16:
        split_row(7, 8, 127, true, code, count, mantissa, exponent, special);
        break;
    case SIM_E4M3:
        split_row(3, 4, 7, false, code, count, mantissa, exponent, special);
        break;
    default:
        split_row(2, 5, 15, true, code, count, mantissa, exponent, special);
        break;
    }
}

static void split_tile(const sim_tile *tile, numbers *out)
{
    uint32_t special[SIM_TILE_K];
    out->a_bits = sim_format_of(tile->a_type)->mantissa;
    out->b_bits = sim_format_of(tile->b_type)->mantissa;
    memset(out->a_special, 0, sizeof out->a_special);
    memset(out->b_special, 0, sizeof out->b_special);
    for (int row = 0; row < SIM_TILE_M; ++row) {
        uint32_t any = 0;
        split(tile->a_type, tile->a[row], tile->k, out->a_mantissa[row], out->a_exponent[row],
              special);
        for (int k = 0; k < tile->k; ++k) {
            any |= special[k];
        }
        out->a_special[row] = any != 0;
    }
    for (int k = 0; k < tile->k; ++k) {
        split(tile->b_type, tile->b[k], SIM_TILE_N, out->b_mantissa[k], out->b_exponent[k],
              special);
        for (int n = 0; n < SIM_TILE_N; ++n) {
            out->b_special[n] |= special[n] != 0;
        }
    }
}

/* One row and one block of k: eight columns at a time. out: the sums as integers, and the exponent
 * of their bit `fraction`; NO_EXPONENT where everything is zero. */
static inline __attribute__((always_inline)) void
row_block(const numbers *x, const float *c, int row, int first, int count, unsigned fraction,
          int64_t *restrict out, int32_t *restrict out_exponent)
{
    int32_t product[SIM_TILE_K][SIM_TILE_N], exponent[SIM_TILE_K][SIM_TILE_N];
    int32_t top[SIM_TILE_N], low[SIM_TILE_N] = {0}, high[SIM_TILE_N] = {0};
    const int lift = (int)fraction - x->a_bits - x->b_bits;
    for (int n = 0; n < SIM_TILE_N; ++n) {
        const uint32_t bits = sim_bits32(c[n]);
        const int32_t e = (int32_t)(bits >> 23 & 255);
        top[n] = (bits & 0x7fffffffu) == 0 ? NO_EXPONENT : (e != 0 ? e : 1) - 127;
    }
    for (int k = 0; k < count; ++k) {
        const int32_t mantissa = x->a_mantissa[row][first + k];
        const int32_t base = x->a_exponent[row][first + k];
        for (int n = 0; n < SIM_TILE_N; ++n) {
            const int32_t p = mantissa * x->b_mantissa[first + k][n];
            const int32_t e = p != 0 ? base + x->b_exponent[first + k][n] : NO_EXPONENT;
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
        const uint32_t bits = sim_bits32(c[n]);
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

static void row_block_plain(const numbers *x, const float *c, int row, int first, int count,
                            unsigned fraction, int64_t *out, int32_t *exponent)
{
    row_block(x, c, row, first, count, fraction, out, exponent);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void row_block_avx2(const numbers *x, const float *c,
                                                           int row, int first, int count,
                                                           unsigned fraction, int64_t *out,
                                                           int32_t *exponent)
{
    row_block(x, c, row, first, count, fraction, out, exponent);
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
        sum += sim_format_decode(sim_format_of(tile->a_type), tile->a[row][k]) *
               sim_format_decode(sim_format_of(tile->b_type), tile->b[k][column]);
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
    numbers x;
    split_tile(tile, &x);
    for (int row = 0; row < SIM_TILE_M; ++row) {
        bool special[SIM_TILE_N];
        float c[SIM_TILE_N];
        memcpy(c, tile->c[row], sizeof c);
        for (int n = 0; n < SIM_TILE_N; ++n) {
            special[n] = x.a_special[row] || x.b_special[n] || !isfinite(c[n]);
            tile->c[row][n] = special[n] ? 0 : c[n];
        }
        for (int first = 0; first < tile->k; first += (int)rule->block) {
            const int left = tile->k - first;
            const int count = left < (int)rule->block ? left : (int)rule->block;
            int64_t sum[SIM_TILE_N];
            int32_t exponent[SIM_TILE_N];
            (fast ? row_block_avx2 : row_block_plain)(&x, tile->c[row], row, first, count,
                                                      rule->fraction, sum, exponent);
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
