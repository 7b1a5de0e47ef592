/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes description lines: what parses must print, and the printed line must parse to the same
 * description. Seeds: corpus/desc_text.
 */
#include "config/desc.h"

#include <stdlib.h>
#include <string.h>

static void check_gemm(const char *line)
{
    nib_gemm_desc desc = {.size = sizeof(desc)}, again = {.size = sizeof(again)};
    char text[NIB_DESC_LINE_BYTES];
    size_t needed = 0;
    if (nib_gemm_desc_parse(line, &desc))
        return;
    if (nib_gemm_desc_print(&desc, text, sizeof(text), &needed) || needed > sizeof(text))
        abort();
    if (nib_gemm_desc_parse(text, &again) || memcmp(&desc, &again, sizeof(desc)))
        abort();
}

static void check_weight(const char *line)
{
    nib_weight_desc desc = {.size = sizeof(desc)}, again = {.size = sizeof(again)};
    char text[NIB_DESC_LINE_BYTES];
    size_t needed = 0;
    if (nib_weight_desc_parse(line, &desc))
        return;
    if (nib_weight_desc_print(&desc, text, sizeof(text), &needed) || needed > sizeof(text))
        abort();
    if (nib_weight_desc_parse(text, &again) || memcmp(&desc, &again, sizeof(desc)))
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    char *line = malloc(bytes + 1);
    if (!line)
        return 0;
    memcpy(line, data, bytes);
    line[bytes] = '\0';
    check_gemm(line);
    check_weight(line);
    free(line);
    return 0;
}
