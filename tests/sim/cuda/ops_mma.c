/* SPDX-License-Identifier: Apache-2.0
 *
 * mma.sync m16n8: f16, bf16, e4m3, e5m2 and integers. With g = lane / 4, t = lane % 4 and E
 * elements in a register: A register i: row g + 8 (i & 1), k = t E + 4 E (i >> 1) + j B register i:
 * column g, k = t E + 4 E i + j C and D j: row g + 8 (j >> 1), column 2 t + (j & 1) Rules of sums:
 * measured on an H200 for f16, bf16, e4m3 and integers; sm_89's fp8 is taken to be as Hopper's
 * wgmma, which keeps 14 bits. PTX ISA, "mma".
 */
#include "decode.h"
#include "machine.h"
#include "number.h"
#include "tensor.h"

enum { SATURATE = 1 };

/* Registers of a fragment: up to four rows of lanes. */
typedef struct fragment {
    uint32_t lane[4][SIM_LANES];
} fragment;

static void read_fragment(const sim_warp *warp, const sim_operand *vector, fragment *out)
{
    for (uint32_t i = 0; i < vector->elements; ++i) {
        const sim_operand *o = &vector->element[i];
        if (o->width == 32) {
            memcpy(out->lane[i], sim_row32(warp, o), sizeof out->lane[i]);
        } else {
            uint64_t wide[SIM_LANES];
            sim_values(warp, o, wide);
            for (int lane = 0; lane < SIM_LANES; ++lane) {
                out->lane[i][lane] = (uint32_t)wide[lane];
            }
        }
    }
}

static uint32_t element_of(uint32_t word, int index, unsigned bits)
{
    return word >> ((unsigned)index * bits) & ((1u << bits) - 1);
}

/* ---- integers: exact, and then 32 bits of it ---- */

static int32_t integer(enum sim_type type, uint32_t code)
{
    const unsigned bits = sim_type_bits(type);
    return sim_type_signed(type) ? (int32_t)(code << (32 - bits)) >> (32 - bits) : (int32_t)code;
}

static enum sim_step exec_integer(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const enum sim_type a_type = (enum sim_type)in->from, b_type = (enum sim_type)in->mode2;
    const unsigned bits = sim_type_bits(a_type);
    const int elements = (int)(32 / bits), k_size = in->vector;
    static _Thread_local int32_t a[SIM_TILE_M][SIM_TILE_K], b[SIM_TILE_K][SIM_TILE_N];
    fragment fa, fb, fc;
    read_fragment(warp, &in->arg[1], &fa);
    read_fragment(warp, &in->arg[2], &fb);
    read_fragment(warp, &in->arg[3], &fc);
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < k_size / (4 * elements); ++i) {
            for (int j = 0; j < elements; ++j) {
                const int k = (t + 4 * i) * elements + j;
                a[g][k] = integer(a_type, element_of(fa.lane[2 * i][lane], j, bits));
                a[g + 8][k] = integer(a_type, element_of(fa.lane[2 * i + 1][lane], j, bits));
                b[k][g] = integer(b_type, element_of(fb.lane[i][lane], j, bits));
            }
        }
    }
    int32_t sum[SIM_TILE_M][SIM_TILE_N] = {{0}};
    for (int row = 0; row < SIM_TILE_M; ++row) {
        for (int k = 0; k < k_size; ++k) {
            for (int n = 0; n < SIM_TILE_N; ++n) {
                sum[row][n] += a[row][k] * b[k][n];
            }
        }
    }
    for (int j = 0; j < 4; ++j) {
        uint32_t r[SIM_LANES];
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            const int32_t part = sum[lane / 4 + 8 * (j >> 1)][2 * (lane % 4) + (j & 1)];
            const int64_t whole = (int64_t)part + (int32_t)fc.lane[j][lane];
            r[lane] = (uint32_t)whole;
            if (in->mode == SATURATE) {
                r[lane] = (uint32_t)(whole > INT32_MAX   ? INT32_MAX
                                     : whole < INT32_MIN ? INT32_MIN
                                                         : whole);
            }
        }
        sim_put32(warp, &in->arg[0].element[j], mask, r);
    }
    warp->block->macs += (uint64_t)SIM_TILE_M * SIM_TILE_N * (uint64_t)k_size;
    return SIM_NEXT;
}

/* ---- floats ---- */

static const sim_tensor_rule wide_rule = {25, 24, 16};
static const sim_tensor_rule narrow_rule = {13, 14, 32};

/* Hopper multiplies fp8 as f16, bytes 0 and 1 of all registers first. */
static int fp8_order(int k)
{
    return (k % 4 >> 1) * 16 + k / 4 * 2 + (k & 1);
}

typedef struct operands {
    sim_tile_a a;
    sim_tile_b b;
    sim_tile_c c;
    int k;
} operands;

static void fill_tile(const sim_insn *in, const fragment *fa, const fragment *fb, bool reorder,
                      operands *tile)
{
    const unsigned bits = sim_type_bits((enum sim_type)in->from);
    const int elements = (int)(32 / bits);
    tile->a.type = (enum sim_type)in->from;
    tile->b.type = (enum sim_type)in->mode2;
    tile->k = in->vector;
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < tile->k / (4 * elements); ++i) {
            for (int j = 0; j < elements; ++j) {
                const int at = (t + 4 * i) * elements + j, k = reorder ? fp8_order(at) : at;
                tile->a.code[g][k] = (uint16_t)element_of(fa->lane[2 * i][lane], j, bits);
                tile->a.code[g + 8][k] = (uint16_t)element_of(fa->lane[2 * i + 1][lane], j, bits);
                tile->b.code[k][g] = (uint16_t)element_of(fb->lane[i][lane], j, bits);
            }
        }
    }
    sim_tile_split_a(&tile->a, tile->k);
    sim_tile_split_b(&tile->b, tile->k);
}

/* Column and row of element j of a lane's accumulators. */
static float *accumulator(sim_tile_c *c, int lane, int j)
{
    return &c->addend[lane / 4 + 8 * (j >> 1)][2 * (lane % 4) + (j & 1)];
}

static void read_accumulators(const fragment *fc, bool half, sim_tile_c *c)
{
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        for (int j = 0; j < 4; ++j) {
            *accumulator(c, lane, j) =
                half ? sim_from_f16(element_of(fc->lane[j >> 1][lane], j & 1, 16))
                     : sim_f32(fc->lane[j][lane]);
        }
    }
}

static void write_accumulators(sim_warp *warp, const sim_insn *in, uint32_t mask,
                               const sim_tile_c *c, unsigned kept)
{
    const bool half = in->type == SIM_F16;
    uint32_t r[4][SIM_LANES] = {{0}};
    for (int lane = 0; lane < SIM_LANES; ++lane) {
        for (int j = 0; j < 4; ++j) {
            const double sum = c->sum[lane / 4 + 8 * (j >> 1)][2 * (lane % 4) + (j & 1)];
            if (half) {
                r[j >> 1][lane] |= sim_tensor_f16(sum) << (16 * (j & 1));
            } else {
                r[j][lane] = sim_bits32(sim_tensor_f32(sum, kept));
            }
        }
    }
    for (int i = 0; i < (half ? 2 : 4); ++i) {
        sim_put32(warp, &in->arg[0].element[i], mask, r[i]);
    }
}

static enum sim_step exec_float(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    static _Thread_local operands tile;
    const bool fp8 = sim_type_bits((enum sim_type)in->from) == 8;
    const bool narrow = fp8 && warp->block->config->capability == 89;
    const bool emulated = fp8 && !narrow;
    const sim_tensor_rule *rule = narrow ? &narrow_rule : &wide_rule;
    fragment fa, fb, fc;
    read_fragment(warp, &in->arg[1], &fa);
    read_fragment(warp, &in->arg[2], &fb);
    read_fragment(warp, &in->arg[3], &fc);
    fill_tile(in, &fa, &fb, emulated, &tile);
    if (emulated) {
        memset(&tile.c, 0, sizeof tile.c);
    } else {
        read_accumulators(&fc, in->type == SIM_F16, &tile.c);
    }
    sim_tile_multiply(&tile.a, &tile.b, tile.k, &tile.c, rule);
    if (emulated) {
        read_accumulators(&fc, in->type == SIM_F16, &tile.c);
        for (int row = 0; row < SIM_TILE_M; ++row) {
            for (int n = 0; n < SIM_TILE_N; ++n) {
                const float sum = sim_tensor_f32(tile.c.sum[row][n], rule->kept);
                tile.c.sum[row][n] = sim_f32(sim_result32(tile.c.addend[row][n] + sum));
            }
        }
    }
    write_accumulators(warp, in, mask, &tile.c, rule->kept);
    warp->block->macs += (uint64_t)SIM_TILE_M * SIM_TILE_N * (uint64_t)tile.k;
    return SIM_NEXT;
}

/* ---- decoding ---- */

static bool vector_of(const sim_operand *o, unsigned count)
{
    if (o->kind != SIM_VECTOR || o->elements != count) {
        return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        const sim_operand *e = &o->element[i];
        if (!(e->kind == SIM_IMMEDIATE || (e->kind == SIM_REGISTER && e->width == 32))) {
            return false;
        }
    }
    return true;
}

static bool decode_types(sim_linker *linker, sim_insn *in, enum sim_type c)
{
    const enum sim_type a = (enum sim_type)in->from, b = (enum sim_type)in->mode2;
    const bool floats = in->type == SIM_F32 || in->type == SIM_F16;
    const unsigned target = linker->module->target;
    if (in->type != c) {
        return false;
    }
    switch (a) {
    case SIM_F16:
        return b == a && floats;
    case SIM_BF16:
        return b == a && in->type == SIM_F32;
    case SIM_E4M3:
    case SIM_E5M2:
        if (target < 89) {
            return sim_parse_fail(linker, "8-bit floats need sm_89");
        }
        return (b == SIM_E4M3 || b == SIM_E5M2) && floats && in->vector == 32;
    case SIM_S8:
    case SIM_U8:
        return (b == SIM_S8 || b == SIM_U8) && in->type == SIM_S32;
    case SIM_S4:
    case SIM_U4:
        return (b == SIM_S4 || b == SIM_U4) && in->type == SIM_S32;
    default:
        return false;
    }
}

bool sim_decode_mma(sim_linker *linker, sim_insn *in)
{
    static const char *const shapes[] = {"m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64", NULL};
    const bool form = sim_take(linker, "sync") && sim_take(linker, "aligned");
    const int shape = sim_take_of(linker, shapes);
    const bool order = sim_take(linker, "row") && sim_take(linker, "col");
    in->mode = sim_take(linker, "satfinite") ? SATURATE : 0;
    in->type = (uint8_t)sim_take_type(linker);
    in->from = (uint8_t)sim_take_type(linker);
    in->mode2 = (uint8_t)sim_take_type(linker);
    const enum sim_type c = sim_take_type(linker);
    in->vector = (uint8_t)(shape < 0 ? 0 : 8 << shape);
    in->need = SIM_NEED_ALL;
    if (!form || !order || shape < 0 || in->args != 4 || !decode_types(linker, in, c)) {
        return false;
    }
    const unsigned bits = sim_type_bits((enum sim_type)in->from);
    const unsigned per_step = 4 * 32 / bits; /* k that one register of B covers */
    const unsigned steps = in->vector / per_step, sums = in->type == SIM_F16 ? 2 : 4;
    in->exec = in->type == SIM_S32 ? exec_integer : exec_float;
    if ((steps != 1 && steps != 2) || !vector_of(&in->arg[0], sums) ||
        !vector_of(&in->arg[1], 2 * steps) || !vector_of(&in->arg[2], steps) ||
        !vector_of(&in->arg[3], sums)) {
        return sim_parse_fail(linker, "the fragments are not of this shape");
    }
    return sim_operands(linker, in, "vVVV");
}
