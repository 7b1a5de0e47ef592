/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way codes move: nib_matrix_copy packs, unpacks, converts and slices. Whole blocks go by
 * the word moves of moves.c; edges, odd regions and codes that change by addition go element by
 * element through the address tables here.
 */
#include "base/checked.h"
#include "base/status.h"
#include "layout/moves.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* table[x] for x < 2^bits: the cell that the source bits `first`.. of `plane` alone would give. */
static void fill_table(const nib_plane *plane, int32_t first, int32_t bits, uint32_t *table)
{
    table[0] = 0;
    for (uint32_t x = 1; x < UINT32_C(1) << bits; x++) {
        uint32_t cell = 0, source = UINT32_C(1) << (first + __builtin_ctz(x));
        for (int32_t i = 0; i < plane->n_bits + plane->k_bits; i++)
            cell |= (uint32_t)((plane->addr[i] & source) != 0) << i;
        table[x] = table[x & (x - 1)] ^ cell;
    }
}

/* Places and tables of one side; the tables are one allocation, for the caller to free. */
static nib_status open_side(const nib_matrix *matrix, nib_side *side, uint32_t **tables)
{
    const nib_layout *layout = matrix->layout;
    size_t entries = 0;
    side->matrix = matrix;
    for (int32_t p = 0; p < layout->planes; p++) {
        const nib_plane *plane = &layout->plane[p];
        nib_status status = nib_place_make(plane, matrix->n, matrix->k, &side->place[p]);
        if (status)
            return status;
        entries += ((size_t)1 << plane->n_bits) + ((size_t)1 << plane->k_bits);
    }
    uint32_t *table = *tables = malloc(entries * sizeof(*table));
    if (!table)
        return nib_fail(NIB_NO_MEMORY, "no memory for address tables of %zu entries", entries);
    for (int32_t p = 0; p < layout->planes; p++) {
        const nib_plane *plane = &layout->plane[p];
        fill_table(plane, 0, plane->n_bits, table);
        side->of_n[p] = table;
        table += (size_t)1 << plane->n_bits;
        fill_table(plane, 16, plane->k_bits, table);
        side->of_k[p] = table;
        table += (size_t)1 << plane->k_bits;
    }
    return NIB_OK;
}

static uint32_t load_code(const nib_side *side, int64_t n, int64_t k)
{
    const nib_layout *layout = side->matrix->layout;
    uint32_t code = 0;
    for (int32_t p = 0; p < layout->planes; p++) {
        const nib_plane *plane = &layout->plane[p];
        uint32_t cell = side->of_n[p][n & ((INT64_C(1) << plane->n_bits) - 1)] ^
                        side->of_k[p][k & ((INT64_C(1) << plane->k_bits) - 1)];
        const unsigned char *tile =
            side->matrix->planes[p] +
            nib_place_tile(&side->place[p], n >> plane->n_bits, k >> plane->k_bits);
        code |= nib_bits_read(&side->place[p], tile, (uint64_t)cell * (uint64_t)plane->cell,
                              plane->bits)
                << plane->shift;
    }
    return code;
}

typedef struct copy_job {
    nib_side from, to;
    int64_t n0, k0;
    nib_copy_change change;
    uint32_t mask; /* of a code's bits */
} copy_job;

static void clear_tile(const nib_place *place, unsigned char *tile, int64_t tile_k)
{
    size_t bytes = nib_place_bytes_at(place, tile_k);
    if (!place->piece)
        memset(tile, 0, bytes);
    for (size_t at = 0; place->piece && at < bytes; at += 4)
        memset(tile + nib_place_byte(place, at), 0, 4);
}

/* One tile of target plane p, wherever it lies. */
static void copy_tile(const copy_job *job, int32_t p, int64_t tile_n, int64_t tile_k)
{
    const nib_matrix *to = job->to.matrix;
    const nib_plane *plane = &to->layout->plane[p];
    unsigned char *tile = to->planes[p] + nib_place_tile(&job->to.place[p], tile_n, tile_k);
    int64_t n = tile_n << plane->n_bits, k = tile_k << plane->k_bits;
    int64_t n_end = n + (INT64_C(1) << plane->n_bits), k_end = k + (INT64_C(1) << plane->k_bits);
    uint32_t mask = (uint32_t)((UINT64_C(1) << plane->bits) - 1);
    clear_tile(&job->to.place[p], tile, tile_k);
    if (n_end > to->n)
        n_end = to->n;
    if (k_end > to->k)
        k_end = to->k;
    for (int64_t i = n; i < n_end; i++)
        for (int64_t j = k; j < k_end; j++) {
            uint32_t code = load_code(&job->from, job->n0 + i, job->k0 + j);
            code = ((code + job->change.add) & job->mask) ^ job->change.flip;
            uint64_t cell = job->to.of_n[p][i - n] ^ job->to.of_k[p][j - k];
            nib_bits_or(&job->to.place[p], tile, cell * (uint64_t)plane->cell, plane->bits,
                        code >> plane->shift & mask);
        }
}

/* All tiles of the target that the blocks up to (n_done, k_done) left out. */
static void copy_rest(const copy_job *job, int64_t n_done, int64_t k_done)
{
    for (int32_t p = 0; p < job->to.matrix->layout->planes; p++) {
        const nib_plane *plane = &job->to.matrix->layout->plane[p];
        const nib_place *place = &job->to.place[p];
        for (int64_t i = 0; i < place->tiles_n; i++)
            for (int64_t j = i < n_done >> plane->n_bits ? k_done >> plane->k_bits : 0;
                 j < place->tiles_k; j++)
                copy_tile(job, p, i, j);
    }
}

static nib_status check(const nib_matrix *from, int64_t n0, int64_t k0, const nib_matrix *to)
{
    if (from->layout->bits != to->layout->bits)
        return nib_fail(NIB_INVALID, "codes of %d bits cannot become codes of %d bits",
                        from->layout->bits, to->layout->bits);
    if (n0 < 0 || k0 < 0 || n0 > from->n || k0 > from->k || to->n > from->n - n0 ||
        to->k > from->k - k0)
        return nib_fail(NIB_INVALID,
                        "the region [%" PRId64 " + %" PRId64 ", %" PRId64 " + %" PRId64
                        "] leaves the matrix [%" PRId64 ", %" PRId64 "]",
                        n0, to->n, k0, to->k, from->n, from->k);
    return NIB_OK;
}

nib_status nib_matrix_copy(const nib_matrix *from, int64_t n0, int64_t k0, const nib_matrix *to,
                           const nib_copy_change *change)
{
    copy_job job = {.n0 = n0, .k0 = k0};
    uint32_t *from_tables = NULL, *to_tables = NULL;
    nib_moves moves = {0};
    nib_status status = check(from, n0, k0, to);
    if (!status)
        status = open_side(from, &job.from, &from_tables);
    if (!status)
        status = open_side(to, &job.to, &to_tables);
    if (status)
        goto fail;
    job.mask = (uint32_t)((UINT64_C(1) << to->layout->bits) - 1);
    if (change) {
        job.change.add = change->add & job.mask;
        job.change.flip = change->flip & job.mask;
    }
    /* An addition carries from bit to bit, which moves cannot. */
    if (!job.change.add)
        status = nib_moves_make(&job.from, n0, k0, &job.to, job.change.flip, &moves);
    if (status)
        goto fail;
    int64_t n_done = 0, k_done = 0;
    if (moves.words) {
        nib_moves_run(&moves, &job.from, n0, k0, &job.to);
        n_done = to->n >> moves.n_bits << moves.n_bits;
        k_done = to->k >> moves.k_bits << moves.k_bits;
    }
    copy_rest(&job, n_done, k_done);
fail:
    nib_moves_free(&moves);
    free(from_tables);
    free(to_tables);
    return status;
}
