/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 and the three character classes that pre-tokenizers speak of: \p{L}, \p{N} and \s.
 */
#ifndef LLAMA_UNICODE_H
#define LLAMA_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef struct llama_range {
    uint32_t first, last;
} llama_range;

extern const llama_range llama_unicode_letters[];
extern const size_t llama_unicode_letters_count;
extern const llama_range llama_unicode_numbers[];
extern const size_t llama_unicode_numbers_count;

typedef enum llama_class {
    LLAMA_OTHER = 0,
    LLAMA_LETTER = 1,
    LLAMA_NUMBER = 2,
    LLAMA_SPACE = 3
} llama_class;

#define LLAMA_BAD_CODE_POINT 0xfffdu

/* The code point at the start of text[0..bytes), bytes at least 1, and how many bytes it takes. A
 * byte that begins no valid sequence stands alone as LLAMA_BAD_CODE_POINT. */
uint32_t llama_utf8_decode(const char *text, size_t bytes, size_t *taken);

/* Writes a code point below 0x800, in one or two bytes; returns how many. */
size_t llama_utf8_encode_short(uint32_t code_point, char out[2]);

llama_class llama_unicode_class(uint32_t code_point);

#endif
