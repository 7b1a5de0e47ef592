/* SPDX-License-Identifier: Apache-2.0
 *
 * Crews and teams: see team.h. Everything waits at a gate, a counter that somebody will advance:
 * the crew's threads for the next launch, a team's for the last to arrive at a barrier.
 */
#include "kernels/common/team.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A waiting thread looks at its gate for some time before it sleeps, because a virtual processor
 * that has gone idle takes its time to come back. Where another program wants the processor,
 * looking only takes it away from the thread that is waited for, some milliseconds at a time: a
 * look that was interrupted says so, and for a while all waits at that gate are short, just longer
 * than the gaps between the layers of a model. So at most a few milliseconds in BUSY_NS are lost.
 */
enum {
    LONG_NS = 2000000,
    SHORT_NS = 50000,
    BUSY_NS = 100000000,     /* that an interruption counts */
    INTERRUPTED_NS = 200000, /* between two looks at the clock, which take 3 us */
    PAUSES = 64              /* between two looks at the clock */
};

typedef struct gate {
    _Atomic uint32_t passed;
    _Atomic int32_t sleepers;
    _Atomic uint64_t busy_until; /* now_ns() */
    pthread_mutex_t lock;
    pthread_cond_t opened;
} gate;

struct nib_cpu_crew {
    gate start, barrier;
    int32_t wanted; /* threads, the caller's included */
    int32_t started;
    pid_t process; /* that has the threads */
    pthread_mutex_t starting;
    pthread_t *handles; /* [wanted - 1] */
    atomic_bool taken;  /* by a launch */
    atomic_bool ending;
    /* The launch. */
    nib_cpu_shared shared;
    nib_cpu_work_fn work;
    void *context;
};

typedef struct seat {
    nib_cpu_crew *crew;
    int32_t thread;
} seat;

static void gate_init(gate *g)
{
    atomic_init(&g->passed, 0);
    atomic_init(&g->sleepers, 0);
    atomic_init(&g->busy_until, 0);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->opened, NULL);
}

static void gate_release(gate *g)
{
    pthread_cond_destroy(&g->opened);
    pthread_mutex_destroy(&g->lock);
}

/* The counter and the number of sleepers are each written by one side and then read by the other,
 * in one order for all threads (sequential consistency): either the sleeper sees the gate open or
 * the opener sees the sleeper. */
static void gate_open(gate *g)
{
    atomic_fetch_add(&g->passed, 1);
    if (atomic_load(&g->sleepers) == 0)
        return;
    pthread_mutex_lock(&g->lock);
    pthread_cond_broadcast(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool gate_passed(gate *g, uint32_t seen)
{
    return atomic_load_explicit(&g->passed, memory_order_acquire) != seen;
}

/* Looks until the gate opens (true) or it is time to sleep. */
static bool gate_look(gate *g, uint32_t seen)
{
    uint64_t begun = now_ns(), last = begun;
    bool busy = begun < atomic_load_explicit(&g->busy_until, memory_order_relaxed);
    uint64_t patience = busy ? SHORT_NS : LONG_NS;
    bool passed = gate_passed(g, seen), interrupted = false;
    while (!passed && !interrupted && last - begun < patience) {
        for (int i = 0; i < PAUSES && !passed; i++) {
            passed = gate_passed(g, seen);
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
        uint64_t now = now_ns();
        interrupted = now - last > INTERRUPTED_NS;
        last = now;
    }
    if (interrupted)
        atomic_store_explicit(&g->busy_until, last + BUSY_NS, memory_order_relaxed);
    return passed || gate_passed(g, seen);
}

static void gate_wait(gate *g, uint32_t seen)
{
    if (gate_look(g, seen))
        return;
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->passed) == seen)
        pthread_cond_wait(&g->opened, &g->lock);
    atomic_fetch_sub(&g->sleepers, 1);
    pthread_mutex_unlock(&g->lock);
}

static void *serve(void *given)
{
    seat own = *(seat *)given;
    nib_cpu_crew *crew = own.crew;
    free(given);
    /* A thread is started before its first launch, so the count it must see pass is 0 at the start.
     */
    for (uint32_t seen = 0;; seen++) {
        gate_wait(&crew->start, seen);
        if (atomic_load(&crew->ending))
            return NULL;
        nib_cpu_team team = {.shared = &crew->shared, .thread = own.thread};
        crew->work(crew->context, &team);
        nib_cpu_barrier(&team);
    }
}

nib_cpu_crew *nib_cpu_crew_create(int32_t threads)
{
    nib_cpu_crew *crew = calloc(1, sizeof(*crew));
    if (!crew)
        return NULL;
    gate_init(&crew->start);
    gate_init(&crew->barrier);
    pthread_mutex_init(&crew->starting, NULL);
    crew->wanted = threads;
    return crew;
}

/* All threads or those that the system gives: a launch needs none in particular. */
void nib_cpu_crew_start(nib_cpu_crew *crew)
{
    pthread_mutex_lock(&crew->starting);
    if (!crew->started) {
        crew->handles = calloc((size_t)crew->wanted, sizeof(*crew->handles));
        crew->process = getpid();
        crew->started = 1;
        while (crew->handles && crew->started < crew->wanted) {
            seat *own = malloc(sizeof(*own));
            if (!own)
                break;
            *own = (seat){crew, crew->started};
            if (pthread_create(&crew->handles[crew->started - 1], NULL, serve, own)) {
                free(own);
                break;
            }
            crew->started++;
        }
        crew->shared.crew = crew;
        crew->shared.threads = crew->started;
    }
    pthread_mutex_unlock(&crew->starting);
}

void nib_cpu_crew_destroy(nib_cpu_crew *crew)
{
    if (!crew)
        return;
    if (crew->started && crew->process != getpid()) {
        /* In a forked child the gates still count sleepers that do not exist here: destroying them
         * would wait for those. */
        free(crew->handles);
        free(crew);
        return;
    }
    atomic_store(&crew->ending, true);
    gate_open(&crew->start);
    for (int32_t i = 1; i < crew->started; i++)
        pthread_join(crew->handles[i - 1], NULL);
    gate_release(&crew->start);
    gate_release(&crew->barrier);
    pthread_mutex_destroy(&crew->starting);
    free(crew->handles);
    free(crew);
}

static void run_alone(nib_cpu_work_fn work, void *context)
{
    nib_cpu_shared shared = {.crew = NULL, .threads = 1};
    nib_cpu_team team = {.shared = &shared, .thread = 0};
    work(context, &team);
}

void nib_cpu_crew_run(nib_cpu_crew *crew, nib_cpu_work_fn work, void *context)
{
    if (crew->started < 2 || crew->process != getpid() || atomic_exchange(&crew->taken, true)) {
        run_alone(work, context);
        return;
    }
    atomic_store(&crew->shared.next, 0);
    crew->work = work;
    crew->context = context;
    gate_open(&crew->start);
    nib_cpu_team team = {.shared = &crew->shared, .thread = 0};
    work(context, &team);
    nib_cpu_barrier(&team);
    atomic_store(&crew->taken, false);
}

void nib_cpu_barrier(const nib_cpu_team *team)
{
    nib_cpu_shared *shared = team->shared;
    if (!shared->crew) {
        atomic_store_explicit(&shared->next, 0, memory_order_relaxed);
        return;
    }
    gate *barrier = &shared->crew->barrier;
    uint32_t seen = atomic_load(&barrier->passed);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 < shared->threads) {
        gate_wait(barrier, seen);
        return;
    }
    /* The last to arrive: nobody is between rounds, so both counters may begin again. */
    atomic_store(&shared->arrived, 0);
    atomic_store(&shared->next, 0);
    gate_open(barrier);
}

void nib_cpu_share(const nib_cpu_team *team, int64_t count, int64_t *begin, int64_t *end)
{
    int64_t threads = team->shared->threads;
    int64_t each = count / threads, more = count % threads, thread = team->thread;
    *begin = thread * each + (thread < more ? thread : more);
    *end = *begin + each + (thread < more);
}
