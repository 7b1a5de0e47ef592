/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs planted into the shipped kernels, each of which must be found: by the simulator's report or
 * by the comparison with the oracle. tests/sim/planted/ has one file a bug; its README says the
 * form.
 *
 * The kernel cache is how a bug gets in: the image that a changed source compiles to is stored
 * under the name of the unchanged one, in a cache of its own, and nib-conformance finds it there.
 * First the same case runs with the source as it is, and must pass. ci/sim runs this program:
 *
 *     sim-planted CONFORMANCE SCRATCH FILE...
 */
#include "api/internal.h"
#include "jit/image.h"
#include "support/problem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TEXT = 4096, MOST_OUTPUT = 65536, MOST_FILES = 32 };

/* Of the CUDA backend: what core lends it. */
extern const nib_host_api *nib_cuda_host;

typedef struct plant {
    const char *path;
    char file[128], variant[64], line[256], expect[256], chip[8];
    char from[MOST_TEXT], to[MOST_TEXT];
    int applied; /* images */
} plant;

/* ---- the files ---------------------------------------------------------------------------- */

static void value_of(const char *text, const char *key, char *out, size_t bytes)
{
    size_t length = strlen(key);
    if (strncmp(text, key, length))
        return;
    text += length + strspn(text + length, " ");
    snprintf(out, bytes, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Header lines "key: value", then "---" and the old text, "+++" and the new. */
static bool read_plant(const char *path, plant *out)
{
    char text[512];
    char *into = NULL;
    FILE *file = fopen(path, "r");
    memset(out, 0, sizeof(*out));
    out->path = path;
    while (file && fgets(text, sizeof(text), file)) {
        if (!strcmp(text, "---\n") || !strcmp(text, "+++\n")) {
            into = text[0] == '-' ? out->from : out->to;
            continue;
        }
        if (into) {
            if (strlen(into) + strlen(text) < MOST_TEXT)
                strcat(into, text);
            continue;
        }
        value_of(text, "file:", out->file, sizeof(out->file));
        value_of(text, "variant:", out->variant, sizeof(out->variant));
        value_of(text, "line:", out->line, sizeof(out->line));
        value_of(text, "expect:", out->expect, sizeof(out->expect));
        value_of(text, "chip:", out->chip, sizeof(out->chip));
    }
    if (file)
        fclose(file);
    return out->file[0] && out->variant[0] && out->line[0] && out->expect[0] && out->from[0];
}

/* ---- planting ----------------------------------------------------------------------------- */

/* The text with the plant's edit, which must fit exactly once; NULL: it does not. */
static char *edit(const plant *p, const char *text)
{
    const char *at = strstr(text, p->from);
    if (!at || strstr(at + 1, p->from))
        return NULL;
    size_t before = (size_t)(at - text), after = before + strlen(p->from);
    char *out = malloc(strlen(text) + strlen(p->to) + 1);
    if (out) {
        memcpy(out, text, before);
        strcpy(out + before, p->to);
        strcat(out, text + after);
    }
    return out;
}

/* Compiles a request with the edited file in place of the shipped one. */
static nib_status compile(void *user, const nib_image_request *request, nib_image_build *out)
{
    const nib_image_request *shipped = user;
    plant *p = shipped->user;
    nib_image_file files[MOST_FILES];
    nib_image_request edited = *request;
    char *changed = NULL;
    nib_status status = NIB_MISSING;
    if (request->file_count > MOST_FILES)
        return NIB_INTERNAL;
    for (uint32_t i = 0; i < request->file_count; i++) {
        files[i] = request->files[i];
        if (!strcmp(files[i].name, p->file) && (changed = edit(p, files[i].text)) != NULL)
            files[i].text = changed;
    }
    edited.files = files;
    edited.user = NULL;
    if (changed)
        status = shipped->compile(NULL, &edited, out);
    p->applied += !status;
    free(changed);
    return status;
}

static bool has_file(const nib_image_request *request, const char *name)
{
    for (uint32_t i = 0; i < request->file_count; i++) {
        if (!strcmp(request->files[i].name, name))
            return true;
    }
    return false;
}

/* What the backend asks core for images with, while bugs are planted. */
static plant *planting;

static nib_status get_image(const nib_image_request *request, nib_image *out)
{
    nib_image_request shipped = *request, planted = *request;
    if (!has_file(request, planting->file) || strcmp(request->format, "ptx"))
        return nib_image_get(request, out);
    shipped.user = planting;
    planted.compile = compile;
    planted.user = &shipped;
    return nib_image_get(&planted, out);
}

/* Makes the backend compile the plant's kernel through get_image. */
static bool fill(plant *p)
{
    test_case given;
    nib_context *ctx;
    nib_device *dev;
    nib_gemm *gemm;
    if (test_case_parse(p->line, &given) || nib_context_create(NULL, &ctx)) {
        printf("FAIL %s: its line is no case: %s\n", p->path, nib_last_message());
        return false;
    }
    nib_host_api host = *nib_cuda_host;
    host.image_get = get_image;
    nib_cuda_host = &host;
    planting = p;
    if (nib_device_open(ctx, "cuda:0", &dev) || nib_gemm_create(dev, &given.desc, &gemm) ||
        nib_gemm_force_variant(gemm, p->variant) || nib_gemm_prepare(gemm, given.m, given.m) ||
        !p->applied) {
        printf("FAIL %s: the edit does not apply to %s once, or does not compile: %s\n", p->path,
               p->file, nib_last_message());
        return false;
    }
    return true;
}

/* Fills the cache of the environment with the plant's images. A process has one cache, so this
 * takes one of its own. */
static bool fill_cache(plant *p)
{
    int status = 1;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        bool good = fill(p);
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

/* ---- judging ------------------------------------------------------------------------------ */

/* The program's output, and whether it said that all passed. */
static bool run(const plant *p, const char *conformance, char *output)
{
    char command[1024];
    size_t length = 0, got;
    snprintf(command, sizeof(command), "'%s' --device cuda:0 --variant '%s' --line '%s' 2>&1",
             conformance, p->variant, p->line);
    FILE *pipe = popen(command, "r");
    while (pipe && (got = fread(output + length, 1, MOST_OUTPUT - 1 - length, pipe)) > 0)
        length += got;
    output[length] = '\0';
    return pipe && pclose(pipe) == 0 && !strstr(output, "\n0 runs,");
}

static bool found(const plant *p, const char *output)
{
    char words[256], *rest = NULL;
    snprintf(words, sizeof(words), "%s", p->expect);
    for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
        if (strstr(output, word))
            return true;
    }
    return false;
}

static bool judge(plant *p, const char *conformance, const char *scratch)
{
    static char output[MOST_OUTPUT];
    char cache[512];
    const char *name = strrchr(p->path, '/') ? strrchr(p->path, '/') + 1 : p->path;
    setenv("NIB_SIM_CC", p->chip[0] ? p->chip : "80", 1);
    snprintf(cache, sizeof(cache), "%s/whole", scratch);
    setenv("NIB_CACHE_DIR", cache, 1);
    if (!run(p, conformance, output)) {
        printf("FAIL %s: without the bug:\n%s", name, output);
        return false;
    }
    snprintf(cache, sizeof(cache), "%s/%s", scratch, name);
    setenv("NIB_CACHE_DIR", cache, 1);
    if (!fill_cache(p))
        return false;
    if (run(p, conformance, output) || !found(p, output)) {
        printf("FAIL %s: not found, or not as \"%s\":\n%s", name, p->expect, output);
        return false;
    }
    const char *report = strstr(output, "simulator: launch");
    if (!report)
        report = strstr(output, "     ");
    printf("found %s: %.*s\n", name, (int)strcspn(report ? report : "", "\n"),
           report ? report : "");
    return true;
}

int main(int argc, char **argv)
{
    int bad = 0;
    plant p;
    if (argc < 4) {
        fputs("usage: sim-planted CONFORMANCE SCRATCH FILE...\n", stderr);
        return 2;
    }
    mkdir(argv[2], 0777);
    /* Launches that start too early are found by what ran before them. */
    setenv("NIB_CONFORMANCE_TWICE", "1", 1);
    unsetenv("NIB_CUDA_CONVERT"); /* only the kernels with bugs are compiled */
    for (int i = 3; i < argc; i++) {
        if (!read_plant(argv[i], &p)) {
            printf("FAIL %s: a key is missing\n", argv[i]);
            bad++;
        } else {
            bad += !judge(&p, argv[1], argv[2]);
        }
        fflush(stdout);
    }
    printf("%d of %d planted bugs found\n", argc - 3 - bad, argc - 3);
    return bad != 0;
}
