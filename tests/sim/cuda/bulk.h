/* SPDX-License-Identifier: Apache-2.0
 *
 * A block's mbarriers and the copies of the asynchronous proxy that are under way. Private to
 * async.c (when they land), ops_mbarrier.c and ops_bulk.c (the instructions).
 */
#ifndef SIM_CUDA_BULK_H
#define SIM_CUDA_BULK_H

#include "async.h"
#include "tensor_map.h"

/* An mbarrier lies in a slot for good: its entry of the clocks counts phases, inits included. */
typedef struct sim_mbarrier {
    uint32_t offset;
    bool live;
    uint32_t expected, pending; /* arrivals */
    int32_t tx;                 /* bytes that are still to come */
    uint32_t phase, first;      /* phases that are over, and were at its init */
    sim_warp *maker;            /* who initialised it, when */
    uint32_t maker_lanes, made;
    uint32_t seen;   /* the last phase that somebody waited for */
    uint32_t landed; /* the last phase that bytes came in, and by whom: */
    sim_warp *sender;
    const sim_insn *sent;
    sim_clock arriving; /* of those that arrived in this phase */
    sim_clock done;     /* of those that arrived in the last one */
} sim_mbarrier;

enum sim_flight_kind {
    SIM_FLIGHT_LOAD,   /* global to shared, signals an mbarrier */
    SIM_FLIGHT_STORE,  /* shared to global, in a bulk group */
    SIM_FLIGHT_SEND,   /* registers to shared, signals an mbarrier: st.async */
    SIM_FLIGHT_ARRIVE, /* an arrival when a lane's cp.asyncs have landed */
};

typedef struct sim_flight {
    uint8_t kind, lane;
    bool tensor;   /* box of map, else bytes at global */
    bool was_read; /* of a store: data has what is to be written; of st.async always */
    bool waited;   /* of a store: somebody waited for the read */
    bool early;    /* before griddepcontrol.wait */
    sim_warp *warp;
    const sim_insn *in;
    sim_place shared;
    uint32_t bytes;
    uint64_t global;
    sim_map map;
    int32_t at[SIM_MAP_AXES];
    uint32_t mbarrier; /* slot in shared.block */
    uint32_t group;    /* of a store */
    uint64_t copies;   /* of an arrival: the warp's cp.asyncs before it */
    uint8_t *data;
    sim_clock *clock; /* of an arrival: the lane's when it asked */
} sim_flight;

struct sim_async {
    sim_mbarrier *mbarrier[SIM_MBARRIERS];
    uint32_t mbarriers;
    uint16_t *slot_at; /* [shared bytes / 8] slot + 1 of the mbarrier there */
    sim_flight *flight;
    uint32_t flights, flight_room;
    uint32_t group[SIM_MAX_WARPS][SIM_LANES]; /* bulk groups committed */
    uint64_t expired_at, expiries;
};

/* The mbarrier in the slot got arrivals or bytes: ends its phase when that is due. */
void sim_mbarrier_check(sim_block *block, uint32_t slot);
/* The mbarrier at a shared address, ready for the warp; false after a fault. */
bool sim_mbarrier_at(sim_warp *warp, const sim_insn *in, int lane, uint64_t address,
                     sim_place *place, uint32_t *slot);
/* The same where it is known to lie. */
bool sim_mbarrier_find(sim_warp *warp, const sim_insn *in, int lane, sim_place place,
                       uint32_t *slot);
bool sim_mbarrier_arrive(sim_warp *warp, const sim_insn *in, int lane, sim_place place,
                         uint32_t slot, uint32_t count);
/* Bytes are expected (positive) or have come (negative). */
bool sim_mbarrier_tx(sim_warp *warp, const sim_insn *in, int lane, sim_block *block, uint32_t slot,
                     int64_t bytes);

/* bulk_box.c: a box from global to shared memory, from shared memory to data, from data to global
 * memory. */
uint32_t sim_box_row_bytes(const sim_map *map);
/* Global bytes that a copy reads or, a store, writes; NULL after a fault. */
uint8_t *sim_flight_global(const sim_flight *flight, uint64_t address, uint64_t bytes);
bool sim_box_load(const sim_flight *flight);
void sim_box_read(const sim_flight *flight);
bool sim_box_store(const sim_flight *flight);

/* ops_send.c */
bool sim_send_land(sim_flight *flight);
/* Bytes that an mbarrier counts have come to shared memory. */
bool sim_flight_arrived(sim_flight *flight);
/* ops_copy.c: the cp.asyncs are over, so the arrival is due. */
bool sim_copy_arrived(sim_flight *flight);

/* A new copy under way to or from a block's shared memory, which keeps it; zeroed but for that and
 * who issued it. NULL after a fault. */
sim_flight *sim_flight_new(sim_warp *warp, const sim_insn *in, int lane, uint8_t kind,
                           sim_place shared);
/* Moves it on: a load lands, a store reads and later writes. False after a fault. */
bool sim_flight_read(sim_flight *flight);
bool sim_flight_land(sim_flight *flight);
void sim_flight_remove(sim_block *block, uint32_t index);

#endif
