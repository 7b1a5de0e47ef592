/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings and atomic new files: see file.h.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

nib_status nib_map_open(const char *path, nib_mapping *out)
{
    /* Non-blocking: a FIFO is refused below, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return nib_fail(NIB_MISSING, "cannot open %s: %s", path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        return nib_fail(NIB_INVALID, "%s is not a regular file", path);
    }
    nib_mapping map = {NULL, (size_t)info.st_size};
    if (map.bytes) {
        void *data = mmap(NULL, map.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            int error = errno;
            close(fd);
            return nib_fail(NIB_NO_MEMORY, "cannot map %s: %s", path, strerror(error));
        }
        map.data = data;
    }
    close(fd);
    *out = map;
    return NIB_OK;
}

void nib_map_close(nib_mapping *map)
{
    if (map->data)
        munmap((void *)map->data, map->bytes);
    *map = (nib_mapping){NULL, 0};
}

/* Opens "<path>.<process>-<n>.tmp", which nobody else has. Not mkstemp: its mode ignores the umask.
 */
static int open_beside(const char *path, char *temporary, size_t capacity)
{
    for (unsigned n = 0; n < 10000; n++) {
        snprintf(temporary, capacity, "%s.%ld-%u.tmp", path, (long)getpid(), n);
        int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

nib_status nib_new_file_create(const char *path, nib_new_file *out)
{
    /* A rename would put a file in place of a device. */
    struct stat there;
    if (!stat(path, &there) && !S_ISREG(there.st_mode))
        return nib_fail(NIB_INVALID, "%s is there and is not a regular file: choose another name",
                        path);
    size_t capacity = strlen(path) + 48;
    nib_new_file file = {.path = strdup(path), .temporary = malloc(capacity)};
    nib_status status;
    if (!file.path || !file.temporary) {
        status = nib_fail(NIB_NO_MEMORY, "no memory for the path %s", path);
        goto fail;
    }
    int fd = open_beside(path, file.temporary, capacity);
    if (fd < 0) {
        status = nib_fail(NIB_MISSING, "cannot create a file beside %s: %s", path, strerror(errno));
        goto fail;
    }
    file.stream = fdopen(fd, "w+b");
    if (!file.stream) {
        status = nib_fail(NIB_NO_MEMORY, "cannot open %s: %s", file.temporary, strerror(errno));
        close(fd);
        unlink(file.temporary);
        goto fail;
    }
    *out = file;
    return NIB_OK;

fail:
    free(file.path);
    free(file.temporary);
    return status;
}

nib_status nib_new_file_commit(nib_new_file *file)
{
    int error = 0;
    if (fflush(file->stream) || fsync(fileno(file->stream)) || ferror(file->stream))
        error = errno ? errno : EIO;
    if (fclose(file->stream) && !error)
        error = errno;
    file->stream = NULL;
    if (!error && rename(file->temporary, file->path))
        error = errno;
    nib_status status = NIB_OK;
    if (error) {
        status = nib_fail(NIB_MISSING, "cannot write %s: %s", file->path, strerror(error));
        unlink(file->temporary);
    }
    free(file->path);
    free(file->temporary);
    *file = (nib_new_file){0};
    return status;
}

void nib_new_file_discard(nib_new_file *file)
{
    if (file->stream)
        fclose(file->stream);
    if (file->temporary)
        unlink(file->temporary);
    free(file->path);
    free(file->temporary);
    *file = (nib_new_file){0};
}
