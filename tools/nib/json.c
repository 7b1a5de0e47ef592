/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, written as it comes, to whatever stream a verb gives.
 */
#include "tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void quoted(FILE *out, const char *text, size_t bytes)
{
    fputc('"', out);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void lead(tool_json *json, const char *key)
{
    if (!json->first)
        fputc(',', json->out);
    if (json->depth)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    json->first = false;
    if (key) {
        quoted(json->out, key, strlen(key));
        fputs(": ", json->out);
    }
}

void tool_json_begin(tool_json *json, const char *key, char bracket)
{
    if (!json->depth)
        json->first = true;
    lead(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->first = true;
}

void tool_json_end(tool_json *json, char bracket)
{
    json->depth--;
    if (!json->first)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->out);
    json->first = false;
    if (!json->depth)
        fputc('\n', json->out);
}

/* Length of a well-formed UTF-8 sequence at `text`, 0 if it is none. */
static size_t utf8_length(const unsigned char *text, size_t bytes)
{
    size_t length = text[0] < 0x80   ? 1
                    : text[0] < 0xc2 ? 0
                    : text[0] < 0xe0 ? 2
                    : text[0] < 0xf0 ? 3
                    : text[0] < 0xf5 ? 4
                                     : 0;
    if (length > bytes)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

void tool_json_text_n(tool_json *json, const char *key, const char *text, size_t bytes)
{
    /* JSON is UTF-8: a string that is not becomes an array of its bytes, which loses nothing. */
    for (size_t i = 0, length; i < bytes; i += length) {
        length = utf8_length((const unsigned char *)text + i, bytes - i);
        if (length)
            continue;
        tool_json_begin(json, key, '[');
        for (size_t j = 0; j < bytes; j++)
            tool_json_int(json, NULL, (unsigned char)text[j]);
        tool_json_end(json, ']');
        return;
    }
    lead(json, key);
    quoted(json->out, text, bytes);
}

void tool_json_text(tool_json *json, const char *key, const char *text)
{
    tool_json_text_n(json, key, text, strlen(text));
}

void tool_json_int(tool_json *json, const char *key, int64_t value)
{
    lead(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void tool_json_real(tool_json *json, const char *key, double value)
{
    lead(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.9g", value);
    else
        fputs("null", json->out);
}

void tool_json_bool(tool_json *json, const char *key, bool value)
{
    lead(json, key);
    fputs(value ? "true" : "false", json->out);
}
