/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid: checks the configuration, prepares a cluster's memory once a host thread (block.c) and
 * runs the clusters in a seeded order.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "grid.h"
#include "machine.h"

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

/* The clusters' extent: as the launch says, else as the kernel does. */
static uint32_t cluster_extent(const sim_function *f, const sim_config *c, int axis)
{
    const uint32_t given =
        c->cluster[axis] != 0 ? c->cluster[axis] : f->info.required_cluster[axis];
    return given != 0 ? given : 1;
}

static bool check_cluster(const sim_function *f, const sim_config *c, sim_report *report)
{
    const sim_function_info *info = &f->info;
    uint64_t blocks = 1;
    for (int i = 0; i < 3; ++i) {
        const uint32_t extent = cluster_extent(f, c, i), required = info->required_cluster[i];
        if (required != 0 && extent != required) {
            return refuse(report, info->name, "the cluster is not as .reqnctapercluster says",
                          extent, required);
        }
        if (c->grid[i] % extent != 0) {
            return refuse(report, info->name, "the grid is no multiple of the cluster", c->grid[i],
                          extent);
        }
        blocks *= extent;
    }
    if (blocks > SIM_MOST_BLOCKS || (blocks > 1 && c->capability < 90)) {
        return refuse(report, info->name, "blocks in a cluster", blocks,
                      c->capability < 90 ? 1 : SIM_MOST_BLOCKS);
    }
    return true;
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
    }
    if (!check_cluster(f, c, report)) {
        return false;
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

/* The cluster that comes at `turn`: a walk over all of them by a stride without common divisor. */
static uint64_t cluster_at(const sim_grid *grid, uint64_t turn)
{
    return (uint64_t)((grid->first + (unsigned __int128)turn * grid->stride) % grid->clusters);
}

/* Whether the cluster had not started; now it has. */
static bool start_cluster(sim_grid *grid, uint64_t index)
{
    return __atomic_exchange_n(&grid->started[index], 1, __ATOMIC_RELAXED) == 0;
}

static void run_cluster(sim_worker *worker, sim_cluster *cluster, uint64_t index)
{
    sim_cluster_reset(cluster, index);
    sim_cluster_run(cluster);
    for (uint32_t i = 0; i < cluster->blocks; ++i) {
        const sim_block *block = cluster->block[i];
        worker->report.warp_instructions += block->instructions;
        worker->report.lane_instructions += block->lane_instructions;
        worker->report.macs += block->macs;
    }
    if (cluster->block[0]->failed) {
        __atomic_store_n(&worker->grid->stop, true, __ATOMIC_RELAXED);
    }
}

static sim_cluster *cluster_or_stop(sim_worker *worker)
{
    sim_cluster *cluster = sim_cluster_create(worker);
    if (cluster == NULL) {
        worker->report.fault = SIM_HOST;
        snprintf(worker->report.text, sizeof worker->report.text, "host: out of memory");
        __atomic_store_n(&worker->grid->stop, true, __ATOMIC_RELAXED);
    }
    return cluster;
}

static void *run_clusters(void *argument)
{
    sim_worker *worker = argument;
    sim_grid *grid = worker->grid;
    sim_cluster *cluster = cluster_or_stop(worker);
    while (!__atomic_load_n(&grid->stop, __ATOMIC_RELAXED)) {
        const uint64_t turn = __atomic_fetch_add(&grid->next, 1, __ATOMIC_RELAXED);
        if (turn >= grid->clusters) {
            break;
        }
        const uint64_t index = cluster_at(grid, turn);
        if (start_cluster(grid, index)) {
            run_cluster(worker, cluster, index);
        }
    }
    sim_cluster_destroy(cluster);
    return NULL;
}

/* Those that wait for blocks below theirs go on when these have run; nobody is left to wait for in
 * the lowest one. */
bool sim_grid_help(sim_cluster *waiting)
{
    sim_worker *worker = waiting->block[0]->worker;
    sim_grid *grid = worker->grid;
    uint64_t index = __atomic_load_n(&grid->lowest, __ATOMIC_RELAXED);
    while (index < grid->clusters && !start_cluster(grid, index)) {
        ++index;
    }
    __atomic_store_n(&grid->lowest, index, __ATOMIC_RELAXED);
    if (index >= grid->clusters) {
        return false;
    }
    sim_cluster *cluster = cluster_or_stop(worker);
    if (cluster != NULL) {
        run_cluster(worker, cluster, index);
    }
    if (cluster == NULL || cluster->block[0]->failed) {
        sim_cluster_fail(waiting);
    }
    sim_cluster_destroy(cluster);
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

static void order_clusters(sim_grid *grid)
{
    uint64_t mixed = (grid->config->options.seed + 1) * UINT64_C(0xd1342543de82ef95);
    mixed ^= mixed >> 29;
    grid->first = mixed % grid->clusters;
    grid->stride = 1 + (mixed >> 20) % grid->clusters;
    while (common_divisor(grid->stride, grid->clusters) != 1) {
        ++grid->stride;
    }
}

static void shape_clusters(sim_grid *grid)
{
    grid->clusters = grid->cluster_blocks = 1;
    for (int i = 0; i < 3; ++i) {
        grid->cluster[i] = cluster_extent(grid->function, grid->config, i);
        grid->cluster_blocks *= grid->cluster[i];
        grid->clusters *= grid->config->grid[i] / grid->cluster[i];
        grid->explicit_cluster |=
            grid->config->cluster[i] != 0 || grid->function->info.required_cluster[i] != 0;
    }
}

static void add_report(sim_report *sum, const sim_report *part)
{
    sum->warp_instructions += part->warp_instructions;
    sum->lane_instructions += part->lane_instructions;
    sum->macs += part->macs;
    sum->waited |= part->waited;
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
    shape_clusters(&grid);
    order_clusters(&grid);
    uint64_t threads = config->options.threads != 0 ? config->options.threads : 1;
    threads = threads > grid.clusters ? grid.clusters : threads;
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    sim_worker *worker = calloc(threads, sizeof *worker);
    grid.started = calloc(grid.clusters, 1);
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
    /* A thread that cannot be had leaves its clusters to the others. */
    while (started < threads &&
           pthread_create(&worker[started].thread, NULL, run_clusters, &worker[started]) == 0) {
        ++started;
    }
    run_clusters(&worker[0]);
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
