/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands: registers, numbers, addresses, vectors, and the symbols they name. See parse.h.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

static uint32_t digits_of(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

/* The innermost symbol of that name; for ranges also the index in the name's end. */
const sim_symbol *sim_find_symbol(const sim_linker *linker, const char *name, uint32_t *index)
{
    const size_t length = strlen(name);
    size_t stem = length;
    while (stem > 0 && isdigit((unsigned char)name[stem - 1])) {
        --stem;
    }
    *index = 0;
    for (uint32_t i = linker->symbols; i-- > 0;) {
        const sim_symbol *s = &linker->symbol[i];
        if (s->count == 0) {
            if (s->length == length && memcmp(s->name, name, length) == 0) {
                return s;
            }
        } else if (s->length == stem && stem < length && memcmp(s->name, name, stem) == 0) {
            *index = digits_of(name + stem);
            if (*index < s->count) {
                return s;
            }
        }
    }
    return NULL;
}

uint32_t sim_new_slot(sim_linker *linker, unsigned width)
{
    sim_function *f = linker->function;
    if (width == 1) {
        return f->predicates++;
    }
    const uint32_t slot = f->words;
    f->words += width / 32 * SIM_LANES;
    return slot;
}

static unsigned slot_width(enum sim_type type)
{
    const unsigned bits = sim_type_bits(type);
    return type == SIM_PRED ? 1 : bits <= 32 ? 32 : bits;
}

bool sim_add_register(sim_linker *linker, const char *name, size_t length, uint32_t count,
                      enum sim_type type)
{
    sim_symbol s = {.is_register = true, .length = length, .count = count};
    s.width = (uint8_t)slot_width(type);
    s.bits = (uint8_t)sim_type_bits(type);
    s.name = sim_arena_text(&linker->module->arena, name, length);
    if (type == SIM_TYPE_NONE || s.name == NULL || count > 1u << 20 ||
        !sim_grow((void **)&linker->symbol, linker->symbols, &linker->symbol_room, sizeof s)) {
        return sim_parse_fail(linker, "a .reg has no type that is known");
    }
    const uint32_t number = count == 0 ? 1 : count;
    s.slot = sim_new_slot(linker, s.width);
    s.reg = linker->function->registers;
    linker->function->registers += number;
    for (uint32_t i = 1; i < number; ++i) {
        sim_new_slot(linker, s.width);
    }
    linker->symbol[linker->symbols++] = s;
    return true;
}

uint32_t sim_reserve_local(sim_linker *linker, size_t bytes, size_t align)
{
    linker->local = (uint32_t)((linker->local + align - 1) / align * align);
    const uint32_t at = linker->local;
    linker->local += (uint32_t)bytes;
    return at;
}

/* A shared variable of the module gets its place in this entry when it is first named. */
static const sim_symbol *place_shared(sim_linker *linker, const sim_declaration *v)
{
    for (uint32_t i = 0; i < linker->symbols; ++i) {
        if (linker->symbol[i].variable == v) {
            return &linker->symbol[i];
        }
    }
    sim_symbol s = {.name = v->name, .length = strlen(v->name), .space = SIM_SPACE_SHARED};
    s.variable = v;
    s.dynamic = v->external;
    if (v->external) {
        const uint32_t align = (uint32_t)v->align;
        linker->dynamic = true;
        linker->dynamic_align = align > linker->dynamic_align ? align : linker->dynamic_align;
    } else {
        linker->shared = (uint32_t)((linker->shared + v->align - 1) / v->align * v->align);
        s.value = SIM_SHARED_BASE + linker->shared;
        linker->shared += (uint32_t)v->bytes;
    }
    if (!sim_grow((void **)&linker->symbol, linker->symbols, &linker->symbol_room, sizeof s)) {
        return NULL;
    }
    /* At the bottom, so that the end of a scope does not drop it. */
    memmove(linker->symbol + 1, linker->symbol, linker->symbols * sizeof s);
    ++linker->symbols;
    linker->symbol[0] = s;
    return &linker->symbol[0];
}

/* The place of a variable or parameter. */
static bool parse_variable(sim_linker *linker, const char *name, sim_operand *out)
{
    uint32_t index;
    const sim_symbol *s = sim_find_symbol(linker, name, &index);
    if (s != NULL && !s->is_register) {
        out->value += s->value;
        out->space = (uint8_t)s->space;
        out->dynamic = s->dynamic;
        return true;
    }
    for (uint32_t i = 0; i < linker->module->variables; ++i) {
        const sim_declaration *v = &linker->module->variable[i];
        if (strcmp(v->name, name) != 0) {
            continue;
        }
        out->space = (uint8_t)v->space;
        if (v->space != SIM_SPACE_SHARED) {
            out->value += (int64_t)(uintptr_t)v->data;
            return true;
        }
        s = place_shared(linker, v);
        out->value += s != NULL ? s->value : 0;
        out->dynamic = s != NULL && s->dynamic;
        return s != NULL;
    }
    return false;
}

static void set_register(sim_operand *out, const sim_symbol *s, uint32_t index)
{
    out->kind = SIM_REGISTER;
    out->width = s->width;
    out->bits = s->bits;
    out->slot = s->slot + (s->width == 1 ? index : index * (s->width / 32u) * SIM_LANES);
    out->reg = s->reg + index;
}

static bool parse_elements(sim_linker *linker, char *text, sim_operand *out)
{
    char *item[300];
    const uint32_t count = sim_split(text, item, 300);
    out->elements = count;
    out->element = sim_arena_get(&linker->module->arena, count * sizeof *out->element + 1);
    if (count > 300 || out->element == NULL) {
        return sim_parse_fail(linker, "a vector is too long");
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (!sim_parse_operand(linker, item[i], &out->element[i])) {
            return false;
        }
    }
    return true;
}

/* "[base+4]", "[name]", "[64]", "[base, {x, y}]" without the brackets. */
static bool parse_address(sim_linker *linker, char *text, sim_operand *out)
{
    char *item[4];
    const uint32_t count = sim_split(text, item, 4);
    out->kind = SIM_ADDRESS;
    if (count == 0 || count > 2) {
        return sim_parse_fail(linker, "an address has %u parts", count);
    }
    if (count == 2) {
        sim_operand coordinates = {0};
        if (!sim_parse_operand(linker, item[1], &coordinates)) {
            return false;
        }
        out->element = coordinates.element;
        out->elements = coordinates.elements;
    }
    char *base = item[0], *sign = base + strcspn(base, "+-");
    if (sign == base) {
        sign = base + strlen(base);
    }
    if (*sign != 0) {
        const bool minus = *sign == '-';
        char *number = sim_trim(sign + 1);
        int64_t offset;
        if (!sim_parse_number(number, 64, &offset)) {
            return sim_parse_fail(linker, "an address has the offset %s", number);
        }
        out->value = minus ? -offset : offset;
        *sign = 0;
        base = sim_trim(base);
    }
    int64_t number;
    uint32_t index;
    if (isdigit((unsigned char)*base) && sim_parse_number(base, 64, &number)) {
        out->value += number;
        return true;
    }
    const sim_symbol *s = sim_find_symbol(linker, base, &index);
    if (s != NULL && s->is_register) {
        const int64_t offset = out->value;
        set_register(out, s, index);
        out->kind = SIM_ADDRESS;
        out->value = offset;
        return s->width != 1 ? true : sim_parse_fail(linker, "a predicate is no address");
    }
    return parse_variable(linker, base, out) ? true
                                             : sim_parse_fail(linker, "%s is not declared", base);
}

static bool parse_pair(sim_linker *linker, char *text, char *bar, sim_operand *out)
{
    sim_operand second = {0};
    *bar = 0;
    if (!sim_parse_operand(linker, text, out) || !sim_parse_operand(linker, bar + 1, &second)) {
        return false;
    }
    out->slot2 = second.slot;
    out->reg2 = second.reg;
    if (out->kind == SIM_SINK) {
        /* Only the second is wanted. */
        out->kind = SIM_REGISTER;
        out->width = second.width;
        out->reg = SIM_NO_REGISTER;
    }
    return true;
}

bool sim_parse_operand(sim_linker *linker, char *text, sim_operand *out)
{
    memset(out, 0, sizeof *out);
    out->reg = out->reg2 = SIM_NO_REGISTER;
    text = sim_trim(text);
    if (*text == '!') {
        out->negated = true;
        text = sim_trim(text + 1);
    }
    const size_t length = strlen(text);
    if (length == 0) {
        return sim_parse_fail(linker, "an operand is missing");
    }
    if (*text == '{' || *text == '[') {
        const bool vector = *text == '{';
        if (text[length - 1] != (vector ? '}' : ']')) {
            return sim_parse_fail(linker, "a bracket is not closed: %s", text);
        }
        text[length - 1] = 0;
        if (vector) {
            out->kind = SIM_VECTOR;
            return parse_elements(linker, text + 1, out);
        }
        return parse_address(linker, sim_trim(text + 1), out);
    }
    char *bar = strchr(text, '|');
    if (bar != NULL) {
        return parse_pair(linker, text, bar, out);
    }
    if (strcmp(text, "_") == 0) {
        out->kind = SIM_SINK;
        return true;
    }
    uint32_t index;
    const sim_symbol *s = sim_find_symbol(linker, text, &index);
    if (s != NULL && s->is_register) {
        const bool negated = out->negated;
        set_register(out, s, index);
        out->negated = negated;
        return true;
    }
    out->kind = SIM_IMMEDIATE;
    if (isdigit((unsigned char)*text) || (*text == '-' && isdigit((unsigned char)text[1]))) {
        out->name = sim_arena_text(&linker->module->arena, text, length);
        return sim_parse_number(text, 32, &out->value)
                   ? true
                   : sim_parse_fail(linker, "%s is no number", text);
    }
    if (*text == '%') {
        return sim_special_operand(linker, text, out);
    }
    if (strcmp(text, "WARP_SZ") == 0) {
        out->value = SIM_LANES;
        return true;
    }
    return parse_variable(linker, text, out) ? true
                                             : sim_parse_fail(linker, "%s is not declared", text);
}
