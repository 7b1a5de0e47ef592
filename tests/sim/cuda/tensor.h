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

/* value = mantissa * 2^(exponent - bits of the format's mantissa) */
typedef struct sim_tile {
    int32_t a_mantissa[SIM_TILE_M][SIM_TILE_K], a_exponent[SIM_TILE_M][SIM_TILE_K];
    int32_t b_mantissa[SIM_TILE_K][SIM_TILE_N], b_exponent[SIM_TILE_K][SIM_TILE_N];
    bool a_special[SIM_TILE_M], b_special[SIM_TILE_N]; /* holds an infinity or a NaN */
    double a_value[SIM_TILE_M][SIM_TILE_K], b_value[SIM_TILE_K][SIM_TILE_N]; /* of those */
    float c[SIM_TILE_M][SIM_TILE_N];
    double sum[SIM_TILE_M][SIM_TILE_N]; /* out: exact, not yet cut to `kept` bits */
    int k;
    int a_bits, b_bits; /* of the formats' mantissas, without the hidden one */
} sim_tile;

void sim_tile_set_a(sim_tile *tile, enum sim_type type, int row, int k, uint32_t code);
void sim_tile_set_b(sim_tile *tile, enum sim_type type, int k, int column, uint32_t code);
/* sum = c + a b under the rule. Blocks follow each other through c, which is left changed. */
void sim_tile_multiply(sim_tile *tile, const sim_tensor_rule *rule);
/* A sum as the f32 a tensor core answers. */
float sim_tensor_f32(double sum, unsigned kept);
/* And as f16: rounded to nearest. */
uint32_t sim_tensor_f16(double sum);

#endif
