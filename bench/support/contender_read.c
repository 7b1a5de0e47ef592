/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading memory and nothing else: the roof of every product with one row of activations. Three
 * access patterns are tried, since which one a memory system likes best differs; the best counts.
 */
#include "support/contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define PAD       64 /* streams are cut at multiples of this: one vector, one cache line */
#define HUGE_PAGE ((size_t)2 << 20)

typedef uint64_t vector __attribute__((vector_size(PAD)));

/* Reads `lines` cache lines as `streams` sequences side by side, `ahead` lines prefetched in each.
 */
typedef struct pattern {
    const char *name;
    int streams, ahead;
} pattern;
static const pattern patterns[] = {{"one stream", 1, 0},
                                   {"one stream, prefetched", 1, 32},
                                   {"four streams", 4, 0},
                                   {"eight streams", 8, 0}};
#define PATTERNS ((int)(sizeof(patterns) / sizeof(patterns[0])))

typedef struct read_state {
    uint8_t *memory;
    size_t stride; /* bytes from copy to copy */
    int threads;
    const pattern *how;
} read_state;

#if defined(__x86_64__) && defined(__gnu_linux__)
#define CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONED
#endif

CLONED static uint64_t read_lines(const uint8_t *memory, size_t lines, int streams, int ahead)
{
    const vector *at = (const vector *)memory;
    size_t each = lines / (size_t)streams, done = 0;
    vector a = {0}, b = {0}, c = {0}, d = {0};
    if (streams == 8) {
        for (size_t i = 0; i < each; i++) {
            a ^= at[i] ^ at[i + each];
            b ^= at[i + 2 * each] ^ at[i + 3 * each];
            c ^= at[i + 4 * each] ^ at[i + 5 * each];
            d ^= at[i + 6 * each] ^ at[i + 7 * each];
        }
        done = 8 * each;
    } else if (streams == 4) {
        for (size_t i = 0; i < each; i++) {
            a ^= at[i];
            b ^= at[i + each];
            c ^= at[i + 2 * each];
            d ^= at[i + 3 * each];
        }
        done = 4 * each;
    } else {
        for (; done + 4 <= lines; done += 4) {
            if (ahead)
                for (int j = 0; j < 4; j++)
                    __builtin_prefetch(&at[done + (size_t)(ahead + j)], 0, 0);
            a ^= at[done];
            b ^= at[done + 1];
            c ^= at[done + 2];
            d ^= at[done + 3];
        }
    }
    for (; done < lines; done++)
        a ^= at[done];
    a ^= b ^ c ^ d;
    uint64_t sum = 0;
    for (int i = 0; i < PAD / 8; i++)
        sum ^= a[i];
    return sum;
}

static uint64_t read_all(const uint8_t *memory, size_t bytes, int threads, const pattern *how)
{
    uint64_t sum = 0;
    size_t lines = bytes / PAD;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(^ : sum)
    {
        size_t thread = (size_t)omp_get_thread_num(), count = (size_t)omp_get_num_threads();
        size_t from = lines * thread / count, to = lines * (thread + 1) / count;
        sum ^= read_lines(memory + from * PAD, to - from, how->streams, how->ahead);
    }
#else
    sum = read_lines(memory, lines, how->streams, how->ahead);
#endif
    return sum;
}

static volatile uint64_t sink; /* keeps the reads alive */

static double timed_read(const uint8_t *memory, size_t bytes, int threads, const pattern *how)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    sink = read_all(memory, bytes, threads, how);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
}

/* Best of `repeats` per pattern, over the whole buffer. */
static const pattern *best_pattern(const uint8_t *memory, size_t bytes, int threads, int repeats,
                                   double *seconds)
{
    const pattern *best = &patterns[0];
    *seconds = INFINITY;
    for (int i = 0; i < repeats + 1; i++) /* the first round warms up */
        for (int j = 0; j < PATTERNS; j++) {
            double t = timed_read(memory, bytes, threads, &patterns[j]);
            if (i && t < *seconds) {
                *seconds = t;
                best = &patterns[j];
            }
        }
    return best;
}

/* Memory that is really there (a page of zeros would be read from the cache), in huge pages where
 * the system gives them, with room for the prefetches past the end. */
static uint8_t *filled(size_t bytes)
{
    size_t room = (bytes + 4096 + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *memory = aligned_alloc(HUGE_PAGE, room);
    if (!memory)
        return NULL;
    madvise(memory, room, MADV_HUGEPAGE); /* a wish: a refusal changes nothing */
    memset(memory, 0x5a, bytes);
    return memory;
}

double bench_read_bandwidth(size_t bytes, int threads, int repeats)
{
    uint8_t *memory = filled(bytes);
    double seconds;
    if (!memory)
        return 0;
    best_pattern(memory, bytes, threads, repeats, &seconds);
    free(memory);
    return (double)bytes / seconds * 1e-9;
}

static int run_read(bench_contender *self, int copy)
{
    const read_state *s = self->state;
    sink = read_all(s->memory + (size_t)copy * s->stride, self->bytes, s->threads, s->how);
    return 0;
}

static void destroy_read(bench_contender *self)
{
    free(((read_state *)self->state)->memory);
    free(self->state);
}

bool bench_read_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                     size_t bytes)
{
    (void)p;
    read_state *s = calloc(1, sizeof(*s));
    int copies = bench_copies(settings, bytes);
    if (!s)
        return false;
    s->stride = (bytes + PAD - 1) / PAD * PAD;
    s->threads = settings->threads;
    s->memory = filled(s->stride * (size_t)copies);
    if (!s->memory) {
        free(s);
        return false;
    }
    double seconds;
    s->how = best_pattern(s->memory, s->stride * (size_t)copies, s->threads, 8, &seconds);
    *c = (bench_contender){.kind = BENCH_READ,
                           .bytes = bytes,
                           .copies = copies,
                           .run = run_read,
                           .destroy = destroy_read,
                           .state = s,
                           .error = -1};
    snprintf(c->name, sizeof(c->name), "read (%s)", s->how->name);
    return true;
}
