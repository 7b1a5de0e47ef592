/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats: see number.h.
 */
#include "number.h"

static const sim_format formats[SIM_TYPES] = {
    [SIM_F16] = {5, 10, 15, 2, false},   [SIM_F16X2] = {5, 10, 15, 2, false},
    [SIM_BF16] = {8, 7, 127, 2, false},  [SIM_BF16X2] = {8, 7, 127, 2, false},
    [SIM_TF32] = {8, 10, 127, 2, false}, [SIM_F32] = {8, 23, 127, 2, false},
    [SIM_E4M3] = {4, 3, 7, 1, false},    [SIM_E4M3X2] = {4, 3, 7, 1, false},
    [SIM_E5M2] = {5, 2, 15, 2, false},   [SIM_E5M2X2] = {5, 2, 15, 2, false},
    [SIM_E2M1X2] = {2, 1, 1, 0, false},  [SIM_E2M3X2] = {2, 3, 1, 0, false},
    [SIM_E3M2X2] = {3, 2, 3, 0, false},  [SIM_UE8M0X2] = {8, 0, 127, 1, true},
};

const sim_format *sim_format_of(enum sim_type type)
{
    return formats[type].exponent != 0 ? &formats[type] : NULL;
}

double sim_format_decode(const sim_format *format, uint32_t code)
{
    const unsigned m = format->mantissa, e = format->exponent;
    const uint32_t mantissa = code & ((1u << m) - 1), top = (1u << e) - 1;
    const uint32_t exponent = code >> m & top;
    const bool negative = !format->unsign && (code >> (m + e) & 1) != 0;
    double value;
    if (format->special == 2 && exponent == top) {
        value = mantissa != 0 ? NAN : INFINITY;
    } else if (format->special == 1 && exponent == top && mantissa == (1u << m) - 1) {
        value = NAN;
    } else if (exponent == 0 && !format->unsign) {
        value = ldexp(mantissa, 1 - format->bias - (int)m);
    } else {
        value = ldexp((double)mantissa + (1u << m), (int)exponent - format->bias - (int)m);
    }
    return negative ? -value : value;
}

static uint32_t format_nan(const sim_format *format)
{
    return (1u << (format->exponent + format->mantissa)) - 1;
}

static uint32_t format_largest(const sim_format *format)
{
    const uint32_t all = format_nan(format);
    return format->special == 2 ? all - (1u << format->mantissa) : all - format->special;
}

static double round_magnitude(double value, bool negative, enum sim_round round)
{
    const double down = floor(value), rest = value - down;
    switch (round) {
    case SIM_RZ:
        return down;
    case SIM_RM:
        return negative && rest > 0 ? down + 1 : down;
    case SIM_RP:
        return !negative && rest > 0 ? down + 1 : down;
    case SIM_RNA:
        return rest >= 0.5 ? down + 1 : down;
    default:
        return rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0) ? down + 1 : down;
    }
}

uint32_t sim_format_encode(const sim_format *format, double value, enum sim_round round,
                           bool saturate)
{
    const int m = format->mantissa;
    const bool negative = !format->unsign && signbit(value);
    const uint32_t sign = negative ? 1u << (format->exponent + m) : 0;
    const uint32_t largest = format_largest(format);
    const double top = sim_format_decode(format, largest), size = fabs(value);
    if (isnan(value)) {
        return format_nan(format);
    }
    double rounded = size;
    const int least = format->unsign ? -format->bias : 1 - format->bias;
    int exponent = least;
    if (size != 0 && !isinf(size)) {
        frexp(size, &exponent);
        exponent = exponent - 1 < least ? least : exponent - 1;
        rounded = ldexp(round_magnitude(ldexp(size, m - exponent), negative, round), exponent - m);
    }
    if (rounded > top) {
        const bool inward = round == SIM_RZ || round == (negative ? SIM_RP : SIM_RM);
        if (saturate || (inward && !isinf(size))) {
            return largest | sign;
        }
        return format->special == 2 ? (format_nan(format) >> m << m) | sign : format_nan(format);
    }
    if (rounded == 0) {
        return sign;
    }
    frexp(rounded, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    const uint32_t whole = (uint32_t)ldexp(rounded, m - exponent), hidden = 1u << m;
    const uint32_t body =
        whole < hidden ? whole : ((uint32_t)(exponent + format->bias) << m) + (whole - hidden);
    return body | sign;
}

double sim_add_odd(double a, double b)
{
    const double sum = a + b;
    if (!isfinite(sum) || sum == 0) {
        return sum;
    }
    const double part = sum - a, lost = (a - (sum - part)) + (b - part);
    uint64_t bits = sim_bits64(sum);
    if (lost != 0) {
        bits -= (lost > 0) != (sum > 0);
        bits |= 1;
    }
    return sim_f64(bits);
}

float sim_round_f32(double value, enum sim_round round)
{
    const float nearest = (float)value;
    if (round == SIM_RN || (double)nearest == value || value != value) {
        return nearest;
    }
    const bool up = round == SIM_RP || (round == SIM_RZ && value < 0);
    if (up) {
        return (double)nearest < value ? nextafterf(nearest, INFINITY) : nearest;
    }
    return (double)nearest > value ? nextafterf(nearest, -INFINITY) : nearest;
}

double sim_round_integer(double value, enum sim_round round)
{
    switch (round) {
    case SIM_RZ:
        return trunc(value);
    case SIM_RM:
        return floor(value);
    case SIM_RP:
        return ceil(value);
    default:
        return nearbyint(value);
    }
}
