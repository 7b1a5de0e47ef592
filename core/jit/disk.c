/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files and folders: see disk.h.
 */
#include "jit/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool nib_path_join(char out[NIB_PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(out, NIB_PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < NIB_PATH_BYTES;
}

/* Reads `bytes` and expects the end there: a file that grows meanwhile is refused. */
static bool read_all(int fd, char *data, size_t bytes)
{
    size_t at = 0;
    char beyond;
    for (;;) {
        ssize_t got = at < bytes ? read(fd, data + at, bytes - at) : read(fd, &beyond, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 && at == bytes;
        if (at == bytes)
            return false;
        at += (size_t)got;
    }
}

nib_status nib_disk_read(const char *path, size_t bytes, size_t most, void **out, size_t *got)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return nib_fail(NIB_MISSING, "cannot open %s: %s", path, strerror(errno));
    struct stat info;
    char *data = NULL;
    nib_status status = NIB_OK;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode))
        status = nib_fail(NIB_CORRUPT, "%s is not a regular file", path);
    size_t size = status ? 0 : (size_t)info.st_size;
    if (!status && (bytes == SIZE_MAX ? size > most : size != bytes))
        status = bytes == SIZE_MAX
                     ? nib_fail(NIB_CORRUPT, "%s has %zu bytes, more than %zu", path, size, most)
                     : nib_fail(NIB_CORRUPT, "%s has %zu bytes, expected %zu", path, size, bytes);
    if (!status && !(data = aligned_alloc(16, size / 16 * 16 + 16)))
        status = nib_fail(NIB_NO_MEMORY, "no memory for the %zu bytes of %s", size, path);
    if (!status && !read_all(fd, data, size))
        status = nib_fail(NIB_CORRUPT, "cannot read the %zu bytes of %s", size, path);
    close(fd);
    if (status) {
        free(data);
        return status;
    }
    data[size] = '\0';
    *out = data;
    if (got)
        *got = size;
    return NIB_OK;
}

nib_status nib_disk_write(const char *path, const void *data, size_t bytes, bool sync)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int error = fd < 0 ? errno : 0;
    for (size_t at = 0; !error && at < bytes;) {
        ssize_t wrote = write(fd, (const char *)data + at, bytes - at);
        if (wrote >= 0)
            at += (size_t)wrote;
        else if (errno != EINTR)
            error = errno;
    }
    if (!error && sync && fsync(fd))
        error = errno;
    if (fd >= 0 && close(fd) && !error)
        error = errno;
    return error ? nib_fail(NIB_MISSING, "cannot write %s: %s", path, strerror(error)) : NIB_OK;
}

static bool make_one(const char *path)
{
    struct stat info;
    if (!mkdir(path, 0700))
        return true;
    int error = errno;
    if (!stat(path, &info) && S_ISDIR(info.st_mode))
        return true;
    errno = error == EEXIST ? ENOTDIR : error;
    return false;
}

bool nib_disk_make_above(const char *path)
{
    char part[NIB_PATH_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof(part)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (part[i] != '/' || part[i - 1] == '/')
            continue;
        part[i] = '\0';
        if (!make_one(part))
            return false;
        part[i] = '/';
    }
    return true;
}

bool nib_disk_make(const char *path)
{
    return nib_disk_make_above(path) && make_one(path);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

bool nib_disk_remove(const char *path)
{
    enum { OPEN_FOLDERS = 8 };
    return !nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
