/* SPDX-License-Identifier: Apache-2.0
 *
 * Any layout to any layout in device memory. A thread writes one piece of a target plane, a 32-bit
 * word where tiles are made of whole aligned words, else a byte: nothing is written twice, and gaps
 * between tiles stay as they are. For each cell in its piece it asks the target's inverse map which
 * element that is, and the source's map where its code lies:
 *
 *     piece -> cells -> (n, k) -> + (n0, k0) -> cell of each source plane -> bits -> code -> piece
 *
 * Both maps are linear over GF(2), so they are looked up by bytes of their arguments in tables that
 * a block makes once. docs/layouts.md has the idea, variants/convert.c fills the parameters.
 */
#include "kernels/general/number.cuh"

#include "kernels/general/convert.h"

enum { BYTE_VALUES = 256 };

struct convert_tables {
    uint32_t element[2][BYTE_VALUES]; /* by the cell's low and high byte: n | k << 16 */
    uint16_t cell[3][4][BYTE_VALUES]; /* by plane and byte of n | k << 16: the cell */
};

__device__ __forceinline__ uint32_t parity(uint32_t bits)
{
    return __popc(bits) & 1;
}

/* THREADS is BYTE_VALUES: each thread makes one entry of every table. */
__device__ __forceinline__ void make_tables(const nib_cuda_convert_params &p,
                                            convert_tables &tables)
{
    uint32_t value = threadIdx.x;
    for (int byte = 0; byte < 2; byte++) {
        uint32_t element = 0;
        for (int bit = 0; bit < 32; bit++)
            element |= parity(p.inverse[bit] & value << 8 * byte) << bit;
        tables.element[byte][value] = element;
    }
    for (int plane = 0; plane < p.planes; plane++)
        for (int byte = 0; byte < 4; byte++) {
            uint32_t cell = 0;
            for (int bit = 0; bit < 16; bit++)
                cell |= parity(p.from[plane].addr[bit] & value << 8 * byte) << bit;
            tables.cell[plane][byte][value] = (uint16_t)cell;
        }
}

/* `bits` (1..32) bits from bit number `bit` of a tile, touching only the bytes they lie in. */
__device__ __forceinline__ uint32_t read_bits(const nib_cuda_convert_plane &plane,
                                              const unsigned char *tile, uint32_t bit)
{
    uint32_t first = bit >> 3, skip = bit & 7, bytes = (skip + plane.bits + 7) >> 3;
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t byte = first + i;
        uint64_t at = plane.piece ? (byte >> 2) * plane.piece + (byte & 3) : byte;
        value |= (uint64_t)tile[at] << 8 * i;
    }
    return (uint32_t)(value >> skip) & (0xffffffffu >> (32 - plane.bits));
}

__device__ __forceinline__ uint32_t load_code(const nib_cuda_convert_params &p,
                                              const convert_tables &tables, int64_t n, int64_t k)
{
    uint32_t code = 0;
#pragma unroll
    for (int q = 0; q < 3; q++) {
        const nib_cuda_convert_plane &plane = p.from[q];
        if (q >= p.planes)
            break;
        uint32_t low_n = (uint32_t)n & ((1u << plane.n_bits) - 1);
        uint32_t low_k = (uint32_t)k & ((1u << plane.k_bits) - 1);
        uint32_t cell = tables.cell[q][0][low_n & 255] ^ tables.cell[q][1][low_n >> 8] ^
                        tables.cell[q][2][low_k & 255] ^ tables.cell[q][3][low_k >> 8];
        const unsigned char *tile = plane.memory + (uint64_t)(n >> plane.n_bits) * plane.stride_n +
                                    (uint64_t)(k >> plane.k_bits) * plane.stride_k;
        code |= read_bits(plane, tile, cell * plane.cell) << plane.shift;
    }
    return ((code + p.add) & p.mask) ^ p.flip;
}

/* The bits of one piece, which begins at bit `bit` of its tile. */
__device__ __forceinline__ uint32_t make_piece(const nib_cuda_convert_params &p,
                                               const convert_tables &tables, int64_t tile_n,
                                               int64_t tile_k, uint32_t bit)
{
    uint32_t first = bit / p.to.cell, last = (bit + 8 * p.width - 1) / p.to.cell, piece = 0;
    uint32_t mask = 0xffffffffu >> (32 - p.to.bits);
    for (uint32_t cell = first; cell <= last; cell++) {
        uint32_t element = tables.element[0][cell & 255] ^ tables.element[1][cell >> 8];
        int64_t n = (tile_n << p.to.n_bits) + (element & 0xffff);
        int64_t k = (tile_k << p.to.k_bits) + (element >> 16);
        if (n >= p.n || k >= p.k)
            continue;
        uint32_t code = load_code(p, tables, p.n0 + n, p.k0 + k) >> p.to.shift & mask;
        int32_t place = (int32_t)(cell * p.to.cell - bit);
        piece |= place < 0 ? code >> -place : code << place;
    }
    return piece;
}

__device__ __forceinline__ void write_piece(const nib_cuda_convert_params &p,
                                            const convert_tables &tables, uint64_t index)
{
    uint64_t line = index / p.line_pieces, in_line = index - line * p.line_pieces, tile, piece;
    if (p.woven) {
        piece = in_line / p.line_tiles;
        tile = in_line - piece * p.line_tiles;
    } else {
        tile = in_line / p.tile_pieces;
        piece = in_line - tile * p.tile_pieces;
    }
    int64_t tile_n = (int64_t)(p.k_first ? line : tile),
            tile_k = (int64_t)(p.k_first ? tile : line);
    uint32_t byte = (uint32_t)piece * p.width;
    if (tile_k == p.last_tile_k && byte >= p.last_bytes)
        return;
    uint32_t bits = make_piece(p, tables, tile_n, tile_k, 8 * byte);
    unsigned char *to = p.to.memory + tile_n * p.to.stride_n + tile_k * p.to.stride_k +
                        (p.woven ? (byte >> 2) * p.to.piece + (byte & 3) : byte);
    if (p.width == 4)
        *(uint32_t *)to = bits;
    else
        *to = (unsigned char)bits;
}

extern "C" __global__ void __launch_bounds__(NIB_CUDA_CONVERT_THREADS)
    nib_convert(const __grid_constant__ nib_cuda_convert_params p)
{
    __shared__ convert_tables tables;
    make_tables(p, tables);
    __syncthreads(); /* the tables are there */
    for (uint64_t i = (uint64_t)blockIdx.x * NIB_CUDA_CONVERT_THREADS + threadIdx.x; i < p.pieces;
         i += (uint64_t)gridDim.x * NIB_CUDA_CONVERT_THREADS)
        write_piece(p, tables, i);
}
