/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of tensor cores, apart from where the numbers come from. ops_mma.c and
 * wgmma.c use it.
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

/* Rows of A and columns of B: their codes, and what sim_tile_split_* makes of them, once for all
 * tiles that they are in. value = mantissa * 2^(exponent - bits of the format's mantissa). */
typedef struct sim_tile_a {
    enum sim_type type; /* of 8 or 16 bits */
    uint16_t code[SIM_TILE_M][SIM_TILE_K];
    int32_t mantissa[SIM_TILE_M][SIM_TILE_K], exponent[SIM_TILE_M][SIM_TILE_K];
    bool special[SIM_TILE_M]; /* holds infinities or NaN, whose mantissa is 0 */
} sim_tile_a;

typedef struct sim_tile_b {
    enum sim_type type;
    uint16_t code[SIM_TILE_K][SIM_TILE_N];
    int32_t mantissa[SIM_TILE_K][SIM_TILE_N], exponent[SIM_TILE_K][SIM_TILE_N];
    bool special[SIM_TILE_N];
} sim_tile_b;

typedef struct sim_tile_c {
    float addend[SIM_TILE_M][SIM_TILE_N];
    double sum[SIM_TILE_M][SIM_TILE_N]; /* out: exact, not yet cut to `kept` bits */
} sim_tile_c;

void sim_tile_split_a(sim_tile_a *a, int k);
void sim_tile_split_b(sim_tile_b *b, int k);
/* sum = addend + a b under the rule. Blocks follow each other through the addend, which is left
 * changed. */
void sim_tile_multiply(const sim_tile_a *a, const sim_tile_b *b, int k, sim_tile_c *c,
                       const sim_tensor_rule *rule);
/* A sum as the f32 a tensor core answers. */
float sim_tensor_f32(double sum, unsigned kept);
/* And as f16: rounded to nearest. */
uint32_t sim_tensor_f16(double sum);

#endif
