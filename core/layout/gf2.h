/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices over GF(2), small enough for one machine word a row: the algebra of layouts. A plane's
 * address map is such a matrix; converting between layouts is a product with an inverse.
 */
#ifndef NIB_LAYOUT_GF2_H
#define NIB_LAYOUT_GF2_H

#include "layout/layout.h"

#define NIB_GF2_MAX 64

/* row[i], bit j is the entry at row i, column j; bits from `cols` on are zero. */
typedef struct nib_gf2 {
    int32_t rows, cols;
    uint64_t row[NIB_GF2_MAX];
} nib_gf2;

nib_gf2 nib_gf2_identity(int32_t size);
/* The product a b: first b, then a. a->cols equals b->rows. */
nib_gf2 nib_gf2_compose(const nib_gf2 *a, const nib_gf2 *b);
/* False, and `out` untouched, if `a` is not square or has no inverse. */
bool nib_gf2_invert(const nib_gf2 *a, nib_gf2 *out);
int32_t nib_gf2_rank(const nib_gf2 *a);
/* a x, for x with bit j in column j. */
uint64_t nib_gf2_apply(const nib_gf2 *a, uint64_t x);

/* The address map of a plane: column j is n bit j for j < n_bits, then come the k bits. With
 * extents above the plane's own, the map of a block of tiles: tile index bits, the faster first,
 * stand above the address within a tile. n_bits + k_bits is at most NIB_GF2_MAX. */
nib_gf2 nib_plane_gf2(const nib_plane *plane, int32_t n_bits, int32_t k_bits);

/* nib_layout_free_word with a sentence about what stops the next wider unit ("" if nothing). */
typedef struct nib_free_word {
    int32_t bytes;
    char why[256];
} nib_free_word;
nib_free_word nib_layout_free_why(const nib_layout *from, const nib_layout *to);

#endif
