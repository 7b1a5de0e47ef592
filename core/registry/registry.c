/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of backends and the checks at its door: see registry.h. Finding plugins is in loader.c.
 */
#include "registry/registry.h"

#include "base/status.h"
#include "config/dtype.h"
#include "config/env.h"
#include "jit/image.h"
#include "registry/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BACKENDS = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nib_backend backends[MAX_BACKENDS];
static uint32_t order[MAX_BACKENDS]; /* indices into backends, preferred first */
static uint32_t count;
static pthread_once_t builtin_once = PTHREAD_ONCE_INIT;

#define NIB_BUILTIN(name) \
    nib_status nib_backend_entry_##name(const nib_host_api *, const nib_backend_api **);
#include "nib_builtin.inc"
#undef NIB_BUILTIN

static nib_status host_backend(const char *name, const nib_backend_api **out)
{
    const nib_backend *backend = nib_registry_find(name);
    if (!backend)
        return nib_fail(NIB_MISSING, "no backend '%s' is loaded", name);
    *out = &backend->api;
    return NIB_OK;
}

static const nib_host_api host = {
    .size = sizeof(host),
    .abi_major = NIB_BACKEND_ABI_MAJOR,
    .abi_minor = NIB_BACKEND_ABI_MINOR,
    .fail = nib_fail,
    .log = nib_log,
    .decode_table = nib_dtype_table,
    .type_bits = nib_type_bits,
    .type_name = nib_type_name,
    .env = nib_env,
    .backend = host_backend,
    .image_get = nib_image_get,
    .image_put = nib_image_put,
    .image_find = nib_image_find,
};

/* Byte offsets of the mandatory entries, which must not be NULL. */
#define ENTRY(name)                            \
    {                                          \
#name, offsetof(nib_backend_api, name) \
    }
static const struct {
    const char *name;
    size_t offset;
} mandatory[] = {
    ENTRY(device_count), ENTRY(device_open), ENTRY(device_close), ENTRY(device_info),
    ENTRY(layout),       ENTRY(variant),     ENTRY(supports),     ENTRY(workspace),
    ENTRY(kernel_get),   ENTRY(kernel_put),  ENTRY(launch),       ENTRY(memory_alloc),
    ENTRY(memory_free),  ENTRY(memory_copy), ENTRY(synchronize),
};
#undef ENTRY

static nib_status check_table(const nib_backend_api *api)
{
    if (!api)
        return nib_fail(NIB_INVALID, "its entry function gave no table");
    if (api->abi_major != NIB_BACKEND_ABI_MAJOR)
        return nib_fail(NIB_INVALID, "it speaks backend ABI %u, this library %d: rebuild it",
                        api->abi_major, NIB_BACKEND_ABI_MAJOR);
    if (api->size < NIB_BACKEND_MANDATORY_BYTES)
        return nib_fail(NIB_INVALID, "its table has %u bytes, at least %zu are mandatory",
                        api->size, NIB_BACKEND_MANDATORY_BYTES);
    if (!api->name || !api->name[0] || strlen(api->name) > 15 || strpbrk(api->name, ": \t\n"))
        return nib_fail(NIB_INVALID, "its name is not 1 to 15 characters without ':' and blanks");
    for (size_t i = 0; i < sizeof(mandatory) / sizeof(mandatory[0]); i++) {
        void (*entry)(void);
        memcpy(&entry, (const char *)api + mandatory[i].offset, sizeof(entry));
        if (!entry)
            return nib_fail(NIB_INVALID, "its mandatory entry '%s' is NULL", mandatory[i].name);
    }
    return NIB_OK;
}

/* Appends under the lock and keeps `order` sorted; equal preferences stay in the order of loading.
 */
static nib_status append(const nib_backend_api *api, const char *origin)
{
    nib_status status = NIB_OK;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count && !status; i++)
        if (!strcmp(backends[i].api.name, api->name))
            status = nib_fail(NIB_INVALID, "a backend '%s' is there already (%s)", api->name,
                              backends[i].origin);
    if (!status && count == MAX_BACKENDS)
        status = nib_fail(NIB_INVALID, "%d backends are loaded, which is the most", MAX_BACKENDS);
    if (!status) {
        nib_backend *backend = &backends[count];
        size_t size = api->size < sizeof(*api) ? api->size : sizeof(*api);
        memset(&backend->api, 0, sizeof(backend->api));
        memcpy(&backend->api, api, size);
        backend->api.size = sizeof(backend->api);
        snprintf(backend->origin, sizeof(backend->origin), "%s", origin);
        uint32_t at = count;
        while (at > 0 && backends[order[at - 1]].api.preference < api->preference) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = count++;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

nib_status nib_registry_add(nib_backend_entry_fn entry, const char *origin)
{
    const nib_backend_api *api = NULL;
    nib_status status = entry(&host, &api);
    if (!status)
        status = check_table(api);
    if (!status)
        status = append(api, origin);
    if (status)
        nib_log(NIB_LOG_WARNING, "backend from %s refused: %s", origin, nib_last_message());
    else
        nib_log(NIB_LOG_INFO, "backend '%s' loaded from %s", api->name, origin);
    return status;
}

static void add_builtin(void)
{
#define NIB_BUILTIN(name) nib_registry_add(nib_backend_entry_##name, "built in");
#include "nib_builtin.inc"
#undef NIB_BUILTIN
}

nib_status nib_registry_load(const char *path)
{
    pthread_once(&builtin_once, add_builtin);
    return path ? nib_loader_scan(path) : NIB_OK;
}

const nib_backend *nib_registry_get(uint32_t index)
{
    pthread_mutex_lock(&lock);
    const nib_backend *backend = index < count ? &backends[order[index]] : NULL;
    pthread_mutex_unlock(&lock);
    return backend;
}

const nib_backend *nib_registry_find(const char *name)
{
    const nib_backend *found = NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(backends[i].api.name, name))
            found = &backends[i];
    pthread_mutex_unlock(&lock);
    return found;
}
