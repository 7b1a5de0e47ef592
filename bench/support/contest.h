/* SPDX-License-Identifier: Apache-2.0
 *
 * Contenders and the rounds that time them. A contender is anything that computes (or, for the read
 * floor, just reads) one problem from one of several copies of its weights. contender_*.c make
 * them; report.h prints what came out.
 */
#ifndef NIB_BENCH_CONTEST_H
#define NIB_BENCH_CONTEST_H

#include "rival.h"
#include "support/problem.h"

typedef enum bench_kind {
    BENCH_READ = 0, /* reads as many bytes as the packed weights have: the floor */
    BENCH_OURS = 1,
    BENCH_RIVAL = 2
} bench_kind;

typedef struct bench_contender {
    bench_kind kind;
    char name[64];
    size_t bytes; /* of one copy of the weights as this contender reads them */
    int copies;
    /* Computes from copy `copy` into `out`; 0: done. */
    int (*run)(struct bench_contender *self, int copy);
    void (*destroy)(struct bench_contender *self); /* frees `state` */
    void *state;
    void *out; /* [m, n]; NULL for the floor */
    nib_type out_type;
    bool i8;             /* checked against the reference of rounded activations */
    double tolerance;    /* relative error it may have */
    double error;        /* measured; -1 before */
    bool wrong;          /* failed the check: not timed */
    char variant[48];    /* ours: the kernel that the plan chose */
    double predicted_us; /* ours: what the plan thought it takes; 0: unknown */
    double *us;          /* samples, sorted once the contest is over */
    int count, capacity;
} bench_contender;

typedef struct bench_settings {
    int threads;
    int rounds;
    size_t cache_bytes; /* last-level cache */
    bool cached;        /* one copy, resident; else copies of four caches in all, rotating */
} bench_settings;

/* Copies of `bytes` that a contender should keep. */
int bench_copies(const bench_settings *settings, size_t bytes);

/* Each makes a contender, or returns false with a line on stderr. The problem must outlive it. */
bool bench_read_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                     size_t bytes);
bool bench_ours_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                     nib_device *dev, const nib_gemm_desc *desc);
bool bench_rival_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                      const nib_rival *rival);
/* `transposed`: the dense matrix is handed over as [k, n]. */
bool bench_openblas_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                         void *library, bool transposed);

/* Checks every contender, then times those that are right, interleaved. Returns how many are
 * wrong. */
int bench_contest_run(bench_contender *list, int count, const bench_problem *p,
                      const bench_settings *settings);
void bench_contender_free(bench_contender *c);

/* Sample at quantile q of a finished contender, in microseconds; NaN without samples. */
double bench_quantile(const bench_contender *c, double q);

/* Best read bandwidth of `threads` threads over a buffer, GB/s; 0 without memory. */
double bench_read_bandwidth(size_t bytes, int threads, int repeats);

#endif
