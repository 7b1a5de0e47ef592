/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that say a product and its rows. The library parses the product; the key m is taken here.
 */
#include "product.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse_rows(const char *text, tool_case *out)
{
    out->count = 0;
    for (;;) {
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (end == text || errno || value < 0 || out->count == TOOL_MAX_M)
            return false;
        out->m[out->count++] = value;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

tool_exit tool_case_parse(const char *line, tool_case *out)
{
    char rest[TOOL_LINE_BYTES], words[TOOL_LINE_BYTES];
    size_t used = 0;
    tool_case parsed = {.count = 1, .m = {1}};
    if (strlen(line) >= sizeof(words))
        return tool_error(TOOL_USAGE, "the description has more than %d characters",
                          TOOL_LINE_BYTES - 1);
    strcpy(words, line);
    rest[0] = 0;
    char *save;
    for (char *word = strtok_r(words, " \t\r\n", &save); word;
         word = strtok_r(NULL, " \t\r\n", &save)) {
        if (!strncmp(word, "m=", 2)) {
            if (!parse_rows(word + 2, &parsed))
                return tool_error(TOOL_USAGE,
                                  "%s: expected row counts, 'm=1,16,128', at most %d of them", word,
                                  TOOL_MAX_M);
            continue;
        }
        used += (size_t)snprintf(rest + used, sizeof(rest) - used, "%s%s", used ? " " : "", word);
    }
    nib_status status = nib_gemm_desc_parse(rest, &parsed.desc);
    if (status)
        return tool_fail(status);
    *out = parsed;
    return TOOL_OK;
}

tool_exit tool_case_from(const tool_verb *verb, const tool_case_options *o, char **words, int count,
                         tool_case *out)
{
    const char *const pairs[][2] = {
        {"n", o->n},   {"k", o->k},   {"w", o->w}, {"g", o->g},     {"s", o->s},
        {"z", o->z},   {"wf", o->wf}, {"a", o->a}, {"acc", o->acc}, {"o", o->o},
        {"as", o->as}, {"b", o->b},   {"e", o->e}, {"f", o->f},     {"m", o->m},
    };
    char line[TOOL_LINE_BYTES];
    size_t used = 0;
    line[0] = 0;
    for (int i = 0; i < count && used < sizeof(line); i++)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s ", words[i]);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && used < sizeof(line); i++)
        if (pairs[i][1])
            used += (size_t)snprintf(line + used, sizeof(line) - used, "%s=%s ", pairs[i][0],
                                     pairs[i][1]);
    if (!used)
        return tool_usage(verb, "which product? at least n and k are needed");
    if (used >= sizeof(line))
        return tool_error(TOOL_USAGE, "the description is too long");
    return tool_case_parse(line, out);
}
