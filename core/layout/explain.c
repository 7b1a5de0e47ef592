/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts for readers: where each address bit comes from, a picture of a tile's corner, and whether
 * a conversion is free. Behind nib_layout_explain and `nib layout`.
 */
#include "base/status.h"
#include "base/text.h"
#include "layout/gf2.h"

#include <string.h>

#define PICTURE_ROWS    16
#define PICTURE_COLUMNS 16

static void sources(const nib_plane *plane, int32_t i, nib_text *text)
{
    const char *joint = "";
    for (int32_t j = 0; j < 32; j++)
        if (plane->addr[i] >> j & 1) {
            nib_text_add(text, "%s%c%d", joint, j < 16 ? 'n' : 'k', j % 16);
            joint = " ^ ";
        }
}

/* What an address bit chooses, from the lowest: cells share a byte, bytes a word, and so on. */
static const char *role(const nib_plane *plane, int32_t i)
{
    uint64_t bit = (uint64_t)plane->cell << i; /* how far it moves a cell */
    if (plane->cell & (plane->cell - 1))
        return "place in a run of bits";
    return bit < 8     ? "place in a byte"
           : bit < 32  ? "byte in a 4-byte word"
           : bit < 128 ? "word in 16 bytes"
                       : "16-byte unit";
}

static void address_table(const nib_plane *plane, nib_text *text)
{
    int32_t bits = plane->n_bits + plane->k_bits;
    if (bits == 0)
        nib_text_add(text, "  a tile is one element\n");
    for (int32_t i = 0; i < bits; i++) {
        nib_text_add(text, "  address bit %2d = ", i);
        size_t before = text->length;
        sources(plane, i, text);
        nib_text_add(text, "%*s  %s\n",
                     text->length - before < 8 ? (int)(8 - (text->length - before)) : 0, "",
                     role(plane, i));
    }
}

/* The cell numbers of the first rows and columns of a tile. */
static void picture(const nib_plane *plane, nib_text *text)
{
    nib_gf2 map = nib_plane_gf2(plane, plane->n_bits, plane->k_bits);
    int32_t tile_n = 1 << plane->n_bits, tile_k = 1 << plane->k_bits;
    int32_t rows = tile_n < PICTURE_ROWS ? tile_n : PICTURE_ROWS;
    int32_t columns = tile_k < PICTURE_COLUMNS ? tile_k : PICTURE_COLUMNS;
    nib_text_add(text, "  cells of a tile, n down, k across%s:\n         k",
                 rows < tile_n || columns < tile_k ? " (its first corner)" : "");
    for (int32_t k = 0; k < columns; k++)
        nib_text_add(text, " %5d", k);
    nib_text_add(text, "\n");
    for (int32_t n = 0; n < rows; n++) {
        nib_text_add(text, "    n %4d", n);
        for (int32_t k = 0; k < columns; k++)
            nib_text_add(text, " %5d",
                         (int)nib_gf2_apply(&map, (uint64_t)n | (uint64_t)k << plane->n_bits));
        nib_text_add(text, "\n");
    }
}

static void explain_plane(const nib_layout *layout, int32_t p, nib_text *text)
{
    const nib_plane *plane = &layout->plane[p];
    size_t bytes = nib_plane_tile_bytes(plane);
    if (layout->planes > 1)
        nib_text_add(text, "plane %d of %d: ", p + 1, layout->planes);
    nib_text_add(text,
                 "bits %d..%d of a code in cells of %d bits; tiles of %d x %d elements, %zu bytes",
                 plane->shift, plane->shift + plane->bits - 1, plane->cell, 1 << plane->n_bits,
                 1 << plane->k_bits, bytes);
    if (plane->pitch != bytes || plane->offset)
        nib_text_add(text, ", every %zu bytes from byte %zu", plane->pitch, plane->offset);
    nib_text_add(text, "; the next tile lies along %s\n", plane->order == NIB_TILES_NK ? "k" : "n");
    if (plane->cut)
        nib_text_add(text, "  each row ends with the byte of its last element\n");
    if (plane->woven)
        nib_text_add(text,
                     "  tiles are woven: first the first 4-byte word of each, then the second\n");
    address_table(plane, text);
    picture(plane, text);
}

static void explain_free(const nib_layout *from, const nib_layout *to, nib_text *text)
{
    nib_free_word answer = nib_layout_free_why(from, to);
    if (answer.bytes)
        nib_text_add(text,
                     "free: units of %d bytes move whole; a kernel for the second layout can read "
                     "the first in place by permuting its loads of %d bytes\n",
                     answer.bytes, answer.bytes);
    else
        nib_text_add(text, "not free: no byte moves whole, the codes must be repacked\n");
    if (answer.why[0])
        nib_text_add(text, "  %s\n", answer.why);
}

static void heading(const char *name, const nib_layout *layout, nib_text *text)
{
    char line[NIB_LAYOUT_TEXT_BYTES];
    nib_layout_text(layout, line, sizeof(line), NULL);
    if (!strchr(name, '='))
        nib_text_add(text, "%s: ", name);
    nib_text_add(text, "%s\n", line);
}

nib_status nib_layout_explain(const char *layout, const char *to, int32_t bits, char *text,
                              size_t capacity, size_t *needed)
{
    nib_layout first, second;
    nib_status status = nib_layout_make(layout, bits, &first);
    if (!status && to)
        status = nib_layout_make(to, first.bits, &second);
    if (status)
        return status;
    nib_text out = nib_text_into(text, capacity);
    heading(layout, &first, &out);
    for (int32_t p = 0; p < first.planes; p++)
        explain_plane(&first, p, &out);
    if (to) {
        nib_text_add(&out, "\nto ");
        heading(to, &second, &out);
        explain_free(&first, &second, &out);
    }
    nib_text_end(&out, needed);
    return NIB_OK;
}
