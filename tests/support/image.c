/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache and the compiler of the tests: see image.h.
 */
#include "support/image.h"

#include "jit/image.h"
#include "jit/pack_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const nib_image_file files[] = {
    {"kernel.cu", "#include \"nib_spec.h\"\n#include \"common/part.h\"\n"},
    {"common/part.h", "/* a part */\n"},
};

void test_cache_begin(test_cache *cache)
{
    memset(cache, 0, sizeof(*cache));
    strcpy(cache->folder, "/tmp/nib-test-XXXXXX");
    if (!mkdtemp(cache->folder))
        abort();
    snprintf(cache->kernels, TEST_PATH_BYTES, "%s/cache/kernels", cache->folder);
    snprintf(cache->counter, TEST_PATH_BYTES, "%s/compiled", cache->folder);
    snprintf(cache->compiler, TEST_PATH_BYTES, "%s/compiler", cache->folder);
    char path[TEST_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/cache", cache->folder);
    setenv("NIB_CACHE_DIR", path, 1);
    snprintf(path, sizeof(path), "%s/packs", cache->folder);
    setenv("NIB_PACK_PATH", path, 1);
    mkdir(path, 0755);
    FILE *file = fopen(cache->compiler, "w");
    if (!file || fputs("a compiler\n", file) < 0 || fclose(file))
        abort();
}

void test_cache_end(test_cache *cache)
{
    char command[256];
    snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", cache->folder,
             cache->folder);
    if (system(command))
        abort();
}

int test_cache_compiled(const test_cache *cache)
{
    struct stat info;
    return stat(cache->counter, &info) ? 0 : (int)info.st_size;
}

/* The text that stands for an image. */
static char *translate(const char *spec)
{
    size_t bytes = strlen(spec) + strlen(files[0].text) + strlen(files[1].text) + 16;
    char *text = malloc(bytes);
    if (text)
        snprintf(text, bytes, "image\n%s%s%s", spec, files[0].text, files[1].text);
    return text;
}

static nib_status compile(void *user, const nib_image_request *request, nib_image_build *out)
{
    const test_cache *cache = user;
    struct timespec rest = {cache->sleep_ms / 1000, cache->sleep_ms % 1000 * 1000000L};
    int fd = open(cache->counter, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, "x", 1) != 1)
        abort();
    close(fd);
    nanosleep(&rest, NULL);
    out->log = strdup("no warnings\n");
    strcpy(out->compiler, "fake 1.0");
    if (cache->answer)
        return cache->answer;
    out->image = translate(request->spec);
    out->bytes = strlen(out->image);
    return NIB_OK;
}

nib_image_request test_image_request(test_cache *cache, const char *spec)
{
    return (nib_image_request){
        .size = sizeof(nib_image_request),
        .file_count = 2,
        .backend = "fake",
        .isa = "fake_1",
        .format = "txt",
        .label = "fake-m1",
        .spec = spec,
        .files = files,
        .flags = "-O2 -arch=fake_1",
        .compiler_path = cache->compiler,
        .compile = compile,
        .user = cache,
    };
}

bool test_image_is(const nib_image *image, const char *spec)
{
    char *want = translate(spec);
    bool same = image->size == sizeof(*image) && image->bytes == strlen(want) &&
                !memcmp(image->data, want, image->bytes + 1) && (uintptr_t)image->data % 16 == 0;
    free(want);
    return same;
}

int test_image_origin(test_cache *cache, const char *spec)
{
    nib_image_request request = test_image_request(cache, spec);
    nib_image image;
    if (nib_image_get(&request, &image))
        return 0;
    int origin = test_image_is(&image, spec) ? (int)image.origin : 0;
    nib_image_put(&image);
    return origin;
}

void test_pack_write(test_cache *cache, const char *name, const char *const *specs, int count,
                     char path[TEST_PATH_BYTES])
{
    char place[TEST_PATH_BYTES];
    nib_pack_writer *writer;
    snprintf(place, sizeof(place), "%s/packs/%s", cache->folder, name);
    nib_status status = nib_pack_writer_create(place, "fake", &writer);
    for (int i = 0; i < count && !status; i++) {
        nib_image_request request = test_image_request(cache, specs[i]);
        nib_key key;
        char *text = translate(specs[i]);
        size_t bytes = strlen(text);
        nib_blob_parts parts = {.data = aligned_alloc(16, bytes / 16 * 16 + 16),
                                .bytes = bytes,
                                .date = 1700000000,
                                .compiler = "fake 0.9",
                                .log = "packed\n"};
        nib_blob *blob;
        memcpy(parts.data, text, bytes + 1);
        free(text);
        if (nib_key_of(&request, &key) || nib_blob_create(&parts, &blob))
            abort();
        status = nib_pack_writer_add(writer, &request, &key, blob);
        nib_blob_drop(blob);
    }
    if (status || nib_pack_writer_finish(writer, NULL))
        abort();
    if (path)
        strcpy(path, place);
}
