/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the library and a device, with an account of what the start took. What only the library
 * can time, it logs: lines "timed: driver 1234 us ...", where the word is driver, pack, cache,
 * compiler or load.
 */
#include "product.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the log comes from any thread */

void tool_log(void *user, nib_log_level level, const char *message)
{
    static const char *const names[] = {"debug", "info", "warning"};
    (void)user;
    fprintf(stderr, "nib: %s: %s\n", names[level], message);
}

static void add_timed(tool_startup *s, const char *word, double us)
{
    static const char *const origins[] = {"pack", "cache", "compiler"};
    if (!strcmp(word, "driver"))
        s->driver_us += us;
    if (!strcmp(word, "load")) {
        s->loads.count++;
        s->loads.us += us;
    }
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, origins[i])) {
            s->images[i].count++;
            s->images[i].us += us;
        }
}

static void listen(void *user, nib_log_level level, const char *message)
{
    tool_startup *s = user;
    char word[16];
    double us;
    pthread_mutex_lock(&lock);
    if (sscanf(message, "timed: %15s %lf us", word, &us) == 2)
        add_timed(s, word, us);
    if (s->verbose)
        tool_log(NULL, level, message);
    pthread_mutex_unlock(&lock);
}

tool_exit tool_device_with(const char *selector, tool_startup *startup, tool_device_work work,
                           void *user)
{
    tool_startup none = {0}, *s = startup ? startup : &none;
    nib_context_options options = {.size = sizeof(options), .log = listen, .log_user = s};
    nib_context *ctx;
    nib_device *dev;
    double begun = tool_now_us();
    nib_status status = nib_context_create(&options, &ctx);
    double opened = tool_now_us();
    if (status)
        return tool_fail(status);
    s->library_us = opened - begun;
    tool_exit code;
    if ((status = nib_device_open(ctx, selector, &dev))) {
        code = tool_fail(status);
    } else {
        s->device_us = tool_now_us() - opened;
        code = work(user, dev);
        nib_device_close(dev);
    }
    nib_context_destroy(ctx);
    return code;
}
