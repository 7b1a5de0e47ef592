/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch as its host threads share it. Private to launch.c, block.c, schedule.c, special.c and
 * ops_atomic.c.
 */
#ifndef SIM_CUDA_GRID_H
#define SIM_CUDA_GRID_H

#include <pthread.h>

#include "sim.h"

struct sim_cluster;

typedef struct sim_grid {
    const sim_function *function;
    const sim_config *config;
    uint32_t cluster[3], cluster_blocks;
    bool explicit_cluster;
    uint64_t clusters, first, stride;
    uint64_t next;    /* turn, shared */
    uint8_t *started; /* [clusters], shared */
    uint64_t lowest;  /* clusters below have started, shared */
    bool stop;        /* shared */
    uint32_t threads;
    pthread_mutex_t atomics; /* held by an atomic on global memory when there are threads */
} sim_grid;

typedef struct sim_worker {
    sim_grid *grid;
    pthread_t thread;
    sim_report report;
} sim_worker;

/* A cluster has waited for long and nothing that it does itself will change that: runs the lowest
 * one that has not started. False when all have. */
bool sim_grid_help(struct sim_cluster *waiting);

#endif
