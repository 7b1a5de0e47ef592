/* SPDX-License-Identifier: Apache-2.0
 *
 * From an opcode's parts to an instruction: the table of decoders and what they all need. Every
 * part between the dots must be taken by somebody, so that no modifier is ever passed over.
 */
#include "decode.h"

#include <string.h>

static const struct {
    const char *root;
    sim_decoder *decoder;
} decoders[] = {
    /* clang-format off */
    {"abs", sim_decode_unary},         {"activemask", sim_decode_activemask},
    {"add", sim_decode_add},           {"addc", sim_decode_carry},
    {"and", sim_decode_logic},         {"applypriority", sim_decode_hint},
    {"atom", sim_decode_atomic},       {"bar", sim_decode_barrier},
    {"barrier", sim_decode_barrier},   {"bfe", sim_decode_bits},
    {"bfi", sim_decode_bits},          {"bfind", sim_decode_bits},
    {"bmsk", sim_decode_bits},         {"bra", sim_decode_branch},
    {"brev", sim_decode_bits},         {"brkpt", sim_decode_hint},
    {"brx", sim_decode_branch},        {"call", sim_decode_branch},
    {"clz", sim_decode_bits},          {"cnot", sim_decode_logic},
    {"copysign", sim_decode_copysign}, {"cos", sim_decode_transcendental},
    {"cp", sim_decode_copy},           {"createpolicy", sim_decode_policy},
    {"cvt", sim_decode_convert},       {"cvta", sim_decode_address},
    {"discard", sim_decode_hint},      {"div", sim_decode_divide},
    {"dp2a", sim_decode_dot},          {"dp4a", sim_decode_dot},
    {"elect", sim_decode_elect},       {"ex2", sim_decode_transcendental},
    {"exit", sim_decode_branch},       {"fence", sim_decode_fence},
    {"fma", sim_decode_fma},           {"getctarank", sim_decode_rank},
    {"griddepcontrol", sim_decode_grid},
    {"isspacep", sim_decode_space},    {"ld", sim_decode_load},
    {"ldmatrix", sim_decode_matrix},   {"ldu", sim_decode_load},
    {"lg2", sim_decode_transcendental}, {"lop3", sim_decode_logic3},
    {"mad", sim_decode_mad},           {"mad24", sim_decode_mad},
    {"madc", sim_decode_carry},        {"mapa", sim_decode_map},
    {"match", sim_decode_match},
    {"max", sim_decode_extreme},       {"membar", sim_decode_fence},
    {"mbarrier", sim_decode_mbarrier},
    {"min", sim_decode_extreme},       {"mma", sim_decode_mma},
    {"mov", sim_decode_move},          {"movmatrix", sim_decode_matrix},
    {"mul", sim_decode_mul},           {"mul24", sim_decode_mul},
    {"nanosleep", sim_decode_sleep},   {"neg", sim_decode_unary},
    {"not", sim_decode_logic},         {"or", sim_decode_logic},
    {"popc", sim_decode_bits},         {"prefetch", sim_decode_prefetch},
    {"prefetchu", sim_decode_hint},    {"prmt", sim_decode_permute},
    {"rcp", sim_decode_transcendental}, {"red", sim_decode_atomic},
    {"redux", sim_decode_redux},       {"rem", sim_decode_divide},
    {"ret", sim_decode_branch},        {"rsqrt", sim_decode_transcendental},
    {"sad", sim_decode_mad},           {"selp", sim_decode_select},
    {"set", sim_decode_compare},       {"setmaxnreg", sim_decode_setmaxnreg},
          {"setp", sim_decode_compare},
    {"shf", sim_decode_funnel},        {"shfl", sim_decode_shuffle},
    {"shl", sim_decode_shift},         {"shr", sim_decode_shift},
    {"sin", sim_decode_transcendental}, {"slct", sim_decode_select},
    {"sqrt", sim_decode_transcendental}, {"st", sim_decode_store},
    {"stmatrix", sim_decode_matrix},   {"sub", sim_decode_add},
    {"subc", sim_decode_carry},        {"szext", sim_decode_bits},
    {"tanh", sim_decode_transcendental}, {"testp", sim_decode_testp},
    {"trap", sim_decode_branch},       {"vote", sim_decode_vote},
    {"wgmma", sim_decode_wgmma},       {"xor", sim_decode_logic},
    /* clang-format on */
};

/* Those whose instructions turn registers of a lane into registers of the same lane. */
static sim_decoder *const lanewise[] = {
    sim_decode_unary,   sim_decode_add,     sim_decode_carry,    sim_decode_logic,
    sim_decode_logic3,  sim_decode_bits,    sim_decode_copysign, sim_decode_transcendental,
    sim_decode_convert, sim_decode_address, sim_decode_divide,   sim_decode_dot,
    sim_decode_fma,     sim_decode_mad,     sim_decode_extreme,  sim_decode_mul,
    sim_decode_permute, sim_decode_compare, sim_decode_funnel,   sim_decode_shift,
    sim_decode_testp,
};

static bool is_lanewise(sim_decoder *decoder)
{
    for (size_t i = 0; i < sizeof lanewise / sizeof lanewise[0]; ++i) {
        if (lanewise[i] == decoder) {
            return true;
        }
    }
    return false;
}

bool sim_take(sim_linker *linker, const char *part)
{
    for (uint32_t i = 1; i < linker->parts; ++i) {
        if (!linker->used[i] && strcmp(linker->part[i], part) == 0) {
            return linker->used[i] = true;
        }
    }
    return false;
}

int sim_take_of(sim_linker *linker, const char *const *list)
{
    for (int i = 0; list[i] != NULL; ++i) {
        if (sim_take(linker, list[i])) {
            return i;
        }
    }
    return -1;
}

bool sim_take_prefix(sim_linker *linker, const char *prefix)
{
    for (uint32_t i = 1; i < linker->parts; ++i) {
        if (!linker->used[i] && strncmp(linker->part[i], prefix, strlen(prefix)) == 0) {
            return linker->used[i] = true;
        }
    }
    return false;
}

enum sim_type sim_take_type(sim_linker *linker)
{
    for (uint32_t i = 1; i < linker->parts; ++i) {
        const enum sim_type type = linker->used[i] ? SIM_TYPE_NONE : sim_type_find(linker->part[i]);
        if (type != SIM_TYPE_NONE) {
            linker->used[i] = true;
            return type;
        }
    }
    return SIM_TYPE_NONE;
}

void sim_take_scopes(sim_linker *linker)
{
    static const char *const order[] = {"weak",    "volatile", "relaxed", "acquire",
                                        "release", "acq_rel",  "mmio",    NULL};
    static const char *const scope[] = {"cta", "cluster", "gpu", "sys", NULL};
    sim_take_of(linker, order);
    sim_take_of(linker, scope);
}

enum sim_round sim_take_round(sim_linker *linker)
{
    static const char *const names[] = {"rn", "rz", "rm", "rp", "rna", NULL};
    const int found = sim_take_of(linker, names);
    return found < 0 ? SIM_RN : (enum sim_round)found;
}

bool sim_use_immediate(sim_linker *linker, sim_operand *operand, unsigned width)
{
    operand->width = (uint8_t)width;
    if (!sim_grow((void **)&linker->patch, linker->patches, &linker->patch_room,
                  sizeof(sim_operand *))) {
        return sim_parse_fail(linker, "out of memory");
    }
    linker->patch[linker->patches++] = operand;
    return true;
}

bool sim_reads(sim_linker *linker, const sim_operand *operand)
{
    if (operand->reg == SIM_NO_REGISTER) {
        return true;
    }
    if (linker->reads == sizeof linker->read / sizeof linker->read[0]) {
        return sim_parse_fail(linker, "too many sources");
    }
    linker->read[linker->reads++] = operand->reg;
    return true;
}

bool sim_writes(sim_linker *linker, const sim_operand *operand)
{
    if (linker->writes + 2 > sizeof linker->write / sizeof linker->write[0]) {
        return sim_parse_fail(linker, "too many destinations");
    }
    if (operand->reg != SIM_NO_REGISTER) {
        linker->write[linker->writes++] = operand->reg;
    }
    if (operand->reg2 != SIM_NO_REGISTER) {
        linker->write[linker->writes++] = operand->reg2;
    }
    return true;
}

static unsigned slot_bits(enum sim_type type)
{
    const unsigned bits = sim_type_bits(type);
    return type == SIM_PRED ? 1 : bits <= 32 ? 32 : bits;
}

static bool use_source(sim_linker *linker, sim_operand *o, unsigned width)
{
    if (o->kind == SIM_IMMEDIATE) {
        /* A decimal point means the type's own width. */
        if (o->name != NULL && width == 64) {
            sim_parse_number(o->name, 64, &o->value);
        }
        return sim_use_immediate(linker, o, width < 32 ? 64 : width);
    }
    if (o->kind != SIM_REGISTER || (width != 0 && o->width != width) ||
        (width != 1 && o->width == 1)) {
        return sim_parse_fail(linker, "a source is no register of %u bits", width);
    }
    return sim_reads(linker, o);
}

/* Registers of any width, numbers of that of the type. */
static bool use_element(sim_linker *linker, sim_operand *o, unsigned width)
{
    return use_source(linker, o, o->kind == SIM_IMMEDIATE ? width : 0);
}

static bool use_destination(sim_linker *linker, sim_operand *o, unsigned width)
{
    if (o->kind == SIM_SINK) {
        return true;
    }
    if (o->kind != SIM_REGISTER || (width != 0 && o->width != width)) {
        return sim_parse_fail(linker, "the destination is no register of %u bits", width);
    }
    return sim_writes(linker, o);
}

static bool use_operand(sim_linker *linker, sim_insn *in, sim_operand *o, char letter)
{
    const unsigned bits = sim_type_bits((enum sim_type)in->type);
    const unsigned width = slot_bits((enum sim_type)in->type);
    const unsigned twice = bits < 32 ? 32 : bits * 2;
    switch (letter) {
    case 'd':
        return use_destination(linker, o, width);
    case 'D':
        return use_destination(linker, o, twice);
    case 'W':
        return use_destination(linker, o, 32);
    case 'x':
        return use_destination(linker, o, 0);
    case 'P':
        return use_destination(linker, o, 1);
    case 's':
        return use_source(linker, o, width);
    case 'S':
        return use_source(linker, o, twice);
    case 'f':
        return use_source(linker, o, slot_bits((enum sim_type)in->from));
    case 'w':
        return use_source(linker, o, 32);
    case 'l':
        return use_source(linker, o, 64);
    case 'y':
        return use_source(linker, o, 0);
    case 'p':
        return use_source(linker, o, 1);
    case 'm':
        return o->kind == SIM_ADDRESS
                   ? (!o->dynamic || sim_use_immediate(linker, o, 64)) && sim_reads(linker, o)
                   : sim_parse_fail(linker, "an operand is no address");
    case 'i':
        return o->kind == SIM_IMMEDIATE
                   ? true
                   : sim_parse_fail(linker, "an operand must be a number here");
    default:
        break;
    }
    const unsigned element = letter == 'V' && width > 1 ? width : 0;
    if (o->kind != SIM_VECTOR) {
        return sim_parse_fail(linker, "an operand is no vector");
    }
    for (uint32_t i = 0; i < o->elements; ++i) {
        if (!(letter == 'v' ? use_destination(linker, &o->element[i], 0)
                            : use_element(linker, &o->element[i], element))) {
            return false;
        }
    }
    return true;
}

bool sim_operands(sim_linker *linker, sim_insn *in, const char *shape)
{
    uint32_t i = 0;
    bool optional = false;
    for (const char *c = shape; *c != 0; ++c) {
        if (*c == '?') {
            optional = true;
            continue;
        }
        if (i == in->args) {
            return optional ? true : sim_parse_fail(linker, "operands are missing");
        }
        if (!use_operand(linker, in, &in->arg[i++], *c)) {
            return false;
        }
    }
    return i == in->args ? true : sim_parse_fail(linker, "too many operands");
}

static bool split_opcode(sim_linker *linker, const char *opcode)
{
    char *copy = sim_arena_text(&linker->module->arena, opcode, strlen(opcode)), *save = NULL;
    if (copy == NULL) {
        return sim_parse_fail(linker, "out of memory");
    }
    linker->parts = 0;
    memset(linker->used, 0, sizeof linker->used);
    for (char *part = strtok_r(copy, ".", &save); part != NULL; part = strtok_r(NULL, ".", &save)) {
        if (linker->parts == SIM_PARTS) {
            return sim_parse_fail(linker, "an opcode has too many parts");
        }
        linker->part[linker->parts++] = part;
    }
    return linker->parts != 0 ? true : sim_parse_fail(linker, "the opcode is missing");
}

static bool parse_operands(sim_linker *linker, sim_insn *in, char *operands)
{
    char *item[SIM_ARGS];
    const uint32_t count = sim_split(operands, item, SIM_ARGS);
    in->args = (uint16_t)count;
    in->arg = sim_arena_get(&linker->module->arena, count * sizeof *in->arg + 1);
    if (count > SIM_ARGS || in->arg == NULL) {
        return sim_parse_fail(linker, "too many operands");
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (!sim_parse_operand(linker, item[i], &in->arg[i])) {
            return false;
        }
    }
    return true;
}

static bool keep_registers(sim_linker *linker, sim_insn *in)
{
    const size_t bytes = (linker->reads + linker->writes) * sizeof(uint32_t);
    uint32_t *list = sim_arena_get(&linker->module->arena, bytes + 1);
    if (list == NULL) {
        return sim_parse_fail(linker, "out of memory");
    }
    in->reads = list;
    in->read_count = (uint16_t)linker->reads;
    in->writes = list + linker->reads;
    in->write_count = (uint16_t)linker->writes;
    memcpy(in->reads, linker->read, linker->reads * sizeof(uint32_t));
    memcpy(in->writes, linker->write, linker->writes * sizeof(uint32_t));
    return true;
}

bool sim_decode(sim_linker *linker, sim_insn *in, const char *opcode, char *operands)
{
    linker->reads = linker->writes = 0;
    if (!split_opcode(linker, opcode)) {
        return false;
    }
    sim_decoder *decoder = NULL;
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0] && decoder == NULL; ++i) {
        decoder = strcmp(decoders[i].root, linker->part[0]) == 0 ? decoders[i].decoder : NULL;
    }
    if (decoder == NULL) {
        return sim_parse_fail(linker, "the instruction %s is not modelled", opcode);
    }
    const bool names = decoder == sim_decode_branch;
    in->lanewise = is_lanewise(decoder);
    if (!(names ? sim_branch_operands(linker, in, operands)
                : parse_operands(linker, in, operands)) ||
        !decoder(linker, in)) {
        return sim_parse_fail(linker, "%s is not modelled in this form", opcode);
    }
    for (uint32_t i = 1; i < linker->parts; ++i) {
        if (!linker->used[i]) {
            return sim_parse_fail(linker, "the .%s of %s is not modelled", linker->part[i], opcode);
        }
    }
    for (uint32_t i = 1; i < linker->parts; ++i) {
        in->cluster |= strcmp(linker->part[i], "shared::cluster") == 0;
    }
    return keep_registers(linker, in);
}
