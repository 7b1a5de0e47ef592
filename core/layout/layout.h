/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts as data. A layout says where the codes of a matrix [n, k] lie in memory. It has one to
 * three planes; each plane carries some bits of every code (3 = 2 + 1). A plane cuts the matrix
 * into tiles of 2^n_bits x 2^k_bits elements; inside a tile, bit i of an element's address is the
 * XOR of bits of its n and k (a matrix over GF(2), which must be invertible); tiles follow each
 * other row by row or column by column, `pitch` bytes apart. Edges are padded with whole tiles of
 * zeros. Memory counts bits from the least significant of its first byte.
 *
 *     text:  bits=4 tile=n8,k1 addr=n1,n2,n0 order=kn                       (AWQ)
 *
 * One packer, one unpacker and one converter (copy.c, moves.c) serve all layouts. Rows by name are
 * in rows.c, the text in text.c. docs/layouts.md has the grammar.
 */
#ifndef NIB_LAYOUT_LAYOUT_H
#define NIB_LAYOUT_LAYOUT_H

#include <nibblas/nibblas.h>
#include <stdbool.h>

#define NIB_LAYOUT_PLANES     3
#define NIB_LAYOUT_ADDR_BITS  16 /* a tile has at most 65536 elements */
#define NIB_LAYOUT_TEXT_BYTES 512
#define NIB_LAYOUT_ALIGN      64 /* planes of one buffer start at multiples of this */

typedef enum nib_tile_order {
    NIB_TILES_NK = 0, /* k is the faster tile index */
    NIB_TILES_KN = 1  /* n is the faster tile index */
} nib_tile_order;

typedef struct nib_plane {
    int32_t bits;  /* of a code that this plane carries */
    int32_t shift; /* of those bits within the code */
    int32_t cell;  /* bits an element takes in memory, >= bits; the rest is zero */
    int32_t n_bits, k_bits;
    /* addr[i] for i < n_bits + k_bits: mask of source bits, n bit j at 1 << j, k bit j at 1 <<
     * (16+j) */
    uint32_t addr[NIB_LAYOUT_ADDR_BITS];
    nib_tile_order order;
    size_t pitch;  /* bytes from tile to tile; at least the tile's own, which is whole bytes */
    size_t offset; /* bytes before the first tile */
    /* The last tile of a row ends with the byte of its last element instead of being padded. Only
     * for rows that are plain bit streams: tiles n1, addr k0,k1,..., order nk, no gaps. */
    bool cut;
    /* Tiles that follow each other lie woven: first the first 32-bit word of each, then the second
     * of each, and so on, as GPTQ stores 3-bit columns. Whole words a tile, no gaps. */
    bool woven;
} nib_plane;

typedef struct nib_layout {
    int32_t bits; /* of a code */
    int32_t planes;
    nib_plane plane[NIB_LAYOUT_PLANES];
} nib_layout;

/* A layout from a row's name or from a text, for elements of `bits` (0: the text says). Checks
 * everything: NIB_INVALID with the column, NIB_UNSUPPORTED for a row that lacks these bits. Equal
 * layouts are equal bytes. */
nib_status nib_layout_make(const char *name_or_text, int32_t bits, nib_layout *out);

/* The canonical text, at most NIB_LAYOUT_TEXT_BYTES; it parses back. */
nib_status nib_layout_text(const nib_layout *layout, char *text, size_t capacity, size_t *needed);

/* Bytes from tile to tile when there are no gaps. */
size_t nib_plane_tile_bytes(const nib_plane *plane);
/* Bytes of one plane for a matrix [n, k], and of all planes at their boundaries. NIB_INVALID when
 * the size does not fit. */
nib_status nib_layout_plane_bytes(const nib_layout *layout, int32_t plane, int64_t n, int64_t k,
                                  size_t *bytes);
nib_status nib_layout_total_bytes(const nib_layout *layout, int64_t n, int64_t k, size_t *bytes);

/* A matrix in memory: whole extents, and where its planes are. */
typedef struct nib_matrix {
    const nib_layout *layout;
    int64_t n, k;
    unsigned char *planes[NIB_LAYOUT_PLANES];
} nib_matrix;

/* Points `planes` into one buffer as nib_layout_total_bytes lays it out. */
nib_status nib_matrix_at(const nib_layout *layout, void *buffer, int64_t n, int64_t k,
                         nib_matrix *out);

/* What happens to each code on its way: code = ((code + add) mod 2^bits) ^ flip. */
typedef struct nib_copy_change {
    uint32_t add, flip;
} nib_copy_change;

/* Copies the region [n0, n0 + to->n) x [k0, k0 + to->k) of `from` to the whole of `to`, padding
 * with zeros and leaving the gaps between tiles (pitch, offset) as they are. Both layouts have the
 * same bits; the two memories do not overlap. `change` may be NULL. Memory: index tables of a tile
 * and a program of word moves for a few tiles, not more than some megabytes. NIB_INVALID: the
 * region leaves `from`, or the bits differ. */
nib_status nib_matrix_copy(const nib_matrix *from, int64_t n0, int64_t k0, const nib_matrix *to,
                           const nib_copy_change *change);

/* One element; slow, for tests and edges. */
uint32_t nib_matrix_get(const nib_matrix *matrix, int64_t n, int64_t k);
void nib_matrix_set(const nib_matrix *matrix, int64_t n, int64_t k, uint32_t code);

/* The widest unit in bytes (16, 8, 4, 2, 1; 0: none) that moves whole between two layouts: whether
 * a kernel for `to` could read `from` in place by permuting its loads. Edges aside: it holds for
 * extents that are multiples of both layouts' tiles. */
int32_t nib_layout_free_word(const nib_layout *from, const nib_layout *to);

#endif
