/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid: checks the configuration, prepares a block's memory once a host thread and runs the
 * blocks in a seeded order.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "async.h"
#include "grid.h"
#include "wgmma.h"

const char *sim_fault_name(enum sim_fault fault)
{
    static const char *const names[] = {"ok",   "invalid",  "memory",   "unset",
                                        "race", "diverged", "deadlock", "unknown",
                                        "trap", "limit",    "host"};
    return (size_t)fault < sizeof names / sizeof names[0] ? names[fault] : "?";
}

static bool refuse(sim_report *report, const char *name, const char *what, unsigned long long have,
                   unsigned long long most)
{
    report->fault = SIM_INVALID;
    snprintf(report->text, sizeof report->text, "invalid: %s: %s (%llu, at most %llu)", name, what,
             have, most);
    return false;
}

static size_t shared_most(unsigned capability)
{
    switch (capability) {
    case 80:
    case 87:
        return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
        return 99 * 1024;
    default:
        return capability < 80 ? 48 * 1024 : 227 * 1024;
    }
}

static bool check(const sim_function *f, const sim_config *c, sim_report *report)
{
    const sim_function_info *info = &f->info;
    const uint64_t threads = (uint64_t)c->block[0] * c->block[1] * c->block[2];
    const size_t most = c->shared_limit != 0 ? c->shared_limit : shared_most(c->capability);
    const uint64_t shared = (uint64_t)f->dynamic_base + c->dynamic_shared;
    if (threads == 0 || threads > info->max_threads || threads > 1024) {
        return refuse(report, info->name, "threads in a block", threads, info->max_threads);
    }
    for (int i = 0; i < 3; ++i) {
        if (info->required_block[i] != 0 && c->block[i] != info->required_block[i]) {
            return refuse(report, info->name, "the block is not as .reqntid says", c->block[i],
                          info->required_block[i]);
        }
        if (c->grid[i] == 0 || c->grid[i] > (i == 0 ? INT32_MAX : 65535)) {
            return refuse(report, info->name, "blocks in the grid", c->grid[i],
                          i == 0 ? INT32_MAX : 65535);
        }
        if (c->cluster[i] > 1) {
            return refuse(report, info->name, "blocks in a cluster", c->cluster[i], 1);
        }
    }
    if (shared > most) {
        return refuse(report, info->name, "bytes of shared memory", shared, most);
    }
    if (c->param_bytes < info->param_bytes) {
        return refuse(report, info->name, "bytes of parameters are too few", c->param_bytes,
                      info->param_bytes);
    }
    return true;
}

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
    w->bank[1] = f->pool;
    if (w->regs != NULL) {
        memset(w->regs, 0xcd, (size_t)f->words * 4);
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
    sim_async_destroy(b);
    free(b);
}

static sim_block *block_create(sim_worker *worker)
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
    b->report = &worker->report;
    b->threads = c->block[0] * c->block[1] * c->block[2];
    b->warps = (b->threads + SIM_LANES - 1) / SIM_LANES;
    b->shared_bytes = grid->function->dynamic_base + c->dynamic_shared;
    if (c->dynamic_shared == 0) {
        b->shared_bytes = (uint32_t)grid->function->info.static_shared;
    }
    b->members = b->warps;
    b->first_group = b->members;
    b->readers = b->first_group + b->warps / SIM_GROUP_WARPS;
    b->clocks = b->first_channel = b->readers;
    b->warp = calloc(b->warps, sizeof *b->warp);
    b->shared = aligned_alloc(1024, (b->shared_bytes + 2047u) / 1024 * 1024);
    b->state = calloc(b->shared_bytes + 64u, 1);
    bool fine = b->warp != NULL && b->shared != NULL && b->state != NULL && sim_async_create(b);
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
    w->fences = 0;
    w->registers = f->launch_registers;
    w->register_changes = 0;
}

static void block_reset(sim_block *b, uint64_t index)
{
    const sim_config *c = b->config;
    b->id[0] = (uint32_t)(index % c->grid[0]);
    b->id[1] = (uint32_t)(index / c->grid[0] % c->grid[1]);
    b->id[2] = (uint32_t)(index / c->grid[0] / c->grid[1]);
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
    b->instructions = b->events = b->events_seen = b->quiet_since = b->polls = 0;
    sim_async_reset(b);
    sim_wgmma_reset(b);
    b->spare_registers = 0;
    memset(b->registers, 0, sizeof b->registers);
    for (uint32_t i = 0; i < b->warps; ++i) {
        warp_reset(&b->warp[i]);
    }
}

/* The block that comes at `turn`: a walk over all of them by a stride without common divisor. */
static uint64_t block_at(const sim_grid *grid, uint64_t turn)
{
    return (uint64_t)((grid->first + (unsigned __int128)turn * grid->stride) % grid->blocks);
}

/* Whether the block had not started; now it has. */
static bool start_block(sim_grid *grid, uint64_t index)
{
    return __atomic_exchange_n(&grid->started[index], 1, __ATOMIC_RELAXED) == 0;
}

static void run_block(sim_block *block, uint64_t index)
{
    sim_worker *worker = block->worker;
    block_reset(block, index);
    sim_block_run(block);
    worker->report.warp_instructions += block->instructions;
    worker->report.lane_instructions += block->lane_instructions;
    worker->report.macs += block->macs;
    if (block->failed) {
        __atomic_store_n(&worker->grid->stop, true, __ATOMIC_RELAXED);
    }
}

static sim_block *block_or_stop(sim_worker *worker)
{
    sim_block *block = block_create(worker);
    if (block == NULL) {
        worker->report.fault = SIM_HOST;
        snprintf(worker->report.text, sizeof worker->report.text, "host: out of memory");
        __atomic_store_n(&worker->grid->stop, true, __ATOMIC_RELAXED);
    }
    return block;
}

static void *run_blocks(void *argument)
{
    sim_worker *worker = argument;
    sim_grid *grid = worker->grid;
    sim_block *block = block_or_stop(worker);
    while (!__atomic_load_n(&grid->stop, __ATOMIC_RELAXED)) {
        const uint64_t turn = __atomic_fetch_add(&grid->next, 1, __ATOMIC_RELAXED);
        if (turn >= grid->blocks) {
            break;
        }
        const uint64_t index = block_at(grid, turn);
        if (start_block(grid, index)) {
            run_block(block, index);
        }
    }
    block_destroy(block);
    return NULL;
}

/* Those that wait for blocks below theirs go on when these have run; nobody is left to wait for in
 * the lowest one. */
bool sim_grid_help(sim_block *waiting)
{
    sim_grid *grid = waiting->grid;
    uint64_t index = __atomic_load_n(&grid->lowest, __ATOMIC_RELAXED);
    while (index < grid->blocks && !start_block(grid, index)) {
        ++index;
    }
    __atomic_store_n(&grid->lowest, index, __ATOMIC_RELAXED);
    if (index >= grid->blocks) {
        return false;
    }
    sim_block *block = block_or_stop(waiting->worker);
    if (block != NULL) {
        run_block(block, index);
        waiting->failed |= block->failed;
    }
    waiting->failed |= block == NULL;
    block_destroy(block);
    return true;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void order_blocks(sim_grid *grid)
{
    uint64_t mixed = (grid->config->options.seed + 1) * UINT64_C(0xd1342543de82ef95);
    mixed ^= mixed >> 29;
    grid->first = mixed % grid->blocks;
    grid->stride = 1 + (mixed >> 20) % grid->blocks;
    while (common_divisor(grid->stride, grid->blocks) != 1) {
        ++grid->stride;
    }
}

static void add_report(sim_report *sum, const sim_report *part)
{
    sum->warp_instructions += part->warp_instructions;
    sum->lane_instructions += part->lane_instructions;
    sum->macs += part->macs;
    if (sum->fault == SIM_OK && part->fault != SIM_OK) {
        sum->fault = part->fault;
        memcpy(sum->text, part->text, sizeof sum->text);
    }
}

bool sim_launch(const sim_function *function, const sim_config *config, sim_report *report)
{
    enum { MOST_THREADS = 64 };
    memset(report, 0, sizeof *report);
    if (!check(function, config, report)) {
        return false;
    }
    sim_grid grid = {.function = function, .config = config};
    grid.blocks = (uint64_t)config->grid[0] * config->grid[1] * config->grid[2];
    order_blocks(&grid);
    uint64_t threads = config->options.threads != 0 ? config->options.threads : 1;
    threads = threads > grid.blocks ? grid.blocks : threads;
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    sim_worker *worker = calloc(threads, sizeof *worker);
    grid.started = calloc(grid.blocks, 1);
    if (worker == NULL || grid.started == NULL || pthread_mutex_init(&grid.atomics, NULL) != 0) {
        free(worker);
        free(grid.started);
        report->fault = SIM_HOST;
        snprintf(report->text, sizeof report->text, "host: out of memory");
        return false;
    }
    grid.threads = (uint32_t)threads;
    uint64_t started = 1;
    for (uint64_t i = 0; i < threads; ++i) {
        worker[i].grid = &grid;
    }
    /* A thread that cannot be had leaves its blocks to the others. */
    while (started < threads &&
           pthread_create(&worker[started].thread, NULL, run_blocks, &worker[started]) == 0) {
        ++started;
    }
    run_blocks(&worker[0]);
    for (uint64_t i = 1; i < started; ++i) {
        pthread_join(worker[i].thread, NULL);
    }
    for (uint64_t i = 0; i < started; ++i) {
        add_report(report, &worker[i].report);
    }
    pthread_mutex_destroy(&grid.atomics);
    free(worker);
    free(grid.started);
    return report->fault == SIM_OK;
}
