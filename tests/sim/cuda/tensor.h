/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of tensor cores, apart from where the numbers come from. ops_mma.c uses it.
 */
#ifndef SIM_CUDA_TENSOR_H
#define SIM_CUDA_TENSOR_H

#include "ptx.h"

enum { SIM_TILE_M = 16, SIM_TILE_N = 8, SIM_TILE_K = 64 };

/* How a float product is summed. All products of a block of k and the addend are aligned to the
 * largest of their exponents, cut to `fraction` bits below it, added exactly, and the sum is cut to
 * `kept` significant bits. */
typedef struct sim_tensor_rule {
    unsigned fraction, kept;
    unsigned block;
} sim_tensor_rule;

typedef struct sim_tile {
    enum sim_type a_type, b_type; /* of 8 or 16 bits */
    int k;
    uint16_t a[SIM_TILE_M][SIM_TILE_K], b[SIM_TILE_K][SIM_TILE_N]; /* codes */
    float c[SIM_TILE_M][SIM_TILE_N];
    double sum[SIM_TILE_M][SIM_TILE_N]; /* out: exact, not yet cut to `kept` bits */
} sim_tile;

/* sum = c + a b under the rule. Blocks follow each other through c, which is left changed. */
void sim_tile_multiply(sim_tile *tile, const sim_tensor_rule *rule);
/* A sum as the f32 a tensor core answers. */
float sim_tensor_f32(double sum, unsigned kept);
/* And as f16: rounded to nearest. */
uint32_t sim_tensor_f16(double sum);

#endif
