/* SPDX-License-Identifier: Apache-2.0
 *
 * Function bodies: scopes, labels, declarations, instructions, calls; links one entry with all that
 * it calls. See parse.h.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

bool sim_parse_fail(sim_linker *linker, const char *format, ...)
{
    if (!linker->failed && linker->log != NULL && linker->log_bytes != 0) {
        char what[400];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(what, sizeof what, format, arguments);
        va_end(arguments);
        snprintf(linker->log, linker->log_bytes, "%s, PTX line %u `%.120s`: %s",
                 linker->source->name, linker->line, linker->text != NULL ? linker->text : "",
                 what);
    }
    linker->failed = true;
    return false;
}

static bool out_of_memory(sim_linker *linker)
{
    return sim_parse_fail(linker, "out of memory");
}

static bool add_symbol(sim_linker *linker, const sim_declaration *d, enum sim_space space,
                       int64_t value)
{
    sim_symbol s = {.name = d->name, .length = strlen(d->name), .space = space, .value = value};
    s.bytes = (uint32_t)d->bytes;
    if (!sim_grow((void **)&linker->symbol, linker->symbols, &linker->symbol_room, sizeof s)) {
        return out_of_memory(linker);
    }
    linker->symbol[linker->symbols++] = s;
    return true;
}

/* ".reg .b32 %r<5>, x;" without ".reg". */
static bool read_registers(sim_linker *linker, char *text)
{
    text = sim_trim(text);
    char *names = text + strcspn(text, " \t\r\n"), *item[256];
    if (*text != '.' || *names == 0) {
        return sim_parse_fail(linker, "a .reg has no type or no name");
    }
    *names++ = 0;
    const enum sim_type type = sim_type_find(text + 1);
    const uint32_t count = sim_split(names, item, 256);
    if (count > 256) {
        return sim_parse_fail(linker, "a .reg has too many names");
    }
    for (uint32_t i = 0; i < count; ++i) {
        char *angle = strchr(item[i], '<');
        const uint32_t number = angle != NULL ? (uint32_t)strtoul(angle + 1, NULL, 10) : 0;
        const size_t length = angle != NULL ? (size_t)(angle - item[i]) : strlen(item[i]);
        if (!sim_add_register(linker, item[i], length, number, type)) {
            return false;
        }
    }
    return true;
}

static bool read_variable(sim_linker *linker, char *text)
{
    sim_module *m = linker->module;
    sim_declaration d;
    const char *why = "";
    if (!sim_parse_declaration(&m->arena, text, &d, &why)) {
        return sim_parse_fail(linker, "%s", why);
    }
    if (d.space == SIM_SPACE_LOCAL || d.space == SIM_SPACE_PARAM) {
        return add_symbol(linker, &d, SIM_SPACE_LOCAL, sim_reserve_local(linker, d.bytes, d.align));
    }
    if (d.space != SIM_SPACE_SHARED || d.external) {
        return sim_parse_fail(linker, "variables of this space belong outside of functions");
    }
    linker->shared = (uint32_t)((linker->shared + d.align - 1) / d.align * d.align);
    const int64_t value = SIM_SHARED_BASE + linker->shared;
    linker->shared += (uint32_t)d.bytes;
    return add_symbol(linker, &d, SIM_SPACE_SHARED, value);
}

static bool add_label(sim_linker *linker, const char *name, char *list)
{
    sim_label l = {name, linker->scope, linker->length, list};
    if (!sim_grow((void **)&linker->label, linker->labels, &linker->label_room, sizeof l)) {
        return out_of_memory(linker);
    }
    linker->label[linker->labels++] = l;
    return true;
}

static const sim_label *find_label(const sim_linker *linker, const char *name, uint32_t scope)
{
    for (;; scope = linker->scope_parent[scope]) {
        for (uint32_t i = 0; i < linker->labels; ++i) {
            if (linker->label[i].scope == scope && strcmp(linker->label[i].name, name) == 0) {
                return &linker->label[i];
            }
        }
        if (scope == 0) {
            return NULL;
        }
    }
}

static bool read_guard(sim_linker *linker, sim_insn *in, char **text)
{
    if (**text != '@') {
        return true;
    }
    char *name = *text + 1;
    char *end = name + strcspn(name, " \t\r\n");
    const bool ended = *end == 0;
    *end = 0;
    sim_operand guard;
    if (ended || !sim_parse_operand(linker, name, &guard)) {
        return sim_parse_fail(linker, "the guard is not understood");
    }
    if (guard.kind != SIM_REGISTER || guard.width != 1) {
        return sim_parse_fail(linker, "the guard is no predicate");
    }
    in->has_guard = true;
    in->guard_not = guard.negated;
    in->guard = guard.slot;
    in->guard_reg = guard.reg;
    *text = sim_trim(end + 1);
    return true;
}

static bool read_instruction(sim_linker *linker, char *text)
{
    sim_insn in = {.line = linker->line, .text = linker->text};
    char opcode[200];
    if (!read_guard(linker, &in, &text)) {
        return false;
    }
    const size_t length = strcspn(text, " \t\r\n{[(");
    if (length >= sizeof opcode) {
        return sim_parse_fail(linker, "an opcode of %zu characters", length);
    }
    memcpy(opcode, text, length);
    opcode[length] = 0;
    if (!sim_decode(linker, &in, opcode, text + length)) {
        return false;
    }
    if (!sim_grow((void **)&linker->code, linker->length, &linker->room, sizeof in)) {
        return out_of_memory(linker);
    }
    linker->code[linker->length++] = in;
    return true;
}

static bool read_statement(sim_linker *linker, char *text)
{
    if (*text == 0) {
        return true;
    }
    if (*text != '.') {
        return read_instruction(linker, text);
    }
    if (strncmp(text, ".reg", 4) == 0 && isspace((unsigned char)text[4])) {
        return read_registers(linker, text + 4);
    }
    if (strncmp(text, ".pragma", 7) == 0) {
        return true;
    }
    return read_variable(linker, text);
}

/* "name:" at the cursor, and what may follow it on the line. */
static bool read_label(sim_linker *linker, sim_cursor *cursor, bool *found)
{
    const char *c = cursor->at;
    while (isalnum((unsigned char)*c) || *c == '_' || *c == '$') {
        ++c;
    }
    const char *colon = c;
    while (*colon == ' ' || *colon == '\t') {
        ++colon;
    }
    *found = c > cursor->at && *colon == ':' && colon[1] != ':';
    if (!*found) {
        return true;
    }
    sim_arena *arena = &linker->module->arena;
    const char *name = sim_arena_text(arena, cursor->at, (size_t)(c - cursor->at));
    char *list = NULL;
    cursor->at = colon + 1;
    if (sim_take_word(cursor, ".branchtargets")) {
        const size_t length = strcspn(cursor->at, ";");
        list = sim_arena_text(arena, cursor->at, length);
        for (size_t i = 0; i < length; ++i) {
            cursor->line += cursor->at[i] == '\n';
        }
        cursor->at += length + (cursor->at[length] == ';');
    }
    return name != NULL ? add_label(linker, name, list) : out_of_memory(linker);
}

static bool open_scope(sim_linker *linker, uint32_t parent)
{
    if (!sim_grow((void **)&linker->scope_parent, linker->scopes, &linker->scope_room,
                  sizeof parent)) {
        return out_of_memory(linker);
    }
    linker->scope_parent[linker->scopes] = parent;
    linker->scope = linker->scopes++;
    return true;
}

/* Shared variables that were placed meanwhile sit at the bottom and moved the rest up. */
static void drop_symbols(sim_linker *linker, uint32_t kept, uint32_t placed_before)
{
    uint32_t placed = 0;
    while (placed < linker->symbols && linker->symbol[placed].variable != NULL) {
        ++placed;
    }
    linker->symbols = kept + placed - placed_before;
}

static uint32_t placed_symbols(const sim_linker *linker)
{
    uint32_t placed = 0;
    while (placed < linker->symbols && linker->symbol[placed].variable != NULL) {
        ++placed;
    }
    return placed;
}

static bool read_one(sim_linker *linker, sim_cursor *cursor)
{
    const size_t length = strcspn(cursor->at, ";");
    if (cursor->at[length] == 0) {
        return sim_parse_fail(linker, "a statement does not end");
    }
    char *kept = sim_arena_text(&linker->module->arena, cursor->at, length);
    char *work = sim_arena_text(&linker->module->arena, cursor->at, length);
    if (kept == NULL || work == NULL) {
        return out_of_memory(linker);
    }
    kept = sim_trim(kept);
    for (char *c = kept; *c != 0; ++c) {
        *c = isspace((unsigned char)*c) ? ' ' : *c;
    }
    linker->text = kept;
    linker->line = cursor->line;
    for (size_t i = 0; i < length; ++i) {
        cursor->line += cursor->at[i] == '\n';
    }
    cursor->at += length + 1;
    return read_statement(linker, sim_trim(work));
}

/* A block up to its closing brace; nested ones are handled by recursion. */
static bool read_block(sim_linker *linker, sim_cursor *cursor, int depth)
{
    const uint32_t outer = linker->scope, kept = linker->symbols, placed = placed_symbols(linker);
    if (depth > 100 || !open_scope(linker, depth == 0 ? 0 : outer)) {
        return sim_parse_fail(linker, "braces are nested too deeply");
    }
    for (;;) {
        bool label;
        sim_skip_blank(cursor);
        linker->line = cursor->line;
        if (*cursor->at == '}') {
            ++cursor->at;
            break;
        }
        if (*cursor->at == '{') {
            ++cursor->at;
            if (!read_block(linker, cursor, depth + 1)) {
                return false;
            }
            continue;
        }
        if (!read_label(linker, cursor, &label)) {
            return false;
        }
        if (!label && !read_one(linker, cursor)) {
            return false;
        }
    }
    if (depth > 0) {
        drop_symbols(linker, kept, placed);
        linker->scope = outer;
    }
    return true;
}

/* Labels of this source: branches keep the name in their operand and the scope in target. */
static bool resolve_labels(sim_linker *linker, uint32_t start)
{
    for (uint32_t i = start; i < linker->length; ++i) {
        sim_insn *in = &linker->code[i];
        if (in->args == 0 || in->arg[0].kind != SIM_NAME || in->callee != NULL) {
            continue;
        }
        linker->line = in->line;
        linker->text = in->text;
        const sim_label *l = find_label(linker, in->arg[0].name, in->target);
        if (l == NULL) {
            return sim_parse_fail(linker, "the label %s is nowhere", in->arg[0].name);
        }
        if (l->list == NULL) {
            in->target = l->target;
            continue;
        }
        char *item[4096];
        const uint32_t count = sim_split(l->list, item, 4096);
        in->targets = sim_arena_get(&linker->module->arena, count * sizeof *in->targets);
        if (count > 4096 || in->targets == NULL) {
            return out_of_memory(linker);
        }
        for (uint32_t j = 0; j < count; ++j) {
            const sim_label *to = find_label(linker, item[j], l->scope);
            if (to == NULL) {
                return sim_parse_fail(linker, "the label %s is nowhere", item[j]);
            }
            in->targets[j] = to->target;
        }
        in->target_count = count;
    }
    return true;
}

static bool declare_params(sim_linker *linker, const sim_source *source, sim_callee *callee)
{
    if (callee == NULL) {
        for (uint32_t i = 0; i < source->params; ++i) {
            const sim_declaration *p = &source->param[i];
            if (!add_symbol(linker, p, SIM_SPACE_PARAM, (int64_t)p->offset)) {
                return false;
            }
        }
        return true;
    }
    if (source->params > 64 || source->results > 4) {
        return sim_parse_fail(linker, "a function has too many parameters");
    }
    for (uint32_t i = 0; i < source->params + source->results; ++i) {
        const bool is_result = i >= source->params;
        const sim_declaration *p =
            is_result ? &source->result[i - source->params] : &source->param[i];
        const uint32_t at = sim_reserve_local(linker, p->bytes, p->align);
        if (is_result) {
            callee->result[i - source->params].local = at;
            callee->result[i - source->params].bytes = (uint32_t)p->bytes;
        } else {
            callee->param[i].local = at;
            callee->param[i].bytes = (uint32_t)p->bytes;
        }
        if (!add_symbol(linker, p, SIM_SPACE_LOCAL, at)) {
            return false;
        }
    }
    callee->params = source->params;
    callee->results = source->results;
    return true;
}

static sim_insn return_instruction(sim_linker *linker)
{
    sim_insn in = {.line = linker->line, .text = "the end of the function"};
    char nothing[1] = "";
    sim_decode(linker, &in, "ret", nothing);
    return in;
}

static bool link_source(sim_linker *linker, const sim_source *source, sim_callee *callee)
{
    const uint32_t start = linker->length;
    sim_cursor cursor = {source->body, source->line};
    linker->source = source;
    linker->line = source->line;
    linker->text = NULL;
    linker->symbols = placed_symbols(linker);
    linker->labels = linker->scopes = linker->scope = 0;
    if (source->body == NULL) {
        return sim_parse_fail(linker, "the function has no body here");
    }
    if (!declare_params(linker, source, callee) || !read_block(linker, &cursor, 0)) {
        return false;
    }
    const sim_insn end = return_instruction(linker);
    if (!sim_grow((void **)&linker->code, linker->length, &linker->room, sizeof end)) {
        return out_of_memory(linker);
    }
    linker->code[linker->length++] = end;
    return resolve_labels(linker, start);
}

/* Immediates become rows of the pool, one value a lane, now that all addresses are known. */
static bool fill_pool(sim_linker *linker)
{
    sim_function *f = linker->function;
    const uint32_t align = linker->dynamic_align > 16 ? linker->dynamic_align : 16;
    f->dynamic_base = (linker->shared + align - 1) / align * align;
    for (uint32_t i = 0; i < linker->patches; ++i) {
        sim_operand *o = linker->patch[i];
        if (o->dynamic) {
            o->value += SIM_SHARED_BASE + f->dynamic_base;
        }
        if (o->kind == SIM_IMMEDIATE) {
            o->bank = 1;
            o->slot = f->pool_words;
            f->pool_words += o->width / 32u * SIM_LANES;
        }
    }
    f->pool = sim_arena_get(&linker->module->arena, (size_t)f->pool_words * 4 + 4);
    f->shared_slot =
        sim_arena_get(&linker->module->arena, linker->patches * sizeof *f->shared_slot + 1);
    if (f->pool == NULL || f->shared_slot == NULL) {
        return out_of_memory(linker);
    }
    for (uint32_t i = 0; i < linker->patches; ++i) {
        const sim_operand *o = linker->patch[i];
        if (o->kind == SIM_IMMEDIATE && o->space == SIM_SPACE_SHARED) {
            f->shared_slot[f->shared_slots++] = (sim_slot){o->slot, o->width};
        }
        for (int lane = 0; lane < SIM_LANES && o->kind == SIM_IMMEDIATE; ++lane) {
            if (o->width == 64) {
                memcpy(f->pool + o->slot + lane * 2, &o->value, 8);
            } else {
                f->pool[o->slot + lane] = (uint32_t)o->value;
            }
        }
    }
    return true;
}

/* What a compiler may give each thread: as .maxnreg says, or so that the blocks fit. */
static uint32_t launch_registers(const sim_source *source)
{
    enum { OF_UNIT = 65536, MOST = 255, UNIT = 8 };
    const unsigned blocks = source->min_blocks != 0 ? source->min_blocks : 1;
    const unsigned warps = (source->max_threads + SIM_LANES - 1) / SIM_LANES;
    if (source->max_registers != 0) {
        return source->max_registers;
    }
    const unsigned share = OF_UNIT / (blocks * warps * SIM_LANES) / UNIT * UNIT;
    return !source->bounded ? 0 : share > MOST ? MOST / UNIT * UNIT : share;
}

static bool describe(sim_linker *linker)
{
    const sim_source *source = linker->source;
    sim_function *f = linker->function;
    sim_function_info *info = &f->info;
    sim_param *param = sim_arena_get(&linker->module->arena, source->params * sizeof *param + 1);
    if (param == NULL) {
        return out_of_memory(linker);
    }
    for (uint32_t i = 0; i < source->params; ++i) {
        param[i] =
            (sim_param){source->param[i].offset, source->param[i].bytes, source->param[i].align};
    }
    *info = (sim_function_info){
        .name = source->name,
        .ptx_version = linker->module->version,
        .target = linker->module->target,
        .max_threads = source->max_threads,
        .registers = f->words / SIM_LANES > 255 ? 255 : f->words / SIM_LANES,
        .static_shared = linker->shared,
        .local = linker->local - SIM_LOCAL_BASE,
        .param_bytes = source->param_bytes,
        .params = source->params,
        .param = param,
    };
    f->launch_registers = launch_registers(source);
    memcpy(info->required_block, source->required_block, sizeof info->required_block);
    memcpy(info->required_cluster, source->required_cluster, sizeof info->required_cluster);
    return true;
}

static bool finish(sim_linker *linker)
{
    sim_function *f = linker->function;
    f->callees = linker->callees;
    f->length = linker->length;
    f->code = sim_arena_get(&linker->module->arena, linker->length * sizeof *f->code);
    if (f->code == NULL) {
        return out_of_memory(linker);
    }
    memcpy(f->code, linker->code, linker->length * sizeof *f->code);
    return fill_pool(linker) && describe(linker);
}

bool sim_link_entry(sim_module *module, const sim_source *source, char *log, size_t log_bytes)
{
    sim_linker *linker = calloc(1, sizeof *linker);
    if (linker == NULL) {
        return false;
    }
    linker->module = module;
    linker->log = log;
    linker->log_bytes = log_bytes;
    linker->source = source;
    linker->local = SIM_LOCAL_BASE;
    linker->function = sim_arena_get(&module->arena, sizeof *linker->function);
    bool fine = linker->function != NULL;
    if (fine) {
        linker->function->module = module;
        fine = link_source(linker, source, NULL);
        /* Each may call more. */
        for (uint32_t i = 0; fine && i < linker->callees; ++i) {
            linker->callee[i]->start = linker->length;
            fine = link_source(linker, linker->callee[i]->source, linker->callee[i]);
        }
        linker->source = source;
        fine = fine && finish(linker);
    }
    if (fine) {
        module->function[module->functions++] = linker->function;
    }
    free(linker->code);
    free(linker->patch);
    free(linker->callee);
    free(linker->symbol);
    free(linker->label);
    free(linker->scope_parent);
    free(linker);
    return fine;
}
