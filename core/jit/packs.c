/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding packs: see packs.h.
 */
#include "jit/packs.h"

#include "base/status.h"
#include "config/env.h"
#include "jit/disk.h"
#include "jit/image.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- where they lie ---- */

static nib_status add_path(nib_pack_paths *paths, const char *path)
{
    char *copy = strdup(path);
    if (copy && paths->count == paths->room) {
        size_t room = paths->room ? 2 * paths->room : 8;
        char **items = realloc(paths->items, room * sizeof(*items));
        if (items) {
            paths->items = items;
            paths->room = room;
        }
    }
    if (!copy || paths->count == paths->room) {
        free(copy);
        return nib_fail(NIB_NO_MEMORY, "no memory for the paths of packs");
    }
    paths->items[paths->count++] = copy;
    return NIB_OK;
}

static int is_pack(const struct dirent *item)
{
    return fnmatch("*.nibpack", item->d_name, 0) == 0;
}

/* The packs of a folder by name. `asked`: somebody named it, so that it should be there. */
static nib_status add_folder(nib_pack_paths *paths, const char *folder, bool asked)
{
    struct dirent **items;
    nib_status status = NIB_OK;
    int count = scandir(folder, &items, is_pack, alphasort);
    if (count < 0) {
        if (asked)
            nib_log(NIB_LOG_WARNING, "cannot read the pack folder %s: %s", folder, strerror(errno));
        return NIB_OK;
    }
    for (int i = 0; i < count; i++) {
        char path[NIB_PATH_BYTES];
        if (!status && nib_path_join(path, folder, items[i]->d_name))
            status = add_path(paths, path);
        free(items[i]);
    }
    free(items);
    return status;
}

static nib_status add_named(nib_pack_paths *paths, const char *names)
{
    nib_status status = NIB_OK;
    for (const char *at = names; *at && !status;) {
        char path[NIB_PATH_BYTES];
        struct stat info;
        size_t length = strcspn(at, ":");
        if (length && length < sizeof(path)) {
            memcpy(path, at, length);
            path[length] = '\0';
            if (!stat(path, &info) && !S_ISDIR(info.st_mode))
                status = add_path(paths, path);
            else
                status = add_folder(paths, path, true);
        }
        at += length + (at[length] == ':');
    }
    return status;
}

/* "folder of file/name". */
static bool beside(char out[NIB_PATH_BYTES], const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    int length = slash ? snprintf(out, NIB_PATH_BYTES, "%.*s/%s", (int)(slash - file), file, name)
                       : snprintf(out, NIB_PATH_BYTES, "%s", name);
    return length > 0 && length < NIB_PATH_BYTES;
}

static nib_status add_beside(nib_pack_paths *paths, const char *file, const char *name)
{
    char folder[NIB_PATH_BYTES];
    return beside(folder, file, name) ? add_folder(paths, folder, false) : NIB_OK;
}

/* The file this code lies in, when that is a shared library: <libdir>/nibblas. The program: its own
 * folder, and NIB_PACK_FOLDER, which is the same <libdir>/nibblas from there. */
static nib_status add_installed(nib_pack_paths *paths)
{
    char program[NIB_PATH_BYTES];
    Dl_info info;
    const void *here = __extension__(const void *) nib_image_get;
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    nib_status status = NIB_OK;
    if (dladdr(here, &info) && info.dli_fname && strstr(info.dli_fname, ".so"))
        status = add_beside(paths, info.dli_fname, "nibblas");
    if (!status && program[0])
        status = add_beside(paths, program, ".");
    if (!status && program[0] && !paths->count)
        status = add_beside(paths, program, NIB_PACK_FOLDER);
    return status;
}

nib_status nib_packs_list(nib_pack_paths *out)
{
    nib_pack_paths paths = {NULL, 0, 0};
    const char *named = nib_env("NIB_PACK_PATH");
    nib_status status = named ? add_named(&paths, named) : add_installed(&paths);
    if (status)
        nib_packs_list_free(&paths);
    else
        *out = paths;
    return status;
}

void nib_packs_list_free(nib_pack_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->items[i]);
    free(paths->items);
    *paths = (nib_pack_paths){NULL, 0, 0};
}

/* ---- the packs of this process ---- */

typedef struct slot {
    const char *path;
    char backend[NIB_PACK_BACKEND_BYTES + 1];
    bool tried;
    nib_pack *pack; /* once opened, for good */
} slot;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nib_pack_paths known;
static slot *slots;
static bool looked;

static nib_status look_once(void)
{
    if (looked)
        return NIB_OK;
    nib_status status = nib_packs_list(&known);
    if (!status && known.count && !(slots = calloc(known.count, sizeof(*slots))))
        status = nib_fail(NIB_NO_MEMORY, "no memory for the paths of packs");
    if (status) {
        nib_packs_list_free(&known);
        return status;
    }
    for (size_t i = 0; i < known.count; i++) {
        slots[i].path = known.items[i];
        if (nib_pack_backend(slots[i].path, slots[i].backend)) {
            nib_log(NIB_LOG_WARNING, "pack skipped: %s", nib_last_message());
            slots[i].tried = true;
        }
    }
    looked = true;
    return NIB_OK;
}

/* The opened pack of a slot when it is of this backend. */
static const nib_pack *open_slot(slot *s, const char *backend)
{
    if (strcmp(s->backend, backend))
        return NULL;
    if (!s->tried) {
        s->tried = true;
        if (nib_pack_open(s->path, &s->pack))
            nib_log(NIB_LOG_WARNING, "pack skipped: %s", nib_last_message());
        else
            nib_log(NIB_LOG_INFO, "pack %s: %u images for '%s'", s->path, s->pack->image_count,
                    backend);
    }
    return s->pack;
}

static nib_status read_image(const nib_pack *pack, const nib_pack_image *image, nib_blob **out)
{
    nib_blob_parts parts = {
        .origin = NIB_IMAGE_PACK,
        .bytes = image->image.bytes,
        .date = image->date,
        .path = pack->path,
        .compiler = image->compiler,
    };
    void *log = NULL;
    nib_status status = nib_pack_read(pack, &image->image, "image", &parts.data);
    if (!status && (status = nib_pack_read(pack, &image->log, "log", &log)))
        free(parts.data);
    if (status)
        return status;
    parts.log = log;
    status = nib_blob_create(&parts, out);
    free(log);
    return status;
}

nib_status nib_packs_find(const char *backend, const nib_key *key, nib_blob **out)
{
    pthread_mutex_lock(&lock);
    nib_status status = look_once();
    size_t count = status ? 0 : known.count;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&lock);
        const nib_pack *pack = open_slot(&slots[i], backend);
        pthread_mutex_unlock(&lock);
        const nib_pack_image *image = pack ? nib_pack_find(pack, key) : NULL;
        if (!image)
            continue;
        if (!read_image(pack, image, out))
            return NIB_OK;
        nib_log(NIB_LOG_WARNING, "an image of a pack is passed over: %s", nib_last_message());
    }
    return status ? status : nib_fail(NIB_MISSING, "no pack has this image");
}
