/* SPDX-License-Identifier: Apache-2.0
 *
 * Builders of small files: see files.h.
 */
#include "support/files.h"

#include "support/random.h"
#include "support/walk.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Tests of this library end at once when their own support fails. */
static void demand(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "test support: %s (%s)\n", what, nib_last_message());
    abort();
}

void test_put(test_bytes *bytes, const void *data, size_t count)
{
    if (bytes->count + count > bytes->room) {
        bytes->room = 2 * (bytes->count + count);
        bytes->data = realloc(bytes->data, bytes->room);
        demand(bytes->data != NULL, "no memory");
    }
    if (count)
        memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

void test_put_text(test_bytes *bytes, const char *text)
{
    test_put(bytes, text, strlen(text));
}

void test_put_u8(test_bytes *bytes, uint8_t value)
{
    test_put(bytes, &value, sizeof(value));
}

void test_put_u16(test_bytes *bytes, uint16_t value)
{
    test_put(bytes, &value, sizeof(value));
}

void test_put_u32(test_bytes *bytes, uint32_t value)
{
    test_put(bytes, &value, sizeof(value));
}

void test_put_u64(test_bytes *bytes, uint64_t value)
{
    test_put(bytes, &value, sizeof(value));
}

void test_put_f32(test_bytes *bytes, float value)
{
    test_put(bytes, &value, sizeof(value));
}

void test_put_padding(test_bytes *bytes, size_t multiple)
{
    while (bytes->count % multiple)
        test_put_u8(bytes, 0);
}

void test_bytes_free(test_bytes *bytes)
{
    free(bytes->data);
    *bytes = (test_bytes){0};
}

test_gguf test_gguf_begin(void)
{
    return (test_gguf){.version = 3, .alignment = 32};
}

void test_gguf_string(test_bytes *bytes, const char *text)
{
    test_put_u64(bytes, strlen(text));
    test_put_text(bytes, text);
}

void test_gguf_key(test_gguf *gguf, const char *key, uint32_t type)
{
    test_gguf_string(&gguf->metas, key);
    test_put_u32(&gguf->metas, type);
    gguf->metas_count++;
}

void test_gguf_tensor(test_gguf *gguf, const char *name, uint32_t type, uint32_t rank,
                      const uint64_t *extents, const void *data, size_t count)
{
    test_put_padding(&gguf->data, gguf->alignment);
    test_gguf_string(&gguf->tensors, name);
    test_put_u32(&gguf->tensors, rank);
    for (uint32_t i = 0; i < rank; i++)
        test_put_u64(&gguf->tensors, extents[i]);
    test_put_u32(&gguf->tensors, type);
    test_put_u64(&gguf->tensors, gguf->data.count);
    test_put(&gguf->data, data, count);
    gguf->tensors_count++;
}

test_bytes test_gguf_end(test_gguf *gguf)
{
    test_bytes file = {0};
    test_put_text(&file, "GGUF");
    test_put_u32(&file, gguf->version);
    test_put_u64(&file, gguf->tensors_count);
    test_put_u64(&file, gguf->metas_count);
    test_put(&file, gguf->metas.data, gguf->metas.count);
    test_put(&file, gguf->tensors.data, gguf->tensors.count);
    test_put_padding(&file, gguf->alignment);
    test_put(&file, gguf->data.data, gguf->data.count);
    test_bytes_free(&gguf->metas);
    test_bytes_free(&gguf->tensors);
    test_bytes_free(&gguf->data);
    return file;
}

test_bytes test_safetensors(const char *header, const void *data, size_t count)
{
    test_bytes file = {0};
    test_put_u64(&file, strlen(header));
    test_put_text(&file, header);
    test_put(&file, data, count);
    return file;
}

test_bytes test_npy(uint8_t major, const char *dictionary, const void *data, size_t count)
{
    test_bytes file = {0};
    test_put_text(&file, "\x93NUMPY");
    test_put_u8(&file, major);
    test_put_u8(&file, 0);
    if (major == 1)
        test_put_u16(&file, (uint16_t)strlen(dictionary));
    else
        test_put_u32(&file, (uint32_t)strlen(dictionary));
    test_put_text(&file, dictionary);
    test_put(&file, data, count);
    return file;
}

static int honest(nib_status status)
{
    return status == NIB_OK || status == NIB_CORRUPT || status == NIB_UNSUPPORTED ||
           status == NIB_INVALID;
}

/* Blocks of exactly the right size, so that AddressSanitizer sees one byte too many. */
static nib_status walk_copy(const unsigned char *data, size_t count)
{
    unsigned char *copy = malloc(count ? count : 1);
    demand(copy != NULL, "no memory");
    memcpy(copy, data, count);
    nib_status status = test_walk(copy, count);
    free(copy);
    return status;
}

void test_sweep_broken(const test_bytes *valid, int flips)
{
    test_random random = {test_seed(20240229)};
    demand(walk_copy(valid->data, valid->count) == NIB_OK, "the valid file does not open");
    for (size_t length = 0; length < valid->count; length++) {
        nib_status status = walk_copy(valid->data, length);
        demand(status != NIB_OK && honest(status), "a truncated file is not refused");
    }
    unsigned char *copy = malloc(valid->count);
    demand(copy != NULL, "no memory");
    for (int i = 0; i < flips; i++) {
        memcpy(copy, valid->data, valid->count);
        for (int64_t n = 1 + test_random_below(&random, 4); n > 0; n--)
            copy[test_random_below(&random, (int64_t)valid->count)] =
                (unsigned char)test_random_next(&random);
        demand(honest(walk_copy(copy, valid->count)), "a changed file fails otherwise");
    }
    free(copy);
}

void test_expect_refusal(const test_bytes *bytes, nib_status status, const char *part)
{
    nib_status got = walk_copy(bytes->data, bytes->count);
    if (got == status && strstr(nib_last_message(), part))
        return;
    fprintf(stderr, "expected %s with '%s', got %s\n", nib_status_name(status), part,
            nib_status_name(got));
    demand(0, "the refusal differs");
}

void test_folder_make(char *path)
{
    const char *root = getenv("TMPDIR");
    snprintf(path, 64, "%s/nib-test-XXXXXX", root && strlen(root) < 40 ? root : "/tmp");
    demand(mkdtemp(path) != NULL, "no folder for temporary files");
}

/* Calls for each file; the answer is their number. */
static int each_file(const char *folder, int remove_them)
{
    int count = 0;
    char path[512];
    DIR *dir = opendir(folder);
    demand(dir != NULL, "the folder is gone");
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (remove_them)
            unlink(path);
    }
    closedir(dir);
    return count;
}

void test_folder_remove(const char *path)
{
    each_file(path, 1);
    rmdir(path);
}

int test_folder_count(const char *path)
{
    return each_file(path, 0);
}

test_bytes test_file_read(const char *path)
{
    test_bytes bytes = {0};
    unsigned char buffer[4096];
    FILE *file = fopen(path, "rb");
    demand(file != NULL, "a file is not there");
    for (size_t got; (got = fread(buffer, 1, sizeof(buffer), file)) > 0;)
        test_put(&bytes, buffer, got);
    fclose(file);
    return bytes;
}

void test_file_write(const char *path, const test_bytes *bytes)
{
    FILE *file = fopen(path, "wb");
    demand(file && fwrite(bytes->data, 1, bytes->count, file) == bytes->count, "cannot write");
    fclose(file);
}
