/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions on files: which format a file has, its tensors, its metadata. Formats fill
 * nib_file (file.h); a new format is one line in the table here.
 */
#include "formats/file.h"

#include "base/struct.h"
#include "formats/entries.h"

#include <inttypes.h>
#include <stdlib.h>

/* The first whose magic fits opens the file. */
static const nib_format *const formats[] = {
    &nib_format_nib,
    &nib_format_gguf,
    &nib_format_npy,
    &nib_format_safetensors,
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static nib_status choose_format(nib_file *file)
{
    for (int i = 0; i < FORMATS && !file->format; i++)
        if (formats[i]->is(file->data, file->bytes))
            file->format = formats[i];
    if (!file->format)
        return nib_fail(NIB_CORRUPT,
                        "byte 0 begins no format known here: expected .nib, GGUF, safetensors or "
                        "npy (the file has %zu bytes)",
                        file->bytes);
    return NIB_OK;
}

/* Takes over the mapping. */
static nib_status open_bytes(const void *data, size_t bytes, nib_mapping map, nib_file **out)
{
    nib_file *file = calloc(1, sizeof(*file));
    if (!file) {
        nib_map_close(&map);
        return nib_fail(NIB_NO_MEMORY, "no memory for a file handle");
    }
    file->data = data;
    file->bytes = bytes;
    file->map = map;
    nib_status status = choose_format(file);
    if (!status)
        status = file->format->open(file);
    if (!status)
        status = nib_entries_seal(file);
    if (status) {
        nib_file_close(file);
        return status;
    }
    *out = file;
    return NIB_OK;
}

nib_status nib_file_open_memory(const void *data, size_t bytes, nib_file **out)
{
    return open_bytes(data, bytes, (nib_mapping){NULL, 0}, out);
}

nib_status nib_file_open(const char *path, nib_file **out)
{
    nib_mapping map;
    if (!path || !out)
        return nib_fail(NIB_INVALID, "nib_file_open: %s is NULL", path ? "out" : "path");
    nib_status status = nib_map_open(path, &map);
    if (status)
        return status;
    status = open_bytes(map.data, map.bytes, map, out);
    return status ? nib_fail_within(status, "%s", path) : NIB_OK;
}

void nib_file_close(nib_file *file)
{
    if (!file)
        return;
    nib_entries_free(file);
    nib_map_close(&file->map);
    free(file);
}

const char *nib_file_format(const nib_file *file)
{
    return file ? file->format->name : "";
}

/* ---- tensors ---- */

int64_t nib_file_tensor_count(const nib_file *file)
{
    return file ? file->entries_count : 0;
}

static nib_status entry_at(const nib_file *file, int64_t index, const nib_entry **out)
{
    if (!file)
        return nib_fail(NIB_INVALID, "the file is NULL");
    if (index < 0 || index >= file->entries_count)
        return nib_fail(NIB_INVALID, "tensor %" PRId64 " of %" PRId64 ": count from 0", index,
                        file->entries_count);
    *out = &file->entries[index];
    return NIB_OK;
}

/* Whether a block format's matrix is one that weights can be: no empty extent. */
static bool is_weights(const nib_entry *entry)
{
    return !entry->element || (entry->element->weights && entry->bytes);
}

nib_status nib_file_tensor(const nib_file *file, int64_t index, nib_tensor *out)
{
    const nib_entry *entry;
    nib_status status = entry_at(file, index, &entry);
    if (status)
        return status;
    nib_tensor tensor = {
        .rank = entry->rank,
        .name = entry->name,
        .type_name = entry->element ? entry->element->name : file->format->type_name(entry),
        .type = entry->element ? entry->element->type : NIB_TYPE_NONE,
        .quantized = is_weights(entry),
        .data = entry->data,
        .bytes = entry->bytes,
        .offset = entry->data ? (uint64_t)(entry->data - file->data) : 0,
    };
    memcpy(tensor.shape, entry->shape, sizeof(tensor.shape));
    return nib_struct_write(out, &tensor, sizeof(tensor), sizeof(tensor), "nib_tensor");
}

nib_status nib_file_find(const nib_file *file, const char *name, int64_t *index)
{
    if (!file || !name || !index)
        return nib_fail(NIB_INVALID, "nib_file_find: %s is NULL",
                        !file   ? "file"
                        : !name ? "name"
                                : "index");
    int64_t found = nib_entries_find(file, name);
    if (found < 0)
        return nib_fail(NIB_MISSING, "no tensor '%s' among the %" PRId64 " of the %s file", name,
                        file->entries_count, file->format->name);
    *index = found;
    return NIB_OK;
}

/* Blocks as weights: all arrays are the blocks themselves, the layouts pick the parts. */
static nib_status blocks_source(const nib_entry *entry, nib_weight_desc *desc,
                                nib_weight_source *source)
{
    const nib_block_weights *weights = entry->element->weights;
    size_t bytes = (size_t)entry->bytes;
    nib_weight_desc d = {
        .size = sizeof(d),
        .n = nib_entry_rows(entry),
        .k = nib_entry_cols(entry),
        .group = entry->element->block,
        .type = weights->type,
        .scale_type = weights->scale_type,
        .zero = weights->zero,
        .zero_type = weights->zero_type,
    };
    nib_weight_source s = {
        .size = sizeof(s),
        .flags = weights->source_flags,
        .layout = weights->layout,
        .codes = entry->data,
        .scale_layout = weights->scale_layout,
        .scales = entry->data,
        .zero_layout = weights->zero_layout,
        .zeros = weights->zero ? entry->data : NULL,
        .alpha = 1,
        .codes_bytes = bytes,
        .scales_bytes = bytes,
        .zeros_bytes = weights->zero ? bytes : 0,
    };
    nib_status status = nib_weight_desc_check(&d, &d);
    if (!status)
        status = nib_struct_write(desc, &d, sizeof(d), sizeof(d), "nib_weight_desc");
    if (!status)
        status = nib_struct_write(source, &s, sizeof(s), sizeof(s), "nib_weight_source");
    return status;
}

nib_status nib_file_source(const nib_file *file, int64_t index, nib_weight_desc *desc,
                           nib_weight_source *source)
{
    const nib_entry *entry;
    nib_status status = entry_at(file, index, &entry);
    if (status)
        return status;
    if (!is_weights(entry))
        return nib_fail(NIB_UNSUPPORTED,
                        "tensor '%s' is %s%s: only tensors of quantised groups are weights; "
                        "nib_file_read_f32 reads %s",
                        entry->name, entry->bytes ? "" : "empty ", entry->element->name,
                        entry->element->read ? "it" : "others");
    return entry->element ? blocks_source(entry, desc, source)
                          : file->format->source(file, index, desc, source);
}

nib_status nib_file_read_f32(const nib_file *file, int64_t index, int64_t r0, int64_t r1,
                             float *out)
{
    const nib_entry *entry;
    nib_status status = entry_at(file, index, &entry);
    if (status)
        return status;
    int64_t rows = nib_entry_rows(entry), cols = nib_entry_cols(entry);
    if (r0 < 0 || r1 < r0 || r1 > rows)
        return nib_fail(NIB_INVALID,
                        "rows %" PRId64 "..%" PRId64 " of tensor '%s', which has %" PRId64, r0, r1,
                        entry->name, rows);
    if (r0 == r1 || cols == 0)
        return NIB_OK;
    if (!out)
        return nib_fail(NIB_INVALID, "nib_file_read_f32: out is NULL");
    if (entry->element && !entry->element->read)
        return nib_fail(NIB_UNSUPPORTED, "tensor '%s' is %s, which nibblas does not decode",
                        entry->name, entry->element->name);
    if (file->format->verify && (status = file->format->verify(file, index)))
        return status;
    if (!entry->element)
        return file->format->read(file, index, r0, r1, out);
    int64_t row_bytes = cols / entry->element->block * entry->element->bytes;
    entry->element->read(entry->data + r0 * row_bytes, (r1 - r0) * cols, out);
    return NIB_OK;
}

/* ---- metadata ---- */

int64_t nib_file_meta_count(const nib_file *file)
{
    return file ? file->metas_count : 0;
}

nib_status nib_file_meta(const nib_file *file, int64_t index, const char **key, nib_meta *value)
{
    if (!file || index < 0 || index >= file->metas_count)
        return nib_fail(NIB_MISSING, "no metadata %" PRId64 ": there are %" PRId64, index,
                        file ? file->metas_count : 0);
    const nib_meta_entry *meta = &file->metas[index];
    nib_status status = NIB_OK;
    if (value)
        status = nib_struct_write(value, &meta->value, sizeof(meta->value), sizeof(meta->value),
                                  "nib_meta");
    if (!status && key)
        *key = meta->key;
    return status;
}

nib_status nib_file_meta_find(const nib_file *file, const char *key, nib_meta *value)
{
    if (!file || !key)
        return nib_fail(NIB_INVALID, "nib_file_meta_find: %s is NULL", file ? "key" : "file");
    int64_t found = nib_metas_find(file, key);
    if (found < 0)
        return nib_fail(NIB_MISSING, "no metadata '%s' in the %s file", key, file->format->name);
    return nib_file_meta(file, found, NULL, value);
}

nib_status nib_file_meta_item(const nib_file *file, const nib_meta *array, int64_t index,
                              nib_meta *value)
{
    if (!file || !array || array->kind != NIB_META_ARRAY || !array->items)
        return nib_fail(NIB_INVALID, "nib_file_meta_item: the value is no array of this file");
    if (index < 0 || index >= array->count)
        return nib_fail(NIB_INVALID, "item %" PRId64 " of an array of %" PRId64 ": count from 0",
                        index, array->count);
    const nib_meta_array *items = array->items;
    nib_meta item = {.size = sizeof(item)};
    items->item(items, index, &item);
    return nib_struct_write(value, &item, sizeof(item), sizeof(item), "nib_meta");
}
