/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF: every kind of metadata, block formats against their formulas, weights pointing into the
 * file, and refusals that name field and byte.
 */
#include "config/dtype.h"
#include "formats/file.h"
#include "layout/layout.h"
#include "support/files.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <math.h>

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q6_K = 14, BF16 = 30 };
enum { U32 = 4, STRING = 8, ARRAY = 9, U64 = 10 };

/* `blocks` blocks of random bytes whose f16 scales are finite. */
static test_bytes random_blocks(uint64_t seed, size_t block_bytes, int halves, int blocks)
{
    test_random random = {seed};
    test_bytes bytes = {0};
    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < block_bytes; i++) {
            uint8_t byte = (uint8_t)test_random_next(&random);
            /* The high byte of a half: no exponent of all ones. */
            test_put_u8(&bytes, i % 2 && i < 2 * (size_t)halves ? byte & 0xbb : byte);
        }
    return bytes;
}

static test_bytes one_tensor(uint32_t type, uint64_t k, uint64_t n, const test_bytes *data)
{
    test_gguf gguf = test_gguf_begin();
    test_gguf_tensor(&gguf, "w", type, 2, (uint64_t[]){k, n}, data->data, data->count);
    return test_gguf_end(&gguf);
}

static test_bytes small_file(void)
{
    test_gguf gguf = test_gguf_begin();
    float f32[6] = {1, 2, 3, 4, 5, 6};
    test_bytes q = random_blocks(1, 20, 2, 4);
    test_gguf_key(&gguf, "general.alignment", U32);
    test_put_u32(&gguf.metas, 64);
    gguf.alignment = 64;
    test_gguf_key(&gguf, "u8", 0);
    test_put_u8(&gguf.metas, 200);
    test_gguf_key(&gguf, "i8", 1);
    test_put_u8(&gguf.metas, 200);
    test_gguf_key(&gguf, "u16", 2);
    test_put_u16(&gguf.metas, 60000);
    test_gguf_key(&gguf, "i16", 3);
    test_put_u16(&gguf.metas, 60000);
    test_gguf_key(&gguf, "u32", U32);
    test_put_u32(&gguf.metas, 4000000000u);
    test_gguf_key(&gguf, "i32", 5);
    test_put_u32(&gguf.metas, 4000000000u);
    test_gguf_key(&gguf, "f32", 6);
    test_put_f32(&gguf.metas, 0.25f);
    test_gguf_key(&gguf, "bool", 7);
    test_put_u8(&gguf.metas, 1);
    test_gguf_key(&gguf, "string", STRING);
    test_gguf_string(&gguf.metas, "two words");
    test_gguf_key(&gguf, "u64", U64);
    test_put_u64(&gguf.metas, INT64_MAX);
    test_gguf_key(&gguf, "i64", 11);
    test_put_u64(&gguf.metas, (uint64_t)-5);
    test_gguf_key(&gguf, "f64", 12);
    test_put(&gguf.metas, &(double){1.5e300}, 8);
    test_gguf_key(&gguf, "words", ARRAY);
    test_put_u32(&gguf.metas, STRING);
    test_put_u64(&gguf.metas, 3);
    test_gguf_string(&gguf.metas, "a");
    test_gguf_string(&gguf.metas, "");
    test_gguf_string(&gguf.metas, "bcd");
    test_gguf_key(&gguf, "numbers", ARRAY);
    test_put_u32(&gguf.metas, 3);
    test_put_u64(&gguf.metas, 2);
    test_put_u16(&gguf.metas, 7);
    test_put_u16(&gguf.metas, (uint16_t)-7);
    test_gguf_tensor(&gguf, "norm", F32, 1, (uint64_t[]){6}, f32, sizeof(f32));
    test_gguf_tensor(&gguf, "w", Q4_1, 2, (uint64_t[]){64, 2}, q.data, q.count);
    test_bytes_free(&q);
    return test_gguf_end(&gguf);
}

static nib_meta meta_of(const nib_file *file, const char *key)
{
    nib_meta meta = {.size = sizeof(meta)};
    cr_assert_eq(nib_file_meta_find(file, key, &meta), NIB_OK, "%s", nib_last_message());
    return meta;
}

static void expect_int(const nib_file *file, const char *key, int64_t value)
{
    nib_meta meta = meta_of(file, key);
    cr_expect_eq(meta.kind, NIB_META_INT);
    cr_expect_eq(meta.integer, value, "%s is %lld", key, (long long)meta.integer);
}

Test(gguf, metadata_of_every_kind_reads_back)
{
    test_bytes bytes = small_file();
    nib_file *file;
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK, "%s",
                 nib_last_message());
    cr_expect_str_eq(nib_file_format(file), "gguf");
    cr_expect_eq(nib_file_meta_count(file), 15);
    expect_int(file, "u8", 200);
    expect_int(file, "i8", -56);
    expect_int(file, "u16", 60000);
    expect_int(file, "i16", -5536);
    expect_int(file, "u32", 4000000000);
    expect_int(file, "i32", -294967296);
    expect_int(file, "u64", INT64_MAX);
    expect_int(file, "i64", -5);
    cr_expect_eq(meta_of(file, "f32").real, 0.25);
    cr_expect_eq(meta_of(file, "f64").real, 1.5e300);
    cr_expect_eq(meta_of(file, "bool").kind, NIB_META_BOOL);
    cr_expect_eq(meta_of(file, "bool").integer, 1);
    nib_meta text = meta_of(file, "string");
    cr_expect_eq(text.count, 9);
    cr_expect_eq(memcmp(text.text, "two words", 9), 0);

    nib_meta words = meta_of(file, "words"), item = {.size = sizeof(item)};
    cr_assert_eq(words.kind, NIB_META_ARRAY);
    cr_assert_eq(words.count, 3);
    cr_assert_eq(nib_file_meta_item(file, &words, 2, &item), NIB_OK);
    cr_expect_eq(item.count, 3);
    cr_expect_eq(memcmp(item.text, "bcd", 3), 0);
    cr_assert_eq(nib_file_meta_item(file, &words, 1, &item), NIB_OK);
    cr_expect_eq(item.count, 0);
    cr_expect_eq(nib_file_meta_item(file, &words, 3, &item), NIB_INVALID);
    nib_meta numbers = meta_of(file, "numbers");
    cr_assert_eq(nib_file_meta_item(file, &numbers, 1, &item), NIB_OK);
    cr_expect_eq(item.integer, -7);

    cr_expect_eq(nib_file_meta_find(file, "none", &item), NIB_MISSING);
    cr_expect_eq(nib_file_meta(file, 15, NULL, &item), NIB_MISSING);
    nib_file_close(file);
    test_bytes_free(&bytes);
}

Test(gguf, tensors_are_listed_outermost_extent_first)
{
    test_bytes bytes = small_file();
    nib_file *file;
    nib_tensor tensor = {.size = sizeof(tensor)};
    int64_t index;
    float row[2];
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK);
    cr_assert_eq(nib_file_tensor_count(file), 2);
    cr_assert_eq(nib_file_find(file, "w", &index), NIB_OK);
    cr_assert_eq(nib_file_tensor(file, index, &tensor), NIB_OK);
    cr_expect_eq(tensor.shape[0], 2);
    cr_expect_eq(tensor.shape[1], 64);
    cr_expect_str_eq(tensor.type_name, "Q4_1");
    cr_expect(tensor.quantized);
    cr_expect_eq(tensor.offset % 64, 0);
    cr_expect_eq((const unsigned char *)tensor.data - bytes.data, (ptrdiff_t)tensor.offset);
    cr_expect_eq(nib_file_find(file, "v", &index), NIB_MISSING);
    cr_expect_eq(nib_file_tensor(file, 2, &tensor), NIB_INVALID);
    cr_expect_eq(nib_file_read_f32(file, 0, 0, 2, row), NIB_INVALID, "one row only");
    cr_expect_eq(nib_file_read_f32(file, 0, 1, 0, row), NIB_INVALID);
    nib_file_close(file);
    test_bytes_free(&bytes);
}

static double half(const unsigned char *at)
{
    return nib_dtype_load(NIB_F16, at, 0);
}

/* Element k of a row of blocks, straight from the formulas of docs/formats.md. */
static float element(uint32_t type, const unsigned char *row, int64_t k)
{
    int64_t b = k / 32, j = k % 32;
    if (type == Q4_0) {
        const unsigned char *block = row + 18 * b;
        int q = block[2 + j % 16] >> (j < 16 ? 0 : 4) & 15;
        return (float)((q - 8) * half(block));
    }
    if (type == Q4_1) {
        const unsigned char *block = row + 20 * b;
        int q = block[4 + j % 16] >> (j < 16 ? 0 : 4) & 15;
        return (float)(q * half(block) + half(block + 2));
    }
    if (type == Q5_0) {
        const unsigned char *block = row + 22 * b;
        int q = (block[6 + j % 16] >> (j < 16 ? 0 : 4) & 15) | (block[2 + j / 8] >> j % 8 & 1) << 4;
        return (float)((q - 16) * half(block));
    }
    if (type == Q5_1) {
        const unsigned char *block = row + 24 * b;
        int q = (block[8 + j % 16] >> (j < 16 ? 0 : 4) & 15) | (block[4 + j / 8] >> j % 8 & 1) << 4;
        return (float)(q * half(block) + half(block + 2));
    }
    const unsigned char *block = row + 34 * b;
    return (float)((signed char)block[2 + j] * half(block));
}

static void expect_formula(uint32_t type, size_t block_bytes, int halves)
{
    enum { N = 5, K = 96 };
    test_bytes data = random_blocks(type + 7, block_bytes, halves, N * K / 32);
    test_bytes bytes = one_tensor(type, K, N, &data);
    nib_file *file;
    float out[3 * K];
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK, "%s",
                 nib_last_message());
    cr_assert_eq(nib_file_read_f32(file, 0, 1, 4, out), NIB_OK);
    for (int64_t i = 0; i < 3 * K; i++) {
        float expected =
            element(type, data.data + (1 + i / K) * (K / 32) * (int64_t)block_bytes, i % K);
        cr_assert_eq(out[i], expected, "type %u element %lld: %g, expected %g", type, (long long)i,
                     out[i], expected);
    }
    nib_file_close(file);
    test_bytes_free(&bytes);
    test_bytes_free(&data);
}

Test(gguf, blocks_decode_as_their_formulas_say)
{
    expect_formula(Q4_0, 18, 1);
    expect_formula(Q4_1, 20, 2);
    expect_formula(Q5_0, 22, 1);
    expect_formula(Q5_1, 24, 2);
    expect_formula(Q8_0, 34, 1);
}

Test(gguf, mxfp4_blocks_decode_as_their_formula_says)
{
    enum { K = 64 };
    test_bytes data = random_blocks(39, 17, 0, K / 32);
    data.data[0] = 126;
    data.data[17] = 130;
    test_bytes bytes = one_tensor(39, K, 1, &data);
    nib_file *file;
    float out[K];
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK);
    cr_assert_eq(nib_file_read_f32(file, 0, 0, 1, out), NIB_OK);
    for (int k = 0; k < K; k++) {
        const unsigned char *block = data.data + k / 32 * 17;
        uint32_t code = block[1 + k % 16] >> (k % 32 < 16 ? 0 : 4) & 15;
        cr_expect_eq(out[k], nib_type_decode(NIB_E2M1, code) * (k < 32 ? 0.5f : 8.0f));
    }
    nib_file_close(file);
    test_bytes_free(&bytes);
    test_bytes_free(&data);
}

Test(gguf, every_half_decodes_exactly)
{
    test_bytes data = {0};
    for (uint32_t h = 0; h < 65536; h++)
        test_put_u16(&data, (uint16_t)h);
    for (int t = 0; t < 2; t++) {
        test_bytes bytes = one_tensor(t ? BF16 : F16, 65536, 1, &data);
        nib_file *file;
        static float out[65536];
        cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK);
        cr_assert_eq(nib_file_read_f32(file, 0, 0, 1, out), NIB_OK);
        for (uint32_t h = 0; h < 65536; h++) {
            float expected = (float)nib_dtype_decode(t ? NIB_BF16 : NIB_F16, h);
            if (isnan(expected))
                cr_assert(isnan(out[h]), "0x%04x", h);
            else
                cr_assert(out[h] == expected && !signbit(out[h]) == !signbit(expected),
                          "0x%04x is %g, expected %g", h, out[h], expected);
        }
        nib_file_close(file);
        test_bytes_free(&bytes);
    }
    test_bytes_free(&data);
}

/* Weights read through their layouts must equal what read_f32 says. */
static void expect_source(uint32_t type, size_t block_bytes, int halves)
{
    enum { N = 3, K = 64 };
    test_bytes data = random_blocks(type, block_bytes, halves, N * K / 32);
    test_bytes bytes = one_tensor(type, K, N, &data);
    nib_file *file;
    nib_weight_desc d = {.size = sizeof(d)};
    nib_weight_source s = {.size = sizeof(s)};
    nib_layout codes, scales, zeros;
    nib_matrix c, g, z;
    float out[N * K];
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK);
    cr_assert_eq(nib_file_source(file, 0, &d, &s), NIB_OK, "%s", nib_last_message());
    cr_assert_eq(nib_file_read_f32(file, 0, 0, N, out), NIB_OK);
    cr_expect_eq(d.n, N);
    cr_expect_eq(d.k, K);
    cr_expect_eq(d.group, 32);
    cr_assert((const unsigned char *)s.codes >= bytes.data &&
                  (const unsigned char *)s.codes < bytes.data + bytes.count,
              "nothing is copied");
    size_t need;
    cr_assert_eq(nib_layout_make(s.layout, nib_type_bits(d.type), &codes), NIB_OK);
    cr_assert_eq(nib_layout_total_bytes(&codes, N, K, &need), NIB_OK);
    cr_expect_eq(need, s.codes_bytes);
    cr_assert_eq(nib_layout_make(s.scale_layout, 16, &scales), NIB_OK);
    cr_assert_eq(nib_layout_total_bytes(&scales, N, K / 32, &need), NIB_OK);
    cr_expect_leq(need, s.scales_bytes);
    cr_assert_eq(nib_matrix_at(&codes, (void *)s.codes, N, K, &c), NIB_OK);
    cr_assert_eq(nib_matrix_at(&scales, (void *)s.scales, N, K / 32, &g), NIB_OK);
    if (d.zero) {
        cr_expect_eq(s.flags, NIB_SOURCE_NEGATE_ZEROS);
        cr_assert_eq(nib_layout_make(s.zero_layout, 16, &zeros), NIB_OK);
        cr_assert_eq(nib_layout_total_bytes(&zeros, N, K / 32, &need), NIB_OK);
        cr_expect_leq(need, s.zeros_bytes);
        cr_assert_eq(nib_matrix_at(&zeros, (void *)s.zeros, N, K / 32, &z), NIB_OK);
    }
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            double w = nib_dtype_decode(d.type, nib_matrix_get(&c, n, k)) *
                       nib_dtype_decode(NIB_F16, nib_matrix_get(&g, n, k / 32));
            if (d.zero)
                w += nib_dtype_decode(NIB_F16, nib_matrix_get(&z, n, k / 32));
            cr_assert_eq((float)w, out[n * K + k], "type %u [%lld, %lld]", type, (long long)n,
                         (long long)k);
        }
    nib_file_close(file);
    test_bytes_free(&bytes);
    test_bytes_free(&data);
}

Test(gguf, weights_point_into_the_blocks)
{
    expect_source(Q4_0, 18, 1);
    expect_source(Q4_1, 20, 2);
    expect_source(Q8_0, 34, 1);
}

Test(gguf, tensors_that_are_no_weights_say_so)
{
    test_bytes data = random_blocks(3, 210, 0, 1);
    test_bytes bytes = one_tensor(Q6_K, 256, 1, &data);
    nib_file *file;
    nib_weight_desc d = {.size = sizeof(d)};
    nib_weight_source s = {.size = sizeof(s)};
    float out[256];
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK);
    cr_expect_eq(nib_file_source(file, 0, &d, &s), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "Q6_K"), "%s", nib_last_message());
    cr_expect_eq(nib_file_read_f32(file, 0, 0, 1, out), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "Q6_K"), "%s", nib_last_message());
    nib_file_close(file);
    test_bytes_free(&bytes);
    test_bytes_free(&data);
}

Test(gguf, broken_files_are_refused_not_followed)
{
    test_bytes bytes = small_file();
    test_sweep_broken(&bytes, 4000);
    test_bytes_free(&bytes);
}

static void refuse_and_free(test_bytes bytes, nib_status status, const char *part)
{
    test_expect_refusal(&bytes, status, part);
    test_bytes_free(&bytes);
}

static test_bytes with_version(uint32_t version)
{
    test_gguf gguf = test_gguf_begin();
    gguf.version = version;
    return test_gguf_end(&gguf);
}

Test(gguf, versions_other_than_two_and_three_are_refused)
{
    refuse_and_free(with_version(1), NIB_UNSUPPORTED, "version at byte 4 is 1, expected 2 or 3");
    refuse_and_free(with_version(4), NIB_CORRUPT, "version at byte 4 is 4");
    refuse_and_free(with_version(3u << 24), NIB_UNSUPPORTED, "big endian");
    test_bytes two = with_version(2);
    nib_file *file;
    cr_assert_eq(nib_file_open_memory(two.data, two.count, &file), NIB_OK);
    cr_expect_eq(nib_file_tensor_count(file), 0);
    nib_file_close(file);
    test_bytes_free(&two);
}

Test(gguf, counts_beyond_the_file_are_refused_before_memory_is_taken)
{
    test_gguf gguf = test_gguf_begin();
    gguf.tensors_count = UINT64_C(1) << 60;
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT,
                    "tensor count at byte 8 is 1152921504606846976");
    gguf = test_gguf_begin();
    gguf.metas_count = 1000;
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT, "metadata count at byte 16 is 1000");
    gguf = test_gguf_begin();
    test_gguf_key(&gguf, "a", ARRAY);
    test_put_u32(&gguf.metas, 12);
    test_put_u64(&gguf.metas, UINT64_C(1) << 61);
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT, "array length at byte 41");
    gguf = test_gguf_begin();
    test_put_u64(&gguf.metas, UINT64_MAX);
    test_put_text(&gguf.metas, "12345");
    gguf.metas_count = 1;
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT,
                    "metadata key at byte 32 takes 18446744073709551615");
}

Test(gguf, metadata_that_is_not_what_it_says_is_refused)
{
    test_gguf gguf = test_gguf_begin();
    test_gguf_key(&gguf, "a", 13);
    test_put_u64(&gguf.metas, 0);
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT, "metadata type of 'a' at byte 33 is 13");
    gguf = test_gguf_begin();
    test_gguf_key(&gguf, "a", U64);
    test_put_u64(&gguf.metas, UINT64_MAX);
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT, "value of 'a' at byte 37 is above 2^63 - 1");
    gguf = test_gguf_begin();
    test_gguf_key(&gguf, "a", 7);
    test_put_u8(&gguf.metas, 2);
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT,
                    "value of 'a' at byte 37 is 2, expected a bool");
    gguf = test_gguf_begin();
    test_gguf_key(&gguf, "a", ARRAY);
    test_put_u32(&gguf.metas, ARRAY);
    test_put_u64(&gguf.metas, 0);
    refuse_and_free(test_gguf_end(&gguf), NIB_UNSUPPORTED, "'a' at byte 37 is an array of arrays");
    gguf = test_gguf_begin();
    for (int i = 0; i < 2; i++) {
        test_gguf_key(&gguf, "a", U32);
        test_put_u32(&gguf.metas, 1);
    }
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT, "metadata key 'a' at byte 41 stands twice");
    gguf = test_gguf_begin();
    test_gguf_key(&gguf, "general.alignment", U32);
    test_put_u32(&gguf.metas, 48);
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT,
                    "general.alignment at byte 49 is 48, expected a power of two");
}

/* A file with one F32 tensor "t" [4] whose description the caller may spoil: byte 24 begins it,
 * byte 33 has the rank, 37 the extent, 45 the type, 49 the offset, 64 the data. */
static test_bytes spoilt(size_t at, uint64_t value, size_t width)
{
    test_gguf gguf = test_gguf_begin();
    test_gguf_tensor(&gguf, "t", F32, 1, (uint64_t[]){4}, "0123456789abcdef", 16);
    test_bytes bytes = test_gguf_end(&gguf);
    memcpy(bytes.data + at, &value, width);
    return bytes;
}

Test(gguf, tensors_outside_the_file_are_refused)
{
    refuse_and_free(spoilt(33, 9, 4), NIB_CORRUPT, "rank of tensor 't' at byte 33 is 9");
    refuse_and_free(spoilt(37, UINT64_MAX, 8), NIB_CORRUPT, "tensor extent at byte 37");
    refuse_and_free(spoilt(37, INT64_MAX, 8), NIB_CORRUPT, "do not fit in 63 bits");
    refuse_and_free(spoilt(37, 5, 8), NIB_CORRUPT, "takes 20 bytes at offset 0, past the end");
    refuse_and_free(spoilt(45, 99, 4), NIB_UNSUPPORTED, "type of tensor 't' at byte 45 is 99");
    refuse_and_free(spoilt(45, Q4_0, 4), NIB_CORRUPT, "no whole number of Q4_0 blocks of 32");
    refuse_and_free(spoilt(49, 4, 8), NIB_CORRUPT, "no multiple of the alignment 32");
    refuse_and_free(spoilt(49, 32, 8), NIB_CORRUPT, "at offset 32, past the end");
    refuse_and_free(spoilt(49, UINT64_MAX - 31, 8), NIB_CORRUPT, "past the end");
    refuse_and_free(spoilt(32, 0, 1), NIB_CORRUPT, "tensor name at byte 24 holds a NUL");
}

Test(gguf, tensors_that_overlap_or_share_a_name_are_refused)
{
    test_gguf gguf = test_gguf_begin();
    float data[16] = {0};
    test_gguf_tensor(&gguf, "a", F32, 1, (uint64_t[]){16}, data, sizeof(data));
    test_gguf_tensor(&gguf, "b", F32, 1, (uint64_t[]){16}, data, sizeof(data));
    memset(gguf.tensors.data + gguf.tensors.count - 8, 0, 8);
    gguf.tensors.data[gguf.tensors.count - 8] = 32;
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT,
                    "tensor 'b' (described at byte 57) overlaps tensor 'a' (byte 24)");
    gguf = test_gguf_begin();
    test_gguf_tensor(&gguf, "a", F32, 1, (uint64_t[]){16}, data, sizeof(data));
    test_gguf_tensor(&gguf, "a", F32, 1, (uint64_t[]){16}, data, sizeof(data));
    refuse_and_free(test_gguf_end(&gguf), NIB_CORRUPT, "tensor name 'a' at byte 57 stands twice");
}

Test(gguf, files_open_by_path_and_say_it)
{
    char folder[64], path[96];
    test_bytes bytes = small_file();
    nib_file *file = NULL;
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/a.gguf", folder);
    cr_expect_eq(nib_file_open(path, &file), NIB_MISSING);
    test_file_write(path, &bytes);
    cr_assert_eq(nib_file_open(path, &file), NIB_OK, "%s", nib_last_message());
    nib_file_close(file);
    bytes.count = 0;
    file = NULL;
    test_file_write(path, &bytes);
    cr_expect_eq(nib_file_open(path, &file), NIB_CORRUPT);
    cr_expect_null(file);
    cr_expect(strstr(nib_last_message(), path), "%s", nib_last_message());
    cr_expect_eq(nib_file_open(folder, &file), NIB_INVALID);
    cr_expect_eq(nib_file_open(NULL, &file), NIB_INVALID);
    nib_file_close(NULL);
    test_folder_remove(folder);
    test_bytes_free(&bytes);
}

/* Many small things: what docs/formats.md promises of memory. */
Test(gguf, memory_is_in_proportion_to_the_file)
{
    test_gguf gguf = test_gguf_begin();
    char name[16];
    nib_file *file;
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof(name), "%x", i);
        test_gguf_key(&gguf, name, 0);
        test_put_u8(&gguf.metas, 1);
        test_gguf_tensor(&gguf, name, F32, 1, (uint64_t[]){0}, NULL, 0);
    }
    test_bytes bytes = test_gguf_end(&gguf);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    cr_assert_eq(nib_file_open_memory(bytes.data, bytes.count, &file), NIB_OK);
    size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    cr_expect_leq(taken, 10 * bytes.count, "%zu bytes for a file of %zu", taken, bytes.count);
    nib_file_close(file);
    test_bytes_free(&bytes);
}
