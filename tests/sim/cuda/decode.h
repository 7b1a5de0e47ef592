/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoders of the instruction classes, each in the ops_*.c file of its class, and what they
 * share. decode.c's table names them by the opcode's first part.
 */
#ifndef SIM_CUDA_DECODE_H
#define SIM_CUDA_DECODE_H

#include "parse.h"

/* ops_integer.c, ops_product.c, ops_bits.c */
sim_decoder sim_decode_add, sim_decode_carry, sim_decode_unary, sim_decode_divide,
    sim_decode_extreme, sim_decode_mul, sim_decode_mad, sim_decode_dot;
sim_decoder sim_decode_logic, sim_decode_logic3, sim_decode_shift, sim_decode_funnel,
    sim_decode_permute, sim_decode_bits;
/* ops_float.c, ops_half.c, ops_transcendental.c: for the types they know */
sim_decoder sim_decode_float_binary, sim_decode_fma, sim_decode_float_unary,
    sim_decode_float_divide, sim_decode_float_extreme, sim_decode_copysign, sim_decode_testp,
    sim_decode_half, sim_decode_transcendental;
/* ops_move.c, ops_compare.c, ops_convert.c */
sim_decoder sim_decode_move, sim_decode_address, sim_decode_space, sim_decode_policy,
    sim_decode_select, sim_decode_compare, sim_decode_convert;
/* ops_memory.c, ops_atomic.c, ops_copy.c */
sim_decoder sim_decode_load, sim_decode_store, sim_decode_atomic, sim_decode_copy;
/* ops_mbarrier.c, ops_bulk.c, ops_send.c */
sim_decoder sim_decode_mbarrier, sim_decode_bulk, sim_decode_proxy_fence, sim_decode_send,
    sim_decode_prefetch;
/* ops_control.c */
sim_decoder sim_decode_branch, sim_decode_barrier, sim_decode_fence, sim_decode_hint,
    sim_decode_sleep;
bool sim_branch_operands(sim_linker *linker, sim_insn *in, char *operands);
/* ops_cluster.c, ops_grid.c */
sim_decoder sim_decode_map, sim_decode_rank, sim_decode_cluster_barrier, sim_decode_grid;
/* ops_warp.c */
sim_decoder sim_decode_shuffle, sim_decode_vote, sim_decode_match, sim_decode_redux,
    sim_decode_elect, sim_decode_activemask;
/* ops_matrix.c, ops_mma.c, ops_wgmma.c, ops_setmaxnreg.c */
sim_decoder sim_decode_matrix, sim_decode_mma, sim_decode_wgmma, sim_decode_setmaxnreg;

bool sim_take_prefix(sim_linker *linker, const char *prefix);

#endif
