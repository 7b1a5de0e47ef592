/* SPDX-License-Identifier: Apache-2.0
 *
 * Special registers: ordinary registers that are filled when a block starts, or before each use
 * where they change.
 */
#include "grid.h"
#include "machine.h"
#include "parse.h"

enum sim_special_code {
    TID, /* three in a row: x, y, z */
    NTID = 3,
    CTAID = 6,
    NCTAID = 9,
    CLUSTER_ID = 12,
    CLUSTERS = 15,
    CLUSTER_CTAID = 18,
    CLUSTER_NCTAID = 21,
    LANEID = 24,
    WARPID,
    NWARPID,
    SMID,
    NSMID,
    GRIDID,
    MASK_EQ,
    MASK_LE,
    MASK_LT,
    MASK_GE,
    MASK_GT,
    CLUSTER_RANK,
    CLUSTER_SIZE,
    EXPLICIT_CLUSTER,
    DYNAMIC_SHARED,
    TOTAL_SHARED,
    CLOCK,
};

static const struct {
    const char *name;
    uint8_t code, width;
} names[] = {
    /* clang-format off */
    {"%tid", TID, 32},                {"%ntid", NTID, 32},
    {"%ctaid", CTAID, 32},            {"%nctaid", NCTAID, 32},
    {"%clusterid", CLUSTER_ID, 32},   {"%nclusterid", CLUSTERS, 32},
    {"%cluster_ctaid", CLUSTER_CTAID, 32}, {"%cluster_nctaid", CLUSTER_NCTAID, 32},
    {"%laneid", LANEID, 32},          {"%warpid", WARPID, 32},
    {"%nwarpid", NWARPID, 32},        {"%smid", SMID, 32},
    {"%nsmid", NSMID, 32},            {"%gridid", GRIDID, 64},
    {"%lanemask_eq", MASK_EQ, 32},    {"%lanemask_le", MASK_LE, 32},
    {"%lanemask_lt", MASK_LT, 32},    {"%lanemask_ge", MASK_GE, 32},
    {"%lanemask_gt", MASK_GT, 32},    {"%cluster_ctarank", CLUSTER_RANK, 32},
    {"%cluster_nctarank", CLUSTER_SIZE, 32}, {"%is_explicit_cluster", EXPLICIT_CLUSTER, 1},
    {"%dynamic_smem_size", DYNAMIC_SHARED, 32}, {"%total_smem_size", TOTAL_SHARED, 32},
    {"%clock", CLOCK, 32},            {"%clock_hi", CLOCK, 32},
    {"%clock64", CLOCK, 64},          {"%globaltimer", CLOCK, 64},
    {"%globaltimer_lo", CLOCK, 32},   {"%globaltimer_hi", CLOCK, 32},
    /* clang-format on */
};

bool sim_special_operand(sim_linker *linker, const char *name, sim_operand *out)
{
    sim_function *f = linker->function;
    const size_t length = strcspn(name, ".");
    const int axis = name[length] == '.' ? name[length + 1] - 'x' : 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        if (strlen(names[i].name) != length || memcmp(names[i].name, name, length) != 0 ||
            axis < 0 || axis > 2) {
            continue;
        }
        const uint8_t code = (uint8_t)(names[i].code + axis);
        uint32_t j = 0;
        while (j < f->specials &&
               !(f->special[j].code == code && f->special[j].width == names[i].width)) {
            ++j;
        }
        if (j == sizeof f->special / sizeof f->special[0]) {
            return sim_parse_fail(linker, "too many special registers");
        }
        if (j == f->specials) {
            f->special[f->specials++] = (sim_special){
                code, names[i].width, sim_new_slot(linker, names[i].width), f->registers++};
        }
        out->kind = SIM_REGISTER;
        out->width = out->bits = names[i].width;
        out->slot = f->special[j].slot;
        out->reg = f->special[j].reg;
        return true;
    }
    return sim_parse_fail(linker, "%s is not declared", name);
}

static uint32_t coordinate(const sim_warp *warp, int axis, int lane)
{
    const uint32_t *size = warp->block->config->block;
    const uint32_t thread = warp->index * SIM_LANES + (uint32_t)lane;
    return axis == 0   ? thread % size[0]
           : axis == 1 ? thread / size[0] % size[1]
                       : thread / size[0] / size[1];
}

static uint64_t special_value(const sim_warp *warp, uint8_t code, int lane)
{
    const sim_block *block = warp->block;
    const sim_config *config = block->config;
    const uint32_t bit = 1u << lane;
    if (code < NTID) {
        return coordinate(warp, code - TID, lane);
    }
    if (code < LANEID) {
        const int axis = code % 3;
        switch (code - axis) {
        case NTID:
            return config->block[axis];
        case CTAID:
            return block->id[axis];
        case NCTAID:
            return config->grid[axis];
        case CLUSTER_ID:
            return block->cluster_id[axis];
        case CLUSTERS:
            return config->grid[axis] / block->grid->cluster[axis];
        case CLUSTER_CTAID:
            return block->cluster_at[axis];
        default:
            return block->grid->cluster[axis];
        }
    }
    switch (code) {
    case LANEID:
        return (uint64_t)lane;
    case WARPID:
        return warp->index;
    case NWARPID:
        return block->warps;
    case NSMID:
        return 1;
    case MASK_EQ:
        return bit;
    case MASK_LE:
        return bit | (bit - 1);
    case MASK_LT:
        return bit - 1;
    case MASK_GE:
        return ~(bit - 1);
    case MASK_GT:
        return ~(bit | (bit - 1));
    case CLUSTER_RANK:
        return block->rank;
    case CLUSTER_SIZE:
        return block->cluster->blocks;
    case DYNAMIC_SHARED:
        return config->dynamic_shared;
    case TOTAL_SHARED:
        return block->shared_bytes;
    case CLOCK:
        return block->instructions;
    default:
        return 0;
    }
}

static void fill_one(sim_warp *warp, const sim_special *s)
{
    sim_operand o = {.kind = SIM_REGISTER, .width = s->width, .slot = s->slot, .reg = s->reg};
    for (int lane = 0; lane < SIM_LANES && s->width != 1; ++lane) {
        sim_put_lane(warp, &o, lane, special_value(warp, s->code, lane));
    }
    if (s->code == EXPLICIT_CLUSTER) {
        warp->predicate[s->slot] = warp->block->grid->explicit_cluster ? SIM_ALL_LANES : 0;
    }
    warp->written[s->reg] = SIM_ALL_LANES;
}

void sim_special_fill(sim_warp *warp)
{
    for (uint32_t i = 0; i < warp->function->specials; ++i) {
        fill_one(warp, &warp->function->special[i]);
    }
}

void sim_special_refresh(sim_warp *warp)
{
    for (uint32_t i = 0; i < warp->function->specials; ++i) {
        if (warp->function->special[i].code == CLOCK) {
            fill_one(warp, &warp->function->special[i]);
        }
    }
}

bool sim_is_clock(const sim_linker *linker, const sim_operand *operand)
{
    const sim_function *f = linker->function;
    for (uint32_t i = 0; i < f->specials; ++i) {
        if (f->special[i].reg == operand->reg) {
            return f->special[i].code == CLOCK;
        }
    }
    return false;
}
