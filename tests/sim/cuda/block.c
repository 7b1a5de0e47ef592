/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a cluster's blocks and their warps: made once a host thread, made new for each
 * cluster that it runs. launch.c calls it; a block without a cluster is one of its own.
 */
#include <stdlib.h>

#include "async.h"
#include "grid.h"
#include "wgmma.h"

static bool warp_create(sim_block *block, uint32_t index)
{
    const sim_function *f = block->function;
    sim_warp *w = &block->warp[index];
    w->block = block;
    w->function = f;
    w->index = index;
    w->regs = aligned_alloc(64, ((size_t)f->words * 4 + 127) / 64 * 64);
    w->written = calloc(f->registers + 1, sizeof *w->written);
    w->predicate = calloc(f->predicates + 1, sizeof *w->predicate);
    w->local = malloc(f->info.local * SIM_LANES + 1);
    w->returns = calloc((size_t)(f->callees + 1) * SIM_LANES, sizeof *w->returns);
    w->inside = calloc(f->callees + 1, sizeof *w->inside);
    w->bank[0] = w->regs;
    w->bank[1] = block->pool;
    if (w->regs != NULL) {
        memset(w->regs, 0xcd, (size_t)f->words * 4);
    }
    if (block->cluster->blocks > 1) {
        w->fenced = calloc(1, sizeof *w->fenced);
        if (w->fenced == NULL) {
            return false;
        }
    }
    return w->regs != NULL && w->written != NULL && w->predicate != NULL && w->local != NULL &&
           w->returns != NULL && w->inside != NULL;
}

static void warp_destroy(sim_warp *w)
{
    free(w->regs);
    free(w->written);
    free(w->predicate);
    free(w->local);
    free(w->returns);
    free(w->inside);
    free(w->copy);
    free(w->fence);
    free(w->fenced);
}

static void block_destroy(sim_block *b)
{
    if (b == NULL) {
        return;
    }
    sim_wgmma_destroy(b);
    for (uint32_t i = 0; b->warp != NULL && i < b->warps; ++i) {
        warp_destroy(&b->warp[i]);
    }
    free(b->warp);
    free(b->shared);
    free(b->state);
    free(b->shadow);
    free(b->read_time);
    if (b->pool != b->function->pool) {
        free(b->pool);
    }
    sim_async_destroy(b);
    free(b);
}

/* Immediates that are addresses of shared memory have the block's rank in their high bits. */
static bool fill_pool(sim_block *b)
{
    const sim_function *f = b->function;
    b->pool = f->pool;
    if (b->rank == 0) {
        return true;
    }
    b->pool = aligned_alloc(64, ((size_t)f->pool_words * 4 + 127) / 64 * 64);
    if (b->pool == NULL) {
        return false;
    }
    memcpy(b->pool, f->pool, (size_t)f->pool_words * 4);
    for (uint32_t i = 0; i < f->shared_slots; ++i) {
        const sim_slot *slot = &f->shared_slot[i];
        for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
            b->pool[slot->at + lane * slot->width / 32] += sim_rank_base(b);
        }
    }
    return true;
}

static sim_block *block_create(sim_worker *worker, sim_cluster *cluster, uint32_t rank)
{
    sim_grid *grid = worker->grid;
    const sim_config *c = grid->config;
    sim_block *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return NULL;
    }
    b->function = grid->function;
    b->config = c;
    b->grid = grid;
    b->worker = worker;
    b->cluster = cluster;
    b->rank = rank;
    b->report = &worker->report;
    b->threads = c->block[0] * c->block[1] * c->block[2];
    b->warps = (b->threads + SIM_LANES - 1) / SIM_LANES;
    b->shared_bytes = grid->function->dynamic_base + c->dynamic_shared;
    if (c->dynamic_shared == 0) {
        b->shared_bytes = (uint32_t)grid->function->info.static_shared;
    }
    b->members = b->warps * cluster->blocks;
    b->first_member = b->warps * rank;
    b->first_group = b->members + b->warps / SIM_GROUP_WARPS * rank;
    b->readers = b->members + b->warps / SIM_GROUP_WARPS * cluster->blocks;
    b->waited_entry = b->readers;
    b->clocks = b->first_channel = b->waited_entry + 1;
    b->warp = calloc(b->warps, sizeof *b->warp);
    b->shared = aligned_alloc(1024, (b->shared_bytes + 2047u) / 1024 * 1024);
    b->state = calloc(b->shared_bytes + 64u, 1);
    bool fine = b->warp != NULL && b->shared != NULL && b->state != NULL && fill_pool(b) &&
                sim_async_create(b);
    if (fine && !c->options.no_races) {
        const size_t words = b->shared_bytes / 4 + 8;
        b->shadow = calloc(words, sizeof *b->shadow);
        b->read_time = malloc(words * b->readers * sizeof *b->read_time);
        fine = b->shadow != NULL && b->read_time != NULL;
    }
    for (uint32_t i = 0; fine && i < b->warps; ++i) {
        fine = warp_create(b, i);
    }
    fine = fine && sim_wgmma_create(b);
    if (!fine) {
        block_destroy(b);
        return NULL;
    }
    return b;
}

static void warp_reset(sim_warp *w)
{
    const sim_function *f = w->function;
    const uint32_t first = w->index * SIM_LANES, left = w->block->threads - first;
    w->born = left >= SIM_LANES ? SIM_ALL_LANES : (1u << left) - 1;
    w->alive = w->born;
    memset(w->written, 0, f->registers * sizeof *w->written);
    memset(w->predicate, 0, f->predicates * sizeof *w->predicate);
    memset(w->local, 0xcd, f->info.local * SIM_LANES);
    memset(w->inside, 0, f->callees * sizeof *w->inside);
    w->group[0] = (sim_group){.mask = w->alive, .state = SIM_RUNS};
    w->groups = 1;
    w->current = 0;
    w->copies = 0;
    w->copies_issued = 0;
    memset(w->copy_group, 0, sizeof w->copy_group);
    memset(&w->clock, 0, sizeof w->clock);
    w->member = w->block->first_member + w->index;
    w->clock.at[w->member] = 1;
    w->clock.at[w->block->waited_entry] = w->block->config->overlap.befores == 0;
    w->fences = 0;
    if (w->fenced != NULL) {
        memset(w->fenced, 0, sizeof *w->fenced);
    }
    w->cluster_came = w->cluster_over = 0;
    w->peers = 1u << w->block->rank;
    w->registers = f->launch_registers;
    w->register_changes = 0;
}

/* Number of the cluster to coordinates, and those of its block. */
static void place_block(sim_block *b, uint64_t index)
{
    const sim_grid *grid = b->grid;
    uint32_t rank = b->rank;
    for (int i = 0; i < 3; ++i) {
        const uint32_t clusters = grid->config->grid[i] / grid->cluster[i];
        b->cluster_id[i] = (uint32_t)(index % clusters);
        b->cluster_at[i] = rank % grid->cluster[i];
        b->id[i] = b->cluster_id[i] * grid->cluster[i] + b->cluster_at[i];
        index /= clusters;
        rank /= grid->cluster[i];
    }
}

static void block_reset(sim_block *b, uint64_t index)
{
    const sim_config *c = b->config;
    place_block(b, index);
    index = index * b->cluster->blocks + b->rank;
    b->left = false;
    b->random = (c->options.seed + index * UINT64_C(0x9e3779b97f4a7c15)) | 1;
    for (int i = 0; i < 8; ++i) {
        sim_random(b);
    }
    memset(b->shared, 0xff, b->shared_bytes);
    memset(b->state, SIM_BYTE_UNSET, b->shared_bytes);
    if (b->shadow != NULL) {
        memset(b->shadow, 0, (b->shared_bytes / 4 + 8) * sizeof *b->shadow);
    }
    memset(b->barrier, 0, sizeof b->barrier);
    b->lane_instructions = b->macs = 0;
    b->instructions = b->events = b->polls = 0;
    sim_async_reset(b);
    sim_wgmma_reset(b);
    b->spare_registers = 0;
    memset(b->registers, 0, sizeof b->registers);
    for (uint32_t i = 0; i < b->warps; ++i) {
        warp_reset(&b->warp[i]);
    }
}

void sim_cluster_destroy(sim_cluster *cluster)
{
    for (uint32_t i = 0; cluster != NULL && i < cluster->blocks; ++i) {
        block_destroy(cluster->block[i]);
    }
    free(cluster);
}

sim_cluster *sim_cluster_create(sim_worker *worker)
{
    sim_cluster *cluster = calloc(1, sizeof *cluster);
    bool fine = cluster != NULL;
    if (fine) {
        cluster->blocks = worker->grid->cluster_blocks;
    }
    for (uint32_t i = 0; fine && i < cluster->blocks; ++i) {
        cluster->block[i] = block_create(worker, cluster, i);
        fine = cluster->block[i] != NULL;
    }
    if (!fine) {
        sim_cluster_destroy(cluster);
        return NULL;
    }
    return cluster;
}

void sim_cluster_reset(sim_cluster *cluster, uint64_t index)
{
    cluster->events_seen = cluster->quiet_since = 0;
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        block_reset(cluster->block[i], index);
        memset(&cluster->arriving[i], 0, sizeof cluster->arriving[i]);
        memset(&cluster->done[i], 0, sizeof cluster->done[i]);
    }
}

void sim_cluster_fail(sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        cluster->block[i]->failed = true;
    }
}
