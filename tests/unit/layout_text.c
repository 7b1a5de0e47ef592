/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout texts: canonical form, refusals with column and remedy, sizes, the public functions, and
 * the answers to "is it free" that users will ask for.
 */
#include "layout/layout.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text, *canonical; /* NULL: the same */
} texts[] = {
    {"bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk", NULL},
    {"bits=8 tile=n1,k1 order=kn", NULL},
    {"bits=4 tile=n1,k1 order=nk cell=8", NULL},
    {"bits=4 tile=n1,k32 addr=k4,k0,k1,k2,k3 order=nk pitch=18 offset=2", NULL},
    {"bits=4 tile=n8,k8 addr=n0^k2,k0,k1,n0,n1^k0,n2 order=nk", NULL},
    {"bits=3 tile=n1,k8 addr=k0,k1,k2 order=nk edge=cut", NULL},
    {"bits=3 tile=n1,k32 addr=k0,k1,k2,k3,k4 order=kn weave=words", NULL},
    {"bits=2 tile=n1,k4 addr=k0,k1 order=nk | bits=1 tile=n1,k8 addr=k2,k1,k0 order=kn shift=2",
     NULL},
    {"  order=nk\ttile=n1,k2  addr=k0 bits=4 pitch=1 offset=0 cell=4 shift=0\n",
     "bits=4 tile=n1,k2 addr=k0 order=nk"},
    {"bits=4 tile=n2,k2 addr=k0^n0,n0 order=nk", "bits=4 tile=n2,k2 addr=n0^k0,n0 order=nk"},
};

/* A seed that is refused would leave the fuzzer at the parser's door. */
Test(layout_text, every_fuzz_seed_parses)
{
    static const char folder[] = NIB_SOURCE_DIR "/tests/fuzz/corpus/layout_text";
    int seeds = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        nib_layout layout;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        test_bytes text = test_file_read(path);
        test_put_u8(&text, 0);
        cr_expect_eq(nib_layout_make((const char *)text.data, 0, &layout), NIB_OK, "%s: %s",
                     entry->d_name, nib_last_message());
        test_bytes_free(&text);
        seeds++;
    }
    closedir(dir);
    cr_expect_geq(seeds, 7);
}

Test(layout_text, a_printed_layout_parses_back)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        nib_layout layout, again;
        char text[NIB_LAYOUT_TEXT_BYTES];
        size_t needed;
        const char *canonical = texts[i].canonical ? texts[i].canonical : texts[i].text;
        cr_assert_eq(nib_layout_make(texts[i].text, 0, &layout), NIB_OK, "%s: %s", texts[i].text,
                     nib_last_message());
        cr_assert_eq(nib_layout_text(&layout, text, sizeof(text), &needed), NIB_OK);
        cr_expect_str_eq(text, canonical);
        cr_expect_eq(needed, strlen(text) + 1);
        cr_assert_eq(nib_layout_make(text, layout.bits, &again), NIB_OK);
        cr_expect_eq(memcmp(&layout, &again, sizeof(layout)), 0);
    }
}

Test(layout_text, the_widest_address_map_fits_its_field)
{
    const char *text =
        "bits=4 tile=n256,k256 addr=n0^k7,n1^k6,n2^k5,n3^k4,n4^k3,n5^k2,n6^k1,n7^k0,k0^k1,k1^k2,"
        "k2^k3,k3^k4,k4^k5,k5^k6,k6^k7,k7 order=nk";
    char out[NIB_LAYOUT_TEXT_BYTES];
    cr_assert_eq(nib_layout_print(text, 0, out, sizeof(out), NULL), NIB_OK, "%s",
                 nib_last_message());
    cr_expect_str_eq(out, text);
}

Test(layout_text, every_row_prints_and_parses_back)
{
    const char *row;
    for (uint32_t i = 0; nib_layout_row(i, &row, NULL) == NIB_OK; i++)
        for (int32_t bits = 1; bits <= 32; bits++) {
            nib_layout layout, again;
            char text[NIB_LAYOUT_TEXT_BYTES];
            if (nib_layout_make(row, bits, &layout))
                continue;
            cr_assert_eq(nib_layout_print(row, bits, text, sizeof(text), NULL), NIB_OK);
            cr_assert_eq(nib_layout_make(text, 0, &again), NIB_OK, "%s", nib_last_message());
            cr_expect_eq(memcmp(&layout, &again, sizeof(layout)), 0);
        }
}

static const struct {
    const char *text;
    int32_t bits;
    nib_status status;
    const char *part;
} refusals[] = {
    {"", 4, NIB_INVALID, "'' is neither the name of a layout row nor a layout text"},
    {"nonsense", 4, NIB_INVALID, "'nonsense' is neither the name of a layout row"},
    {"awq", 0, NIB_INVALID, "needs the bits of an element"},
    {"awq", 3, NIB_UNSUPPORTED, "layout row 'awq' does not exist for 3 bits, only for 4"},
    {"gptq", 5, NIB_UNSUPPORTED, "only for 2, 3, 4, 8"},
    {"plain", 33, NIB_INVALID, "elements of 1 to 32 bits, not 33"},
    {"plain", -1, NIB_INVALID, "elements of 1 to 32 bits"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk", 8, NIB_INVALID, "elements of 4 bits, the caller 8"},
    {"bits=4 tile", 0, NIB_INVALID, "column 8: expected key=value"},
    {"bits=4 size=3", 0, NIB_INVALID, "column 8: unknown key 'size'; expected bits, tile"},
    {"bits=4 bits=4", 0, NIB_INVALID, "column 8: key 'bits' stands twice"},
    {"bits=0", 0, NIB_INVALID, "column 6: expected a number from 1 to 32 instead of '0'"},
    {"bits=33", 0, NIB_INVALID, "column 6: expected a number from 1 to 32"},
    {"bits=04", 0, NIB_INVALID, "column 6: expected a number"},
    {"bits=4x", 0, NIB_INVALID, "column 6: expected a number"},
    {"bits=99999999999999999999", 0, NIB_INVALID, "column 6: expected a number"},
    {"bits=4 tile=n3,k8", 0, NIB_INVALID, "column 13: 'n3,k8' is no tile; expected two powers"},
    {"bits=4 tile=k8,n1", 0, NIB_INVALID, "is no tile"},
    {"bits=4 tile=n1,k0", 0, NIB_INVALID, "is no tile"},
    {"bits=4 tile=n1,k131072", 0, NIB_INVALID, "is no tile"},
    {"bits=4 tile=n512,k512", 0, NIB_INVALID, "column 13: a tile has at most 65536 elements"},
    {"bits=4 tile=n1,k2 addr=x0 order=nk", 0, NIB_INVALID, "column 24: expected a source bit"},
    {"bits=4 tile=n1,k2 addr=k0, order=nk", 0, NIB_INVALID, "column 27: expected a source bit"},
    {"bits=4 tile=n1,k2 addr=k0^k0 order=nk", 0, NIB_INVALID, "column 24: expected a source bit"},
    {"bits=4 tile=n1,k2 addr=k16 order=nk", 0, NIB_INVALID, "column 24: expected a source bit"},
    {"bits=4 tile=n1,k8 addr=k0,k1,k3 order=nk", 0, NIB_INVALID,
     "column 30: a source bit lies outside the tile n1,k8"},
    {"bits=4 tile=n1,k8 addr=k0,k1 order=nk", 0, NIB_INVALID,
     "column 24: addr has 2 bits; a tile of n1,k8 needs 3"},
    {"bits=4 tile=n1,k8 order=nk", 0, NIB_INVALID, "addr has 0 bits"},
    {"bits=4 tile=n1,k8 addr=k0,k1,k1 order=nk", 0, NIB_INVALID,
     "column 24: addr does not use bit k2"},
    {"bits=4 tile=n2,k4 addr=n0^k0,k0^k1,n0^k1 order=nk", 0, NIB_INVALID, "is not invertible"},
    {"bits=4 tile=n1,k2 addr=k0 order=kk", 0, NIB_INVALID, "column 33: expected nk or kn"},
    {"bits=4 tile=n1,k2 addr=k0", 0, NIB_INVALID, "column 1: the plane lacks order="},
    {"tile=n1,k2 addr=k0 order=nk", 0, NIB_INVALID, "the plane lacks bits="},
    {"bits=4 order=nk", 0, NIB_INVALID, "the plane lacks tile="},
    {"bits=4 tile=n1,k2 addr=k0 order=nk cell=3", 0, NIB_INVALID, "cell=3 is less than bits=4"},
    {"bits=4 tile=n1,k1 order=nk", 0, NIB_INVALID, "is no whole number of bytes"},
    {"bits=4 tile=n1,k8 addr=k0,k1,k2 order=nk pitch=3", 0, NIB_INVALID,
     "pitch=3 is less than the tile's 4 bytes"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk pitch=16777217", 0, NIB_INVALID, "from 1 to 16777216"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk offset=99999999", 0, NIB_INVALID, "from 0 to 16777216"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk shift=30", 0, NIB_INVALID, "pass bit 32"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk shift=1", 0, NIB_INVALID, "bit 0 of the code lies in no"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk edge=cut", 0, NIB_OK, NULL},
    {"bits=4 tile=n1,k2 addr=k0 order=kn edge=cut", 0, NIB_INVALID, "column 41: edge=cut needs"},
    {"bits=4 tile=n1,k2 addr=k0 order=kn weave=words", 0, NIB_INVALID,
     "column 42: weave=words needs tiles of whole 4-byte words"},
    {"bits=8 tile=n1,k4 addr=k0,k1 order=kn weave=words edge=cut", 0, NIB_INVALID, "no edge=cut"},
    {"bits=4 tile=n1,k2 addr=k0 order=nk edge=pad", 0, NIB_INVALID, "column 41: expected cut"},
    {"bits=2 tile=n1,k4 addr=k0,k1 order=nk | bits=1 tile=n1,k8 addr=k0,k1,k2 order=nk", 0,
     NIB_INVALID, "column 40: plane 2 holds bits of the code that an earlier plane has"},
    {"bits=2 tile=n1,k4 addr=k0,k1 order=nk |", 0, NIB_INVALID, "column 40: "},
    {"| bits=8 tile=n1,k1 order=nk", 0, NIB_INVALID, "column 1: the plane lacks bits="},
    {"bits=8 tile=n1,k1 order=nk|", 0, NIB_INVALID, "column 25: expected nk or kn"},
    {"bits=8 tile=n1,k1 order=nk | bits=8 tile=n1,k1 order=nk shift=8 | "
     "bits=8 tile=n1,k1 order=nk shift=16 | bits=8 tile=n1,k1 order=nk shift=24",
     0, NIB_INVALID, "a layout has at most 3 planes"},
};

Test(layout_text, refusals_name_the_column_and_say_what_is_right)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        nib_layout layout = {.bits = -7};
        nib_status status = nib_layout_make(refusals[i].text, refusals[i].bits, &layout);
        cr_expect_eq(status, refusals[i].status, "'%s' gives %d: %s", refusals[i].text, status,
                     nib_last_message());
        if (!refusals[i].part)
            continue;
        cr_expect_eq(layout.bits, -7, "the output of a failed call is untouched");
        cr_expect(strstr(nib_last_message(), refusals[i].part), "'%s': '%s' lacks '%s'",
                  refusals[i].text, nib_last_message(), refusals[i].part);
    }
}

Test(layout_text, texts_that_are_too_long_are_refused)
{
    char text[2 * NIB_LAYOUT_TEXT_BYTES];
    nib_layout layout;
    memset(text, ' ', sizeof(text));
    memcpy(text, "bits=4", 6);
    text[sizeof(text) - 1] = '\0';
    cr_expect_eq(nib_layout_make(text, 0, &layout), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "at most 511 characters"));
    cr_expect_eq(nib_layout_make(NULL, 4, &layout), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "is NULL"));
}

Test(layout_bytes, sizes_are_those_of_the_formats)
{
    size_t bytes;
    cr_assert_eq(nib_layout_bytes("gptq", 4, 4096, 11008, &bytes), NIB_OK);
    cr_expect_eq(bytes, (size_t)11008 * 4 / 32 * 4096 * 4);
    cr_assert_eq(nib_layout_bytes("gptq", 3, 70, 96, &bytes), NIB_OK);
    cr_expect_eq(bytes, (size_t)96 * 3 / 32 * 70 * 4);
    cr_assert_eq(nib_layout_bytes("marlin", 4, 128, 32, &bytes), NIB_OK);
    cr_expect_eq(bytes, (size_t)(32 / 16) * 2 * 128 * 4);
    cr_assert_eq(nib_layout_bytes("gguf-q4_0", 4, 3, 64, &bytes), NIB_OK);
    cr_expect_eq(bytes, (size_t)3 * 2 * 18);
    cr_assert_eq(nib_layout_bytes("gguf-q4_1-mins", 16, 3, 2, &bytes), NIB_OK);
    cr_expect_eq(bytes, (size_t)5 * 20 + 4, "the last minimum ends the plane");
    cr_assert_eq(nib_layout_bytes("cpu16", 3, 17, 33, &bytes), NIB_OK);
    cr_expect_eq(bytes, (size_t)(2 * 3 * 64 + 2 * 2 * 64), "two planes with whole tiles");
    cr_assert_eq(nib_layout_bytes("bits=1 tile=n1,k8 addr=k0,k1,k2 order=nk | bits=1 tile=n1,k8 "
                                  "addr=k0,k1,k2 order=nk shift=1",
                                  2, 1, 8, &bytes),
                 NIB_OK);
    cr_expect_eq(bytes, (size_t)65, "the second plane begins at a boundary");
}

Test(layout_bytes, extents_that_do_not_fit_are_refused)
{
    static const int64_t bad[][2] = {{0, 8}, {8, 0}, {-1, 8}, {8, INT64_MIN}};
    size_t bytes = 77;
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(nib_layout_bytes("plain", 4, bad[i][0], bad[i][1], &bytes), NIB_INVALID);
        cr_expect(strstr(nib_last_message(), "extents start at 1"));
    }
    static const char *const rows[] = {"plain", "bytes", "gptq", "cpu16", "gguf-q4_1", "marlin"};
    static const int64_t huge[][2] = {{INT64_MAX, INT64_MAX},
                                      {INT64_MAX, 1 << 20},
                                      {1 << 20, INT64_MAX},
                                      {INT64_C(1) << 33, INT64_C(1) << 33}};
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (size_t i = 0; i < 4; i++) {
            cr_expect_eq(nib_layout_bytes(rows[r], 4, huge[i][0], huge[i][1], &bytes), NIB_INVALID,
                         "%s", rows[r]);
            cr_expect(strstr(nib_last_message(), "does not fit memory"));
        }
    cr_expect_eq(bytes, (size_t)77);
    cr_expect_eq(nib_layout_bytes("plain", 3, 1, INT64_MAX, &bytes), NIB_OK);
    cr_expect_eq(nib_layout_bytes("plain", 4, 1, 8, NULL), NIB_INVALID);
}

Test(layout_convert, awq_and_gptq_hold_the_same_codes)
{
    /* Eight columns of one k: AWQ's word, and GPTQ's eight words with one nibble each. */
    uint32_t awq = 0x75316420, gptq[8];
    cr_assert_eq(nib_layout_convert("awq", &awq, "gptq", gptq, 4, 8, 1), NIB_OK);
    for (uint32_t n = 0; n < 8; n++)
        cr_expect_eq(gptq[n], n);
    cr_expect_eq(nib_layout_convert("awq", NULL, "gptq", gptq, 4, 8, 1), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "from_codes is NULL"));
    cr_expect_eq(nib_layout_convert("awq", &awq, "gptq", NULL, 4, 8, 1), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "to_codes is NULL"));
    cr_expect_eq(nib_layout_convert("awq", &awq, "gptq", gptq, 4, 0, 1), NIB_INVALID);
}

static const struct {
    const char *from, *to;
    int32_t bits, word;
} pairs[] = {
    {"gptq", "gemlite", 4, 16},  /* the same layout */
    {"plain", "bitblas", 4, 16}, /* the same */
    {"plain", "gptq", 4, 4},     /* a word is 8 k on both sides */
    {"plain", "gptq", 2, 4},
    {"bitblas-i8", "cpu16", 4, 4}, /* 8 k of a row in the same order */
    {"bitblas-i8", "cpu16", 2, 4},
    {"bitblas-i8", "aiter16x16", 4, 16},
    {"plain", "aiter16x16", 8, 16},
    {"plain", "cpu16", 8, 4},
    {"plain", "cpu16", 4, 0},
    {"plain", "cpu16", 3, 0}, /* one plane, two planes */
    {"plain", "awq", 4, 0},
    {"marlin", "mma16x64", 4, 0}, /* n3 and k3 change places in the nibbles */
    {"plain", "bytes", 4, 0},
    {"gguf-q8_0", "plain", 8, 2}, /* blocks of 34 bytes leave 2-byte alignment */
    {"bits=8 tile=n1,k32 addr=k0,k1,k2,k3,k4 order=nk pitch=34", "plain", 8, 2},
    {"bits=8 tile=n1,k32 addr=k0,k1,k2,k3,k4 order=kn weave=words", "gptq", 8, 4},
    {"dpas16", "dpas8", 4, 16},
    {"cpu16", "cpu16", 7, 16},
};

Test(free_word, known_pairs)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        nib_layout from, to;
        cr_assert_eq(nib_layout_make(pairs[i].from, pairs[i].bits, &from), NIB_OK);
        cr_assert_eq(nib_layout_make(pairs[i].to, pairs[i].bits, &to), NIB_OK);
        cr_expect_eq(nib_layout_free_word(&from, &to), pairs[i].word, "%s to %s at %d bits: %d",
                     pairs[i].from, pairs[i].to, pairs[i].bits, nib_layout_free_word(&from, &to));
    }
}

static void expect_parts(const char *layout, const char *to, int32_t bits, const char *const *parts)
{
    char text[8192];
    size_t needed;
    cr_assert_eq(nib_layout_explain(layout, to, bits, text, sizeof(text), &needed), NIB_OK, "%s",
                 nib_last_message());
    cr_expect_eq(needed, strlen(text) + 1);
    for (; *parts; parts++)
        cr_expect(strstr(text, *parts), "'%s' is missing in:\n%s", *parts, text);
}

Test(layout_explain, says_where_bits_come_from_and_what_is_free)
{
    expect_parts("awq", "gptq", 4,
                 (const char *const[]){"awq: bits=4 tile=n8,k1 addr=n1,n2,n0 order=kn",
                                       "address bit  2 = n0", "    n    1     4\n",
                                       "to gptq: bits=4", "not free: no byte moves whole",
                                       "address bit 0 is n1, not k0", NULL});
    expect_parts("plain", "gptq", 4,
                 (const char *const[]){"free: units of 4 bytes move whole",
                                       "words of 8 bytes break: address bit 3 is k3, not n0",
                                       NULL});
    expect_parts("cpu16", NULL, 5,
                 (const char *const[]){"plane 1 of 2: bits 0..3", "plane 2 of 2: bits 4..4",
                                       "its first corner", NULL});
    expect_parts("bits=4 tile=n8,k8 addr=n0^k2,k0,k1,n0,n1,n2 order=nk", NULL, 0,
                 (const char *const[]){"address bit  0 = n0 ^ k2", NULL});
    expect_parts("plain", "cpu16", 3,
                 (const char *const[]){"each row ends with the byte of its last element",
                                       "bits or planes differ", NULL});
    cr_expect_eq(nib_layout_explain("awq", "marlin", 3, NULL, 0, NULL), NIB_UNSUPPORTED);
}

Test(layout_explain, cuts_and_counts)
{
    char text[12];
    size_t needed, whole;
    cr_assert_eq(nib_layout_explain("awq", NULL, 4, NULL, 0, &whole), NIB_OK);
    cr_assert_eq(nib_layout_explain("awq", NULL, 4, text, sizeof(text), &needed), NIB_OK);
    cr_expect_str_eq(text, "awq: bits=4");
    cr_expect_eq(needed, whole);
    cr_assert_eq(nib_layout_print("awq", 4, text, sizeof(text), &needed), NIB_OK);
    cr_expect_str_eq(text, "bits=4 tile");
}
