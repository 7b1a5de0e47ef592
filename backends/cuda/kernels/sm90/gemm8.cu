/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm kernel of Hopper for activations of 8 bits and many rows of them: both operands of its
 * products are in shared memory. Beside it, gemm.cu keeps W's in registers (mainloop8.cuh), which
 * is the better way for few rows: there a code is made an operand by the warps that multiply it,
 * but registers are what products and arithmetic share. Here a third warpgroup, the makers, does
 * that work for two consumers:
 *
 *     makers        copies of stage i + LEAD | codes of stage i to operands
 *     consumers     products of a unit | its sums to the totals, while the other one multiplies
 *
 * Work is dealt out by work.cuh, tiles end in output.cuh, as in gemm.cu. variants/sm90_gemm.c
 * launches it.
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

#include "kernels/sm90/mma8.cuh"

#include "kernels/sm90/dequant8.cuh"

#include "kernels/sm90/sums8.cuh"

#include "kernels/sm90/expand8.cuh"

/* Registers of a thread: at the start the same for all, then makers give most of theirs away. */
static constexpr int REGISTERS_BEGIN = 65536 / THREADS / 8 * 8;
static constexpr int REGISTERS_MAKER = 72;
static constexpr int REGISTERS_CONSUMER =
    (REGISTERS_BEGIN * THREADS - REGISTERS_MAKER * 128) / CONSUMER_THREADS / 8 * 8;

/* What a lane works on. */
struct state {
    float tot[HALVES][NIB_UNIT_COUNT];
    uint32_t operands, scales; /* places of the consumer and the lane in a buffer and in a stage */
    int one_scale;
};

#include "kernels/sm90/output.cuh"

/* ---- a consumer --------------------------------------------------------------------------- */

NIB_DEVICE void state_begin(const nib_cuda_params &p, int thread, state &s)
{
    s.operands = thread / 128 * BLOCK_BYTES;
    s.scales = scales_place(p, thread);
    s.one_scale = p.one_scale;
}

/* Products of a unit, 32 bytes of both operands' rows at a time. */
template <int INDEX = 0>
NIB_DEVICE void multiply(uint64_t a, uint64_t b, nib_sum (&acc)[NIB_UNIT_COUNT])
{
    nib_bytes_multiply<(INDEX > 0)>(acc, a + INDEX * STEP_K / 16, b + INDEX * STEP_K / 16);
    if constexpr (INDEX + 1 < UNIT_STEPS)
        multiply<INDEX + 1>(a, b, acc);
}

/* Units from CHUNK on of a stage that is there. */
template <int CHUNK>
NIB_DEVICE void run_units(uint64_t a, uint64_t b, uint32_t scales, uint32_t empty, state &s)
{
    nib_sum acc[NIB_UNIT_COUNT];
    float scale[2];
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        acc[i] = 0;
    nib_hold(acc);
    nib_unit_fence();
    multiply(a, b, acc);
    nib_unit_commit();
    fetch_scales<CHUNK>(scales, s.one_scale, scale);
    nib_unit_wait<0>();
    if (CHUNK + 1 == CHUNKS && nib_thread() % 32 == 0)
        nib_barrier_arrive(empty); /* scales are in registers, products are complete */
    add_up(acc, scale, s.tot[0]);
    if constexpr (CHUNK + 1 < CHUNKS)
        run_units<CHUNK + 1>(a + CHUNK_K / 16, b + CHUNK_K / 16, scales, empty, s);
}

/* Sums the products of `count` stages in s.tot. */
NIB_DEVICE void run_stages(int count, nib_slot &slot, nib_buffer &buffer, state &s)
{
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        s.tot[0][i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        nib_barrier_wait(nib_slot_barrier(slot, BARRIER_FULL), slot.parity);
        nib_barrier_wait(nib_buffer_barrier(buffer, BARRIER_READY), buffer.parity);
        run_units<0>(nib_act_matrix(nib_buffer_address(buffer) + s.operands),
                     nib_act_matrix(nib_slot_act(slot)), nib_slot_weights(slot) + s.scales,
                     nib_buffer_barrier(buffer, BARRIER_EMPTY), s);
        nib_slot_next(slot);
        nib_buffer_next(buffer);
    }
}

/* All pieces of the block. */
NIB_DEVICE void consume(const nib_cuda_params &p, uint32_t shared, int cluster)
{
    const int thread = nib_thread();
    nib_work w = nib_work_begin(p, cluster);
    nib_slot slot = {shared, 0, 0};
    nib_buffer buffer = {shared, 0, 0};
    nib_piece piece;
    state s;
    state_begin(p, thread, s);
    while (nib_work_next(p, w, piece)) {
        const nib_place place = nib_place_of(p, piece.tile);
        int64_t m0 = place.m0;
        int tokens = TILE_M;
        run_stages(piece.k_end - piece.k_begin, slot, buffer, s);
        nib_wait_for_primary(); /* it may have used the workspace, and written scales of act */
        if (cluster > 1) {
            exchange_parts(shared, cluster, thread, s);
            tokens = columns_of_block(cluster) * 8;
            m0 += tokens * (int)nib_cluster_rank();
        } else if (piece.k_end < p.k_blocks) {
            leave_part(p, thread, s);
            continue;
        } else if (piece.k_begin > 0) {
            take_parts(p, w, piece, thread, s);
        }
        store_tile(p, shared, place.n_block, m0, tokens, thread, s);
    }
}

/* ---- the block ---------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    nib_gemm(const __grid_constant__ nib_cuda_mapped_params x)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    const uint32_t shared = nib_shared_address(memory);
    const int warp = nib_thread() / 32, cluster = (int)nib_cluster_size();
    nib_allow_dependents();
    if (nib_thread() == 0)
        nib_bytes_barriers_begin(shared, x.mapped);
    __syncthreads(); /* barriers are there */
    if (warp >= CONSUMER_THREADS / 32) {
        nib_registers_shrink<REGISTERS_MAKER>();
        nib_make(x, shared, cluster, warp - CONSUMER_THREADS / 32);
        if (cluster > 1)
            exchange_nothing();
    } else {
        nib_registers_grow<REGISTERS_CONSUMER>();
        consume(x.p, shared, cluster);
    }
}
