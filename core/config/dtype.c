/* SPDX-License-Identifier: Apache-2.0
 *
 * The type table and its conversions: see dtype.h.
 */
#include "config/dtype.h"

#include "base/status.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* QLoRA, Dettmers et al. 2023, appendix E. */
static const float nf4_table[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

/* clang-format off */
#define A NIB_MAY_ACT
#define W NIB_MAY_WEIGHT
#define S NIB_MAY_SCALE
#define Z NIB_MAY_ZERO
#define O NIB_MAY_OUT
#define B NIB_MAY_BIAS

/*    type      name    bits class               may          exp man bias specials      table */
static const nib_dtype rows[] = {
    {NIB_F32,  "f32",  32, NIB_CLASS_FLOAT,    A|S|Z|O|B,    8, 23, 127, NIB_IEEE,     NULL},
    {NIB_F16,  "f16",  16, NIB_CLASS_FLOAT,    A|S|Z|O|B,    5, 10,  15, NIB_IEEE,     NULL},
    {NIB_BF16, "bf16", 16, NIB_CLASS_FLOAT,    A|S|Z|O|B,    8,  7, 127, NIB_IEEE,     NULL},
    {NIB_E4M3, "e4m3",  8, NIB_CLASS_FLOAT,    A|W|S,        4,  3,   7, NIB_NAN_ONLY, NULL},
    {NIB_E5M2, "e5m2",  8, NIB_CLASS_FLOAT,    A|W,          5,  2,  15, NIB_IEEE,     NULL},
    {NIB_E8M0, "e8m0",  8, NIB_CLASS_EXPONENT, S,            8,  0, 127, NIB_NAN_ONLY, NULL},
    {NIB_I32,  "i32",  32, NIB_CLASS_SIGNED,   O,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U1,   "u1",    1, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U2,   "u2",    2, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U3,   "u3",    3, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U4,   "u4",    4, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U5,   "u5",    5, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U6,   "u6",    6, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U7,   "u7",    7, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_U8,   "u8",    8, NIB_CLASS_UNSIGNED, W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I1,   "i1",    1, NIB_CLASS_SIGN,     W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I2,   "i2",    2, NIB_CLASS_OFFSET,   W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I3,   "i3",    3, NIB_CLASS_OFFSET,   W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I4,   "i4",    4, NIB_CLASS_OFFSET,   W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I5,   "i5",    5, NIB_CLASS_OFFSET,   W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I6,   "i6",    6, NIB_CLASS_OFFSET,   W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I7,   "i7",    7, NIB_CLASS_OFFSET,   W,            0,  0,   0, NIB_FINITE,   NULL},
    {NIB_I8,   "i8",    8, NIB_CLASS_SIGNED,   A|W,          0,  0,   0, NIB_FINITE,   NULL},
    {NIB_NF4,  "nf4",   4, NIB_CLASS_TABLE,    W,            0,  0,   0, NIB_FINITE,   nf4_table},
    {NIB_E2M1, "e2m1",  4, NIB_CLASS_FLOAT,    W,            2,  1,   1, NIB_FINITE,   NULL},
    {NIB_E3M2, "e3m2",  6, NIB_CLASS_FLOAT,    W,            3,  2,   3, NIB_FINITE,   NULL},
    {NIB_E2M3, "e2m3",  6, NIB_CLASS_FLOAT,    W,            2,  3,   1, NIB_FINITE,   NULL},
    {NIB_LUT4, "lut4",  4, NIB_CLASS_TABLE,    W,            0,  0,   0, NIB_FINITE,   NULL},
};
/* clang-format on */
#undef A
#undef W
#undef S
#undef Z
#undef O
#undef B

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

const nib_dtype *nib_dtype_row(uint32_t index)
{
    return index < ROWS ? &rows[index] : NULL;
}

const nib_dtype *nib_dtype_of(nib_type type)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

bool nib_dtype_is_integer(nib_type type)
{
    return (type >= NIB_U1 && type <= NIB_U8) || (type >= NIB_I1 && type <= NIB_I8);
}

static double decode_float(const nib_dtype *row, uint32_t code)
{
    uint32_t mantissa_mask = (1u << row->mantissa_bits) - 1;
    uint32_t exponent_mask = (1u << row->exponent_bits) - 1;
    uint32_t mantissa = code & mantissa_mask;
    uint32_t exponent = (code >> row->mantissa_bits) & exponent_mask;
    double sign = code >> (row->mantissa_bits + row->exponent_bits) & 1 ? -1.0 : 1.0;
    if (exponent == exponent_mask) {
        if (row->specials == NIB_IEEE)
            return mantissa ? NAN : sign * INFINITY;
        if (row->specials == NIB_NAN_ONLY && mantissa == mantissa_mask)
            return NAN;
    }
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - row->bias - row->mantissa_bits);
    return sign *
           ldexp(mantissa + mantissa_mask + 1.0, (int)exponent - row->bias - row->mantissa_bits);
}

double nib_dtype_decode(nib_type type, uint32_t code)
{
    const nib_dtype *row = nib_dtype_of(type);
    if (!row)
        return NAN;
    if (row->bits < 32)
        code &= (1u << row->bits) - 1;
    switch (row->class_) {
    case NIB_CLASS_FLOAT:
        return decode_float(row, code);
    case NIB_CLASS_EXPONENT:
        return code == 255 ? NAN : ldexp(1.0, (int)code - 127);
    case NIB_CLASS_UNSIGNED:
        return code;
    case NIB_CLASS_OFFSET:
        return (double)code - ldexp(1.0, row->bits - 1);
    case NIB_CLASS_SIGN:
        return code ? 1.0 : -1.0;
    case NIB_CLASS_SIGNED:
        return row->bits == 8 ? (double)(int8_t)code : (double)(int32_t)code;
    case NIB_CLASS_TABLE:
        return row->table ? row->table[code] : NAN;
    case NIB_CLASS_NONE:
        break;
    }
    return NAN;
}

/* Largest finite magnitude's code, sign aside. */
static uint32_t largest_code(const nib_dtype *row)
{
    uint32_t all = (1u << (row->exponent_bits + row->mantissa_bits)) - 1;
    if (row->specials == NIB_IEEE)
        return all - (1u << row->mantissa_bits);
    return row->specials == NIB_NAN_ONLY ? all - 1 : all;
}

static uint32_t encode_float(const nib_dtype *row, double x)
{
    uint32_t sign = signbit(x) ? 1u << (row->exponent_bits + row->mantissa_bits) : 0;
    uint32_t infinity = ((1u << row->exponent_bits) - 1) << row->mantissa_bits;
    uint32_t largest = largest_code(row);
    if (isnan(x)) {
        if (row->specials == NIB_FINITE)
            return 0;
        return row->specials == NIB_IEEE ? infinity | 1u << (row->mantissa_bits - 1) : largest + 1;
    }
    double magnitude = fabs(x);
    if (isinf(x))
        return sign | (row->specials == NIB_IEEE ? infinity : largest);
    if (magnitude == 0)
        return sign;
    int exponent = 0;
    frexp(magnitude, &exponent); /* magnitude in [2^(exponent-1), 2^exponent) */
    int least = 1 - row->bias;
    int scale = exponent - 1 < least ? least : exponent - 1;
    /* In units of the last place; nearbyint rounds to even in the default mode. A carry into the
     * next binade comes out right, because codes of magnitudes are consecutive. */
    double units = nearbyint(ldexp(magnitude, row->mantissa_bits - scale));
    double code = units + ldexp(scale - least, row->mantissa_bits);
    if (code > largest)
        return sign | (row->specials == NIB_IEEE ? infinity : largest);
    return sign | (uint32_t)code;
}

static uint32_t encode_integer(double x, double low, double high)
{
    if (isnan(x))
        return 0;
    double r = nearbyint(x);
    return (uint32_t)(int64_t)(r < low ? low : r > high ? high : r);
}

static uint32_t encode_table(const float *table, double x)
{
    uint32_t best = 0;
    for (uint32_t i = 1; table && i < 16; i++)
        if (fabs(table[i] - x) < fabs(table[best] - x))
            best = i;
    return best;
}

uint32_t nib_dtype_encode(nib_type type, double x)
{
    const nib_dtype *row = nib_dtype_of(type);
    if (!row)
        return 0;
    double half = ldexp(1.0, row->bits - 1);
    switch (row->class_) {
    case NIB_CLASS_FLOAT:
        return encode_float(row, x);
    case NIB_CLASS_EXPONENT:
        if (!(x > 0))
            return 255;
        return isinf(x) ? 254 : encode_integer(log2(x) + 127, 0, 254);
    case NIB_CLASS_UNSIGNED:
        return encode_integer(x, 0, 2 * half - 1);
    case NIB_CLASS_OFFSET:
        return encode_integer((isnan(x) ? 0 : x) + half, 0, 2 * half - 1);
    case NIB_CLASS_SIGN:
        return x >= 0;
    case NIB_CLASS_SIGNED:
        return encode_integer(x, -half, half - 1) & (row->bits == 8 ? 0xffu : 0xffffffffu);
    case NIB_CLASS_TABLE:
        return encode_table(row->table, x);
    case NIB_CLASS_NONE:
        break;
    }
    return 0;
}

double nib_dtype_load(nib_type type, const void *array, int64_t index)
{
    const unsigned char *bytes = array;
    if (type == NIB_F32) {
        float value;
        memcpy(&value, bytes + 4 * index, sizeof(value));
        return value;
    }
    if (type == NIB_I32) {
        int32_t value;
        memcpy(&value, bytes + 4 * index, sizeof(value));
        return value;
    }
    if (type == NIB_F16 || type == NIB_BF16) {
        uint16_t value;
        memcpy(&value, bytes + 2 * index, sizeof(value));
        return nib_dtype_decode(type, value);
    }
    return nib_dtype_decode(type, bytes[index]);
}

void nib_dtype_store(nib_type type, void *array, int64_t index, double value)
{
    unsigned char *bytes = array;
    if (type == NIB_F32) {
        float narrow = (float)value;
        memcpy(bytes + 4 * index, &narrow, sizeof(narrow));
        return;
    }
    uint32_t code = nib_dtype_encode(type, value);
    if (type == NIB_I32) {
        memcpy(bytes + 4 * index, &code, sizeof(code));
    } else if (type == NIB_F16 || type == NIB_BF16) {
        uint16_t half = (uint16_t)code;
        memcpy(bytes + 2 * index, &half, sizeof(half));
    } else {
        bytes[index] = (unsigned char)code;
    }
}

/* Decode tables, filled once: 256 floats a row is the most any needs. */
static float tables[ROWS][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (int i = 0; i < ROWS; i++)
        for (uint32_t code = 0; rows[i].bits <= 8 && code < 1u << rows[i].bits; code++)
            tables[i][code] = (float)nib_dtype_decode(rows[i].type, code);
}

const float *nib_dtype_table(nib_type type)
{
    const nib_dtype *row = nib_dtype_of(type);
    if (!row || row->bits > 8 || type == NIB_LUT4)
        return NULL;
    pthread_once(&tables_once, fill_tables);
    return tables[row - rows];
}

int32_t nib_type_bits(nib_type type)
{
    const nib_dtype *row = nib_dtype_of(type);
    return row ? row->bits : 0;
}

const char *nib_type_name(nib_type type)
{
    if (type == NIB_TYPE_NONE)
        return "none";
    const nib_dtype *row = nib_dtype_of(type);
    return row ? row->name : "?";
}

nib_status nib_type_parse(const char *name, nib_type *type)
{
    if (!name || !type)
        return nib_fail(NIB_INVALID, "%s is NULL",
                        name ? "the place for the type" : "the type name");
    if (!strcmp(name, "none")) {
        *type = NIB_TYPE_NONE;
        return NIB_OK;
    }
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) {
            *type = rows[i].type;
            return NIB_OK;
        }
    return nib_fail(NIB_INVALID, "'%s' is no type: expected one such as f16, bf16, u4, i8 or e2m1",
                    name);
}

float nib_type_decode(nib_type type, uint32_t code)
{
    const nib_dtype *row = nib_dtype_of(type);
    if (!row || row->bits > 8)
        return NAN;
    return (float)nib_dtype_decode(type, code);
}
