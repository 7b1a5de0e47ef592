/* SPDX-License-Identifier: Apache-2.0
 *
 * The calling thread's last failure as a sentence.
 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[512];

nib_status llama_fail(nib_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

nib_status llama_fail_nib(nib_status status, const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(message, sizeof message, "%s: %s", what, nib_last_message());
    return status;
}

const char *llama_message(void)
{
    return message;
}
