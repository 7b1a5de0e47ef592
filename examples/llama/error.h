/* SPDX-License-Identifier: Apache-2.0
 *
 * How a part of nib-llama fails: it returns a nib_status and leaves a sentence, as nibblas does.
 * main.c prints the sentence; nothing else prints or exits.
 */
#ifndef LLAMA_ERROR_H
#define LLAMA_ERROR_H

#include <nibblas/nibblas.h>

/* Keeps the sentence for the calling thread and returns `status`. */
nib_status llama_fail(nib_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for a failed nibblas call: "<what>: <nib_last_message()>". */
nib_status llama_fail_nib(nib_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The calling thread's last sentence. */
const char *llama_message(void);

#endif
