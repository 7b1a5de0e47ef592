/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing cache entries: see entry.h.
 */
#include "jit/entry.h"

#include "base/hash.h"
#include "base/text.h"
#include "jit/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MANIFEST_MOST_BYTES ((size_t)1 << 20)

/* Bytes and time of change of the compiler's file; zeros when there is no such file. */
static void stamp(const char *path, uint64_t *bytes, int64_t *mtime_ns)
{
    struct stat info;
    *bytes = 0;
    *mtime_ns = 0;
    if (!path[0] || stat(path, &info))
        return;
    *bytes = (uint64_t)info.st_size;
    *mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
}

bool nib_entry_is_current(const nib_manifest *manifest, const char *compiler_path)
{
    uint64_t bytes;
    int64_t mtime_ns;
    if (!compiler_path)
        return true;
    stamp(compiler_path, &bytes, &mtime_ns);
    return !strcmp(manifest->compiler_path, compiler_path) && manifest->compiler_bytes == bytes &&
           manifest->compiler_mtime_ns == mtime_ns;
}

/* ---- reading ---- */

static nib_status read_part(const char *folder, const char *name, uint64_t bytes, void *out)
{
    char path[NIB_PATH_BYTES];
    void *data;
    if (bytes > NIB_ENTRY_MOST_BYTES || !nib_path_join(path, folder, name))
        return nib_fail(NIB_CORRUPT, "'%s' is said to have %" PRIu64 " bytes", name, bytes);
    nib_status status = nib_disk_read(path, (size_t)bytes, 0, &data, NULL);
    /* Not being there is a fault here: the manifest says that it is. */
    if (status)
        return status == NIB_MISSING ? NIB_CORRUPT : status;
    memcpy(out, &data, sizeof(data));
    return NIB_OK;
}

static nib_status read_stored(const char *folder, const char *name, const nib_stored *stored,
                              void *out)
{
    void *data;
    nib_status status = read_part(folder, name, stored->bytes, &data);
    if (status)
        return status;
    if (nib_hash(data, (size_t)stored->bytes) != stored->hash) {
        free(data);
        return nib_fail(NIB_CORRUPT, "its file '%s' does not have the checksum of the manifest",
                        name);
    }
    memcpy(out, &data, sizeof(data));
    return NIB_OK;
}

static void image_name(char out[64], const char *format)
{
    snprintf(out, 64, "image.%s", format);
}

nib_status nib_entry_read_manifest(const char *folder, nib_manifest *out)
{
    char path[NIB_PATH_BYTES];
    struct stat info;
    void *text;
    size_t bytes;
    if (lstat(folder, &info))
        return nib_fail(errno == ENOENT ? NIB_MISSING : NIB_CORRUPT, "cannot open %s: %s", folder,
                        strerror(errno));
    if (!nib_path_join(path, folder, NIB_ENTRY_MANIFEST))
        return nib_fail(NIB_CORRUPT, "the path %s is too long", folder);
    nib_status status = nib_disk_read(path, SIZE_MAX, MANIFEST_MOST_BYTES, &text, &bytes);
    if (status)
        return status == NIB_MISSING ? NIB_CORRUPT : status;
    return nib_manifest_parse(text, bytes, out);
}

static nib_status read_sources(const char *folder, nib_entry *entry)
{
    const nib_manifest *m = &entry->manifest;
    char sources[NIB_PATH_BYTES];
    entry->files = calloc(m->file_count, sizeof(*entry->files));
    if (!entry->files)
        return nib_fail(NIB_NO_MEMORY, "no memory for the sources of a kernel");
    if (!nib_path_join(sources, folder, NIB_ENTRY_SOURCES))
        return nib_fail(NIB_CORRUPT, "the path %s is too long", folder);
    nib_status status = NIB_OK;
    for (uint32_t i = 0; i < m->file_count && !status; i++) {
        entry->files[i].name = m->files[i].name;
        status = read_part(sources, m->files[i].name, m->files[i].bytes, &entry->files[i].text);
    }
    return status;
}

/* What identifies an image, read back, must give the key it is stored under. */
static nib_status check_key(const nib_entry *entry, const nib_key *key)
{
    const nib_manifest *m = &entry->manifest;
    nib_image_request stored = {
        .size = sizeof(stored),
        .file_count = m->file_count,
        .backend = m->backend,
        .isa = m->isa,
        .format = m->format,
        .label = m->label,
        .spec = entry->spec,
        .files = entry->files,
        .flags = m->flags,
    };
    nib_key again;
    nib_status status = nib_key_of(&stored, &again);
    if (!status && !nib_key_equal(key, &again))
        status = nib_fail(NIB_CORRUPT, "its spec, sources or flags are not those of its key");
    return status;
}

nib_status nib_entry_read(const char *folder, const nib_key *key, nib_entry *out)
{
    nib_entry entry = {.spec = NULL};
    char name[64];
    nib_status status = nib_entry_read_manifest(folder, &entry.manifest);
    if (status)
        return status;
    const nib_manifest *m = &entry.manifest;
    if (!nib_key_equal(&m->key, key))
        status = nib_fail(NIB_CORRUPT, "its manifest is of another key");
    if (!status && !nib_file_name_fits(m->format))
        status = nib_fail(NIB_CORRUPT, "its manifest has the format '%s'", m->format);
    if (!status)
        status = read_part(folder, NIB_ENTRY_SPEC, m->spec_bytes, &entry.spec);
    if (!status)
        status = read_sources(folder, &entry);
    if (!status)
        status = check_key(&entry, key);
    if (!status)
        status = read_stored(folder, NIB_ENTRY_COMMAND, &m->command, &entry.command);
    if (!status)
        status = read_stored(folder, NIB_ENTRY_LOG, &m->log, &entry.log);
    image_name(name, m->format);
    if (!status)
        status = read_stored(folder, name, &m->image, &entry.image);
    if (status)
        nib_entry_free(&entry);
    else
        *out = entry;
    return status;
}

void nib_entry_free(nib_entry *entry)
{
    for (uint32_t i = 0; entry->files && i < entry->manifest.file_count; i++)
        free((void *)entry->files[i].text);
    free(entry->files);
    free(entry->spec);
    free(entry->command);
    free(entry->log);
    free(entry->image);
    nib_manifest_free(&entry->manifest);
    *entry = (nib_entry){.spec = NULL};
}

/* ---- writing ---- */

static nib_status write_part(const char *folder, const char *name, const void *data, size_t bytes,
                             bool sync)
{
    char path[NIB_PATH_BYTES];
    if (!nib_path_join(path, folder, name))
        return nib_fail(NIB_MISSING, "the path of %s in %s is too long", name, folder);
    if (!nib_disk_make_above(path))
        return nib_fail(NIB_MISSING, "cannot create the folder of %s: %s", path, strerror(errno));
    return nib_disk_write(path, data, bytes, sync);
}

static nib_status write_text(const char *folder, const char *name, const char *text)
{
    return write_part(folder, name, text, strlen(text), false);
}

static nib_status write_sources(const char *folder, const nib_image_request *r,
                                nib_manifest_file *files)
{
    char sources[NIB_PATH_BYTES];
    nib_status status = NIB_OK;
    if (!nib_path_join(sources, folder, NIB_ENTRY_SOURCES))
        return nib_fail(NIB_MISSING, "the path %s is too long", folder);
    for (uint32_t i = 0; i < r->file_count && !status; i++) {
        files[i] = (nib_manifest_file){r->files[i].name, strlen(r->files[i].text)};
        status = write_text(sources, r->files[i].name, r->files[i].text);
    }
    return status;
}

/* For people: what was asked of the compiler, which may be a library and not a program. */
static nib_status write_command(const char *folder, const nib_manifest *m, nib_stored *stored)
{
    char text[NIB_PATH_BYTES + 4096];
    nib_text to = nib_text_into(text, sizeof(text));
    nib_text_add(&to, "# %s for %s %s, by %s%s%s%s\n", m->label, m->backend, m->isa, m->compiler,
                 m->compiler_path[0] ? " (" : "", m->compiler_path, m->compiler_path[0] ? ")" : "");
    nib_text_add(&to, "compile for %s: %s -I . -I %s %s/%s -o image.%s\n", m->isa, m->flags,
                 NIB_ENTRY_SOURCES, NIB_ENTRY_SOURCES, m->files[0].name, m->format);
    *stored = (nib_stored){strlen(text), nib_hash_text(text)};
    return write_text(folder, NIB_ENTRY_COMMAND, text);
}

nib_status nib_entry_write(const char *folder, const nib_image_request *r, const nib_key *key,
                           const nib_image_build *build)
{
    const char *log = build->log ? build->log : "";
    char name[64];
    nib_manifest_file *files = calloc(r->file_count, sizeof(*files));
    char *text = NULL;
    nib_status status = NIB_OK;
    if (!files)
        return nib_fail(NIB_NO_MEMORY, "no memory for a manifest");
    nib_manifest m = {
        .key = *key,
        .backend = r->backend,
        .isa = r->isa,
        .format = r->format,
        .label = r->label,
        .flags = r->flags,
        .compiler = build->compiler,
        .compiler_path = r->compiler_path ? r->compiler_path : "",
        .date = (int64_t)time(NULL),
        .log = {strlen(log), nib_hash_text(log)},
        .image = {build->bytes, nib_hash(build->image, (size_t)build->bytes)},
        .spec_bytes = strlen(r->spec),
        .files = files,
        .file_count = r->file_count,
    };
    stamp(m.compiler_path, &m.compiler_bytes, &m.compiler_mtime_ns);
    image_name(name, r->format);
    if (!nib_disk_make(folder))
        status = nib_fail(NIB_MISSING, "cannot create %s: %s", folder, strerror(errno));
    if (!status)
        status = write_text(folder, NIB_ENTRY_SPEC, r->spec);
    if (!status)
        status = write_sources(folder, r, files);
    if (!status)
        status = write_command(folder, &m, &m.command);
    if (!status)
        status = write_text(folder, NIB_ENTRY_LOG, log);
    /* A crash of the machine may leave any file short, which reading notices. Only the long one and
     * the one that is read first are waited for, so that this is rare. */
    if (!status)
        status = write_part(folder, name, build->image, (size_t)build->bytes, true);
    if (!status && !(text = nib_manifest_print(&m)))
        status = nib_fail(NIB_NO_MEMORY, "no memory for a manifest");
    if (!status)
        status = write_part(folder, NIB_ENTRY_MANIFEST, text, strlen(text), true);
    free(text);
    free(files);
    return status;
}
