/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels through the public interface: lists that outlive what they list, and packs built by many
 * threads. The null backend compiles, by copying text.
 */
#include "support/files.h"

#include <criterion/criterion.h>
#include <nibblas/nibblas.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64], pack[128];
static nib_context *ctx;

static void begin(void)
{
    char path[128];
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/cache", folder);
    setenv("NIB_CACHE_DIR", path, 1);
    snprintf(path, sizeof(path), "%s/none", folder);
    setenv("NIB_PACK_PATH", path, 1);
    snprintf(pack, sizeof(pack), "%s/a.nibpack", folder);
    const nib_context_options options = {.size = sizeof(options),
                                         .backend_path = NIB_BINARY_DIR "/lib/test-backends"};
    cr_assert(!nib_context_create(&options, &ctx), "%s", nib_last_message());
}

static void end(void)
{
    nib_context_destroy(ctx);
    test_folder_remove(folder);
}

TestSuite(kernels, .init = begin, .fini = end);

static const char *const isas[] = {"null_1", "null_2"};
static const char *const types[] = {"i4", "u4", "u2", "i8", "nf4", "u3", "e2m1", "u8"};
enum { TYPES = 8 };

/* Eight weight types on two ISAs, two images each. */
static nib_pack_options options_of(nib_gemm_desc descs[TYPES])
{
    for (int i = 0; i < TYPES; i++) {
        char line[64];
        snprintf(line, sizeof(line), "n=64 k=64 w=%s g=32", types[i]);
        descs[i].size = sizeof(descs[i]);
        cr_assert(!nib_gemm_desc_parse(line, &descs[i]), "%s", nib_last_message());
    }
    return (nib_pack_options){.size = sizeof(nib_pack_options),
                              .threads = 8,
                              .backend = "null",
                              .isas = isas,
                              .isa_count = 2,
                              .descs = descs,
                              .desc_count = TYPES};
}

Test(kernels, isas_of_a_backend_that_compiles)
{
    const char *isa = NULL;
    cr_expect(!nib_kernels_isa(ctx, "null", 1, &isa));
    cr_expect_str_eq(isa, "null_2");
    cr_expect_eq(nib_kernels_isa(ctx, "null", 2, &isa), NIB_MISSING);
    cr_expect_eq(nib_kernels_isa(ctx, "cpu", 0, &isa), NIB_UNSUPPORTED);
    cr_expect_eq(nib_kernels_isa(ctx, "nothing", 0, &isa), NIB_MISSING);
}

typedef struct seen {
    atomic_int calls;
    int64_t total, stop_at;
} seen;

static nib_status count_calls(void *user, int64_t done, int64_t total, const char *label)
{
    seen *s = user;
    s->calls++;
    s->total = total;
    return done >= s->stop_at || !label[0] ? NIB_MISSING : NIB_OK;
}

Test(kernels, threads_build_a_pack_with_each_image_once)
{
    nib_gemm_desc descs[TYPES];
    nib_pack_options options = options_of(descs);
    nib_pack_report report = {.size = sizeof(report)};
    nib_kernels *list;
    seen s = {.stop_at = 1000};
    options.progress = count_calls;
    options.user = &s;
    cr_assert(!nib_pack_build(ctx, &options, pack, &report), "%s", nib_last_message());
    cr_expect_eq(report.images, 4 * TYPES);
    cr_expect_eq(report.compiled, 4 * TYPES);
    cr_expect_eq(report.refused, 0);
    cr_expect_eq(s.calls, 4 * TYPES);
    cr_expect_eq(s.total, 4 * TYPES);
    setenv("NIB_PACK_PATH", pack, 1);
    cr_assert(!nib_kernels_open("null", &list));
    cr_expect_eq(nib_kernels_count(list), 8 * TYPES, "all in the pack, and all in the cache");
    nib_kernels_close(list);
    cr_assert(!nib_kernels_open("cuda", &list));
    cr_expect_eq(nib_kernels_count(list), 0);
    nib_kernels_close(list);
}

Test(kernels, a_pack_that_is_given_up_leaves_what_was_there)
{
    nib_gemm_desc descs[TYPES];
    nib_pack_options options = options_of(descs);
    nib_pack_report report = {.size = sizeof(report), .images = 42};
    seen s = {.stop_at = 3};
    test_bytes old = {0};
    test_put_text(&old, "what was there");
    test_file_write(pack, &old);
    options.progress = count_calls;
    options.user = &s;
    cr_expect_eq(nib_pack_build(ctx, &options, pack, &report), NIB_MISSING);
    cr_expect_eq(report.images, 42, "results are untouched on failure");
    test_bytes now = test_file_read(pack);
    cr_expect(now.count == old.count && !memcmp(now.data, old.data, old.count));
    cr_expect_eq(test_folder_count(folder), 2, "the cache and the old file");
    test_bytes_free(&now);
    test_bytes_free(&old);
}

Test(kernels, a_list_stays_as_it_was_while_the_cache_is_cleared)
{
    nib_gemm_desc descs[TYPES];
    nib_pack_options options = options_of(descs);
    nib_kernels *list;
    nib_kernel kernel = {.size = sizeof(kernel)};
    const void *data;
    size_t bytes;
    const char *name;
    int64_t removed = -1;
    cr_assert(!nib_pack_build(ctx, &options, pack, NULL));
    cr_assert(!nib_kernels_open(NULL, &list));
    cr_assert(!nib_kernels_get(list, 0, &kernel));
    cr_expect_eq(kernel.origin, NIB_KERNEL_CACHE);
    cr_expect_eq(kernel.files, 2);
    cr_assert(!nib_kernels_part(list, 0, NIB_KERNEL_IMAGE, NULL, &data, &bytes));
    cr_expect_eq(bytes, kernel.bytes);
    cr_assert(
        !nib_kernels_part(list, 0, (nib_kernel_part)(NIB_KERNEL_FILE + 1), &name, &data, &bytes));
    cr_expect_str_eq(name, "common/nothing.cuh");
    cr_expect_eq(((const char *)data)[bytes], 0);
    cr_expect_eq(
        nib_kernels_part(list, 0, (nib_kernel_part)(NIB_KERNEL_FILE + 2), NULL, &data, &bytes),
        NIB_MISSING);
    cr_expect(!nib_kernels_clear(kernel.key, &removed));
    cr_expect_eq(removed, 1);
    cr_expect(!nib_kernels_clear(kernel.key, &removed));
    cr_expect_eq(removed, 0);
    cr_expect(!nib_kernels_clear(NULL, &removed));
    cr_expect_eq(removed, 4 * TYPES - 1);
    cr_expect(!nib_kernels_part(list, 0, NIB_KERNEL_SPEC, NULL, &data, &bytes), "read before");
    cr_expect_eq(nib_kernels_part(list, 1, NIB_KERNEL_SPEC, NULL, &data, &bytes), NIB_MISSING);
    cr_expect(!nib_kernels_get(list, 1, &kernel));
    cr_expect(kernel.label[0]);
    nib_kernels_close(list);
}

Test(kernels, mistakes_are_refused)
{
    nib_gemm_desc descs[TYPES];
    const nib_pack_options good = options_of(descs);
    static const char *const other[] = {"null_3"};
    nib_pack_options bad;
    nib_kernels *list;
    nib_kernel kernel = {.size = sizeof(kernel)};
    const void *data;
    size_t bytes;
    cr_expect_eq(nib_pack_build(NULL, &good, pack, NULL), NIB_INVALID);
    cr_expect_eq(nib_pack_build(ctx, NULL, pack, NULL), NIB_INVALID);
    cr_expect_eq(nib_pack_build(ctx, &good, NULL, NULL), NIB_INVALID);
    bad = good;
    bad.size = 4;
    cr_expect_eq(nib_pack_build(ctx, &bad, pack, NULL), NIB_INVALID);
    bad = good;
    bad.isas = other;
    bad.isa_count = 1;
    cr_expect_eq(nib_pack_build(ctx, &bad, pack, NULL), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "null_1, null_2"), "%s", nib_last_message());
    bad = good;
    bad.desc_count = 0;
    cr_expect_eq(nib_pack_build(ctx, &bad, pack, NULL), NIB_INVALID);
    bad = good;
    bad.threads = -1;
    cr_expect_eq(nib_pack_build(ctx, &bad, pack, NULL), NIB_INVALID);
    descs[3].weight.n = 0;
    cr_expect_eq(nib_pack_build(ctx, &good, pack, NULL), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "description 3"), "%s", nib_last_message());
    cr_expect_eq(nib_kernels_open(NULL, NULL), NIB_INVALID);
    cr_expect_eq(nib_kernels_count(NULL), 0);
    cr_assert(!nib_kernels_open(NULL, &list));
    cr_expect_eq(nib_kernels_get(list, 0, &kernel), NIB_INVALID);
    cr_expect_eq(nib_kernels_get(NULL, 0, &kernel), NIB_INVALID);
    cr_expect_eq(nib_kernels_part(list, 0, NIB_KERNEL_SPEC, NULL, &data, &bytes), NIB_INVALID);
    cr_expect_eq(nib_kernels_clear("abc", NULL), NIB_INVALID);
    cr_expect_eq(nib_kernels_isa(NULL, "null", 0, NULL), NIB_INVALID);
    cr_expect_eq(nib_kernels_isa(ctx, "null", 0, NULL), NIB_INVALID);
    nib_kernels_close(list);
    nib_kernels_close(NULL);
}
