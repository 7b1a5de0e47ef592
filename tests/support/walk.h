/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything a program may do with a file's bytes, for broken files in tests and for fuzzers: open,
 * list, find, read every value. A header, because fuzzers link nothing else of the tests.
 */
#ifndef NIB_TEST_WALK_H
#define NIB_TEST_WALK_H

#include "formats/file.h"

#include <stdlib.h>

/* Larger tensors are not read, so that a fuzzer stays quick. */
#define TEST_WALK_ELEMENTS (1 << 20)

static inline void test_walk_tensor(const nib_file *file, int64_t index)
{
    nib_tensor tensor = {.size = sizeof(tensor)};
    nib_weight_desc desc = {.size = sizeof(desc)};
    nib_weight_source source = {.size = sizeof(source)};
    int64_t found = -1, rows = 1;
    if (nib_file_tensor(file, index, &tensor) || nib_file_find(file, tensor.name, &found) ||
        found != index)
        abort();
    volatile unsigned char last = 0;
    if (tensor.data && tensor.bytes)
        last = ((const unsigned char *)tensor.data)[tensor.bytes - 1];
    (void)last;
    int64_t cols = tensor.rank ? tensor.shape[tensor.rank - 1] : 1;
    for (int i = 0; i + 1 < tensor.rank; i++)
        rows *= tensor.shape[i];
    nib_file_source(file, index, &desc, &source);
    if (rows == 0 || cols == 0 || rows > TEST_WALK_ELEMENTS / cols)
        return;
    float *values = malloc((size_t)(rows * cols) * sizeof(float));
    if (values)
        nib_file_read_f32(file, index, 0, rows, values);
    free(values);
}

static inline void test_walk_meta(const nib_file *file, int64_t index)
{
    const char *key;
    nib_meta meta = {.size = sizeof(meta)}, item = {.size = sizeof(item)};
    if (nib_file_meta(file, index, &key, &meta) || nib_file_meta_find(file, key, &meta))
        abort();
    for (int64_t i = 0; meta.kind == NIB_META_ARRAY && i < meta.count; i++)
        if (nib_file_meta_item(file, &meta, i, &item))
            abort();
    volatile char last = 0;
    if (meta.kind == NIB_META_STRING && meta.count)
        last = meta.text[meta.count - 1];
    (void)last;
}

static inline nib_status test_walk(const void *data, size_t bytes)
{
    nib_file *file;
    nib_status status = nib_file_open_memory(data, bytes, &file);
    if (status)
        return status;
    for (int64_t i = 0; i < nib_file_meta_count(file); i++)
        test_walk_meta(file, i);
    for (int64_t i = 0; i < nib_file_tensor_count(file); i++)
        test_walk_tensor(file, i);
    nib_file_close(file);
    return NIB_OK;
}

#endif
