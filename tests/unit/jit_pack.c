/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs of kernel images: what is written is read, what is damaged is refused with its place, and
 * packs go before the cache, which goes before the compiler.
 */
#include "base/hash.h"
#include "jit/image.h"
#include "jit/pack_write.h"
#include "support/files.h"
#include "support/image.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const specs[] = {"#define NIB_TILE 16\n", "#define NIB_TILE 32\n",
                                    "#define NIB_TILE 64\n"};
enum { SPECS = 3 };

static test_cache cache;

static void begin(void)
{
    test_cache_begin(&cache);
}

static void end(void)
{
    test_cache_end(&cache);
}

TestSuite(kernel_pack, .init = begin, .fini = end);

Test(kernel_pack, what_is_written_is_read)
{
    char path[TEST_PATH_BYTES];
    nib_pack *pack;
    test_pack_write(&cache, "a.nibpack", specs, SPECS, path);
    cr_assert(!nib_pack_open(path, &pack), "%s", nib_last_message());
    cr_expect_str_eq(pack->backend, "fake");
    cr_expect_eq(pack->image_count, SPECS);
    cr_expect_eq(pack->text_count, 2, "images share their sources");
    for (int i = 0; i < SPECS; i++) {
        nib_image_request request = test_image_request(&cache, specs[i]);
        nib_key key;
        void *data;
        cr_assert(!nib_key_of(&request, &key));
        const nib_pack_image *image = nib_pack_find(pack, &key);
        cr_assert(image);
        cr_expect_str_eq(image->isa, request.isa);
        cr_expect_str_eq(image->format, request.format);
        cr_expect_str_eq(image->label, request.label);
        cr_expect_str_eq(image->flags, request.flags);
        cr_expect_str_eq(image->compiler, "fake 0.9");
        cr_expect_eq(image->date, 1700000000);
        cr_assert(!nib_pack_read(pack, &image->spec, "spec", &data));
        cr_expect_str_eq(data, specs[i]);
        free(data);
        cr_expect_eq(image->file_count, 2);
        const nib_pack_text *text = &pack->texts[pack->files[image->first_file]];
        cr_expect_str_eq(text->name, request.files[0].name);
        cr_assert(!nib_pack_read(pack, &text->section, "source", &data));
        cr_expect_str_eq(data, request.files[0].text);
        free(data);
    }
    nib_pack_close(pack);
}

/* Packs are looked for once a process: the cache is filled by another, which sees none. */
static int origin_without_packs(const char *spec)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        setenv("NIB_PACK_PATH", "/nowhere", 1);
        _exit(test_image_origin(&cache, spec));
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(kernel_pack, goes_before_the_cache_and_the_cache_before_the_compiler)
{
    test_pack_write(&cache, "a.nibpack", specs, 2, NULL);
    cr_expect_eq(origin_without_packs(specs[0]), NIB_IMAGE_COMPILED);
    cr_expect_eq(origin_without_packs(specs[0]), NIB_IMAGE_CACHE);
    cr_expect_eq(origin_without_packs(specs[2]), NIB_IMAGE_COMPILED);
    cr_expect_eq(test_image_origin(&cache, specs[0]), NIB_IMAGE_PACK);
    cr_expect_eq(test_image_origin(&cache, specs[1]), NIB_IMAGE_PACK);
    cr_expect_eq(test_image_origin(&cache, specs[2]), NIB_IMAGE_CACHE);
    cr_expect_eq(test_cache_compiled(&cache), 2);
}

Test(kernel_pack, serves_without_a_compiler)
{
    char path[TEST_PATH_BYTES];
    test_pack_write(&cache, "a.nibpack", specs, SPECS, path);
    for (int i = 0; i < SPECS; i++) {
        nib_image_request request = test_image_request(&cache, specs[i]);
        nib_image image;
        nib_image_origin origin;
        request.compile = NULL;
        cr_assert(!nib_image_get(&request, &image), "%s", nib_last_message());
        cr_expect_eq(image.origin, NIB_IMAGE_PACK);
        cr_expect_str_eq(image.path, path);
        cr_expect(test_image_is(&image, specs[i]));
        nib_image_put(&image);
        cr_assert(!nib_image_find(&request, &origin));
        cr_expect_eq(origin, NIB_IMAGE_PACK);
    }
    cr_expect_eq(test_cache_compiled(&cache), 0);
}

Test(kernel_pack, of_a_folder_are_searched_in_the_order_of_names_and_damaged_ones_skipped)
{
    char first[TEST_PATH_BYTES], second[TEST_PATH_BYTES];
    nib_image image;
    nib_image_request request = test_image_request(&cache, specs[1]);
    test_pack_write(&cache, "a.nibpack", specs, SPECS, first);
    test_pack_write(&cache, "b.nibpack", specs, SPECS, second);
    test_pack_write(&cache, "0.other", specs, SPECS, NULL);
    cr_assert(!truncate(first, 500));
    cr_assert(!nib_image_get(&request, &image));
    cr_expect_eq(image.origin, NIB_IMAGE_PACK);
    cr_expect_str_eq(image.path, second);
    nib_image_put(&image);
}

Test(kernel_pack, path_may_name_files_and_missing_folders)
{
    char path[TEST_PATH_BYTES], names[3 * TEST_PATH_BYTES];
    test_pack_write(&cache, "elsewhere.bin", specs, 1, path);
    snprintf(names, sizeof(names), "/nowhere::%s:", path);
    setenv("NIB_PACK_PATH", names, 1);
    cr_expect_eq(test_image_origin(&cache, specs[0]), NIB_IMAGE_PACK);
    cr_expect_eq(test_image_origin(&cache, specs[1]), NIB_IMAGE_COMPILED);
}

/* An image that does not unpack is no image: the cache or the compiler has it. */
Test(kernel_pack, a_damaged_image_is_passed_over)
{
    char path[TEST_PATH_BYTES];
    nib_pack *pack;
    nib_image_request request = test_image_request(&cache, specs[2]);
    nib_key key;
    test_pack_write(&cache, "a.nibpack", specs, SPECS, path);
    cr_assert(!nib_key_of(&request, &key) && !nib_pack_open(path, &pack));
    uint64_t at = nib_pack_find(pack, &key)->image.offset + 6;
    nib_pack_close(pack);
    test_bytes bytes = test_file_read(path);
    bytes.data[at] ^= 0x10;
    test_file_write(path, &bytes);
    test_bytes_free(&bytes);
    cr_expect_eq(test_image_origin(&cache, specs[2]), NIB_IMAGE_COMPILED);
    cr_expect_eq(test_image_origin(&cache, specs[2]), NIB_IMAGE_CACHE);
    cr_expect_eq(test_image_origin(&cache, specs[0]), NIB_IMAGE_PACK);
}

static void read_everything(const nib_pack *pack)
{
    for (uint32_t i = 0; i < pack->image_count; i++) {
        const nib_pack_section *sections[] = {&pack->images[i].spec, &pack->images[i].log,
                                              &pack->images[i].image};
        for (int s = 0; s < 3; s++) {
            void *data;
            if (!nib_pack_read(pack, sections[s], "section", &data))
                free(data);
        }
    }
}

static void seal(test_bytes *bytes)
{
    uint64_t at, hash;
    memcpy(&at, bytes->data + NIB_PACK_AT_INDEX, sizeof(at));
    if (at <= bytes->count) {
        hash = nib_hash(bytes->data + at, bytes->count - (size_t)at);
        memcpy(bytes->data + NIB_PACK_AT_INDEX_HASH, &hash, sizeof(hash));
    }
    hash = nib_hash(bytes->data, NIB_PACK_AT_HEADER_HASH);
    memcpy(bytes->data + NIB_PACK_AT_HEADER_HASH, &hash, sizeof(hash));
}

Test(kernel_pack, every_cut_and_every_changed_byte_is_refused_or_harmless)
{
    char path[TEST_PATH_BYTES];
    test_random random = {test_seed(11)};
    nib_pack *pack;
    test_pack_write(&cache, "a.nibpack", specs, SPECS, path);
    test_bytes bytes = test_file_read(path);
    uint64_t index;
    memcpy(&index, bytes.data + NIB_PACK_AT_INDEX, sizeof(index));
    for (size_t count = 0; count < bytes.count; count++)
        cr_assert(nib_pack_open_memory("cut", bytes.data, count, &pack), "%zu bytes", count);
    for (size_t at = 0; at < bytes.count; at++) {
        bytes.data[at] ^= 1;
        nib_status status = nib_pack_open_memory("changed", bytes.data, bytes.count, &pack);
        bool open = at >= NIB_PACK_HEADER_BYTES && at < index; /* sections are read later */
        cr_assert_eq(status == NIB_OK, open, "byte %zu: %s", at, nib_last_message());
        if (!status) {
            read_everything(pack);
            nib_pack_close(pack);
        }
        bytes.data[at] ^= 1;
    }
    /* With hashes made right the fields themselves must hold. */
    for (int i = 0; i < 3000; i++) {
        size_t at = i % 3 ? (size_t)index +
                                (size_t)test_random_below(&random, (int64_t)(bytes.count - index))
                          : (size_t)test_random_below(&random, (int64_t)bytes.count);
        unsigned char old[NIB_PACK_HEADER_BYTES], byte = bytes.data[at];
        memcpy(old, bytes.data, sizeof(old));
        bytes.data[at] ^= (unsigned char)(1 + test_random_below(&random, 255));
        seal(&bytes);
        if (!nib_pack_open_memory("sealed", bytes.data, bytes.count, &pack)) {
            read_everything(pack);
            nib_pack_close(pack);
        } else {
            cr_assert(nib_last_message()[0]);
        }
        bytes.data[at] = byte;
        memcpy(bytes.data, old, sizeof(old));
        if (at < sizeof(old))
            bytes.data[at] = byte;
    }
    test_bytes_free(&bytes);
}

Test(kernel_pack, refusals_name_field_and_offset)
{
    char path[TEST_PATH_BYTES];
    nib_pack *pack;
    test_pack_write(&cache, "a.nibpack", specs, SPECS, path);
    test_bytes bytes = test_file_read(path);
    uint64_t index;
    memcpy(&index, bytes.data + NIB_PACK_AT_INDEX, sizeof(index));
    bytes.data[index + 3] = 0x7f; /* the number of source files */
    seal(&bytes);
    cr_expect_eq(nib_pack_open_memory("p", bytes.data, bytes.count, &pack), NIB_CORRUPT);
    char expected[128];
    snprintf(expected, sizeof(expected), "p: number of source files at byte %d is more than",
             (int)index);
    cr_expect(strstr(nib_last_message(), expected), "%s", nib_last_message());
    bytes.data[NIB_PACK_AT_VERSION] = 9;
    seal(&bytes);
    cr_expect_eq(nib_pack_open_memory("p", bytes.data, bytes.count, &pack), NIB_UNSUPPORTED);
    test_bytes_free(&bytes);
}

Test(kernel_pack, writing_refuses_a_second_image_of_a_key_and_leaves_no_file)
{
    char path[TEST_PATH_BYTES];
    nib_pack_writer *writer;
    nib_image_request request = test_image_request(&cache, specs[0]);
    nib_blob_parts parts = {.data = calloc(1, 16), .bytes = 4};
    nib_blob *blob;
    nib_key key;
    snprintf(path, sizeof(path), "%s/packs/w.nibpack", cache.folder);
    cr_assert(!nib_blob_create(&parts, &blob) && !nib_key_of(&request, &key));
    cr_assert(!nib_pack_writer_create(path, "fake", &writer));
    cr_expect(!nib_pack_writer_add(writer, &request, &key, blob));
    cr_expect_eq(nib_pack_writer_add(writer, &request, &key, blob), NIB_INVALID);
    request.backend = "other";
    cr_expect_eq(nib_pack_writer_add(writer, &request, &key, blob), NIB_INVALID);
    nib_pack_writer_discard(writer);
    nib_blob_drop(blob);
    snprintf(path, sizeof(path), "%s/packs", cache.folder);
    cr_expect_eq(test_folder_count(path), 0);
}
