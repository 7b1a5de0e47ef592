/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: counting, opening with the primary context, facts, and the visit that every other file
 * pays before it calls the driver.
 */
#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_CC = 80 };

static int attribute(const nib_cuda_driver *driver, nib_cu_device device, nib_cu_attribute which)
{
    int value = 0;
    return driver->device_attribute(&value, which, device) ? 0 : value;
}

static int32_t capability(const nib_cuda_driver *driver, nib_cu_device device)
{
    return attribute(driver, device, NIB_CU_MAJOR) * 10 + attribute(driver, device, NIB_CU_MINOR);
}

/* Counts the devices that kernels exist for; with `index` below the count, `found` is that one. The
 * others have no index here. `why` then names the last one left out. */
static nib_status walk_devices(const nib_cuda_driver *driver, uint32_t index, nib_cu_device *found,
                               uint32_t *count, char *why, size_t why_bytes)
{
    int all = 0;
    uint32_t usable = 0;
    nib_status status = nib_cuda_result(driver->device_count(&all), "cuDeviceGetCount");
    if (status)
        return status;
    snprintf(why, why_bytes, "the CUDA driver finds no GPU");
    for (int i = 0; i < all; i++) {
        nib_cu_device device;
        status = nib_cuda_result(driver->device_get(&device, i), "cuDeviceGet");
        if (status)
            return status;
        int32_t cc = capability(driver, device);
        char name[96] = "";
        if (cc >= LEAST_CC) {
            if (usable++ == index)
                *found = device;
            continue;
        }
        driver->device_name(name, sizeof(name), device);
        snprintf(why, why_bytes, "%s has compute capability %d.%d, kernels need 8.0 or newer", name,
                 cc / 10, cc % 10);
    }
    *count = usable;
    return NIB_OK;
}

nib_status nib_cuda_device_count(uint32_t *count, char *why, size_t why_bytes)
{
    const char *reason = "";
    nib_cu_device unused;
    const nib_cuda_driver *driver = nib_cuda_driver_get(&reason);
    if (driver)
        return walk_devices(driver, UINT32_MAX, &unused, count, why, why_bytes);
    snprintf(why, why_bytes, "%s", reason);
    *count = 0;
    return NIB_OK;
}

/* A GPU's memory moves data on both edges of its clock. */
static double bus_gb_per_s(const nib_cuda_driver *driver, nib_cu_device device)
{
    return 2.0 * attribute(driver, device, NIB_CU_MEMORY_CLOCK_KHZ) *
           attribute(driver, device, NIB_CU_MEMORY_BUS_BITS) / 8 * 1e-6;
}

static void read_facts(nib_cuda_device *d)
{
    const nib_cuda_driver *driver = d->driver;
    size_t bytes = 0;
    int32_t cc = capability(driver, d->handle);
    d->target = nib_cuda_target_of(cc);
    d->known = d->target != NULL;
    if (!d->known)
        d->target = nib_cuda_target_named("compute_80");
    driver->device_name(d->name, sizeof(d->name), d->handle);
    if (!driver->device_memory(&bytes, d->handle))
        d->memory_bytes = bytes;
    snprintf(d->driver_name, sizeof(d->driver_name), "CUDA %d.%d", driver->version / 1000,
             driver->version % 1000 / 10);
    d->threads_unit = attribute(driver, d->handle, NIB_CU_THREADS_UNIT);
    d->chip = (nib_cuda_chip){
        .units = attribute(driver, d->handle, NIB_CU_UNITS),
        .shared_block = attribute(driver, d->handle, NIB_CU_SHARED_BLOCK_OPTIN),
        .shared_unit = attribute(driver, d->handle, NIB_CU_SHARED_UNIT),
        .registers_unit = attribute(driver, d->handle, NIB_CU_REGISTERS_UNIT),
        .ghz = attribute(driver, d->handle, NIB_CU_CLOCK_KHZ) * 1e-6,
        .cache_bytes = (uint64_t)attribute(driver, d->handle, NIB_CU_CACHE_BYTES),
    };
    nib_cuda_chip_rates(d->name, d->target, bus_gb_per_s(driver, d->handle), &d->chip);
    if (!d->known)
        nib_cuda_host->log(NIB_LOG_WARNING,
                           "%s has compute capability %d.%d, which this version does not know: it "
                           "gets PTX of the portable kernels, each checked when it is loaded",
                           d->name, cc / 10, cc % 10);
}

nib_status nib_cuda_device_open(uint32_t index, void **dev)
{
    const char *reason = "";
    char why[256];
    uint32_t count = 0;
    nib_cu_device handle = 0;
    const nib_cuda_driver *driver = nib_cuda_driver_get(&reason);
    if (!driver)
        return nib_cuda_host->fail(NIB_UNSUPPORTED, "%s", reason);
    nib_status status = walk_devices(driver, index, &handle, &count, why, sizeof(why));
    if (status)
        return status;
    if (index >= count)
        return nib_cuda_host->fail(NIB_MISSING, "there is no CUDA device %u, but %u", index, count);
    nib_cuda_device *device = calloc(1, sizeof(*device));
    nib_cuda_shapes *shapes = nib_cuda_shapes_create();
    if (!device || !shapes) {
        free(device);
        free(shapes);
        return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a device");
    }
    device->shapes = shapes;
    device->driver = driver;
    device->handle = handle;
    read_facts(device);
    const char *converts = nib_cuda_host->env("NIB_CUDA_CONVERT");
    device->converts_always = converts && !strcmp(converts, "device");
    const char *depends = nib_cuda_host->env("NIB_CUDA_DEPENDENT");
    device->depends = !depends || strcmp(depends, "0") != 0;
    /* Launches of other processes, and what memory holds by chance, are to differ as well. */
    atomic_init(&device->nonce, (uint64_t)(nib_cuda_now_us() * 1e3) * 0x9e3779b97f4a7c15u ^
                                    (uintptr_t)device << 17);
    nib_cuda_nvrtc_path(driver->version, &reason); /* reads the environment, now and not later */
    double begin = nib_cuda_now_us();
    status = nib_cuda_result(driver->primary_retain(&device->context, handle),
                             "cuDevicePrimaryCtxRetain");
    nib_cuda_host->log(NIB_LOG_DEBUG, "timed: driver %.0f us its context",
                       nib_cuda_now_us() - begin);
    if (status) {
        free(shapes);
        free(device);
        return status;
    }
    pthread_mutex_init(&device->lock, NULL);
    *dev = device;
    return NIB_OK;
}

void nib_cuda_device_close(void *dev)
{
    nib_cuda_device *device = dev;
    if (device->converter)
        nib_cuda_module_put(device, device->converter);
    if (nib_cuda_driver_here())
        device->driver->primary_release(device->handle);
    pthread_mutex_destroy(&device->lock);
    free(device->shapes);
    free(device);
}

nib_status nib_cuda_device_info(void *dev, nib_device_info *info)
{
    const nib_cuda_device *device = dev;
    const nib_cuda_chip *chip = &device->chip;
    snprintf(info->name, sizeof(info->name), "%s", device->name);
    snprintf(info->isa, sizeof(info->isa), "%s", device->target->isa);
    snprintf(info->driver, sizeof(info->driver), "%s", device->driver_name);
    info->units = chip->units;
    info->memory_bytes = device->memory_bytes;
    info->cache_bytes = chip->cache_bytes;
    info->shared_bytes = (uint64_t)chip->shared_unit;
    info->read_gb_per_s = chip->read_gb_per_s;
    info->f32_tflop_per_s = chip->f32_tflop_per_s;
    info->f16_tflop_per_s = chip->f16_tflop_per_s;
    info->i8_top_per_s = chip->i8_top_per_s;
    info->launch_us = NIB_CUDA_LAUNCH_US;
    return NIB_OK;
}

nib_status nib_cuda_enter(const nib_cuda_device *device, nib_cuda_visit *visit)
{
    nib_cu_context current = NULL;
    visit->device = device;
    visit->pushed = false;
    if (!nib_cuda_driver_here())
        return nib_cuda_host->fail(NIB_UNSUPPORTED,
                                   "this CUDA device was opened before fork(): open it in the "
                                   "child, and use CUDA only there");
    nib_status status =
        nib_cuda_result(device->driver->context_current(&current), "cuCtxGetCurrent");
    if (status || current == device->context)
        return status;
    status = nib_cuda_result(device->driver->context_push(device->context), "cuCtxPushCurrent");
    visit->pushed = !status;
    return status;
}

void nib_cuda_leave(const nib_cuda_visit *visit)
{
    nib_cu_context popped;
    if (visit->pushed)
        visit->device->driver->context_pop(&popped);
}
