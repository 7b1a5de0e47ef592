/* SPDX-License-Identifier: Apache-2.0
 *
 * A block at work: its warps, the groups their lanes have fallen into, shared memory with its
 * shadows, barriers; and how an instruction reads and writes registers. schedule.c drives it,
 * the ops_*.c files run on it.
 */
#ifndef SIM_CUDA_MACHINE_H
#define SIM_CUDA_MACHINE_H

#include <string.h>

#include "ptx.h"

enum { SIM_MOST_BLOCKS = 8 /* of a cluster */ };
enum { SIM_BARRIERS = 16, SIM_MAX_WARPS = 32, SIM_MAX_CALLEES = 64, SIM_RECENT = 4 };
/* Entries of a vector clock: the warps of a cluster, its warpgroups, the mbarriers of one of its
 * blocks. */
enum { SIM_CLOCKS = 1024, SIM_MBARRIERS = 512, SIM_GROUP_WARPS = 4 };

#define SIM_ALL_LANES UINT32_MAX

/* Lanes of a warp that are at the same instruction. */
typedef struct sim_group {
    uint32_t pc, mask;
    uint8_t state;   /* enum sim_state */
    uint8_t barrier; /* the one it waits at: pc is already behind it */
    bool expired;    /* a wait for an mbarrier that is to give up */
    uint16_t slot;   /* of the mbarrier it waits for, or SIM_ANY_SLOT */
} sim_group;

enum { SIM_ANY_SLOT = 0xffff };

enum sim_state {
    SIM_RUNS,
    SIM_WAITS_LANES,   /* at a collective, for lanes that are elsewhere */
    SIM_WAITS_BARRIER, /* at a barrier of the block */
    SIM_WAITS_PHASE,   /* at a wait for an mbarrier's phase, which it is to try again */
};

/* Times of all warps of a cluster, products and one block's phases that are over: see race.c. */
typedef struct sim_clock {
    uint32_t at[SIM_CLOCKS];
} sim_clock;

/* A fence between threads and the asynchronous proxy. */
typedef struct sim_fence {
    uint32_t time, lanes; /* the warp's time when it ran, by whom */
    bool only_init;       /* fence.mbarrier_init */
} sim_fence;

/* A cp.async of one lane that has not landed. */
typedef struct sim_copy {
    uint64_t source;
    uint32_t target; /* shared address */
    uint8_t bytes, from_source, lane;
    bool landed; /* the bytes are there, yet nobody waited */
    uint32_t group;
    uint64_t number; /* of the warp's copies */
    uint32_t asked;  /* the warp's time when an arrival first asked for it, 0: none did */
    const sim_insn *in;
} sim_copy;

struct sim_warp {
    struct sim_block *block;
    const sim_function *function;
    const uint32_t *bank[2]; /* registers, constants */
    uint32_t *regs;
    uint32_t *written;   /* [registers] lanes */
    uint32_t *predicate; /* [predicates] lanes where it is true */
    uint8_t *local;      /* [lanes][local bytes] */
    uint32_t *returns;   /* [callees][lanes] */
    uint32_t *inside;    /* [callees] lanes that are in it */
    uint32_t index, alive, born;
    uint32_t carry;
    sim_group group[SIM_LANES];
    uint32_t groups, current;
    sim_copy *copy;
    uint32_t copies, copy_room, copy_group[SIM_LANES];
    uint64_t copies_issued;
    /* The times of the other warps up to which their accesses are ordered before this one's; its
     * own is clock.at[member]. */
    sim_clock clock;
    uint32_t member; /* its number among the cluster's warps */
    sim_fence *fence;
    uint32_t fences, fence_room;
    /* Lanes that came to barrier.cluster: in the phase that goes on, in one that is over. */
    uint32_t cluster_came, cluster_over;
    uint32_t peers;            /* blocks of the cluster that are known to have started */
    sim_clock *fenced;         /* the clock at the last fence; NULL: no cluster */
    struct sim_wgmma *wgmma;   /* NULL: the kernel has none; wgmma.h */
    uint32_t registers;        /* a thread may use; 0: not known */
    uint32_t register_changes; /* setmaxnregs so far */
};

typedef struct sim_barrier {
    uint32_t expected; /* threads; 0: all that live */
    bool counted;      /* with a count */
    uint32_t arrived;
    uint32_t votes_true, votes; /* of bar.red */
    sim_clock clock;
} sim_barrier;

/* Who touched a 32-bit word of shared memory last. */
typedef struct sim_shadow {
    uint32_t write_time;
    uint16_t writer;    /* entry of the clock + 1 */
    uint16_t pins;      /* reads of the asynchronous proxy that are not over */
    uint8_t lane;       /* of the writer, or SIM_MANY_LANES */
    uint8_t bytes;      /* which of the four the writer wrote */
    uint8_t read_bytes; /* which of the four were read since */
    bool atomic;        /* the last write was an atomic's */
} sim_shadow;

enum { SIM_MANY_LANES = 0xff };

/* From SIM_BYTE_COPIED on not even to be written. */
enum sim_byte {
    SIM_BYTE_UNSET,
    SIM_BYTE_SET,
    SIM_BYTE_COPIED,   /* target of a cp.async nobody waited for */
    SIM_BYTE_FLYING,   /* target of a bulk copy that has not landed */
    SIM_BYTE_MBARRIER, /* part of an mbarrier */
};

typedef struct sim_block {
    const sim_function *function;
    const sim_config *config;
    sim_report *report;
    struct sim_grid *grid;
    struct sim_worker *worker;
    struct sim_cluster *cluster;
    uint32_t id[3], cluster_id[3], cluster_at[3]; /* its own, its cluster's, inside that */
    uint32_t rank;                                /* in its cluster */
    bool left;                                    /* all its threads have */
    uint32_t *pool;                               /* immediates */
    uint32_t threads, warps;
    sim_warp *warp;
    uint8_t *shared;     /* static and dynamic */
    uint8_t *state;      /* [shared bytes] enum sim_byte */
    sim_shadow *shadow;  /* [words], or NULL */
    uint32_t *read_time; /* [words][readers] when each read it; where read_bytes is not 0 */
    uint32_t shared_bytes;
    uint32_t members;       /* warps of the cluster */
    uint32_t first_member;  /* the number of this block's first warp among them */
    uint32_t readers;       /* entries of warps and warpgroups */
    uint32_t first_group;   /* the clock's entry of its first warpgroup */
    uint32_t waited_entry;  /* the clock's entry of griddepcontrol.wait: 0 before it */
    uint32_t first_channel; /* the clock's entry of this block's first mbarrier */
    uint32_t clocks;        /* entries in use: to the end of this block's mbarriers */
    sim_barrier barrier[SIM_BARRIERS];
    struct sim_async *async;         /* mbarriers and bulk copies: async.h */
    struct sim_warpgroup *warpgroup; /* [warps / 4], or NULL */
    uint32_t spare_registers;        /* that setmaxnreg gave back: a thread, times warps */
    struct {
        const sim_insn *in;
        uint32_t changes;
    } registers[SIM_MAX_WARPS / SIM_GROUP_WARPS]; /* the warpgroups' latest setmaxnreg */
    uint64_t events;                              /* changes that another warp can see */
    uint32_t polls; /* looks at what may be a flag since the last of them */
    sim_range recent[SIM_RECENT];
    uint32_t recent_count;
    uint64_t random, instructions, lane_instructions, macs;
    bool failed;
} sim_block;

/* Blocks that run at once and reach each other's shared memory. */
typedef struct sim_cluster {
    sim_block *block[SIM_MOST_BLOCKS];
    uint32_t blocks;
    /* barrier.cluster: of those that came in this phase, and in the last one; as seen in each
     * block. */
    sim_clock arriving[SIM_MOST_BLOCKS], done[SIM_MOST_BLOCKS];
    uint64_t events_seen, quiet_since; /* instructions when the blocks' events last changed */
} sim_cluster;

/* What a block's addresses of shared memory have more than rank 0's. */
static inline uint32_t sim_rank_base(const sim_block *block)
{
    return block->rank << SIM_RANK_SHIFT;
}

static inline uint32_t sim_random(sim_block *block)
{
    block->random ^= block->random << 13;
    block->random ^= block->random >> 7;
    block->random ^= block->random << 17;
    return (uint32_t)(block->random >> 24);
}

/* Ends the launch with a report; the first one stays. lane < 0: the whole warp. Always false. */
bool sim_fault(sim_warp *warp, const sim_insn *in, int lane, enum sim_fault fault,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- registers ---- */

static inline const uint32_t *sim_row32(const sim_warp *warp, const sim_operand *o)
{
    return warp->bank[o->bank] + o->slot;
}

static inline const uint64_t *sim_row64(const sim_warp *warp, const sim_operand *o)
{
    return (const uint64_t *)(const void *)(warp->bank[o->bank] + o->slot);
}

static inline uint64_t sim_value(const sim_warp *warp, const sim_operand *o, int lane)
{
    return o->width == 64 ? sim_row64(warp, o)[lane] : sim_row32(warp, o)[lane];
}

/* All lanes of a source of 32 or 64 bits. */
void sim_values(const sim_warp *warp, const sim_operand *o, uint64_t *out);

static inline uint32_t sim_true_lanes(const sim_warp *warp, const sim_operand *o)
{
    const uint32_t lanes =
        o->kind == SIM_IMMEDIATE ? (o->value != 0 ? SIM_ALL_LANES : 0) : warp->predicate[o->slot];
    return o->negated ? ~lanes : lanes;
}

static inline void sim_put32(sim_warp *warp, const sim_operand *o, uint32_t mask,
                             const uint32_t *restrict value)
{
    if (o->kind == SIM_SINK) {
        return;
    }
    uint32_t *restrict to = warp->regs + o->slot;
    if (mask == SIM_ALL_LANES) {
        memcpy(to, value, SIM_LANES * sizeof *to);
        return;
    }
    for (; mask != 0; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        to[lane] = value[lane];
    }
}

static inline void sim_put64(sim_warp *warp, const sim_operand *o, uint32_t mask,
                             const uint64_t *restrict value)
{
    if (o->kind == SIM_SINK) {
        return;
    }
    uint64_t *restrict to = (uint64_t *)(void *)(warp->regs + o->slot);
    if (mask == SIM_ALL_LANES) {
        memcpy(to, value, SIM_LANES * sizeof *to);
        return;
    }
    for (; mask != 0; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        to[lane] = value[lane];
    }
}

/* Values into a register of 32 or 64 bits, cut to its width. */
void sim_put(sim_warp *warp, const sim_operand *o, uint32_t mask, const uint64_t *value);
void sim_put_lane(sim_warp *warp, const sim_operand *o, int lane, uint64_t value);
/* The p of p|q gets lanes, q the opposite. */
void sim_put_predicate(sim_warp *warp, const sim_operand *o, uint32_t mask, uint32_t lanes);

/* Lanes of mask where the register was written. */
static inline uint32_t sim_written(const sim_warp *warp, const sim_operand *o)
{
    return o->reg == SIM_NO_REGISTER ? SIM_ALL_LANES : warp->written[o->reg];
}

/* For instructions that carry: marks written what came from written registers. */
static inline void sim_carry_written(sim_warp *warp, const sim_operand *o, uint32_t mask,
                                     uint32_t lanes)
{
    if (o->reg != SIM_NO_REGISTER) {
        warp->written[o->reg] = (warp->written[o->reg] & ~mask) | (lanes & mask);
    }
}

/* ---- memory: space.c ---- */

enum sim_access { SIM_READS, SIM_WRITES, SIM_CHANGES /* atomically */ };

static inline uint64_t sim_address(const sim_warp *warp, const sim_operand *o, int lane)
{
    if (o->reg != SIM_NO_REGISTER) {
        return sim_value(warp, o, lane) + (uint64_t)o->value;
    }
    return (uint64_t)o->value + (o->space == SIM_SPACE_SHARED ? sim_rank_base(warp->block) : 0);
}

/* The host's bytes of an access, checked for space, bounds, alignment, initialisation and races; or
 * NULL after a fault. Writes to shared memory mark it. */
uint8_t *sim_reach(sim_warp *warp, const sim_insn *in, int lane, enum sim_space space,
                   uint64_t address, uint32_t bytes, enum sim_access access);
/* Global bytes without alignment. early: as before griddepcontrol.wait. */
uint8_t *sim_reach_global(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                          uint64_t bytes, enum sim_access access, bool early);
/* ops_grid.c: whether nothing says that a thread has run griddepcontrol.wait. */
static inline bool sim_is_early(const sim_warp *warp)
{
    return warp->clock.at[warp->block->waited_entry] == 0;
}
/* Notes an access to global memory, and checks it against launches under way. */
bool sim_grid_access(sim_warp *warp, const sim_insn *in, int lane, const sim_range *range,
                     uint64_t offset, uint64_t bytes, enum sim_access access, bool early);
/* Shared bytes of this block, or of another one of its cluster. */
typedef struct sim_place {
    sim_block *block;
    uint32_t offset;
} sim_place;

/* Where a shared address leads; false after a fault. All of them are resolved here. */
bool sim_shared_place(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                      uint32_t bytes, sim_place *place);
/* The block of a rank of the warp's cluster, which may be touched: it has started, and not left.
 * NULL after a fault. */
sim_block *sim_peer(sim_warp *warp, const sim_insn *in, int lane, uint32_t rank);
/* A generic address of shared memory as one of its window, or UINT64_MAX after a fault. */
uint64_t sim_shared_address(sim_warp *warp, const sim_insn *in, int lane, uint64_t address);
/* What it is about bytes that must not be touched, as words for a report. */
const char *sim_held_by(const uint8_t *state, uint32_t bytes);

/* race.c */
bool sim_race_read(sim_warp *warp, const sim_insn *in, int lane, sim_place place, uint32_t bytes);
bool sim_race_write(sim_warp *warp, const sim_insn *in, int lane, sim_place place, uint32_t bytes,
                    bool atomic);
/* Notes a read in the name of an entry of the clock, unchecked. */
void sim_race_note(sim_place place, uint32_t bytes, uint32_t entry, uint32_t time);
/* By the asynchronous proxy on behalf of the warp: what threads wrote must have been fenced. Reads
 * are not noted. */
bool sim_race_async(sim_warp *warp, const sim_insn *in, int lane, sim_place place, uint32_t bytes,
                    bool writes);
/* The bytes were written by a bulk copy whose mbarrier has this entry of the clock. */
void sim_race_landed(sim_block *block, uint32_t offset, uint32_t bytes, uint32_t entry,
                     uint32_t time);
/* Whether a thread's accesses of that time were followed by a fence that the warp knows of. */
bool sim_race_fenced(const sim_warp *warp, const sim_warp *writer, uint32_t lanes, uint32_t time,
                     bool init);
/* What the warp did until now is published in a clock of the block `home`, where its own block's
 * mbarriers have entries only if that is the same; then sim_race_tick gives what follows a later
 * time. */
void sim_race_publish(const sim_warp *warp, sim_clock *into, const sim_block *home);
void sim_race_acquire(sim_warp *warp, const sim_clock *from, const sim_block *home);
void sim_race_join(sim_clock *into, const sim_clock *from, uint32_t entries);
static inline void sim_race_tick(sim_warp *warp)
{
    ++warp->clock.at[warp->member];
}
/* Any fence: what came before it is published by a relaxed arrival behind it. */
void sim_race_fence_threads(sim_warp *warp);
bool sim_race_fence(sim_warp *warp, const sim_insn *in, uint32_t lanes, bool only_init);
/* The warp of a cluster with that number. */
sim_warp *sim_member(sim_block *block, uint32_t member);

/* ops_copy.c: lands a copy, though nobody waits. */
void sim_copy_land_random(sim_warp *warp);

/* ops_warp.c: whether every lane's member mask holds the lane itself, and only lanes that are here.
 * False while some are elsewhere, and after a fault. */
bool sim_lanes_complete(sim_warp *warp, const sim_insn *in, uint32_t mask,
                        const sim_operand *members);

/* block.c */
sim_cluster *sim_cluster_create(struct sim_worker *worker);
void sim_cluster_reset(sim_cluster *cluster, uint64_t index);
void sim_cluster_destroy(sim_cluster *cluster); /* NULL is harmless */
/* Ends the launch; the report is there already. */
void sim_cluster_fail(sim_cluster *cluster);

/* ops_cluster.c: threads have left, which a barrier of the cluster may wait for. */
void sim_cluster_check(sim_cluster *cluster);

/* schedule.c */
void sim_cluster_run(sim_cluster *cluster);
/* Lanes of the current group go to pc, the others stay. */
void sim_move_lanes(sim_warp *warp, uint32_t lanes, uint32_t pc);
void sim_exit_lanes(sim_warp *warp, uint32_t lanes);
/* ops_setmaxnreg.c: all have left; whole warpgroups must have changed their registers. */
void sim_registers_end(sim_block *block);
/* ops_barrier.c: releases a barrier that is complete. */
void sim_barrier_check(sim_block *block, uint32_t index);

#endif
