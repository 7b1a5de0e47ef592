/* SPDX-License-Identifier: Apache-2.0
 *
 * The bandwidth that memory gives now, against which `nib bench` compares. Of host memory: as many
 * threads as the device uses read a buffer beyond the cache round and round, for half a second. A
 * pass is a piece of it, short enough that some passes escape other programs; the best counts. Of
 * a device's own memory: copies within it, by its clock.
 */
#include "product.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEASURE_US  5e5
#define PAGE_BYTES  ((size_t)2 << 20) /* so that no page walk is measured */
#define LEAST_BYTES ((uint64_t)64 << 20)
#define MOST_BYTES  ((uint64_t)1 << 30)
#define PASS_BYTES  ((size_t)8 << 20) /* a thread, at most: near a millisecond */
#define MAX_THREADS 1024
#define COPIES      16
#define LINE_BYTES  64
#define STREAMS     8 /* as many as hardware prefetchers follow well */

typedef struct roof_job {
    uint64_t *words;
    size_t bytes;
    int threads; /* known once all are started, behind `gate` */
    pthread_mutex_t gate;
    pthread_barrier_t barrier;
    bool done; /* written by the first thread between the barriers, like the two below */
    double end_us, best_gb_per_s;
} roof_job;

typedef struct roof_thread {
    roof_job *job;
    pthread_t id;
    int index;
    uint64_t seen; /* what was read goes here, so that it is read */
} roof_thread;

/* One word of each cache line: memory sends whole lines, and no other instruction takes part. */
static uint64_t read_words(const uint64_t *words, size_t count)
{
    size_t step = count / STREAMS;
    uint64_t sum[STREAMS] = {0};
    for (size_t i = 0; i < step; i += LINE_BYTES / sizeof(*words))
        for (size_t s = 0; s < STREAMS; s++)
            sum[s] += words[s * step + i];
    for (int s = 1; s < STREAMS; s++)
        sum[0] += sum[s];
    return sum[0];
}

static void *read_slice(void *user)
{
    roof_thread *self = user;
    roof_job *job = self->job;
    pthread_mutex_lock(&job->gate);
    pthread_mutex_unlock(&job->gate);
    /* Whole cache lines for every stream. */
    size_t unit = (size_t)STREAMS * LINE_BYTES;
    size_t bytes = job->bytes / (size_t)job->threads / unit * unit;
    uint64_t *words = job->words + (size_t)self->index * (bytes / sizeof(*words));
    size_t pass = bytes < PASS_BYTES ? bytes : PASS_BYTES, at = 0;
    memset(words, self->index + 1, bytes);
    for (;; at = at + 2 * pass > bytes ? 0 : at + pass) {
        pthread_barrier_wait(&job->barrier);
        if (job->done)
            return NULL;
        double begun = tool_now_us();
        self->seen += read_words(words + at / sizeof(*words), pass / sizeof(*words));
        pthread_barrier_wait(&job->barrier);
        if (self->index)
            continue;
        double now = tool_now_us();
        double gb_per_s = (double)pass * job->threads / (now - begun) * 1e-3;
        if (gb_per_s > job->best_gb_per_s)
            job->best_gb_per_s = gb_per_s;
        job->done = now > job->end_us;
    }
}

static void run_threads(roof_job *job, int wanted)
{
    roof_thread *threads = calloc((size_t)wanted, sizeof(*threads));
    if (!threads)
        return;
    pthread_mutex_init(&job->gate, NULL);
    pthread_mutex_lock(&job->gate);
    while (job->threads < wanted) {
        roof_thread *next = &threads[job->threads];
        *next = (roof_thread){.job = job, .index = job->threads};
        if (pthread_create(&next->id, NULL, read_slice, next))
            break;
        job->threads++;
    }
    if (job->threads)
        pthread_barrier_init(&job->barrier, NULL, (unsigned)job->threads);
    job->end_us = tool_now_us() + MEASURE_US;
    pthread_mutex_unlock(&job->gate);
    for (int i = 0; i < job->threads; i++)
        pthread_join(threads[i].id, NULL);
    if (job->threads)
        pthread_barrier_destroy(&job->barrier);
    pthread_mutex_destroy(&job->gate);
    free(threads);
}

static double read_host(const nib_device_info *info)
{
    roof_job job = {0};
    uint64_t bytes = 4 * info->cache_bytes;
    int threads = info->units < 1 ? 1 : info->units > MAX_THREADS ? MAX_THREADS : info->units;
    if (bytes < LEAST_BYTES)
        bytes = LEAST_BYTES;
    if (bytes > MOST_BYTES)
        bytes = MOST_BYTES;
    if (bytes > info->memory_bytes / 4)
        bytes = info->memory_bytes / 4;
    job.bytes = (size_t)bytes / PAGE_BYTES * PAGE_BYTES;
    job.words = job.bytes ? aligned_alloc(PAGE_BYTES, job.bytes) : NULL;
    if (!job.words)
        return 0;
    madvise(job.words, job.bytes, MADV_HUGEPAGE);
    run_threads(&job, threads);
    free(job.words);
    return job.best_gb_per_s;
}

/* The best of several copies between two pieces of the device's memory. */
static double time_copies(nib_device *dev, void *to, const void *from, size_t bytes,
                          nib_event *begin, nib_event *end)
{
    double best = 0, give_up = tool_now_us() + MEASURE_US;
    for (int i = 0; i < COPIES && (i < 2 || tool_now_us() < give_up); i++) {
        double us;
        if (nib_event_record(begin, NULL) ||
            nib_memory_copy(dev, to, from, bytes, NIB_COPY_ON_DEVICE, NULL) ||
            nib_event_record(end, NULL) || nib_event_elapsed(begin, end, &us))
            return 0;
        double gb_per_s = us > 0 ? 2e-3 * (double)bytes / us : 0;
        if (i && gb_per_s > best) /* the first touches the pages */
            best = gb_per_s;
    }
    return best;
}

static double copy_on_device(nib_device *dev, const nib_device_info *info)
{
    nib_event *begin = NULL, *end = NULL;
    void *from = NULL, *to = NULL;
    double best = 0;
    uint64_t bytes = 8 * info->cache_bytes;
    if (bytes < LEAST_BYTES)
        bytes = LEAST_BYTES;
    if (bytes > info->memory_bytes / 16)
        bytes = info->memory_bytes / 16;
    if (bytes && !nib_event_create(dev, &begin) && !nib_event_create(dev, &end) &&
        !nib_memory_alloc(dev, bytes, &from) && !nib_memory_alloc(dev, bytes, &to))
        best = time_copies(dev, to, from, bytes, begin, end);
    nib_memory_free(dev, from);
    nib_memory_free(dev, to);
    nib_event_destroy(begin);
    nib_event_destroy(end);
    return best;
}

/* The public interface does not say which devices read host memory; the CPU does. */
static bool reads_host(const nib_device_info *info)
{
    return !strcmp(info->backend, "cpu");
}

double tool_roof_measure(nib_device *dev, const nib_device_info *info)
{
    return reads_host(info) ? read_host(info) : copy_on_device(dev, info);
}

const char *tool_roof_kind(const nib_device_info *info)
{
    return reads_host(info) ? "read" : "copy";
}
