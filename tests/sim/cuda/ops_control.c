/* SPDX-License-Identifier: Apache-2.0
 *
 * Branches, calls, returns, traps; fences and hints, which need nothing here (memory is always in
 * order). Barriers are ops_barrier.c's. PTX ISA, "Control Flow Instructions".
 */
#include "decode.h"
#include "machine.h"
#include "wgmma.h"

static enum sim_step exec_branch(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_group *g = &warp->group[warp->current];
    if (mask == g->mask) {
        g->pc = in->target;
        return SIM_MOVED;
    }
    sim_move_lanes(warp, mask, in->target);
    ++warp->group[warp->current].pc;
    return SIM_MOVED;
}

static enum sim_step exec_indexed(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const uint32_t whole = warp->group[warp->current].mask;
    const uint32_t *index = sim_row32(warp, &in->arg[1]);
    uint32_t left = mask;
    if (mask != whole) {
        /* Those that the guard holds back go on. */
        const uint32_t next = warp->group[warp->current].pc + 1;
        sim_move_lanes(warp, whole & ~mask, next);
    }
    while (left != 0) {
        const int lane = __builtin_ctz(left);
        uint32_t same = 0;
        for (uint32_t others = left; others != 0; others &= others - 1) {
            const int other = __builtin_ctz(others);
            same |= (uint32_t)(index[other] == index[lane]) << other;
        }
        if (index[lane] >= in->target_count) {
            sim_fault(warp, in, lane, SIM_MEMORY, "branch target %u of %u", index[lane],
                      in->target_count);
            return SIM_MOVED;
        }
        sim_move_lanes(warp, same, in->targets[index[lane]]);
        left &= ~same;
    }
    return SIM_MOVED;
}

static enum sim_step exec_exit(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    if (!sim_wgmma_leave(warp, in)) {
        return SIM_MOVED;
    }
    sim_group *g = &warp->group[warp->current];
    if (mask != g->mask) {
        const uint32_t stay = g->mask & ~mask;
        sim_move_lanes(warp, stay, g->pc + 1);
    }
    sim_exit_lanes(warp, mask);
    return SIM_MOVED;
}

static enum sim_step exec_trap(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_fault(warp, in, __builtin_ctz(mask), SIM_TRAP, "the kernel trapped");
    return SIM_NEXT;
}

/* ---- calls ---- */

static void copy_local(sim_warp *warp, uint32_t mask, uint32_t to, uint32_t from, uint32_t bytes)
{
    const size_t size = warp->function->info.local;
    for (; mask != 0; mask &= mask - 1) {
        uint8_t *frame = warp->local + (size_t)__builtin_ctz(mask) * size - SIM_LOCAL_BASE;
        memcpy(frame + to, frame + from, bytes);
    }
}

/* The operands of a call: results and parameters, as places in local memory. */
static enum sim_step exec_call(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_callee *callee = in->callee;
    const uint32_t pc = warp->group[warp->current].pc;
    if ((warp->inside[callee->index] & mask) != 0) {
        sim_fault(warp, in, __builtin_ctz(mask), SIM_UNKNOWN, "recursion is not modelled");
        return SIM_MOVED;
    }
    warp->inside[callee->index] |= mask;
    for (uint32_t i = 0; i < callee->params; ++i) {
        copy_local(warp, mask, callee->param[i].local, (uint32_t)in->arg[2 + i].value,
                   callee->param[i].bytes);
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        warp->returns[callee->index * SIM_LANES + (uint32_t)__builtin_ctz(left)] = pc + 1;
    }
    const uint32_t whole = warp->group[warp->current].mask;
    if (mask != whole) {
        sim_move_lanes(warp, whole & ~mask, pc + 1);
    }
    sim_move_lanes(warp, mask, callee->start);
    return SIM_MOVED;
}

/* Results come back to where the call of each lane wants them. */
static enum sim_step exec_return(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_callee *callee = in->callee;
    sim_group *g = &warp->group[warp->current];
    if (mask != g->mask) {
        sim_move_lanes(warp, g->mask & ~mask, g->pc + 1);
    }
    warp->inside[callee->index] &= ~mask;
    while (mask != 0) {
        const uint32_t *to = warp->returns + callee->index * SIM_LANES;
        const uint32_t pc = to[__builtin_ctz(mask)];
        uint32_t same = 0;
        for (uint32_t left = mask; left != 0; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            same |= (uint32_t)(to[lane] == pc) << lane;
        }
        const sim_insn *call = &warp->function->code[pc - 1];
        for (uint32_t i = 0; i < callee->results && call->arg[1].kind == SIM_VECTOR; ++i) {
            copy_local(warp, same, (uint32_t)call->arg[1].element[i].value, callee->result[i].local,
                       callee->result[i].bytes);
        }
        sim_move_lanes(warp, same, pc);
        mask &= ~same;
    }
    return SIM_MOVED;
}

/* ---- decoding ---- */

static bool name_operand(sim_linker *linker, sim_insn *in, char *text, uint32_t args)
{
    text = sim_trim(text);
    in->arg = sim_arena_get(&linker->module->arena, args * sizeof *in->arg);
    if (in->arg == NULL) {
        return sim_parse_fail(linker, "out of memory");
    }
    in->args = (uint16_t)args;
    in->arg[0].kind = SIM_NAME;
    in->arg[0].reg = in->arg[0].reg2 = SIM_NO_REGISTER;
    in->arg[0].name = sim_arena_text(&linker->module->arena, text, strlen(text));
    in->target = linker->scope;
    return in->arg[0].name != NULL && *text != 0;
}

static sim_callee *find_callee(sim_linker *linker, const char *name)
{
    for (uint32_t i = 0; i < linker->callees; ++i) {
        if (strcmp(linker->callee[i]->source->name, name) == 0) {
            return linker->callee[i];
        }
    }
    const sim_module *m = linker->module;
    for (uint32_t i = 0; i < m->sources; ++i) {
        const sim_source *s = &m->source[i];
        if (s->body == NULL || strcmp(s->name, name) != 0) {
            continue;
        }
        sim_callee *callee = sim_arena_get(&linker->module->arena, sizeof *callee);
        if (callee == NULL || !sim_grow((void **)&linker->callee, linker->callees,
                                        &linker->callee_room, sizeof(sim_callee *))) {
            return NULL;
        }
        callee->source = s;
        callee->index = linker->callees;
        callee->params = s->params;
        callee->results = s->results;
        linker->callee[linker->callees++] = callee;
        return callee;
    }
    return NULL;
}

/* A list "(a, b)" of places in local memory. */
static bool call_places(sim_linker *linker, char *list, sim_operand *out, uint32_t limit,
                        uint32_t *count)
{
    char *item[64];
    const size_t length = strlen(list);
    if (length < 2 || list[0] != '(' || list[length - 1] != ')') {
        return sim_parse_fail(linker, "a list of a call has no parentheses");
    }
    list[length - 1] = 0;
    *count = sim_split(list + 1, item, 64);
    if (*count > limit || *count > 64) {
        return sim_parse_fail(linker, "a call has too many operands");
    }
    for (uint32_t i = 0; i < *count; ++i) {
        if (!sim_parse_operand(linker, item[i], &out[i])) {
            return false;
        }
        if (out[i].kind != SIM_IMMEDIATE || out[i].space != SIM_SPACE_LOCAL) {
            return sim_parse_fail(linker, "a call passes something that is no .param");
        }
    }
    return true;
}

/* "(results), name, (parameters)"; either list may be missing. */
static bool call_operands(sim_linker *linker, sim_insn *in, char *operands)
{
    char *item[4];
    const uint32_t count = sim_split(operands, item, 4);
    const uint32_t results = count != 0 && item[0][0] == '(' ? 1 : 0;
    uint32_t params = 0, given = 0;
    if (count <= results || count > results + 2) {
        return sim_parse_fail(linker, "indirect calls are not modelled");
    }
    if (!name_operand(linker, in, item[results], 2 + 64)) {
        return false;
    }
    sim_operand *list = &in->arg[1];
    list->reg = list->reg2 = SIM_NO_REGISTER;
    if (results != 0) {
        list->kind = SIM_VECTOR;
        list->element = sim_arena_get(&linker->module->arena, 4 * sizeof *list->element);
        if (list->element == NULL || !call_places(linker, item[0], list->element, 4, &given)) {
            return sim_parse_fail(linker, "out of memory");
        }
    }
    if (count > results + 1 && !call_places(linker, item[results + 1], &in->arg[2], 64, &params)) {
        return false;
    }
    if (strcmp(in->arg[0].name, "__assertfail") == 0) {
        in->exec = exec_trap;
        in->arg[0].kind = SIM_SINK;
        return true;
    }
    in->callee = find_callee(linker, in->arg[0].name);
    in->exec = exec_call;
    if (in->callee == NULL) {
        return sim_parse_fail(linker, "%s has no body in this text", in->arg[0].name);
    }
    return (given == 0 || given == in->callee->results) && params == in->callee->params
               ? true
               : sim_parse_fail(linker, "the call and its function differ in their operands");
}

bool sim_branch_operands(sim_linker *linker, sim_insn *in, char *operands)
{
    const char *root = linker->part[0];
    sim_take(linker, "uni");
    if (strcmp(root, "call") == 0) {
        return call_operands(linker, in, operands);
    }
    if (strcmp(root, "bra") == 0) {
        in->exec = exec_branch;
        return name_operand(linker, in, operands, 1);
    }
    if (strcmp(root, "brx") == 0) {
        char *item[2];
        if (!sim_take(linker, "idx") || sim_split(operands, item, 2) != 2 ||
            !name_operand(linker, in, item[1], 2) ||
            !sim_parse_operand(linker, item[0], &in->arg[1])) {
            return sim_parse_fail(linker, "an indexed branch needs an index and a list");
        }
        in->exec = exec_indexed;
        return in->arg[1].kind == SIM_REGISTER && in->arg[1].width == 32 &&
               sim_reads(linker, &in->arg[1]);
    }
    in->exec = strcmp(root, "trap") == 0 ? exec_trap : exec_exit;
    if (strcmp(root, "ret") == 0 && !linker->source->entry) {
        in->exec = exec_return;
        in->callee = find_callee(linker, linker->source->name);
        return in->callee != NULL;
    }
    return *sim_trim(operands) == 0;
}

bool sim_decode_branch(sim_linker *linker, sim_insn *in)
{
    (void)linker;
    return in->exec != NULL;
}

/* ---- what needs nothing ---- */

static enum sim_step exec_nothing(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)warp;
    (void)in;
    (void)mask;
    return SIM_NEXT;
}

static enum sim_step exec_sleep(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)warp;
    (void)in;
    (void)mask;
    return SIM_YIELD;
}

static enum sim_step exec_fence(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)in;
    (void)mask;
    sim_race_fence_threads(warp);
    return SIM_NEXT;
}

static void take_all(sim_linker *linker)
{
    for (uint32_t i = 1; i < linker->parts; ++i) {
        linker->used[i] = true;
    }
}

bool sim_decode_fence(sim_linker *linker, sim_insn *in)
{
    static const char *const kinds[] = {"sc", "acq_rel", "acquire", "release", NULL};
    static const char *const levels[] = {"cta", "cluster", "gpu", "gl", "sys", NULL};
    if (linker->parts > 1 &&
        (strcmp(linker->part[1], "proxy") == 0 || strcmp(linker->part[1], "mbarrier_init") == 0)) {
        return sim_decode_proxy_fence(linker, in);
    }
    sim_take_of(linker, kinds);
    sim_take_of(linker, levels);
    in->exec = exec_fence;
    return sim_operands(linker, in, "");
}

/* prefetch, discard, applypriority, brkpt, griddepcontrol */
bool sim_decode_hint(sim_linker *linker, sim_insn *in)
{
    take_all(linker);
    in->exec = exec_nothing;
    return true;
}

bool sim_decode_sleep(sim_linker *linker, sim_insn *in)
{
    in->type = (uint8_t)sim_take_type(linker);
    in->exec = exec_sleep;
    return in->type == SIM_U32 && sim_operands(linker, in, "s");
}
