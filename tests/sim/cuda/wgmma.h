/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma: products that a warpgroup asks for and that are computed later. What a program owes them:
 *
 *   - wgmma.fence between any other use of a register and a product that uses it. Products of the
 *     same shape may follow each other in the same accumulators.
 *   - Accumulators, and fragments of A, must not be touched until wgmma.wait_group has waited for a
 *     group that the product was committed to.
 *   - All four warps ask for the same products in the same order.
 *   - Operands in shared memory are the asynchronous proxy's: async.h.
 *
 * ops_wgmma.c has the instructions, wgmma.c descriptors and sums, schedule.c the moments.
 */
#ifndef SIM_CUDA_WGMMA_H
#define SIM_CUDA_WGMMA_H

#include "machine.h"

enum { SIM_GROUP_M = 64, SIM_ROW_BYTES = 32 /* of k, in one product */, SIM_MOST_N = 256 };

/* A product that some warp of the group has not waited for. */
typedef struct sim_product {
    const sim_insn *in;
    uint64_t a, b; /* descriptors */
    bool adds;     /* to the accumulators, else they are zero */
    bool done;
    uint8_t came; /* warps that asked for it, a bit each */
} sim_product;

typedef struct sim_warpgroup {
    sim_product *product;
    uint32_t products, room;
    uint32_t first, ran; /* number of product[0]; of the next one to compute */
} sim_warpgroup;

/* What happened to a register. */
typedef struct sim_use {
    uint32_t epoch; /* wgmma.fences before its last use, + 1; 0: never used */
    uint16_t busy;  /* products that use it and have not been waited for */
    uint16_t shape; /* of the product that used it last; 0: another instruction */
} sim_use;

typedef struct sim_wgmma {
    sim_use *use;            /* [registers] */
    uint32_t epoch;          /* wgmma.fences so far */
    uint32_t issued, waited; /* products */
    uint32_t *group;         /* products issued at each commit that nobody waited for */
    uint32_t groups, group_room;
} sim_wgmma;

/* Where operands lie in shared memory, as a descriptor says. */
typedef struct sim_matrix {
    uint32_t start, leading, stride; /* bytes */
    uint32_t mask, base;             /* of the swizzle, in 16-byte columns; 0: none */
} sim_matrix;

/* False, with a sentence, when it means nothing. */
bool sim_matrix_decode(uint64_t descriptor, sim_matrix *out, const char **why);
/* The shared address of a 16-byte column, 0 or 1, of a row. */
uint32_t sim_matrix_at(const sim_matrix *m, uint32_t row, uint32_t column);
/* Computes it for all four warps; the operands were checked when it was asked for. */
void sim_product_compute(sim_block *block, uint32_t group, const sim_product *product);

/* For schedule.c: other instructions' registers. False after a fault. */
bool sim_wgmma_touch(sim_warp *warp, const sim_insn *in);
/* Computes a product of the warp's group that has come whole, if there is one. */
void sim_wgmma_advance(sim_warp *warp);
/* Whether lanes may leave: not with products that nobody waited for. */
bool sim_wgmma_leave(sim_warp *warp, const sim_insn *in);

bool sim_wgmma_create(sim_block *block);
void sim_wgmma_reset(sim_block *block);
void sim_wgmma_destroy(sim_block *block);

#endif
