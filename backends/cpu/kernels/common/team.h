/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the CPU backend. A crew belongs to a device and starts its threads once; a launch runs
 * a function on all of them, its team. When another launch has the crew, and in a forked child,
 * where the threads do not exist, the launch runs on the calling thread alone: it never waits for
 * another.
 *
 * Not OpenMP, for two reasons. Its runtime makes threads, and so allocates, in the first parallel
 * region of every host thread, which nib_gemm_run must not. And its waiting threads spin for
 * milliseconds: with more runnable threads than processors a launch of 10 us took 28 ms. Ours spin
 * for some tens of microseconds and then sleep.
 */
#ifndef NIB_CPU_TEAM_H
#define NIB_CPU_TEAM_H

#include <nibblas/nibblas.h>
#include <stdatomic.h>

typedef struct nib_cpu_crew nib_cpu_crew;

/* What the threads of one launch share. */
typedef struct nib_cpu_shared {
    nib_cpu_crew *crew; /* NULL: the caller is alone */
    int32_t threads;
    _Atomic int64_t next;
    _Atomic int32_t arrived;
} nib_cpu_shared;

/* One thread's place in a launch. */
typedef struct nib_cpu_team {
    nib_cpu_shared *shared;
    int32_t thread; /* 0 is the caller */
} nib_cpu_team;

typedef void (*nib_cpu_work_fn)(void *context, const nib_cpu_team *team);

/* A crew of at most `threads`, the caller of a launch included; NULL without memory. No thread runs
 * before nib_cpu_crew_start, which may be called again and from several threads. */
nib_cpu_crew *nib_cpu_crew_create(int32_t threads);
void nib_cpu_crew_start(nib_cpu_crew *crew);
void nib_cpu_crew_destroy(nib_cpu_crew *crew);

/* Runs work(context, team) on every thread of the crew and returns when all are done. */
void nib_cpu_crew_run(nib_cpu_crew *crew, nib_cpu_work_fn work, void *context);

/* Waits until all threads of the team are here. What each wrote before is seen by all after. Begins
 * a new round of nib_cpu_next. */
void nib_cpu_barrier(const nib_cpu_team *team);

/* This thread's even share of `count` pieces: *begin .. *end - 1. */
void nib_cpu_share(const nib_cpu_team *team, int64_t count, int64_t *begin, int64_t *end);

/* The next piece nobody has taken in this round: 0, 1, 2 ... A round ends with a barrier. */
static inline int64_t nib_cpu_next(const nib_cpu_team *team)
{
    return atomic_fetch_add_explicit(&team->shared->next, 1, memory_order_relaxed);
}

#endif
