/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of element types, one row a type, and conversions between them and numbers. A new
 * weight type is a row here: name, bits, class and how its codes decode.
 */
#ifndef NIB_CONFIG_DTYPE_H
#define NIB_CONFIG_DTYPE_H

#include <nibblas/nibblas.h>
#include <stdbool.h>

/* What a type may be used for. */
enum {
    NIB_MAY_ACT = 1 << 0,
    NIB_MAY_WEIGHT = 1 << 1,
    NIB_MAY_SCALE = 1 << 2,
    NIB_MAY_ZERO = 1 << 3,
    NIB_MAY_OUT = 1 << 4,
    NIB_MAY_BIAS = 1 << 5
};

typedef enum nib_code_class {
    NIB_CLASS_NONE = 0,
    NIB_CLASS_FLOAT,    /* sign, exponent, mantissa as the row's fields say */
    NIB_CLASS_EXPONENT, /* e8m0 */
    NIB_CLASS_UNSIGNED,
    NIB_CLASS_OFFSET, /* value = code - 2^(bits-1) */
    NIB_CLASS_SIGN,   /* i1: -1, +1 */
    NIB_CLASS_SIGNED, /* two's complement */
    NIB_CLASS_TABLE   /* nf4; lut4, whose table comes with the weights */
} nib_code_class;

/* How a float format uses its highest exponent. */
typedef enum nib_specials { NIB_IEEE, NIB_NAN_ONLY, NIB_FINITE } nib_specials;

typedef struct nib_dtype {
    nib_type type;
    const char *name;
    int32_t bits;
    nib_code_class class_;
    uint32_t may;
    /* FLOAT only. */
    int32_t exponent_bits, mantissa_bits, bias;
    nib_specials specials;
    const float *table; /* TABLE only; NULL for lut4 */
} nib_dtype;

/* The row of a type, NULL if the number names none. */
const nib_dtype *nib_dtype_of(nib_type type);
/* Rows by index, NULL past the last. */
const nib_dtype *nib_dtype_row(uint32_t index);

static inline bool nib_dtype_may(nib_type type, uint32_t use)
{
    const nib_dtype *row = nib_dtype_of(type);
    return row && (row->may & use) == use;
}

/* True for u1..u8 and i1..i8: codes that are integers. */
bool nib_dtype_is_integer(nib_type type);

/* Value of an element held in the low bits of `code`, exact. NaN for lut4 and unknown types. */
double nib_dtype_decode(nib_type type, uint32_t code);

/* Nearest element to x, ties to even, one rounding. Formats with infinity overflow to it; formats
 * without saturate; NaN becomes the format's NaN, or 0 where there is none. Integers saturate. e8m0
 * takes the nearest power of two and NaN for x <= 0. TABLE types have no encode: the nearest entry
 * of nf4, 0 for lut4. */
uint32_t nib_dtype_encode(nib_type type, double x);

/* Element `index` of an array of a type of 8, 16 or 32 bits. */
double nib_dtype_load(nib_type type, const void *array, int64_t index);
void nib_dtype_store(nib_type type, void *array, int64_t index, double value);

/* Values of all codes of a type of at most 8 bits (2^bits floats), NULL for others and lut4. */
const float *nib_dtype_table(nib_type type);

#endif
