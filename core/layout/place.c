/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and tile offsets of a matrix in a layout: see place.h. Also nib_matrix_at and the access to
 * single elements.
 */
#include "layout/place.h"

#include "base/checked.h"
#include "base/status.h"

#include <inttypes.h>

nib_status nib_place_make(const nib_plane *plane, int64_t n, int64_t k, nib_place *out)
{
    if (n < 1 || k < 1)
        return nib_fail(NIB_INVALID,
                        "a matrix [%" PRId64 ", %" PRId64 "] has no elements; extents start at 1",
                        n, k);
    nib_place place = {.tiles_n = nib_ceil_div(n, INT64_C(1) << plane->n_bits),
                       .tiles_k = nib_ceil_div(k, INT64_C(1) << plane->k_bits),
                       .tile_bytes = nib_plane_tile_bytes(plane),
                       .offset = plane->offset};
    place.last_bytes = place.tile_bytes;
    if (plane->cut) {
        size_t rest = (size_t)(k - ((place.tiles_k - 1) << plane->k_bits));
        place.last_bytes = (rest * (size_t)plane->cell + 7) / 8;
    }
    /* A line is all tiles along the faster index. With edge=cut it ends with its last byte. */
    bool nk = plane->order == NIB_TILES_NK;
    size_t inner = (size_t)(nk ? place.tiles_k : place.tiles_n), line, bytes;
    size_t outer = (size_t)(nk ? place.tiles_n : place.tiles_k);
    bool fits = nib_mul_size(plane->cut ? inner - 1 : inner, plane->pitch, &line) &&
                nib_add_size(line, plane->cut ? place.last_bytes : 0, &line) &&
                nib_mul_size(line, outer, &bytes) && nib_add_size(bytes, plane->offset, &bytes) &&
                bytes <= (size_t)PTRDIFF_MAX;
    if (!fits)
        return nib_fail(NIB_INVALID,
                        "a matrix [%" PRId64 ", %" PRId64
                        "] of %d-bit elements does not fit memory",
                        n, k, plane->bits);
    place.piece = plane->woven ? inner * 4 : 0;
    size_t next = plane->woven ? 4 : plane->pitch;
    place.stride_n = nk ? line : next;
    place.stride_k = nk ? next : line;
    place.bytes = nib_place_tile(&place, place.tiles_n - 1, place.tiles_k - 1) +
                  nib_place_byte(&place, place.last_bytes - 1) + 1;
    *out = place;
    return NIB_OK;
}

nib_status nib_layout_plane_bytes(const nib_layout *layout, int32_t plane, int64_t n, int64_t k,
                                  size_t *bytes)
{
    nib_place place;
    if (plane < 0 || plane >= layout->planes)
        return nib_fail(NIB_INVALID, "the layout has %d planes; there is no plane %d",
                        layout->planes, plane);
    nib_status status = nib_place_make(&layout->plane[plane], n, k, &place);
    if (!status)
        *bytes = place.bytes;
    return status;
}

/* Where each plane begins in one buffer, and the buffer's bytes. */
static nib_status lay_out(const nib_layout *layout, int64_t n, int64_t k, size_t *starts,
                          size_t *total)
{
    size_t end = 0;
    for (int32_t i = 0; i < layout->planes; i++) {
        nib_place place;
        nib_status status = nib_place_make(&layout->plane[i], n, k, &place);
        if (status)
            return status;
        /* Each plane is below PTRDIFF_MAX and so is `end`: neither sum wraps. */
        starts[i] = (end + NIB_LAYOUT_ALIGN - 1) / NIB_LAYOUT_ALIGN * NIB_LAYOUT_ALIGN;
        end = starts[i] + place.bytes;
        if (end > (size_t)PTRDIFF_MAX)
            return nib_fail(NIB_INVALID,
                            "a matrix [%" PRId64 ", %" PRId64
                            "] of %d-bit elements does not fit memory",
                            n, k, layout->bits);
    }
    *total = end;
    return NIB_OK;
}

nib_status nib_layout_total_bytes(const nib_layout *layout, int64_t n, int64_t k, size_t *bytes)
{
    size_t starts[NIB_LAYOUT_PLANES];
    return lay_out(layout, n, k, starts, bytes);
}

nib_status nib_matrix_at(const nib_layout *layout, void *buffer, int64_t n, int64_t k,
                         nib_matrix *out)
{
    size_t starts[NIB_LAYOUT_PLANES], total;
    nib_status status = lay_out(layout, n, k, starts, &total);
    if (status)
        return status;
    nib_matrix matrix = {.layout = layout, .n = n, .k = k};
    for (int32_t i = 0; i < layout->planes; i++)
        matrix.planes[i] = (unsigned char *)buffer + starts[i];
    *out = matrix;
    return NIB_OK;
}

/* Where the cell of an element lies in one plane. The matrix fits memory. */
typedef struct spot {
    nib_place place;
    unsigned char *tile;
    uint64_t bit;
} spot;

static bool find(const nib_matrix *matrix, int32_t p, int64_t n, int64_t k, spot *out)
{
    const nib_plane *plane = &matrix->layout->plane[p];
    if (nib_place_make(plane, matrix->n, matrix->k, &out->place))
        return false;
    uint32_t source = (uint32_t)(n & ((INT64_C(1) << plane->n_bits) - 1)) |
                      (uint32_t)(k & ((INT64_C(1) << plane->k_bits) - 1)) << 16;
    uint32_t cell = 0;
    for (int32_t i = 0; i < plane->n_bits + plane->k_bits; i++)
        cell |= (uint32_t)__builtin_parity(plane->addr[i] & source) << i;
    out->bit = (uint64_t)cell * (uint64_t)plane->cell;
    out->tile =
        matrix->planes[p] + nib_place_tile(&out->place, n >> plane->n_bits, k >> plane->k_bits);
    return true;
}

uint32_t nib_matrix_get(const nib_matrix *matrix, int64_t n, int64_t k)
{
    uint32_t code = 0;
    for (int32_t p = 0; p < matrix->layout->planes; p++) {
        const nib_plane *plane = &matrix->layout->plane[p];
        spot at;
        if (find(matrix, p, n, k, &at))
            code |= nib_bits_read(&at.place, at.tile, at.bit, plane->bits) << plane->shift;
    }
    return code;
}

void nib_matrix_set(const nib_matrix *matrix, int64_t n, int64_t k, uint32_t code)
{
    for (int32_t p = 0; p < matrix->layout->planes; p++) {
        const nib_plane *plane = &matrix->layout->plane[p];
        spot at;
        if (!find(matrix, p, n, k, &at))
            continue;
        for (uint64_t bit = at.bit; bit < at.bit + (unsigned)plane->bits; bit++)
            at.tile[nib_place_byte(&at.place, bit >> 3)] &= (unsigned char)~(1u << (bit & 7));
        uint32_t mask = (uint32_t)((UINT64_C(1) << plane->bits) - 1);
        nib_bits_or(&at.place, at.tile, at.bit, plane->bits, code >> plane->shift & mask);
    }
}
