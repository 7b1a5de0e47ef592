/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends of this process. Built-in ones and plugins are loaded once, checked the same way and
 * never unloaded; the list only grows. All functions may be called from any thread.
 */
#ifndef NIB_REGISTRY_REGISTRY_H
#define NIB_REGISTRY_REGISTRY_H

#include <nibblas/backend.h>

typedef struct nib_backend {
    /* The backend's table, zero-filled to our size where it is older: an absent entry is NULL. */
    nib_backend_api api;
    char origin[256]; /* "built in" or the plugin's path */
} nib_backend;

/* Loads built-in backends, and plugins from `path` when that is not NULL. Refusals are logged and
 * no failure; NIB_MISSING: the folder cannot be read. */
nib_status nib_registry_load(const char *path);

/* Backends in the order of preference, then of loading. NULL past the last. */
const nib_backend *nib_registry_get(uint32_t index);
/* NULL: none of that name. */
const nib_backend *nib_registry_find(const char *name);

/* Checks what an entry function answers and adds it. For the loader and its tests; `origin` goes to
 * the log. NIB_INVALID with the reason of a refusal. */
nib_status nib_registry_add(nib_backend_entry_fn entry, const char *origin);

#endif
