/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm kernel of Hopper for activations of 8 bits, any number of rows of them. Both operands of
 * its products are in shared memory: from registers, as gemm.cu has W's, products and the
 * arithmetic that makes operands meet at the ports of the registers, and 128 tokens took 1300
 * cycles a stage on an H200 instead of 512. Here a third warpgroup, the makers, works for two
 * consumers, each of 64 rows of W:
 *
 *     makers      copies of stage i + LEAD, codes of stage i to operands
 *     consumers   products of a unit | its sums to the totals, while the other one multiplies
 *
 * In the order of the data: work.cuh deals out tiles, load8.cuh and expand8.cuh are the makers',
 * sums8.cuh and this file the consumers', output.cuh ends tiles. variants/sm90_gemm8.c launches it:
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
static constexpr int REGISTERS_BEGIN = 65536 / NIB_SPEC_RESIDENT / THREADS / 8 * 8;
static constexpr int REGISTERS_MAKER = NIB_SPEC_RESIDENT > 1 ? 56 : 72;
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
    s.operands = thread / 128 * OPERAND_BLOCK;
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
NIB_DEVICE void run_stages(int count, uint32_t shared, nib_slot &stage, nib_slot &buffer, state &s)
{
#pragma unroll
    for (int i = 0; i < NIB_UNIT_COUNT; i++)
        s.tot[0][i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        nib_barrier_wait(full_of(shared, stage), stage.parity);
        nib_barrier_wait(ready_of(shared, buffer), buffer.parity);
        run_units<0>(nib_bytes_matrix(operands_of(shared, buffer) + s.operands),
                     nib_bytes_matrix(act_of(shared, stage)), weights_of(shared, stage) + s.scales,
                     empty_of(shared, buffer), s);
        nib_slot_next<STAGES>(stage);
        nib_slot_next<BUFFERS>(buffer);
    }
}

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

extern "C" __global__ void __launch_bounds__(THREADS, NIB_SPEC_RESIDENT)
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
