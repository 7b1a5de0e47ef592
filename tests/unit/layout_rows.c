/* SPDX-License-Identifier: Apache-2.0
 *
 * Every named layout against its published formula, on all elements of several tiles. The formulas
 * are written out here a second time, as their sources state them, and know nothing of bit maps:
 * each answers where, in bits from the start of the buffer, the code of (n, k) begins. Sources are
 * in docs/layouts.md.
 */
#include "layout/layout.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Extents N, K; B bits of the plane. */
typedef struct where {
    int64_t N, K, B, n, k;
} where;
typedef int64_t formula(where w);

static int64_t plain(where w)
{
    return w.n * ((w.K * w.B + 7) / 8 * 8) + w.k * w.B;
}

static int64_t bytes(where w)
{
    return (w.n * w.K + w.k) * 8;
}

static int64_t plain_kn(where w)
{
    return (w.k * w.N + w.n) * w.B;
}

/* Where bit `bit` of the codes of column n stands: words of a column lie N words apart. */
static int64_t gptq_bit(where w, int64_t bit)
{
    return (bit / 32 * w.N + w.n) * 32 + bit % 32;
}

/* Codes of 3 bits may stand astride two words: then this is where they begin. */
static int64_t gptq(where w)
{
    return (w.k * w.B / 32 * w.N + w.n) * 32 + w.k * w.B % 32;
}

/* n-sequential: row g of N*B/32 words is one stream of bits. */
static int64_t gptq_zeros(where w)
{
    return w.k * (w.N * w.B / 32) * 32 + w.n * w.B;
}

/* Nibble j of word c is column 8c + order[j]. */
static const int awq_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};

static int64_t awq(where w)
{
    int64_t j = 0;
    while (awq_order[j] != w.n % 8)
        j++;
    return (w.k * (w.N / 8) + w.n / 8) * 32 + 4 * j;
}

static int64_t marlin(where w)
{
    int64_t j = (w.n % 64) / 16, lane = 4 * (w.n % 8) + (w.k % 8) / 2;
    int64_t word = 128 * (w.n / 64) + 4 * lane + j;
    int64_t nibble = 2 * ((w.n % 16) / 8) + (w.k % 16) / 8 + 4 * (w.k % 2);
    return (w.k / 16 * (2 * w.N) + word) * 32 + 4 * nibble;
}

/* In each chunk of 64, position p takes column 8 (p % 8) + p / 8. */
static int64_t marlin_position(int64_t column)
{
    int64_t p = 0;
    while (8 * (p % 8) + p / 8 != column)
        p++;
    return p;
}

static int64_t marlin_scales(where w)
{
    return (w.k * w.N + w.n / 64 * 64 + marlin_position(w.n % 64)) * 16;
}

static int64_t marlin_scales_row(where w)
{
    static const int first[8] = {0, 1, 8, 9, 16, 17, 24, 25};
    for (int64_t i = 0; i < 4; i++)
        for (int64_t t = 0; t < 8; t++)
            if (2 * i + first[t] == w.n % 32)
                return (w.k * w.N + w.n / 32 * 32 + 8 * i + t) * 16;
    return -1;
}

/* The scales' permutation, then nibble j of a word is its element order[j]. */
static int64_t marlin_zeros(where w)
{
    int64_t p = marlin_position(w.n % 64), j = 0;
    while (awq_order[j] != p % 8)
        j++;
    return (w.k * w.N + w.n / 64 * 64 + p / 8 * 8 + j) * 4;
}

static int64_t bitblas(where w)
{
    int64_t e = 8 / w.B;
    return (w.n * (w.K / e) + w.k / e) * 8 + w.B * (w.k % e);
}

/* Field o of a word moves to bit (o mod G) T + (o div G) B, with G = 32 / T. */
static int64_t bitblas_word(where w, int64_t T, int64_t *bit)
{
    int64_t fields = 32 / w.B, G = 32 / T, o = w.k % fields;
    *bit = o % G * T + o / G * w.B;
    return (w.n * (w.K / fields) + w.k / fields) * 32;
}

static int64_t bitblas_f16(where w)
{
    int64_t bit, word = bitblas_word(w, 16, &bit);
    if (w.B == 2) { /* bytes 1 and 2 change places */
        static const int64_t byte[4] = {0, 2, 1, 3};
        bit = byte[bit / 8] * 8 + bit % 8;
    }
    return word + bit;
}

static int64_t bitblas_i8(where w)
{
    int64_t bit, word = bitblas_word(w, 8, &bit);
    if (w.B == 1) { /* nibbles 1 and 4, 3 and 6 change places */
        static const int64_t nibble[8] = {0, 4, 2, 6, 1, 5, 3, 7};
        bit = nibble[bit / 4] * 4 + bit % 4;
    }
    return word + bit;
}

/* P[n, c] = sum code[n, c e + i] << (B i), stored transposed. */
static int64_t gemlite(where w)
{
    int64_t e = 32 / w.B;
    return (w.k / e * w.N + w.n) * 32 + w.B * (w.k % e);
}

/* [N/16, 16, K/BK, BK/P, P] permuted to [N/16, K/BK, BK/P, 16, P]; int4 bytes v_i | v_{i+4} << 4.
 */
static int64_t aiter16x16(where w)
{
    int64_t P = 128 / w.B, BK = 2 * P, p = w.k % P;
    int64_t unit = ((w.n / 16 * (w.K / BK) + w.k / BK) * (BK / P) + w.k % BK / P) * 16 + w.n % 16;
    if (w.B == 4)
        p = p / 8 * 8 + (p % 8 < 4 ? 2 * (p % 8) : 2 * (p % 8 - 4) + 1);
    return unit * 128 + p * w.B;
}

/* (M/32, 2, 16, K/8, 2, 4) permuted by (0, 3, 5, 2, 4, 1). */
static int64_t aiter_mx(where w)
{
    int64_t a = w.n / 32, b = w.n / 16 % 2, c = w.n % 16, d = w.k / 8, e = w.k / 4 % 2, f = w.k % 4;
    return (((((a * (w.K / 8) + d) * 4 + f) * 16 + c) * 2 + e) * 2 + b) * 8;
}

/* A tile of `tile_n` x `tile_k` elements, the next along k; `inside` is in bits. */
static int64_t in_tile(where w, int64_t tile_n, int64_t tile_k, int64_t inside)
{
    return (w.n / tile_n * (w.K / tile_k) + w.k / tile_k) * tile_n * tile_k * w.B + inside;
}

/* A register i, half j of lane (g, t): row g + 8 (i & 1), k = 2t + 8 (i >> 1) + j; four steps of 16
 * k. The pair of register i stands 16 bits apart in its word. */
static int64_t mma16x64(where w)
{
    for (int64_t lane = 0; lane < 32; lane++)
        for (int64_t step = 0; step < 4; step++)
            for (int64_t i = 0; i < 4; i++)
                for (int64_t j = 0; j < 2; j++) {
                    int64_t g = lane / 4, t = lane % 4;
                    if (g + 8 * (i & 1) != w.n % 16 ||
                        16 * step + 2 * t + 8 * (i >> 1) + j != w.k % 64)
                        continue;
                    if (w.B == 4)
                        return in_tile(w, 16, 64, lane * 128 + step * 32 + i * 4 + j * 16);
                    return in_tile(w, 16, 64,
                                   step / 2 * 4096 + lane * 128 + step % 2 * 64 + i / 2 * 32 +
                                       i % 2 * 8 + j * 16);
                }
    return -1;
}

/* Units of 16 rows, steps of 16 k, registers and lanes as above. In a lane's word the upper half of
 * a register stands 16 bits above its lower half; fields of narrow codes of the next steps fill the
 * bits between. A lane's load is 16 bytes, of 1-bit codes 8. */
static int64_t mma64x128(where w)
{
    int64_t unit = w.n % 64 / 16, step = w.k % 128 / 16, j = w.k % 2;
    int64_t i = w.n / 8 % 2 + w.k / 8 % 2 * 2, lane = w.n % 8 * 4 + w.k % 8 / 2, inside = 0;
    if (w.B == 8)
        inside = ((step / 2 * 4 + unit) * 32 + lane) * 128 + step % 2 * 64 + i / 2 * 32 +
                 i % 2 * 8 + j * 16;
    if (w.B == 4)
        inside = ((step / 4 * 4 + unit) * 32 + lane) * 128 + step % 4 * 32 + i * 4 + j * 16;
    if (w.B == 2)
        inside = (unit * 32 + lane) * 128 + step / 2 * 32 + step % 2 * 8 + i * 2 + j * 16;
    if (w.B == 1)
        inside = (unit * 32 + lane) * 64 + step / 4 * 32 + step % 4 * 4 + i + j * 16;
    return in_tile(w, 64, 128, inside);
}

/* Rows g and g + 8 of a unit of 16 side by side. */
static int64_t mma64_scales(where w)
{
    int32_t cell = w.B < 8 ? 8 : (int32_t)w.B;
    int64_t place = w.n % 64 / 16 * 16 + w.n % 8 * 2 + w.n / 8 % 2;
    return ((w.n / 64 * w.K + w.k) * 64 + place) * cell;
}

/* Element e of lane l: row l % rows, k = 4 (l / rows) + e, steps of `depth` k; a lane holds 16
 * bytes. Codes of 4 bits: two steps a word, pairs 16 bits apart; of 8 bits: one step a word. */
static int64_t mfma(where w, int64_t rows, int64_t depth)
{
    int64_t steps = 128 / w.B / 4;
    for (int64_t lane = 0; lane < 64; lane++)
        for (int64_t step = 0; step < steps; step++)
            for (int64_t e = 0; e < 4; e++) {
                if (lane % rows != w.n % rows ||
                    depth * step + 4 * (lane / rows) + e != w.k % (depth * steps))
                    continue;
                int64_t bit = w.B == 4   ? step / 2 * 32 + step % 2 * 8 + e / 2 * 4 + e % 2 * 16
                              : w.B == 8 ? step * 32 + e / 2 * 8 + e % 2 * 16
                                         : step * 64 + e * 16;
                return in_tile(w, rows, depth * steps, lane * 128 + bit);
            }
    return -1;
}

static int64_t mfma16(where w)
{
    return mfma(w, 16, 16);
}

static int64_t mfma32(where w)
{
    return mfma(w, 32, 8);
}

/* B of k16: int i of lane l holds B[2i][l] low and B[2i+1][l] high; of i8 k32: B[4i..4i+3][l], low
 * byte first. Lanes are columns, here n. 4 bits: two steps of 16 k in a lane's 16 bytes, pairs 16
 * bits apart; else ints 0..3 of all lanes, then ints 4..7. */
static int64_t dpas(where w, int64_t lanes)
{
    int64_t lane = w.n % lanes, k16 = w.k % 16, k32 = w.k % 32;
    if (w.B == 4)
        return in_tile(w, lanes, 32, lane * 128 + k32 / 8 * 32 + k32 % 8 / 2 * 4 + k32 % 2 * 16);
    int64_t i = w.B == 8 ? k32 / 4 : k16 / 2, low = w.B == 8 ? k32 % 4 * 8 : k16 % 2 * 16;
    return in_tile(w, lanes, w.B == 8 ? 32 : 16, (i / 4 * lanes + lane) * 128 + i % 4 * 32 + low);
}

static int64_t dpas16(where w)
{
    return dpas(w, 16);
}

static int64_t dpas8(where w)
{
    return dpas(w, 8);
}

/* 32 bits of each of 16 rows: byte k % 4, in it the field k / 4. */
static int64_t cpu16(where w)
{
    int64_t fields = 32 / w.B, k = w.k % fields;
    return in_tile(w, 16, fields, w.n % 16 * 32 + k % 4 * 8 + k / 4 * w.B);
}

static int64_t cpu16_scales(where w)
{
    int32_t cell = w.B < 8 ? 8 : w.B; /* codes narrower than a byte take a byte each */
    return ((w.n / 16 * w.K + w.k) * 16 + w.n % 16) * cell;
}

/* Nibbles of a block of 32: byte j holds element j low, j + 16 high. */
static int64_t gguf_block(where w, int64_t block, int64_t first)
{
    int64_t j = w.k % 32;
    return ((w.n * (w.K / 32) + w.k / 32) * block + first + j % 16) * 8 + j / 16 * 4;
}

static int64_t gguf_q4_0(where w)
{
    return gguf_block(w, 18, 2);
}

static int64_t gguf_q4_1(where w)
{
    return gguf_block(w, 20, 4);
}

static int64_t gguf_q8_0(where w)
{
    return ((w.n * (w.K / 32) + w.k / 32) * 34 + 2 + w.k % 32) * 8;
}

static int64_t gguf_18(where w)
{
    return (w.n * w.K + w.k) * 18 * 8;
}

static int64_t gguf_20(where w)
{
    return (w.n * w.K + w.k) * 20 * 8;
}

static int64_t gguf_20_2(where w)
{
    return gguf_20(w) + 16;
}

static int64_t gguf_34(where w)
{
    return (w.n * w.K + w.k) * 34 * 8;
}

static int64_t swizzle_128x4(where w)
{
    return 8 * ((w.n / 128 * ((w.K + 3) / 4) + w.k / 4) * 512 + w.n % 32 * 16 + w.n % 128 / 32 * 4 +
                w.k % 4);
}

/* int32 [K/16, 2N], strips of 64 n. */
static int64_t sm12x(where w)
{
    int64_t n = w.n % 64, k = w.k % 16;
    int64_t word = 128 * (w.n / 64) + 64 * (n % 16 / 8) + 8 * (n % 8) + 2 * (k / 2 % 4) + n / 32;
    return (w.k / 16 * 2 * w.N + word) * 32 + 8 * (2 * (n / 16 % 2) + k / 8) + 4 * (k % 2);
}

static const struct {
    const char *row;
    formula *place;
} formulas[] = {
    {"plain", plain},
    {"bytes", bytes},
    {"plain-kn", plain_kn},
    {"gptq", gptq},
    {"gptq-zeros", gptq_zeros},
    {"awq", awq},
    {"marlin", marlin},
    {"marlin-scales", marlin_scales},
    {"marlin-scales-row", marlin_scales_row},
    {"marlin-zeros", marlin_zeros},
    {"bitblas", bitblas},
    {"bitblas-f16", bitblas_f16},
    {"bitblas-i8", bitblas_i8},
    {"gemlite", gemlite},
    {"aiter16x16", aiter16x16},
    {"aiter-mx-scales", aiter_mx},
    {"mma16x64", mma16x64},
    {"mma64x128", mma64x128},
    {"mma64-scales", mma64_scales},
    {"mfma16x16x16", mfma16},
    {"mfma32x32x8", mfma32},
    {"dpas16", dpas16},
    {"dpas8", dpas8},
    {"cpu16", cpu16},
    {"cpu16-scales", cpu16_scales},
    {"gguf-q4_0", gguf_q4_0},
    {"gguf-q4_0-scales", gguf_18},
    {"gguf-q4_1", gguf_q4_1},
    {"gguf-q4_1-scales", gguf_20},
    {"gguf-q4_1-mins", gguf_20_2},
    {"gguf-q8_0", gguf_q8_0},
    {"gguf-q8_0-scales", gguf_34},
    {"nvfp4-scales-128x4", swizzle_128x4},
    {"nvfp4-sm12x", sm12x},
};

static formula *formula_of(const char *row)
{
    for (size_t i = 0; i < sizeof(formulas) / sizeof(formulas[0]); i++)
        if (strcmp(formulas[i].row, row) == 0)
            return formulas[i].place;
    return NULL;
}

static uint32_t *random_codes(int64_t count, int32_t bits)
{
    test_random random = {7}; /* any bits do */
    uint32_t *codes = malloc((size_t)count * sizeof(*codes));
    for (int64_t i = 0; i < count; i++)
        codes[i] = (uint32_t)(test_random_next(&random) >> (64 - bits));
    return codes;
}

/* Packs random codes and looks each up where the formula says. */
static void check(const char *row, int32_t bits, const nib_layout *layout, int64_t N, int64_t K)
{
    size_t bytes_plain, bytes_row;
    nib_layout whole;
    nib_matrix from, to;
    cr_assert_eq(nib_layout_make("bits=32 tile=n1,k1 order=nk", 32, &whole), NIB_OK);
    uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    uint32_t *codes = random_codes(N * K, bits);
    /* The same words seen as elements of `bits` bits, one in 32. */
    whole.bits = whole.plane[0].bits = bits;
    cr_assert_eq(nib_layout_total_bytes(&whole, N, K, &bytes_plain), NIB_OK);
    cr_assert_eq(bytes_plain, (size_t)(N * K) * 4);
    cr_assert_eq(nib_layout_total_bytes(layout, N, K, &bytes_row), NIB_OK);
    unsigned char *packed = calloc(1, bytes_row);
    cr_assert_eq(nib_matrix_at(&whole, codes, N, K, &from), NIB_OK);
    cr_assert_eq(nib_matrix_at(layout, packed, N, K, &to), NIB_OK);
    cr_assert_eq(nib_matrix_copy(&from, 0, 0, &to, NULL), NIB_OK, "%s", nib_last_message());
    formula *place = formula_of(row);
    for (int32_t p = 0; p < layout->planes; p++) {
        const nib_plane *plane = &layout->plane[p];
        uint32_t plane_mask = (uint32_t)((UINT64_C(1) << plane->bits) - 1);
        for (int64_t n = 0; n < N; n++)
            for (int64_t k = 0; k < K; k++) {
                int64_t bit = place((where){.N = N, .K = K, .B = plane->bits, .n = n, .k = k});
                cr_assert_geq(bit, 0);
                uint32_t have = 0;
                for (int32_t i = 0; i < plane->bits; i++) {
                    int64_t at =
                        plane->woven ? gptq_bit((where){.N = N, .n = n}, 3 * k + i) : bit + i;
                    have |= (uint32_t)(to.planes[p][at / 8] >> at % 8 & 1) << i;
                }
                uint32_t want = (codes[n * K + k] & mask) >> plane->shift & plane_mask;
                cr_assert_eq(have, want, "%s, %d bits, plane %d, (%ld, %ld)", row, bits, p, (long)n,
                             (long)k);
            }
    }
    free(codes);
    free(packed);
}

Test(layout_rows, every_row_equals_its_formula)
{
    const char *row;
    for (uint32_t i = 0; nib_layout_row(i, &row, NULL) == NIB_OK; i++) {
        cr_assert(formula_of(row), "no formula for row %s", row);
        int widths = 0;
        for (int32_t bits = 1; bits <= 32; bits++) {
            nib_layout layout;
            nib_status status = nib_layout_make(row, bits, &layout);
            if (status) {
                cr_assert_eq(status, NIB_UNSUPPORTED);
                continue;
            }
            widths++;
            int32_t n_bits = 0, k_bits = 0;
            for (int32_t p = 0; p < layout.planes; p++) {
                if (layout.plane[p].n_bits > n_bits)
                    n_bits = layout.plane[p].n_bits;
                if (layout.plane[p].k_bits > k_bits)
                    k_bits = layout.plane[p].k_bits;
            }
            check(row, bits, &layout, INT64_C(2) << n_bits, INT64_C(4) << k_bits);
            check(row, bits, &layout, INT64_C(3) << n_bits, INT64_C(6) << k_bits);
        }
        cr_assert_gt(widths, 0, "row %s exists for no width", row);
    }
}

Test(layout_rows, plain_rows_end_at_a_byte)
{
    for (int32_t bits = 1; bits <= 8; bits++)
        for (int64_t k = 1; k < 40; k++) {
            size_t size;
            nib_layout layout;
            cr_assert_eq(nib_layout_bytes("plain", bits, 3, k, &size), NIB_OK);
            cr_expect_eq(size, (size_t)(3 * ((k * bits + 7) / 8)), "%d bits, k %ld", bits, (long)k);
            cr_assert_eq(nib_layout_make("plain", bits, &layout), NIB_OK);
            check("plain", bits, &layout, 3, k);
        }
}

Test(layout_rows, the_list_ends)
{
    const char *name = "untouched", *summary = "untouched";
    cr_expect_eq(nib_layout_row(10000, &name, &summary), NIB_MISSING);
    cr_expect_str_eq(name, "untouched");
    cr_expect(strstr(nib_last_message(), "past the last"));
}
