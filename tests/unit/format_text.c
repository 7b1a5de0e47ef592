/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors and npy: values, names, and refusals that name field and byte.
 */
#include "formats/file.h"
#include "support/files.h"

#include <criterion/criterion.h>

static void refuse_and_free(test_bytes bytes, nib_status status, const char *part)
{
    test_expect_refusal(&bytes, status, part);
    test_bytes_free(&bytes);
}

static nib_file *open_bytes(const test_bytes *bytes)
{
    nib_file *file = NULL;
    cr_assert_eq(nib_file_open_memory(bytes->data, bytes->count, &file), NIB_OK, "%s",
                 nib_last_message());
    return file;
}

static test_bytes small_safetensors(void)
{
    test_bytes data = {0};
    for (int i = 0; i < 6; i++)
        test_put_f32(&data, (float)i / 2);
    test_put_u16(&data, 0x3f80); /* bf16 1 */
    test_put_u16(&data, 0xc040); /* bf16 -3 */
    test_put_u64(&data, (uint64_t)-9);
    test_bytes file = test_safetensors(
        "{\"__metadata__\":{\"format\":\"pt\",\"quote\":\"a\\\"\\u00e9\\ud83d\\ude00\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\" : { \"shape\":[ 2 ], \"data_offsets\":[24,28], \"dtype\":\"BF16\" },"
        "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]},"
        "\"empty\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[36,36]}}   ",
        data.data, data.count);
    test_bytes_free(&data);
    return file;
}

Test(safetensors, tensors_and_metadata_read_back)
{
    test_bytes bytes = small_safetensors();
    nib_file *file = open_bytes(&bytes);
    nib_tensor tensor = {.size = sizeof(tensor)};
    nib_meta meta = {.size = sizeof(meta)};
    float out[6];
    cr_expect_str_eq(nib_file_format(file), "safetensors");
    cr_assert_eq(nib_file_tensor_count(file), 4);
    cr_assert_eq(nib_file_read_f32(file, 0, 1, 2, out), NIB_OK);
    cr_expect(out[0] == 1.5f && out[1] == 2 && out[2] == 2.5f);
    cr_assert_eq(nib_file_read_f32(file, 1, 0, 1, out), NIB_OK);
    cr_expect(out[0] == 1 && out[1] == -3);
    cr_assert_eq(nib_file_tensor(file, 1, &tensor), NIB_OK);
    cr_expect_str_eq(tensor.type_name, "BF16");
    cr_expect_eq(tensor.type, NIB_BF16);
    cr_expect_not(tensor.quantized);
    cr_assert_eq(nib_file_read_f32(file, 2, 0, 1, out), NIB_OK);
    cr_expect_eq(out[0], -9);
    cr_assert_eq(nib_file_tensor(file, 2, &tensor), NIB_OK);
    cr_expect_eq(tensor.rank, 0);
    cr_assert_eq(nib_file_read_f32(file, 3, 0, 0, out), NIB_OK);
    cr_assert_eq(nib_file_meta_find(file, "quote", &meta), NIB_OK);
    cr_expect_eq(meta.count, 8);
    cr_expect_eq(memcmp(meta.text, "a\"\xc3\xa9\xf0\x9f\x98\x80", 8), 0);
    nib_file_close(file);
    test_bytes_free(&bytes);
}

Test(safetensors, dense_tensors_are_no_weights)
{
    test_bytes bytes = small_safetensors();
    nib_file *file = open_bytes(&bytes);
    nib_weight_desc desc = {.size = sizeof(desc)};
    nib_weight_source source = {.size = sizeof(source)};
    cr_expect_eq(nib_file_source(file, 0, &desc, &source), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "tensor 'a' is F32"), "%s", nib_last_message());
    nib_file_close(file);
    test_bytes_free(&bytes);
}

Test(safetensors, broken_files_are_refused_not_followed)
{
    test_bytes bytes = small_safetensors();
    test_sweep_broken(&bytes, 4000);
    test_bytes_free(&bytes);
}

static void refuse_header(const char *header, size_t data_bytes, nib_status status,
                          const char *part)
{
    static const unsigned char data[64];
    refuse_and_free(test_safetensors(header, data, data_bytes), status, part);
}

#define TENSOR(dtype, shape, offsets) \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

Test(safetensors, headers_that_lie_are_refused)
{
    refuse_header(TENSOR("F32", "[4]", "[0,12]"), 12, NIB_CORRUPT,
                  "data_offsets of tensor 't' at byte 9 are 12 bytes apart, but its shape of F32 "
                  "takes 16");
    refuse_header(TENSOR("F32", "[4]", "[0,16]"), 12, NIB_CORRUPT,
                  "are 0 and 16, expected two rising ones in 0..12");
    refuse_header(TENSOR("F32", "[4]", "[16,0]"), 16, NIB_CORRUPT, "are 16 and 0, expected two");
    refuse_header(TENSOR("F32", "[4]", "[0,16]"), 20, NIB_CORRUPT,
                  "the tensors take 16 bytes, but the data from byte 63 to the end of the file "
                  "has 20");
    refuse_header(TENSOR("F9", "[4]", "[0,16]"), 16, NIB_UNSUPPORTED,
                  "dtype of tensor 't' at byte 22 is 'F9'");
    refuse_header(TENSOR("F32", "[4,-1]", "[0,16]"), 16, NIB_CORRUPT,
                  "extent at byte 39: expected a whole number, not '-'");
    refuse_header(TENSOR("F32", "[9223372036854775808]", "[0,16]"), 16, NIB_CORRUPT,
                  "extent at byte 37 is above 2^63 - 1");
    refuse_header(TENSOR("F32", "[4611686018427387904,4]", "[0,16]"), 16, NIB_CORRUPT,
                  "do not fit in 63 bits");
    refuse_header(TENSOR("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, NIB_UNSUPPORTED,
                  "shape of tensor 't' at byte 36 has more than 8 extents");
    refuse_header("{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, NIB_CORRUPT,
                  "tensor 't' at byte 9 lacks data_offsets");
    refuse_header("{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 4, NIB_CORRUPT,
                  "key 'dtype' of tensor 't' at byte 28 stands twice");
    refuse_header("{\"t\":{\"kind\":1}}", 4, NIB_CORRUPT, "is none of dtype, shape, data_offsets");
    refuse_header("{\"t\":[1]}", 4, NIB_CORRUPT, "tensor at byte 13: expected '{', not '['");
    refuse_header("{\"t", 0, NIB_CORRUPT, "tensor name at byte 11: expected a closing quote");
    refuse_header("{\"\\u0000\":{}}", 0, NIB_CORRUPT, "tensor name at byte 9 holds a NUL");
    refuse_header("{\"\\ud800x\":{}}", 0, NIB_CORRUPT, "holds a bad escape");
    refuse_header("{} x", 0, NIB_CORRUPT,
                  "header at byte 11: expected nothing but blanks, not 'x'");
    refuse_header("{\"__metadata__\":{\"a\":1}}", 0, NIB_CORRUPT,
                  "metadata value at byte 29: expected '\"', not '1'");
}

Test(safetensors, header_lengths_beyond_the_file_are_refused)
{
    test_bytes bytes = test_safetensors("{}", NULL, 0);
    bytes.data[0] = 3;
    test_expect_refusal(&bytes, NIB_CORRUPT, "header length at byte 0 is 3, expected at most 2");
    memset(bytes.data, 0xff, 8);
    test_expect_refusal(&bytes, NIB_CORRUPT, "header length at byte 0 is 18446744073709551615");
    test_bytes_free(&bytes);
}

Test(safetensors, tensors_that_overlap_are_refused)
{
    refuse_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
                  8, NIB_CORRUPT, "tensor 'b' (described at byte 61) overlaps tensor 'a' (byte 9)");
}

/* ---- npy ---- */

static test_bytes small_npy(uint8_t major)
{
    float data[6] = {0, 1, 2, 3, 4, -5};
    return test_npy(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n",
                    data, sizeof(data));
}

Test(npy, all_versions_read)
{
    for (uint8_t major = 1; major <= 3; major++) {
        test_bytes bytes = small_npy(major);
        nib_file *file = open_bytes(&bytes);
        nib_tensor tensor = {.size = sizeof(tensor)};
        float out[3];
        cr_expect_str_eq(nib_file_format(file), "npy");
        cr_assert_eq(nib_file_tensor_count(file), 1);
        cr_assert_eq(nib_file_tensor(file, 0, &tensor), NIB_OK);
        cr_expect_str_eq(tensor.name, "array");
        cr_expect_str_eq(tensor.type_name, "<f4");
        cr_expect(tensor.rank == 2 && tensor.shape[0] == 2 && tensor.shape[1] == 3);
        cr_assert_eq(nib_file_read_f32(file, 0, 1, 2, out), NIB_OK);
        cr_expect(out[0] == 3 && out[1] == 4 && out[2] == -5);
        nib_file_close(file);
        test_bytes_free(&bytes);
    }
}

static void expect_npy(const char *descr, const void *data, size_t count, float value)
{
    char header[96];
    float out;
    snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': True, 'shape': (1,)}\n",
             descr);
    test_bytes bytes = test_npy(1, header, data, count);
    nib_file *file = open_bytes(&bytes);
    cr_assert_eq(nib_file_read_f32(file, 0, 0, 1, &out), NIB_OK);
    cr_expect_eq(out, value, "%s is %g", descr, out);
    nib_file_close(file);
    test_bytes_free(&bytes);
}

Test(npy, element_types_read_as_f32)
{
    expect_npy("<f2", &(uint16_t){0xc500}, 2, -5);
    expect_npy("<f8", &(double){0.5}, 8, 0.5f);
    expect_npy("|i1", &(int8_t){-7}, 1, -7);
    expect_npy("|u1", &(uint8_t){250}, 1, 250);
    expect_npy("|b1", &(uint8_t){1}, 1, 1);
    expect_npy("<i2", &(int16_t){-300}, 2, -300);
    expect_npy("<u2", &(uint16_t){60000}, 2, 60000);
    expect_npy("<i4", &(int32_t){-70000}, 4, -70000);
    expect_npy("<u4", &(uint32_t){3000000000}, 4, 3e9f);
    expect_npy("<i8", &(int64_t){-1}, 8, -1);
    expect_npy("<u8", &(uint64_t){1}, 8, 1);
}

Test(npy, broken_files_are_refused_not_followed)
{
    test_bytes bytes = small_npy(1);
    test_sweep_broken(&bytes, 4000);
    test_bytes_free(&bytes);
}

static void refuse_npy(const char *header, nib_status status, const char *part)
{
    float data[6] = {0};
    refuse_and_free(test_npy(1, header, data, sizeof(data)), status, part);
}

Test(npy, headers_that_are_not_read_say_why)
{
    refuse_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", NIB_UNSUPPORTED,
               "fortran_order in the header at byte 10 is True: save the array in C order");
    refuse_npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", NIB_UNSUPPORTED,
               "descr at byte 20 is '>f4'");
    refuse_npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
               NIB_UNSUPPORTED, "descr at byte 20 is a structured type");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}", NIB_CORRUPT,
               "array at byte 67 takes 32 bytes, but only 24 are left");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", NIB_CORRUPT,
               "the array ends at byte 85, but the file has 89 bytes");
    refuse_npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (6,)}", NIB_CORRUPT,
               "fortran_order at byte 44: expected True or False, not '1'");
    refuse_npy("{'descr': '<f4', 'fortran_order': False}", NIB_CORRUPT, "lacks shape");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6 7)}", NIB_CORRUPT,
               "shape at byte 63: expected ',' or ')', not '7'");
    refuse_npy("{'descr': '<f4', 'color': 1}", NIB_CORRUPT, "key 'color' at byte");
    refuse_npy("{'descr': '<f4'", NIB_CORRUPT, "but the header ends here");
    refuse_npy("{'descr: 1}", NIB_CORRUPT, "has no closing quote");
}

Test(npy, unknown_versions_and_files_are_refused)
{
    test_bytes bytes = small_npy(1);
    bytes.data[6] = 4;
    test_expect_refusal(&bytes, NIB_UNSUPPORTED, "version at byte 6 is 4.0, expected 1.0 to 3.0");
    bytes.data[0] = 'x';
    test_expect_refusal(&bytes, NIB_CORRUPT, "byte 0 begins no format known here");
    test_bytes_free(&bytes);
}
