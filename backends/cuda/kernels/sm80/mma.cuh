/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions of sm_80 and newer that kernels build on, one a function: matrix products, fragment
 * loads, asynchronous copies. Statements without `volatile` may be moved and interleaved by the
 * compiler: independent chains of products then run side by side.
 *
 * Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16"), g = lane / 4, t = lane % 4. W is A, its
 * rows n; tokens are the columns of B:
 *
 *     m16n8k16   a[i]  row g + 8 (i & 1), k = 2t + 8 (i >> 1) + {0, 1}
 *                b[i]  token g,           k = 2t + 8 i + {0, 1}
 *     m16n8k32   a[i]  row g + 8 (i & 1), k = 4t + 16 (i >> 1) + {0..3}
 *                b[i]  token g,           k = 4t + 16 i + {0..3}
 *     both       d[j]  row g + 8 (j >> 1), token 2t + (j & 1)
 */
#ifndef NIB_CUDA_SM80_MMA_CUH
#define NIB_CUDA_SM80_MMA_CUH

NIB_DEVICE void nib_mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

NIB_DEVICE void nib_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

NIB_DEVICE void nib_mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Unsigned codes times signed activations. */
NIB_DEVICE void nib_mma_u8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* (a & mask) ^ c in one instruction, which holds but one constant: c then is in a register. The
 * compiler would make two of it. */
NIB_DEVICE uint32_t nib_and_xor(uint32_t a, uint32_t mask, uint32_t c)
{
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(a), "r"(mask), "r"(c));
    return d;
}

/* ---- pairs of 16-bit floats --------------------------------------------------------------- */

NIB_DEVICE uint32_t nib_fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

NIB_DEVICE uint32_t nib_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* ---- shared memory ------------------------------------------------------------------------ */

NIB_DEVICE uint32_t nib_shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

NIB_DEVICE void nib_shared_load4(uint32_t *out, uint32_t address)
{
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

NIB_DEVICE void nib_shared_load2(uint32_t *out, uint32_t address)
{
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"(address)
                 : "memory");
}

NIB_DEVICE uint32_t nib_shared_load(uint32_t address)
{
    uint32_t out;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(out) : "r"(address) : "memory");
    return out;
}

NIB_DEVICE uint32_t nib_shared_load16(uint32_t address)
{
    uint32_t out;
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(out) : "r"(address) : "memory");
    return out;
}

NIB_DEVICE void nib_shared_store4(uint32_t address, const uint32_t *in)
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(in[0]), "r"(in[1]),
                 "r"(in[2]), "r"(in[3])
                 : "memory");
}

NIB_DEVICE void nib_shared_store(uint32_t address, uint32_t bits)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
}

NIB_DEVICE void nib_shared_store16(uint32_t address, uint32_t bits)
{
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"((uint16_t)bits) : "memory");
}

NIB_DEVICE void nib_shared_store8(uint32_t address, uint32_t bits)
{
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
}

/* Four 8 x 8 matrices of 16-bit elements, rows of 16 bytes; lanes 8i .. 8i + 7 give the rows'
 * addresses of matrix i. Lane (g, t) receives elements 2t and 2t + 1 of row g. */
NIB_DEVICE void nib_load_matrix4(uint32_t *out, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

/* ---- global memory ------------------------------------------------------------------------ */

/* `to` is aligned to all that is stored. */
NIB_DEVICE void nib_global_store4(void *to, const uint32_t *in)
{
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(in[0]), "r"(in[1]),
                 "r"(in[2]), "r"(in[3])
                 : "memory");
}

NIB_DEVICE void nib_global_store2(void *to, const uint32_t *in)
{
    asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(to), "r"(in[0]), "r"(in[1]) : "memory");
}

/* ---- asynchronous copies ------------------------------------------------------------------ */

/* 16 bytes past L1. */
NIB_DEVICE void nib_copy16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* The first `bytes` (0..16) of 16 and zeros behind; `from` is 16-byte aligned and with 0 bytes not
 * read, but must be an address of the same array. */
NIB_DEVICE void nib_copy16_part(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

NIB_DEVICE void nib_copy8(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}

/* Ends a group of this thread's copies. */
NIB_DEVICE void nib_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most PENDING of this thread's groups are under way. Other threads see the bytes
 * after the next barrier among them. */
template <int PENDING> NIB_DEVICE void nib_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* ---- dependent launches (PTX ISA, griddepcontrol) ----------------------------------------- */

/* Whether the kernel may start while the one before it ends: weights, scales and zeros may be read
 * before nib_wait_for_primary, nothing else. */
#if __CUDA_ARCH__ >= 900
static constexpr bool NIB_DEPENDENT = true;
#else
static constexpr bool NIB_DEPENDENT = false;
#endif

/* The kernel that follows may begin to start once all blocks are here. */
NIB_DEVICE void nib_allow_dependents(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* In the dependent: returns when the kernel before has ended and its stores are seen. */
NIB_DEVICE void nib_wait_for_primary(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif
