/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded text and field scanning: see text.h.
 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nib_text nib_text_into(char *out, size_t capacity)
{
    if (out && capacity)
        out[0] = '\0';
    return (nib_text){.out = out, .capacity = out ? capacity : 0, .length = 0};
}

void nib_text_add(nib_text *text, const char *format, ...)
{
    size_t room = text->length < text->capacity ? text->capacity - text->length : 0;
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(room ? text->out + text->length : NULL, room, format, args);
    va_end(args);
    if (wrote > 0)
        text->length += (size_t)wrote;
}

void nib_text_end(const nib_text *text, size_t *needed)
{
    if (needed)
        *needed = text->length + 1;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Copies a run without blanks and '='. The answer is its length, or 0 if it does not fit. */
static size_t take_run(const char *from, char *to, size_t capacity)
{
    size_t length = 0;
    while (from[length] && !blank(from[length]) && from[length] != '=')
        length++;
    if (length == 0 || length >= capacity)
        return 0;
    memcpy(to, from, length);
    to[length] = '\0';
    return length;
}

nib_status nib_field_next(const char *start, const char **cursor, nib_field *field, bool *found)
{
    const char *at = *cursor;
    while (blank(*at))
        at++;
    *found = *at != '\0';
    if (!*found) {
        *cursor = at;
        return NIB_OK;
    }
    field->column = (int)(at - start) + 1;
    size_t key = take_run(at, field->key, sizeof(field->key));
    if (key == 0 || at[key] != '=')
        return nib_fail(NIB_INVALID, "column %d: expected key=value", field->column);
    at += key + 1;
    size_t value = take_run(at, field->value, sizeof(field->value));
    if (value == 0 || at[value] == '=')
        return nib_fail(NIB_INVALID, "column %d: key '%s' has no usable value", field->column,
                        field->key);
    *cursor = at + value;
    return NIB_OK;
}

bool nib_parse_int(const char *text, int64_t *out)
{
    if (!isdigit((unsigned char)text[0]) && !(text[0] == '-' && isdigit((unsigned char)text[1])))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *out = value;
    return true;
}
