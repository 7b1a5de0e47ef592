/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads to use: what OMP_NUM_THREADS says, else the processors this process may run on,
 * limited by the cgroup's share of processor time. Parsers take file contents, for tests.
 */
#ifndef NIB_CPU_THREADS_H
#define NIB_CPU_THREADS_H

#include <stdint.h>

/* Threads of an OMP_NUM_THREADS value ("4", "4,2": the first level); 0: not a positive number. */
int32_t nib_cpu_threads_parse(const char *value);

/* Threads that cpu.max of cgroup v2 ("200000 100000") allows, rounded up; 0: no limit. */
int32_t nib_cpu_quota_v2(const char *cpu_max);
/* The same for cpu.cfs_quota_us and cpu.cfs_period_us of cgroup v1. */
int32_t nib_cpu_quota_v1(const char *quota, const char *period);

/* The limit of the cgroup this process is in and of all above it; 0: none. */
int32_t nib_cpu_quota(void);

/* The number to use; at least 1. `omp` is the value of OMP_NUM_THREADS or NULL. */
int32_t nib_cpu_threads(const char *omp);

#endif
