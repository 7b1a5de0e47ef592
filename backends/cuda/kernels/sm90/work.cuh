/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tiles, and which part of K of each, a block of the gemm kernel computes. Loaders and
 * consumers walk through the same list. variants/sm90_gemm.c chooses one of three ways by the shape
 * of the launch:
 *
 *     cluster of c   one tile for all of its blocks, block i takes part i of c of K
 *     p.split > 1    stream: the last tiles, less than two for each block, are cut into as many
 *                    equal runs of k blocks as there are blocks, whole tiles go before
 *     else           whole tiles, block after block
 *
 *     stream, 5 tiles, 3 blocks:  |tile 0   |tile 1   |tile 2   |tile 3   |tile 4   |
 *                                 |block 0        |block 1        |block 2          |
 *
 * A block walks its run backwards, so that the part whose tile another block ends (the last of the
 * run) is there early. Who has the last k of a tile adds all parts in the order of k; it waits for
 * blocks of lower numbers only, which have started before.
 *
 * Constants of the family: NIB_SPEC_TILE_N (64 for each consumer) and NIB_SPEC_TILE_M rows of W and
 * act of a tile, NIB_SPEC_UNIT_M rows of act of a product, NIB_SPEC_STAGES, NIB_SPEC_GATED
 * (tiles hold both halves of gated pairs), NIB_SPEC_ROUND (rolling.cuh in place of mainloop.cuh).
 */
#ifndef NIB_CUDA_SM90_WORK_CUH
#define NIB_CUDA_SM90_WORK_CUH

static constexpr int STAGE_K = 128;
static constexpr int TILE_N = NIB_SPEC_TILE_N, TILE_M = NIB_SPEC_TILE_M;
static constexpr int BLOCKS = TILE_N / 64; /* of the layout, and consumers */
static constexpr bool GATED = NIB_SPEC_GATED;
static constexpr int CONSUMER_THREADS = 128 * BLOCKS, THREADS = CONSUMER_THREADS + 128;

/* Tiles of act that go along N together: what they read of act stays in L2 while each tile of W is
 * read once for all of them. */
static constexpr int RASTER_M = 8;

/* A part of K of a tile, in blocks of 128. */
typedef struct nib_piece {
    int tile, k_begin, k_end;
} nib_piece;

typedef struct nib_work {
    uint32_t next, end;     /* runs: k blocks of all stream tiles, the next piece ends at `next` */
    int whole, whole_tiles; /* the next whole tile, and where they end */
    int cluster;
} nib_work;

NIB_DEVICE int nib_tiles_n(const nib_cuda_params &p)
{
    return (p.n_blocks + BLOCKS - 1) / BLOCKS;
}

NIB_DEVICE int nib_tiles_m(const nib_cuda_params &p)
{
    return (int)(((uint32_t)p.m + TILE_M - 1) / TILE_M);
}

NIB_DEVICE int nib_tiles(const nib_cuda_params &p)
{
    return nib_tiles_n(p) * nib_tiles_m(p);
}

/* How many of the tiles are cut. */
NIB_DEVICE int nib_stream_tiles(int tiles)
{
    const int blocks = (int)gridDim.x;
    return tiles < 2 * blocks ? tiles : tiles % blocks + blocks;
}

/* The first k block of a block's run, counted over all stream tiles: less than 2^32, because K has
 * at most 2^23 blocks and there are less than two tiles for each of some hundred blocks. */
NIB_DEVICE uint32_t nib_run_begin(uint32_t all, uint32_t block)
{
    const uint32_t each = all / gridDim.x, more = all - each * gridDim.x;
    return block * each + (block < more ? block : more);
}

NIB_DEVICE nib_work nib_work_begin(const nib_cuda_params &p, int cluster)
{
    const int tiles = nib_tiles(p), block = (int)blockIdx.x;
    nib_work w;
    w.cluster = cluster;
    w.next = w.end = 0;
    w.whole = block / cluster;
    w.whole_tiles = tiles;
    if (cluster == 1 && p.split > 1) {
        const int cut = nib_stream_tiles(tiles);
        const uint32_t all = (uint32_t)cut * (uint32_t)p.k_blocks;
        w.whole_tiles = tiles - cut;
        w.end = nib_run_begin(all, block);
        w.next = nib_run_begin(all, block + 1);
    }
    return w;
}

/* The next piece of the block, false after the last. Pieces are never empty. */
NIB_DEVICE bool nib_work_next(const nib_cuda_params &p, nib_work &w, nib_piece &piece)
{
    if (w.whole < w.whole_tiles) {
        const int parts = w.cluster;
        const uint32_t part = parts > 1 ? nib_cluster_rank() : 0;
        piece.tile = w.whole;
        piece.k_begin = (int)((uint32_t)p.k_blocks * part / (uint32_t)parts);
        piece.k_end = (int)((uint32_t)p.k_blocks * (part + 1) / (uint32_t)parts);
        w.whole = parts > 1 ? w.whole_tiles : w.whole + (int)gridDim.x;
        return true;
    }
    if (w.next <= w.end)
        return false;
    const uint32_t tile = (w.next - 1) / (uint32_t)p.k_blocks, first = tile * (uint32_t)p.k_blocks;
    const uint32_t begin = first < w.end ? w.end : first;
    piece.tile = w.whole_tiles + (int)tile;
    piece.k_begin = (int)(begin - first);
    piece.k_end = (int)(w.next - first);
    w.next = begin;
    return true;
}

/* Where a tile is: its first block of 64 rows of W (gated: of the lower half) and row of act. */
typedef struct nib_place {
    int n_block;
    int m0;
} nib_place;

NIB_DEVICE nib_place nib_place_of(const nib_cuda_params &p, int tile)
{
    const int tiles_n = nib_tiles_n(p), tiles_m = nib_tiles_m(p);
    const int strip = tile / (RASTER_M * tiles_n), within = tile - strip * (RASTER_M * tiles_n);
    const int height = nib_minimum(RASTER_M, tiles_m - strip * RASTER_M);
    nib_place place;
    place.n_block = within / height * (GATED ? BLOCKS / 2 : BLOCKS);
    place.m0 = (strip * RASTER_M + within % height) * TILE_M;
    return place;
}

/* The layout's block that is block `index` of a tile. A tile of gated pairs has as many blocks of
 * the lower half of W's rows as of the upper. Past the last block it is repeated: what comes of it
 * is not stored. */
NIB_DEVICE int nib_block_of(const nib_cuda_params &p, int n_block, int index)
{
    if constexpr (GATED) {
        const int half = p.n_blocks / 2, upper = index / (BLOCKS / 2);
        return nib_minimum(n_block + index % (BLOCKS / 2), half - 1) + upper * half;
    }
    return nib_minimum(n_block + index, p.n_blocks - 1);
}

#endif
