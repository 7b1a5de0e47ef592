/* SPDX-License-Identifier: Apache-2.0
 *
 * Word moves: see moves.h. nib_moves_make draws a map of one block, with the source bit of every
 * target bit, and then covers each target word with source words.
 */
#include "layout/moves.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Largest block: 2^14 elements. Every pair of rows stays below it. */
#define BLOCK_BITS 14
/* Smaller blocks are doubled up to this, so that the work for a block outweighs finding it. */
#define BLOCK_ENOUGH 9
/* With fewer blocks than this, drawing the map costs more than it saves. */
#define FEWEST_BLOCKS 4
#define WORD_BITS     32
#define NOWHERE       UINT64_MAX

/* A source bit: its plane above 2^56, then its distance in bits from the block's first tile. */
#define PLANE_SHIFT 56

typedef struct block {
    int32_t n_bits, k_bits;
    size_t word_start[NIB_LAYOUT_PLANES]; /* index of each target plane's first word */
    size_t words;
    uint64_t *map;                      /* [words][32]: source bits */
    size_t from_end[NIB_LAYOUT_PLANES]; /* bytes a block spans in each source plane */
} block;

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Makes the block long enough along the plane's faster index for whole words. */
static void grow_to_words(const nib_plane *plane, block *b)
{
    size_t tile = nib_plane_tile_bytes(plane);
    int32_t more = tile % 4 == 0 ? 0 : tile % 2 == 0 ? 1 : 2;
    b->n_bits = most(b->n_bits, plane->n_bits + (plane->order == NIB_TILES_KN ? more : 0));
    b->k_bits = most(b->k_bits, plane->k_bits + (plane->order == NIB_TILES_NK ? more : 0));
}

/* Doubles a block along one extent while that leaves no more elements outside whole blocks. */
static void enlarge(int64_t extent, int32_t *bits, int32_t other)
{
    while (*bits + other < BLOCK_ENOUGH && extent >> *bits && (extent >> *bits) % 2 == 0)
        ++*bits;
}

/* Extents that are whole tiles on both sides and whole words in every target plane. */
static bool choose_block(const nib_layout *from, const nib_layout *to, int64_t n, int64_t k,
                         block *b)
{
    for (int32_t q = 0; q < from->planes; q++)
        grow_to_words(&from->plane[q], b);
    for (int32_t p = 0; p < to->planes; p++) {
        const nib_plane *plane = &to->plane[p];
        size_t tile = nib_plane_tile_bytes(plane);
        if (tile % 4 && plane->pitch != tile)
            return false;
        grow_to_words(plane, b);
    }
    if (b->n_bits + b->k_bits > BLOCK_BITS)
        return false;
    if (to->plane[0].order == NIB_TILES_NK)
        enlarge(k, &b->k_bits, b->n_bits);
    else
        enlarge(n, &b->n_bits, b->k_bits);
    for (int32_t p = 0; p < to->planes; p++) {
        b->word_start[p] = b->words;
        b->words += ((size_t)to->plane[p].cell << (b->n_bits + b->k_bits)) / WORD_BITS;
    }
    return true;
}

/* Within a block, counting the tiles of the block only: an element's tile along n and k, and its
 * cell in the tile. */
static uint32_t cell_of(const nib_side *side, int32_t p, uint32_t n, uint32_t k)
{
    const nib_plane *plane = &side->matrix->layout->plane[p];
    return side->of_n[p][n & ((UINT32_C(1) << plane->n_bits) - 1)] ^
           side->of_k[p][k & ((UINT32_C(1) << plane->k_bits) - 1)];
}

/* Bits of a block's tiles stand in the map without gaps, in memory order. */
static size_t map_bit(const block *b, const nib_side *to, int32_t p, uint32_t n, uint32_t k)
{
    const nib_plane *plane = &to->matrix->layout->plane[p];
    size_t tile_n = n >> plane->n_bits, tile_k = k >> plane->k_bits;
    size_t tile = plane->order == NIB_TILES_NK ? tile_n << (b->k_bits - plane->k_bits) | tile_k
                                               : tile_k << (b->n_bits - plane->n_bits) | tile_n;
    return tile * to->place[p].tile_bytes * 8 + cell_of(to, p, n, k) * (size_t)plane->cell;
}

/* Distance in bytes of map word `word` of target plane p from the block's first tile. */
static size_t word_bytes(const block *b, const nib_side *to, int32_t p, size_t word)
{
    const nib_plane *plane = &to->matrix->layout->plane[p];
    const nib_place *place = &to->place[p];
    size_t byte = word * 4, tile = byte / place->tile_bytes;
    bool nk = plane->order == NIB_TILES_NK;
    int32_t inner = nk ? b->k_bits - plane->k_bits : b->n_bits - plane->n_bits;
    size_t fast = tile & (((size_t)1 << inner) - 1), slow = tile >> inner;
    return slow * (nk ? place->stride_n : place->stride_k) +
           fast * (nk ? place->stride_k : place->stride_n) +
           nib_place_byte(place, byte % place->tile_bytes);
}

/* Enters where the bits of one element come from, for target plane p and source plane q. */
static void draw_element(block *b, const nib_side *from, int32_t q, const nib_side *to, int32_t p,
                         uint32_t n, uint32_t k)
{
    const nib_plane *in = &from->matrix->layout->plane[q], *out = &to->matrix->layout->plane[p];
    const nib_place *place = &from->place[q];
    size_t tile =
        (size_t)(n >> in->n_bits) * place->stride_n + (size_t)(k >> in->k_bits) * place->stride_k;
    size_t first = cell_of(from, q, n, k) * (size_t)in->cell;
    uint64_t *target = b->map + b->word_start[p] * WORD_BITS + map_bit(b, to, p, n, k);
    for (int32_t i = 0; i < out->bits; i++) {
        int32_t bit = out->shift + i - in->shift;
        if (bit < 0 || bit >= in->bits)
            continue;
        size_t inside = first + (size_t)bit;
        uint64_t at = (tile + nib_place_byte(place, inside / 8)) * 8 + inside % 8;
        target[i] = (uint64_t)q << PLANE_SHIFT | at;
        if (at / 8 + 1 > b->from_end[q])
            b->from_end[q] = at / 8 + 1;
    }
}

static void draw_map(block *b, const nib_side *from, const nib_side *to)
{
    memset(b->map, 0xff, b->words * WORD_BITS * sizeof(*b->map));
    for (int32_t p = 0; p < to->matrix->layout->planes; p++)
        for (int32_t q = 0; q < from->matrix->layout->planes; q++)
            for (uint32_t n = 0; n < UINT32_C(1) << b->n_bits; n++)
                for (uint32_t k = 0; k < UINT32_C(1) << b->k_bits; k++)
                    draw_element(b, from, q, to, p, n, k);
}

/* Bits of every target word that a flip of the codes inverts. Words of a plane may differ when
 * cells lie astride. */
static void draw_flips(const block *b, const nib_side *to, uint32_t flip, nib_word *words)
{
    for (int32_t p = 0; p < to->matrix->layout->planes; p++) {
        const nib_plane *plane = &to->matrix->layout->plane[p];
        for (uint32_t n = 0; n < UINT32_C(1) << b->n_bits; n++)
            for (uint32_t k = 0; k < UINT32_C(1) << b->k_bits; k++)
                for (int32_t i = 0; i < plane->bits; i++) {
                    size_t bit = map_bit(b, to, p, n, k) + (size_t)i;
                    if (flip >> (plane->shift + i) & 1)
                        words[b->word_start[p] + bit / WORD_BITS].flip |= UINT32_C(1)
                                                                          << bit % WORD_BITS;
                }
    }
}

/* Covers one word: again and again takes the lowest source byte left, the source word that begins
 * there (or ends with the block), and one move for each distance between source and target bits.
 * Answers the number of moves; writes them unless `out` is NULL. */
static size_t cover_word(const block *b, const uint64_t *bits, nib_move *out)
{
    uint32_t left = 0;
    size_t count = 0;
    for (int d = 0; d < WORD_BITS; d++)
        left |= (uint32_t)(bits[d] != NOWHERE) << d;
    while (left) {
        uint64_t lowest = NOWHERE;
        for (int d = 0; d < WORD_BITS; d++)
            if (left >> d & 1 && bits[d] < lowest)
                lowest = bits[d];
        size_t plane = lowest >> PLANE_SHIFT, last = b->from_end[plane] - 4;
        size_t from = (lowest & ((UINT64_C(1) << PLANE_SHIFT) - 1)) / 8;
        if (from > last)
            from = last;
        uint32_t masks[WORD_BITS] = {0};
        uint64_t first = (uint64_t)plane << PLANE_SHIFT | (uint64_t)from * 8;
        for (int d = 0; d < WORD_BITS; d++) {
            if (!(left >> d & 1) || bits[d] - first >= WORD_BITS)
                continue;
            masks[(d - (int)(bits[d] - first)) & (WORD_BITS - 1)] |= UINT32_C(1) << d;
            left &= ~(UINT32_C(1) << d);
        }
        for (int turn = 0; turn < WORD_BITS; turn++) {
            if (!masks[turn])
                continue;
            if (out)
                out[count] = (nib_move){.from = from,
                                        .mask = masks[turn],
                                        .plane = (uint8_t)plane,
                                        .turn = (uint8_t)turn};
            count++;
        }
    }
    return count;
}

static bool is_whole(const nib_word *word, const nib_move *move)
{
    return word->moves == 1 && !word->flip && !move->turn && move->mask == UINT32_MAX;
}

/* Joins words that are pieces of the source as they stand and follow each other on both sides. */
static void join_spans(nib_moves *made)
{
    const nib_move *move = made->moves;
    nib_move *next_move = made->moves;
    nib_word *last = NULL;
    size_t words = 0;
    for (size_t i = 0; i < made->word_count; i++) {
        nib_word word = made->words[i];
        bool whole = is_whole(&word, move);
        if (whole && last && last->plane == word.plane && next_move[-1].plane == move->plane &&
            last->to + 4 * (size_t)last->span == word.to &&
            next_move[-1].from + 4 * (size_t)last->span == move->from) {
            last->span++;
            move++;
            continue;
        }
        word.span = whole;
        made->words[words] = word;
        last = whole ? &made->words[words] : NULL;
        words++;
        memmove(next_move, move, word.moves * sizeof(*move));
        next_move += word.moves;
        move += word.moves;
    }
    made->word_count = words;
    made->move_count = (size_t)(next_move - made->moves);
}

static bool worth_while(const block *b, const nib_side *from, int64_t n0, int64_t k0,
                        const nib_side *to)
{
    int64_t blocks_n = to->matrix->n >> b->n_bits, blocks_k = to->matrix->k >> b->k_bits;
    if (blocks_n == 0 || blocks_k == 0 ||
        (blocks_n < FEWEST_BLOCKS && blocks_k < FEWEST_BLOCKS &&
         blocks_n * blocks_k < FEWEST_BLOCKS))
        return false;
    for (int32_t q = 0; q < from->matrix->layout->planes; q++) {
        const nib_plane *plane = &from->matrix->layout->plane[q];
        if (n0 & ((INT64_C(1) << plane->n_bits) - 1) || k0 & ((INT64_C(1) << plane->k_bits) - 1))
            return false;
    }
    return true;
}

nib_status nib_moves_make(const nib_side *from, int64_t n0, int64_t k0, const nib_side *to,
                          uint32_t flip, nib_moves *out)
{
    block b = {0};
    nib_moves made = {0};
    memset(out, 0, sizeof(*out));
    if (!choose_block(from->matrix->layout, to->matrix->layout, to->matrix->n, to->matrix->k, &b) ||
        !worth_while(&b, from, n0, k0, to))
        return NIB_OK;
    made.n_bits = b.n_bits;
    made.k_bits = b.k_bits;
    made.word_count = b.words;
    b.map = malloc(b.words * WORD_BITS * sizeof(*b.map));
    made.words = calloc(b.words, sizeof(*made.words));
    if (!b.map || !made.words)
        goto fail;
    draw_map(&b, from, to);
    for (int32_t q = 0; q < from->matrix->layout->planes; q++)
        if (b.from_end[q] < 4)
            goto none;
    draw_flips(&b, to, flip, made.words);
    for (size_t i = 0; i < b.words; i++)
        made.move_count += cover_word(&b, b.map + i * WORD_BITS, NULL);
    made.moves = malloc(made.move_count * sizeof(*made.moves));
    if (!made.moves)
        goto fail;
    nib_move *next = made.moves;
    for (int32_t p = 0; p < to->matrix->layout->planes; p++) {
        size_t end = p + 1 < to->matrix->layout->planes ? b.word_start[p + 1] : b.words;
        for (size_t i = b.word_start[p]; i < end; i++) {
            nib_word *word = &made.words[i];
            word->plane = (uint16_t)p;
            word->to = word_bytes(&b, to, p, i - b.word_start[p]);
            word->moves = (uint16_t)cover_word(&b, b.map + i * WORD_BITS, next);
            next += word->moves;
        }
    }
    join_spans(&made);
    free(b.map);
    *out = made;
    return NIB_OK;
none:
    free(b.map);
    nib_moves_free(&made);
    return NIB_OK;
fail:
    free(b.map);
    nib_moves_free(&made);
    return nib_fail(NIB_NO_MEMORY, "no memory for the moves of %zu words", b.words);
}

/* Little-endian whatever the host; compilers make one load or store of it. */
static inline uint32_t load_word(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void store_word(unsigned char *at, uint32_t word)
{
    at[0] = (unsigned char)word;
    at[1] = (unsigned char)(word >> 8);
    at[2] = (unsigned char)(word >> 16);
    at[3] = (unsigned char)(word >> 24);
}

static inline uint32_t run_move(const nib_move *move, const unsigned char *const *from)
{
    uint32_t word = load_word(from[move->plane] + move->from);
    return (word << move->turn | word >> (-move->turn & 31)) & move->mask;
}

static void run_block(const nib_moves *moves, const unsigned char *const *from,
                      unsigned char *const *to)
{
    const nib_move *move = moves->moves;
    const nib_word *end = moves->words + moves->word_count;
    for (const nib_word *word = moves->words; word < end; word++) {
        if (word->span) {
            memcpy(to[word->plane] + word->to, from[move->plane] + move->from,
                   4 * (size_t)word->span);
            move++;
            continue;
        }
        uint32_t value = word->flip;
        for (const nib_move *last = move + word->moves; move < last; move++)
            value ^= run_move(move, from);
        store_word(to[word->plane] + word->to, value);
    }
}

void nib_moves_run(const nib_moves *moves, const nib_side *from, int64_t n0, int64_t k0,
                   const nib_side *to)
{
    const nib_layout *in = from->matrix->layout, *out = to->matrix->layout;
    int64_t blocks_n = to->matrix->n >> moves->n_bits, blocks_k = to->matrix->k >> moves->k_bits;
    bool nk = out->plane[0].order == NIB_TILES_NK;
    int64_t inner = nk ? blocks_k : blocks_n, outer = nk ? blocks_n : blocks_k;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t n = (nk ? o : i) << moves->n_bits, k = (nk ? i : o) << moves->k_bits;
            const unsigned char *sources[NIB_LAYOUT_PLANES];
            unsigned char *targets[NIB_LAYOUT_PLANES];
            for (int32_t q = 0; q < in->planes; q++)
                sources[q] = from->matrix->planes[q] +
                             nib_place_tile(&from->place[q], (n0 + n) >> in->plane[q].n_bits,
                                            (k0 + k) >> in->plane[q].k_bits);
            for (int32_t p = 0; p < out->planes; p++)
                targets[p] =
                    to->matrix->planes[p] + nib_place_tile(&to->place[p], n >> out->plane[p].n_bits,
                                                           k >> out->plane[p].k_bits);
            run_block(moves, sources, targets);
        }
}

void nib_moves_free(nib_moves *moves)
{
    free(moves->words);
    free(moves->moves);
    memset(moves, 0, sizeof(*moves));
}
