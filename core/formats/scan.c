/* SPDX-License-Identifier: Apache-2.0
 *
 * Scanning of text headers: see scan.h.
 */
#include "formats/scan.h"

int nib_scan_peek(nib_reader *reader)
{
    while (reader->at < reader->bytes && strchr(" \t\r\n", reader->data[reader->at]) &&
           reader->data[reader->at])
        reader->at++;
    return reader->at < reader->bytes ? reader->data[reader->at] : -1;
}

bool nib_scan_accept(nib_reader *reader, char c)
{
    bool found = nib_scan_peek(reader) == (unsigned char)c;
    reader->at += found;
    return found;
}

nib_status nib_scan_complain(nib_reader *reader, const char *field, const char *what)
{
    int c = nib_scan_peek(reader);
    if (c < 0)
        return nib_fail(NIB_CORRUPT, "%s: %s at byte %zu: expected %s, but the header ends here",
                        reader->format, field, reader->at, what);
    if (c <= ' ' || c > '~')
        return nib_fail(NIB_CORRUPT, "%s: %s at byte %zu: expected %s, not the character 0x%02x",
                        reader->format, field, reader->at, what, (unsigned)c);
    return nib_fail(NIB_CORRUPT, "%s: %s at byte %zu: expected %s, not '%c'", reader->format, field,
                    reader->at, what, c);
}

nib_status nib_scan_expect(nib_reader *reader, const char *field, char c)
{
    char what[] = {'\'', c, '\'', '\0'};
    return nib_scan_accept(reader, c) ? NIB_OK : nib_scan_complain(reader, field, what);
}

nib_status nib_scan_int(nib_reader *reader, const char *field, int64_t *out)
{
    int64_t value = 0;
    int c = nib_scan_peek(reader);
    size_t start = reader->at;
    if (c < '0' || c > '9')
        return nib_scan_complain(reader, field, "a whole number");
    while (reader->at < reader->bytes) {
        int digit = reader->data[reader->at] - '0';
        if (digit < 0 || digit > 9)
            break;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return nib_fail(NIB_CORRUPT, "%s: %s at byte %zu is above 2^63 - 1", reader->format,
                            field, start);
        reader->at++;
    }
    *out = value;
    return NIB_OK;
}

static bool hex_digit(int c, uint32_t *out)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    if (at)
        *out = (uint32_t)(at - digits);
    return at != NULL;
}

/* Four digits behind \u. False when there are none. */
static bool take_hex(nib_reader *reader, uint32_t *out)
{
    uint32_t value = 0, digit = 0;
    if (reader->bytes - reader->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        if (!hex_digit(reader->data[reader->at + i], &digit))
            return false;
        value = value << 4 | digit;
    }
    reader->at += 4;
    *out = value;
    return true;
}

static size_t put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(lead[more] | point >> 6 * more);
    for (int i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (point >> 6 * (more - i) & 0x3f));
    return (size_t)more + 1;
}

/* An escape, its backslash taken. Writes no more bytes than it has characters. */
static bool take_escape(nib_reader *reader, char *to, size_t *length)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t point = 0, low = 0;
    if (reader->at >= reader->bytes)
        return false;
    char c = (char)reader->data[reader->at++];
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        to[(*length)++] = values[name - names];
        return true;
    }
    if (c != 'u' || !take_hex(reader, &point))
        return false;
    if (point >= 0xdc00 && point < 0xe000)
        return false;
    if (point >= 0xd800 && point < 0xdc00) {
        if (reader->bytes - reader->at < 6 || memcmp(reader->data + reader->at, "\\u", 2))
            return false;
        reader->at += 2;
        if (!take_hex(reader, &low) || low < 0xdc00 || low >= 0xe000)
            return false;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    *length += put_utf8(to + *length, point);
    return true;
}

/* Bytes up to the closing quote, or to the end. */
static size_t string_extent(const nib_reader *reader)
{
    size_t at = reader->at;
    while (at < reader->bytes && reader->data[at] != '"')
        at += reader->data[at] == '\\' ? 2 : 1;
    return at - reader->at;
}

nib_status nib_scan_json_string(nib_file *file, nib_reader *reader, const char *field,
                                nib_span *out)
{
    void *memory = NULL;
    size_t length = 0, start;
    nib_status status = nib_scan_expect(reader, field, '"');
    if (!status)
        status = nib_file_alloc(file, string_extent(reader) + 1, &memory);
    if (status)
        return status;
    start = reader->at;
    char *text = memory;
    while (reader->at < reader->bytes && reader->data[reader->at] != '"') {
        unsigned char c = reader->data[reader->at++];
        if (c < ' ' || (c == '\\' && !take_escape(reader, text, &length)))
            return nib_fail(NIB_CORRUPT, "%s: %s at byte %zu holds a bad %s at byte %zu",
                            reader->format, field, start,
                            c == '\\' ? "escape" : "control character", reader->at - 1);
        if (c != '\\')
            text[length++] = (char)c;
    }
    if (reader->at == reader->bytes)
        return nib_scan_complain(reader, field, "a closing quote");
    reader->at++;
    *out = (nib_span){text, length};
    return NIB_OK;
}
