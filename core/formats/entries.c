/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors and metadata of an open file, and the checks that all formats share: memory in
 * proportion to the file, unique names, data inside the file and not overlapping.
 */
#include "formats/entries.h"

#include "base/checked.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>

/* Memory is a list of blocks that go together with the file. */
typedef struct nib_file_block {
    struct nib_file_block *next;
    size_t used, room;
} file_block;

enum {
    BLOCK_HEAD = 64, /* keeps the contents aligned */
    BLOCK_ROOM = 4096 - BLOCK_HEAD,
    ALIGN = 16
};

nib_status nib_file_alloc(nib_file *file, size_t bytes, void **out)
{
    size_t rounded;
    if (!nib_add_size(bytes, ALIGN - 1, &rounded))
        return nib_fail(NIB_NO_MEMORY, "%s: no memory for %zu bytes", file->format->name, bytes);
    rounded &= ~(size_t)(ALIGN - 1);
    file_block *block = file->blocks;
    if (!block || block->room - block->used < rounded) {
        size_t room = rounded > BLOCK_ROOM ? rounded : BLOCK_ROOM, total;
        block = nib_add_size(room, BLOCK_HEAD, &total) ? calloc(1, total) : NULL;
        if (!block)
            return nib_fail(NIB_NO_MEMORY, "%s: no memory for %zu bytes", file->format->name, room);
        *block = (file_block){.next = file->blocks, .room = room};
        file->blocks = block;
    }
    *out = (unsigned char *)block + BLOCK_HEAD + block->used;
    block->used += rounded;
    return NIB_OK;
}

nib_status nib_file_name(nib_file *file, nib_span span, const char *field, uint64_t where,
                         const char **out)
{
    void *copy;
    if (memchr(span.text, 0, span.bytes))
        return nib_fail(NIB_CORRUPT, "%s: %s at byte %" PRIu64 " holds a NUL character",
                        file->format->name, field, where);
    nib_status status = nib_file_alloc(file, span.bytes + 1, &copy);
    if (status)
        return status;
    memcpy(copy, span.text, span.bytes);
    *out = copy;
    return NIB_OK;
}

nib_reader nib_file_reader(const nib_file *file)
{
    return (nib_reader){.format = file->format->name, .data = file->data, .bytes = file->bytes};
}

/* Makes `*items` hold `want` of `size` bytes. */
static nib_status grow(void **items, int64_t *room, int64_t want, size_t size)
{
    size_t bytes;
    if (want <= *room)
        return NIB_OK;
    void *more = nib_mul_size((size_t)want, size, &bytes) ? realloc(*items, bytes) : NULL;
    if (!more)
        return nib_fail(NIB_NO_MEMORY, "no memory for %" PRId64 " entries of a file", want);
    *items = more;
    *room = want;
    return NIB_OK;
}

nib_status nib_file_reserve(nib_file *file, int64_t tensors, int64_t metas)
{
    nib_status status = grow((void **)&file->entries, &file->entries_room,
                             file->entries_count + tensors, sizeof(*file->entries));
    if (!status)
        status = grow((void **)&file->metas, &file->metas_room, file->metas_count + metas,
                      sizeof(*file->metas));
    return status;
}

int64_t nib_entry_cols(const nib_entry *entry)
{
    return entry->rank ? entry->shape[entry->rank - 1] : 1;
}

int64_t nib_entry_rows(const nib_entry *entry)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < entry->rank; i++)
        rows *= entry->shape[i];
    return rows;
}

nib_status nib_file_tensor_bytes(const nib_file *file, const nib_entry *entry, uint64_t *bytes)
{
    const nib_element *element = entry->element;
    int64_t cols = nib_entry_cols(entry), product = 1;
    if (cols % element->block)
        return nib_fail(NIB_CORRUPT,
                        "%s: tensor '%s' at byte %" PRIu64 " has rows of %" PRId64
                        " elements, no whole number of %s blocks of %d",
                        file->format->name, entry->name, entry->where, cols, element->name,
                        element->block);
    /* In this order the product of all but a zero extent is checked too, so that the number of
     * rows always fits. */
    int64_t blocks = cols / element->block;
    for (int i = 0; i + 1 < entry->rank; i++)
        if (!nib_mul_extent(product, entry->shape[i] ? entry->shape[i] : 1, &product))
            goto fail;
    if (nib_entry_rows(entry) == 0)
        product = 0;
    if (!nib_mul_extent(product, blocks, &product) ||
        !nib_mul_extent(product, element->bytes, &product))
        goto fail;
    *bytes = (uint64_t)product;
    return NIB_OK;

fail:
    return nib_fail(NIB_CORRUPT,
                    "%s: tensor '%s' at byte %" PRIu64 " has a shape whose bytes do not fit in "
                    "63 bits",
                    file->format->name, entry->name, entry->where);
}

nib_status nib_file_add(nib_file *file, const nib_entry *entry)
{
    nib_status status = NIB_OK;
    if (file->entries_count == file->entries_room)
        status = nib_file_reserve(file, file->entries_count / 2 + 16, 0);
    if (!status)
        file->entries[file->entries_count++] = *entry;
    return status;
}

nib_status nib_file_add_meta(nib_file *file, const nib_meta_entry *meta)
{
    nib_status status = NIB_OK;
    if (file->metas_count == file->metas_room)
        status = nib_file_reserve(file, 0, file->metas_count / 2 + 16);
    if (!status)
        file->metas[file->metas_count++] = *meta;
    return status;
}

/* ---- names ---- */

/* Names are the first members of entries and metas, `stride` bytes apart. */
typedef struct name_list {
    const void *first;
    size_t stride;
    int64_t count;
} name_list;

static const char *name_at(const name_list *list, int64_t index)
{
    const char *name;
    memcpy(&name, (const unsigned char *)list->first + (size_t)index * list->stride, sizeof(name));
    return name;
}

static name_list names_of_entries(const nib_file *file)
{
    return (name_list){file->entries, sizeof(nib_entry), file->entries_count};
}

static name_list names_of_metas(const nib_file *file)
{
    return (name_list){file->metas, sizeof(nib_meta_entry), file->metas_count};
}

/* The slot that holds `name`, or the empty one where it would go. At most half are taken. */
static size_t slot_of(const nib_name_index *index, const name_list *list, const char *name)
{
    size_t slot = (size_t)nib_hash_text(name) & index->mask;
    while (index->slots[slot] && strcmp(name_at(list, index->slots[slot] - 1), name))
        slot = (slot + 1) & index->mask;
    return slot;
}

static int64_t find(const nib_name_index *index, const name_list *list, const char *name)
{
    return index->slots ? (int64_t)index->slots[slot_of(index, list, name)] - 1 : -1;
}

/* Indexes a list. `twice` receives the index of a name that an earlier one has, or -1. */
static nib_status index_names(const name_list *list, nib_name_index *out, int64_t *twice)
{
    size_t slots = 4;
    *twice = -1;
    while (slots < 2 * (size_t)list->count)
        slots *= 2;
    if (list->count > UINT32_MAX / 4 || !(out->slots = calloc(slots, sizeof(*out->slots))))
        return nib_fail(NIB_NO_MEMORY, "no memory to index %" PRId64 " names", list->count);
    out->mask = slots - 1;
    for (int64_t i = 0; i < list->count && *twice < 0; i++) {
        size_t slot = slot_of(out, list, name_at(list, i));
        if (out->slots[slot])
            *twice = i;
        else
            out->slots[slot] = (uint32_t)(i + 1);
    }
    return NIB_OK;
}

static nib_status seal_names(nib_file *file)
{
    name_list entries = names_of_entries(file), metas = names_of_metas(file);
    int64_t twice = -1;
    nib_status status = index_names(&entries, &file->entries_index, &twice);
    if (!status && twice >= 0)
        return nib_fail(NIB_CORRUPT, "%s: tensor name '%s' at byte %" PRIu64 " stands twice",
                        file->format->name, file->entries[twice].name, file->entries[twice].where);
    if (!status)
        status = index_names(&metas, &file->metas_index, &twice);
    if (!status && twice >= 0)
        return nib_fail(NIB_CORRUPT, "%s: metadata key '%s' at byte %" PRIu64 " stands twice",
                        file->format->name, file->metas[twice].key, file->metas[twice].where);
    return status;
}

int64_t nib_entries_find(const nib_file *file, const char *name)
{
    name_list list = names_of_entries(file);
    return find(&file->entries_index, &list, name);
}

int64_t nib_metas_find(const nib_file *file, const char *key)
{
    name_list list = names_of_metas(file);
    return find(&file->metas_index, &list, key);
}

/* ---- ranges ---- */

static int by_data(const void *a, const void *b)
{
    const nib_entry *x = *(nib_entry *const *)a, *y = *(nib_entry *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

/* Entries without data (.nib weights) and empty ones cannot overlap. */
static nib_status check_overlaps(const nib_file *file)
{
    int64_t used = 0;
    const nib_entry **sorted = malloc(((size_t)file->entries_count + 1) * sizeof(*sorted));
    if (!sorted)
        return nib_fail(NIB_NO_MEMORY, "no memory to sort %" PRId64 " tensors",
                        file->entries_count);
    for (int64_t i = 0; i < file->entries_count; i++)
        if (file->entries[i].data && file->entries[i].bytes)
            sorted[used++] = &file->entries[i];
    qsort(sorted, (size_t)used, sizeof(*sorted), by_data);
    nib_status status = NIB_OK;
    for (int64_t i = 1; i < used && !status; i++) {
        const nib_entry *a = sorted[i - 1], *b = sorted[i];
        if ((uint64_t)(b->data - a->data) < a->bytes)
            status = nib_fail(NIB_CORRUPT,
                              "%s: tensor '%s' (described at byte %" PRIu64
                              ") overlaps tensor '%s' (byte %" PRIu64 ") in the data at byte %zu",
                              file->format->name, b->name, b->where, a->name, a->where,
                              (size_t)(b->data - file->data));
    }
    free(sorted);
    return status;
}

nib_status nib_entries_seal(nib_file *file)
{
    nib_status status = seal_names(file);
    return status ? status : check_overlaps(file);
}

void nib_entries_free(nib_file *file)
{
    while (file->blocks) {
        file_block *next = file->blocks->next;
        free(file->blocks);
        file->blocks = next;
    }
    free(file->entries);
    free(file->metas);
    free(file->entries_index.slots);
    free(file->metas_index.slots);
}
