/* SPDX-License-Identifier: Apache-2.0
 *
 * Identities of images and the checks of requests: see key.h.
 */
#include "jit/key.h"

#include "base/hash.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 200, MAX_WORD = 31, MAX_LINE = 2000, MAX_FILES = 256 };

/* Begins every identity. Another number makes all stored images strangers: for a change of what
 * they depend on. */
#define GENERATION "nibblas image 1"

static bool word_fits(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    return length >= 1 && length <= MAX_WORD && text[0] != '.' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+") ==
               length;
}

static bool line_fits(const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return false;
    return length <= MAX_LINE;
}

bool nib_file_name_fits(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > MAX_NAME || !line_fits(name))
        return false;
    for (const char *at = name;; at++) {
        size_t part = strcspn(at, "/");
        if (part == 0 || at[0] == '.')
            return false;
        at += part;
        if (!*at)
            return true;
    }
}

nib_status nib_request_check(const nib_image_request *request, nib_image_request *out)
{
    if (!request || request->size < sizeof(*request))
        return nib_fail(NIB_INVALID, "an image request has %u bytes, expected %zu",
                        request ? request->size : 0, sizeof(*request));
    nib_image_request r = *request;
    r.size = sizeof(r);
    r.label = r.label ? r.label : "";
    r.spec = r.spec ? r.spec : "";
    r.flags = r.flags ? r.flags : "";
    if (!word_fits(r.backend) || !word_fits(r.isa) || !word_fits(r.format))
        return nib_fail(NIB_INVALID,
                        "an image's backend, isa or format is not 1 to %d letters, digits and "
                        "\"_.-+\": '%s', '%s', '%s'",
                        MAX_WORD, r.backend ? r.backend : "", r.isa ? r.isa : "",
                        r.format ? r.format : "");
    if (!line_fits(r.label) || !line_fits(r.flags) ||
        (r.compiler_path && !line_fits(r.compiler_path)))
        return nib_fail(NIB_INVALID,
                        "label, flags or compiler path of an image have a control character or "
                        "more than %d bytes",
                        MAX_LINE);
    if (r.file_count < 1 || r.file_count > MAX_FILES || !r.files)
        return nib_fail(NIB_INVALID, "an image has %u source files, expected 1 to %d", r.file_count,
                        MAX_FILES);
    for (uint32_t i = 0; i < r.file_count; i++) {
        if (!nib_file_name_fits(r.files[i].name) || !r.files[i].text)
            return nib_fail(NIB_INVALID,
                            "source file %u of an image, '%s', has no text, or a name that is not "
                            "relative, of plain components, of at most %d bytes",
                            i, r.files[i].name ? r.files[i].name : "", MAX_NAME);
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(r.files[i].name, r.files[j].name))
                return nib_fail(NIB_INVALID, "an image has two source files '%s'", r.files[i].name);
    }
    *out = r;
    return NIB_OK;
}

nib_status nib_key_of(const nib_image_request *r, nib_key *out)
{
    size_t count = 6 + 2 * (size_t)r->file_count, at = 0;
    const char **texts = malloc(count * sizeof(*texts));
    if (!texts)
        return nib_fail(NIB_NO_MEMORY, "no memory for an image's identity");
    texts[at++] = GENERATION;
    texts[at++] = r->backend;
    texts[at++] = r->isa;
    texts[at++] = r->format;
    texts[at++] = r->flags;
    texts[at++] = r->spec;
    for (uint32_t i = 0; i < r->file_count; i++) {
        texts[at++] = r->files[i].name;
        texts[at++] = r->files[i].text;
    }
    bool done = nib_hash_texts(texts, count, out->bytes);
    free(texts);
    return done ? NIB_OK : nib_fail(NIB_NO_MEMORY, "no memory for an image's identity");
}

void nib_key_print(const nib_key *key, char out[NIB_KEY_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < NIB_KEY_BYTES; i++) {
        out[2 * i] = digits[key->bytes[i] >> 4];
        out[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    out[2 * NIB_KEY_BYTES] = '\0';
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool nib_key_parse(const char *text, nib_key *out)
{
    nib_key key;
    for (int i = 0; i < NIB_KEY_BYTES; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        key.bytes[i] = (unsigned char)(high << 4 | low);
    }
    if (text[2 * NIB_KEY_BYTES])
        return false;
    *out = key;
    return true;
}

bool nib_key_equal(const nib_key *a, const nib_key *b)
{
    return !memcmp(a->bytes, b->bytes, NIB_KEY_BYTES);
}
