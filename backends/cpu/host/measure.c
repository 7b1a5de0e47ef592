/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine model's numbers, measured: a short run each, kept for the process.
 */
#include "host/host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

enum {
    BUFFER_BYTES = 16 << 20,
    LINE_BYTES = 64,
    PASSES = 10,       /* the best counts: on a busy machine most wait for a processor */
    PEAK_ROUNDS = 4000 /* 4 million multiply-adds: well under a millisecond */
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Puts the buffer out of all caches, so that a small one measures memory. Where there is no such
 * instruction, the number is that of the last-level cache. clflush would do too, but runs one at a
 * time: 10 ms for 4 MB, seventy times as long. */
#ifdef __x86_64__
__attribute__((target("clflushopt"))) static void flush_lines(unsigned char *buffer)
{
    for (size_t i = 0; i < BUFFER_BYTES; i += LINE_BYTES)
        _mm_clflushopt(buffer + i);
    _mm_mfence();
}
#endif

static void flush(unsigned char *buffer)
{
#ifdef __x86_64__
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 23 & 1) /* CPUID.7.0:EBX.CLFLUSHOPT */
        flush_lines(buffer);
#else
    (void)buffer;
#endif
}

static uint64_t read_all(const unsigned char *buffer, int32_t threads)
{
    uint64_t total = 0;
    const uint64_t *words = (const uint64_t *)(const void *)buffer;
    int64_t count = BUFFER_BYTES / (int64_t)sizeof(*words);
#pragma omp parallel for num_threads(threads) schedule(static) reduction(^ : total)
    for (int64_t i = 0; i < count; i += 64) {
        uint64_t lanes[8] = {0};
        for (int j = 0; j < 64; j++)
            lanes[j % 8] ^= words[i + j];
        for (int j = 0; j < 8; j++)
            total ^= lanes[j];
    }
    return total;
}

static double measure_read(int32_t threads)
{
    unsigned char *buffer = aligned_alloc(LINE_BYTES, BUFFER_BYTES);
    volatile uint64_t sink = 0;
    double best = 0;
    if (!buffer)
        return 10; /* of the right order, and only ratios depend on it */
    memset(buffer, 1, BUFFER_BYTES);
    for (int pass = 0; pass < PASSES; pass++) {
        flush(buffer);
        double from = now_us();
        sink = sink ^ read_all(buffer, threads);
        double rate = BUFFER_BYTES / (now_us() - from) * 1e-3;
        best = rate > best ? rate : best;
    }
    free(buffer);
    return best;
}

static double measure_peak(const nib_cpu_isa *isa)
{
    volatile double sink = 0;
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        double from = now_us();
        sink = sink + isa->peak(PEAK_ROUNDS);
        double rate = 2.0 * 1024 * PEAK_ROUNDS / (now_us() - from) * 1e-6;
        best = rate > best ? rate : best;
    }
    return best;
}

nib_cpu_rates nib_cpu_measure(const nib_cpu_isa *isa, int32_t threads)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const nib_cpu_isa *held_isa;
    static int32_t held_threads;
    static nib_cpu_rates held;
    pthread_mutex_lock(&lock);
    if (held_threads != threads)
        held.read_gb_per_s = measure_read(threads);
    if (held_isa != isa)
        held.thread_tflop_per_s = measure_peak(isa);
    held_threads = threads;
    held_isa = isa;
    nib_cpu_rates rates = held;
    pthread_mutex_unlock(&lock);
    return rates;
}
