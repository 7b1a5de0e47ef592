/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bytes by Hopper's warpgroups, k32 at a time: as mma.cuh, after which it is included,
 * for activations of 8 bits. W (A) is in shared memory or in registers, act (B) always there; d is
 * as for products of 16 bits.
 */
#ifndef NIB_CUDA_SM90_MMA8_CUH
#define NIB_CUDA_SM90_MMA8_CUH

/* ---- types -------------------------------------------------------------------------------- */

/* The preprocessor knows types by their numbers only (nib_type): 39 is i8, 19 u4, 23 u8, 5 e5m2.
 * NIB_BYTES_TAIL: floats have signs of A and B behind the flag that adds. */
#if NIB_SPEC_ACT == 39
#define NIB_BYTES_SUM  "+r"
#define NIB_BYTES_TAIL ";"
#if NIB_SPEC_WEIGHT == 19 || NIB_SPEC_WEIGHT == 23
#define NIB_BYTES_TYPES ".s32.u8.s8 "
#else
#define NIB_BYTES_TYPES ".s32.s8.s8 "
#endif
typedef int32_t nib_sum;
#else
#define NIB_BYTES_SUM  "+f"
#define NIB_BYTES_TAIL ", 1, 1;"
#if NIB_SPEC_WEIGHT == 5
#define NIB_BYTES_A ".e5m2"
#else
#define NIB_BYTES_A ".e4m3"
#endif
#if NIB_SPEC_ACT == 5
#define NIB_BYTES_TYPES ".f32" NIB_BYTES_A ".e5m2 "
#else
#define NIB_BYTES_TYPES ".f32" NIB_BYTES_A ".e4m3 "
#endif
typedef float nib_sum;
#endif

/* ---- sizes -------------------------------------------------------------------------------- */

/* clang-format off */
#define NIB_BYTES_4(d, i) \
    NIB_BYTES_SUM(d[i]), NIB_BYTES_SUM(d[i + 1]), NIB_BYTES_SUM(d[i + 2]), NIB_BYTES_SUM(d[i + 3])
#define NIB_BYTES_8(d, i) NIB_BYTES_4(d, i), NIB_BYTES_4(d, i + 4)
#define NIB_BYTES_16(d, i) NIB_BYTES_8(d, i), NIB_BYTES_8(d, i + 8)
#define NIB_BYTES_32(d, i) NIB_BYTES_16(d, i), NIB_BYTES_16(d, i + 16)
#define NIB_BYTES_64(d, i) NIB_BYTES_32(d, i), NIB_BYTES_32(d, i + 32)

#define NIB_BYTES_NAMES_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define NIB_BYTES_NAMES_16 NIB_BYTES_NAMES_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define NIB_BYTES_NAMES_24 NIB_BYTES_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define NIB_BYTES_NAMES_32 NIB_BYTES_NAMES_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define NIB_BYTES_NAMES_48 NIB_BYTES_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NIB_BYTES_NAMES_56 NIB_BYTES_NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define NIB_BYTES_NAMES_64 NIB_BYTES_NAMES_56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define NIB_BYTES_NAMES_72 NIB_BYTES_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define NIB_BYTES_NAMES_88 NIB_BYTES_NAMES_72 ",%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87"

#if NIB_SPEC_TILE_M == 16
#define NIB_BYTES_SHAPE "m64n16k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_8(d, 0)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_8
#define NIB_BYTES_MATRIX "%8, %9, %10"
#define NIB_BYTES_FRAGMENT "{%8,%9,%10,%11}, %12, %13"
#elif NIB_SPEC_TILE_M == 32
#define NIB_BYTES_SHAPE "m64n32k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_16(d, 0)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_16
#define NIB_BYTES_MATRIX "%16, %17, %18"
#define NIB_BYTES_FRAGMENT "{%16,%17,%18,%19}, %20, %21"
#elif NIB_SPEC_TILE_M == 48
#define NIB_BYTES_SHAPE "m64n48k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_16(d, 0), NIB_BYTES_8(d, 16)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_24
#define NIB_BYTES_MATRIX "%24, %25, %26"
#define NIB_BYTES_FRAGMENT "{%24,%25,%26,%27}, %28, %29"
#elif NIB_SPEC_TILE_M == 64
#define NIB_BYTES_SHAPE "m64n64k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_32(d, 0)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_32
#define NIB_BYTES_MATRIX "%32, %33, %34"
#define NIB_BYTES_FRAGMENT "{%32,%33,%34,%35}, %36, %37"
#elif NIB_SPEC_TILE_M == 96
#define NIB_BYTES_SHAPE "m64n96k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_32(d, 0), NIB_BYTES_16(d, 32)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_48
#define NIB_BYTES_MATRIX "%48, %49, %50"
#define NIB_BYTES_FRAGMENT "{%48,%49,%50,%51}, %52, %53"
#elif NIB_SPEC_TILE_M == 112
#define NIB_BYTES_SHAPE "m64n112k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_32(d, 0), NIB_BYTES_16(d, 32), NIB_BYTES_8(d, 48)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_56
#define NIB_BYTES_MATRIX "%56, %57, %58"
#define NIB_BYTES_FRAGMENT "{%56,%57,%58,%59}, %60, %61"
#elif NIB_SPEC_TILE_M == 128
#define NIB_BYTES_SHAPE "m64n128k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_64(d, 0)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_64
#define NIB_BYTES_MATRIX "%64, %65, %66"
#define NIB_BYTES_FRAGMENT "{%64,%65,%66,%67}, %68, %69"
#elif NIB_SPEC_TILE_M == 144
#define NIB_BYTES_SHAPE "m64n144k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_64(d, 0), NIB_BYTES_8(d, 64)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_72
#define NIB_BYTES_MATRIX "%72, %73, %74"
#define NIB_BYTES_FRAGMENT "{%72,%73,%74,%75}, %76, %77"
#elif NIB_SPEC_TILE_M == 176
#define NIB_BYTES_SHAPE "m64n176k32"
#define NIB_BYTES_SUMS(d) NIB_BYTES_64(d, 0), NIB_BYTES_16(d, 64), NIB_BYTES_8(d, 80)
#define NIB_BYTES_NAMES NIB_BYTES_NAMES_88
#define NIB_BYTES_MATRIX "%88, %89, %90"
#define NIB_BYTES_FRAGMENT "{%88,%89,%90,%91}, %92, %93"
#endif
/* clang-format on */

/* Sums of a product in a lane. */
static constexpr int NIB_UNIT_COUNT = NIB_SPEC_TILE_M / 2;

/* ---- products ----------------------------------------------------------------------------- */

/* A matrix in shared memory (PTX ISA, "Matrix descriptor"): rows of 128 bytes of columns, swizzled,
 * eight of them every 1024 bytes. Bits 0-13 address / 16, 32-45 1024 / 16, 62-63 the swizzle; bits
 * 16-29 do not count there. 32 columns on are 32 bytes on. */
NIB_DEVICE uint64_t nib_bytes_matrix(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* d = A B, with ADD d += A B: 64 rows of W, all tokens of the tile. */
template <bool ADD>
NIB_DEVICE void nib_bytes_multiply(nib_sum (&d)[NIB_UNIT_COUNT], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned." NIB_BYTES_SHAPE NIB_BYTES_TYPES "{" NIB_BYTES_NAMES
                 "}, " NIB_BYTES_MATRIX NIB_BYTES_TAIL
                 : NIB_BYTES_SUMS(d)
                 : "l"(a), "l"(b), "n"(ADD));
}

/* The same with A in registers: dequant8.cuh has the fragment. */
template <bool ADD>
NIB_DEVICE void nib_bytes_multiply(nib_sum (&d)[NIB_UNIT_COUNT], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned." NIB_BYTES_SHAPE NIB_BYTES_TYPES "{" NIB_BYTES_NAMES
                 "}, " NIB_BYTES_FRAGMENT NIB_BYTES_TAIL
                 : NIB_BYTES_SUMS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(ADD));
}

template <int N> NIB_DEVICE void nib_hold(int32_t (&values)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(values[i])::"memory");
}

/* ---- sums --------------------------------------------------------------------------------- */

NIB_DEVICE float nib_unit_sum(float sum)
{
    return sum;
}

/* Without the slow conversion: an integer below 2^22 in size becomes the low mantissa of
 * 2^23 + 2^22. 128 products of bytes stay below. */
NIB_DEVICE float nib_unit_sum(int32_t sum)
{
    return nib_float_from_bits(0x4b400000u + (uint32_t)sum) - 12582912.0f;
}

#endif
