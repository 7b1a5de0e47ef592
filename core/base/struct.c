/* SPDX-License-Identifier: Apache-2.0
 *
 * Versioned structs: see struct.h.
 */
#include "base/struct.h"

#include <string.h>

/* No version of a public struct comes near this. A larger size is memory that was never set, and
 * reading that far could leave the caller's. */
enum { MOST_BYTES = 4096 };

static nib_status size_of(const void *caller, size_t least, const char *name, size_t *out)
{
    if (!caller)
        return nib_fail(NIB_INVALID, "%s is NULL", name);
    uint32_t size;
    memcpy(&size, caller, sizeof(size));
    if (size < least || size < sizeof(size) || size > MOST_BYTES)
        return nib_fail(NIB_INVALID, "%s.size is %u: set it to sizeof(%s), which is at least %zu",
                        name, size, name, least);
    *out = size;
    return NIB_OK;
}

nib_status nib_struct_read(void *to, size_t bytes, const void *from, size_t least, const char *name)
{
    size_t size = 0;
    nib_status status = size_of(from, least, name, &size);
    if (status)
        return status;
    const unsigned char *source = from;
    for (size_t i = bytes; i < size; i++)
        if (source[i])
            return nib_fail(
                NIB_UNSUPPORTED,
                "%s uses a field at byte %zu that nibblas %s does not know: a newer header "
                "was compiled in",
                name, i, nib_version());
    size_t common = size < bytes ? size : bytes;
    memmove(to, from, common);
    memset((unsigned char *)to + common, 0, bytes - common);
    uint32_t own = (uint32_t)bytes;
    memcpy(to, &own, sizeof(own));
    return NIB_OK;
}

nib_status nib_struct_write(void *to, const void *from, size_t bytes, size_t least,
                            const char *name)
{
    size_t size = 0;
    nib_status status = size_of(to, least, name, &size);
    if (status)
        return status;
    size_t common = size < bytes ? size : bytes;
    for (size_t i = sizeof(uint32_t); i < common; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    if (size > bytes)
        memset((unsigned char *)to + bytes, 0, size - bytes);
    return NIB_OK;
}
