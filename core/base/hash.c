/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 from libxxhash: see hash.h.
 */
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint64_t nib_hash(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

uint64_t nib_hash_text(const char *text)
{
    return nib_hash(text, strlen(text));
}

struct nib_hasher {
    XXH3_state_t *state;
};

nib_hasher *nib_hasher_create(void)
{
    nib_hasher *hasher = malloc(sizeof(*hasher));
    if (!hasher)
        return NULL;
    hasher->state = XXH3_createState();
    if (!hasher->state) {
        free(hasher);
        return NULL;
    }
    nib_hasher_restart(hasher);
    return hasher;
}

void nib_hasher_destroy(nib_hasher *hasher)
{
    if (!hasher)
        return;
    XXH3_freeState(hasher->state);
    free(hasher);
}

void nib_hasher_restart(nib_hasher *hasher)
{
    XXH3_64bits_reset(hasher->state);
}

void nib_hasher_add(nib_hasher *hasher, const void *data, size_t bytes)
{
    if (bytes)
        XXH3_64bits_update(hasher->state, data, bytes);
}

uint64_t nib_hasher_value(const nib_hasher *hasher)
{
    return XXH3_64bits_digest(hasher->state);
}

bool nib_hash_texts(const char *const *texts, size_t count, unsigned char out[16])
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return false;
    XXH128_canonical_t canonical;
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < count; i++)
        XXH3_128bits_update(state, texts[i], strlen(texts[i]) + 1);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    memcpy(out, canonical.digest, 16);
    return true;
}
