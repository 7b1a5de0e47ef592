/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids: nearest codes for runs of weights, and the plain bit stream they are kept in. Encoding is
 * the inner loop of every quantiser, so each class of codes has its own short loop without calls.
 */
#include "quantize/quantize.h"

#include <math.h>
#include <string.h>

void nib_grid_make(nib_type type, nib_grid *out)
{
    const nib_dtype *row = nib_dtype_of(type);
    memset(out, 0, sizeof(*out));
    out->type = type;
    out->bits = row->bits;
    out->class_ = row->class_;
    out->low = -1;
    out->high = 1;
    out->mantissa_bits = row->mantissa_bits;
    out->least_exponent = 1 - row->bias;
    if (row->class_ == NIB_CLASS_OFFSET)
        out->base = -(1 << (row->bits - 1));
    if (type == NIB_LUT4)
        return;
    memcpy(out->value, nib_dtype_table(type), sizeof(float) << row->bits);
    out->low = INFINITY;
    out->high = -INFINITY;
    for (int32_t code = 0; code < 1 << row->bits; code++) {
        float value = out->value[code];
        if (!isfinite(value))
            continue;
        out->low = fminf(out->low, value);
        out->high = fmaxf(out->high, value);
    }
    if (type == NIB_NF4)
        nib_grid_set_table(out, row->table);
}

void nib_grid_set_table(nib_grid *grid, const float *table)
{
    memcpy(grid->value, table, 16 * sizeof(float));
    for (int i = 0; i < 15; i++)
        grid->middle[i] = (table[i] + table[i + 1]) / 2;
}

/* Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to an integer, ties to even. */
static const float to_integer = 12582912.0f;

static void encode_integer(const nib_grid *g, const float *w, int32_t count, float shift, float mul,
                           uint8_t *codes)
{
    for (int32_t i = 0; i < count; i++) {
        float x = (w[i] - shift) * mul;
        x = x < g->low ? g->low : x;
        x = x > g->high ? g->high : x;
        int32_t value = (int32_t)((x + to_integer) - to_integer);
        codes[i] = (uint8_t)(value - g->base);
    }
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* A magnitude with exponent e (at least the least normal one) is a whole number of units of
 * 2^(e - mantissa_bits); codes of magnitudes are consecutive, so a carry comes out right. */
static void encode_float(const nib_grid *g, const float *w, int32_t count, float shift, float mul,
                         uint8_t *codes)
{
    for (int32_t i = 0; i < count; i++) {
        float x = (w[i] - shift) * mul;
        float magnitude = fabsf(x) > g->high ? g->high : fabsf(x);
        int32_t exponent = (int32_t)(bits_of(magnitude) >> 23) - 127;
        exponent = exponent < g->least_exponent ? g->least_exponent : exponent;
        float unit = float_of((uint32_t)(127 + g->mantissa_bits - exponent) << 23);
        uint32_t units = (uint32_t)((magnitude * unit + to_integer) - to_integer);
        uint32_t code = units + ((uint32_t)(exponent - g->least_exponent) << g->mantissa_bits);
        codes[i] = (uint8_t)(code | (bits_of(x) >> 31) << (g->bits - 1));
    }
}

static void encode_table(const nib_grid *g, const float *w, int32_t count, float shift, float mul,
                         uint8_t *codes)
{
    for (int32_t i = 0; i < count; i++) {
        float x = (w[i] - shift) * mul;
        int32_t code = 0;
        for (int j = 0; j < 15; j++)
            code += x > g->middle[j];
        codes[i] = (uint8_t)code;
    }
}

void nib_grid_encode(const nib_grid *grid, const float *w, int32_t count, const nib_affine *map,
                     uint8_t *codes)
{
    switch (grid->class_) {
    case NIB_CLASS_FLOAT:
        encode_float(grid, w, count, map->shift, map->mul, codes);
        return;
    case NIB_CLASS_TABLE:
        encode_table(grid, w, count, map->shift, map->mul, codes);
        return;
    case NIB_CLASS_SIGN:
        for (int32_t i = 0; i < count; i++)
            codes[i] = (w[i] - map->shift) * map->mul >= 0;
        return;
    default:
        encode_integer(grid, w, count, map->shift, map->mul, codes);
    }
}

void nib_bits_put(nib_bit_writer *writer, const uint8_t *codes, int32_t count)
{
    int32_t bits = writer->bits, i = 0;
    if (bits == 8) {
        memcpy(writer->out, codes, (size_t)count);
        writer->out += count;
        return;
    }
    if (bits == 4 && !writer->count)
        for (; i + 1 < count; i += 2)
            *writer->out++ = (unsigned char)(codes[i] | codes[i + 1] << 4);
    for (; i < count; i++) {
        writer->held |= (uint64_t)codes[i] << writer->count;
        writer->count += bits;
        if (writer->count >= 8) {
            *writer->out++ = (unsigned char)writer->held;
            writer->held >>= 8;
            writer->count -= 8;
        }
    }
}

void nib_bits_end(nib_bit_writer *writer)
{
    if (writer->count)
        *writer->out++ = (unsigned char)writer->held;
    writer->held = 0;
    writer->count = 0;
}

void nib_bits_get(const unsigned char *row, int32_t bits, int64_t first, int32_t count,
                  uint8_t *codes)
{
    uint32_t mask = (1u << bits) - 1;
    for (int32_t i = 0; i < count; i++) {
        int64_t at = (first + i) * bits;
        int32_t skip = (int32_t)(at & 7);
        uint32_t two = row[at >> 3];
        if (skip + bits > 8) /* else the next byte may lie past the row */
            two |= (uint32_t)row[(at >> 3) + 1] << 8;
        codes[i] = (uint8_t)(two >> skip & mask);
    }
}
