/* SPDX-License-Identifier: Apache-2.0
 *
 * Listing, choosing and opening devices, and their memory: see device.h.
 */
#include "registry/device.h"

#include "base/struct.h"
#include "base/text.h"
#include "config/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_BYTES = 256 };

/* The number of a backend's devices. `why` says, when it has none, what the reason is. */
static uint32_t devices_or_why(const nib_backend *backend, char why[WHY_BYTES])
{
    uint32_t count = 0;
    why[0] = '\0';
    nib_status status = backend->api.device_count(&count, why, WHY_BYTES);
    if (status) {
        count = 0;
        snprintf(why, WHY_BYTES, "%s", nib_last_message());
    }
    return count;
}

static uint32_t devices_of(const nib_backend *backend)
{
    char why[WHY_BYTES];
    return devices_or_why(backend, why);
}

/* For the log of who counts devices or takes the first; not of who asks for one after the other. */
static uint32_t devices_logged(const nib_backend *backend)
{
    char why[WHY_BYTES];
    uint32_t count = devices_or_why(backend, why);
    if (count == 0)
        nib_log(NIB_LOG_INFO, "backend '%s' has no device: %s", backend->api.name, why);
    return count;
}

/* Device `index` of all, in the order of "auto". NIB_MISSING past the last. */
static nib_status device_at(uint32_t index, uint32_t (*count_of)(const nib_backend *backend),
                            const nib_backend **backend, uint32_t *local)
{
    const nib_backend *b;
    for (uint32_t i = 0; (b = nib_registry_get(i)) != NULL; i++) {
        uint32_t count = count_of(b);
        if (index < count) {
            *backend = b;
            *local = index;
            return NIB_OK;
        }
        index -= count;
    }
    return nib_fail(NIB_MISSING, "there is no device at that index");
}

/* Names of all devices, for messages. */
static void list_devices(char *out, size_t capacity)
{
    nib_text text = nib_text_into(out, capacity);
    const nib_backend *b;
    for (uint32_t i = 0; (b = nib_registry_get(i)) != NULL; i++) {
        uint32_t count = devices_of(b);
        for (uint32_t d = 0; d < count; d++)
            nib_text_add(&text, "%s%s:%u", text.length ? ", " : "", b->api.name, d);
    }
    if (!text.length)
        nib_text_add(&text, "none");
}

/* `why`: the reason that the backend has none at all, "" when that is not it. */
static nib_status no_such_device(const char *selector, const char *why)
{
    char names[512];
    list_devices(names, sizeof(names));
    return nib_fail(NIB_MISSING, "no device '%s'%s%s%s; there are: %s", selector,
                    why[0] ? " (" : "", why, why[0] ? ")" : "", names);
}

/* "name" or "name:index". */
static nib_status select_device(const char *selector, const nib_backend **backend, uint32_t *local)
{
    char name[32], why[WHY_BYTES] = "";
    size_t length = strcspn(selector, ":");
    int64_t index = 0;
    if (length == 0 || length >= sizeof(name) ||
        (selector[length] && (!nib_parse_int(selector + length + 1, &index) || index < 0)))
        return nib_fail(NIB_INVALID, "'%s' is no device selector: expected auto, cpu or cuda:0",
                        selector);
    memcpy(name, selector, length);
    name[length] = '\0';
    const nib_backend *found = nib_registry_find(name);
    uint32_t count = found ? devices_or_why(found, why) : 0;
    if (index >= count)
        return no_such_device(selector, count ? "" : why);
    *backend = found;
    *local = (uint32_t)index;
    return NIB_OK;
}

/* Opens a backend's device and reads its info. */
static nib_status open_device(const nib_backend *backend, uint32_t local, nib_device *out)
{
    nib_device dev = {.backend = backend, .index = local};
    nib_status status = backend->api.device_open(local, &dev.handle);
    if (status)
        return nib_fail_within(status, "%s:%u", backend->api.name, local);
    dev.info.size = sizeof(dev.info);
    status = backend->api.device_info(dev.handle, &dev.info);
    if (status) {
        backend->api.device_close(dev.handle);
        return nib_fail_within(status, "%s:%u", backend->api.name, local);
    }
    snprintf(dev.info.backend, sizeof(dev.info.backend), "%s", backend->api.name);
    snprintf(dev.info.selector, sizeof(dev.info.selector), "%s:%u", backend->api.name, local);
    dev.host_memory = backend->api.host_memory && backend->api.host_memory(dev.handle);
    *out = dev;
    return NIB_OK;
}

nib_status nib_device_count(nib_context *ctx, uint32_t *count)
{
    if (!ctx || !count)
        return nib_fail(NIB_INVALID, "nib_device_count needs a context and a place for the count");
    uint32_t total = 0;
    const nib_backend *b;
    for (uint32_t i = 0; (b = nib_registry_get(i)) != NULL; i++)
        total += devices_logged(b);
    *count = total;
    return NIB_OK;
}

/* The first versions of structs that callers hand in; see base/struct.h. */
#define DEVICE_INFO_LEAST sizeof(nib_device_info)

nib_status nib_device_describe(nib_context *ctx, uint32_t index, nib_device_info *info)
{
    if (!ctx)
        return nib_fail(NIB_INVALID, "nib_device_describe needs a context");
    const nib_backend *backend = NULL;
    uint32_t local = 0;
    nib_device dev;
    nib_status status = device_at(index, devices_of, &backend, &local);
    if (!status)
        status = open_device(backend, local, &dev);
    if (status)
        return status;
    backend->api.device_close(dev.handle);
    return nib_struct_write(info, &dev.info, sizeof(dev.info), DEVICE_INFO_LEAST,
                            "nib_device_info");
}

nib_status nib_device_open(nib_context *ctx, const char *selector, nib_device **out)
{
    if (!ctx || !out)
        return nib_fail(NIB_INVALID, "nib_device_open needs a context and a place for the device");
    if (!selector || !strcmp(selector, "auto"))
        selector = nib_env("NIB_DEVICE");
    const nib_backend *backend = NULL;
    uint32_t local = 0;
    nib_status status;
    if (selector && strcmp(selector, "auto")) {
        status = select_device(selector, &backend, &local);
    } else {
        status = device_at(0, devices_logged, &backend, &local);
        if (status)
            status = no_such_device("auto", "");
    }
    if (status)
        return status;
    nib_device *dev = malloc(sizeof(*dev));
    if (!dev)
        return nib_fail(NIB_NO_MEMORY, "no memory for a device");
    status = open_device(backend, local, dev);
    if (status) {
        free(dev);
        return status;
    }
    *out = dev;
    return NIB_OK;
}

void nib_device_close(nib_device *dev)
{
    if (!dev)
        return;
    dev->backend->api.device_close(dev->handle);
    free(dev);
}

nib_status nib_device_get_info(nib_device *dev, nib_device_info *info)
{
    if (!dev)
        return nib_fail(NIB_INVALID, "the device is NULL");
    return nib_struct_write(info, &dev->info, sizeof(dev->info), DEVICE_INFO_LEAST,
                            "nib_device_info");
}

nib_status nib_memory_alloc(nib_device *dev, size_t bytes, void **out)
{
    if (!dev || !out)
        return nib_fail(NIB_INVALID, "nib_memory_alloc needs a device and a place for the pointer");
    return dev->backend->api.memory_alloc(dev->handle, bytes, out);
}

void nib_memory_free(nib_device *dev, void *memory)
{
    if (dev && memory)
        dev->backend->api.memory_free(dev->handle, memory);
}

nib_status nib_memory_copy(nib_device *dev, void *to, const void *from, size_t bytes,
                           nib_copy_kind kind, void *stream)
{
    if (!dev || (bytes && (!to || !from)))
        return nib_fail(NIB_INVALID, "nib_memory_copy needs a device and two addresses");
    if (kind < NIB_COPY_TO_DEVICE || kind > NIB_COPY_ON_DEVICE)
        return nib_fail(NIB_INVALID, "copy kind is %d, expected a NIB_COPY_ value", (int)kind);
    if (bytes == 0)
        return NIB_OK;
    return dev->backend->api.memory_copy(dev->handle, to, from, bytes, kind, stream);
}

nib_status nib_stream_synchronize(nib_device *dev, void *stream)
{
    if (!dev)
        return nib_fail(NIB_INVALID, "the device is NULL");
    return dev->backend->api.synchronize(dev->handle, stream);
}
