/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing and parsing manifests: see manifest.h.
 */
#include "jit/manifest.h"

#include "base/hash.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "nibblas kernel 1"

enum { MAX_FILES = 256 };

static void print(const nib_manifest *m, nib_text *text)
{
    char key[NIB_KEY_TEXT_BYTES];
    nib_key_print(&m->key, key);
    nib_text_add(text, "%s\nkey %s\nbackend %s\nisa %s\nformat %s\nlabel %s\nflags %s\n", HEAD, key,
                 m->backend, m->isa, m->format, m->label, m->flags);
    nib_text_add(text, "compiler %s\ncompiler_path %s\n", m->compiler, m->compiler_path);
    nib_text_add(text, "compiler_bytes %" PRIu64 "\ncompiler_mtime_ns %" PRId64 "\n",
                 m->compiler_bytes, m->compiler_mtime_ns);
    nib_text_add(text, "date %" PRId64 "\nspec %" PRIu64 "\nfiles %u\n", m->date, m->spec_bytes,
                 m->file_count);
    for (uint32_t i = 0; i < m->file_count; i++)
        nib_text_add(text, "file %" PRIu64 " %s\n", m->files[i].bytes, m->files[i].name);
    nib_text_add(text, "command %" PRIu64 " %016" PRIx64 "\n", m->command.bytes, m->command.hash);
    nib_text_add(text, "log %" PRIu64 " %016" PRIx64 "\n", m->log.bytes, m->log.hash);
    nib_text_add(text, "image %" PRIu64 " %016" PRIx64 "\n", m->image.bytes, m->image.hash);
}

#define END_LINE_BYTES 21 /* "end ", 16 digits, a newline */

char *nib_manifest_print(const nib_manifest *manifest)
{
    nib_text count = nib_text_into(NULL, 0);
    print(manifest, &count);
    size_t bytes = count.length + END_LINE_BYTES + 1;
    char *out = malloc(bytes);
    if (!out)
        return NULL;
    nib_text text = nib_text_into(out, bytes);
    print(manifest, &text);
    uint64_t hash = nib_hash(out, text.length);
    nib_text_add(&text, "end %016" PRIx64 "\n", hash);
    return out;
}

/* Where parsing stands. */
typedef struct reader {
    char *at;
    int line;
    const char *wrong; /* the name of the first line that was not as expected */
} reader;

/* The value of the next line, which must have this name; "" after a failure. */
static char *take(reader *in, const char *name)
{
    static char nothing[1];
    size_t length = strlen(name);
    char *end = in->wrong ? NULL : strchr(in->at, '\n');
    in->line += !in->wrong;
    if (!end || strncmp(in->at, name, length) || in->at[length] != ' ') {
        in->wrong = in->wrong ? in->wrong : name;
        return nothing;
    }
    char *value = in->at + length + 1;
    *end = '\0';
    in->at = end + 1;
    return value;
}

static uint64_t number(reader *in, const char *name, char *value, int base, char end)
{
    char *stop = value;
    bool digits =
        (*value >= '0' && *value <= '9') || (base == 16 && *value >= 'a' && *value <= 'f');
    uint64_t result = digits ? strtoull(value, &stop, base) : 0;
    if (!digits || *stop != end)
        in->wrong = in->wrong ? in->wrong : name;
    return result;
}

static int64_t take_signed(reader *in, const char *name)
{
    int64_t result = 0;
    if (!nib_parse_int(take(in, name), &result))
        in->wrong = in->wrong ? in->wrong : name;
    return result;
}

static uint64_t take_count(reader *in, const char *name)
{
    return number(in, name, take(in, name), 10, '\0');
}

static nib_stored take_stored(reader *in, const char *name)
{
    char *value = take(in, name), *space = strchr(value, ' ');
    nib_stored stored = {number(in, name, value, 10, ' '), 0};
    if (space)
        stored.hash = number(in, name, space + 1, 16, '\0');
    return stored;
}

static void take_file(reader *in, nib_manifest_file *file)
{
    char *value = take(in, "file"), *space = strchr(value, ' ');
    file->bytes = number(in, "file", value, 10, ' ');
    file->name = space ? space + 1 : "";
    if (!nib_file_name_fits(file->name))
        in->wrong = in->wrong ? in->wrong : "file";
}

static nib_status parse_lines(reader *in, nib_manifest *m)
{
    if (!nib_key_parse(take(in, "key"), &m->key))
        in->wrong = in->wrong ? in->wrong : "key";
    m->backend = take(in, "backend");
    m->isa = take(in, "isa");
    m->format = take(in, "format");
    m->label = take(in, "label");
    m->flags = take(in, "flags");
    m->compiler = take(in, "compiler");
    m->compiler_path = take(in, "compiler_path");
    m->compiler_bytes = take_count(in, "compiler_bytes");
    m->compiler_mtime_ns = take_signed(in, "compiler_mtime_ns");
    m->date = take_signed(in, "date");
    m->spec_bytes = take_count(in, "spec");
    uint64_t files = take_count(in, "files");
    if (files < 1 || files > MAX_FILES)
        in->wrong = in->wrong ? in->wrong : "files";
    if (in->wrong)
        return NIB_CORRUPT;
    m->files = calloc(files, sizeof(*m->files));
    if (!m->files)
        return nib_fail(NIB_NO_MEMORY, "no memory for a manifest");
    m->file_count = (uint32_t)files;
    for (uint32_t i = 0; i < m->file_count; i++)
        take_file(in, &m->files[i]);
    m->command = take_stored(in, "command");
    m->log = take_stored(in, "log");
    m->image = take_stored(in, "image");
    if (!in->wrong && *in->at)
        in->wrong = "end";
    return in->wrong ? NIB_CORRUPT : NIB_OK;
}

/* Takes the last line off when it holds the hash of those before. */
static bool take_seal(char *text, size_t bytes)
{
    char line[END_LINE_BYTES + 1];
    if (bytes < END_LINE_BYTES || strlen(text) != bytes)
        return false;
    size_t body = bytes - END_LINE_BYTES;
    snprintf(line, sizeof(line), "end %016" PRIx64 "\n", nib_hash(text, body));
    if (strcmp(text + body, line))
        return false;
    text[body] = '\0';
    return true;
}

nib_status nib_manifest_parse(char *text, size_t bytes, nib_manifest *out)
{
    nib_manifest m = {.text = text};
    reader in = {.at = text + sizeof(HEAD), .line = 1};
    nib_status status = NIB_OK;
    if (!take_seal(text, bytes))
        status = nib_fail(NIB_CORRUPT, "its manifest is cut short or changed");
    else if (strncmp(text, HEAD "\n", sizeof(HEAD)))
        status = nib_fail(NIB_CORRUPT, "its manifest does not begin with '%s'", HEAD);
    if (!status)
        status = parse_lines(&in, &m);
    if (in.wrong)
        nib_fail(status, "line %d of its manifest is not as '%s' should be", in.line, in.wrong);
    if (status)
        nib_manifest_free(&m);
    else
        *out = m;
    return status;
}

void nib_manifest_free(nib_manifest *manifest)
{
    free(manifest->text);
    free(manifest->files);
    *manifest = (nib_manifest){0};
}
