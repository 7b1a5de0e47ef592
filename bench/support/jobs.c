/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes and their pipe: see jobs.h.
 */
#include "support/jobs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct message {
    int cell, done;
    bench_row row;
} message;

/* ---- the child ---- */

/* A parent that is gone ends the child by SIGPIPE. */
static void put(const bench_job *job, int done, const bench_row *row)
{
    message m = {job->cell, done, *row};
    const char *at = (const char *)&m;
    size_t left = sizeof(m);
    while (left) {
        ssize_t written = write(job->pipe, at, left);
        if (written < 0 && errno != EINTR)
            _exit(1);
        if (written > 0) {
            at += written;
            left -= (size_t)written;
        }
    }
}

bool bench_job_begin(bench_job *job, const bench_row *row)
{
    if (job->cell >= job->skip) {
        put(job, 0, row);
        return true;
    }
    job->cell++;
    return false;
}

void bench_job_send(bench_job *job, const bench_row *row)
{
    put(job, 1, row);
    job->cell++;
}

/* ---- the parent ---- */

/* False: the child is gone, or `silent`. */
static bool get(int pipe, int patience_s, message *m, bool *silent)
{
    char *at = (char *)m;
    size_t left = sizeof(*m);
    while (left) {
        struct pollfd p = {.fd = pipe, .events = POLLIN};
        int ready = poll(&p, 1, patience_s * 1000);
        if (ready < 0 && errno == EINTR)
            continue;
        *silent = ready == 0;
        ssize_t got = ready > 0 ? read(pipe, at, left) : 0;
        if (got <= 0)
            return false;
        at += got;
        left -= (size_t)got;
    }
    return true;
}

/* Takes rows until the child ends. `next` receives the first cell not dealt with. */
static int follow(pid_t child, int pipe, int patience_s, bench_job_take take, void *user, int *next)
{
    message m, begun = {.cell = -1};
    int status = 0;
    bool silent = false;
    while (get(pipe, patience_s, &m, &silent)) {
        if (!m.done) {
            begun = m;
            continue;
        }
        take(user, &m.row);
        *next = m.cell + 1;
    }
    close(pipe);
    kill(child, SIGKILL); /* harmless once it has ended */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (begun.cell >= *next) {
        begun.row.state = BENCH_LOST;
        fprintf(stderr, "bench: the process of this cell %s\n",
                silent                ? "hung and was killed"
                : WIFSIGNALED(status) ? "crashed"
                                      : "ended");
        take(user, &begun.row);
        *next = begun.cell + 1;
        return BENCH_JOB_AGAIN;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

bench_job_end bench_job_run(bench_job_work work, bench_job_take take, void *user, int patience_s)
{
    int next = 0, end = BENCH_JOB_AGAIN;
    while (end == BENCH_JOB_AGAIN) {
        int ends[2];
        fflush(NULL);
        if (pipe(ends))
            return BENCH_JOB_DONE;
        pid_t child = fork();
        if (child == 0) {
            bench_job job = {.skip = next, .pipe = ends[1]};
            close(ends[0]);
            end = work(user, &job);
            fflush(NULL);
            _exit(end);
        }
        close(ends[1]);
        end = child > 0 ? follow(child, ends[0], patience_s, take, user, &next) : 1;
    }
    return (bench_job_end)end;
}
