/* SPDX-License-Identifier: Apache-2.0
 *
 * nib-conformance: case files against a device, judged by the oracle. For every backend, in CI and
 * on a user's own machine. tests/README.md has the grammar of case files.
 */
#include "base/status.h"
#include "run.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

typedef struct session {
    run_options run;
    const char *device, *filter, *file;
    const char *seed; /* replaces the seed of each line */
    bool verbose, list;
    int line;              /* of the file */
    int64_t stride, lines; /* only every stride-th line runs */
    int64_t passed, failed, skipped, runs;
} session;

static const char usage[] =
    "usage: nib-conformance [options] (--file FILE ... | --line 'CASE')\n"
    "  --device D    cpu, cuda:0, ... (default: auto)\n"
    "  --file F      run the cases of a file; may stand several times\n"
    "  --line L      run one case line\n"
    "  --filter T    only lines that contain the text T\n"
    "  --seed N      instead of each line's own seed\n"
    "  --variant V   all: every kernel that can run a case; or ids of some, with commas\n"
    "  --list        print the lines, with lists expanded, and run nothing\n"
    "  --verbose     print each line that passes\n"
    "NIB_CONFORMANCE_STRIDE=N in the environment runs every Nth line: for slow builds\n"
    "NIB_CONFORMANCE_TWICE=1: every product twice in a row, as layers follow each other\n"
    "exit status: 0 all passed, 1 some failed, 2 wrong usage, 77 no such device\n";

static void report_failure(const session *s, const char *line)
{
    printf("FAIL %s\n", line);
    printf("     %s\n", nib_last_message());
    printf("     rerun: nib-conformance --device %s%s%s%s%s --line '%s'\n", s->device,
           s->run.variant ? " --variant " : "", s->run.variant ? s->run.variant : "",
           s->seed ? " --seed " : "", s->seed ? s->seed : "", line);
    fflush(stdout);
}

/* A case with all lists expanded. A line that is no case ends the program's work. */
static nib_status run_line(void *user, const char *line)
{
    session *s = user;
    test_case given;
    if (s->filter && !strstr(line, s->filter))
        return NIB_OK;
    if (s->lines++ % s->stride)
        return NIB_OK;
    nib_status status = test_case_parse(line, &given);
    if (status)
        return status;
    if (s->seed)
        given.seed = strtoull(s->seed, NULL, 0);
    if (given.desc_status && given.skip_invalid) {
        s->skipped++;
        return NIB_OK;
    }
    if (s->list) {
        puts(line);
        return NIB_OK;
    }
    if (run_case(&s->run, &given, &s->runs)) {
        s->failed++;
        report_failure(s, line);
        return NIB_OK;
    }
    s->passed++;
    if (s->verbose)
        printf("ok   %s\n", line);
    return NIB_OK;
}

static nib_status run_file(session *s, const char *path)
{
    char text[TEST_LINE_BYTES];
    nib_status status = NIB_OK;
    FILE *file = fopen(path, "r");
    if (!file)
        return nib_fail(NIB_MISSING, "cannot open %s", path);
    for (int line = 1; !status && fgets(text, sizeof(text), file); line++) {
        if (!strchr(text, '\n') && !feof(file)) {
            status = nib_fail(NIB_INVALID, "the line is longer than %zu bytes", sizeof(text));
        } else {
            text[strcspn(text, "#\n")] = '\0';
            if (text[strspn(text, " \t")])
                status = test_line_expand(text, run_line, s);
        }
        if (status)
            nib_fail_within(status, "%s:%d", path, line);
    }
    fclose(file);
    return status;
}

static nib_status run_all(session *s, int count, char **arguments)
{
    nib_status status = NIB_OK;
    for (int i = 0; i < count && !status; i += 2)
        status = !strcmp(arguments[i], "--file") ? run_file(s, arguments[i + 1])
                                                 : test_line_expand(arguments[i + 1], run_line, s);
    return status;
}

/* Options go to the session; files and lines, in order, to `work` as pairs of name and value. */
static int parse(int argc, char **argv, session *s, char **work)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'}, {"file", required_argument, NULL, 'f'},
        {"line", required_argument, NULL, 'l'},   {"filter", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},   {"variant", required_argument, NULL, 'v'},
        {"list", no_argument, NULL, 'n'},         {"verbose", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    static char file[] = "--file", line[] = "--line";
    int count = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'd':
            s->device = optarg;
            break;
        case 'f':
        case 'l':
            work[count++] = option == 'f' ? file : line;
            work[count++] = optarg;
            break;
        case 't':
            s->filter = optarg;
            break;
        case 's':
            s->seed = optarg;
            break;
        case 'v':
            s->run.variant = optarg;
            break;
        case 'n':
            s->list = true;
            break;
        case 'V':
            s->verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return -1;
        }
    }
    return optind == argc && count ? count : -1;
}

static int work_on(session *s, int count, char **work)
{
    nib_context *ctx = NULL;
    nib_device_info info = {.size = sizeof(info)};
    nib_status status = NIB_OK;
    if (!s->list) {
        status = nib_context_create(NULL, &ctx);
        if (!status)
            status = nib_device_open(ctx, s->device, &s->run.dev);
        if (status) {
            printf("skipped: %s\n", nib_last_message());
            nib_context_destroy(ctx);
            return status == NIB_MISSING ? EXIT_SKIPPED : EXIT_FAILED;
        }
        nib_device_get_info(s->run.dev, &info);
        printf("%s: %s, %s\n", info.selector, info.name, info.isa);
    }
    status = run_all(s, count, work);
    if (status)
        printf("%s\n", nib_last_message());
    if (!s->list) {
        printf("%" PRId64 " runs, %" PRId64 " lines skipped as descriptions that make no sense\n",
               s->runs, s->skipped);
        printf("%" PRId64 " passed, %" PRId64 " failed\n", s->passed, s->failed);
        nib_device_close(s->run.dev);
        nib_context_destroy(ctx);
    }
    return status ? EXIT_USAGE : s->failed ? EXIT_FAILED : 0;
}

int main(int argc, char **argv)
{
    const char *stride = getenv("NIB_CONFORMANCE_STRIDE");
    session s = {.device = "auto", .stride = stride ? atoll(stride) : 1};
    char **work = calloc((size_t)argc * 2 + 1, sizeof(*work));
    int count = work ? parse(argc, argv, &s, work) : -1;
    int code = EXIT_USAGE;
    if (count < 0 || s.stride < 1)
        fputs(usage, stderr);
    else
        code = work_on(&s, count, work);
    free(work);
    return code;
}
