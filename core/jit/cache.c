/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding, making and clearing entries: see cache.h. In the folder stand, for a key,
 *
 *     <key>/      the entry, renamed to this when it is whole
 *     <key>.lock  while somebody makes it; flock on it is the lock, the file itself means nothing
 *     <key>.tmp/  the entry under construction
 *     <key>.bad   what stood there and was no entry, the last of them
 */
#include "jit/cache.h"

#include "base/status.h"
#include "config/env.h"
#include "jit/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The paths of a key. */
typedef struct place {
    char folder[NIB_PATH_BYTES];
    char entry[NIB_PATH_BYTES], lock[NIB_PATH_BYTES];
    char temporary[NIB_PATH_BYTES], bad[NIB_PATH_BYTES];
} place;

nib_status nib_cache_folder(char out[NIB_PATH_BYTES])
{
    const char *own = nib_env("NIB_CACHE_DIR"), *xdg = nib_env("XDG_CACHE_HOME");
    const char *home = nib_env("HOME");
    int length;
    if (own)
        length = snprintf(out, NIB_PATH_BYTES, "%s/kernels", own);
    else if (xdg && xdg[0] == '/') /* its specification: others are to be ignored */
        length = snprintf(out, NIB_PATH_BYTES, "%s/nibblas/kernels", xdg);
    else if (home)
        length = snprintf(out, NIB_PATH_BYTES, "%s/.cache/nibblas/kernels", home);
    else
        return nib_fail(NIB_MISSING, "there is no kernel cache: set NIB_CACHE_DIR or HOME");
    if (length < 0 || length >= NIB_PATH_BYTES)
        return nib_fail(NIB_MISSING,
                        "there is no kernel cache: the path of its folder is too long");
    return NIB_OK;
}

static nib_status make_place(const char *folder, const nib_key *key, place *out)
{
    char text[NIB_KEY_TEXT_BYTES], name[NIB_KEY_TEXT_BYTES + 8];
    const struct {
        const char *ending;
        char *path;
    } paths[] = {
        {"", out->entry}, {".lock", out->lock}, {".tmp", out->temporary}, {".bad", out->bad}};
    snprintf(out->folder, sizeof(out->folder), "%s", folder);
    nib_key_print(key, text);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", text, paths[i].ending);
        if (!nib_path_join(paths[i].path, folder, name))
            return nib_fail(NIB_MISSING, "the path of the kernel cache %s is too long", folder);
    }
    return NIB_OK;
}

/* ---- the lock of a key ---- */

/* Answers a descriptor, or -1 with errno. EWOULDBLOCK: `wait` is false and somebody has it. */
static int lock_key(const place *at, bool wait)
{
    for (;;) {
        int fd = open(at->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (fd < 0)
            return -1;
        int failed;
        do {
            failed = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB));
        } while (failed && errno == EINTR);
        struct stat ours, there;
        if (!failed && !fstat(fd, &ours) && !stat(at->lock, &there) &&
            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
            return fd;
        int error = errno;
        close(fd);
        errno = error;
        if (failed)
            return -1;
        /* Its last holder removed the file between our opening and locking it. */
    }
}

static void unlock_key(const place *at, int fd)
{
    unlink(at->lock);
    /* Closing would not do: a child forked meanwhile has the descriptor too. */
    flock(fd, LOCK_UN);
    close(fd);
}

/* ---- finding ---- */

static nib_status blob_from_entry(nib_entry *entry, const char *path, nib_blob **out)
{
    nib_blob_parts parts = {
        .origin = NIB_IMAGE_CACHE,
        .data = entry->image,
        .bytes = entry->manifest.image.bytes,
        .date = entry->manifest.date,
        .path = path,
        .compiler = entry->manifest.compiler,
        .log = entry->log,
    };
    entry->image = NULL;
    return nib_blob_create(&parts, out);
}

/* NIB_MISSING: none is there, or one by another compiler. NIB_CORRUPT: something else is there. */
static nib_status look(const place *at, const nib_image_request *r, const nib_key *key,
                       nib_blob **out)
{
    nib_entry entry;
    nib_status status = nib_entry_read(at->entry, key, &entry);
    if (status)
        return status;
    if (r->compile && !nib_entry_is_current(&entry.manifest, r->compiler_path))
        status = nib_fail(NIB_MISSING, "the cached image is by another compiler, %s",
                          entry.manifest.compiler);
    else
        status = blob_from_entry(&entry, at->entry, out);
    nib_entry_free(&entry);
    return status;
}

nib_status nib_cache_find(const nib_image_request *request, const nib_key *key, nib_blob **out)
{
    char folder[NIB_PATH_BYTES];
    place at;
    nib_status status = nib_cache_folder(folder);
    if (!status)
        status = make_place(folder, key, &at);
    if (!status)
        status = look(&at, request, key, out);
    return status == NIB_CORRUPT ? NIB_MISSING : status;
}

/* ---- making ---- */

static nib_status compile(const nib_image_request *r, nib_image_build *build)
{
    memset(build, 0, sizeof(*build));
    nib_status status = r->compile(r->user, r, build);
    if (!status && !build->image)
        status = nib_fail(NIB_INTERNAL, "the compiler of backend '%s' gave no image", r->backend);
    if (!status && build->bytes > NIB_ENTRY_MOST_BYTES)
        status = nib_fail(NIB_INTERNAL, "the compiler of backend '%s' gave an image of %llu bytes",
                          r->backend, (unsigned long long)build->bytes);
    /* It becomes one line of texts. */
    build->compiler[sizeof(build->compiler) - 1] = '\0';
    build->compiler[strcspn(build->compiler, "\r\n\t")] = '\0';
    return status;
}

static void free_build(nib_image_build *build)
{
    free(build->image);
    free(build->log);
    memset(build, 0, sizeof(*build));
}

static nib_status blob_from_build(const nib_image_build *build, const char *path, nib_blob **out)
{
    size_t bytes = (size_t)build->bytes;
    char *copy = aligned_alloc(16, bytes / 16 * 16 + 16);
    if (!copy)
        return nib_fail(NIB_NO_MEMORY, "no memory for an image of %zu bytes", bytes);
    memcpy(copy, build->image, bytes);
    copy[bytes] = '\0';
    nib_blob_parts parts = {
        .origin = NIB_IMAGE_COMPILED,
        .data = copy,
        .bytes = bytes,
        .date = (int64_t)time(NULL),
        .path = path,
        .compiler = build->compiler,
        .log = build->log,
    };
    return nib_blob_create(&parts, out);
}

/* Makes room for an entry. The holder of the lock calls it. */
static bool move_aside(const place *at, bool keep)
{
    struct stat info;
    if (lstat(at->entry, &info))
        return errno == ENOENT;
    if (keep) {
        nib_disk_remove(at->bad);
        return !rename(at->entry, at->bad);
    }
    /* Renamed first, so that no reader finds it half removed. */
    return !rename(at->entry, at->temporary) && nib_disk_remove(at->temporary);
}

/* Stores what was compiled; that it cannot is no failure. The holder of the lock calls it. */
static bool store(const place *at, const nib_image_request *r, const nib_key *key,
                  const nib_image_build *build, bool corrupt)
{
    nib_status status = NIB_OK;
    nib_disk_remove(at->temporary);
    if (!move_aside(at, corrupt))
        status = nib_fail(NIB_MISSING, "cannot move %s away: %s", at->entry, strerror(errno));
    if (!status)
        status = nib_entry_write(at->temporary, r, key, build);
    if (!status && rename(at->temporary, at->entry))
        status = nib_fail(NIB_MISSING, "cannot rename to %s: %s", at->entry, strerror(errno));
    if (status) {
        nib_log(NIB_LOG_WARNING, "kernel %s is not cached: %s", r->label, nib_last_message());
        nib_disk_remove(at->temporary);
    }
    return !status;
}

static nib_status make_uncached(const nib_image_request *r, nib_blob **out)
{
    nib_image_build build;
    nib_status status = compile(r, &build);
    if (!status)
        status = blob_from_build(&build, NULL, out);
    free_build(&build);
    return status;
}

/* With the lock: looks again, since its last holder may have made it. */
static nib_status make_locked(const place *at, const nib_image_request *r, const nib_key *key,
                              nib_blob **out)
{
    nib_image_build build;
    nib_status found = look(at, r, key, out);
    if (found == NIB_OK || found == NIB_NO_MEMORY)
        return found;
    if (found == NIB_CORRUPT)
        nib_log(NIB_LOG_WARNING, "kernel %s is made anew, its cache entry %s is moved to %s: %s",
                r->label, at->entry, at->bad, nib_last_message());
    nib_status status = compile(r, &build);
    if (!status) {
        bool stored = store(at, r, key, &build, found == NIB_CORRUPT);
        status = blob_from_build(&build, stored ? at->entry : NULL, out);
    }
    free_build(&build);
    return status;
}

/* ---- clearing ---- */

/* The key a name in the folder belongs to, and what follows it. */
static bool split_name(const char *name, nib_key *key, const char **ending)
{
    char text[NIB_KEY_TEXT_BYTES];
    *ending = name + strcspn(name, ".");
    if (*ending - name != NIB_KEY_TEXT_BYTES - 1)
        return false;
    memcpy(text, name, NIB_KEY_TEXT_BYTES - 1);
    text[NIB_KEY_TEXT_BYTES - 1] = '\0';
    return nib_key_parse(text, key);
}

/* Removes what belongs to a key, with its lock: leftovers, or all. A lock that somebody has is
 * theirs. Answers 1 when an entry was removed, -1 when something could not be. */
static int clear_key(const char *folder, const nib_key *key, bool all)
{
    place at;
    struct stat info;
    int removed = 0;
    if (make_place(folder, key, &at))
        return -1;
    int lock = lock_key(&at, false);
    if (lock < 0)
        return errno == EWOULDBLOCK ? 0 : -1;
    bool done = !lstat(at.temporary, &info) ? nib_disk_remove(at.temporary) : true;
    if (all && !lstat(at.bad, &info))
        done = nib_disk_remove(at.bad) && done;
    if (all && !lstat(at.entry, &info)) {
        removed = move_aside(&at, false);
        done = removed && done;
    }
    unlock_key(&at, lock);
    return done ? removed : -1;
}

/* Calls clear_key for every key of the folder that has something to remove. */
static nib_status sweep(const char *folder, bool all, uint64_t *removed)
{
    DIR *dir = opendir(folder);
    bool failed = false;
    if (!dir)
        return errno == ENOENT ? NIB_OK
                               : nib_fail(NIB_MISSING, "cannot read the kernel cache %s: %s",
                                          folder, strerror(errno));
    for (struct dirent *item; (item = readdir(dir)) != NULL;) {
        nib_key key;
        const char *ending;
        if (!split_name(item->d_name, &key, &ending))
            continue;
        if (!all && strcmp(ending, ".tmp") && strcmp(ending, ".lock"))
            continue;
        int result = clear_key(folder, &key, all);
        failed = failed || result < 0;
        *removed += result > 0;
    }
    closedir(dir);
    if (failed)
        return nib_fail(NIB_MISSING, "not all of the kernel cache %s could be removed", folder);
    return NIB_OK;
}

nib_status nib_cache_clear(const nib_key *key, uint64_t *removed)
{
    char folder[NIB_PATH_BYTES];
    uint64_t count = 0;
    nib_status status = nib_cache_folder(folder);
    if (status)
        return status;
    if (!key) {
        status = sweep(folder, true, &count);
    } else {
        int result = clear_key(folder, key, true);
        count = result > 0;
        if (result < 0)
            status = nib_fail(NIB_MISSING, "an entry of the kernel cache %s could not be removed",
                              folder);
    }
    if (!status)
        *removed = count;
    return status;
}

/* Once a process, before it makes an entry: leftovers of processes that died while they did. */
static void sweep_once(const char *folder)
{
    static atomic_flag swept = ATOMIC_FLAG_INIT;
    uint64_t removed = 0;
    if (!atomic_flag_test_and_set(&swept) && sweep(folder, false, &removed))
        nib_log(NIB_LOG_INFO, "%s", nib_last_message());
}

nib_status nib_cache_get(const nib_image_request *request, const nib_key *key, nib_blob **out)
{
    char folder[NIB_PATH_BYTES];
    place at;
    int lock = -1;
    nib_status status = nib_cache_folder(folder);
    if (!status)
        status = make_place(folder, key, &at);
    if (!status) {
        nib_status found = look(&at, request, key, out);
        if (found == NIB_OK)
            return NIB_OK;
    }
    if (!request->compile)
        return nib_fail(NIB_MISSING,
                        "kernel %s for %s is in no pack and not in the cache, and there is no "
                        "compiler for it",
                        request->label, request->isa);
    if (!status && !nib_disk_make(folder))
        status = nib_fail(NIB_MISSING, "cannot create %s: %s", folder, strerror(errno));
    if (!status) {
        sweep_once(folder);
        lock = lock_key(&at, true);
        if (lock < 0)
            status = nib_fail(NIB_MISSING, "cannot lock %s: %s", at.lock, strerror(errno));
    }
    if (status) {
        nib_log(NIB_LOG_WARNING, "kernel %s is not cached: %s", request->label, nib_last_message());
        return make_uncached(request, out);
    }
    status = make_locked(&at, request, key, out);
    unlock_key(&at, lock);
    return status;
}
