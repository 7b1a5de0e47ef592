/* SPDX-License-Identifier: Apache-2.0
 *
 * The one CPU device: choice of ISA, facts about the processor, layouts and the list of variants.
 */
#include "host/host.h"
#include "host/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most capable first. */
static const nib_cpu_isa *const isas[] = {
#ifdef NIB_CPU_X86
    &nib_cpu_avx512,
    &nib_cpu_avx2,
#endif
    &nib_cpu_portable,
};

/* clang-format off */
/* Tiles of 16 n whose lanes hold one 32-bit word each: kernels/kernel.h has the picture. */
#define PLANE8 "bits=8 tile=n16,k4 addr=k0,k1,n0,n1,n2,n3 order=nk"
#define PLANE4 "bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk"
#define PLANE2(shift) "bits=2" shift " tile=n16,k16 addr=k2,k3,k0,k1,n0,n1,n2,n3 order=nk"
#define PLANE1(shift) "bits=1" shift " tile=n16,k32 addr=k2,k3,k4,k0,k1,n0,n1,n2,n3 order=nk"
static const char *const code_layouts[9] = {
    NULL,
    PLANE1(""),
    PLANE2(""),
    PLANE2("") " | " PLANE1(" shift=2"),
    PLANE4,
    PLANE4 " | " PLANE1(" shift=4"),
    PLANE4 " | " PLANE2(" shift=4"),
    PLANE4 " | " PLANE2(" shift=4") " | " PLANE1(" shift=6"),
    PLANE8,
};
/* Scales and zeros: 16 n side by side; zero codes one a byte. */
#define LANES " tile=n16,k1 addr=n0,n1,n2,n3 order=nk"
static const char *const byte_layouts[9] = {
    NULL, "bits=1 cell=8" LANES, "bits=2 cell=8" LANES, "bits=3 cell=8" LANES,
    "bits=4 cell=8" LANES, "bits=5 cell=8" LANES, "bits=6 cell=8" LANES, "bits=7 cell=8" LANES,
    "bits=8" LANES,
};
static const char half_layout[] = "bits=16" LANES, single_layout[] = "bits=32" LANES;
/* clang-format on */

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
    nib_cpu_device *device = malloc(sizeof(*device));
    if (!device)
        return nib_cpu_host->fail(NIB_NO_MEMORY, "no memory for a device");
    *device = (nib_cpu_device){.isa = isa,
                               .threads = nib_cpu_threads(nib_cpu_host->env("OMP_NUM_THREADS"))};
    snprintf(device->isa_name, sizeof(device->isa_name), "%s", isa->present());
    *dev = device;
    return NIB_OK;
}

void nib_cpu_device_close(void *dev)
{
    free(dev);
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

nib_status nib_cpu_device_info(void *dev, nib_device_info *info)
{
    const nib_cpu_device *device = dev;
    nib_cpu_rates rates = nib_cpu_measure(device->isa, device->threads);
    processor_name(info->name, sizeof(info->name));
    snprintf(info->isa, sizeof(info->isa), "%s", device->isa_name);
    snprintf(info->driver, sizeof(info->driver), "none");
    info->units = device->threads;
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    info->shared_bytes = cache_bytes(2);
    info->cache_bytes = cache_bytes(3);
    if (!info->cache_bytes)
        info->cache_bytes = info->shared_bytes;
    info->read_gb_per_s = rates.read_gb_per_s;
    info->f32_tflop_per_s = rates.thread_tflop_per_s * device->threads;
    info->f16_tflop_per_s = 0; /* halves are computed as f32 */
    info->i8_top_per_s = info->f32_tflop_per_s * device->isa->i8_per_f32;
    info->launch_us = 2; /* waking a team that waits in OpenMP's barrier */
    return NIB_OK;
}

static const char *value_layout(int32_t bits, int32_t code_bits)
{
    if (code_bits)
        return byte_layouts[code_bits];
    return bits == 32 ? single_layout : bits == 16 ? half_layout : byte_layouts[8];
}

nib_status nib_cpu_layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out)
{
    (void)dev;
    int32_t bits = nib_cpu_host->type_bits(desc->type);
    out->codes = code_layouts[bits];
    out->scales = value_layout(nib_cpu_host->type_bits(desc->scale_type), 0);
    out->zeros = value_layout(nib_cpu_host->type_bits(desc->zero_type),
                              desc->zero == NIB_ZERO_CODE ? bits : 0);
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
