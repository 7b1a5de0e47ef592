/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes .nib files: whatever the bytes, opening and reading them neither crashes nor reads too
 * far. The checksums of header and directory are made right first where there is a place for them,
 * for else no change would get past them; every other input is left as it is. Seeds: corpus/nib.
 */
#include "formats/nib.h"
#include "../support/walk.h"
#include "base/hash.h"

static void store(unsigned char *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

/* The directory's extent too: an insertion or deletion would spoil both for certain. */
static void seal(unsigned char *h, size_t bytes)
{
    uint64_t at = nib_load_u64(h + NIB_FILE_AT_DIRECTORY);
    store(h + NIB_FILE_AT_FILE_BYTES, bytes);
    if (at <= bytes) {
        store(h + NIB_FILE_AT_DIRECTORY_BYTES, bytes - at);
        store(h + NIB_FILE_AT_DIRECTORY_HASH, nib_hash(h + at, (size_t)(bytes - at)));
    }
    store(h + NIB_FILE_AT_HEADER_HASH, nib_hash(h, NIB_FILE_AT_HEADER_HASH));
}

/* Checksums of sections of a file that opens are made right as well, so that values are read. */
static void seal_sections(unsigned char *copy, const nib_file *file, size_t bytes)
{
    uint64_t at = nib_load_u64(copy + NIB_FILE_AT_DIRECTORY);
    for (size_t i = (size_t)at; i + 24 <= bytes; i++) {
        uint64_t offset = nib_load_u64(copy + i), extent = nib_load_u64(copy + i + 8);
        if (offset % NIB_FILE_ALIGN == 0 && offset >= NIB_FILE_HEADER_BYTES && offset <= at &&
            extent <= at - offset && extent)
            store(copy + i + 16, nib_hash(file->data + offset, (size_t)extent));
    }
    seal(copy, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    nib_file *file;
    unsigned char *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    if (bytes >= NIB_FILE_HEADER_BYTES)
        seal(copy, bytes);
    if (nib_file_open_memory(copy, bytes, &file) == NIB_OK) {
        if (file->format == &nib_format_nib) /* others open too, and may be shorter */
            seal_sections(copy, file, bytes);
        nib_file_close(file);
    }
    test_walk(copy, bytes);
    free(copy);
    return 0;
}
