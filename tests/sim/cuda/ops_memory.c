/* SPDX-License-Identifier: Apache-2.0
 *
 * ld, ldu and st of all spaces, vector widths and cache operators. PTX ISA, "ld", "st".
 */
#include "decode.h"
#include "machine.h"

enum { MOST_ELEMENTS = 8 };

static uint64_t load_bytes(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    memcpy(&value, from, bytes);
    return value;
}

static const sim_operand *element(const sim_insn *in, const sim_operand *o, unsigned index)
{
    return in->vector > 1 ? &o->element[index] : o;
}

static enum sim_step exec_load(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const unsigned bits = sim_type_bits((enum sim_type)in->type), bytes = bits / 8;
    warp->block->polls += in->mode;
    const bool extend = sim_type_signed((enum sim_type)in->type) && bits < 64;
    const uint8_t *at[SIM_LANES] = {NULL};
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        at[lane] = sim_reach(warp, in, lane, (enum sim_space)in->space,
                             sim_address(warp, &in->arg[1], lane), bytes * in->vector, SIM_READS);
        if (at[lane] == NULL) {
            return SIM_NEXT;
        }
    }
    for (unsigned i = 0; i < in->vector; ++i) {
        const sim_operand *to = element(in, &in->arg[0], i);
        uint64_t value[SIM_LANES] = {0};
        for (uint32_t left = mask; left != 0; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            uint64_t v = load_bytes(at[lane] + (size_t)i * bytes, bytes);
            if (extend && to->bits > bits) {
                const uint64_t sign = UINT64_C(1) << (bits - 1);
                v = (v ^ sign) - sign;
                v = to->bits < 64 ? v & ((UINT64_C(1) << to->bits) - 1) : v;
            }
            value[lane] = v;
        }
        sim_put(warp, to, mask, value);
    }
    return SIM_NEXT;
}

/* Parameters at a fixed offset are the same in all lanes. */
static enum sim_step exec_load_param(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const unsigned bits = sim_type_bits((enum sim_type)in->type), bytes = bits / 8;
    const int first = __builtin_ctz(mask);
    const uint8_t *at = sim_reach(warp, in, first, SIM_SPACE_PARAM, (uint64_t)in->arg[1].value,
                                  bytes * in->vector, SIM_READS);
    for (unsigned i = 0; at != NULL && i < in->vector; ++i) {
        const sim_operand *to = element(in, &in->arg[0], i);
        uint64_t value[SIM_LANES], v = load_bytes(at + (size_t)i * bytes, bytes);
        if (sim_type_signed((enum sim_type)in->type) && to->bits > bits) {
            const uint64_t sign = UINT64_C(1) << (bits - 1);
            v = (v ^ sign) - sign;
            v = to->bits < 64 ? v & ((UINT64_C(1) << to->bits) - 1) : v;
        }
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            value[lane] = v;
        }
        sim_put(warp, to, mask, value);
    }
    return SIM_NEXT;
}

static enum sim_step exec_store(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const unsigned bytes = sim_type_bits((enum sim_type)in->type) / 8;
    uint64_t value[MOST_ELEMENTS][SIM_LANES];
    for (unsigned i = 0; i < in->vector; ++i) {
        sim_values(warp, element(in, &in->arg[1], i), value[i]);
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        uint8_t *to =
            sim_reach(warp, in, lane, (enum sim_space)in->space,
                      sim_address(warp, &in->arg[0], lane), bytes * in->vector, SIM_WRITES);
        if (to == NULL) {
            return SIM_NEXT;
        }
        for (unsigned i = 0; i < in->vector; ++i) {
            memcpy(to + (size_t)i * bytes, &value[i][lane], bytes);
        }
    }
    return SIM_NEXT;
}

/* Spaces by name. .param of a function that is called, and of calls, is local memory here. */
static bool take_space(sim_linker *linker, sim_insn *in, const sim_operand *address)
{
    static const char *const names[] = {
        "global",      "shared",       "local",           "param",       "const",
        "shared::cta", "param::entry", "shared::cluster", "param::func", NULL};
    static const uint8_t spaces[] = {SIM_SPACE_GLOBAL, SIM_SPACE_SHARED, SIM_SPACE_LOCAL,
                                     SIM_SPACE_PARAM,  SIM_SPACE_CONST,  SIM_SPACE_SHARED,
                                     SIM_SPACE_PARAM,  SIM_SPACE_SHARED, SIM_SPACE_PARAM};
    const int found = sim_take_of(linker, names);
    in->space = found < 0 ? SIM_SPACE_GENERIC : spaces[found];
    if (in->space == SIM_SPACE_PARAM && address->space == SIM_SPACE_LOCAL) {
        in->space = SIM_SPACE_LOCAL;
    }
    return found >= 0 || address->reg != SIM_NO_REGISTER || address->space == SIM_SPACE_GLOBAL ||
           address->space == SIM_SPACE_CONST;
}

static bool take_access(sim_linker *linker, sim_insn *in, const sim_operand *address, bool *policy)
{
    static const char *const caches[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", NULL};
    static const char *const vectors[] = {"v2", "v4", "v8", NULL};
    sim_take_scopes(linker);
    sim_take_of(linker, caches);
    sim_take(linker, "nc");
    sim_take(linker, "unified");
    *policy = sim_take(linker, "L2::cache_hint");
    while (sim_take_prefix(linker, "L1::") || sim_take_prefix(linker, "L2::")) {
    }
    const int vector = sim_take_of(linker, vectors);
    in->vector = (uint8_t)(vector < 0 ? 1 : 2 << vector);
    in->type = (uint8_t)sim_take_type(linker);
    const unsigned bits = sim_type_bits((enum sim_type)in->type);
    return take_space(linker, in, address) && bits >= 8 && bits <= 64 && bits * in->vector <= 256;
}

static bool right_count(const sim_insn *in, const sim_operand *value)
{
    return in->vector == 1 ? value->kind != SIM_VECTOR
                           : value->kind == SIM_VECTOR && value->elements == in->vector;
}

/* Whether the load may look at a flag that another thread is to set. */
static bool may_poll(const sim_linker *linker)
{
    static const char *const orders[] = {"volatile", "relaxed", "acquire", "mmio", NULL};
    for (uint32_t i = 1; i < linker->parts; ++i) {
        for (int j = 0; orders[j] != NULL; ++j) {
            if (strcmp(linker->part[i], orders[j]) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool sim_decode_load(sim_linker *linker, sim_insn *in)
{
    bool policy;
    in->mode = may_poll(linker);
    if (in->args < 2 || !take_access(linker, in, &in->arg[1], &policy) ||
        !right_count(in, &in->arg[0])) {
        return false;
    }
    const bool fixed = in->space == SIM_SPACE_PARAM && in->arg[1].reg == SIM_NO_REGISTER;
    in->exec = fixed ? exec_load_param : exec_load;
    const bool vector = in->vector > 1;
    return sim_operands(linker, in, policy ? (vector ? "vml" : "xml") : (vector ? "vm" : "xm"));
}

bool sim_decode_store(sim_linker *linker, sim_insn *in)
{
    bool policy;
    if (sim_take(linker, "async")) {
        return sim_decode_send(linker, in);
    }
    if (in->args < 2 || !take_access(linker, in, &in->arg[0], &policy) ||
        !right_count(in, &in->arg[1])) {
        return false;
    }
    in->exec = exec_store;
    const bool vector = in->vector > 1;
    return sim_operands(linker, in, policy ? (vector ? "mVl" : "myl") : (vector ? "mV" : "my"));
}
