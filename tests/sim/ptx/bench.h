/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a few lines of PTX in a kernel. Every test of this folder uses it.
 */
#ifndef SIM_TEST_BENCH_H
#define SIM_TEST_BENCH_H

#include "sim.h"

enum { BENCH_WORDS = 8, BENCH_THREADS = 1024 };

/* The kernel reads eight 64-bit words a thread into %a0..%a7 and writes %d0..%d7. Registers free
 * for the body: %r<40> .b32, %rs<20> .b16, %x<20> .b64, %f<20> .f32, %fd<8> .f64, %p<20> .pred, and
 * %t = %tid.x, %in and %out, the global addresses of the thread's words. */
typedef struct bench {
    _Alignas(128) uint64_t in[BENCH_THREADS][BENCH_WORDS];
    uint64_t out[BENCH_THREADS][BENCH_WORDS];
    uint32_t threads, blocks, cluster, dynamic_shared;
    unsigned capability;
    uint64_t seed;
    enum sim_delay delay;
    const char *globals; /* text before the kernel, or NULL */
    const char *limits;  /* behind its parameters, or NULL */
    sim_report report;
    char log[600];
} bench;

/* Threads and chip as most tests want them, random words in. */
void bench_start(bench *b, uint64_t seed);
/* Whether the text was understood and ran without a fault. */
bool bench_run(bench *b, const char *body);

uint64_t bench_random(uint64_t *state);

#endif
