/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel cache by itself: what is an image's identity, what an entry holds, and that nothing
 * that may happen to a cache folder is trusted or fatal.
 */
#include "jit/image.h"
#include "support/image.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPEC "#define NIB_TILE 64\n"

static test_cache cache;

static void begin(void)
{
    test_cache_begin(&cache);
}

static void end(void)
{
    test_cache_end(&cache);
}

TestSuite(kernel_cache, .init = begin, .fini = end);

/* The path of the only entry, or of a file in it. */
static const char *entry_path(const char *file)
{
    static char path[3 * TEST_PATH_BYTES];
    path[0] = 0;
    DIR *dir = opendir(cache.kernels);
    cr_assert(dir);
    for (struct dirent *item; (item = readdir(dir)) != NULL;)
        if (strlen(item->d_name) == 32)
            snprintf(path, sizeof(path), "%s/%s%s%s", cache.kernels, item->d_name,
                     file[0] ? "/" : "", file);
    closedir(dir);
    cr_assert(path[0], "there is no entry");
    return path;
}

/* Names in the cache folder, however they begin. */
static int names(void)
{
    int count = 0;
    DIR *dir = opendir(cache.kernels);
    for (struct dirent *item; dir && (item = readdir(dir)) != NULL;)
        count += item->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

Test(kernel_cache, an_image_is_compiled_once_and_then_found)
{
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE);
    cr_expect_eq(test_cache_compiled(&cache), 1);
    cr_expect_eq(names(), 1, "locks or temporaries are left");
}

Test(kernel_cache, an_entry_can_be_read_by_people)
{
    static const char *const parts[] = {
        "nib_spec.h", "source/kernel.cu", "source/common/part.h", "command", "log",
        "image.txt",  "manifest"};
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        cr_expect(!access(entry_path(parts[i]), R_OK), "%s", parts[i]);
}

Test(kernel_cache, whatever_an_image_depends_on_is_its_identity)
{
    nib_image_file other[] = {{"kernel.cu", "text"}, {"part.h", "text"}};
    nib_image_request base = test_image_request(&cache, SPEC);
    nib_image image;
    cr_assert(!nib_image_get(&base, &image));
    nib_image_put(&image);
    nib_image_request changed[7];
    for (int i = 0; i < 7; i++)
        changed[i] = base;
    changed[0].isa = "fake_2";
    changed[1].format = "bin";
    changed[2].flags = "-O3 -arch=fake_1";
    changed[3].backend = "other";
    changed[4].spec = "#define NIB_TILE 32\n";
    changed[5].files = other;
    changed[6].file_count = 1;
    for (int i = 0; i < 7; i++) {
        cr_assert(!nib_image_get(&changed[i], &image));
        cr_expect_eq(image.origin, NIB_IMAGE_COMPILED, "change %d", i);
        nib_image_put(&image);
    }
    base.label = "another name";
    cr_assert(!nib_image_get(&base, &image));
    cr_expect_eq(image.origin, NIB_IMAGE_CACHE, "the label is for people");
    nib_image_put(&image);
}

Test(kernel_cache, another_compiler_makes_it_anew)
{
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    struct timespec times[2] = {{1000, 0}, {1000, 0}};
    cr_assert(!utimensat(AT_FDCWD, cache.compiler, times, 0));
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED, "changed at another time");
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE);
    strcat(cache.compiler, "-2");
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED, "another path");
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE);
    cr_expect_eq(names(), 1);
    nib_image_request request = test_image_request(&cache, SPEC);
    nib_image image;
    request.compiler_path = NULL;
    request.compile = NULL;
    cr_assert(!nib_image_get(&request, &image), "without a compiler any will do");
    cr_expect_eq(image.origin, NIB_IMAGE_CACHE);
    nib_image_put(&image);
}

Test(kernel_cache, without_a_compiler_a_missing_image_is_missing)
{
    nib_image_request request = test_image_request(&cache, SPEC);
    nib_image image;
    nib_image_origin origin;
    cr_expect_eq(nib_image_find(&request, &origin), NIB_MISSING);
    request.compile = NULL;
    cr_expect_eq(nib_image_get(&request, &image), NIB_MISSING);
    cr_expect(strstr(nib_last_message(), "fake-m1 for fake_1"));
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    cr_expect_eq(nib_image_find(&request, &origin), NIB_OK);
    cr_expect_eq(origin, NIB_IMAGE_CACHE);
}

Test(kernel_cache, a_failed_compilation_is_passed_on_and_not_kept)
{
    nib_image_request request = test_image_request(&cache, SPEC);
    nib_image image;
    cache.answer = NIB_UNSUPPORTED;
    cr_expect_eq(nib_image_get(&request, &image), NIB_UNSUPPORTED);
    cr_expect_eq(names(), 0);
    cache.answer = NIB_OK;
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
}

Test(kernel_cache, requests_that_could_not_be_stored_are_refused)
{
    static const char *const bad[] = {"", "/etc/x", "../x", "a/../b", "a//b", "a/", ".x", "a\nb"};
    nib_image_request good = test_image_request(&cache, SPEC), request;
    nib_image image;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        nib_image_file files[] = {{"kernel.cu", "x"}, {bad[i], "y"}};
        request = good;
        request.files = files;
        cr_expect_eq(nib_image_get(&request, &image), NIB_INVALID, "file '%s'", bad[i]);
    }
    request = good;
    request.format = "../x";
    cr_expect_eq(nib_image_get(&request, &image), NIB_INVALID);
    request = good;
    request.label = "two\nlines";
    cr_expect_eq(nib_image_get(&request, &image), NIB_INVALID);
    request = good;
    request.file_count = 0;
    cr_expect_eq(nib_image_get(&request, &image), NIB_INVALID);
    cr_expect_eq(test_cache_compiled(&cache), 0);
}

Test(kernel_cache, leftovers_of_the_dead_go_and_those_of_the_living_stay)
{
    static const char dead[] = "00000000000000000000000000000001";
    static const char living[] = "00000000000000000000000000000002";
    char path[2 * TEST_PATH_BYTES], command[8 * TEST_PATH_BYTES];
    snprintf(command, sizeof(command),
             "cd %s && mkdir -p cache/kernels && cd cache/kernels && mkdir %s.tmp %s.tmp && "
             "touch %s.lock %s.tmp/nib_spec.h %s.lock",
             cache.folder, dead, living, dead, dead, living);
    cr_assert(!system(command));
    snprintf(path, sizeof(path), "%s/%s.lock", cache.kernels, living);
    int lock = open(path, O_RDWR);
    cr_assert(!flock(lock, LOCK_EX));
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    cr_expect_eq(names(), 3, "the entry, the living one's lock and its temporary");
    cr_expect(!access(path, F_OK));
    close(lock);
}

/* ---- damage ---- */

static const char *const entry_files[] = {
    "nib_spec.h", "source/kernel.cu", "source/common/part.h", "command", "log",
    "image.txt",  "manifest"};
#define ENTRY_FILES ((int)(sizeof(entry_files) / sizeof(entry_files[0])))

/* After damage the image is right, made anew once, and then found again. */
static void expect_rebuilt(const char *damage, const char *file)
{
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED, "%s %s", damage, file);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE, "%s %s", damage, file);
}

Test(kernel_cache, a_changed_byte_in_any_file_is_noticed)
{
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    for (int i = 0; i < ENTRY_FILES; i++) {
        struct stat info;
        cr_assert(!stat(entry_path(entry_files[i]), &info));
        off_t places[] = {0, info.st_size / 2, info.st_size - 1};
        for (int p = 0; p < 3; p++) {
            unsigned char byte;
            int fd = open(entry_path(entry_files[i]), O_RDWR);
            cr_assert(pread(fd, &byte, 1, places[p]) == 1);
            byte ^= 1;
            cr_assert(pwrite(fd, &byte, 1, places[p]) == 1);
            close(fd);
            expect_rebuilt("a changed byte in", entry_files[i]);
        }
    }
    cr_expect_eq(names(), 2, "one entry, and one moved aside");
}

Test(kernel_cache, cut_lengthened_emptied_and_missing_files_are_noticed)
{
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    for (int i = 0; i < ENTRY_FILES; i++) {
        struct stat info;
        cr_assert(!stat(entry_path(entry_files[i]), &info));
        cr_assert(!truncate(entry_path(entry_files[i]), info.st_size - 1));
        expect_rebuilt("a byte less in", entry_files[i]);
        cr_assert(!truncate(entry_path(entry_files[i]), info.st_size + 1));
        expect_rebuilt("a byte more in", entry_files[i]);
        cr_assert(!truncate(entry_path(entry_files[i]), 0));
        expect_rebuilt("nothing in", entry_files[i]);
        cr_assert(!unlink(entry_path(entry_files[i])));
        expect_rebuilt("no", entry_files[i]);
        cr_assert(!unlink(entry_path(entry_files[i])));
        cr_assert(!mkdir(entry_path(entry_files[i]), 0755));
        expect_rebuilt("a folder as", entry_files[i]);
        cr_assert(!unlink(entry_path(entry_files[i])));
        cr_assert(!mkfifo(entry_path(entry_files[i]), 0644));
        expect_rebuilt("a FIFO as", entry_files[i]);
    }
}

Test(kernel_cache, what_is_no_entry_in_its_place_is_moved_aside)
{
    char path[3 * TEST_PATH_BYTES], command[8 * TEST_PATH_BYTES];
    static const char *const damage[] = {
        "rm -rf %s && mkdir %s",
        "rm -rf %s && echo file > %s",
        "rm -rf %s && ln -s /nowhere %s",
        "rm -rf %s && mkfifo %s",
        "chmod 000 %s/manifest && [ ! -r %s/manifest ] || rm -rf %s/source",
    };
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    strcpy(path, entry_path(""));
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        snprintf(command, sizeof(command), damage[i], path, path, path);
        cr_assert(!system(command));
        expect_rebuilt(damage[i], "");
    }
}

Test(kernel_cache, entries_with_exchanged_images_or_names_are_noticed)
{
    char first[3 * TEST_PATH_BYTES], command[16 * TEST_PATH_BYTES];
    const char *other = "#define NIB_TILE 96\n";
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    strcpy(first, entry_path(""));
    snprintf(command, sizeof(command), "mv %s %s/kept", first, cache.folder);
    cr_assert(!system(command));
    cr_assert_eq(test_image_origin(&cache, other), NIB_IMAGE_COMPILED);
    /* The other's image, of the same size, in the first's folder. */
    snprintf(command, sizeof(command), "cp %s/kept/image.txt %s", cache.folder,
             entry_path("image.txt"));
    cr_assert(!system(command));
    cr_expect_eq(test_image_origin(&cache, other), NIB_IMAGE_COMPILED);
    /* The first's folder under the other's name. */
    snprintf(command, sizeof(command), "rm -rf %s && mv %s/kept %s", entry_path(""), cache.folder,
             entry_path(""));
    cr_assert(!system(command));
    cr_expect_eq(test_image_origin(&cache, other), NIB_IMAGE_COMPILED);
    cr_expect_eq(test_image_origin(&cache, other), NIB_IMAGE_CACHE);
}

/* ---- folders that do not serve ---- */

Test(kernel_cache, without_a_folder_images_are_compiled_each_time)
{
    unsetenv("NIB_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
}

Test(kernel_cache, the_folder_is_where_the_variables_say)
{
    char home[TEST_PATH_BYTES], path[2 * TEST_PATH_BYTES];
    snprintf(home, sizeof(home), "%s/home", cache.folder);
    unsetenv("NIB_CACHE_DIR");
    setenv("HOME", home, 1);
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    snprintf(path, sizeof(path), "%s/.cache/nibblas/kernels", home);
    cr_expect(!access(path, F_OK));
    snprintf(path, sizeof(path), "%s/xdg", cache.folder);
    setenv("XDG_CACHE_HOME", path, 1);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    strcat(path, "/nibblas/kernels");
    cr_expect(!access(path, F_OK));
}

Test(kernel_cache, a_folder_that_cannot_be_made_or_written_is_no_failure)
{
    char path[2 * TEST_PATH_BYTES];
    setenv("NIB_CACHE_DIR", "/proc/nothing", 1);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    snprintf(path, sizeof(path), "%s/under-a-file", cache.compiler);
    setenv("NIB_CACHE_DIR", path, 1);
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
}

Test(kernel_cache, a_read_only_folder_still_serves_what_it_holds)
{
    char path[TEST_PATH_BYTES];
    cr_assert_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED);
    /* Root writes anywhere: a folder in the lock's place stands for a folder without permission. */
    cr_assert(!chmod(cache.kernels, 0555));
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE);
    if (access(cache.kernels, W_OK)) {
        cr_expect_eq(test_image_origin(&cache, "#define OTHER 1\n"), NIB_IMAGE_COMPILED);
        cr_expect_eq(test_image_origin(&cache, "#define OTHER 1\n"), NIB_IMAGE_COMPILED);
    }
    cr_assert(!chmod(cache.kernels, 0755));
    snprintf(path, sizeof(path), "%s.lock", entry_path(""));
    cr_assert(!mkdir(path, 0755));
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE);
    cr_assert(!truncate(entry_path("log"), 0));
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED, "no lock, no cache");
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED, "no lock, no cache");
}

/* A limit on the size of files stands for a full disk: writing fails in the same place. */
Test(kernel_cache, a_full_disk_is_no_failure_and_leaves_nothing)
{
    struct rlimit before, none;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert(!getrlimit(RLIMIT_FSIZE, &before));
    for (rlim_t most = 2; most < 700; most += 61) {
        none = (struct rlimit){most, before.rlim_max};
        cr_assert(!setrlimit(RLIMIT_FSIZE, &none));
        cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_COMPILED, "%d bytes", (int)most);
        cr_assert(!setrlimit(RLIMIT_FSIZE, &before));
        if (names())
            break; /* all of it fits */
        cr_expect_eq(names(), 0, "%d bytes", (int)most);
    }
    cr_expect_eq(names(), 1, "the limits never reached what an entry takes");
    cr_expect_eq(test_image_origin(&cache, SPEC), NIB_IMAGE_CACHE);
}
