/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 decoding that refuses overlong forms and surrogates, and class look-up by binary search.
 */
#include "unicode.h"

#include <stdbool.h>

/* White_Space=yes in PropList.txt, Unicode 14.0.0. */
static const llama_range spaces[] = {
    {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};

uint32_t llama_utf8_decode(const char *text, size_t bytes, size_t *taken)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    *taken = 1;
    if (length == 1)
        return s[0];
    if (length == 0 || s[0] > 0xf4 || length > bytes)
        return LLAMA_BAD_CODE_POINT;
    uint32_t value = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return LLAMA_BAD_CODE_POINT;
        value = value << 6 | (s[i] & 0x3fu);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return LLAMA_BAD_CODE_POINT;
    *taken = length;
    return value;
}

size_t llama_utf8_encode_short(uint32_t code_point, char out[2])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    out[0] = (char)(0xc0 | code_point >> 6);
    out[1] = (char)(0x80 | (code_point & 0x3f));
    return 2;
}

static bool within(const llama_range *ranges, size_t count, uint32_t code_point)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code_point > ranges[middle].last)
            low = middle + 1;
        else if (code_point < ranges[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

llama_class llama_unicode_class(uint32_t code_point)
{
    if (within(spaces, sizeof spaces / sizeof *spaces, code_point))
        return LLAMA_SPACE;
    if (within(llama_unicode_letters, llama_unicode_letters_count, code_point))
        return LLAMA_LETTER;
    if (within(llama_unicode_numbers, llama_unicode_numbers_count, code_point))
        return LLAMA_NUMBER;
    return LLAMA_OTHER;
}
