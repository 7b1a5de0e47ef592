/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of tensor cores: see tensor.h. Inner loops run over the eight columns, so that
 * they become vectors.
 */
#include "tensor.h"

#include "number.h"

#define NO_EXPONENT (-100000)

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

void sim_tile_split_a(sim_tile_a *a, int k)
{
    uint32_t special[SIM_TILE_K];
    for (int row = 0; row < SIM_TILE_M; ++row) {
        uint32_t any = 0;
        split(a->type, a->code[row], k, a->mantissa[row], a->exponent[row], special);
        for (int i = 0; i < k; ++i) {
            any |= special[i];
        }
        a->special[row] = any != 0;
    }
}

void sim_tile_split_b(sim_tile_b *b, int k)
{
    uint32_t special[SIM_TILE_N];
    memset(b->special, 0, sizeof b->special);
    for (int i = 0; i < k; ++i) {
        split(b->type, b->code[i], SIM_TILE_N, b->mantissa[i], b->exponent[i], special);
        for (int n = 0; n < SIM_TILE_N; ++n) {
            b->special[n] |= special[n] != 0;
        }
    }
}

/* What a row and a block of k need. */
typedef struct row_part {
    const int32_t *a_mantissa, *a_exponent;                             /* [count] */
    const int32_t (*b_mantissa)[SIM_TILE_N], (*b_exponent)[SIM_TILE_N]; /* [count] */
    const float *c;
    int count, fraction, bits; /* bits: of both mantissas, without the hidden ones */
} row_part;

/* One row and one block of k: eight columns at a time. out: the sums as integers, and the exponent
 * of their bit `fraction`; NO_EXPONENT where everything is zero. */
static inline __attribute__((always_inline)) void
row_block(const row_part *x, int64_t *restrict out, int32_t *restrict out_exponent)
{
    int32_t product[SIM_TILE_K][SIM_TILE_N], exponent[SIM_TILE_K][SIM_TILE_N];
    int32_t top[SIM_TILE_N], low[SIM_TILE_N] = {0}, high[SIM_TILE_N] = {0};
    const int lift = x->fraction - x->bits;
    for (int n = 0; n < SIM_TILE_N; ++n) {
        const uint32_t bits = sim_bits32(x->c[n]);
        const int32_t e = (int32_t)(bits >> 23 & 255);
        top[n] = (bits & 0x7fffffffu) == 0 ? NO_EXPONENT : (e != 0 ? e : 1) - 127;
    }
    for (int k = 0; k < x->count; ++k) {
        const int32_t mantissa = x->a_mantissa[k], base = x->a_exponent[k];
        for (int n = 0; n < SIM_TILE_N; ++n) {
            const int32_t p = mantissa * x->b_mantissa[k][n];
            const int32_t e = p != 0 ? base + x->b_exponent[k][n] : NO_EXPONENT;
            product[k][n] = p;
            exponent[k][n] = e;
            top[n] = top[n] > e ? top[n] : e;
        }
    }
    /* Eight aligned products are below 2^30: two halves of 32 bits hold a block of 16. */
    for (int k = 0; k < x->count; ++k) {
        int32_t *sum = (k & 8) != 0 ? high : low;
        for (int n = 0; n < SIM_TILE_N; ++n) {
            const int32_t distance = top[n] - exponent[k][n], shift = distance > 31 ? 31 : distance;
            const int32_t p = product[k][n], sign = p >> 31;
            const uint32_t size = (uint32_t)((p ^ sign) - sign) << lift >> shift;
            sum[n] += ((int32_t)size ^ sign) - sign;
        }
    }
    for (int n = 0; n < SIM_TILE_N; ++n) {
        const uint32_t bits = sim_bits32(x->c[n]);
        const int32_t e = (int32_t)(bits >> 23 & 255);
        const int64_t mantissa = (bits & 0x7fffffu) | (e != 0 ? 0x800000u : 0);
        const int32_t down = top[n] - ((e != 0 ? e : 1) - 127);
        const int32_t shift = down > 40 ? 40 : down < 0 ? 0 : down; /* < 0: c is zero */
        const int64_t size = (mantissa << 8) >> (shift + 31 - x->fraction);
        const int64_t addend = mantissa == 0 ? 0 : (bits >> 31 != 0 ? -size : size);
        out[n] = (int64_t)low[n] + high[n] + addend;
        out_exponent[n] = top[n];
    }
}

static void row_block_plain(const row_part *x, int64_t *out, int32_t *exponent)
{
    row_block(x, out, exponent);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void row_block_avx2(const row_part *x, int64_t *out,
                                                           int32_t *exponent)
{
    row_block(x, out, exponent);
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
static double special_sum(const sim_tile_a *a, const sim_tile_b *b, int k_size, int row, int column,
                          double sum)
{
    for (int k = 0; k < k_size; ++k) {
        sum += sim_format_decode(sim_format_of(a->type), a->code[row][k]) *
               sim_format_decode(sim_format_of(b->type), b->code[k][column]);
    }
    return sum;
}

static double scale_of(int32_t exponent)
{
    return sim_f64((uint64_t)(exponent + 1023) << 52);
}

static void finish_row(sim_tile_c *c, int row, const sim_tensor_rule *rule, const int64_t *sum,
                       const int32_t *exponent, bool last)
{
    for (int n = 0; n < SIM_TILE_N; ++n) {
        double *to = &c->sum[row][n];
        *to = exponent[n] == NO_EXPONENT
                  ? c->addend[row][n]
                  : (double)sum[n] * scale_of(exponent[n] - (int32_t)rule->fraction);
        if (!last) {
            c->addend[row][n] = sim_tensor_f32(*to, rule->kept);
        }
    }
}

static void multiply_row(const sim_tile_a *a, const sim_tile_b *b, int k, int row, sim_tile_c *c,
                         const sim_tensor_rule *rule, bool fast)
{
    row_part x = {.c = c->addend[row], .fraction = (int)rule->fraction};
    x.bits = sim_format_of(a->type)->mantissa + sim_format_of(b->type)->mantissa;
    for (int first = 0; first < k; first += (int)rule->block) {
        const int left = k - first;
        int64_t sum[SIM_TILE_N];
        int32_t exponent[SIM_TILE_N];
        x.count = left < (int)rule->block ? left : (int)rule->block;
        x.a_mantissa = &a->mantissa[row][first];
        x.a_exponent = &a->exponent[row][first];
        x.b_mantissa = &b->mantissa[first];
        x.b_exponent = &b->exponent[first];
        (fast ? row_block_avx2 : row_block_plain)(&x, sum, exponent);
        finish_row(c, row, rule, sum, exponent, first + x.count >= k);
    }
}

void sim_tile_multiply(const sim_tile_a *a, const sim_tile_b *b, int k, sim_tile_c *c,
                       const sim_tensor_rule *rule)
{
    const bool fast = have_avx2();
    for (int row = 0; row < SIM_TILE_M; ++row) {
        bool special[SIM_TILE_N];
        float addend[SIM_TILE_N];
        memcpy(addend, c->addend[row], sizeof addend);
        for (int n = 0; n < SIM_TILE_N; ++n) {
            special[n] = a->special[row] || b->special[n] || !isfinite(addend[n]);
            c->addend[row][n] = special[n] ? 0 : addend[n];
        }
        multiply_row(a, b, k, row, c, rule, fast);
        for (int n = 0; n < SIM_TILE_N; ++n) {
            if (special[n]) {
                c->sum[row][n] = special_sum(a, b, k, row, n, addend[n]);
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
