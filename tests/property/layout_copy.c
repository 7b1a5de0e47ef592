/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between layouts: what goes in comes out, for every named layout and for random ones, at
 * odd shapes, in slices, and without touching a byte that does not belong to the matrix.
 */
#include "layout/layout.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANARY       64
#define CANARY_BYTE  0xa5
#define GAP_BYTE     0xff
#define RANDOM_PAIRS 400

/* A matrix in memory of its own, exactly as large as it needs, between canaries. */
typedef struct guarded {
    nib_layout layout;
    nib_matrix matrix;
    unsigned char *memory;
    size_t bytes;
} guarded;

static guarded *guarded_make(const nib_layout *layout, int64_t n, int64_t k)
{
    guarded *g = calloc(1, sizeof(*g));
    g->layout = *layout;
    cr_assert_eq(nib_layout_total_bytes(&g->layout, n, k, &g->bytes), NIB_OK);
    g->memory = malloc(g->bytes + 2 * CANARY);
    memset(g->memory, CANARY_BYTE, g->bytes + 2 * CANARY);
    memset(g->memory + CANARY, GAP_BYTE, g->bytes);
    cr_assert_eq(nib_matrix_at(&g->layout, g->memory + CANARY, n, k, &g->matrix), NIB_OK);
    return g;
}

static void guarded_check(const guarded *g, const char *what)
{
    for (size_t i = 0; i < CANARY; i++) {
        cr_assert_eq(g->memory[i], CANARY_BYTE, "%s: wrote before the matrix", what);
        cr_assert_eq(g->memory[CANARY + g->bytes + i], CANARY_BYTE, "%s: wrote past the matrix",
                     what);
    }
}

static void guarded_free(guarded *g)
{
    free(g->memory);
    free(g);
}

/* Random codes, 32 bits apart. */
static guarded *source_of(test_random *random, int32_t bits, int64_t n, int64_t k)
{
    nib_layout wide;
    char text[64];
    snprintf(text, sizeof(text), "bits=%d tile=n1,k1 order=nk cell=32", bits);
    cr_assert_eq(nib_layout_make(text, bits, &wide), NIB_OK);
    guarded *g = guarded_make(&wide, n, k);
    uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    for (int64_t i = 0; i < n * k; i++) {
        uint32_t code = (uint32_t)test_random_next(random) & mask;
        memcpy(g->matrix.planes[0] + 4 * i, &code, 4);
    }
    return g;
}

static uint32_t code_at(const guarded *source, int64_t n, int64_t k)
{
    uint32_t code;
    memcpy(&code, source->matrix.planes[0] + 4 * (n * source->matrix.k + k), 4);
    return code;
}

static int64_t ones(const unsigned char *memory, size_t bytes)
{
    int64_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += __builtin_popcount(memory[i]);
    return count;
}

/* The same matrix in memory that ends where it ends, so that AddressSanitizer sees any read past
 * it. The caller frees planes[0]. */
static nib_matrix exact_copy(const guarded *g)
{
    nib_matrix copy;
    unsigned char *memory = malloc(g->bytes);
    memcpy(memory, g->matrix.planes[0], g->bytes);
    cr_assert_eq(nib_matrix_at(&g->layout, memory, g->matrix.n, g->matrix.k, &copy), NIB_OK);
    return copy;
}

/* Nothing but the codes is set: padding is zero, and gaps hold what they held. */
static void check_padding(const guarded *source, const guarded *packed, const char *what)
{
    int64_t have = 0, gaps = 0;
    int64_t want = ones(source->matrix.planes[0], source->bytes);
    for (int32_t p = 0; p < packed->layout.planes; p++) {
        const nib_plane *plane = &packed->layout.plane[p];
        size_t bytes;
        cr_assert_eq(
            nib_layout_plane_bytes(&packed->layout, p, packed->matrix.n, packed->matrix.k, &bytes),
            NIB_OK);
        have += ones(packed->matrix.planes[p], bytes);
        gaps += plane->pitch != nib_plane_tile_bytes(plane) || plane->offset;
    }
    if (gaps)
        cr_assert_geq(have, want, "%s", what);
    else
        cr_assert_eq(have, want, "%s: padding is not zero", what);
}

/* Packs, looks at single elements, unpacks, compares. */
static void round_trip(test_random *random, const char *what, const nib_layout *layout, int64_t n,
                       int64_t k)
{
    guarded *source = source_of(random, layout->bits, n, k);
    guarded *packed = guarded_make(layout, n, k);
    guarded *back = guarded_make(&source->layout, n, k);
    cr_assert_eq(nib_matrix_copy(&source->matrix, 0, 0, &packed->matrix, NULL), NIB_OK, "%s: %s",
                 what, nib_last_message());
    guarded_check(packed, what);
    check_padding(source, packed, what);
    for (int i = 0; i < 20; i++) {
        int64_t x = test_random_below(random, n), y = test_random_below(random, k);
        cr_assert_eq(nib_matrix_get(&packed->matrix, x, y), code_at(source, x, y), "%s", what);
    }
    nib_matrix exact = exact_copy(packed);
    cr_assert_eq(nib_matrix_copy(&exact, 0, 0, &back->matrix, NULL), NIB_OK);
    free(exact.planes[0]);
    guarded_check(back, what);
    cr_assert_eq(memcmp(back->matrix.planes[0], source->matrix.planes[0], source->bytes), 0,
                 "%s: [%ld, %ld] comes back different", what, (long)n, (long)k);
    guarded_free(source);
    guarded_free(packed);
    guarded_free(back);
}

static void largest_tile(const nib_layout *layout, int64_t *n, int64_t *k)
{
    *n = *k = 1;
    for (int32_t p = 0; p < layout->planes; p++) {
        if (INT64_C(1) << layout->plane[p].n_bits > *n)
            *n = INT64_C(1) << layout->plane[p].n_bits;
        if (INT64_C(1) << layout->plane[p].k_bits > *k)
            *k = INT64_C(1) << layout->plane[p].k_bits;
    }
}

static void round_trips(test_random *random, const char *what, const nib_layout *layout)
{
    int64_t n, k;
    largest_tile(layout, &n, &k);
    const int64_t shapes[][2] = {
        {1, 1},         {n, k},       {n + 1, k},     {n, k + 1},
        {n + 1, k + 1}, {37, 101},    {1, 211},       {67, 1},
        {2 * n, 4 * k}, {3 * n, 128}, {n + 3, 5 * k}, {n > 1 ? n - 1 : 2, k > 1 ? k - 1 : 2}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        round_trip(random, what, layout, shapes[i][0], shapes[i][1]);
}

Test(layout_copy, unpacking_undoes_packing_for_every_row_at_odd_shapes)
{
    test_random random = {test_seed(11)};
    const char *row;
    int count = 0;
    for (uint32_t i = 0; nib_layout_row(i, &row, NULL) == NIB_OK; i++)
        for (int32_t bits = 1; bits <= 32; bits++) {
            nib_layout layout;
            char what[64];
            if (nib_layout_make(row, bits, &layout))
                continue;
            snprintf(what, sizeof(what), "%s, %d bits", row, bits);
            round_trips(&random, what, &layout);
            count++;
        }
    cr_assert_gt(count, 60);
}

/* A random invertible address map: start from a permutation, add sources to lower bits. */
static void random_addr(test_random *random, int32_t n_bits, int32_t k_bits, char *text)
{
    char names[16][16];
    int count = n_bits + k_bits;
    for (int i = 0; i < count; i++)
        snprintf(names[i], sizeof(names[i]), "%c%d", i < n_bits ? 'n' : 'k',
                 i < n_bits ? i : i - n_bits);
    for (int i = count - 1; i > 0; i--) {
        int j = (int)test_random_below(random, i + 1);
        char swap[16];
        memcpy(swap, names[i], 16);
        memcpy(names[i], names[j], 16);
        memcpy(names[j], swap, 16);
    }
    text += sprintf(text, "%s", count ? " addr=" : "");
    for (int i = 0; i < count; i++) {
        text += sprintf(text, "%s%s", i ? "," : "", names[i]);
        /* Row i takes one later row in addition: unit upper triangular, so invertible. */
        if (i + 1 < count && test_random_below(random, 3) == 0)
            text += sprintf(text, "^%s", names[i + 1 + test_random_below(random, count - i - 1)]);
    }
}

static void random_plane(test_random *random, int32_t bits, int32_t shift, char *text)
{
    int32_t n_bits = (int32_t)test_random_below(random, 5);
    int32_t k_bits = (int32_t)test_random_below(random, 6);
    int32_t cell =
        bits + (test_random_below(random, 3) == 0 ? (int32_t)test_random_below(random, 3) : 0);
    if (cell > 32)
        cell = 32;
    if (n_bits + k_bits < 3)
        k_bits = 3; /* whole bytes whatever the cell */
    size_t tile = ((size_t)cell << (n_bits + k_bits)) / 8;
    text += sprintf(text, "bits=%d tile=n%d,k%d", bits, 1 << n_bits, 1 << k_bits);
    char addr[200];
    random_addr(random, n_bits, k_bits, addr);
    text += sprintf(text, "%s order=%s cell=%d shift=%d", addr,
                    test_random_below(random, 2) ? "nk" : "kn", cell, shift);
    if (tile % 4 == 0 && test_random_below(random, 4) == 0)
        sprintf(text, " weave=words");
    else if (test_random_below(random, 3) == 0)
        sprintf(text, " pitch=%zu offset=%d", tile + (size_t)test_random_below(random, 7),
                (int)test_random_below(random, 9));
}

static void random_layout(test_random *random, int32_t bits, nib_layout *out)
{
    char text[1024] = "";
    int32_t shift = 0, planes = 0;
    while (shift < bits) {
        planes++;
        int32_t here = planes == NIB_LAYOUT_PLANES || test_random_below(random, 2)
                           ? bits - shift
                           : 1 + (int32_t)test_random_below(random, bits - shift);
        strcat(text, shift ? " | " : "");
        random_plane(random, here, shift, text + strlen(text));
        shift += here;
    }
    cr_assert_eq(nib_layout_make(text, bits, out), NIB_OK, "%s: %s", text, nib_last_message());
}

Test(layout_copy, unpacking_undoes_packing_for_random_layouts)
{
    test_random random = {test_seed(12)};
    for (int i = 0; i < 60; i++) {
        nib_layout layout;
        char text[NIB_LAYOUT_TEXT_BYTES];
        random_layout(&random, 1 + (int32_t)test_random_below(&random, 12), &layout);
        nib_layout_text(&layout, text, sizeof(text), NULL);
        round_trips(&random, text, &layout);
    }
}

/* A region of one layout into another, with the codes changed on the way. */
static void check_slice(test_random *random, const nib_layout *a, const nib_layout *b)
{
    int64_t tile_n, tile_k;
    largest_tile(a, &tile_n, &tile_k);
    int64_t n = 1 + test_random_below(random, 90), k = 1 + test_random_below(random, 300);
    int64_t n0 = test_random_below(random, n), k0 = test_random_below(random, k);
    if (test_random_below(random, 2)) { /* at a tile, where word moves apply */
        n0 = n0 / tile_n * tile_n;
        k0 = k0 / tile_k * tile_k;
    }
    int64_t rows = 1 + test_random_below(random, n - n0),
            columns = 1 + test_random_below(random, k - k0);
    nib_copy_change change = {.flip = (uint32_t)test_random_next(random)};
    if (test_random_below(random, 3) == 0)
        change.add = (uint32_t)test_random_next(random);
    bool changed = test_random_below(random, 2);
    guarded *source = source_of(random, a->bits, n, k);
    guarded *from = guarded_make(a, n, k), *to = guarded_make(b, rows, columns);
    cr_assert_eq(nib_matrix_copy(&source->matrix, 0, 0, &from->matrix, NULL), NIB_OK);
    nib_matrix exact = exact_copy(from);
    cr_assert_eq(nib_matrix_copy(&exact, n0, k0, &to->matrix, changed ? &change : NULL), NIB_OK,
                 "%s", nib_last_message());
    free(exact.planes[0]);
    guarded_check(to, "slice");
    uint32_t mask = (uint32_t)((UINT64_C(1) << a->bits) - 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            uint32_t want = code_at(source, n0 + i, k0 + j);
            if (changed)
                want = (((want + change.add) & mask) ^ change.flip) & mask;
            cr_assert_eq(nib_matrix_get(&to->matrix, i, j), want, "(%ld, %ld) of [%ld, %ld]",
                         (long)i, (long)j, (long)rows, (long)columns);
        }
    guarded_free(source);
    guarded_free(from);
    guarded_free(to);
}

static void random_row(test_random *random, int32_t bits, nib_layout *out)
{
    const char *row;
    do {
        while (nib_layout_row((uint32_t)test_random_below(random, 40), &row, NULL))
            ;
    } while (nib_layout_make(row, bits, out));
}

Test(layout_copy, slices_hold_the_codes_of_their_region)
{
    test_random random = {test_seed(13)};
    static const int32_t widths[] = {1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 8, 16, 32};
    for (int i = 0; i < RANDOM_PAIRS; i++) {
        int32_t bits = widths[test_random_below(&random, sizeof(widths) / sizeof(widths[0]))];
        nib_layout pair[2];
        for (int j = 0; j < 2; j++)
            if (test_random_below(&random, 4))
                random_row(&random, bits, &pair[j]);
            else
                random_layout(&random, bits, &pair[j]);
        check_slice(&random, &pair[0], &pair[1]);
    }
}

Test(layout_copy, setting_one_element_leaves_the_others)
{
    test_random random = {test_seed(14)};
    for (int i = 0; i < 50; i++) {
        nib_layout layout;
        random_layout(&random, 1 + (int32_t)test_random_below(&random, 8), &layout);
        guarded *source = source_of(&random, layout.bits, 19, 23);
        guarded *packed = guarded_make(&layout, 19, 23);
        for (int64_t n = 18; n >= 0; n--)
            for (int64_t k = 0; k < 23; k++)
                nib_matrix_set(&packed->matrix, n, k, code_at(source, n, k));
        for (int64_t n = 0; n < 19; n++)
            for (int64_t k = 0; k < 23; k++)
                cr_assert_eq(nib_matrix_get(&packed->matrix, n, k), code_at(source, n, k));
        guarded_check(packed, "set");
        guarded_free(source);
        guarded_free(packed);
    }
}

static void refused(const nib_matrix *from, int64_t n0, int64_t k0, const nib_matrix *to,
                    const char *part)
{
    cr_expect_eq(nib_matrix_copy(from, n0, k0, to, NULL), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
}

Test(layout_copy, regions_outside_the_matrix_are_refused)
{
    nib_layout bytes, wide;
    cr_assert_eq(nib_layout_make("bytes", 4, &bytes), NIB_OK);
    cr_assert_eq(nib_layout_make("plain", 8, &wide), NIB_OK);
    guarded *from = guarded_make(&bytes, 8, 8), *to = guarded_make(&bytes, 4, 4);
    guarded *other = guarded_make(&wide, 4, 4);
    cr_expect_eq(nib_matrix_copy(&from->matrix, 4, 4, &to->matrix, NULL), NIB_OK);
    refused(&from->matrix, 5, 0, &to->matrix, "leaves the matrix [8, 8]");
    refused(&from->matrix, 0, 5, &to->matrix, "leaves the matrix");
    refused(&from->matrix, -1, 0, &to->matrix, "leaves the matrix");
    refused(&from->matrix, INT64_MAX, INT64_MAX, &to->matrix, "leaves the matrix");
    refused(&from->matrix, 0, 0, &other->matrix, "codes of 4 bits cannot become codes of 8");
    guarded_free(from);
    guarded_free(to);
    guarded_free(other);
}
