/* SPDX-License-Identifier: Apache-2.0
 *
 * GF(2) algebra and the question it answers: which words survive a conversion whole. See gf2.h.
 */
#include "layout/gf2.h"

#include <stdio.h>

nib_gf2 nib_gf2_identity(int32_t size)
{
    nib_gf2 out = {.rows = size, .cols = size};
    for (int32_t i = 0; i < size; i++)
        out.row[i] = UINT64_C(1) << i;
    return out;
}

nib_gf2 nib_gf2_compose(const nib_gf2 *a, const nib_gf2 *b)
{
    nib_gf2 out = {.rows = a->rows, .cols = b->cols};
    for (int32_t i = 0; i < a->rows; i++)
        for (int32_t j = 0; j < a->cols; j++)
            if (a->row[i] >> j & 1)
                out.row[i] ^= b->row[j];
    return out;
}

/* Gauss-Jordan on `a`, with every step repeated on `beside` (which may be NULL). The rank. */
static int32_t eliminate(nib_gf2 *a, nib_gf2 *beside)
{
    int32_t rank = 0;
    for (int32_t col = 0; col < a->cols && rank < a->rows; col++) {
        int32_t pivot = rank;
        while (pivot < a->rows && !(a->row[pivot] >> col & 1))
            pivot++;
        if (pivot == a->rows)
            continue;
        for (nib_gf2 *m = a; m; m = m == a ? beside : NULL) {
            uint64_t row = m->row[pivot];
            m->row[pivot] = m->row[rank];
            m->row[rank] = row;
        }
        for (int32_t i = 0; i < a->rows; i++) {
            if (i == rank || !(a->row[i] >> col & 1))
                continue;
            a->row[i] ^= a->row[rank];
            if (beside)
                beside->row[i] ^= beside->row[rank];
        }
        rank++;
    }
    return rank;
}

bool nib_gf2_invert(const nib_gf2 *a, nib_gf2 *out)
{
    if (a->rows != a->cols)
        return false;
    nib_gf2 left = *a, right = nib_gf2_identity(a->rows);
    if (eliminate(&left, &right) < a->rows)
        return false;
    *out = right;
    return true;
}

int32_t nib_gf2_rank(const nib_gf2 *a)
{
    nib_gf2 copy = *a;
    return eliminate(&copy, NULL);
}

uint64_t nib_gf2_apply(const nib_gf2 *a, uint64_t x)
{
    uint64_t out = 0;
    for (int32_t i = 0; i < a->rows; i++)
        out |= (uint64_t)__builtin_parityll(a->row[i] & x) << i;
    return out;
}

nib_gf2 nib_plane_gf2(const nib_plane *plane, int32_t n_bits, int32_t k_bits)
{
    int32_t size = n_bits + k_bits, at = plane->n_bits + plane->k_bits;
    nib_gf2 out = {.rows = size, .cols = size};
    for (int32_t i = 0; i < at; i++)
        out.row[i] = (uint64_t)(plane->addr[i] & 0xffff) | (uint64_t)(plane->addr[i] >> 16)
                                                               << n_bits;
    for (int32_t turn = 0; turn < 2; turn++) {
        bool n_turn = (plane->order == NIB_TILES_KN) == (turn == 0);
        int32_t first = n_turn ? plane->n_bits : n_bits + plane->k_bits;
        int32_t end = n_turn ? n_bits : size;
        for (int32_t j = first; j < end; j++)
            out.row[at++] = UINT64_C(1) << j;
    }
    return out;
}

/* log2 of x, -1 if x is no power of two. */
static int32_t log2_exact(size_t x)
{
    return x && (x & (x - 1)) == 0 ? __builtin_ctzll(x) : -1;
}

/* Whether aligned words of `bytes` of a plane are made of whole cells that lie together for every
 * shape. */
static bool words_exist(const nib_plane *plane, size_t bytes)
{
    size_t tile = nib_plane_tile_bytes(plane);
    if (8 * bytes % (size_t)plane->cell || plane->offset % bytes || (plane->woven && bytes > 4))
        return false;
    return bytes <= tile ? plane->pitch % bytes == 0 : plane->pitch == tile && bytes % tile == 0;
}

/* Words of 2^low cells move whole if the map between addresses is [I 0; 0 Q]: within a word nothing
 * changes place, and a word's own address moves as one. */
static int32_t first_moved(const nib_gf2 *map, int32_t low)
{
    for (int32_t i = 0; i < low; i++)
        if (map->row[i] != UINT64_C(1) << i)
            return i;
    for (int32_t i = low; i < map->rows; i++)
        if (map->row[i] & ((UINT64_C(1) << low) - 1))
            return i;
    return -1;
}

/* "n0^k3" for row `i` of a map whose columns begin with n_bits bits of n. */
static void name_sources(const nib_gf2 *map, int32_t i, int32_t n_bits, char *out, size_t capacity)
{
    size_t at = 0;
    for (int32_t j = 0; j < map->cols && at < capacity; j++)
        if (map->row[i] >> j & 1)
            at += (size_t)snprintf(out + at, capacity - at, "%s%c%d", at ? "^" : "",
                                   j < n_bits ? 'n' : 'k', j < n_bits ? j : j - n_bits);
}

/* True if words of `bytes` of plane p move whole; else says in `why` what stands against it. */
static bool plane_moves(const nib_plane *from, const nib_plane *to, size_t bytes, char *why,
                        size_t capacity)
{
    if (from->bits != to->bits || from->shift != to->shift || from->cell != to->cell) {
        snprintf(why, capacity,
                 "the planes hold different bits (bits=%d shift=%d cell=%d and bits=%d shift=%d "
                 "cell=%d)",
                 from->bits, from->shift, from->cell, to->bits, to->shift, to->cell);
        return false;
    }
    int32_t low = log2_exact(8 * bytes / (size_t)to->cell);
    if (!words_exist(from, bytes) || !words_exist(to, bytes) || low < 0) {
        snprintf(why, capacity, "cell, pitch or offset leave no aligned words of %zu bytes", bytes);
        return false;
    }
    /* 7 bits above the tiles: the widest word, 16 bytes, holds at most 2^7 cells. */
    int32_t n_bits = (from->n_bits > to->n_bits ? from->n_bits : to->n_bits) + 7;
    int32_t k_bits = (from->k_bits > to->k_bits ? from->k_bits : to->k_bits) + 7;
    nib_gf2 a = nib_plane_gf2(from, n_bits, k_bits), b = nib_plane_gf2(to, n_bits, k_bits), inverse;
    if (!nib_gf2_invert(&b, &inverse))
        return false;
    nib_gf2 map = nib_gf2_compose(&a, &inverse);
    int32_t bit = first_moved(&map, low);
    if (bit < 0)
        return true;
    char have[64] = "", want[64] = "";
    name_sources(&a, bit, n_bits, have, sizeof(have));
    name_sources(&b, bit, n_bits, want, sizeof(want));
    snprintf(why, capacity, "words of %zu bytes break: address bit %d is %s, not %s", bytes, bit,
             have, want);
    return false;
}

nib_free_word nib_layout_free_why(const nib_layout *from, const nib_layout *to)
{
    nib_free_word out = {.bytes = 0};
    if (from->bits != to->bits || from->planes != to->planes) {
        snprintf(out.why, sizeof(out.why), "bits or planes differ (%d in %d, %d in %d)", from->bits,
                 from->planes, to->bits, to->planes);
        return out;
    }
    for (int32_t bytes = 1; bytes <= 16; bytes *= 2) {
        for (int32_t p = 0; p < to->planes; p++)
            if (!plane_moves(&from->plane[p], &to->plane[p], (size_t)bytes, out.why,
                             sizeof(out.why)))
                return out;
        out.bytes = bytes;
    }
    return out;
}

int32_t nib_layout_free_word(const nib_layout *from, const nib_layout *to)
{
    return nib_layout_free_why(from, to).bytes;
}
