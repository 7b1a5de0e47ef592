/* SPDX-License-Identifier: Apache-2.0
 *
 * The one CPU device: choice of ISA, facts about the processor, layouts and the list of variants.
 */
#include "host/host.h"
#include "host/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREAD_READ_GB_PER_S = 12, /* what one thread of a current server reads from memory */
    MOST_READ_GB_PER_S = 200
};

/* Most capable first. */
static const nib_cpu_isa *const isas[] = {
#ifdef NIB_CPU_X86
    &nib_cpu_avx512,
    &nib_cpu_avx2,
#endif
    &nib_cpu_portable,
};

const nib_cpu_isa *nib_cpu_isa_choose(const char *wanted)
{
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
        if ((!wanted || !strcmp(wanted, isas[i]->name)) && isas[i]->present())
            return isas[i];
    return NULL;
}

nib_status nib_cpu_device_count(uint32_t *count, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    *count = 1;
    return NIB_OK;
}

nib_status nib_cpu_device_open(uint32_t index, void **dev)
{
    (void)index;
    const char *wanted = nib_cpu_host->env("NIB_CPU_ISA");
    const nib_cpu_isa *isa = nib_cpu_isa_choose(wanted);
    if (!isa && strcmp(wanted, "portable") && strcmp(wanted, "avx2") && strcmp(wanted, "avx512"))
        return nib_cpu_host->fail(NIB_INVALID,
                                  "NIB_CPU_ISA is '%s', expected portable, avx2 or avx512", wanted);
    if (!isa)
        return nib_cpu_host->fail(
            NIB_UNSUPPORTED, "NIB_CPU_ISA is '%s', which this processor or build lacks", wanted);
    int32_t threads = nib_cpu_threads(nib_cpu_host->env("OMP_NUM_THREADS"));
    nib_cpu_device *device = malloc(sizeof(*device));
    nib_cpu_crew *crew = nib_cpu_crew_create(threads);
    if (!device || !crew) {
        free(device);
        nib_cpu_crew_destroy(crew);
        return nib_cpu_host->fail(NIB_NO_MEMORY, "no memory for a device");
    }
    *device = (nib_cpu_device){.isa = isa, .threads = threads, .crew = crew};
    snprintf(device->isa_name, sizeof(device->isa_name), "%s", isa->present());
    *dev = device;
    return NIB_OK;
}

void nib_cpu_device_close(void *dev)
{
    nib_cpu_device *device = dev;
    nib_cpu_crew_destroy(device->crew);
    free(device);
}

static void processor_name(char *name, size_t capacity)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(name, capacity, "CPU");
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon || !colon[1])
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, capacity, "%s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

/* Size of the first processor's cache of a level, data or unified; 0: unknown. */
static uint64_t cache_bytes(int level)
{
    static const char format[] = "/sys/devices/system/cpu/cpu0/cache/index%d/%s";
    for (int i = 0; i < 8; i++) {
        char path[128], type = 0, unit = 0;
        int found = 0;
        unsigned long long size = 0;
        snprintf(path, sizeof(path), format, i, "level");
        FILE *file = fopen(path, "re");
        if (!file)
            return 0;
        int read = fscanf(file, "%d", &found);
        fclose(file);
        snprintf(path, sizeof(path), format, i, "type");
        file = fopen(path, "re");
        if (file) {
            type = (char)fgetc(file);
            fclose(file);
        }
        if (read != 1 || found != level || type == 'I')
            continue;
        snprintf(path, sizeof(path), format, i, "size");
        file = fopen(path, "re");
        if (!file)
            return 0;
        read = fscanf(file, "%llu%c", &size, &unit);
        fclose(file);
        return read < 1 ? 0 : size * (unit == 'K' ? 1024u : unit == 'M' ? 1024u * 1024u : 1u);
    }
    return 0;
}

/* The clock in GHz that the processor's name ends with ("@ 2.80GHz"), else a usual one. */
static double nominal_ghz(const char *name)
{
    const char *at = strrchr(name, '@');
    double ghz = at ? strtod(at + 1, NULL) : 0;
    return ghz > 0.5 && ghz < 10 ? ghz : 3;
}

/* Nominal numbers only: what a plan depends on must not differ from process to process, or results
 * would. */
nib_status nib_cpu_device_info(void *dev, nib_device_info *info)
{
    const nib_cpu_device *device = dev;
    processor_name(info->name, sizeof(info->name));
    snprintf(info->isa, sizeof(info->isa), "%s", device->isa_name);
    snprintf(info->driver, sizeof(info->driver), "none");
    info->units = device->threads;
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    info->shared_bytes = cache_bytes(2);
    info->cache_bytes = cache_bytes(3);
    if (!info->cache_bytes)
        info->cache_bytes = info->shared_bytes;
    info->read_gb_per_s = fmin(device->threads * THREAD_READ_GB_PER_S, MOST_READ_GB_PER_S);
    info->f32_tflop_per_s =
        nominal_ghz(info->name) * device->isa->f32_per_cycle * device->threads * 1e-3;
    info->f16_tflop_per_s = 0; /* halves are computed as f32 */
    info->i8_top_per_s = info->f32_tflop_per_s * device->isa->i8_per_f32;
    info->launch_us = 2; /* waking the crew while it still spins */
    return NIB_OK;
}

/* Both layouts are rows of core's table: 16 n side by side, a 32-bit word of codes each
 * (kernels/kernel.h has the picture). */
nib_status nib_cpu_layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    (void)dev, (void)desc;
    out->codes = "cpu16";
    out->scales = out->zeros = "cpu16-scales";
    return NIB_OK;
}

nib_status nib_cpu_variant(void *dev, uint32_t index, const nib_variant **out)
{
    const nib_cpu_device *device = dev;
    uint32_t own = device->isa == &nib_cpu_portable ? 0 : (uint32_t)device->isa->row_count;
    *out = NULL;
    if (index < own)
        *out = &device->isa->rows[index].variant;
    else if (index - own < (uint32_t)nib_cpu_portable.row_count)
        *out = &nib_cpu_portable.rows[index - own].variant;
    return NIB_OK;
}
