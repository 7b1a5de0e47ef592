/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding packs: see packs.h.
 */
#include "jit/packs.h"

#include "base/status.h"

nib_status nib_packs_find(const char *backend, const nib_key *key, nib_blob **out)
{
    (void)key, (void)out;
    return nib_fail(NIB_MISSING, "no pack of backend '%s'", backend);
}
