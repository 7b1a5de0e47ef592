/* SPDX-License-Identifier: Apache-2.0
 *
 * Single instructions of sm_80, each on many operands, for sim-calibrate: what the interpreter
 * makes of them is compared with what a GPU does. One warp a block.
 */
typedef unsigned int word;

/* out[probe][i]; probes in the order of alu.inc. */
extern "C" __global__ void probe_alu(const word *a, const word *b, const word *c, word *out,
                                     int count)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    word result;
    int probe = 0;
#define PROBE(name, kind, text)                                          \
    asm volatile(text : "=r"(result) : "r"(a[i]), "r"(b[i]), "r"(c[i])); \
    out[probe++ * count + i] = result;
#include "alu.inc"
#undef PROBE
}

/* d = a b + c: four words of a, two of b, COUNT of c a lane. */
#define PRODUCT(name, type, letter, text)                                                      \
    extern "C" __global__ void name(const word *a, const word *b, const type *c, type *d)      \
    {                                                                                          \
        const int i = blockIdx.x * 32 + threadIdx.x;                                           \
        type s[4] = {c[4 * i], c[4 * i + 1], c[4 * i + 2], c[4 * i + 3]};                      \
        asm volatile(text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"             \
                     : "+" letter(s[0]), "+" letter(s[1]), "+" letter(s[2]), "+" letter(s[3])  \
                     : "r"(a[4 * i]), "r"(a[4 * i + 1]), "r"(a[4 * i + 2]), "r"(a[4 * i + 3]), \
                       "r"(b[2 * i]), "r"(b[2 * i + 1]));                                      \
        for (int j = 0; j < 4; j++)                                                            \
            d[4 * i + j] = s[j];                                                               \
    }
PRODUCT(probe_mma_f16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
PRODUCT(probe_mma_bf16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
PRODUCT(probe_mma_s8, int, "r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
PRODUCT(probe_mma_u8, int, "r", "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32")

extern "C" __global__ void probe_mma_acc16(const word *a, const word *b, const word *c, word *d)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    word s[2] = {c[4 * i], c[4 * i + 1]};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, "
                 "{%6,%7}, {%0,%1};"
                 : "+r"(s[0]), "+r"(s[1])
                 : "r"(a[4 * i]), "r"(a[4 * i + 1]), "r"(a[4 * i + 2]), "r"(a[4 * i + 3]),
                   "r"(b[2 * i]), "r"(b[2 * i + 1]));
    d[4 * i] = s[0], d[4 * i + 1] = s[1], d[4 * i + 2] = 0, d[4 * i + 3] = 0;
}

/* Fragments from shared memory: plain, then transposed. */
extern "C" __global__ void probe_ldmatrix(const word *a, const word *b, const word *c, word *d)
{
    __shared__ __align__(16) word rows[128];
    const int lane = threadIdx.x, i = blockIdx.x * 32 + lane;
    (void)b, (void)c;
    for (int j = 0; j < 4; j++)
        rows[lane * 4 + j] = a[4 * i + j];
    __syncthreads(); /* the rows are there */
    word at = (word)__cvta_generic_to_shared(rows) + lane * 16, p[4], t[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3])
                 : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3])
                 : "r"(at));
    for (int j = 0; j < 4; j++)
        d[4 * i + j] = p[j] * 31 + t[j];
}
