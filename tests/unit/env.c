/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment variables: documented, and none when empty.
 */
#include "config/env.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(environment, every_variable_stands_in_the_manual_page)
{
    static char page[1 << 16];
    FILE *file = fopen(NIB_SOURCE_DIR "/docs/nib.1", "r");
    cr_assert(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    const nib_env_row *row;
    uint32_t count = 0;
    for (; (row = nib_env_describe(count)) != NULL; count++) {
        char entry[64];
        snprintf(entry, sizeof(entry), ".B %s\n", row->name);
        cr_expect(strstr(page, entry), "docs/nib.1 lacks %s", row->name);
    }
    cr_expect_gt(count, 0);
}

Test(environment, an_empty_variable_is_none)
{
    setenv("NIB_DEVICE", "", 1);
    cr_expect_null(nib_env("NIB_DEVICE"));
    setenv("NIB_DEVICE", "cpu", 1);
    cr_expect_str_eq(nib_env("NIB_DEVICE"), "cpu");
}
