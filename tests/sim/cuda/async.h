/* SPDX-License-Identifier: Apache-2.0
 *
 * The asynchronous proxy: what reads and writes shared memory beside the threads. Bulk copies
 * (ops_bulk.c) and wgmma (ops_wgmma.c) go through it, mbarriers (ops_mbarrier.c) tell when copies
 * have landed, schedule.c lets them land. The rules that it holds programs to:
 *
 *   - What threads stored is seen by the proxy after the storing thread's fence.proxy.async and an
 *     order (barrier, mbarrier) from there to whoever starts the read.
 *   - What a copy brings is seen by whoever knows that the copy's phase of its mbarrier is over:
 *     waited for it, or is ordered behind somebody who did. Until the copy has landed its target
 *     must not be touched at all.
 *   - What the proxy reads must not be written before the read is known to be over.
 */
#ifndef SIM_CUDA_ASYNC_H
#define SIM_CUDA_ASYNC_H

#include "machine.h"

/* The bytes of an operand that the proxy reads for a warp, checked: written, landed, ordered,
 * fenced. NULL after a fault. The read is noted as the warp's at its present time. */
const uint8_t *sim_async_read(sim_warp *warp, const sim_insn *in, uint32_t offset, uint32_t bytes);
/* The same, not noted. */
const uint8_t *sim_async_look(sim_warp *warp, const sim_insn *in, uint32_t offset, uint32_t bytes);
/* Bytes that the proxy is going to read at some time: until they are let go nobody may write them.
 * May be nested. */
void sim_async_pin(sim_block *block, uint32_t offset, uint32_t bytes);
void sim_async_unpin(sim_block *block, uint32_t offset, uint32_t bytes);
/* The proxy's read is over and the warp knows: call it for every warp that waited, after unpin. */
void sim_async_done(sim_warp *warp, uint32_t offset, uint32_t bytes);

/* ---- for schedule.c ---- */

/* At the start of each slice: lands something, if that may be at random. */
void sim_async_slice(sim_block *block);
/* Nobody can run: lands something that somebody waits for, or anything; false when all has landed
 * but what nobody needs. */
bool sim_async_force(sim_block *block);
/* Nothing is left to land: waits for mbarriers give up and answer false. False when there are none,
 * or when giving up led nowhere for long. */
bool sim_async_expire(sim_block *block);
/* All warps have left: lands what may land late, faults where a copy has lost its target. */
void sim_async_end(sim_block *block);
bool sim_async_create(sim_block *block);
void sim_async_reset(sim_block *block);
void sim_async_destroy(sim_block *block);

#endif
