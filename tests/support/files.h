/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files for tests: bytes in memory, built field by field, so that any field can be made
 * wrong; sweeps of broken versions of them; and folders to write in.
 */
#ifndef NIB_TEST_FILES_H
#define NIB_TEST_FILES_H

#include <nibblas/nibblas.h>

typedef struct test_bytes {
    unsigned char *data;
    size_t count, room;
} test_bytes;

void test_put(test_bytes *bytes, const void *data, size_t count);
void test_put_text(test_bytes *bytes, const char *text);
void test_put_u8(test_bytes *bytes, uint8_t value);
void test_put_u16(test_bytes *bytes, uint16_t value);
void test_put_u32(test_bytes *bytes, uint32_t value);
void test_put_u64(test_bytes *bytes, uint64_t value);
void test_put_f32(test_bytes *bytes, float value);
/* Zeros to the next multiple. */
void test_put_padding(test_bytes *bytes, size_t multiple);
void test_bytes_free(test_bytes *bytes);

/* GGUF in parts; the fields are the caller's to change before test_gguf_end. */
typedef struct test_gguf {
    uint32_t version;
    uint64_t metas_count, tensors_count;
    size_t alignment;
    test_bytes metas, tensors, data;
} test_gguf;

test_gguf test_gguf_begin(void);
void test_gguf_string(test_bytes *bytes, const char *text);
/* Key and type of a metadata value, which the caller puts to gguf->metas behind it. */
void test_gguf_key(test_gguf *gguf, const char *key, uint32_t type);
/* Describes a tensor at the next aligned offset and appends its data. Extents innermost first. */
void test_gguf_tensor(test_gguf *gguf, const char *name, uint32_t type, uint32_t rank,
                      const uint64_t *extents, const void *data, size_t count);
/* The whole file; frees the parts. */
test_bytes test_gguf_end(test_gguf *gguf);

test_bytes test_safetensors(const char *header, const void *data, size_t count);
/* Version `major`.0 with this dictionary. */
test_bytes test_npy(uint8_t major, const char *dictionary, const void *data, size_t count);

/* Every truncation of a valid file, and `flips` seeded changes of one to four bytes: each must be
 * opened and read, or refused as corrupt, unsupported or invalid. Truncations must be refused. */
void test_sweep_broken(const test_bytes *valid, int flips);

/* Opens the bytes, which must fail with this status and a message that contains `part`. */
void test_expect_refusal(const test_bytes *bytes, nib_status status, const char *part);

/* A new folder for files; removed with all in it. `path` has at least 64 bytes. */
void test_folder_make(char *path);
void test_folder_remove(const char *path);
int test_folder_count(const char *path);
/* A whole file in memory. */
test_bytes test_file_read(const char *path);
void test_file_write(const char *path, const test_bytes *bytes);

#endif
