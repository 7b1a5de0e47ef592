/* SPDX-License-Identifier: Apache-2.0
 *
 * Text into a caller's buffer, of which any part may be too small: it is always NUL-terminated, and
 * `needed` counts what the whole text takes. This is the shape of every printing function of the
 * public interface, so they share it. Also the scanner for "key=value key=value" lines.
 */
#ifndef NIB_BASE_TEXT_H
#define NIB_BASE_TEXT_H

#include "base/status.h"

#include <stdbool.h>

typedef struct nib_text {
    char *out; /* may be NULL when capacity is 0 */
    size_t capacity;
    size_t length; /* of the whole text, without its NUL */
} nib_text;

nib_text nib_text_into(char *out, size_t capacity);
void nib_text_add(nib_text *text, const char *format, ...) NIB_PRINTF(2, 3);
/* Stores length + 1 in needed when that is not NULL. */
void nib_text_end(const nib_text *text, size_t *needed);

/* One "key=value" of a line. Keys and values are runs of anything but blanks and '='. */
typedef struct nib_field {
    char key[32];
    char value[160];
    int column; /* of the key, from 1, for messages */
} nib_field;

/* Takes the next field. `found` is false at the end of the line. NIB_INVALID with the column when
 * what stands there is no field. `start` is the whole line, `cursor` moves through it. */
nib_status nib_field_next(const char *start, const char **cursor, nib_field *field, bool *found);

/* A whole decimal number. False if `text` is not one, or does not fit. */
bool nib_parse_int(const char *text, int64_t *out);

#endif
