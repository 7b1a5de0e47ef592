/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of the device code: integers, the numbers of nib_type, conversions between element types,
 * loads and stores of any element at any alignment. Includes no vendor header. Every kernel
 * includes nib_spec.h (generated: the constants of the specialisation), this file and params.h, in
 * this order. Next: kernels/sm80/dequant.cuh.
 *
 * nib_spec.h of the families of sm80 says what was described, general/gemm.cu has its own:
 *     NIB_SPEC_WEIGHT NIB_SPEC_ACT NIB_SPEC_SCALE NIB_SPEC_ZERO_TYPE   nib_type, 0: none
 *     NIB_SPEC_ZERO                                                    nib_zero
 *     NIB_SPEC_GROUP   what group is a multiple of: 16, 32, 64 or 128; 0: one group along k
 */
#ifndef NIB_CUDA_TYPES_CUH
#define NIB_CUDA_TYPES_CUH

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define NIB_DEVICE static __device__ __forceinline__
/* Functions of constants. */
#define NIB_CONSTEXPR static constexpr __device__

/* The numbers of nibblas.h, which device code cannot include. */
enum {
    NIB_TYPE_NONE = 0,
    NIB_F32 = 1,
    NIB_F16 = 2,
    NIB_BF16 = 3,
    NIB_E4M3 = 4,
    NIB_E5M2 = 5,
    NIB_E8M0 = 6,
    NIB_I32 = 7,
    NIB_U1 = 16,
    NIB_U2 = 17,
    NIB_U3 = 18,
    NIB_U4 = 19,
    NIB_U5 = 20,
    NIB_U6 = 21,
    NIB_U7 = 22,
    NIB_U8 = 23,
    NIB_I1 = 32,
    NIB_I2 = 33,
    NIB_I3 = 34,
    NIB_I4 = 35,
    NIB_I5 = 36,
    NIB_I6 = 37,
    NIB_I7 = 38,
    NIB_I8 = 39,
    NIB_NF4 = 48,
    NIB_E2M1 = 49,
    NIB_E3M2 = 50,
    NIB_E2M3 = 51,
    NIB_LUT4 = 52
};
enum { NIB_ZERO_NONE = 0, NIB_ZERO_FLOAT = 1, NIB_ZERO_RESCALE = 2, NIB_ZERO_CODE = 3 };
enum {
    NIB_ACT_SCALE_NONE = 0,
    NIB_ACT_SCALE_TENSOR = 1,
    NIB_ACT_SCALE_ROW = 2,
    NIB_ACT_SCALE_MX = 3
};
enum {
    NIB_EPILOGUE_NONE = 0,
    NIB_EPILOGUE_RELU = 1,
    NIB_EPILOGUE_GELU = 2,
    NIB_EPILOGUE_SILU = 3,
    NIB_EPILOGUE_SILU_GATED = 4
};

/* Bytes of one element in memory; codes below 8 bits take a byte each. */
NIB_CONSTEXPR int nib_element_bytes(int type)
{
    return type == NIB_F32 || type == NIB_I32 ? 4 : type == NIB_F16 || type == NIB_BF16 ? 2 : 1;
}

/* ---- bits --------------------------------------------------------------------------------- */

NIB_DEVICE float nib_float_from_bits(uint32_t bits)
{
    float value;
    asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
    return value;
}

NIB_DEVICE uint32_t nib_bits_from_float(float value)
{
    uint32_t bits;
    asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

/* Bytes of `low` (0..3) and `high` (4..7) by the four hexadecimal digits of `selector`. */
NIB_DEVICE uint32_t nib_permute(uint32_t low, uint32_t high, uint32_t selector)
{
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(low), "r"(high), "r"(selector));
    return out;
}

NIB_DEVICE uint32_t nib_duplicate(uint32_t half)
{
    return nib_permute(half, half, 0x1010);
}

/* ---- conversions -------------------------------------------------------------------------- */

NIB_DEVICE float nib_float_from_f16(uint32_t half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((uint16_t)half));
    return value;
}

NIB_DEVICE uint32_t nib_f16_from_float(float value)
{
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

NIB_DEVICE uint32_t nib_bf16_from_float(float value)
{
    uint16_t half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

/* Two f16 bytes of e5m2 are f16 cut short: exact, infinities and NaN included. */
NIB_DEVICE uint32_t nib_f16_from_e5m2(uint32_t byte)
{
    return byte << 8 & 0xff00u;
}

/* A pair of e4m3 in the low bytes of both halves, to f16. Exponent and mantissa move to bits 7..13
 * of the half: the value times 2^-8 (biases 7 and 15). 0x7f there is NaN: adding one unit carries
 * into bit 14 for it alone, and that bit with the others set is NaN in f16 as well. */
NIB_DEVICE uint32_t nib_f16_pair_from_e4m3(uint32_t bytes)
{
    uint32_t size = bytes << 7 & 0x3f803f80u;
    size |= (size + 0x00800080u) & 0x40004000u;
    return size | (bytes << 8 & 0x80008000u);
}

static constexpr float NIB_E4M3_FACTOR = 256.0f; /* undoes 2^-8 */

NIB_DEVICE float nib_float_from_e4m3(uint32_t byte)
{
    return nib_float_from_f16(nib_f16_pair_from_e4m3(byte & 0xffu)) * NIB_E4M3_FACTOR;
}

/* 2^(byte - 127): the byte is the exponent of an f32, but for 0 (2^-127 is subnormal) and NaN. */
NIB_DEVICE float nib_float_from_e8m0(uint32_t byte)
{
    const uint32_t bits = byte == 0 ? 0x00400000u : byte == 255 ? 0x7fc00000u : byte << 23;
    return nib_float_from_bits(bits);
}

/* An element's bits, in the low end of a register, as a number; TYPE is a float type, i8 or an
 * unsigned code of a byte. */
template <int TYPE> NIB_DEVICE float nib_float_from(uint32_t bits)
{
    if constexpr (TYPE == NIB_F32)
        return nib_float_from_bits(bits);
    else if constexpr (TYPE == NIB_F16)
        return nib_float_from_f16(bits & 0xffffu);
    else if constexpr (TYPE == NIB_BF16)
        return nib_float_from_bits(bits << 16);
    else if constexpr (TYPE == NIB_E4M3)
        return nib_float_from_e4m3(bits & 0xffu);
    else if constexpr (TYPE == NIB_E5M2)
        return nib_float_from_f16(nib_f16_from_e5m2(bits));
    else if constexpr (TYPE == NIB_E8M0)
        return nib_float_from_e8m0(bits & 0xffu);
    else if constexpr (TYPE == NIB_I8)
        return (float)(int8_t)bits;
    else
        return (float)(bits & 0xffu);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Element `index` of an array of elements of BYTES bytes at any address: pieces as large as the
 * address allows would differ from lane to lane, so odd addresses go byte by byte. */
template <int BYTES> NIB_DEVICE uint32_t nib_load_element(const void *array, int64_t index)
{
    const uint8_t *at = (const uint8_t *)array + index * BYTES;
    if constexpr (BYTES == 1)
        return *at;
    if (((uint64_t)at & (BYTES - 1)) == 0)
        return BYTES == 2 ? *(const uint16_t *)at : *(const uint32_t *)at;
    uint32_t bits = 0;
#pragma unroll 2
    for (int i = 0; i < BYTES; i++)
        bits |= (uint32_t)at[i] << (8 * i);
    return bits;
}

template <int BYTES> NIB_DEVICE void nib_store_element(void *array, int64_t index, uint32_t bits)
{
    uint8_t *at = (uint8_t *)array + index * BYTES;
    if (((uint64_t)at & (BYTES - 1)) == 0) {
        if constexpr (BYTES == 1)
            *at = (uint8_t)bits;
        else if constexpr (BYTES == 2)
            *(uint16_t *)at = (uint16_t)bits;
        else
            *(uint32_t *)at = bits;
        return;
    }
    /* Rare, and everywhere: rolled up it is compiled faster. */
#pragma unroll 1
    for (int i = 0; i < BYTES; i++)
        at[i] = (uint8_t)(bits >> (8 * i));
}

/* Element of f32, f16 or bf16 by a type known at run time. */
NIB_DEVICE float nib_load_float(const void *array, int64_t index, int32_t type)
{
    if (type == NIB_F32)
        return nib_float_from<NIB_F32>(nib_load_element<4>(array, index));
    const uint32_t bits = nib_load_element<2>(array, index);
    return type == NIB_F16 ? nib_float_from<NIB_F16>(bits) : nib_float_from<NIB_BF16>(bits);
}

NIB_DEVICE void nib_store_float(void *array, int64_t index, int32_t type, float value)
{
    if (type == NIB_F32)
        nib_store_element<4>(array, index, nib_bits_from_float(value));
    else
        nib_store_element<2>(
            array, index, type == NIB_F16 ? nib_f16_from_float(value) : nib_bf16_from_float(value));
}

/* ---- threads ------------------------------------------------------------------------------ */

NIB_DEVICE int nib_thread(void)
{
    return (int)threadIdx.x;
}

NIB_DEVICE int nib_minimum(int a, int b)
{
    return a < b ? a : b;
}

#endif
