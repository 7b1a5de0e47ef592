/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm kernel of Hopper: any number of rows of act of 16 bits, every weight type, groups of
 * multiples of 16. A block has a consumer, a warpgroup, for each 64 of TILE_N rows of W, and a
 * warpgroup of loaders. Its parts, in the order of the data: work.cuh deals out tiles, load.cuh
 * fills the ring, mainloop.cuh multiplies, output.cuh ends tiles. variants/sm90_gemm.c launches it:
 *
 *     grid.x   blocks, which stay and take tiles; with clusters one a part of a tile
 *     shared   the ring, room for sums on their way out, a table, barriers
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

#include "kernels/sm90/load.cuh"

#include "kernels/sm90/operands.cuh"

#if NIB_SPEC_ROUND
#include "kernels/sm90/rolling.cuh"
#else
#include "kernels/sm90/mainloop.cuh"
#endif

#include "kernels/sm90/output.cuh"

/* Registers of a thread: at the start the same for all, then loaders give most of theirs away.
 * Multiples of 8; the sum must not exceed what the block began with. */
static constexpr int REGISTERS_BEGIN = 65536 / THREADS / 8 * 8;
static constexpr int REGISTERS_LOADER = REGISTERS_BEGIN < 128 ? 32 : 40;
static constexpr int REGISTERS_MOST =
    (REGISTERS_BEGIN * THREADS - REGISTERS_LOADER * 128) / CONSUMER_THREADS / 8 * 8;
static constexpr int REGISTERS_CONSUMER = REGISTERS_MOST < 240 ? REGISTERS_MOST : 240;

/* The work of a consumer: all pieces of the block. */
NIB_DEVICE void consume(const nib_cuda_params &p, uint32_t shared, int cluster)
{
    const int thread = nib_thread();
    nib_work w = nib_work_begin(p, cluster);
    nib_slot slot = {shared, 0, 0};
    nib_piece piece;
    state s;
    state_begin(p, shared, thread, s);
    while (nib_work_next(p, w, piece)) {
        const nib_place place = nib_place_of(p, piece.tile);
        int64_t m0 = place.m0;
        int tokens = TILE_M;
        mainloop_run(piece.k_end - piece.k_begin, slot, s);
        nib_wait_for_primary(); /* it may have used the workspace, and written scales of act */
        if (cluster > 1) {
            const int rank = (int)nib_cluster_rank();
            if (cluster == 2) {
                tokens = exchange_parts<2>(shared, rank, thread, s) * 8;
                m0 += columns_of_block<2>() * 8 * rank;
            } else {
                tokens = exchange_parts<4>(shared, rank, thread, s) * 8;
                m0 += columns_of_block<4>() * 8 * rank;
            }
        } else if (piece.k_end < p.k_blocks) {
            leave_part(p, thread, s);
            continue;
        } else if (piece.k_begin > 0) {
            take_parts(p, w, piece, thread, s);
        }
        store_tile(p, shared, place.n_block, m0, tokens, thread, s);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    nib_gemm(const __grid_constant__ nib_cuda_mapped_params x)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    const uint32_t shared = nib_shared_address(memory);
    const int warp =
        __shfl_sync(~0u, nib_thread() / 32, 0); /* the same in all lanes, and known to be */
    const int cluster = (int)nib_cluster_size();
    nib_allow_dependents();
    if (nib_thread() == 0)
        nib_barriers_begin(shared, x.mapped);
    if constexpr (NIB_CODE.kind == NIB_KIND_TABLE)
        nib_table_fill(shared + TABLE_AT, x.p.table, nib_table_lift(x.p.table), nib_thread(),
                       THREADS);
    __syncthreads(); /* barriers and table are there */
    if (warp >= CONSUMER_THREADS / 32) {
        nib_registers_shrink<REGISTERS_LOADER>();
        nib_load(x, shared, cluster, warp - CONSUMER_THREADS / 32);
        if (cluster > 1)
            exchange_nothing();
    } else {
        nib_registers_grow<REGISTERS_CONSUMER>();
        consume(x.p, shared, cluster);
    }
}
