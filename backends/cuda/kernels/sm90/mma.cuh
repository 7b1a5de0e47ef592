/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product of Hopper's warpgroups and what goes with it: order, registers, barriers of
 * parts of a block. mainloop.cuh builds its schedule of these. One instruction a function.
 *
 * A warpgroup is four warps, the first a multiple of four of the block. Its product takes 64 rows
 * of W from registers (A), k16 x NIB_SPEC_UNIT_M tokens from shared memory (B), and runs on while
 * the warps go on. Fragments of warp w (PTX ISA, "Register fragments for
 * wgmma.mma_async.m64nNk16"), g = lane / 4, t = lane % 4:
 *
 *     a[i]       row 16w + g + 8 (i & 1), k = 2t + 8 (i >> 1) + {0, 1}: as mma.m16n8k16
 *     d[4c + j]  row 16w + g + 8 (j >> 1), token 8c + 2t + (j & 1)
 *
 * Nothing may touch registers of a product between its issue and the wait for its group; the
 * compiler is told by nib_hold where values cross these points.
 */
#ifndef NIB_CUDA_SM90_MMA_CUH
#define NIB_CUDA_SM90_MMA_CUH

/* ---- the product -------------------------------------------------------------------------- */

#ifndef NIB_SPEC_BYTES /* mma8.cuh has others */

/* An instruction's text names each operand by its number, and the number of sums is part of the
 * instruction: what differs between the sizes is collected here. */
#define NIB_SUMS_4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define NIB_SUMS_8(d, i)  NIB_SUMS_4(d, i), NIB_SUMS_4(d, i + 4)
#define NIB_SUMS_16(d, i) NIB_SUMS_8(d, i), NIB_SUMS_8(d, i + 8)
#define NIB_NAMES_8       "%0,%1,%2,%3,%4,%5,%6,%7"
#define NIB_NAMES_16      NIB_NAMES_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define NIB_NAMES_24      NIB_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define NIB_NAMES_32      NIB_NAMES_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define NIB_NAMES_48                                \
    NIB_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39" \
                 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define NIB_NAMES_64                                \
    NIB_NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55" \
                 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define NIB_NAMES_80                                \
    NIB_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71" \
                 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define NIB_NAMES_96                                \
    NIB_NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87" \
                 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define NIB_NAMES_112                                   \
    NIB_NAMES_96 ",%96,%97,%98,%99,%100,%101,%102,%103" \
                 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define NIB_NAMES_128                                        \
    NIB_NAMES_112 ",%112,%113,%114,%115,%116,%117,%118,%119" \
                  ",%120,%121,%122,%123,%124,%125,%126,%127"

#if NIB_SPEC_UNIT_M == 8
#define NIB_UNIT_SHAPE   "m64n8k16"
#define NIB_UNIT_SUMS(d) NIB_SUMS_4(d, 0)
#define NIB_UNIT_NAMES   "{%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, %9"
#elif NIB_SPEC_UNIT_M == 16
#define NIB_UNIT_SHAPE   "m64n16k16"
#define NIB_UNIT_SUMS(d) NIB_SUMS_8(d, 0)
#define NIB_UNIT_NAMES   "{" NIB_NAMES_8 "}, {%8,%9,%10,%11}, %12, %13"
#elif NIB_SPEC_UNIT_M == 24
#define NIB_UNIT_SHAPE   "m64n24k16"
#define NIB_UNIT_SUMS(d) NIB_SUMS_8(d, 0), NIB_SUMS_4(d, 8)
#define NIB_UNIT_NAMES   "{" NIB_NAMES_8 ",%8,%9,%10,%11}, {%12,%13,%14,%15}, %16, %17"
#elif NIB_SPEC_UNIT_M == 32
#define NIB_UNIT_SHAPE   "m64n32k16"
#define NIB_UNIT_SUMS(d) NIB_SUMS_16(d, 0)
#define NIB_UNIT_NAMES   "{" NIB_NAMES_16 "}, {%16,%17,%18,%19}, %20, %21"
#elif NIB_SPEC_UNIT_M == 48
#define NIB_UNIT_SHAPE   "m64n48k16"
#define NIB_UNIT_SUMS(d) NIB_SUMS_16(d, 0), NIB_SUMS_8(d, 16)
#define NIB_UNIT_NAMES   "{" NIB_NAMES_24 "}, {%24,%25,%26,%27}, %28, %29"
#elif NIB_SPEC_UNIT_M == 64
#define NIB_UNIT_SHAPE   "m64n64k16"
#define NIB_UNIT_SUMS(d) NIB_SUMS_16(d, 0), NIB_SUMS_16(d, 16)
#define NIB_UNIT_NAMES   "{" NIB_NAMES_32 "}, {%32,%33,%34,%35}, %36, %37"
#elif NIB_SPEC_UNIT_M == 128
#define NIB_UNIT_SHAPE "m64n128k16"
#define NIB_UNIT_SUMS(d) \
    NIB_SUMS_16(d, 0), NIB_SUMS_16(d, 16), NIB_SUMS_16(d, 32), NIB_SUMS_16(d, 48)
#define NIB_UNIT_NAMES "{" NIB_NAMES_64 "}, {%64,%65,%66,%67}, %68, %69"
#elif NIB_SPEC_UNIT_M == 192
#define NIB_UNIT_SHAPE "m64n192k16"
#define NIB_UNIT_SUMS(d)                                                           \
    NIB_SUMS_16(d, 0), NIB_SUMS_16(d, 16), NIB_SUMS_16(d, 32), NIB_SUMS_16(d, 48), \
        NIB_SUMS_16(d, 64), NIB_SUMS_16(d, 80)
#define NIB_UNIT_NAMES "{" NIB_NAMES_96 "}, {%96,%97,%98,%99}, %100, %101"
#elif NIB_SPEC_UNIT_M == 256
#define NIB_UNIT_SHAPE "m64n256k16"
#define NIB_UNIT_SUMS(d)                                                           \
    NIB_SUMS_16(d, 0), NIB_SUMS_16(d, 16), NIB_SUMS_16(d, 32), NIB_SUMS_16(d, 48), \
        NIB_SUMS_16(d, 64), NIB_SUMS_16(d, 80), NIB_SUMS_16(d, 96), NIB_SUMS_16(d, 112)
#define NIB_UNIT_NAMES "{" NIB_NAMES_128 "}, {%128,%129,%130,%131}, %132, %133"
#endif

/* B in shared memory (PTX ISA, "Matrix descriptor"): rows of 64 columns of 16 bits, 128 bytes
 * swizzled, eight rows every 1024 bytes. The lower word is address / 16, bits 16-29 do not count
 * here; of the upper word bits 0-13 are 1024 / 16 and bits 30-31 the swizzle. Sixteen columns on
 * are 32 bytes on. */
static constexpr uint32_t NIB_ACT_MATRIX_HIGH = 1024 / 16 | 1u << 30;

NIB_DEVICE uint32_t nib_act_matrix(uint32_t address)
{
    return (address & 0x3ffff) / 16 | 1u << 16;
}

/* Sums of a product in a lane. */
static constexpr int NIB_UNIT_COUNT = NIB_SPEC_UNIT_M / 2;

#define NIB_UNIT_PRODUCT(types) \
    "wgmma.mma_async.sync.aligned." NIB_UNIT_SHAPE types " " NIB_UNIT_NAMES ", 1, 1, 0;"

/* d = A B, with ADD d += A B; b from nib_act_matrix. */
template <bool ADD>
NIB_DEVICE void nib_unit_multiply(float (&d)[NIB_UNIT_COUNT], const uint32_t (&a)[4], uint32_t b)
{
    const uint64_t matrix = (uint64_t)NIB_ACT_MATRIX_HIGH << 32 | b;
    if constexpr (NIB_COMPUTE == NIB_COMPUTE_BF16)
        asm volatile(NIB_UNIT_PRODUCT(".f32.bf16.bf16")
                     : NIB_UNIT_SUMS(d)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(matrix), "n"(ADD));
    else
        asm volatile(NIB_UNIT_PRODUCT(".f32.f16.f16")
                     : NIB_UNIT_SUMS(d)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(matrix), "n"(ADD));
}

#endif

/* ---- order -------------------------------------------------------------------------------- */

/* Registers written so far are seen by the products that follow. */
NIB_DEVICE void nib_unit_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Ends a group of products. */
NIB_DEVICE void nib_unit_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most PENDING groups are under way. */
template <int PENDING> NIB_DEVICE void nib_unit_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* No instruction: reads and writes of these registers stay on their side of this place. */
template <int N> NIB_DEVICE void nib_hold(float (&values)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(values[i])::"memory");
}

NIB_DEVICE void nib_hold(uint32_t (&values)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        asm volatile("" : "+r"(values[i])::"memory");
}

/* ---- registers ---------------------------------------------------------------------------- */

/* Whole warpgroups give registers to the block's pool and take from it. */
template <int COUNT> NIB_DEVICE void nib_registers_shrink(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> NIB_DEVICE void nib_registers_grow(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* Two f32 as a pair, `low` in the lower half. */
NIB_DEVICE uint32_t nib_f16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

NIB_DEVICE uint32_t nib_bf16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

NIB_DEVICE void nib_shared_store2(uint32_t address, const uint32_t *in)
{
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(in[0]), "r"(in[1])
                 : "memory");
}

/* ---- blocks of a grid --------------------------------------------------------------------- */

/* Barrier `id` (1..15) of `threads` threads, whole warps. */
NIB_DEVICE void nib_group_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Stores of this thread, and those it has seen, come before its release below. */
NIB_DEVICE void nib_fence_gpu(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

NIB_DEVICE void nib_flag_set(uint64_t *flag, uint64_t value)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}

NIB_DEVICE uint64_t nib_flag_read(const uint64_t *flag)
{
    uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
    return value;
}

/* Past L1, which other blocks' stores do not reach. */
NIB_DEVICE void nib_global_load4(uint32_t *out, const void *from)
{
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "l"(from)
                 : "memory");
}

#endif
