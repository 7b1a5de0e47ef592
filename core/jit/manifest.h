/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest of a cache entry: a text of "name value" lines in a fixed order, the last of which
 * is a hash of those before. docs/kernels.md has an example.
 */
#ifndef NIB_JIT_MANIFEST_H
#define NIB_JIT_MANIFEST_H

#include "jit/key.h"

/* What the entry holds in one of its files. */
typedef struct nib_stored {
    uint64_t bytes, hash;
} nib_stored;

typedef struct nib_manifest_file {
    const char *name;
    uint64_t bytes;
} nib_manifest_file;

typedef struct nib_manifest {
    char *text; /* owned; the strings below lie in it, or, when it is NULL, elsewhere */
    nib_key key;
    const char *backend, *isa, *format, *label, *flags;
    const char *compiler;
    const char *compiler_path; /* "" when there was none */
    uint64_t compiler_bytes;   /* of its file when it compiled this */
    int64_t compiler_mtime_ns;
    int64_t date; /* seconds since 1970 */
    nib_stored command, log, image;
    uint64_t spec_bytes;
    nib_manifest_file *files; /* owned */
    uint32_t file_count;
} nib_manifest;

/* The text, from malloc. NULL: no memory. */
char *nib_manifest_print(const nib_manifest *manifest);

/* Parses a text from malloc or aligned_alloc, which belongs to the manifest from then on, also on
 * failure. NIB_CORRUPT names the line. */
nib_status nib_manifest_parse(char *text, size_t bytes, nib_manifest *out);
void nib_manifest_free(nib_manifest *manifest);

#endif
