/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of nib_file, for the formats. A format is one file with one nib_format, and one line in
 * the table of file.c. Its open function walks the bytes, adds tensors and metadata with the
 * functions below, and leaves names, ranges and overlaps to be checked for all of them alike.
 */
#ifndef NIB_FORMATS_FILE_H
#define NIB_FORMATS_FILE_H

#include "base/file.h"
#include "formats/element.h"
#include "formats/reader.h"

#include <stdbool.h>

#define NIB_TENSOR_RANK 8 /* of nib_tensor.shape */

typedef struct nib_entry {
    const char *name;
    const nib_element *element; /* NULL: weights of a .nib file, which `extra` describes */
    void *extra;                /* the format's own */
    int32_t rank;
    int64_t shape[NIB_TENSOR_RANK];
    const unsigned char *data;
    uint64_t bytes;
    uint64_t where; /* byte of the file that describes the tensor, for messages */
} nib_entry;

typedef struct nib_meta_entry {
    const char *key;
    nib_meta value;
    uint64_t where;
} nib_meta_entry;

/* What nib_meta.items points at. */
typedef struct nib_meta_array nib_meta_array;
struct nib_meta_array {
    void (*item)(const nib_meta_array *array, int64_t index, nib_meta *out);
    const unsigned char *data;
    const uint64_t *starts; /* of items of unequal size, from data; NULL for others */
    uint32_t type;          /* the format's own */
};

typedef struct nib_format {
    const char *name;
    bool (*is)(const unsigned char *data, size_t bytes);
    nib_status (*open)(nib_file *file);
    /* For entries without element; NULL where there are none. */
    nib_status (*source)(const nib_file *file, int64_t index, nib_weight_desc *desc,
                         nib_weight_source *source);
    nib_status (*read)(const nib_file *file, int64_t index, int64_t r0, int64_t r1, float *out);
    const char *(*type_name)(const nib_entry *entry);
    /* Checks what open leaves for the first use; NULL: nothing. */
    nib_status (*verify)(const nib_file *file, int64_t index);
} nib_format;

/* Slots of an open-addressing hash table over names: 0 is empty, else index + 1. */
typedef struct nib_name_index {
    uint32_t *slots;
    size_t mask;
} nib_name_index;

struct nib_file {
    const nib_format *format;
    const unsigned char *data;
    size_t bytes;
    nib_mapping map; /* empty when the bytes are a caller's */
    struct nib_file_block *blocks;
    nib_entry *entries;
    int64_t entries_count, entries_room;
    nib_name_index entries_index;
    nib_meta_entry *metas;
    int64_t metas_count, metas_room;
    nib_name_index metas_index;
};

extern const nib_format nib_format_nib, nib_format_gguf, nib_format_safetensors, nib_format_npy;

/* A file whose bytes lie in the caller's memory, which must outlive it: for fuzzing and tests.
 * Sections of .nib weights are as aligned as `data` is. */
nib_status nib_file_open_memory(const void *data, size_t bytes, nib_file **out);

nib_reader nib_file_reader(const nib_file *file);

/* Zeroed memory that lives as long as the file. */
nib_status nib_file_alloc(nib_file *file, size_t bytes, void **out);
/* A NUL-terminated copy of a text of the file. NIB_CORRUPT: it holds a NUL. */
nib_status nib_file_name(nib_file *file, nib_span span, const char *field, uint64_t where,
                         const char **out);

/* Makes room for exactly this many more; adding grows on demand. */
nib_status nib_file_reserve(nib_file *file, int64_t tensors, int64_t metas);
/* Copies the entry. The data must lie in the file; bytes follow from element and shape. */
nib_status nib_file_add(nib_file *file, const nib_entry *entry);
nib_status nib_file_add_meta(nib_file *file, const nib_meta_entry *meta);

/* Bytes of a shape of elements. NIB_CORRUPT: they do not fit, or the innermost extent is no whole
 * number of blocks. */
nib_status nib_file_tensor_bytes(const nib_file *file, const nib_entry *entry, uint64_t *bytes);

/* Rows and columns of a tensor seen as a matrix. */
int64_t nib_entry_rows(const nib_entry *entry);
int64_t nib_entry_cols(const nib_entry *entry);

#endif
