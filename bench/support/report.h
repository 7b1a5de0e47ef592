/* SPDX-License-Identifier: Apache-2.0
 *
 * What a contest found, as a table for people, JSON for programs and CSV for spreadsheets.
 */
#ifndef NIB_BENCH_REPORT_H
#define NIB_BENCH_REPORT_H

#include "support/contest.h"

#include <stdio.h>

typedef struct bench_report {
    FILE *table, *json, *csv; /* each may be NULL */
    bool first_in_json;
} bench_report;

/* What holds for the whole run. */
typedef struct bench_machine {
    char cpu[96], kernel[96], compiler[64];
    int threads;
    size_t l2_bytes, cache_bytes;
    double read_gb_per_s; /* streaming, far beyond the last-level cache */
    char isa[32];         /* of our CPU device; "" when ours does not run */
    char openblas[96];    /* core type and configuration; "" when not opened */
    double load;          /* of the last minute, at the start */
} bench_machine;

void bench_machine_describe(bench_machine *machine);

void bench_report_begin(bench_report *report, const bench_machine *machine);
/* `baseline`: index of the contender that ratios are to, -1: none. The floor is the contender of
 * kind BENCH_READ. */
void bench_report_contest(bench_report *report, const bench_machine *machine,
                          const bench_problem *p, const bench_settings *settings,
                          const bench_contender *list, int count, int baseline);
/* False, with a line on stderr: something could not be written. */
bool bench_report_end(bench_report *report);

#endif
