/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of wgmma: operands by descriptor or from registers, sums by tensor.c's rules. With
 * g = lane / 4, t = lane % 4 and E elements in 32 bits, warp w of the group has rows 16 w and up:
 *   A register i: row g + 8 (i & 1), k = t E + 4 E (i >> 1) + j, as mma.sync's
 *   D register j of f32 or s32: row g + 8 (j >> 1 & 1), column 8 (j >> 2) + 2 t + (j & 1)
 * All measured on an H200. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
 */
#include "wgmma.h"

#include "number.h"
#include "tensor.h"

enum { TILES = SIM_MOST_N / SIM_TILE_N, COLUMN = 16 /* bytes */ };

/* ---- descriptors ---- */

bool sim_matrix_decode(uint64_t d, sim_matrix *out, const char **why)
{
    static const uint8_t masks[] = {0, 7, 3, 1};
    /* Bits 14, 15, 30, 31, 46 to 48 and 52 to 61 mean nothing. */
    const uint64_t unused = UINT64_C(0x3ff1c000c000c000);
    *out = (sim_matrix){.start = (uint32_t)(d & 0x3fff) << 4,
                        .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
                        .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                        .mask = masks[d >> 62],
                        .base = (uint32_t)(d >> 49 & 7)};
    *why = (d & unused) != 0 ? "it has bits that mean nothing" : "an unswizzled one has no offset";
    return (d & unused) == 0 && !(out->mask == 0 && out->base != 0);
}

/* The swizzle moves 16-byte columns by bits 7 and up of their address; a base offset says at which
 * of eight lines of 128 bytes the pattern begins. */
uint32_t sim_matrix_at(const sim_matrix *m, uint32_t row, uint32_t column)
{
    if (m->mask == 0) {
        return m->start + row / 8 * m->stride + column * m->leading + row % 8 * COLUMN;
    }
    const uint32_t width = (m->mask + 1) * COLUMN; /* of the swizzled rows */
    const uint32_t at = m->start + row / 8 * m->stride + row % 8 * width + column * COLUMN;
    return at ^ (((at >> 7) - m->base) & m->mask) * COLUMN;
}

/* 32 bytes of a row. Addresses wrap in the 18 bits that descriptors have. */
static void read_row(const sim_block *block, const sim_matrix *m, uint32_t row, uint8_t *out)
{
    for (uint32_t column = 0; column < SIM_ROW_BYTES / COLUMN; ++column) {
        const uint32_t at = sim_matrix_at(m, row, column) - SIM_SHARED_BASE;
        memcpy(out + column * COLUMN, block->shared + at, COLUMN);
    }
}

/* ---- operands ---- */

typedef struct operands {
    sim_tile_a a[SIM_GROUP_WARPS];
    sim_tile_b b[TILES];
} operands;

static uint16_t code_of(const uint8_t *row, int k, unsigned bits, uint16_t flip)
{
    const uint32_t low = row[bits == 16 ? 2 * k : k], high = bits == 16 ? row[2 * k + 1] : 0;
    return (uint16_t)((low | high << 8) ^ flip);
}

/* A minus sign of a whole operand. */
static uint16_t flip_of(const sim_insn *in, uint8_t side, unsigned bits)
{
    return (uint16_t)((in->mode & side) != 0 ? 1u << (bits - 1) : 0);
}

static void register_row(const sim_warp *warp, const sim_operand *a, int row, uint8_t *out)
{
    for (int word = 0; word < SIM_ROW_BYTES / 4; ++word) {
        const int t = word % 4, i = (row >> 3) + 2 * (word / 4);
        const uint32_t value = (uint32_t)sim_value(warp, &a->element[i], row % 8 * 4 + t);
        memcpy(out + word * 4, &value, sizeof value);
    }
}

static void read_a(const sim_block *block, uint32_t group, const sim_product *p, operands *x)
{
    const unsigned bits = sim_type_bits((enum sim_type)p->in->from);
    const int k_size = (int)(SIM_ROW_BYTES * 8 / bits);
    const uint16_t flip = flip_of(p->in, 1, bits);
    const sim_operand *a = &p->in->arg[1];
    sim_matrix m;
    const char *why;
    sim_matrix_decode(p->a, &m, &why);
    for (uint32_t w = 0; w < SIM_GROUP_WARPS; ++w) {
        sim_tile_a *tile = &x->a[w];
        tile->type = (enum sim_type)p->in->from;
        for (uint32_t row = 0; row < SIM_TILE_M; ++row) {
            uint8_t bytes[SIM_ROW_BYTES];
            if (a->kind == SIM_VECTOR) {
                register_row(&block->warp[group * SIM_GROUP_WARPS + w], a, (int)row, bytes);
            } else {
                read_row(block, &m, w * SIM_TILE_M + row, bytes);
            }
            for (int k = 0; k < k_size; ++k) {
                tile->code[row][k] = code_of(bytes, k, bits, flip);
            }
        }
    }
}

static void read_b(const sim_block *block, const sim_product *p, operands *x)
{
    const unsigned bits = sim_type_bits((enum sim_type)p->in->mode2);
    const int k_size = (int)(SIM_ROW_BYTES * 8 / bits);
    const uint16_t flip = flip_of(p->in, 2, bits);
    sim_matrix m;
    const char *why;
    sim_matrix_decode(p->b, &m, &why);
    for (uint32_t n = 0; n < p->in->target; ++n) {
        sim_tile_b *tile = &x->b[n / SIM_TILE_N];
        uint8_t bytes[SIM_ROW_BYTES];
        tile->type = (enum sim_type)p->in->mode2;
        read_row(block, &m, n, bytes);
        for (int k = 0; k < k_size; ++k) {
            tile->code[k][n % SIM_TILE_N] = code_of(bytes, k, bits, flip);
        }
    }
}

/* ---- accumulators: as four (f16: two) registers of mma.sync for each eight columns ---- */

static uint32_t *row_of(sim_warp *warp, const sim_operand *d, uint32_t index)
{
    return warp->regs + d->element[index].slot;
}

static void read_sums(sim_warp *warp, const sim_product *p, uint32_t tile, sim_tile_c *c)
{
    const sim_operand *d = &p->in->arg[0];
    const bool half = p->in->type == SIM_F16;
    memset(c->addend, 0, sizeof c->addend);
    for (uint32_t j = 0; j < 4 && p->adds; ++j) {
        const uint32_t *from = row_of(warp, d, half ? tile * 2 + (j >> 1) : tile * 4 + j);
        for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
            c->addend[lane / 4 + 8 * (j >> 1)][2 * (lane % 4) + (j & 1)] =
                half ? sim_from_f16(from[lane] >> (16 * (j & 1)) & 0xffff) : sim_f32(from[lane]);
        }
    }
}

static void write_sums(sim_warp *warp, const sim_product *p, uint32_t tile, const sim_tile_c *c,
                       unsigned kept)
{
    const sim_operand *d = &p->in->arg[0];
    for (uint32_t j = 0; j < 4; ++j) {
        const bool half = p->in->type == SIM_F16;
        uint32_t *to = row_of(warp, d, half ? tile * 2 + (j >> 1) : tile * 4 + j);
        for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
            const double sum = c->sum[lane / 4 + 8 * (j >> 1)][2 * (lane % 4) + (j & 1)];
            if (!half) {
                to[lane] = sim_bits32(sim_tensor_f32(sum, kept));
            } else if ((j & 1) == 0) {
                to[lane] = sim_tensor_f16(sum);
            } else {
                to[lane] |= sim_tensor_f16(sum) << 16;
            }
        }
    }
}

/* ---- products ---- */

static const sim_tensor_rule wide_rule = {25, 24, 16};
static const sim_tensor_rule narrow_rule = {13, 14, 32};

static void compute_floats(sim_block *block, uint32_t group, const sim_product *p, operands *x)
{
    const bool narrow = sim_type_bits((enum sim_type)p->in->from) == 8;
    const sim_tensor_rule *rule = narrow ? &narrow_rule : &wide_rule;
    const int k_size = narrow ? SIM_ROW_BYTES : SIM_ROW_BYTES / 2;
    sim_tile_c c;
    for (uint32_t w = 0; w < SIM_GROUP_WARPS; ++w) {
        sim_tile_split_a(&x->a[w], k_size);
    }
    for (uint32_t tile = 0; tile < p->in->target / SIM_TILE_N; ++tile) {
        sim_tile_split_b(&x->b[tile], k_size);
        for (uint32_t w = 0; w < SIM_GROUP_WARPS; ++w) {
            sim_warp *warp = &block->warp[group * SIM_GROUP_WARPS + w];
            read_sums(warp, p, tile, &c);
            sim_tile_multiply(&x->a[w], &x->b[tile], k_size, &c, rule);
            write_sums(warp, p, tile, &c, rule->kept);
        }
    }
}

static int32_t integer(enum sim_type type, uint16_t code)
{
    return type == SIM_S8 ? (int8_t)code : (int32_t)code;
}

static void integer_tile(const sim_tile_a *a, const sim_tile_b *b,
                         int32_t sum[SIM_TILE_M][SIM_TILE_N])
{
    int32_t column[SIM_ROW_BYTES][SIM_TILE_N];
    memset(sum, 0, SIM_TILE_M * sizeof sum[0]);
    for (int k = 0; k < SIM_ROW_BYTES; ++k) {
        for (int n = 0; n < SIM_TILE_N; ++n) {
            column[k][n] = integer(b->type, b->code[k][n]);
        }
    }
    for (int row = 0; row < SIM_TILE_M; ++row) {
        for (int k = 0; k < SIM_ROW_BYTES; ++k) {
            const int32_t factor = integer(a->type, a->code[row][k]);
            for (int n = 0; n < SIM_TILE_N; ++n) {
                sum[row][n] += factor * column[k][n];
            }
        }
    }
}

static uint32_t add_integers(const sim_insn *in, uint32_t addend, int32_t sum)
{
    const int64_t whole = (int64_t)(int32_t)addend + sum;
    return !in->sat ? (uint32_t)whole
                    : (uint32_t)(whole > INT32_MAX   ? INT32_MAX
                                 : whole < INT32_MIN ? INT32_MIN
                                                     : whole);
}

static void compute_integers(sim_block *block, uint32_t group, const sim_product *p,
                             const operands *x)
{
    int32_t sum[SIM_TILE_M][SIM_TILE_N];
    for (uint32_t tile = 0; tile < p->in->target / SIM_TILE_N; ++tile) {
        for (uint32_t w = 0; w < SIM_GROUP_WARPS; ++w) {
            sim_warp *warp = &block->warp[group * SIM_GROUP_WARPS + w];
            integer_tile(&x->a[w], &x->b[tile], sum);
            for (uint32_t j = 0; j < 4; ++j) {
                uint32_t *to = row_of(warp, &p->in->arg[0], tile * 4 + j);
                for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
                    to[lane] = add_integers(p->in, p->adds ? to[lane] : 0,
                                            sum[lane / 4 + 8 * (j >> 1)][2 * (lane % 4) + (j & 1)]);
                }
            }
        }
    }
}

void sim_product_compute(sim_block *block, uint32_t group, const sim_product *p)
{
    static _Thread_local operands x;
    const unsigned bits = sim_type_bits((enum sim_type)p->in->from);
    read_a(block, group, p, &x);
    read_b(block, p, &x);
    if (p->in->type == SIM_S32) {
        compute_integers(block, group, p, &x);
    } else {
        compute_floats(block, group, p, &x);
    }
    block->macs += (uint64_t)SIM_GROUP_M * p->in->target * (SIM_ROW_BYTES * 8 / bits);
}
