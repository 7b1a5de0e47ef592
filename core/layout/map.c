/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts in numbers: see map.h.
 */
#include "layout/map.h"

#include "layout/place.h"

#include <string.h>

static nib_status map_plane(const nib_plane *plane, int64_t n, int64_t k, void *memory,
                            nib_plane_map *out)
{
    nib_place place;
    nib_status status = nib_place_make(plane, n, k, &place);
    if (status)
        return status;
    *out = (nib_plane_map){
        .bits = plane->bits,
        .shift = plane->shift,
        .cell = plane->cell,
        .n_bits = plane->n_bits,
        .k_bits = plane->k_bits,
        .tiles_n = place.tiles_n,
        .tiles_k = place.tiles_k,
        .stride_n = place.stride_n,
        .stride_k = place.stride_k,
        .offset = place.offset,
        .piece = place.piece,
        .last_bytes = place.last_bytes,
        .tile_bytes = place.tile_bytes,
        .bytes = place.bytes,
        .memory = memory,
    };
    memcpy(out->addr, plane->addr, (size_t)(plane->n_bits + plane->k_bits) * sizeof(*out->addr));
    return NIB_OK;
}

nib_status nib_matrix_map_make(const nib_matrix *matrix, nib_matrix_map *out)
{
    nib_matrix_map map = {
        .size = sizeof(map), .planes = matrix->layout->planes, .n = matrix->n, .k = matrix->k};
    for (int32_t p = 0; p < map.planes; p++) {
        nib_status status = map_plane(&matrix->layout->plane[p], matrix->n, matrix->k,
                                      matrix->planes[p], &map.plane[p]);
        if (status)
            return status;
    }
    *out = map;
    return NIB_OK;
}

bool nib_layout_has_gaps(const nib_layout *layout)
{
    for (int32_t p = 0; p < layout->planes; p++)
        if (layout->plane[p].offset ||
            layout->plane[p].pitch != nib_plane_tile_bytes(&layout->plane[p]))
            return true;
    return false;
}
