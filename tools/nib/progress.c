/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock, the progress bar and the interrupt flag.
 */
#include "tool.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_CELLS   30
#define PATIENCE_US 1e6 /* work shorter than this shows no bar */
#define REDRAW_US   1e5

double tool_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void tool_progress_begin(tool_progress *progress, const char *title, double total)
{
    const char *forced = getenv("NIB_PROGRESS");
    *progress = (tool_progress){.title = title, .total = total, .begun_us = tool_now_us()};
    progress->wanted = forced && *forced ? !strcmp(forced, "1") : isatty(STDERR_FILENO);
}

void tool_progress_at(tool_progress *progress, double done, const char *what)
{
    double now = tool_now_us();
    if (!progress->wanted || now - progress->begun_us < PATIENCE_US ||
        now - progress->shown_us < REDRAW_US)
        return;
    char bar[BAR_CELLS + 1];
    double share = progress->total > 0 ? done / progress->total : 0;
    int filled = (int)(BAR_CELLS * (share < 0 ? 0 : share > 1 ? 1 : share));
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_CELLS] = 0;
    fprintf(stderr, "\r%s [%s] %3.0f%% %.32s\033[K", progress->title, bar, 100 * share, what);
    fflush(stderr);
    progress->shown_us = now;
    progress->visible = true;
}

void tool_progress_end(tool_progress *progress)
{
    if (progress->visible)
        fputs("\r\033[K", stderr);
    progress->visible = false;
}

static volatile sig_atomic_t interrupt_seen;

static void on_signal(int number)
{
    interrupt_seen = number;
}

void tool_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    /* A reader gone or a file over the size limit are failed writes, which are reported and cleaned
     * up after; by default they kill. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

bool tool_interrupted(void)
{
    return interrupt_seen != 0;
}
