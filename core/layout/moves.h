/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy between two layouts as a short program of word moves. Both layouts repeat from one block
 * of tiles to the next, so the moves of one block serve all: each 32-bit word of the target is an
 * OR of source words, turned and masked. The program is computed from the two layouts alone, bit by
 * bit, so every pair of layouts has one; that is what makes loading a model fast without a kernel a
 * format.
 */
#ifndef NIB_LAYOUT_MOVES_H
#define NIB_LAYOUT_MOVES_H

#include "layout/place.h"

/* One side of a copy: the matrix and where its tiles lie. */
typedef struct nib_side {
    const nib_matrix *matrix;
    nib_place place[NIB_LAYOUT_PLANES];
    /* Addresses are linear over GF(2): the cell of (n, k) within a tile is of_n[n] ^ of_k[k]. */
    const uint32_t *of_n[NIB_LAYOUT_PLANES], *of_k[NIB_LAYOUT_PLANES];
} nib_side;

typedef struct nib_move {
    size_t from; /* bytes from the block's first tile in the source plane */
    uint32_t mask;
    uint8_t plane;
    uint8_t turn; /* to the left */
} nib_move;

typedef struct nib_word {
    size_t to; /* bytes from the block's first tile in the target plane */
    uint32_t flip;
    uint16_t plane;
    uint16_t moves; /* how many of the moves belong to this word */
    uint32_t span;  /* above 0: this and the words behind it, as many, are one piece of the source;
                     * its move says where. They have no entries of their own */
} nib_word;

typedef struct nib_moves {
    int32_t n_bits, k_bits; /* extents of a block */
    size_t word_count, move_count;
    nib_word *words; /* NULL: this pair has no program, or it would not pay */
    nib_move *moves;
} nib_moves;

/* The program for copying the region at (n0, k0) of `from` to `to`. `flip` is XORed to each code.
 * There is none (words NULL, NIB_OK) when the region is no block large, does not begin at a tile of
 * the source, or a block would be too large. */
nib_status nib_moves_make(const nib_side *from, int64_t n0, int64_t k0, const nib_side *to,
                          uint32_t flip, nib_moves *out);
/* Runs it for all whole blocks of the target. */
void nib_moves_run(const nib_moves *moves, const nib_side *from, int64_t n0, int64_t k0,
                   const nib_side *to);
void nib_moves_free(nib_moves *moves);

#endif
