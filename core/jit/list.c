/* SPDX-License-Identifier: Apache-2.0
 *
 * What packs and cache hold, for people: the nib_kernels of nibblas.h. A list owns what its texts
 * point into, so that it stays as it was while others fill or clear the cache.
 */
#include "base/struct.h"
#include "jit/cache.h"
#include "jit/entry.h"
#include "jit/packs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a pack or of the cache. */
typedef struct row {
    nib_kernel kernel;
    char key[NIB_KEY_TEXT_BYTES];
    const nib_pack *pack; /* and its image; NULL: of the cache */
    const nib_pack_image *image;
    void **parts; /* of a pack, unpacked when first asked for: as many as NIB_KERNEL_FILE + files */
    char *folder; /* of an entry */
    nib_manifest manifest;
    nib_entry *entry; /* once read */
} row;

struct nib_kernels {
    row *rows;
    size_t count, room;
    nib_pack **packs;
    size_t pack_count;
};

static row *add_row(nib_kernels *list)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        row *rows = realloc(list->rows, room * sizeof(*rows));
        if (!rows)
            return NULL;
        list->rows = rows;
        list->room = room;
    }
    row *added = &list->rows[list->count++];
    memset(added, 0, sizeof(*added));
    added->kernel.size = sizeof(added->kernel);
    return added;
}

static nib_status no_memory(void)
{
    return nib_fail(NIB_NO_MEMORY, "no memory for a list of kernels");
}

/* ---- packs ---- */

static nib_status add_image(nib_kernels *list, const nib_pack *pack, const nib_pack_image *image)
{
    row *r = add_row(list);
    if (!r || !(r->parts = calloc(NIB_KERNEL_FILE + image->file_count, sizeof(*r->parts))))
        return no_memory();
    nib_key_print(&image->key, r->key);
    r->pack = pack;
    r->image = image;
    r->kernel.origin = NIB_KERNEL_PACK;
    r->kernel.label = image->label;
    r->kernel.backend = pack->backend;
    r->kernel.isa = image->isa;
    r->kernel.format = image->format;
    r->kernel.flags = image->flags;
    r->kernel.compiler = image->compiler;
    r->kernel.path = pack->path;
    r->kernel.bytes = image->image.bytes;
    r->kernel.date = image->date;
    r->kernel.files = (int32_t)image->file_count;
    return NIB_OK;
}

static nib_status add_pack(nib_kernels *list, const char *path, const char *backend)
{
    nib_pack *pack;
    nib_status status = nib_pack_open(path, &pack);
    if (status) {
        nib_log(NIB_LOG_WARNING, "pack skipped: %s", nib_last_message());
        return status == NIB_NO_MEMORY ? status : NIB_OK;
    }
    if (backend && strcmp(backend, pack->backend)) {
        nib_pack_close(pack);
        return NIB_OK;
    }
    list->packs[list->pack_count++] = pack;
    for (uint32_t i = 0; i < pack->image_count && !status; i++)
        status = add_image(list, pack, &pack->images[i]);
    return status;
}

static nib_status add_packs(nib_kernels *list, const char *backend)
{
    nib_pack_paths paths;
    nib_status status = nib_packs_list(&paths);
    if (status)
        return status;
    list->packs = calloc(paths.count + 1, sizeof(nib_pack *));
    if (!list->packs)
        status = no_memory();
    for (size_t i = 0; i < paths.count && !status; i++)
        status = add_pack(list, paths.items[i], backend);
    nib_packs_list_free(&paths);
    return status;
}

/* ---- cache ---- */

static nib_status add_entry(nib_kernels *list, const char *folder, const char *name,
                            const char *backend)
{
    char path[NIB_PATH_BYTES];
    nib_manifest manifest;
    nib_key key;
    if (!nib_key_parse(name, &key) || !nib_path_join(path, folder, name))
        return NIB_OK;
    nib_status status = nib_entry_read_manifest(path, &manifest);
    if (status) {
        nib_log(NIB_LOG_WARNING, "cache entry %s skipped: %s", path, nib_last_message());
        return status == NIB_NO_MEMORY ? status : NIB_OK;
    }
    if (backend && strcmp(backend, manifest.backend)) {
        nib_manifest_free(&manifest);
        return NIB_OK;
    }
    row *r = add_row(list);
    if (!r || !(r->folder = strdup(path))) {
        nib_manifest_free(&manifest);
        return no_memory();
    }
    nib_key_print(&key, r->key);
    r->manifest = manifest;
    r->kernel.origin = NIB_KERNEL_CACHE;
    r->kernel.label = manifest.label;
    r->kernel.backend = manifest.backend;
    r->kernel.isa = manifest.isa;
    r->kernel.format = manifest.format;
    r->kernel.flags = manifest.flags;
    r->kernel.compiler = manifest.compiler;
    r->kernel.path = r->folder;
    r->kernel.bytes = manifest.image.bytes;
    r->kernel.date = manifest.date;
    r->kernel.files = (int32_t)manifest.file_count;
    return NIB_OK;
}

static nib_status add_cache(nib_kernels *list, const char *backend)
{
    char folder[NIB_PATH_BYTES];
    nib_status status = NIB_OK;
    if (nib_cache_folder(folder))
        return NIB_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT ? NIB_OK
                               : nib_fail(NIB_MISSING, "cannot read the kernel cache %s: %s",
                                          folder, strerror(errno));
    for (struct dirent *item; !status && (item = readdir(dir)) != NULL;)
        status = add_entry(list, folder, item->d_name, backend);
    closedir(dir);
    return status;
}

/* ---- the list ---- */

static int compare_rows(const void *a, const void *b)
{
    const row *x = a, *y = b;
    int order = strcmp(x->kernel.backend, y->kernel.backend);
    if (!order)
        order = strcmp(x->kernel.isa, y->kernel.isa);
    if (!order)
        order = strcmp(x->kernel.label, y->kernel.label);
    if (!order)
        order = strcmp(x->key, y->key);
    return order ? order : (int)x->kernel.origin - (int)y->kernel.origin;
}

nib_status nib_kernels_open(const char *backend, nib_kernels **out)
{
    if (!out)
        return nib_fail(NIB_INVALID, "nib_kernels_open needs a place for the list");
    nib_kernels *list = calloc(1, sizeof(*list));
    if (!list)
        return no_memory();
    nib_status status = add_packs(list, backend);
    if (!status)
        status = add_cache(list, backend);
    if (status) {
        nib_kernels_close(list);
        return status;
    }
    if (list->count)
        qsort(list->rows, list->count, sizeof(*list->rows), compare_rows);
    *out = list;
    return NIB_OK;
}

void nib_kernels_close(nib_kernels *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++) {
        row *r = &list->rows[i];
        for (int32_t p = 0; r->parts && p < NIB_KERNEL_FILE + r->kernel.files; p++)
            free(r->parts[p]);
        free(r->parts);
        if (r->entry)
            nib_entry_free(r->entry);
        free(r->entry);
        nib_manifest_free(&r->manifest);
        free(r->folder);
    }
    for (size_t i = 0; i < list->pack_count; i++)
        nib_pack_close(list->packs[i]);
    free(list->packs);
    free(list->rows);
    free(list);
}

int64_t nib_kernels_count(const nib_kernels *list)
{
    return list ? (int64_t)list->count : 0;
}

static nib_status check_index(const nib_kernels *list, int64_t index)
{
    if (!list)
        return nib_fail(NIB_INVALID, "the list of kernels is NULL");
    if (index < 0 || index >= (int64_t)list->count)
        return nib_fail(NIB_INVALID, "kernel %lld of a list of %zu", (long long)index, list->count);
    return NIB_OK;
}

nib_status nib_kernels_get(const nib_kernels *list, int64_t index, nib_kernel *out)
{
    nib_status status = check_index(list, index);
    if (status)
        return status;
    nib_kernel kernel = list->rows[index].kernel;
    kernel.key = list->rows[index].key;
    return nib_struct_write(out, &kernel, sizeof(kernel), sizeof(kernel), "nib_kernel");
}

/* ---- parts ---- */

static nib_status pack_part(const row *r, int32_t part, const char **name, const void **data,
                            size_t *bytes)
{
    const nib_pack_image *image = r->image;
    const nib_pack_section *sections[] = {&image->spec, &image->log, &image->image};
    const nib_pack_section *section = part < NIB_KERNEL_FILE ? sections[part] : NULL;
    if (!section) {
        uint32_t file = r->pack->files[image->first_file + (uint32_t)(part - NIB_KERNEL_FILE)];
        section = &r->pack->texts[file].section;
        *name = r->pack->texts[file].name;
    }
    nib_status status = NIB_OK;
    if (!r->parts[part])
        status = nib_pack_read(r->pack, section, *name, &r->parts[part]);
    *data = r->parts[part];
    *bytes = (size_t)section->bytes;
    return status;
}

static nib_status entry_part(row *r, int32_t part, const char **name, const void **data,
                             size_t *bytes)
{
    nib_status status = NIB_OK;
    nib_entry entry;
    nib_key key;
    if (!r->entry) {
        nib_key_parse(r->key, &key);
        status = nib_entry_read(r->folder, &key, &entry);
        if (!status && !(r->entry = malloc(sizeof(*r->entry)))) {
            nib_entry_free(&entry);
            status = no_memory();
        }
        if (status)
            return nib_fail_within(status, "cache entry %s", r->folder);
        *r->entry = entry;
    }
    const nib_entry *e = r->entry;
    /* Made anew since the list was, of the same key: as many files. */
    const char *texts[] = {e->spec, e->log};
    if (part == NIB_KERNEL_IMAGE) {
        *data = e->image;
        *bytes = (size_t)e->manifest.image.bytes;
        return NIB_OK;
    }
    const char *text =
        part < NIB_KERNEL_IMAGE ? texts[part] : e->files[part - NIB_KERNEL_FILE].text;
    if (part >= NIB_KERNEL_FILE)
        *name = e->files[part - NIB_KERNEL_FILE].name;
    *data = text;
    *bytes = strlen(text);
    return NIB_OK;
}

nib_status nib_kernels_part(nib_kernels *list, int64_t index, nib_kernel_part part,
                            const char **name, const void **data, size_t *bytes)
{
    static const char *const names[] = {NIB_ENTRY_SPEC, NIB_ENTRY_LOG, "image"};
    nib_status status = check_index(list, index);
    if (!status && (!data || !bytes))
        status = nib_fail(NIB_INVALID, "nib_kernels_part needs places for data and bytes");
    if (status)
        return status;
    row *r = &list->rows[index];
    int32_t number = (int32_t)part;
    if (number < 0)
        return nib_fail(NIB_INVALID, "kernel part %d, expected a NIB_KERNEL_ value", number);
    if (number >= NIB_KERNEL_FILE + r->kernel.files)
        return nib_fail(NIB_MISSING, "kernel %s has %d source files", r->kernel.label,
                        r->kernel.files);
    const char *called = number < NIB_KERNEL_FILE ? names[number] : "source file";
    const void *found = NULL;
    size_t count = 0;
    status = r->pack ? pack_part(r, number, &called, &found, &count)
                     : entry_part(r, number, &called, &found, &count);
    if (status)
        return status;
    *data = found;
    *bytes = count;
    if (name)
        *name = called;
    return NIB_OK;
}

nib_status nib_kernels_clear(const char *key, int64_t *removed)
{
    nib_key parsed;
    uint64_t count = 0;
    if (key && !nib_key_parse(key, &parsed))
        return nib_fail(NIB_INVALID, "'%s' is no key of a kernel: expected 32 hexadecimal digits",
                        key);
    nib_status status = nib_cache_clear(key ? &parsed : NULL, &count);
    if (!status && removed)
        *removed = (int64_t)count;
    return status;
}
