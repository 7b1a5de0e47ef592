/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, streams and events of a device that is the host: everything is done when a call returns.
 */
#include "host/host.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    ALIGN_BYTES = 64,
    HUGE_PAGE_BYTES = 2 << 20,
    /* From here on memory asks for huge pages: many streams of a kernel over 4 KB pages spend their
     * time in page walks, and the prefetcher stops at each page. */
    HUGE_LEAST_BYTES = 2 * HUGE_PAGE_BYTES
};

nib_status nib_cpu_memory_alloc(void *dev, uint64_t bytes, void **out)
{
    (void)dev;
    void *memory;
    size_t align = bytes >= HUGE_LEAST_BYTES ? HUGE_PAGE_BYTES : ALIGN_BYTES;
    if (bytes > SIZE_MAX / 2 ||
        posix_memalign(&memory, align, (size_t)(bytes / ALIGN_BYTES + 1) * ALIGN_BYTES))
        return nib_cpu_host->fail(NIB_NO_MEMORY, "no memory for %" PRIu64 " bytes", bytes);
#ifdef MADV_HUGEPAGE
    /* Whole huge pages only, so that no more becomes resident; a kernel without them refuses, which
     * is no failure. */
    if (align == HUGE_PAGE_BYTES)
        madvise(memory, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
#endif
    *out = memory;
    return NIB_OK;
}

void nib_cpu_memory_free(void *dev, void *memory)
{
    (void)dev;
    free(memory);
}

nib_status nib_cpu_memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                               nib_copy_kind kind, void *stream)
{
    (void)dev, (void)kind, (void)stream;
    memmove(to, from, (size_t)bytes);
    return NIB_OK;
}

nib_status nib_cpu_synchronize(void *dev, void *stream)
{
    (void)dev, (void)stream;
    return NIB_OK;
}

nib_status nib_cpu_event_create(void *dev, void **event)
{
    (void)dev;
    struct timespec *time = calloc(1, sizeof(*time));
    if (!time)
        return nib_cpu_host->fail(NIB_NO_MEMORY, "no memory for an event");
    *event = time;
    return NIB_OK;
}

void nib_cpu_event_destroy(void *dev, void *event)
{
    (void)dev;
    free(event);
}

nib_status nib_cpu_event_record(void *dev, void *event, void *stream)
{
    (void)dev, (void)stream;
    clock_gettime(CLOCK_MONOTONIC, event);
    return NIB_OK;
}

nib_status nib_cpu_event_elapsed(void *dev, void *from, void *to, double *us)
{
    (void)dev;
    const struct timespec *a = from, *b = to;
    *us = (double)(b->tv_sec - a->tv_sec) * 1e6 + (double)(b->tv_nsec - a->tv_nsec) * 1e-3;
    return NIB_OK;
}
