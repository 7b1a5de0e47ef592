/* SPDX-License-Identifier: Apache-2.0
 *
 * The algebra of layouts: inverses, products and ranks over GF(2), and that a free conversion is
 * what it claims: words that lie in both memories as they are.
 */
#include "layout/gf2.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static nib_gf2 random_matrix(test_random *random, int32_t rows, int32_t cols)
{
    nib_gf2 m = {.rows = rows, .cols = cols};
    for (int32_t i = 0; i < rows; i++)
        m.row[i] = test_random_next(random) >> (64 - cols);
    return m;
}

static bool equal(const nib_gf2 *a, const nib_gf2 *b)
{
    return a->rows == b->rows && a->cols == b->cols &&
           memcmp(a->row, b->row, (size_t)a->rows * sizeof(a->row[0])) == 0;
}

Test(gf2, a_matrix_times_its_inverse_is_the_identity_both_ways)
{
    test_random random = {test_seed(21)};
    int invertible = 0;
    for (int i = 0; i < 2000; i++) {
        int32_t size = 1 + (int32_t)test_random_below(&random, NIB_GF2_MAX);
        nib_gf2 a = random_matrix(&random, size, size), inverse = {.rows = -1};
        bool has = nib_gf2_invert(&a, &inverse);
        cr_assert_eq(has, nib_gf2_rank(&a) == size);
        if (!has) {
            cr_assert_eq(inverse.rows, -1, "a failed inversion leaves its output alone");
            continue;
        }
        invertible++;
        nib_gf2 one = nib_gf2_identity(size), left = nib_gf2_compose(&inverse, &a);
        nib_gf2 right = nib_gf2_compose(&a, &inverse);
        cr_assert(equal(&left, &one));
        cr_assert(equal(&right, &one));
    }
    cr_assert_gt(invertible, 300, "about 29 of 100 random matrices are invertible");
}

Test(gf2, composition_applies_one_after_the_other)
{
    test_random random = {test_seed(22)};
    for (int i = 0; i < 500; i++) {
        int32_t p = 1 + (int32_t)test_random_below(&random, 64);
        int32_t q = 1 + (int32_t)test_random_below(&random, 64);
        int32_t r = 1 + (int32_t)test_random_below(&random, 64);
        nib_gf2 a = random_matrix(&random, p, q), b = random_matrix(&random, q, r);
        nib_gf2 ab = nib_gf2_compose(&a, &b);
        uint64_t x = test_random_next(&random) >> (64 - r);
        cr_assert_eq(nib_gf2_apply(&ab, x), nib_gf2_apply(&a, nib_gf2_apply(&b, x)));
        cr_assert_leq(nib_gf2_rank(&ab), nib_gf2_rank(&a));
        cr_assert_leq(nib_gf2_rank(&ab), nib_gf2_rank(&b));
    }
}

Test(gf2, rank_counts_independent_rows)
{
    nib_gf2 a = {.rows = 4, .cols = 3, .row = {1, 2, 3, 0}};
    cr_expect_eq(nib_gf2_rank(&a), 2);
    nib_gf2 zero = {.rows = 3, .cols = 3};
    cr_expect_eq(nib_gf2_rank(&zero), 0);
    cr_expect_not(nib_gf2_invert(&a, &zero), "not square");
}

static int compare_words(const void *a, const void *b, void *bytes)
{
    return memcmp(a, b, *(size_t *)bytes);
}

/* Packs codes that differ wherever they can, and compares the sorted words of both memories. */
static bool same_words(const nib_layout *from, const nib_layout *to, size_t word)
{
    int64_t n = 256, k = 256;
    nib_matrix plain, a, b;
    size_t bytes_a, bytes_b;
    test_random random = {99};
    uint32_t *codes = malloc((size_t)(n * k) * 4);
    nib_layout wide;
    cr_assert_eq(nib_layout_make("plain", 32, &wide), NIB_OK);
    wide.bits = wide.plane[0].bits = from->bits;
    for (int64_t i = 0; i < n * k; i++)
        codes[i] = (uint32_t)test_random_next(&random);
    cr_assert_eq(nib_layout_total_bytes(from, n, k, &bytes_a), NIB_OK);
    cr_assert_eq(nib_layout_total_bytes(to, n, k, &bytes_b), NIB_OK);
    cr_assert_eq(bytes_a, bytes_b);
    unsigned char *memory_a = malloc(bytes_a), *memory_b = malloc(bytes_b);
    nib_matrix_at(&wide, codes, n, k, &plain);
    nib_matrix_at(from, memory_a, n, k, &a);
    nib_matrix_at(to, memory_b, n, k, &b);
    cr_assert_eq(nib_matrix_copy(&plain, 0, 0, &a, NULL), NIB_OK);
    cr_assert_eq(nib_matrix_copy(&plain, 0, 0, &b, NULL), NIB_OK);
    qsort_r(memory_a, bytes_a / word, word, compare_words, &word);
    qsort_r(memory_b, bytes_b / word, word, compare_words, &word);
    bool same = memcmp(memory_a, memory_b, bytes_a) == 0;
    free(codes);
    free(memory_a);
    free(memory_b);
    return same;
}

Test(free_word, free_words_lie_whole_in_both_memories)
{
    const char *a, *b;
    int free_pairs = 0, others = 0;
    static const int32_t widths[] = {1, 2, 4, 8};
    for (size_t w = 0; w < 4; w++)
        for (uint32_t i = 0; nib_layout_row(i, &a, NULL) == NIB_OK; i++)
            for (uint32_t j = 0; nib_layout_row(j, &b, NULL) == NIB_OK; j++) {
                nib_layout from, to;
                if (nib_layout_make(a, widths[w], &from) || nib_layout_make(b, widths[w], &to))
                    continue;
                int32_t word = nib_layout_free_word(&from, &to);
                cr_expect_eq(word, nib_layout_free_word(&to, &from), "%s and %s", a, b);
                if (strncmp(a, "gguf", 4) == 0 || strncmp(b, "gguf", 4) == 0)
                    continue; /* words between the blocks belong to nobody */
                if (from.plane[0].cell != to.plane[0].cell) {
                    cr_expect_eq(word, 0);
                    continue;
                }
                /* 256 random codes do not happen to make equal words of 4 bytes. */
                if (word >= 4) {
                    free_pairs++;
                    cr_expect(same_words(&from, &to, (size_t)word), "%s, %s: %d", a, b, word);
                }
                if (word >= 2 && word < 16) {
                    others++;
                    cr_expect_not(
                        same_words(&from, &to, 2 * (size_t)word < 4 ? 4 : 2 * (size_t)word),
                        "%s, %s: more than %d", a, b, word);
                }
            }
    cr_assert_gt(free_pairs, 20);
    cr_assert_gt(others, 5);
}
