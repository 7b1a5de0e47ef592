/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes packs of kernels: whatever the bytes, opening and reading them neither crashes nor reads
 * too far. The hashes of header and index are made right first where there is a place for them, for
 * else no change would get past them. Seeds: corpus/pack.
 */
#include "jit/pack.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static void store(unsigned char *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

/* The index's extent too: an insertion or deletion would spoil both for certain. */
static void seal(unsigned char *h, size_t bytes)
{
    uint64_t at;
    memcpy(&at, h + NIB_PACK_AT_INDEX, sizeof(at));
    store(h + NIB_PACK_AT_FILE_BYTES, bytes);
    if (at <= bytes) {
        store(h + NIB_PACK_AT_INDEX_BYTES, bytes - at);
        store(h + NIB_PACK_AT_INDEX_HASH, nib_hash(h + at, (size_t)(bytes - at)));
    }
    store(h + NIB_PACK_AT_HEADER_HASH, nib_hash(h, NIB_PACK_AT_HEADER_HASH));
}

static void read_section(const nib_pack *pack, const nib_pack_section *section)
{
    void *data;
    if (section->bytes > 1 << 20) /* a fuzzer is to stay quick */
        return;
    if (!nib_pack_read(pack, section, "section", &data))
        free(data);
}

static void walk(const nib_pack *pack)
{
    for (uint32_t i = 0; i < pack->text_count; i++)
        read_section(pack, &pack->texts[i].section);
    for (uint32_t i = 0; i < pack->image_count; i++) {
        const nib_pack_image *image = &pack->images[i];
        if (nib_pack_find(pack, &image->key) != image)
            abort();
        for (uint32_t f = 0; f < image->file_count; f++)
            if (pack->files[image->first_file + f] >= pack->text_count)
                abort();
        read_section(pack, &image->spec);
        read_section(pack, &image->log);
        read_section(pack, &image->image);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    nib_pack *pack;
    unsigned char *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    if (bytes >= NIB_PACK_HEADER_BYTES)
        seal(copy, bytes);
    if (!nib_pack_open_memory("input", copy, bytes, &pack)) {
        walk(pack);
        nib_pack_close(pack);
    }
    free(copy);
    return 0;
}
