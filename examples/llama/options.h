/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of nib-llama.
 */
#ifndef LLAMA_OPTIONS_H
#define LLAMA_OPTIONS_H

#include "run.h"

typedef enum llama_intent {
    LLAMA_INTENT_RUN = 0,
    LLAMA_INTENT_HELP = 1,
    LLAMA_INTENT_VERSION = 2
} llama_intent;

/* NIB_INVALID says which option is wrong. Texts point into argv. */
nib_status llama_options_parse(int argc, char **argv, llama_options *out, llama_intent *intent);

extern const char llama_usage[];

#endif
