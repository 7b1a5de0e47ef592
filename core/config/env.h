/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment variables that the library reads, in one table, which the manual page repeats.
 * They are read when a context, gemm or kernel image is made, a device opened or a quantiser
 * called, never by a run.
 */
#ifndef NIB_CONFIG_ENV_H
#define NIB_CONFIG_ENV_H

#include <stdint.h>

typedef struct nib_env_row {
    const char *name, *meaning;
} nib_env_row;

/* Rows by index, NULL past the last. */
const nib_env_row *nib_env_describe(uint32_t index);

/* The value, NULL if unset or empty. */
const char *nib_env(const char *name);

#endif
