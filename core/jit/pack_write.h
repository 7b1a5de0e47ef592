/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing packs, image by image, into a temporary file beside the path: what stands there stays
 * until the end. One thread at a time.
 */
#ifndef NIB_JIT_PACK_WRITE_H
#define NIB_JIT_PACK_WRITE_H

#include "jit/blob.h"
#include "jit/pack.h"

typedef struct nib_pack_writer nib_pack_writer;

nib_status nib_pack_writer_create(const char *path, const char *backend, nib_pack_writer **out);

/* Adds what a checked request got. NIB_INVALID: its key stands in the pack already, or it is of
 * another backend. After another failure only discarding is left. */
nib_status nib_pack_writer_add(nib_pack_writer *writer, const nib_image_request *request,
                               const nib_key *key, const nib_blob *blob);

/* Ends the file and renames it; `bytes` (may be NULL) receives its size. Either way the writer is
 * gone. */
nib_status nib_pack_writer_finish(nib_pack_writer *writer, uint64_t *bytes);
void nib_pack_writer_discard(nib_pack_writer *writer);

#endif
