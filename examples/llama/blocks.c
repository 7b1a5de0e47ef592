/* SPDX-License-Identifier: Apache-2.0
 *
 * Round-to-nearest into GGUF's blocks of 32. A block is its f16 scale d (and, for Q4_1, f16 minimum
 * m), then codes q: Q4_0 is (q - 8) d, Q4_1 is q d + m, Q8_0 is q d with signed q. Byte j of the
 * 4-bit types holds element j in its low and element j + 16 in its high half.
 */
#include "blocks.h"

#include "half.h"

#include <math.h>

static int clamp_round(float value, int least, int most)
{
    float rounded = roundf(value);
    return rounded < (float)least ? least : rounded > (float)most ? most : (int)rounded;
}

/* The inverse of what an f16 scale really is. */
static float inverse(uint16_t scale)
{
    float value = llama_half_to_float(scale);
    return value != 0 ? 1 / value : 0;
}

static void write_4bit(llama_bytes *bytes, llama_gguf_type type, const float *x)
{
    float least = x[0], most = x[0], extreme = x[0];
    for (int i = 1; i < LLAMA_BLOCK; i++) {
        least = fminf(least, x[i]);
        most = fmaxf(most, x[i]);
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    }
    uint16_t scale =
        llama_half_from_float(type == LLAMA_GGUF_Q4_1 ? (most - least) / 15 : extreme / -8);
    uint16_t minimum = llama_half_from_float(least);
    float offset = type == LLAMA_GGUF_Q4_1 ? llama_half_to_float(minimum) : 0;
    int middle = type == LLAMA_GGUF_Q4_1 ? 0 : 8;
    llama_bytes_int(bytes, scale, 2);
    if (type == LLAMA_GGUF_Q4_1)
        llama_bytes_int(bytes, minimum, 2);
    for (int j = 0; j < 16; j++) {
        int low = clamp_round((x[j] - offset) * inverse(scale) + (float)middle, 0, 15);
        int high = clamp_round((x[j + 16] - offset) * inverse(scale) + (float)middle, 0, 15);
        llama_bytes_int(bytes, (uint64_t)(low | high << 4), 1);
    }
}

static void write_8bit(llama_bytes *bytes, const float *x)
{
    float most = 0;
    for (int i = 0; i < LLAMA_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    uint16_t scale = llama_half_from_float(most / 127);
    llama_bytes_int(bytes, scale, 2);
    for (int i = 0; i < LLAMA_BLOCK; i++)
        llama_bytes_int(bytes, (uint64_t)(int64_t)clamp_round(x[i] * inverse(scale), -127, 127), 1);
}

void llama_blocks_write(llama_bytes *bytes, llama_gguf_type type, const float *values,
                        int64_t count)
{
    bool blocks = type != LLAMA_GGUF_F32 && type != LLAMA_GGUF_F16;
    for (int64_t i = 0; i < count; i += blocks ? LLAMA_BLOCK : 1) {
        if (type == LLAMA_GGUF_F32)
            llama_bytes_int(bytes, llama_bits_of(values[i]), 4);
        else if (type == LLAMA_GGUF_F16)
            llama_bytes_int(bytes, llama_half_from_float(values[i]), 2);
        else if (type == LLAMA_GGUF_Q8_0)
            write_8bit(bytes, values + i);
        else
            write_4bit(bytes, type, values + i);
    }
}

size_t llama_blocks_bytes(llama_gguf_type type, int64_t count)
{
    size_t elems = (size_t)count;
    switch (type) {
    case LLAMA_GGUF_F32:
        return elems * 4;
    case LLAMA_GGUF_F16:
        return elems * 2;
    case LLAMA_GGUF_Q4_0:
        return elems / LLAMA_BLOCK * 18;
    case LLAMA_GGUF_Q4_1:
        return elems / LLAMA_BLOCK * 20;
    case LLAMA_GGUF_Q8_0:
        return elems / LLAMA_BLOCK * 34;
    }
    return 0;
}
