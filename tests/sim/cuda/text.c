/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX text by the character: blanks, words, lists, numbers, declarations. See parse.h.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

void sim_skip_blank(sim_cursor *cursor)
{
    while (isspace((unsigned char)*cursor->at)) {
        cursor->line += *cursor->at == '\n';
        ++cursor->at;
    }
}

static bool name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

bool sim_take_word(sim_cursor *cursor, const char *word)
{
    const size_t length = strlen(word);
    sim_skip_blank(cursor);
    if (strncmp(cursor->at, word, length) != 0 || name_character(cursor->at[length])) {
        return false;
    }
    cursor->at += length;
    sim_skip_blank(cursor);
    return true;
}

char *sim_trim(char *text)
{
    while (isspace((unsigned char)*text)) {
        ++text;
    }
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        text[--length] = 0;
    }
    return text;
}

uint32_t sim_split(char *text, char **item, uint32_t limit)
{
    uint32_t count = 0;
    int depth = 0;
    if (*sim_trim(text) == 0) {
        return 0;
    }
    char *start = text;
    for (char *c = text;; ++c) {
        depth += *c == '{' || *c == '[' || *c == '(';
        depth -= *c == '}' || *c == ']' || *c == ')';
        if (*c == 0 || (*c == ',' && depth == 0)) {
            const bool last = *c == 0;
            *c = 0;
            if (count < limit) {
                item[count] = sim_trim(start);
            }
            ++count;
            start = c + 1;
            if (last) {
                return count;
            }
        }
    }
}

char *sim_blank_comments(const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL) {
        return NULL;
    }
    bool quoted = false;
    for (char *c = copy; *c != 0; ++c) {
        quoted ^= *c == '"';
        if (quoted || c[0] != '/') {
            continue;
        }
        if (c[1] == '/') {
            while (*c != 0 && *c != '\n') {
                *c++ = ' ';
            }
        } else if (c[1] == '*') {
            while (*c != 0 && !(c[0] == '*' && c[1] == '/')) {
                *c = *c == '\n' ? '\n' : ' ';
                ++c;
            }
            if (*c != 0) {
                c[0] = c[1] = ' ';
            }
        }
        if (*c == 0) {
            break;
        }
    }
    return copy;
}

bool sim_parse_number(const char *text, unsigned bits, int64_t *value)
{
    const bool negative = *text == '-';
    text += negative;
    char *end;
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    if (text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D') &&
        isxdigit((unsigned char)text[2])) {
        const bool is_double = text[1] == 'd' || text[1] == 'D';
        uint64_t code = strtoull(text + 2, &end, 16);
        code ^= negative ? (is_double ? UINT64_C(1) << 63 : UINT64_C(1) << 31) : 0;
        *value = (int64_t)code;
    } else if (strpbrk(text, ".") != NULL) {
        const double number = strtod(text, &end) * (negative ? -1 : 1);
        const float single = (float)number;
        uint32_t low;
        uint64_t code;
        memcpy(&low, &single, sizeof low);
        memcpy(&code, &number, sizeof code);
        *value = (int64_t)(bits == 64 ? code : low);
    } else if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
        const uint64_t code = strtoull(text + 2, &end, 2);
        *value = (int64_t)(negative ? -code : code);
    } else {
        const uint64_t code = strtoull(text, &end, 0);
        *value = (int64_t)(negative ? -code : code);
    }
    return *end == 0 || strcmp(end, "U") == 0;
}

/* "name[4][2]" -> name and 8; "name[]" -> 0 */
static bool parse_extents(char *text, size_t *count, bool *is_array)
{
    *count = 1;
    *is_array = false;
    char *bracket = strchr(text, '[');
    while (bracket != NULL) {
        char *close = strchr(bracket, ']');
        if (close == NULL) {
            return false;
        }
        *is_array = true;
        *count *= strtoull(bracket + 1, NULL, 0);
        char *next = strchr(close, '[');
        *bracket = 0;
        bracket = next;
    }
    return true;
}

static bool space_of(const char *word, enum sim_space *space)
{
    static const struct {
        const char *word;
        enum sim_space space;
    } spaces[] = {{".param", SIM_SPACE_PARAM},
                  {".shared", SIM_SPACE_SHARED},
                  {".local", SIM_SPACE_LOCAL},
                  {".global", SIM_SPACE_GLOBAL},
                  {".const", SIM_SPACE_CONST}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; ++i) {
        if (strcmp(word, spaces[i].word) == 0) {
            *space = spaces[i].space;
            return true;
        }
    }
    return false;
}

bool sim_parse_declaration(sim_arena *arena, char *text, sim_declaration *out, const char **why)
{
    char *save = NULL, *last = NULL;
    bool have_space = false, pointer = false;
    unsigned elements = 1;
    memset(out, 0, sizeof *out);
    /* "name [4]" is one word here. */
    for (char *c = text; *c != 0; ++c) {
        if (*c == '[') {
            char *from = c, *to = c;
            while (to > text && isspace((unsigned char)to[-1])) {
                --to;
            }
            memmove(to, from, strlen(from) + 1);
            c = strchr(to, ']') != NULL ? strchr(to, ']') : to;
        }
    }
    for (char *word = strtok_r(text, " \t\r\n", &save); word != NULL;
         word = strtok_r(NULL, " \t\r\n", &save)) {
        enum sim_space space;
        if (strcmp(word, ".align") == 0) {
            char *number = strtok_r(NULL, " \t\r\n", &save);
            if (!pointer && number != NULL) {
                out->align = strtoull(number, NULL, 0);
            }
        } else if (strcmp(word, ".ptr") == 0) {
            pointer = true;
        } else if (!have_space && space_of(word, &space)) {
            out->space = space;
            have_space = true;
        } else if (strcmp(word, ".v2") == 0 || strcmp(word, ".v4") == 0) {
            elements = (unsigned)(word[2] - '0');
        } else if (word[0] == '.' && sim_type_find(word + 1) != SIM_TYPE_NONE) {
            out->type = sim_type_find(word + 1);
        } else if (word[0] != '.') {
            last = word;
        } else if (!pointer && strncmp(word, ".attribute", 10) != 0) {
            *why = "a declaration has a directive that is not known";
            return false;
        }
    }
    size_t count;
    bool is_array;
    if (!have_space || out->type == SIM_TYPE_NONE || last == NULL ||
        !parse_extents(last, &count, &is_array)) {
        *why = "a declaration lacks its space, type or name";
        return false;
    }
    const size_t element = (sim_type_bits(out->type) + 7) / 8 * elements;
    out->name = sim_arena_text(arena, last, strlen(last));
    out->bytes = element * count;
    out->align = out->align != 0 ? out->align : element;
    out->external = is_array && count == 0;
    *why = "out of memory";
    return out->name != NULL;
}
