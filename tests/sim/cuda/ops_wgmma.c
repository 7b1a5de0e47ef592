/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma.fence, mma_async, commit_group, wait_group: who may ask for products when, and when they
 * are over. See wgmma.h. PTX ISA, "wgmma.mma_async", "wgmma.fence", "wgmma.wait_group".
 */
#include <stdlib.h>

#include "async.h"
#include "decode.h"
#include "wgmma.h"

enum { ALL_CAME = (1 << SIM_GROUP_WARPS) - 1, A_NEGATIVE = 1, B_NEGATIVE = 2 };
/* sim_use.shape of a fragment of A; those of accumulators are larger. */
enum { SHAPE_OF_A = 1 };

/* ---- products under way ---- */

static sim_warpgroup *group_of(const sim_warp *warp)
{
    return &warp->block->warpgroup[warp->index / SIM_GROUP_WARPS];
}

static uint32_t entry_of(const sim_warp *warp)
{
    return warp->block->first_group + warp->index / SIM_GROUP_WARPS;
}

static void wake_group(sim_warp *warp)
{
    sim_warp *first = &warp->block->warp[warp->index / SIM_GROUP_WARPS * SIM_GROUP_WARPS];
    ++warp->block->events;
    for (uint32_t i = 0; i < SIM_GROUP_WARPS; ++i) {
        for (uint32_t j = 0; j < first[i].groups; ++j) {
            sim_group *g = &first[i].group[j];
            g->state = g->state == SIM_WAITS_PHASE ? (uint8_t)SIM_RUNS : g->state;
        }
    }
}

enum for_all { LOOK, PIN, UNPIN };

/* Does something for each piece of a matrix in shared memory. False after a fault. */
static bool each_piece(sim_warp *warp, const sim_insn *in, uint64_t descriptor, uint32_t first,
                       uint32_t rows, enum for_all what)
{
    sim_matrix m;
    const char *why;
    if (!sim_matrix_decode(descriptor, &m, &why)) {
        return sim_fault(warp, in, -1, SIM_MEMORY, "descriptor 0x%016llx: %s",
                         (unsigned long long)descriptor, why);
    }
    for (uint32_t row = first; row < first + rows; ++row) {
        for (uint32_t column = 0; column < 2; ++column) {
            const uint32_t offset = sim_matrix_at(&m, row, column) - SIM_SHARED_BASE;
            if (what == LOOK && sim_async_look(warp, in, offset, 16) == NULL) {
                return false;
            }
            if (what == PIN) {
                sim_async_pin(warp->block, offset, 16);
            } else if (what == UNPIN) {
                sim_async_unpin(warp->block, offset, 16);
                sim_race_note((sim_place){warp->block, offset}, 16, entry_of(warp),
                              group_of(warp)->ran + 1);
            }
        }
    }
    return true;
}

static bool from_registers(const sim_insn *in)
{
    return in->arg[1].kind == SIM_VECTOR;
}

/* The proxy's reads for a product are over, whoever they were for. */
static void let_go(sim_warp *warp, const sim_product *p)
{
    each_piece(warp, p->in, p->b, 0, p->in->target, UNPIN);
    if (!from_registers(p->in)) {
        each_piece(warp, p->in, p->a, 0, SIM_GROUP_M, UNPIN);
    }
}

/* Computes the next one; all four warps must have come to it. */
static void run_next(sim_warp *warp)
{
    sim_warpgroup *g = group_of(warp);
    sim_product *p = &g->product[g->ran - g->first];
    sim_product_compute(warp->block, warp->index / SIM_GROUP_WARPS, p);
    let_go(warp, p);
    p->done = true;
    ++g->ran;
    ++warp->block->events;
}

static bool is_ready(const sim_warpgroup *g)
{
    return g->ran - g->first < g->products && g->product[g->ran - g->first].came == ALL_CAME;
}

void sim_wgmma_advance(sim_warp *warp)
{
    if (warp->index / SIM_GROUP_WARPS < warp->block->warps / SIM_GROUP_WARPS &&
        is_ready(group_of(warp))) {
        run_next(warp);
    }
}

/* ---- registers ---- */

static bool touch(sim_warp *warp, const sim_insn *in, uint32_t reg)
{
    sim_use *use = &warp->wgmma->use[reg];
    use->epoch = warp->wgmma->epoch + 1;
    use->shape = 0;
    return use->busy == 0 ? true
                          : sim_fault(warp, in, -1, SIM_RACE,
                                      "a register belongs to a wgmma that has not been waited for");
}

bool sim_wgmma_touch(sim_warp *warp, const sim_insn *in)
{
    for (uint32_t i = 0; i < in->read_count; ++i) {
        if (!touch(warp, in, in->reads[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < in->write_count; ++i) {
        if (!touch(warp, in, in->writes[i])) {
            return false;
        }
    }
    return true;
}

/* A register comes into the hands of a product. */
static bool take(sim_warp *warp, const sim_insn *in, const sim_operand *o, uint16_t shape,
                 bool reads)
{
    sim_wgmma *w = warp->wgmma;
    sim_use *use = &w->use[o->reg];
    if (use->busy != 0 && use->shape != shape) {
        return sim_fault(warp, in, -1, SIM_RACE,
                         "a register belongs to a wgmma of another kind that has not been waited "
                         "for");
    }
    if (use->epoch > w->epoch && use->shape != shape) {
        return sim_fault(warp, in, -1, SIM_RACE,
                         use->shape == 0
                             ? "a register was used with no wgmma.fence since"
                             : "a register was used by a wgmma of another shape with no "
                               "wgmma.fence since");
    }
    const uint32_t missing = ~warp->written[o->reg];
    if (reads && missing != 0 && !warp->block->config->options.no_registers) {
        return sim_fault(warp, in, __builtin_ctz(missing), SIM_UNSET,
                         "a source register was never written");
    }
    if (use->busy == UINT16_MAX) {
        return sim_fault(warp, in, -1, SIM_LIMIT, "%d products are under way", UINT16_MAX);
    }
    use->epoch = w->epoch + 1;
    use->shape = shape;
    ++use->busy;
    warp->written[o->reg] = SIM_ALL_LANES;
    return true;
}

static bool take_registers(sim_warp *warp, const sim_insn *in, bool adds)
{
    const sim_operand *d = &in->arg[0], *a = &in->arg[1];
    for (uint32_t i = 0; i < d->elements; ++i) {
        if (!take(warp, in, &d->element[i], (uint16_t)in->result_bits << 9 | in->target, adds)) {
            return false;
        }
    }
    for (uint32_t i = 0; from_registers(in) && i < a->elements; ++i) {
        if (!take(warp, in, &a->element[i], SHAPE_OF_A, true)) {
            return false;
        }
    }
    return true;
}

static void give_back(sim_warp *warp, const sim_insn *in)
{
    const sim_operand *d = &in->arg[0], *a = &in->arg[1];
    for (uint32_t i = 0; i < d->elements; ++i) {
        --warp->wgmma->use[d->element[i].reg].busy;
    }
    for (uint32_t i = 0; from_registers(in) && i < a->elements; ++i) {
        --warp->wgmma->use[a->element[i].reg].busy;
    }
}

/* ---- mma_async ---- */

static bool uniform(sim_warp *warp, const sim_insn *in, const sim_operand *o, uint64_t *value)
{
    uint64_t lanes[SIM_LANES];
    sim_values(warp, o, lanes);
    *value = lanes[0];
    for (int lane = 1; lane < SIM_LANES; ++lane) {
        if (lanes[lane] != *value) {
            return sim_fault(warp, in, lane, SIM_DIVERGED, "lanes have different descriptors");
        }
    }
    return true;
}

static bool whole_group(sim_warp *warp, const sim_insn *in)
{
    const sim_block *block = warp->block;
    const uint32_t first = warp->index / SIM_GROUP_WARPS * SIM_GROUP_WARPS;
    for (uint32_t i = 0; i < SIM_GROUP_WARPS; ++i) {
        if (first + i >= block->warps || block->warp[first + i].born != SIM_ALL_LANES) {
            return sim_fault(warp, in, -1, SIM_DIVERGED, "the warpgroup has no warp %u of 32 lanes",
                             first + i);
        }
    }
    return true;
}

static bool read_request(sim_warp *warp, const sim_insn *in, sim_product *out)
{
    const uint32_t adds = sim_true_lanes(warp, &in->arg[3]);
    *out = (sim_product){.in = in, .adds = adds != 0};
    if (adds != 0 && adds != SIM_ALL_LANES) {
        return sim_fault(warp, in, -1, SIM_DIVERGED, "scale-d differs between lanes");
    }
    return (from_registers(in) || uniform(warp, in, &in->arg[1], &out->a)) &&
           uniform(warp, in, &in->arg[2], &out->b);
}

/* The product that the warp is about to ask for: a new one, or one that others asked for. */
static sim_product *find_product(sim_warp *warp, const sim_insn *in, const sim_product *request)
{
    sim_warpgroup *g = group_of(warp);
    const uint32_t index = warp->wgmma->issued - g->first;
    if (index == g->products) {
        if (!sim_grow((void **)&g->product, g->products, &g->room, sizeof *g->product)) {
            sim_fault(warp, in, -1, SIM_HOST, "out of memory");
            return NULL;
        }
        g->product[g->products++] = *request;
        return &g->product[index];
    }
    sim_product *p = &g->product[index];
    if (p->in != in || p->a != request->a || p->b != request->b || p->adds != request->adds) {
        sim_fault(warp, in, -1, SIM_DIVERGED,
                  p->in != in ? "another warp of the warpgroup is at the wgmma of PTX line %u"
                              : "another warp of the warpgroup has other descriptors or another "
                                "scale-d (line %u)",
                  p->in->line);
        return NULL;
    }
    return p;
}

static enum sim_step exec_mma(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_product request;
    (void)mask;
    if (!whole_group(warp, in) || !read_request(warp, in, &request)) {
        return SIM_NEXT;
    }
    if (warp->wgmma->epoch == 0) {
        sim_fault(warp, in, -1, SIM_RACE, "no wgmma.fence came before the first wgmma");
        return SIM_NEXT;
    }
    const uint32_t rank = warp->index % SIM_GROUP_WARPS;
    sim_product *p = find_product(warp, in, &request);
    if (p == NULL || !take_registers(warp, in, request.adds) ||
        !each_piece(warp, in, request.b, 0, in->target, LOOK) ||
        (!from_registers(in) && !each_piece(warp, in, request.a, rank * 16, 16, LOOK))) {
        return SIM_NEXT;
    }
    if (p->came == 0) {
        each_piece(warp, in, request.b, 0, in->target, PIN);
    }
    if (!from_registers(in)) {
        each_piece(warp, in, request.a, rank * 16, 16, PIN);
    }
    p->came |= (uint8_t)(1u << rank);
    ++warp->wgmma->issued;
    if (p->came == ALL_CAME) {
        wake_group(warp);
    }
    return SIM_NEXT;
}

/* ---- fence, commit_group, wait_group ---- */

static enum sim_step exec_fence(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    (void)mask;
    if (whole_group(warp, in)) {
        ++warp->wgmma->epoch;
    }
    return SIM_NEXT;
}

static enum sim_step exec_commit(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_wgmma *w = warp->wgmma;
    (void)mask;
    if (!sim_grow((void **)&w->group, w->groups, &w->group_room, sizeof *w->group)) {
        sim_fault(warp, in, -1, SIM_HOST, "out of memory");
        return SIM_NEXT;
    }
    w->group[w->groups++] = w->issued;
    return SIM_NEXT;
}

/* Drops the products that all four warps have waited for. */
static void forget(sim_warp *warp)
{
    sim_warpgroup *g = group_of(warp);
    const sim_warp *first = &warp->block->warp[warp->index / SIM_GROUP_WARPS * SIM_GROUP_WARPS];
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < SIM_GROUP_WARPS; ++i) {
        const uint32_t waited = first[i].wgmma->waited;
        least = waited < least ? waited : least;
    }
    const uint32_t gone = least - g->first;
    g->products -= gone;
    g->first = least;
    memmove(g->product, g->product + gone, g->products * sizeof *g->product);
}

static enum sim_step exec_wait(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    sim_wgmma *w = warp->wgmma;
    const uint32_t keep = (uint32_t)in->arg[0].value;
    (void)mask;
    if (w->groups <= keep || !whole_group(warp, in)) {
        return SIM_NEXT;
    }
    sim_warpgroup *g = group_of(warp);
    const uint32_t gone = w->groups - keep, target = w->group[gone - 1];
    while (g->ran < target && is_ready(g)) {
        run_next(warp);
    }
    if (g->ran < target) {
        return SIM_PARK;
    }
    for (; w->waited < target; ++w->waited) {
        give_back(warp, g->product[w->waited - g->first].in);
    }
    w->groups = keep;
    memmove(w->group, w->group + gone, keep * sizeof *w->group);
    if (warp->clock.at[entry_of(warp)] < target) {
        warp->clock.at[entry_of(warp)] = target;
    }
    forget(warp);
    return SIM_NEXT;
}

bool sim_wgmma_leave(sim_warp *warp, const sim_insn *in)
{
    return warp->wgmma == NULL || warp->wgmma->issued == warp->wgmma->waited
               ? true
               : sim_fault(warp, in, -1, SIM_RACE,
                           "the warp leaves with a wgmma that it has not waited for");
}

/* ---- decoding ---- */

static bool decode_types(sim_linker *linker, sim_insn *in, unsigned k)
{
    const enum sim_type a = (enum sim_type)in->from, b = (enum sim_type)in->mode2;
    switch (a) {
    case SIM_F16:
        return b == a && k == 16 && (in->type == SIM_F32 || in->type == SIM_F16);
    case SIM_BF16:
        return b == a && k == 16 && in->type == SIM_F32;
    case SIM_E4M3:
    case SIM_E5M2:
        if (in->type == SIM_F16) {
            return sim_parse_fail(linker, "f16 sums of 8-bit floats are not modelled");
        }
        return (b == SIM_E4M3 || b == SIM_E5M2) && k == 32 && in->type == SIM_F32;
    case SIM_S8:
    case SIM_U8:
        return (b == SIM_S8 || b == SIM_U8) && k == 32 && in->type == SIM_S32;
    default:
        return false;
    }
}

/* "m64n128k16": n into in->target. */
static bool decode_shape(sim_linker *linker, sim_insn *in, unsigned *k)
{
    for (uint32_t i = 1; i < linker->parts; ++i) {
        const char *part = linker->part[i];
        char *end;
        if (linker->used[i] || strncmp(part, "m64n", 4) != 0) {
            continue;
        }
        in->target = (uint32_t)strtoul(part + 4, &end, 10);
        if (*end != 'k') {
            return false;
        }
        *k = (unsigned)strtoul(end + 1, &end, 10);
        linker->used[i] = true;
        return *end == 0 && in->target % 8 == 0 && in->target >= 8 && in->target <= SIM_MOST_N;
    }
    return false;
}

static bool registers_of(const sim_operand *o, uint32_t count)
{
    for (uint32_t i = 0; o->kind == SIM_VECTOR && i < o->elements; ++i) {
        if (o->element[i].kind != SIM_REGISTER || o->element[i].width != 32) {
            return false;
        }
    }
    return o->kind == SIM_VECTOR && o->elements == count;
}

static bool take_number(sim_linker *linker, sim_insn *in, uint32_t index, int64_t *value)
{
    if (index >= in->args || in->arg[index].kind != SIM_IMMEDIATE) {
        return sim_parse_fail(linker, "a scale or an order is no number");
    }
    *value = in->arg[index].value;
    return true;
}

/* scale-a, scale-b, and for 16 bits the orders: of A when it is in shared memory, of B. */
static bool decode_modifiers(sim_linker *linker, sim_insn *in)
{
    const bool wide = sim_type_bits((enum sim_type)in->from) == 16;
    const uint32_t orders = !wide ? 0 : from_registers(in) ? 1 : 2;
    int64_t value = 0;
    if (in->type == SIM_S32) {
        return in->args == 4;
    }
    for (uint32_t i = 0; i < 2; ++i) {
        if (!take_number(linker, in, 4 + i, &value) || (value != 1 && value != -1)) {
            return sim_parse_fail(linker, "a scale is neither 1 nor -1");
        }
        in->mode |= (uint8_t)(value < 0 ? (i == 0 ? A_NEGATIVE : B_NEGATIVE) : 0);
    }
    for (uint32_t i = 0; i < orders; ++i) {
        if (!take_number(linker, in, 6 + i, &value) || value != 0) {
            return sim_parse_fail(linker, "transposed operands are not modelled");
        }
    }
    return in->args == 6 + orders;
}

static bool decode_mma(sim_linker *linker, sim_insn *in)
{
    unsigned k = 0;
    const bool shape = decode_shape(linker, in, &k);
    in->sat = sim_take(linker, "satfinite");
    in->type = (uint8_t)sim_take_type(linker);
    in->from = (uint8_t)sim_take_type(linker);
    in->mode2 = (uint8_t)sim_take_type(linker);
    in->result_bits = in->from;
    in->exec = exec_mma;
    if (!shape || in->args < 4 || !decode_types(linker, in, k)) {
        return false;
    }
    if (in->type == SIM_S32 ? in->target % 16 != 0 && in->target != 8 && in->target != 24
                            : in->sat) {
        return sim_parse_fail(linker, "there is no such shape of this type");
    }
    const uint32_t sums = in->target / (in->type == SIM_F16 ? 4 : 2);
    if (!registers_of(&in->arg[0], sums) ||
        (from_registers(in) ? !registers_of(&in->arg[1], 4) : in->arg[1].width != 64) ||
        in->arg[2].kind != SIM_REGISTER || in->arg[2].width != 64 ||
        (!from_registers(in) && in->arg[1].kind != SIM_REGISTER)) {
        return sim_parse_fail(linker, "the operands are not of this shape");
    }
    if (!decode_modifiers(linker, in)) {
        return false;
    }
    /* Accumulators and fragments are looked after here, not by the scheduler. */
    if (in->arg[3].kind == SIM_IMMEDIATE ? !sim_use_immediate(linker, &in->arg[3], 64)
                                         : in->arg[3].width != 1) {
        return sim_parse_fail(linker, "scale-d is no predicate");
    }
    return sim_reads(linker, &in->arg[2]) && sim_reads(linker, &in->arg[3]) &&
           (from_registers(in) || sim_reads(linker, &in->arg[1]));
}

bool sim_decode_wgmma(sim_linker *linker, sim_insn *in)
{
    const bool product = sim_take(linker, "mma_async");
    const bool fence = !product && sim_take(linker, "fence");
    const bool commit = !product && !fence && sim_take(linker, "commit_group");
    if (linker->module->target != 90 || !linker->module->exact) {
        return sim_parse_fail(linker, "wgmma needs sm_90a");
    }
    in->need = SIM_NEED_ALL;
    linker->function->has_wgmma = true;
    if (!product && !fence && !commit && !sim_take(linker, "wait_group")) {
        return false;
    }
    if (!sim_take(linker, "sync") || !sim_take(linker, "aligned")) {
        return false;
    }
    if (product) {
        return decode_mma(linker, in);
    }
    in->exec = fence ? exec_fence : commit ? exec_commit : exec_wait;
    return sim_operands(linker, in, fence || commit ? "" : "i") &&
           (fence || commit || in->arg[0].value >= 0);
}

/* ---- memory ---- */

bool sim_wgmma_create(sim_block *block)
{
    bool fine = true;
    if (!block->function->has_wgmma) {
        return true;
    }
    block->warpgroup = calloc(block->warps / SIM_GROUP_WARPS + 1, sizeof *block->warpgroup);
    for (uint32_t i = 0; i < block->warps && fine; ++i) {
        sim_wgmma *w = block->warp[i].wgmma = calloc(1, sizeof *w);
        fine = w != NULL;
        if (fine) {
            w->use = calloc(block->function->registers + 1, sizeof *w->use);
            fine = w->use != NULL;
        }
    }
    return fine && block->warpgroup != NULL;
}

void sim_wgmma_reset(sim_block *block)
{
    if (block->warpgroup == NULL) {
        return;
    }
    for (uint32_t i = 0; i < block->warps / SIM_GROUP_WARPS; ++i) {
        sim_warpgroup *g = &block->warpgroup[i];
        g->products = g->first = g->ran = 0;
    }
    for (uint32_t i = 0; i < block->warps; ++i) {
        sim_wgmma *w = block->warp[i].wgmma;
        memset(w->use, 0, block->function->registers * sizeof *w->use);
        w->epoch = w->issued = w->waited = w->groups = 0;
    }
}

void sim_wgmma_destroy(sim_block *block)
{
    for (uint32_t i = 0; block->warpgroup != NULL && i < block->warps / SIM_GROUP_WARPS; ++i) {
        free(block->warpgroup[i].product);
    }
    free(block->warpgroup);
    for (uint32_t i = 0; block->warp != NULL && i < block->warps; ++i) {
        sim_wgmma *w = block->warp[i].wgmma;
        if (w != NULL) {
            free(w->use);
            free(w->group);
            free(w);
        }
    }
}
