/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads and reductions for quantisers. Threads take
 * the next index until none is left, which is why bodies must not care who runs them.
 */
#include "quantize/quantize.h"

#include "config/env.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 256, LEAST_PART = 16384 /* weights */ };

int32_t nib_quantize_threads(int32_t asked)
{
    int64_t threads = asked;
    if (!threads) {
        /* OMP_NUM_THREADS may be a list by nesting level; the first number is ours. */
        const char *text = nib_env("OMP_NUM_THREADS");
        threads = text ? strtol(text, NULL, 10) : 0;
    }
    if (threads < 1) {
        cpu_set_t set;
        threads = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
    }
    return (int32_t)(threads > MOST_THREADS ? MOST_THREADS : threads);
}

typedef struct crew {
    atomic_llong next;
    int64_t count;
    void (*body)(void *ctx, int64_t index);
    void *ctx;
} crew;

static void *work(void *argument)
{
    crew *c = argument;
    for (int64_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        c->body(c->ctx, i);
    return NULL;
}

void nib_quantize_parallel(int32_t threads, int64_t count, void (*body)(void *ctx, int64_t index),
                           void *ctx)
{
    crew c = {.count = count, .body = body, .ctx = ctx};
    pthread_t others[MOST_THREADS];
    int32_t started = 0;
    /* A thread that does not start only makes the rest do more. */
    while (started + 1 < threads && started + 1 < count &&
           !pthread_create(&others[started], NULL, work, &c))
        started++;
    work(&c);
    for (int32_t i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}

typedef struct reduction {
    const nib_region *region;
    int32_t parts;
    nib_region_fn fn;
    const void *ctx;
    unsigned char *partials;
    size_t bytes;
} reduction;

static void reduce_part(void *ctx, int64_t index)
{
    const reduction *r = ctx;
    nib_region part = *r->region;
    int64_t each = part.rows / r->parts, more = part.rows % r->parts;
    int64_t first = index * each + (index < more ? index : more);
    part.w += first * part.ldw;
    part.rows = each + (index < more);
    r->fn(r->ctx, &part, r->partials + (size_t)index * r->bytes);
}

int32_t nib_region_reduce(const nib_region *region, int32_t threads, nib_region_fn fn,
                          const void *ctx, void *partials, size_t bytes)
{
    /* By shape alone, and a part is worth a thread. */
    int64_t parts = 1 + region->rows * region->cols / LEAST_PART;
    parts = parts < region->rows ? parts : region->rows;
    parts = parts < NIB_QUANTIZE_PARTS ? parts : NIB_QUANTIZE_PARTS;
    memset(partials, 0, bytes * (size_t)parts);
    if (parts == 1) {
        fn(ctx, region, partials);
        return 1;
    }
    reduction r = {.region = region, .fn = fn, .ctx = ctx, .partials = partials, .bytes = bytes};
    r.parts = (int32_t)parts;
    nib_quantize_parallel(threads, r.parts, reduce_part, &r);
    return r.parts;
}
