/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs wgmma in a block of one or more warpgroups: fills shared memory, loads fragments, runs a
 * body, stores accumulators. wgmma.c of this folder uses it.
 */
#ifndef SIM_TEST_GROUP_H
#define SIM_TEST_GROUP_H

#include "sim.h"

enum { GROUP_IMAGE = 64 * 1024, GROUP_THREADS = 128, GROUP_SUMS = 128, GROUP_B = 16 * 1024 };

typedef struct group {
    uint8_t image[GROUP_IMAGE]; /* of shared memory, from its offset 0 */
    uint32_t a[GROUP_THREADS][4], c[GROUP_THREADS][GROUP_SUMS], d[GROUP_THREADS][GROUP_SUMS];
    uint64_t a_descriptor, b_descriptor; /* relative to the image */
    int sums;                            /* accumulators a thread */
    /* Between filling shared memory and the body; NULL: a proxy fence and a barrier. */
    const char *before;
    const char *limits; /* of the kernel, or NULL */
    uint64_t seed;
    enum sim_delay delay;
    sim_report report;
    char log[600];
} group;

/* Registers of the body: %a0..%a3, %c0..%c<sums - 1>, %da and %db (descriptors), %base (shared
 * address), %t (thread), %r<8>, %p<4>. {D}: the list of accumulators, {A}: of the fragment. */
bool group_run(group *g, const char *body);

/* Where byte `byte` of row `row` lies with a swizzle of 128, 64, 32 or 0 (none), in an image that
 * begins at a multiple of 1024, and the descriptor of such an operand at `start`. */
uint32_t group_place(int swizzle, uint32_t start, uint32_t row, uint32_t byte);
uint64_t group_descriptor(int swizzle, uint32_t start);

#endif
