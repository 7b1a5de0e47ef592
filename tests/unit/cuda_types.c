/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CUDA backend says again of types, since neither device code nor backends include core:
 * numbers in kernels/common/types.cuh, bits in variants/rules.c.
 */
#include "variants/rules.h"

#include <criterion/criterion.h>
#include <nibblas/nibblas.h>
#include <stdbool.h>
#include <stdio.h>

enum { MOST_TYPES = 256 };

/* Marks the types that the enumeration of types.cuh has, after comparing their numbers. */
static int read_device_types(bool there[MOST_TYPES])
{
    char line[256], name[32];
    int number, found = 0;
    FILE *file = fopen(NIB_SOURCE_DIR "/backends/cuda/kernels/common/types.cuh", "r");
    cr_assert(file);
    while (fgets(line, sizeof(line), file)) {
        nib_type type;
        if (sscanf(line, " NIB_%31[A-Z0-9] = %d", name, &number) != 2)
            continue;
        for (char *c = name; *c; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        cr_assert_eq(nib_type_parse(name, &type), NIB_OK, "%s is no type", name);
        cr_assert_eq((int)type, number, "types.cuh says %s = %d, nibblas.h %d", name, number,
                     (int)type);
        there[number] = true;
        found++;
    }
    fclose(file);
    return found;
}

Test(cuda_types, device_code_has_the_numbers_of_the_header)
{
    bool there[MOST_TYPES] = {0};
    int types = 0, found = read_device_types(there);
    for (int type = 1; type < MOST_TYPES; type++)
        if (nib_type_bits(type) > 0) {
            cr_assert(there[type], "types.cuh lacks %s = %d", nib_type_name(type), type);
            types++;
        }
    cr_assert_eq(found, types);
    cr_assert_gt(types, 20);
}

Test(cuda_types, rules_have_the_bits_of_core)
{
    for (int type = 1; type < MOST_TYPES; type++)
        if (nib_type_bits(type) > 0)
            cr_assert_eq(nib_cuda_type_bits(type), nib_type_bits(type), "%s: %d bits, not %d",
                         nib_type_name(type), nib_cuda_type_bits(type), (int)nib_type_bits(type));
}
