/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of threads: see threads.h.
 */
#include "host/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sched.h>
#endif

enum { MOST_THREADS = 1024 };

int32_t nib_cpu_threads_parse(const char *value)
{
    char *end;
    if (!value)
        return 0;
    long threads = strtol(value, &end, 10);
    if (end == value || (*end && *end != ',') || threads < 1)
        return 0;
    return threads > MOST_THREADS ? MOST_THREADS : (int32_t)threads;
}

static int32_t quota_threads(int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    int64_t threads = quota / period + (quota % period != 0);
    return threads > MOST_THREADS ? MOST_THREADS : (int32_t)threads;
}

int32_t nib_cpu_quota_v2(const char *cpu_max)
{
    int64_t quota, period;
    if (sscanf(cpu_max, "%" SCNd64 " %" SCNd64, &quota, &period) != 2) /* "max 100000" */
        return 0;
    return quota_threads(quota, period);
}

int32_t nib_cpu_quota_v1(const char *quota, const char *period)
{
    return quota_threads(strtoll(quota, NULL, 10), strtoll(period, NULL, 10)); /* -1: no limit */
}

/* A small file as text; false if it cannot be read. */
static int read_text(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t bytes = fread(text, 1, capacity - 1, file);
    fclose(file);
    text[bytes] = '\0';
    return bytes > 0;
}

static int32_t lesser(int32_t a, int32_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The limit in one folder of the hierarchy. */
static int32_t folder_quota(const char *folder, const char *group)
{
    char path[1024], text[128], period[128];
    snprintf(path, sizeof(path), "%s%s/cpu.max", folder, group);
    if (read_text(path, text, sizeof(text)))
        return nib_cpu_quota_v2(text);
    snprintf(path, sizeof(path), "%s/cpu%s/cpu.cfs_quota_us", folder, group);
    if (!read_text(path, text, sizeof(text)))
        return 0;
    snprintf(path, sizeof(path), "%s/cpu%s/cpu.cfs_period_us", folder, group);
    return read_text(path, period, sizeof(period)) ? nib_cpu_quota_v1(text, period) : 0;
}

/* The path of the line of /proc/self/cgroup that governs processors: "0::/path" of v2 or
 * "4:cpu,cpuacct:/path" of v1; "" when there is none. */
static void find_group(char *group, size_t capacity)
{
    char text[4096], *line, *rest = text;
    group[0] = '\0';
    if (!read_text("/proc/self/cgroup", text, sizeof(text)))
        return;
    while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (path && (names + 1 == path || !strncmp(names + 1, "cpu", 3)))
            snprintf(group, capacity, "%s", path + 1);
    }
}

int32_t nib_cpu_quota(void)
{
    char group[512];
    int32_t least = 0;
    find_group(group, sizeof(group));
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        least = lesser(least, folder_quota("/sys/fs/cgroup", group));
    }
    return least;
}

static int32_t allowed_processors(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof(set), &set))
        return CPU_COUNT(&set);
#endif
    return 1;
}

int32_t nib_cpu_threads(const char *omp)
{
    int32_t asked = nib_cpu_threads_parse(omp);
    if (asked)
        return asked;
    int32_t threads = lesser(allowed_processors(), nib_cpu_quota());
    return threads < 1 ? 1 : threads;
}
