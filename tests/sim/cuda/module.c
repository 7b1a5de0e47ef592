/* SPDX-License-Identifier: Apache-2.0
 *
 * A module's declarations: versions, variables, functions. Their bodies are body.c's. Entry point
 * of the interpreter's parsing half: sim_module_load.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

typedef struct loader {
    sim_module *module;
    sim_cursor cursor;
    char *log;
    size_t log_bytes;
} loader;

static bool load_fail(loader *l, const char *what)
{
    if (l->log != NULL && l->log_bytes != 0) {
        snprintf(l->log, l->log_bytes, "line %u: %s: %.60s", l->cursor.line, what, l->cursor.at);
    }
    return false;
}

bool sim_grow(void **items, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room) {
        return true;
    }
    const uint32_t more = *room == 0 ? 16 : *room * 2;
    void *grown = realloc(*items, (size_t)more * size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *room = more;
    return true;
}

/* The text up to one of the stops outside of brackets, in the module's memory. */
static char *take_until(loader *l, const char *stops)
{
    int depth = 0;
    bool quoted = false;
    const char *start = l->cursor.at;
    for (; *l->cursor.at != 0; ++l->cursor.at) {
        const char c = *l->cursor.at;
        quoted ^= c == '"';
        if (!quoted && depth == 0 && strchr(stops, c) != NULL) {
            break;
        }
        depth += !quoted && (c == '{' || c == '(' || c == '[');
        depth -= !quoted && (c == '}' || c == ')' || c == ']');
        l->cursor.line += c == '\n';
    }
    return sim_arena_text(&l->module->arena, start, (size_t)(l->cursor.at - start));
}

static bool skip_braces(loader *l)
{
    ++l->cursor.at;
    if (take_until(l, "}") == NULL || *l->cursor.at != '}') {
        return load_fail(l, "a brace is not closed");
    }
    ++l->cursor.at;
    return true;
}

static void skip_line(loader *l)
{
    while (*l->cursor.at != 0 && *l->cursor.at != '\n') {
        ++l->cursor.at;
    }
}

static bool initial_value(loader *l, sim_declaration *variable, size_t index, char *text)
{
    const size_t bytes = (sim_type_bits(variable->type) + 7) / 8;
    int64_t value = 0;
    if (!sim_parse_number(text, (unsigned)bytes * 8, &value)) {
        /* An address: name, name+4 or generic(name). */
        char *name = strncmp(text, "generic(", 8) == 0 ? text + 8 : text;
        char *plus = strchr(name, '+');
        const int64_t offset = plus != NULL ? strtoll(plus + 1, NULL, 0) : 0;
        name[strcspn(name, "+)")] = 0;
        uint64_t address;
        size_t size;
        if (!sim_module_variable(l->module, sim_trim(name), &address, &size)) {
            return load_fail(l, "a variable begins with a value that is not known");
        }
        value = (int64_t)address + offset;
    }
    if ((index + 1) * bytes > variable->bytes) {
        return load_fail(l, "a variable has more values than elements");
    }
    memcpy(variable->data + index * bytes, &value, bytes);
    return true;
}

static bool initial_values(loader *l, sim_declaration *variable)
{
    ++l->cursor.at;
    char *text = take_until(l, ";");
    if (text == NULL) {
        return load_fail(l, "out of memory");
    }
    /* Rows of nested braces follow each other in memory. */
    for (char *c = text; *c != 0; ++c) {
        *c = *c == '{' || *c == '}' ? ' ' : *c;
    }
    size_t index = 0;
    char *save = NULL;
    for (char *item = strtok_r(text, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        if (!initial_value(l, variable, index++, sim_trim(item))) {
            return false;
        }
    }
    return true;
}

static bool load_variable(loader *l, bool external)
{
    sim_module *m = l->module;
    const char *why = "";
    sim_declaration variable;
    char *text = take_until(l, "=;");
    if (text == NULL || !sim_parse_declaration(&m->arena, text, &variable, &why)) {
        return load_fail(l, why);
    }
    variable.external = variable.space == SIM_SPACE_SHARED && (external || variable.external);
    if (variable.space == SIM_SPACE_GLOBAL || variable.space == SIM_SPACE_CONST) {
        if (external || variable.bytes == 0) {
            return load_fail(l, "a variable of another module");
        }
        variable.data = sim_arena_get(&m->arena, variable.bytes);
        if (variable.data == NULL) {
            return load_fail(l, "out of memory");
        }
    }
    if (*l->cursor.at == '=' && (variable.data == NULL || !initial_values(l, &variable))) {
        return load_fail(l, "only .global and .const variables can begin with values");
    }
    if (*l->cursor.at != ';' ||
        !sim_grow((void **)&m->variable, m->variables, &m->variable_room, sizeof variable)) {
        return load_fail(l, "a variable's declaration does not end");
    }
    ++l->cursor.at;
    m->variable[m->variables++] = variable;
    return true;
}

/* "(...)": a list of .param declarations, with offsets. */
static bool load_params(loader *l, sim_declaration **out, uint32_t *count, size_t *bytes)
{
    ++l->cursor.at;
    char *text = take_until(l, ")"), *item[256];
    if (text == NULL || *l->cursor.at != ')') {
        return load_fail(l, "a list of parameters is not closed");
    }
    ++l->cursor.at;
    *count = sim_split(text, item, 256);
    *out = sim_arena_get(&l->module->arena, *count * sizeof **out + 1);
    if (*count > 256 || *out == NULL) {
        return load_fail(l, "too many parameters");
    }
    *bytes = 0;
    for (uint32_t i = 0; i < *count; ++i) {
        sim_declaration *p = &(*out)[i];
        const char *why = "";
        if (strncmp(item[i], ".reg", 4) == 0) {
            return load_fail(l, "parameters in registers are not modelled");
        }
        if (!sim_parse_declaration(&l->module->arena, item[i], p, &why)) {
            return load_fail(l, why);
        }
        p->offset = (*bytes + p->align - 1) / p->align * p->align;
        *bytes = p->offset + p->bytes;
    }
    return true;
}

static bool take_triple(loader *l, unsigned *out)
{
    for (int i = 0; i < 3; ++i) {
        char *end;
        sim_skip_blank(&l->cursor);
        out[i] = (unsigned)strtoul(l->cursor.at, &end, 0);
        if (end == l->cursor.at) {
            return load_fail(l, "a number is missing");
        }
        l->cursor.at = end;
        sim_skip_blank(&l->cursor);
        if (*l->cursor.at != ',') {
            for (int j = i + 1; j < 3; ++j) {
                out[j] = 1;
            }
            return true;
        }
        ++l->cursor.at;
    }
    return true;
}

/* The directives between a function's parameters and its body. */
static bool load_limits(loader *l, sim_source *s)
{
    unsigned triple[3];
    for (;;) {
        sim_skip_blank(&l->cursor);
        if (*l->cursor.at != '.') {
            return true;
        }
        if (sim_take_word(&l->cursor, ".noreturn") ||
            sim_take_word(&l->cursor, ".explicitcluster") ||
            sim_take_word(&l->cursor, ".blocksareclusters")) {
            continue;
        }
        const bool most = sim_take_word(&l->cursor, ".maxntid");
        const bool exactly = !most && sim_take_word(&l->cursor, ".reqntid");
        const bool cluster = !most && !exactly && sim_take_word(&l->cursor, ".reqnctapercluster");
        const bool known = most || exactly || cluster;
        const bool blocks = !known && sim_take_word(&l->cursor, ".minnctapersm");
        const bool registers = !known && !blocks && sim_take_word(&l->cursor, ".maxnreg");
        const bool other = blocks || registers ||
                           (!known && (sim_take_word(&l->cursor, ".maxnctapersm") ||
                                       sim_take_word(&l->cursor, ".maxclusterrank")));
        if (sim_take_word(&l->cursor, ".pragma") || sim_take_word(&l->cursor, ".abi_preserve")) {
            take_until(l, ";");
            ++l->cursor.at;
            continue;
        }
        if (!most && !exactly && !cluster && !other) {
            return load_fail(l, "a function has a directive that is not known");
        }
        if (!take_triple(l, triple)) {
            return false;
        }
        if (most || exactly) {
            s->max_threads = triple[0] * triple[1] * triple[2];
            s->bounded = true;
        }
        s->min_blocks = blocks ? triple[0] : s->min_blocks;
        s->max_registers = registers ? triple[0] : s->max_registers;
        if (exactly) {
            memcpy(s->required_block, triple, sizeof triple);
        } else if (cluster) {
            memcpy(s->required_cluster, triple, sizeof triple);
        }
    }
}

static bool load_function(loader *l, bool entry)
{
    sim_module *m = l->module;
    sim_source s = {.entry = entry, .max_threads = 1024};
    size_t ignored;
    sim_skip_blank(&l->cursor);
    if (*l->cursor.at == '(' && !load_params(l, &s.result, &s.results, &ignored)) {
        return false;
    }
    sim_skip_blank(&l->cursor);
    const char *name = l->cursor.at;
    while (isalnum((unsigned char)*l->cursor.at) || *l->cursor.at == '_' || *l->cursor.at == '$') {
        ++l->cursor.at;
    }
    s.name = sim_arena_text(&m->arena, name, (size_t)(l->cursor.at - name));
    sim_skip_blank(&l->cursor);
    if (*l->cursor.at == '(' && !load_params(l, &s.param, &s.params, &s.param_bytes)) {
        return false;
    }
    if (s.name == NULL || !load_limits(l, &s)) {
        return load_fail(l, "a function's head is not understood");
    }
    if (*l->cursor.at == '{') {
        s.body = l->cursor.at + 1;
        s.line = l->cursor.line;
        if (!skip_braces(l)) {
            return false;
        }
    } else if (*l->cursor.at++ != ';') {
        return load_fail(l, "a function has neither a body nor an end");
    }
    if (!sim_grow((void **)&m->source, m->sources, &m->source_room, sizeof s)) {
        return load_fail(l, "out of memory");
    }
    m->source[m->sources++] = s;
    return true;
}

static bool load_target(loader *l)
{
    sim_module *m = l->module;
    sim_skip_blank(&l->cursor);
    if (strncmp(l->cursor.at, "sm_", 3) != 0) {
        return load_fail(l, ".target names no chip");
    }
    char *end;
    m->target = (unsigned)strtoul(l->cursor.at + 3, &end, 10);
    const bool exact = *end == 'a', family = *end == 'f';
    if (m->capability < m->target || (exact && m->capability != m->target) ||
        (family && m->capability / 10 != m->target / 10)) {
        return load_fail(l, "this chip cannot run the text's .target");
    }
    m->exact = exact;
    skip_line(l);
    return true;
}

static bool load_item(loader *l)
{
    static const char *const linkage[] = {".visible", ".weak", ".common", NULL};
    bool external = false;
    for (int i = 0; linkage[i] != NULL;) {
        const bool is_extern = sim_take_word(&l->cursor, ".extern");
        external |= is_extern;
        i = is_extern || sim_take_word(&l->cursor, linkage[i]) ? 0 : i + 1;
    }
    if (sim_take_word(&l->cursor, ".version")) {
        char *end;
        l->module->version = (unsigned)strtoul(l->cursor.at, &end, 10) * 10;
        l->module->version += *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
        skip_line(l);
        return true;
    }
    if (sim_take_word(&l->cursor, ".target")) {
        return load_target(l);
    }
    if (sim_take_word(&l->cursor, ".address_size") || sim_take_word(&l->cursor, ".file") ||
        sim_take_word(&l->cursor, ".loc")) {
        skip_line(l);
        return true;
    }
    if (sim_take_word(&l->cursor, ".section")) {
        take_until(l, "{");
        return *l->cursor.at == '{' ? skip_braces(l) : load_fail(l, ".section has no text");
    }
    if (sim_take_word(&l->cursor, ".entry")) {
        return load_function(l, true);
    }
    if (sim_take_word(&l->cursor, ".func")) {
        return load_function(l, false);
    }
    if (strncmp(l->cursor.at, ".global", 7) == 0 || strncmp(l->cursor.at, ".const", 6) == 0 ||
        strncmp(l->cursor.at, ".shared", 7) == 0) {
        return load_variable(l, external);
    }
    return load_fail(l, "a directive that is not known");
}

static bool load_all(loader *l)
{
    sim_module *m = l->module;
    for (sim_skip_blank(&l->cursor); *l->cursor.at != 0; sim_skip_blank(&l->cursor)) {
        if (!load_item(l)) {
            return false;
        }
    }
    if (m->target == 0) {
        return load_fail(l, "the text has no .target");
    }
    m->function = sim_arena_get(&m->arena, (m->sources + 1) * sizeof *m->function);
    if (m->function == NULL) {
        return load_fail(l, "out of memory");
    }
    for (uint32_t i = 0; i < m->sources; ++i) {
        if (m->source[i].entry && m->source[i].body != NULL &&
            !sim_link_entry(m, &m->source[i], l->log, l->log_bytes)) {
            return false;
        }
    }
    return true;
}

sim_module *sim_module_load(const char *text, unsigned capability, char *log, size_t log_bytes)
{
    if (log != NULL && log_bytes != 0) {
        log[0] = 0;
    }
    char *clean = sim_blank_comments(text);
    sim_module *module = calloc(1, sizeof *module);
    loader l = {module, {clean, 1}, log, log_bytes};
    bool fine = clean != NULL && module != NULL;
    if (fine) {
        module->capability = capability;
        fine = load_all(&l);
    }
    free(clean);
    if (!fine) {
        sim_module_destroy(module);
        return NULL;
    }
    return module;
}

void sim_module_destroy(sim_module *module)
{
    if (module != NULL) {
        free(module->variable);
        free(module->source);
        sim_arena_free(&module->arena);
        free(module);
    }
}

const sim_function *sim_function_at(const sim_module *module, size_t index)
{
    return index < module->functions ? module->function[index] : NULL;
}

const sim_function *sim_function_find(const sim_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->functions; ++i) {
        if (strcmp(module->function[i]->info.name, name) == 0) {
            return module->function[i];
        }
    }
    return NULL;
}

const sim_function_info *sim_function_describe(const sim_function *function)
{
    return &function->info;
}

bool sim_module_variable(const sim_module *module, const char *name, uint64_t *address,
                         size_t *bytes)
{
    for (uint32_t i = 0; i < module->variables; ++i) {
        const sim_declaration *v = &module->variable[i];
        if (v->data != NULL && strcmp(v->name, name) == 0) {
            *address = (uint64_t)(uintptr_t)v->data;
            *bytes = v->bytes;
            return true;
        }
    }
    return false;
}

bool sim_module_range(const sim_module *module, uint64_t address, sim_range *range)
{
    for (uint32_t i = 0; i < module->variables; ++i) {
        const sim_declaration *v = &module->variable[i];
        const uint64_t start = (uint64_t)(uintptr_t)v->data;
        if (v->data != NULL && address >= start && address - start < v->bytes) {
            *range = (sim_range){.address = start, .bytes = v->bytes, .host = v->data};
            return true;
        }
    }
    return false;
}
