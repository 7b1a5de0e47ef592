/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm kernel of Hopper for activations of 8 bits, any number of rows of them: products of
 * bytes take half the time of those of 16 bits, so what else there is to do for a stage must fit
 * into half the time. A block has a consumer, a warpgroup, for each 64 of TILE_N rows of W, and a
 * warpgroup or two of makers. Who turns codes into operands is the row's:
 *
 *     BUFFERS > 0   makers, in shared memory (expand8.cuh); consumers multiply (shared8.cuh)
 *     0             consumers, in registers (mainloop8.cuh); makers only copy
 *     EXPANDED      a kernel before this one, all of W into the workspace; makers only copy
 *
 * work.cuh deals out tiles, load8.cuh has the ring, output.cuh ends tiles. variants/sm90_gemm8.c
 * launches it:
 *
 *     grid.x   blocks, which stay and take tiles
 *     shared   the ring, operands, room for sums on their way out, barriers
 */
#include "nib_spec.h"

#include "kernels/common/types.cuh"

#include "kernels/common/params.h"

#include "kernels/sm80/mma.cuh"

#include "kernels/sm80/dequant.cuh"

#include "kernels/sm80/epilogue.cuh"

#include "kernels/sm90/copy.cuh"

#include "kernels/sm90/mma.cuh"

#include "kernels/sm90/work.cuh"

#include "kernels/sm90/load8.cuh"

#include "kernels/sm90/mma8.cuh"

#include "kernels/sm90/dequant8.cuh"

#include "kernels/sm90/sums8.cuh"

#include "kernels/sm90/expand8.cuh"

/* Registers of a thread: at the start the same for all, then makers give most of theirs away. */
static constexpr int BLOCK_THREADS = CONSUMER_THREADS + MAKER_THREADS;
static constexpr int REGISTERS_BEGIN = 65536 / NIB_SPEC_RESIDENT / BLOCK_THREADS / 8 * 8;
static constexpr int REGISTERS_MAKER = NIB_SPEC_RESIDENT > 1 || MAKER_WARPS > 4 ? 56 : 72;
static constexpr int REGISTERS_MOST =
    (REGISTERS_BEGIN * BLOCK_THREADS - REGISTERS_MAKER * MAKER_THREADS) / CONSUMER_THREADS / 8 * 8;
static constexpr int REGISTERS_CONSUMER = REGISTERS_MOST < 240 ? REGISTERS_MOST : 240;

#if NIB_SPEC_BUFFERS || NIB_SPEC_EXPANDED
#include "kernels/sm90/shared8.cuh"
#else
#include "kernels/sm90/mainloop8.cuh"
#endif

#include "kernels/sm90/output.cuh"

/* ---- a consumer --------------------------------------------------------------------------- */

/* All pieces of the block. */
NIB_DEVICE void consume(const nib_cuda_params &p, uint32_t shared)
{
    const int thread = nib_thread();
    nib_work w = nib_work_begin(p, 1);
    nib_slot stage = {0, 0}, buffer = {0, 0};
    nib_piece piece;
    state s;
    state_begin(p, thread, s);
    while (nib_work_next(p, w, piece)) {
        const nib_place place = nib_place_of(p, piece.tile);
        run_stages(piece.k_end - piece.k_begin, shared, stage, buffer, s);
        nib_wait_for_primary(); /* it may have used the workspace, and written scales of act */
        if (piece.k_end < p.k_blocks) {
            leave_part(p, thread, s);
            continue;
        }
        if (piece.k_begin > 0)
            take_parts(p, w, piece, thread, s);
        store_tile(p, shared, place.n_block, place.m0, TILE_M, thread, s);
    }
}

/* ---- the block ---------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, NIB_SPEC_RESIDENT)
    nib_gemm(const __grid_constant__ nib_cuda_mapped_params x)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    const uint32_t shared = nib_shared_address(memory);
    const int warp = nib_thread() / 32;
    nib_allow_dependents();
    if (nib_thread() == 0)
        barriers_begin(shared, x.mapped);
    __syncthreads(); /* barriers are there */
    if (warp >= CONSUMER_THREADS / 32) {
        nib_registers_shrink<REGISTERS_MAKER>();
        nib_make(x, shared, warp - CONSUMER_THREADS / 32);
    } else {
        nib_registers_grow<REGISTERS_CONSUMER>();
        consume(x.p, shared);
    }
}

#if NIB_SPEC_EXPANDED
/* Any grid of blocks of 128 threads. */
extern "C" __global__ void __launch_bounds__(128)
    nib_expand(const __grid_constant__ nib_cuda_params p)
{
    __shared__ __align__(1024) uint8_t memory[OPERAND_BLOCK];
    nib_allow_dependents();
    nib_wait_for_primary(); /* it may use the workspace */
    expand_all(p, nib_shared_address(memory));
}
#endif
