/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the tiles of one plane of one matrix lie: the extents that turn a plane into addresses.
 * Everything that touches memory (copy.c, moves.c) gets its offsets here.
 */
#ifndef NIB_LAYOUT_PLACE_H
#define NIB_LAYOUT_PLACE_H

#include "layout/layout.h"

typedef struct nib_place {
    int64_t tiles_n, tiles_k;
    size_t tile_bytes;
    size_t stride_n, stride_k; /* bytes to the next tile along n and along k */
    size_t offset;
    size_t piece;      /* bytes from word to word of a woven tile; 0: tiles are whole */
    size_t last_bytes; /* of the last tile of a row: tile_bytes, or less with edge=cut */
    size_t bytes;      /* of the plane */
} nib_place;

/* NIB_INVALID: extents below 1, or bytes that do not fit PTRDIFF_MAX. */
nib_status nib_place_make(const nib_plane *plane, int64_t n, int64_t k, nib_place *out);

/* Bytes of the tile at column tile_k that belong to the plane. */
static inline size_t nib_place_bytes_at(const nib_place *place, int64_t tile_k)
{
    return tile_k == place->tiles_k - 1 ? place->last_bytes : place->tile_bytes;
}

/* Bytes from the start of the plane to a tile. */
static inline size_t nib_place_tile(const nib_place *place, int64_t tile_n, int64_t tile_k)
{
    return place->offset + (size_t)tile_n * place->stride_n + (size_t)tile_k * place->stride_k;
}

/* Bytes from the start of a tile to its byte number `byte`. */
static inline size_t nib_place_byte(const nib_place *place, size_t byte)
{
    return place->piece ? byte / 4 * place->piece + byte % 4 : byte;
}

/* `bits` (1..32) bits from bit number `bit` of a tile, touching only the bytes they lie in. */
static inline uint32_t nib_bits_read(const nib_place *place, const unsigned char *tile,
                                     uint64_t bit, int32_t bits)
{
    size_t first = bit >> 3;
    unsigned skip = bit & 7, bytes = (skip + (unsigned)bits + 7) >> 3;
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)tile[nib_place_byte(place, first + i)] << 8 * i;
    return (uint32_t)(value >> skip & ((UINT64_C(1) << bits) - 1));
}

/* ORs bits in; they are zero before. */
static inline void nib_bits_or(const nib_place *place, unsigned char *tile, uint64_t bit,
                               int32_t bits, uint32_t code)
{
    size_t first = bit >> 3;
    unsigned skip = bit & 7, bytes = (skip + (unsigned)bits + 7) >> 3;
    uint64_t value = (uint64_t)code << skip;
    for (unsigned i = 0; i < bytes; i++)
        tile[nib_place_byte(place, first + i)] |= (unsigned char)(value >> 8 * i);
}

#endif
