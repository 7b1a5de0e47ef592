/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies a function of one lane to all lanes. The sim_map functions are for the instructions that
 * kernels live on: their function argument is inlined and the loop becomes vectors. Everything else
 * goes through sim_apply_*, which call in->scalar lane by lane.
 */
#ifndef SIM_CUDA_APPLY_H
#define SIM_CUDA_APPLY_H

#include "machine.h"

#define SIM_INLINE static inline __attribute__((always_inline))

sim_exec sim_apply1, sim_apply2, sim_apply3;

static inline int64_t sim_signed(unsigned bits, uint64_t value)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static inline uint64_t sim_cut(unsigned bits, uint64_t value)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

SIM_INLINE enum sim_step sim_map32_2(sim_warp *warp, const sim_insn *in, uint32_t mask,
                                     uint32_t (*f)(uint32_t, uint32_t))
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    uint32_t r[SIM_LANES];
    for (int i = 0; i < SIM_LANES; ++i) {
        r[i] = f(a[i], b[i]);
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

SIM_INLINE enum sim_step sim_map32_3(sim_warp *warp, const sim_insn *in, uint32_t mask,
                                     uint32_t (*f)(uint32_t, uint32_t, uint32_t))
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    const uint32_t *c = sim_row32(warp, &in->arg[3]);
    uint32_t r[SIM_LANES];
    for (int i = 0; i < SIM_LANES; ++i) {
        r[i] = f(a[i], b[i], c[i]);
    }
    sim_put32(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

SIM_INLINE enum sim_step sim_map64_2(sim_warp *warp, const sim_insn *in, uint32_t mask,
                                     uint64_t (*f)(uint64_t, uint64_t))
{
    const uint64_t *a = sim_row64(warp, &in->arg[1]), *b = sim_row64(warp, &in->arg[2]);
    uint64_t r[SIM_LANES];
    for (int i = 0; i < SIM_LANES; ++i) {
        r[i] = f(a[i], b[i]);
    }
    sim_put64(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

/* 32-bit sources, a 64-bit result and perhaps a 64-bit addend. */
SIM_INLINE enum sim_step sim_map_wide(sim_warp *warp, const sim_insn *in, uint32_t mask,
                                      uint64_t (*f)(uint32_t, uint32_t), bool add)
{
    const uint32_t *a = sim_row32(warp, &in->arg[1]), *b = sim_row32(warp, &in->arg[2]);
    uint64_t r[SIM_LANES];
    for (int i = 0; i < SIM_LANES; ++i) {
        r[i] = f(a[i], b[i]);
    }
    if (add) {
        const uint64_t *c = sim_row64(warp, &in->arg[3]);
        for (int i = 0; i < SIM_LANES; ++i) {
            r[i] += c[i];
        }
    }
    sim_put64(warp, &in->arg[0], mask, r);
    return SIM_NEXT;
}

#endif
