/* SPDX-License-Identifier: Apache-2.0
 *
 * One case on one device: pack, unpack, run guarded and poisoned, compare with the oracle. main.c
 * calls this for each line of a file.
 */
#ifndef NIB_CONFORMANCE_RUN_H
#define NIB_CONFORMANCE_RUN_H

#include "support/problem.h"

typedef struct run_options {
    nib_device *dev;
    const char *variant; /* NULL: the planned one; "all"; or ids with commas, skipped where they
                          * cannot run */
} run_options;

/* NIB_OK: the case passed. Otherwise nib_last_message says what went wrong, and in which variant.
 * `runs` grows by the number of variants that ran. */
nib_status run_case(const run_options *options, const test_case *given, int64_t *runs);

#endif
