/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of specialisations: the constants of nib_spec.h, one a line.
 */
#include "variants/variants.h"

#include <inttypes.h>
#include <stdio.h>

void nib_cuda_spec_add(nib_cuda_spec *spec, const char *name, int64_t value)
{
    bool fits = spec->length < spec->capacity;
    int written =
        snprintf(fits ? spec->text + spec->length : NULL, fits ? spec->capacity - spec->length : 0,
                 "#define %s %" PRId64 "\n", name, value);
    spec->length += written > 0 ? (size_t)written : 0;
}
