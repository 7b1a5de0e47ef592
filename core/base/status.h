/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing and logging. Every failure in the library passes through nib_fail, which keeps the
 * message for nib_last_message in a thread-local buffer. The log hook belongs to the process:
 * contexts set it, backends and core write to it.
 */
#ifndef NIB_BASE_STATUS_H
#define NIB_BASE_STATUS_H

#include <nibblas/nibblas.h>
#include <stdarg.h>

#ifdef __GNUC__
#define NIB_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define NIB_PRINTF(text, first)
#endif

#define NIB_MESSAGE_BYTES 1024

/* Keeps the message and returns `status`, so that callers write `return nib_fail(...)`. */
nib_status nib_fail(nib_status status, const char *format, ...) NIB_PRINTF(2, 3);

/* Puts "prefix: " before the message of a failure that is being passed on, and returns `status`. */
nib_status nib_fail_within(nib_status status, const char *format, ...) NIB_PRINTF(2, 3);

/* One receiver of the log, linked in place: a context has one. */
typedef struct nib_log_sink {
    nib_log_fn log;
    void *user;
    struct nib_log_sink *next;
} nib_log_sink;

/* Writes to every sink; without any the text is dropped. A sink's function may log itself. */
void nib_log(nib_log_level level, const char *format, ...) NIB_PRINTF(2, 3);
void nib_log_add(nib_log_sink *sink);
/* Waits for calls of the sink's function that run: none comes afterwards. Not from inside one. */
void nib_log_remove(nib_log_sink *sink);

#endif
