/* SPDX-License-Identifier: Apache-2.0
 *
 * From nib_convert_args to launches of the conversion kernel: see convert.h. The kernel walks over
 * the target, so its map is inverted here.
 */
#include "variants/convert.h"

#include <stdbool.h>

enum {
    /* More blocks than any chip holds at a time; each makes its tables once and strides on. */
    MOST_BLOCKS = 4096,
    MAP_BITS = 16
};

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t was = *a;
    *a = *b;
    *b = was;
}

/* Inverts a map over GF(2) by Gauss and Jordan. addr[i] has the n bits at 0 and the k bits at 16;
 * inverse[j] becomes the mask of the cell's bits whose parity is that source bit. */
static bool invert(const nib_plane_map *plane, uint32_t inverse[32])
{
    int32_t size = plane->n_bits + plane->k_bits;
    uint32_t left[MAP_BITS], right[MAP_BITS];
    if (plane->n_bits < 0 || plane->k_bits < 0 || size > MAP_BITS)
        return false;
    for (int32_t i = 0; i < size; i++) {
        left[i] = plane->addr[i];
        right[i] = UINT32_C(1) << i;
    }
    for (int32_t i = 0; i < size; i++) {
        uint32_t column = UINT32_C(1) << (i < plane->n_bits ? i : i - plane->n_bits + 16);
        int32_t pivot = i;
        while (pivot < size && !(left[pivot] & column))
            pivot++;
        if (pivot == size)
            return false;
        swap(&left[i], &left[pivot]);
        swap(&right[i], &right[pivot]);
        for (int32_t j = 0; j < size; j++)
            if (j != i && left[j] & column) {
                left[j] ^= left[i];
                right[j] ^= right[i];
            }
    }
    for (int32_t j = 0; j < 32; j++)
        inverse[j] = 0;
    for (int32_t i = 0; i < size; i++)
        inverse[i < plane->n_bits ? i : i - plane->n_bits + 16] = right[i];
    return true;
}

static void take_plane(const nib_plane_map *map, nib_cuda_convert_plane *out)
{
    *out = (nib_cuda_convert_plane){.memory = (unsigned char *)map->memory + map->offset,
                                    .stride_n = map->stride_n,
                                    .stride_k = map->stride_k,
                                    .piece = map->piece,
                                    .bits = map->bits,
                                    .shift = map->shift,
                                    .cell = map->cell,
                                    .n_bits = map->n_bits,
                                    .k_bits = map->k_bits};
    for (int32_t i = 0; i < map->n_bits + map->k_bits; i++)
        out->addr[i] = map->addr[i];
}

/* Whether every tile of the plane is whole words at addresses that are multiples of 4. */
static bool has_words(const nib_plane_map *map)
{
    return ((uintptr_t)map->memory + map->offset) % 4 == 0 && map->tile_bytes % 4 == 0 &&
           map->last_bytes % 4 == 0 && map->stride_n % 4 == 0 && map->stride_k % 4 == 0;
}

static uint32_t code_mask(const nib_matrix_map *map)
{
    int32_t bits = 0;
    for (int32_t i = 0; i < map->planes; i++)
        bits += map->plane[i].bits;
    return bits >= 32 ? UINT32_MAX : (UINT32_C(1) << bits) - 1;
}

/* The source planes that bits of `to` come from; an addition carries, so it needs all below. */
static void take_source(const nib_convert_args *args, const nib_plane_map *to,
                        nib_cuda_convert_params *p)
{
    for (int32_t i = 0; i < args->from->planes; i++) {
        const nib_plane_map *from = &args->from->plane[i];
        bool above = from->shift >= to->shift + to->bits;
        bool below = from->shift + from->bits <= to->shift;
        if (!above && (!below || args->add))
            take_plane(from, &p->from[p->planes++]);
    }
}

static void count_pieces(const nib_plane_map *to, nib_cuda_convert_params *p)
{
    uint64_t tiles_n = (uint64_t)to->tiles_n, tiles_k = (uint64_t)to->tiles_k;
    p->width = has_words(to) ? 4 : 1;
    p->woven = to->piece != 0;
    p->k_first = to->stride_k <= to->stride_n;
    p->tile_bytes = (uint32_t)to->tile_bytes;
    p->last_bytes = (uint32_t)to->last_bytes;
    p->last_tile_k = to->tiles_k - 1;
    p->tile_pieces = p->tile_bytes / (uint32_t)p->width;
    p->line_tiles = p->k_first ? tiles_k : tiles_n;
    p->line_pieces = p->line_tiles * p->tile_pieces;
    p->pieces = p->line_pieces * (p->k_first ? tiles_n : tiles_k);
}

const char *nib_cuda_convert_make(const nib_convert_args *args, nib_cuda_convert_job *out)
{
    *out = (nib_cuda_convert_job){.launches = args->to->planes, .block = NIB_CUDA_CONVERT_THREADS};
    for (int32_t i = 0; i < args->to->planes; i++) {
        const nib_plane_map *to = &args->to->plane[i];
        nib_cuda_convert_params *p = &out->params[i];
        if (!invert(to, p->inverse))
            return "the target's map has no inverse within 16 bits";
        take_plane(to, &p->to);
        take_source(args, to, p);
        count_pieces(to, p);
        p->mask = code_mask(args->to);
        p->add = args->add & p->mask;
        p->flip = args->flip & p->mask;
        p->n0 = args->n0;
        p->k0 = args->k0;
        p->n = args->to->n;
        p->k = args->to->k;
        uint64_t blocks = (p->pieces + out->block - 1) / out->block;
        out->grid[i] = (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
    }
    return NULL;
}
