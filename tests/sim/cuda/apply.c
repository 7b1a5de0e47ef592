/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies in->scalar to each lane of a mask: see apply.h. The destination is the first operand.
 */
#include "apply.h"

static enum sim_step apply(sim_warp *warp, const sim_insn *in, uint32_t mask, int sources)
{
    uint64_t source[3][SIM_LANES] = {{0}}, result[SIM_LANES] = {0};
    for (int i = 0; i < sources; ++i) {
        sim_values(warp, &in->arg[1 + i], source[i]);
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint64_t value = in->scalar(in, source[0][lane], source[1][lane], source[2][lane]);
        result[lane] = sim_cut(in->result_bits, value);
    }
    sim_put(warp, &in->arg[0], mask, result);
    return SIM_NEXT;
}

enum sim_step sim_apply1(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return apply(warp, in, mask, 1);
}

enum sim_step sim_apply2(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return apply(warp, in, mask, 2);
}

enum sim_step sim_apply3(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    return apply(warp, in, mask, 3);
}
