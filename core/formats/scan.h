/* SPDX-License-Identifier: Apache-2.0
 *
 * Scanning of the text headers of safetensors (JSON) and npy (a Python literal), in place. A reader
 * limited to the header walks the text without a tree in between: no recursion, memory only for
 * strings that are kept, whole 64-bit numbers, and the byte of every complaint. (A JSON library
 * would know none of the places, and take many times the header in memory.)
 */
#ifndef NIB_FORMATS_SCAN_H
#define NIB_FORMATS_SCAN_H

#include "formats/file.h"

/* The next character after blanks, -1 at the end. */
int nib_scan_peek(nib_reader *reader);
/* Steps over blanks and `c`, if that comes next. */
bool nib_scan_accept(nib_reader *reader, char c);
nib_status nib_scan_expect(nib_reader *reader, const char *field, char c);
/* "expected <what>" with the place and what stands there. */
nib_status nib_scan_complain(nib_reader *reader, const char *field, const char *what);
/* Digits, at most 2^63 - 1. */
nib_status nib_scan_int(nib_reader *reader, const char *field, int64_t *out);
/* A JSON string without its escapes, in memory of the file, a NUL behind it. */
nib_status nib_scan_json_string(nib_file *file, nib_reader *reader, const char *field,
                                nib_span *out);

#endif
