/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry of the cache: a folder with the spec, the sources, the command, the compiler's log, the
 * image and a manifest. Written whole into a temporary folder, read with every byte checked.
 */
#ifndef NIB_JIT_ENTRY_H
#define NIB_JIT_ENTRY_H

#include "jit/manifest.h"

/* Names in the folder. Sources lie in a folder of their own, so that none can be called like these;
 * the image is "image." and its format. */
#define NIB_ENTRY_MANIFEST "manifest"
#define NIB_ENTRY_SPEC     "nib_spec.h"
#define NIB_ENTRY_SOURCES  "source"
#define NIB_ENTRY_COMMAND  "command"
#define NIB_ENTRY_LOG      "log"

/* No file of an entry may have more bytes. */
#define NIB_ENTRY_MOST_BYTES ((size_t)1 << 30)

typedef struct nib_entry {
    nib_manifest manifest;
    char *spec, *command, *log;
    nib_image_file *files; /* as many as the manifest says, texts owned */
    void *image;
} nib_entry;

/* Reads and checks an entry. NIB_MISSING: there is none; NIB_CORRUPT: what is there is not the
 * entry of this key, with the reason. */
nib_status nib_entry_read(const char *folder, const nib_key *key, nib_entry *out);
/* Its manifest alone. */
nib_status nib_entry_read_manifest(const char *folder, nib_manifest *out);
void nib_entry_free(nib_entry *entry);

/* Whether the compiler that made an entry is the one there now. */
bool nib_entry_is_current(const nib_manifest *manifest, const char *compiler_path);

/* Creates the folder and writes all its files. NIB_MISSING: something could not be written; what is
 * there is left for the caller to remove. */
nib_status nib_entry_write(const char *folder, const nib_image_request *request, const nib_key *key,
                           const nib_image_build *build);

#endif
