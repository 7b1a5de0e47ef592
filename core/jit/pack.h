/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs: files of images compiled ahead of time, for one backend. An index of keys stands at the
 * end; images, specs, sources and logs are zstd frames before it. docs/kernels.md has the bytes.
 * A pack is mapped, and its index checked whole when it is opened; a section when it is read.
 */
#ifndef NIB_JIT_PACK_H
#define NIB_JIT_PACK_H

#include "base/file.h"
#include "jit/key.h"

#define NIB_PACK_MAGIC "\x89NBP\r\n\x1a\n"
enum {
    NIB_PACK_VERSION = 1,
    NIB_PACK_HEADER_BYTES = 80,
    NIB_PACK_AT_VERSION = 8,
    NIB_PACK_AT_HEADER_BYTES = 12,
    NIB_PACK_AT_FILE_BYTES = 16,
    NIB_PACK_AT_INDEX = 24,
    NIB_PACK_AT_INDEX_BYTES = 32,
    NIB_PACK_AT_INDEX_HASH = 40,
    NIB_PACK_AT_BACKEND = 48, /* 16 bytes, NULs behind the name */
    NIB_PACK_AT_RESERVED = 64,
    NIB_PACK_AT_HEADER_HASH = 72,
    NIB_PACK_BACKEND_BYTES = 16,
    /* A frame of a few bytes may stand for any number: no section may unpack to more. */
    NIB_PACK_SECTION_MOST = 1 << 26
};

typedef struct nib_pack_section {
    uint64_t offset, stored, bytes; /* in the file, packed, unpacked */
    uint64_t hash;                  /* of the unpacked bytes */
} nib_pack_section;

/* A source file, which many images share. */
typedef struct nib_pack_text {
    const char *name;
    nib_pack_section section;
} nib_pack_text;

typedef struct nib_pack_image {
    nib_key key;
    const char *isa, *format, *label, *flags, *compiler;
    int64_t date; /* seconds since 1970 */
    nib_pack_section spec, log, image;
    uint32_t file_count, first_file; /* in nib_pack.files */
} nib_pack_image;

typedef struct nib_pack {
    char *path;
    nib_mapping map;
    bool owns_map;
    char backend[NIB_PACK_BACKEND_BYTES + 1];
    nib_pack_text *texts;
    nib_pack_image *images; /* ascending by key */
    uint32_t *files;        /* indices into texts, those of an image together */
    uint32_t text_count, image_count, file_total;
} nib_pack;

/* Maps and checks. NIB_MISSING: it cannot be opened. NIB_CORRUPT names field and offset.
 * NIB_UNSUPPORTED: a version this library does not know. */
nib_status nib_pack_open(const char *path, nib_pack **out);
/* The same for bytes that outlive the pack; `path` is for messages. */
nib_status nib_pack_open_memory(const char *path, const void *data, size_t bytes, nib_pack **out);
void nib_pack_close(nib_pack *pack);

/* Reads no more than the header. */
nib_status nib_pack_backend(const char *path, char backend[NIB_PACK_BACKEND_BYTES + 1]);

/* NULL: not in it. */
const nib_pack_image *nib_pack_find(const nib_pack *pack, const nib_key *key);

/* Unpacks a section and checks it: from aligned_alloc(16), with a NUL behind. */
nib_status nib_pack_read(const nib_pack *pack, const nib_pack_section *section, const char *what,
                         void **out);

#endif
