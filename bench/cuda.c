/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-cuda: nibblas on an NVIDIA GPU, by replays of CUDA graphs in turns with the read floor and
 * cuBLAS, and other libraries' recorded times beside it. Options and the table are here;
 * support/cuda_cell.c checks and times, support/jobs.c keeps cells apart, support/summary.c
 * compares with the targets. Without a GPU it says so and ends with 77.
 */
#include "support/anchors.h"
#include "support/cuda_cell.h"
#include "support/cuda_sets.h"
#include "support/jobs.h"
#include "support/summary.h"
#include "support/tables.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 77 };

#define MAX_CANDIDATES 64
#define ROOF_BYTES     ((size_t)1 << 30)
#define PATIENCE_S     60
#define SMOKE_S        3600 /* simulators are slow */

typedef struct options {
    int device;
    bench_plan plan;
    const char *cublas_path, *anchors_path, *variant, *csv_path;
    bool no_cublas, no_floor, no_dequant, facts, resume;
    bench_pace pace;
    double budget_s;
    bench_rows read; /* of files to print */
    bool summarize, tabulate;
} options;

typedef struct state {
    options o;
    FILE *csv;
    bench_anchors anchors;
    bench_rows done;           /* what the table has */
    const bench_plan_job *job; /* the current one */
    double deadline;           /* by now_s; 0: none */
    int wrong;
} state;

static const char usage[] =
    "usage: bench-cuda [option...]\n"
    "       bench-cuda --summary FILE.csv.. | --table FILE.csv..\n"
    "  --set NAME[,..]   products and shapes: base (the default), types, act8, odd, all\n"
    "  --desc LINE       a product without n and k in place of a set's; may stand several times\n"
    "  --case N,K        a shape in place of a set's; may stand several times\n"
    "  --m M[,M...]      rows of activations in place of a set's\n"
    "  --twin NAME[,..]  aligned, odd-n, k-tail, odd-k, odd-a in place of a set's\n"
    "  --variant WHICH   all: every kernel that can run a cell; or the id of one\n"
    "  --rounds N        interleaved rounds (7)\n"
    "  --time-budget S   begin no cell after so many seconds; what is left is said\n"
    "  --csv FILE        the table for programs, written cell by cell\n"
    "  --resume          go on with that file: its cells that are ok are not measured again\n"
    "  --summary FILE    ranges, targets and the cells that miss them, of a --csv file\n"
    "  --table FILE      every cell of a --csv file, as Markdown\n"
    "  --facts           also what the backend says of each kernel\n"
    "  --device N        of the driver's devices (0)\n"
    "  --cublas FILE     the cuBLAS library (libcublas.so.13, .12, ..)\n"
    "  --no-cublas, --no-floor, --no-dequant   without that contender; dequantise and cuBLAS only\n"
    "                    from 256 rows on\n"
    "  --anchors FILE    recorded times (bench/anchors_h200.csv, if it is there)\n"
    "  --smoke           one copy of the weights and few calls, to see that all runs; on a\n"
    "                    simulator. The times then mean nothing\n"
    "Each time is of one call: CUDA graphs of at least 20 calls (8 of those above 700 us) and 2.5\n"
    "ms on one stream, rotating over more than 210 MB of weights; the median of the rounds\n"
    "(least..most), in each of which every contender has one turn. Results are checked against a\n"
    "product in double before and after. Every shape is measured in a process of its own.\n"
    "exit status: 0 done, 1 something was wrong or failed, 2 bad usage, 77 no such device\n";

/* ---- the command line ---- */

enum {
    OPT_SET = 256,
    OPT_DESC,
    OPT_CASE,
    OPT_M,
    OPT_TWIN,
    OPT_VARIANT,
    OPT_ROUNDS,
    OPT_BUDGET,
    OPT_CSV,
    OPT_RESUME,
    OPT_SUMMARY,
    OPT_TABLE,
    OPT_FACTS,
    OPT_DEVICE,
    OPT_CUBLAS,
    OPT_NO_CUBLAS,
    OPT_NO_FLOOR,
    OPT_NO_DEQUANT,
    OPT_ANCHORS,
    OPT_SMOKE
};

static const struct option known[] = {{"set", 1, 0, OPT_SET},
                                      {"desc", 1, 0, OPT_DESC},
                                      {"case", 1, 0, OPT_CASE},
                                      {"m", 1, 0, OPT_M},
                                      {"twin", 1, 0, OPT_TWIN},
                                      {"variant", 1, 0, OPT_VARIANT},
                                      {"rounds", 1, 0, OPT_ROUNDS},
                                      {"time-budget", 1, 0, OPT_BUDGET},
                                      {"csv", 1, 0, OPT_CSV},
                                      {"resume", 0, 0, OPT_RESUME},
                                      {"summary", 1, 0, OPT_SUMMARY},
                                      {"table", 1, 0, OPT_TABLE},
                                      {"facts", 0, 0, OPT_FACTS},
                                      {"device", 1, 0, OPT_DEVICE},
                                      {"cublas", 1, 0, OPT_CUBLAS},
                                      {"no-cublas", 0, 0, OPT_NO_CUBLAS},
                                      {"no-floor", 0, 0, OPT_NO_FLOOR},
                                      {"no-dequant", 0, 0, OPT_NO_DEQUANT},
                                      {"anchors", 1, 0, OPT_ANCHORS},
                                      {"smoke", 0, 0, OPT_SMOKE},
                                      {0, 0, 0, 0}};

static bool take_number(const char *text, int least, int most, int *out)
{
    char rest;
    return sscanf(text, "%d%c", out, &rest) == 1 && *out >= least && *out <= most;
}

static bool take_budget(const char *text, double *out)
{
    char rest;
    return sscanf(text, "%lf%c", out, &rest) == 1 && *out > 0;
}

static bool take_option(options *o, int c, const char *value)
{
    bench_plan *p = &o->plan;
    switch (c) {
    case OPT_SET:
        return bench_plan_sets(p, value);
    case OPT_DESC:
        return bench_plan_line(p, value);
    case OPT_CASE:
        return bench_plan_shape(p, value);
    case OPT_M:
        return bench_plan_rows(p, value);
    case OPT_TWIN:
        return bench_plan_twins(p, value);
    case OPT_VARIANT:
        o->variant = value;
        return true;
    case OPT_ROUNDS:
        return take_number(value, 1, BENCH_MOST_ROUNDS, &o->pace.rounds);
    case OPT_BUDGET:
        return take_budget(value, &o->budget_s);
    case OPT_CSV:
        o->csv_path = value;
        return true;
    case OPT_RESUME:
        return o->resume = true;
    case OPT_SUMMARY:
        o->summarize = true;
        return bench_rows_read(&o->read, value) >= 0;
    case OPT_TABLE:
        o->tabulate = true;
        return bench_rows_read(&o->read, value) >= 0;
    case OPT_FACTS:
        return o->facts = true;
    case OPT_DEVICE:
        return take_number(value, 0, 1 << 16, &o->device);
    case OPT_CUBLAS:
        o->cublas_path = value;
        return true;
    case OPT_NO_CUBLAS:
        return o->no_cublas = true;
    case OPT_NO_FLOOR:
        return o->no_floor = true;
    case OPT_NO_DEQUANT:
        return o->no_dequant = true;
    case OPT_ANCHORS:
        o->anchors_path = value;
        return true;
    case OPT_SMOKE:
        return o->pace.smoke = true;
    default:
        return false;
    }
}

static bool parse_options(options *o, int argc, char **argv)
{
    bool good = true;
    o->pace.rounds = 7;
    for (int c; good && (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        good = take_option(o, c, optarg);
    if (good && o->resume && !o->csv_path) {
        fprintf(stderr, "bench: --resume needs --csv FILE\n");
        return false;
    }
    return good && optind == argc;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the process that measures ---- */

typedef struct opened {
    cuda_bench bench;
    bench_cublas cublas;
    bench_reader reader;
} opened;

/* `say`: what is missing; once is enough. */
static bool open_bench(const options *o, opened *p, bool say)
{
    char why[512], selector[24];
    cuda_bench *b = &p->bench;
    b->pace = o->pace;
    b->dequant = !o->no_dequant;
    snprintf(selector, sizeof(selector), "cuda:%d", o->device);
    if (!bench_cuda_open(&b->cuda, o->device, why, sizeof(why))) {
        fprintf(stderr, "bench: %s\n", why);
        return false;
    }
    nib_status status = nib_context_create(NULL, &b->ctx);
    if (!status)
        status = nib_device_open(b->ctx, selector, &b->dev);
    if (status) {
        fprintf(stderr, "bench: %s\n", nib_last_message());
        return false;
    }
    if (!o->no_cublas && bench_cublas_open(&p->cublas, &b->cuda, o->cublas_path, why, sizeof(why)))
        b->cublas = &p->cublas;
    else if (!o->no_cublas && say)
        fprintf(stderr, "bench: no cuBLAS: %s\n", why);
    if (!o->no_floor && bench_reader_open(&p->reader, &b->cuda, why, sizeof(why)))
        b->reader = &p->reader;
    else if (!o->no_floor && say)
        fprintf(stderr, "bench: no read floor: %s\n", why);
    return true;
}

static void close_bench(opened *p)
{
    if (p->bench.cublas)
        bench_cublas_close(&p->cublas, &p->bench.cuda);
    if (p->bench.reader)
        bench_reader_close(&p->reader);
    nib_device_close(p->bench.dev);
    nib_context_destroy(p->bench.ctx);
    if (p->bench.cuda.library)
        bench_cuda_close(&p->bench.cuda);
}

/* Whether the file of an earlier run has it. */
static bool is_measured(const state *st, const bench_row *row)
{
    const bench_row *had = st->o.resume ? bench_rows_find(&st->done, row, row->twin) : NULL;
    return had && !had->state;
}

static bench_job_end run_rows(state *st, cuda_shape *shape, const bench_row *blank, bench_job *pipe)
{
    const options *o = &st->o;
    cuda_candidate list[MAX_CANDIDATES];
    bool all = o->variant && !strcmp(o->variant, "all"), any = false, baselines = true;
    int count = cuda_candidates(shape, blank->m, list, MAX_CANDIDATES);
    for (int i = 0; i < count; i++) {
        bench_row row = *blank;
        char *facts = NULL;
        if (!all && (o->variant ? strcmp(list[i].id, o->variant) != 0 : i > 0))
            continue;
        any = true;
        row.chosen = list[i].chosen;
        memcpy(row.variant, list[i].id, sizeof(row.variant));
        if (!bench_job_begin(pipe, &row))
            continue;
        cuda_cell_run(shape, blank->m, &list[i], baselines, &row, o->facts ? &facts : NULL);
        if (facts)
            fputs(facts, stdout);
        free(facts);
        fflush(stdout);
        bench_job_send(pipe, &row);
        baselines = row.state != BENCH_OK; /* once for each m is enough */
        if (row.state == BENCH_FAILED)
            return BENCH_JOB_AGAIN;
    }
    if (!any)
        fprintf(stderr, "bench: n=%lld k=%lld m=%lld %s: %s cannot run it\n", (long long)blank->n,
                (long long)blank->k, (long long)blank->m, blank->line,
                o->variant ? o->variant : "no kernel");
    return BENCH_JOB_DONE;
}

static bool is_finished(const state *st, const bench_plan_job *job, bench_row *blank)
{
    bool finished = true;
    for (int i = 0; i < job->rows && finished; i++) {
        blank->m = job->m[i];
        finished = is_measured(st, blank);
    }
    return finished;
}

static bool make_desc(const bench_plan_job *job, nib_gemm_desc *desc)
{
    char line[256];
    snprintf(line, sizeof(line), "n=%lld k=%lld %s", (long long)job->n, (long long)job->k,
             job->line);
    desc->size = sizeof(*desc);
    if (!nib_gemm_desc_parse(line, desc))
        return true;
    fprintf(stderr, "bench: %s: %s\n", line, nib_last_message());
    return false;
}

static bench_job_end measure(void *user, bench_job *pipe)
{
    state *st = user;
    const bench_plan_job *job = st->job;
    bench_job_end end = BENCH_JOB_DONE;
    opened p = {0};
    cuda_shape shape = {.bench = &p.bench, .twin = job->twin};
    int64_t m_max = 0;
    bench_row blank = {.n = job->n, .k = job->k, .twin = job->twin};
    snprintf(blank.line, sizeof(blank.line), "%s", job->line);
    for (int i = 0; i < job->rows; i++)
        m_max = job->m[i] > m_max ? job->m[i] : m_max;
    if (is_finished(st, job, &blank) || !make_desc(job, &shape.desc))
        return BENCH_JOB_DONE;
    if (st->deadline > 0 && now_s() > st->deadline)
        return BENCH_JOB_LATE;
    if (!open_bench(&st->o, &p, false))
        end = BENCH_JOB_USELESS;
    bool good = !end && cuda_shape_open(&shape, m_max);
    for (int i = 0; i < job->rows && !end; i++) {
        blank.m = job->m[i];
        blank.state = BENCH_FAILED;
        if (is_measured(st, &blank))
            continue;
        if (st->deadline > 0 && now_s() > st->deadline)
            end = BENCH_JOB_LATE;
        else if (good)
            end = run_rows(st, &shape, &blank, pipe);
        else if (bench_job_begin(pipe, &blank))
            bench_job_send(pipe, &blank);
    }
    /* A device that has failed may not let go of what it holds. */
    if (end != BENCH_JOB_AGAIN) {
        cuda_shape_close(&shape);
        close_bench(&p);
    }
    return end;
}

/* ---- the process that prints ---- */

/* The recorded times are of this product alone. */
static bool is_anchored(const bench_row *row)
{
    nib_gemm_desc d = {.size = sizeof(d)};
    char line[256];
    snprintf(line, sizeof(line), "n=%lld k=%lld %s", (long long)row->n, (long long)row->k,
             row->line);
    return row->twin == BENCH_ALIGNED && !nib_gemm_desc_parse(line, &d) &&
           bench_is_reference(&d, NIB_F16);
}

static void print_share(const char *name, double theirs, double ours)
{
    if (theirs > 0 && ours > 0)
        printf(" | %s %.2f %.2fx", name, theirs, theirs / ours);
}

static void print_row(const bench_row *r)
{
    double n = (double)r->n, k = (double)r->k, us = r->ours.us;
    printf("%6.0f %6.0f %5lld %-7s %c%-26s", n, k, (long long)r->m, bench_twin_name(r->twin),
           r->chosen ? '*' : ' ', r->variant);
    if (r->state) {
        printf(" %s: error %.2e, worst element %.2e, after the rounds %.2e\n",
               bench_state_name(r->state), r->error, r->worst, r->error_after);
        return;
    }
    printf(" %8.2f us (%.2f..%.2f) %5.0f GB/s %6.1f TFLOP/s, planned %.2f, error %.1e", us,
           r->ours.least, r->ours.most, (double)r->bytes / us * 1e-3,
           2 * n * k * (double)r->m / us * 1e-6, r->planned, r->error);
    if (r->floor.us > 0)
        printf(" | floor %.2f %.0f%%", r->floor.us, 100 * r->floor.us / us);
    print_share("cuBLAS", r->cublas.us, us);
    print_share("fp8", r->cublas_fp8.us, us);
    print_share("dequant+cuBLAS", r->dequant.us, us);
    print_share("Marlin", r->marlin, us);
    print_share("Humming", r->humming, us);
    print_share(r->best_name, r->best, us);
    printf("\n");
}

static void take_row(void *user, const bench_row *measured)
{
    state *st = user;
    bench_row row = *measured;
    const bench_anchor *a =
        is_anchored(&row) ? bench_anchors_find(&st->anchors, row.n, row.k, row.m) : NULL;
    if (a) {
        row.marlin = a->marlin;
        row.humming = a->humming;
        row.best = a->best;
        snprintf(row.best_name, sizeof(row.best_name), "%s", a->best_name);
    }
    st->wrong += row.state != BENCH_OK;
    print_row(&row);
    fflush(stdout);
    if (!bench_rows_add(&st->done, &row))
        fprintf(stderr, "bench: no memory to remember a row\n");
    if (st->csv) {
        bench_row_write(st->csv, &row);
        fflush(st->csv);
    }
}

static bool open_csv(state *st)
{
    const options *o = &st->o;
    if (!o->csv_path)
        return true;
    FILE *old = o->resume ? fopen(o->csv_path, "r") : NULL;
    if (old)
        fclose(old);
    if (old && bench_rows_read(&st->done, o->csv_path) < 0)
        return false;
    st->csv = fopen(o->csv_path, old ? "a" : "w");
    if (!st->csv)
        fprintf(stderr, "bench: cannot write %s\n", o->csv_path);
    else if (!old)
        bench_row_head(st->csv);
    return st->csv;
}

/* First of all, in a process of its own too: what everything is measured on. */
static bench_job_end describe(void *user, bench_job *pipe)
{
    state *st = user;
    opened p = {0};
    (void)pipe;
    if (!open_bench(&st->o, &p, true))
        return BENCH_JOB_USELESS;
    nib_device_info info = {.size = sizeof(info)};
    nib_device_get_info(p.bench.dev, &info);
    printf("%s, %s, %d units, %s, CUDA %d.%d, cuBLAS %d; copy rate read plus written %.0f GB/s\n",
           info.name, info.isa, info.units, info.driver, p.bench.cuda.version / 1000,
           p.bench.cuda.version % 1000 / 10, p.cublas.version,
           st->o.pace.smoke ? 0 : bench_cuda_copy_rate(&p.bench.cuda, ROOF_BYTES));
    fflush(stdout);
    close_bench(&p);
    return BENCH_JOB_DONE;
}

/* Seconds that a cell may take before it counts as hung. */
static int patience(const state *st)
{
    return st->o.pace.smoke ? SMOKE_S : PATIENCE_S;
}

static bench_job_end run_jobs(state *st)
{
    const bench_plan *plan = &st->o.plan;
    for (int i = 0; i < plan->count; i++) {
        const bench_plan_job *job = st->job = &plan->job[i];
        if (!i || strcmp(job->line, plan->job[i - 1].line))
            printf("%s\n", job->line);
        bench_job_end end = bench_job_run(measure, take_row, st, patience(st));
        if (end == BENCH_JOB_USELESS)
            return end;
        if (end == BENCH_JOB_LATE) {
            printf("the time is up: from n=%lld k=%lld %s %s on cells are missing (--resume)\n",
                   (long long)job->n, (long long)job->k, bench_twin_name(job->twin), job->line);
            return end;
        }
        if (end != BENCH_JOB_DONE) {
            fprintf(stderr, "bench: the process of n=%lld k=%lld %s died between its cells\n",
                    (long long)job->n, (long long)job->k, job->line);
            st->wrong++;
        }
    }
    return BENCH_JOB_DONE;
}

int main(int argc, char **argv)
{
    static state st;
    options *o = &st.o;
    if (!parse_options(o, argc, argv) || !bench_plan_finish(&o->plan)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (o->summarize)
        bench_summary(stdout, &o->read);
    if (o->tabulate)
        bench_tables(stdout, &o->read);
    if (o->summarize || o->tabulate) {
        bench_rows_free(&o->read);
        bench_plan_free(&o->plan);
        return 0;
    }
    const char *anchors = o->anchors_path ? o->anchors_path : "bench/anchors_h200.csv";
    if (!bench_anchors_read(anchors, &st.anchors) && o->anchors_path) {
        fprintf(stderr, "bench: %s is no table of anchors\n", o->anchors_path);
        return EXIT_USAGE;
    }
    if (!open_csv(&st))
        return EXIT_USAGE;
    st.deadline = o->budget_s > 0 ? now_s() + o->budget_s : 0;
    if (bench_job_run(describe, take_row, &st, patience(&st)) == BENCH_JOB_USELESS)
        return EXIT_NO_DEVICE;
    run_jobs(&st);
    printf("\n");
    bench_summary(stdout, &st.done);
    if (st.csv)
        fclose(st.csv);
    bench_rows_free(&st.done);
    bench_plan_free(&o->plan);
    return st.wrong ? EXIT_WRONG : 0;
}
