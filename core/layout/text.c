/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts as text, and every check that a layout must pass. The grammar, one plane:
 *
 *     bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk
 *     and, where wanted: cell=8 shift=0 pitch=18 offset=2 edge=cut weave=words
 *
 * Planes are separated by a | between blanks. docs/layouts.md explains the keys. Parsing goes field
 * by field into plane_text, which remembers columns, so that the checks behind it can point at what
 * they refuse.
 */
#include "layout/text.h"

#include "base/text.h"
#include "layout/gf2.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* A pitch or offset above this is a mistake; it keeps every tile's arithmetic far from overflow. */
#define MAX_GAP  (1 << 24)
#define MAX_BITS 32

typedef enum key {
    KEY_BITS,
    KEY_TILE,
    KEY_ADDR,
    KEY_ORDER,
    KEY_CELL,
    KEY_SHIFT,
    KEY_PITCH,
    KEY_OFFSET,
    KEY_EDGE,
    KEY_WEAVE,
    KEYS
} key;

static const char *const key_names[KEYS] = {"bits",  "tile",  "addr",   "order", "cell",
                                            "shift", "pitch", "offset", "edge",  "weave"};

typedef struct plane_text {
    nib_plane plane;
    int column[KEYS]; /* of the value; 0: the key does not stand there */
    int addr_column[NIB_LAYOUT_ADDR_BITS];
    int32_t addr_count;
    int start; /* column of the plane */
} plane_text;

size_t nib_plane_tile_bytes(const nib_plane *plane)
{
    return ((size_t)plane->cell << (plane->n_bits + plane->k_bits)) / 8;
}

/* A decimal number of at most eight digits without leading zeros. */
static bool take_number(const char **at, int64_t *out)
{
    const char *p = *at;
    int64_t value = 0;
    while (*p >= '0' && *p <= '9' && p - *at < 8)
        value = 10 * value + (*p++ - '0');
    if (p == *at || (**at == '0' && p - *at > 1))
        return false;
    *at = p;
    *out = value;
    return true;
}

/* log2 of an extent "n16", for extents up to a whole tile's 2^16. */
static bool take_extent(const char **at, char letter, int32_t *bits)
{
    int64_t extent;
    if (**at != letter)
        return false;
    ++*at;
    if (!take_number(at, &extent) || extent < 1 || extent > 1 << NIB_LAYOUT_ADDR_BITS ||
        (extent & (extent - 1)))
        return false;
    *bits = __builtin_ctzll((uint64_t)extent);
    return true;
}

static nib_status parse_tile(const char *value, int column, nib_plane *plane)
{
    const char *at = value;
    if (!take_extent(&at, 'n', &plane->n_bits) || *at++ != ',' ||
        !take_extent(&at, 'k', &plane->k_bits) || *at)
        return nib_fail(NIB_INVALID,
                        "column %d: '%s' is no tile; expected two powers of two like n16,k8",
                        column, value);
    if (plane->n_bits + plane->k_bits > NIB_LAYOUT_ADDR_BITS)
        return nib_fail(NIB_INVALID, "column %d: a tile has at most %d elements, %s has more",
                        column, 1 << NIB_LAYOUT_ADDR_BITS, value);
    return NIB_OK;
}

/* One address bit: sources joined by ^. */
static bool take_sources(const char **at, uint32_t *mask)
{
    *mask = 0;
    for (;;) {
        char letter = **at;
        int64_t bit;
        if (letter != 'n' && letter != 'k')
            return false;
        ++*at;
        if (!take_number(at, &bit) || bit >= NIB_LAYOUT_ADDR_BITS)
            return false;
        uint32_t source = UINT32_C(1) << (bit + (letter == 'k' ? 16 : 0));
        if (*mask & source)
            return false;
        *mask |= source;
        if (**at != '^')
            return true;
        ++*at;
    }
}

static nib_status parse_addr(const char *value, int column, plane_text *text)
{
    const char *at = value;
    for (;;) {
        int here = column + (int)(at - value);
        if (text->addr_count == NIB_LAYOUT_ADDR_BITS)
            return nib_fail(NIB_INVALID, "column %d: an address has at most %d bits", here,
                            NIB_LAYOUT_ADDR_BITS);
        if (!take_sources(&at, &text->plane.addr[text->addr_count]) || (*at && *at != ','))
            return nib_fail(NIB_INVALID,
                            "column %d: expected a source bit like k2 or n0^k3, each once, then a "
                            "comma or a blank",
                            here);
        text->addr_column[text->addr_count++] = here;
        if (!*at)
            return NIB_OK;
        at++;
    }
}

static nib_status parse_choice(const char *value, int column, const char *const *names,
                               int32_t *out)
{
    for (int32_t i = 0; names[i]; i++)
        if (strcmp(value, names[i]) == 0) {
            *out = i;
            return NIB_OK;
        }
    return nib_fail(NIB_INVALID, "column %d: expected %s%s%s instead of '%s'", column, names[0],
                    names[1] ? " or " : "", names[1] ? names[1] : "", value);
}

static nib_status parse_count(const char *value, int column, int64_t least, int64_t most,
                              int64_t *out)
{
    const char *at = value;
    int64_t number;
    if (!take_number(&at, &number) || *at || number < least || number > most)
        return nib_fail(NIB_INVALID,
                        "column %d: expected a number from %" PRId64 " to %" PRId64
                        " instead of '%s'",
                        column, least, most, value);
    *out = number;
    return NIB_OK;
}

static nib_status parse_value(key k, const char *value, int column, plane_text *text)
{
    static const char *const orders[] = {"nk", "kn", NULL}, *const edges[] = {"cut", NULL},
                             *const weaves[] = {"words", NULL};
    nib_plane *plane = &text->plane;
    int64_t number = 0;
    int32_t choice = 0;
    nib_status status = NIB_OK;
    switch (k) {
    case KEY_TILE:
        return parse_tile(value, column, plane);
    case KEY_ADDR:
        return parse_addr(value, column, text);
    case KEY_ORDER:
        status = parse_choice(value, column, orders, &choice);
        plane->order = choice ? NIB_TILES_KN : NIB_TILES_NK;
        return status;
    case KEY_EDGE:
        plane->cut = true;
        return parse_choice(value, column, edges, &choice);
    case KEY_WEAVE:
        plane->woven = true;
        return parse_choice(value, column, weaves, &choice);
    case KEY_BITS:
    case KEY_CELL:
        status = parse_count(value, column, 1, MAX_BITS, &number);
        *(k == KEY_BITS ? &plane->bits : &plane->cell) = (int32_t)number;
        return status;
    case KEY_SHIFT:
        status = parse_count(value, column, 0, MAX_BITS - 1, &number);
        plane->shift = (int32_t)number;
        return status;
    default:
        status = parse_count(value, column, k == KEY_PITCH, MAX_GAP, &number);
        *(k == KEY_PITCH ? &plane->pitch : &plane->offset) = (size_t)number;
        return status;
    }
}

static nib_status parse_field(const nib_field *field, plane_text *text)
{
    int k = 0;
    while (k < KEYS && strcmp(field->key, key_names[k]) != 0)
        k++;
    if (k == KEYS)
        return nib_fail(NIB_INVALID,
                        "column %d: unknown key '%s'; expected bits, tile, addr, order, cell, "
                        "shift, pitch, offset, edge or weave",
                        field->column, field->key);
    if (text->column[k])
        return nib_fail(NIB_INVALID, "column %d: key '%s' stands twice in this plane",
                        field->column, field->key);
    text->column[k] = field->column + (int)strlen(field->key) + 1;
    return parse_value((key)k, field->value, text->column[k], text);
}

static nib_status check_addr(const plane_text *text)
{
    const nib_plane *p = &text->plane;
    int32_t bits = p->n_bits + p->k_bits;
    if (text->addr_count != bits)
        return nib_fail(NIB_INVALID, "column %d: addr has %d bits; a tile of n%d,k%d needs %d",
                        text->column[KEY_ADDR] ? text->column[KEY_ADDR] : text->start,
                        text->addr_count, 1 << p->n_bits, 1 << p->k_bits, bits);
    uint32_t inside = ((UINT32_C(1) << p->n_bits) - 1) | ((UINT32_C(1) << p->k_bits) - 1) << 16;
    for (int32_t i = 0; i < bits; i++)
        if (p->addr[i] & ~inside)
            return nib_fail(NIB_INVALID, "column %d: a source bit lies outside the tile n%d,k%d",
                            text->addr_column[i], 1 << p->n_bits, 1 << p->k_bits);
    nib_gf2 map = nib_plane_gf2(p, p->n_bits, p->k_bits);
    uint64_t used = 0;
    for (int32_t i = 0; i < bits; i++)
        used |= map.row[i];
    for (int32_t j = 0; j < bits; j++)
        if (!(used >> j & 1))
            return nib_fail(NIB_INVALID, "column %d: addr does not use bit %c%d of the tile",
                            text->column[KEY_ADDR], j < p->n_bits ? 'n' : 'k',
                            j < p->n_bits ? j : j - p->n_bits);
    if (nib_gf2_rank(&map) < bits)
        return nib_fail(NIB_INVALID,
                        "column %d: addr is not invertible: two elements would share an address",
                        text->column[KEY_ADDR]);
    return NIB_OK;
}

static nib_status check_cut(const plane_text *text)
{
    const nib_plane *p = &text->plane;
    bool stream = p->n_bits == 0 && p->order == NIB_TILES_NK && p->pitch == nib_plane_tile_bytes(p);
    for (int32_t i = 0; i < p->k_bits; i++)
        stream = stream && p->addr[i] == UINT32_C(0x10000) << i;
    if (!stream)
        return nib_fail(NIB_INVALID,
                        "column %d: edge=cut needs tiles n1 in order=nk with addr=k0,k1,... and "
                        "without gaps",
                        text->column[KEY_EDGE]);
    return NIB_OK;
}

/* Fills in what the text left out, then checks the plane by itself. */
static nib_status check_plane(plane_text *text)
{
    nib_plane *p = &text->plane;
    static const key required[] = {KEY_BITS, KEY_TILE, KEY_ORDER};
    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
        if (!text->column[required[i]])
            return nib_fail(NIB_INVALID, "column %d: the plane lacks %s=", text->start,
                            key_names[required[i]]);
    nib_status status = check_addr(text);
    if (status)
        return status;
    if (!text->column[KEY_CELL])
        p->cell = p->bits;
    if (p->cell < p->bits)
        return nib_fail(NIB_INVALID, "column %d: cell=%d is less than bits=%d",
                        text->column[KEY_CELL], p->cell, p->bits);
    if (p->shift + p->bits > MAX_BITS)
        return nib_fail(NIB_INVALID, "column %d: shift=%d and bits=%d pass bit %d",
                        text->column[KEY_SHIFT], p->shift, p->bits, MAX_BITS);
    if (((uint64_t)p->cell << text->addr_count) % 8)
        return nib_fail(NIB_INVALID,
                        "column %d: a tile of %d cells of %d bits is no whole number of bytes",
                        text->column[KEY_TILE], 1 << text->addr_count, p->cell);
    if (!text->column[KEY_PITCH])
        p->pitch = nib_plane_tile_bytes(p);
    if (p->pitch < nib_plane_tile_bytes(p))
        return nib_fail(NIB_INVALID, "column %d: pitch=%zu is less than the tile's %zu bytes",
                        text->column[KEY_PITCH], p->pitch, nib_plane_tile_bytes(p));
    if (p->woven && (p->pitch % 4 || p->pitch != nib_plane_tile_bytes(p) || p->cut))
        return nib_fail(
            NIB_INVALID,
            "column %d: weave=words needs tiles of whole 4-byte words without gaps, and "
            "no edge=cut",
            text->column[KEY_WEAVE]);
    return p->cut ? check_cut(text) : NIB_OK;
}

/* The planes must hold every bit of a code once, from bit 0. */
static nib_status check_cover(const plane_text *texts, nib_layout *layout)
{
    uint64_t covered = 0;
    for (int32_t i = 0; i < layout->planes; i++) {
        const nib_plane *p = &texts[i].plane;
        uint64_t mask = ((UINT64_C(1) << p->bits) - 1) << p->shift;
        if (covered & mask)
            return nib_fail(NIB_INVALID,
                            "column %d: plane %d holds bits of the code that an earlier plane has; "
                            "set shift=",
                            texts[i].start, i + 1);
        covered |= mask;
    }
    if (covered & (covered + 1))
        return nib_fail(NIB_INVALID,
                        "column 1: bit %d of the code lies in no plane; bits and shift of the "
                        "planes must cover each bit once, from bit 0",
                        __builtin_ctzll(~covered));
    layout->bits = __builtin_popcountll(covered);
    return NIB_OK;
}

nib_status nib_layout_parse(const char *text, nib_layout *out)
{
    plane_text planes[NIB_LAYOUT_PLANES];
    nib_layout layout;
    memset(planes, 0, sizeof(planes));
    memset(&layout, 0, sizeof(layout));
    if (strnlen(text, NIB_LAYOUT_TEXT_BYTES) == NIB_LAYOUT_TEXT_BYTES)
        return nib_fail(NIB_INVALID, "a layout text has at most %d characters",
                        NIB_LAYOUT_TEXT_BYTES - 1);
    const char *cursor = text;
    planes[0].start = 1;
    for (int32_t plane = 0;;) {
        while (*cursor == ' ' || *cursor == '\t' || *cursor == '\n' || *cursor == '\r')
            cursor++;
        bool bar = *cursor == '|';
        if (bar || !*cursor) {
            nib_status status = check_plane(&planes[plane++]);
            if (status)
                return status;
            layout.planes = plane;
            if (!bar)
                break;
            if (plane == NIB_LAYOUT_PLANES)
                return nib_fail(NIB_INVALID, "column %d: a layout has at most %d planes",
                                (int)(cursor - text) + 1, NIB_LAYOUT_PLANES);
            planes[plane].start = (int)(++cursor - text) + 1;
            continue;
        }
        nib_field field;
        bool found;
        nib_status status = nib_field_next(text, &cursor, &field, &found);
        if (!status)
            status = parse_field(&field, &planes[plane]);
        if (status)
            return status;
    }
    nib_status status = check_cover(planes, &layout);
    if (status)
        return status;
    for (int32_t i = 0; i < layout.planes; i++)
        layout.plane[i] = planes[i].plane;
    *out = layout;
    return NIB_OK;
}

static void print_addr(const nib_plane *p, nib_text *text)
{
    for (int32_t i = 0; i < p->n_bits + p->k_bits; i++) {
        nib_text_add(text, i ? "," : " addr=");
        const char *joint = "";
        for (int32_t j = 0; j < 32; j++) {
            if (!(p->addr[i] >> j & 1))
                continue;
            nib_text_add(text, "%s%c%d", joint, j < 16 ? 'n' : 'k', j % 16);
            joint = "^";
        }
    }
}

nib_status nib_layout_text(const nib_layout *layout, char *out, size_t capacity, size_t *needed)
{
    nib_text text = nib_text_into(out, capacity);
    for (int32_t i = 0; i < layout->planes; i++) {
        const nib_plane *p = &layout->plane[i];
        nib_text_add(&text, "%sbits=%d tile=n%d,k%d", i ? " | " : "", p->bits, 1 << p->n_bits,
                     1 << p->k_bits);
        print_addr(p, &text);
        nib_text_add(&text, " order=%s", p->order == NIB_TILES_KN ? "kn" : "nk");
        if (p->cell != p->bits)
            nib_text_add(&text, " cell=%d", p->cell);
        if (p->shift)
            nib_text_add(&text, " shift=%d", p->shift);
        if (p->pitch != nib_plane_tile_bytes(p))
            nib_text_add(&text, " pitch=%zu", p->pitch);
        if (p->offset)
            nib_text_add(&text, " offset=%zu", p->offset);
        if (p->cut)
            nib_text_add(&text, " edge=cut");
        if (p->woven)
            nib_text_add(&text, " weave=words");
    }
    nib_text_end(&text, needed);
    return NIB_OK;
}
