/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening plugins: see loader.h. A plugin stays open for good, also when it is refused, because
 * code of its own may run at exit.
 */
#include "registry/loader.h"

#include "base/status.h"
#include "registry/registry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_PLUGINS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *opened[MAX_PLUGINS]; /* handles; dlopen answers the same one for the same file */
static int opened_count;

static bool seen(void *handle)
{
    for (int i = 0; i < opened_count; i++)
        if (opened[i] == handle)
            return true;
    return false;
}

static void open_plugin(const char *path)
{
    /* Opening a FIFO would wait for somebody to write to it. */
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode)) {
        nib_log(NIB_LOG_WARNING, "plugin %s refused: it is not a regular file", path);
        return;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        nib_log(NIB_LOG_WARNING, "plugin refused: %s", dlerror());
        return;
    }
    if (seen(handle)) {
        dlclose(handle);
        return;
    }
    if (opened_count == MAX_PLUGINS) {
        nib_log(NIB_LOG_WARNING, "plugin %s refused: %d are open, which is the most", path,
                MAX_PLUGINS);
        dlclose(handle);
        return;
    }
    opened[opened_count++] = handle;
    nib_backend_entry_fn entry;
    void *symbol = dlsym(handle, "nib_backend_entry");
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function pointers */
    if (!entry) {
        nib_log(NIB_LOG_WARNING, "plugin %s refused: it exports no nib_backend_entry", path);
        return;
    }
    nib_registry_add(entry, path);
}

static int is_plugin(const struct dirent *entry)
{
    return fnmatch("libnibblas-*.so", entry->d_name, 0) == 0;
}

nib_status nib_loader_scan(const char *folder)
{
    struct dirent **entries;
    pthread_mutex_lock(&lock);
    int found = scandir(folder, &entries, is_plugin, alphasort);
    if (found < 0) {
        int error = errno;
        pthread_mutex_unlock(&lock);
        return nib_fail(NIB_MISSING, "cannot read the backend folder %s: %s", folder,
                        strerror(error));
    }
    for (int i = 0; i < found; i++) {
        char path[4096];
        int length = snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (length > 0 && (size_t)length < sizeof(path))
            open_plugin(path);
        free(entries[i]);
    }
    free(entries);
    pthread_mutex_unlock(&lock);
    return NIB_OK;
}
