/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages and the log hook: see status.h.
 */
#include "base/status.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[NIB_MESSAGE_BYTES];

static pthread_rwlock_t log_lock = PTHREAD_RWLOCK_INITIALIZER;
static nib_log_sink *log_sinks;

const char *nib_status_name(nib_status status)
{
    static const char *const names[] = {"NIB_OK",          "NIB_INVALID",   "NIB_UNSUPPORTED",
                                        "NIB_MISSING",     "NIB_NO_MEMORY", "NIB_CORRUPT",
                                        "NIB_DEVICE_LOST", "NIB_INTERNAL"};
    if (status < 0 || status >= (nib_status)(sizeof(names) / sizeof(names[0])))
        return "NIB_?";
    return names[status];
}

const char *nib_last_message(void)
{
    return message;
}

#define STRING2(x) #x
#define STRING(x)  STRING2(x)

const char *nib_version(void)
{
    return STRING(NIB_VERSION_MAJOR) "." STRING(NIB_VERSION_MINOR) "." STRING(NIB_VERSION_PATCH);
}

nib_status nib_fail(nib_status status, const char *format, ...)
{
    /* The arguments may point into the message itself, so it is written elsewhere first. */
    char text[NIB_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    memcpy(message, text, sizeof(text));
    return status;
}

nib_status nib_fail_within(nib_status status, const char *format, ...)
{
    char text[NIB_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    size_t used = strlen(text);
    /* What does not fit is cut, as everywhere in messages. */
    int room = (int)(sizeof(text) - used) - 3;
    if (room > 0)
        snprintf(text + used, sizeof(text) - used, ": %.*s", room, message);
    memcpy(message, text, sizeof(text));
    return status;
}

void nib_log_add(nib_log_sink *sink)
{
    pthread_rwlock_wrlock(&log_lock);
    sink->next = log_sinks;
    log_sinks = sink;
    pthread_rwlock_unlock(&log_lock);
}

void nib_log_remove(nib_log_sink *sink)
{
    pthread_rwlock_wrlock(&log_lock);
    for (nib_log_sink **at = &log_sinks; *at; at = &(*at)->next)
        if (*at == sink) {
            *at = sink->next;
            break;
        }
    pthread_rwlock_unlock(&log_lock);
}

void nib_log(nib_log_level level, const char *format, ...)
{
    char text[NIB_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Readers hold the lock while the functions run, so that removing a sink waits for them. */
    pthread_rwlock_rdlock(&log_lock);
    for (const nib_log_sink *sink = log_sinks; sink; sink = sink->next)
        sink->log(sink->user, level, text);
    pthread_rwlock_unlock(&log_lock);
}
