/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands kernels/general/convert.cu: one struct by value. Plain C that both compilers
 * read; variants/convert.c fills it from nib_convert_args, and backend.h says what a plane's
 * numbers mean.
 */
#ifndef NIB_CUDA_CONVERT_PARAMS_H
#define NIB_CUDA_CONVERT_PARAMS_H

enum { NIB_CUDA_CONVERT_THREADS = 256 };

typedef struct nib_cuda_convert_plane {
    unsigned char *memory; /* of the plane, offset included */
    uint64_t stride_n, stride_k, piece;
    int32_t bits, shift, cell, n_bits, k_bits, reserved;
    uint32_t addr[16]; /* of a cell's bits: masks of n | k << 16 */
} nib_cuda_convert_plane;

/* One plane of the target from all planes of the source. The target is made of pieces of `width`
 * bytes, each whole in one tile, and counted line by line; a line is the tiles along the faster
 * index of tiles. */
typedef struct nib_cuda_convert_params {
    nib_cuda_convert_plane from[3], to;
    uint32_t
        inverse[32]; /* of to.addr: bit i of n, and from 16 on of k: masks of the cell's bits */
    int32_t planes;  /* of the source; those that no bit of the target plane needs are left out */
    int32_t width;   /* 1, or 4: then all pieces are aligned */
    uint32_t add, flip, mask; /* mask: all bits of a code */
    int32_t k_first;          /* tiles along k follow each other */
    int64_t n0, k0, n, k;     /* the region of the source; its extents are the target's */
    uint64_t pieces, line_pieces, line_tiles;
    uint32_t tile_pieces, tile_bytes, last_bytes; /* last: of the last tile along k */
    uint32_t woven;
    int64_t last_tile_k;
} nib_cuda_convert_params;

#endif
