/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 from libxxhash: see hash.h.
 */
#include "base/hash.h"

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
