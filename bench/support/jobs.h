/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs in processes of their own: a fault of the device, a crash or a hang in one cell costs that
 * cell and not the others. The child measures and sends rows through a pipe; the parent, which
 * never touches the device, keeps them. After a cell that failed, the rest of the job goes on in a
 * new process.
 */
#ifndef NIB_BENCH_JOBS_H
#define NIB_BENCH_JOBS_H

#include "support/row.h"

/* How a child ends; other codes and signals are deaths. */
typedef enum bench_job_end {
    BENCH_JOB_DONE = 0,
    BENCH_JOB_USELESS = 77, /* there is no device: other jobs will find none either */
    BENCH_JOB_AGAIN = 91,   /* the cell just sent failed; go on in a new process */
    BENCH_JOB_LATE = 92     /* the time is up */
} bench_job_end;

/* The child's side. Cells are counted from 0 in every process of the job; those below `skip` have
 * been dealt with. */
typedef struct bench_job {
    int cell, skip;
    int pipe;
} bench_job;

/* Announces the next cell. False: it has been dealt with. */
bool bench_job_begin(bench_job *job, const bench_row *row);
/* Hands over its result. */
void bench_job_send(bench_job *job, const bench_row *row);

typedef bench_job_end (*bench_job_work)(void *user, bench_job *job);
typedef void (*bench_job_take)(void *user, const bench_row *row);

/* Runs a job to its end. A child that is silent for `patience_s` is killed. */
bench_job_end bench_job_run(bench_job_work work, bench_job_take take, void *user, int patience_s);

#endif
