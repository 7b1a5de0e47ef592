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

/* Writes to the hook; without one the text is dropped. */
void nib_log(nib_log_level level, const char *format, ...) NIB_PRINTF(2, 3);
void nib_log_set(nib_log_fn log, void *user);
/* Takes the hook away if it is still this one. */
void nib_log_unset(nib_log_fn log, void *user);

#endif
