/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-cuda: nibblas on an NVIDIA GPU, by replays of CUDA graphs, with cuBLAS f16 in turns with it
 * and other libraries' recorded times beside it. Options, the table and its summary are here;
 * support/cuda_cell.c checks and times. Without a GPU it says so and ends with 77.
 */
#include "support/anchors.h"
#include "support/cuda_cell.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 77 };

#define MAX_CASES      64
#define MAX_ROWS       64
#define MAX_DESCS      32
#define MAX_CANDIDATES 64
#define ROOF_BYTES     ((size_t)1 << 30)

typedef struct options {
    int device;
    int cases, rows, descs;
    int64_t n[MAX_CASES], k[MAX_CASES], m[MAX_ROWS];
    const char *desc[MAX_DESCS];
    const char *cublas_path, *anchors_path, *variant;
    bool no_cublas, facts, smoke;
    FILE *csv;
} options;

/* The table's sums: what the project promises of the default cells. */
typedef struct summary {
    int cells, wrong, failed;
    int decode, decode_won;   /* m <= 16: at least as fast as Marlin and Humming */
    int middle, middle_close; /* m <= 64: within 1.5 times the best */
} summary;

static const char usage[] =
    "usage: bench-cuda [option...]\n"
    "  --case N,K        a shape; may stand several times (default: five of large models)\n"
    "  --m M[,M...]      rows of activations (1,4,16,32,64,128,256,512,1024,4096)\n"
    "  --desc LINE       a product without n and k, 'w=i4 g=128 s=f16 a=f16' by default; may\n"
    "                    stand several times\n"
    "  --variant WHICH   all: every kernel that can run a cell; or the id of one\n"
    "  --facts           also what the backend says of each kernel\n"
    "  --device N        of the driver's devices (0)\n"
    "  --cublas FILE     the cuBLAS library (libcublas.so.13, .12, ..)\n"
    "  --no-cublas       without that baseline\n"
    "  --anchors FILE    recorded times (bench/anchors_h200.csv, if it is there)\n"
    "  --csv FILE        the table for programs\n"
    "  --smoke           one copy of the weights and few calls, to see that all runs; on a\n"
    "                    simulator. The times then mean nothing\n"
    "Each time is of one call: CUDA graphs of at least 20 calls and 2.5 ms on one stream, "
    "rotating\n"
    "over more than 210 MB of weights; two warm-up replays, then the median of 7 (least..most).\n"
    "Results are checked against a product in double before their times count.\n"
    "exit status: 0 done, 1 something was wrong or failed, 2 bad usage, 77 no such device\n";

/* ---- the command line ---- */

static bool parse_rows(const char *text, options *o)
{
    for (o->rows = 0; o->rows < MAX_ROWS;) {
        char *end;
        long long m = strtoll(text, &end, 10);
        if (end == text || m < 1 || m > 1 << 24)
            return false;
        o->m[o->rows++] = m;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
    return false;
}

static bool parse_case(const char *text, options *o)
{
    long long n, k;
    char rest;
    if (o->cases == MAX_CASES || sscanf(text, "%lld,%lld%c", &n, &k, &rest) != 2 || n < 1 || k < 1)
        return false;
    o->n[o->cases] = n;
    o->k[o->cases++] = k;
    return true;
}

static bool parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"case", 1, 0, 'c'},    {"m", 1, 0, 'm'},      {"desc", 1, 0, 'd'},
        {"variant", 1, 0, 'v'}, {"facts", 0, 0, 'f'},  {"device", 1, 0, 'D'},
        {"smoke", 0, 0, 'S'},   {"cublas", 1, 0, 'b'}, {"no-cublas", 0, 0, 'B'},
        {"anchors", 1, 0, 'a'}, {"csv", 1, 0, 's'},    {0, 0, 0, 0}};
    bool good = true;
    char rest;
    for (int c; good && (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'c':
            good = parse_case(optarg, o);
            break;
        case 'm':
            good = parse_rows(optarg, o);
            break;
        case 'd':
            good = o->descs < MAX_DESCS;
            if (good)
                o->desc[o->descs++] = optarg;
            break;
        case 'v':
            o->variant = optarg;
            break;
        case 'f':
            o->facts = true;
            break;
        case 'S':
            o->smoke = true;
            break;
        case 'D':
            good = sscanf(optarg, "%d%c", &o->device, &rest) == 1 && o->device >= 0;
            break;
        case 'b':
            o->cublas_path = optarg;
            break;
        case 'B':
            o->no_cublas = true;
            break;
        case 'a':
            o->anchors_path = optarg;
            break;
        case 's':
            good = (o->csv = fopen(optarg, "w")) != NULL;
            if (!good)
                fprintf(stderr, "bench: cannot write %s\n", optarg);
            break;
        default:
            good = false;
        }
    }
    return good && optind == argc;
}

static void fill_defaults(options *o)
{
    static const int64_t shapes[][2] = {
        {4096, 4096}, {28672, 4096}, {8192, 8192}, {8192, 28672}, {6656, 19968}};
    static const int64_t rows[] = {1, 4, 16, 32, 64, 128, 256, 512, 1024, 4096};
    if (!o->rows) {
        o->rows = (int)(sizeof(rows) / sizeof(rows[0]));
        memcpy(o->m, rows, sizeof(rows));
    }
    if (!o->cases)
        for (; o->cases < (int)(sizeof(shapes) / sizeof(shapes[0])); o->cases++) {
            o->n[o->cases] = shapes[o->cases][0];
            o->k[o->cases] = shapes[o->cases][1];
        }
    if (!o->descs)
        o->desc[o->descs++] = "w=i4 g=128 s=f16 a=f16";
}

/* ---- the table ---- */

/* The recorded times are of this product alone. */
static bool is_anchored(const nib_gemm_desc *d)
{
    const nib_weight_desc *w = &d->weight;
    return w->type == NIB_I4 && w->group == 128 && w->scale_type == NIB_F16 &&
           w->zero == NIB_ZERO_NONE && !w->flags && d->act_type == NIB_F16 &&
           d->out_type == NIB_F16 && d->acc_type == NIB_F32 && !d->flags;
}

static void print_ratio(const char *name, double theirs, double ours)
{
    if (theirs > 0 && ours > 0)
        printf(" | %s %.1f %.2fx", name, theirs, theirs / ours);
}

static void print_cell(const options *o, const cuda_shape *s, const cuda_cell *c,
                       const cuda_times *cublas, const bench_anchor *a)
{
    double n = (double)s->desc.weight.n, k = (double)s->desc.weight.k, us = cuda_median(&c->ours);
    printf("%6.0f %6.0f %5lld %c%-26s", n, k, (long long)c->m, c->variant.chosen ? '*' : ' ',
           c->variant.id);
    if (!c->ours.count) {
        printf(" %s: error %.2e, worst element %.2e\n", c->wrong ? "WRONG" : "FAILED", c->error,
               c->worst);
        return;
    }
    printf(" %8.2f us (%.2f..%.2f) %5.0f GB/s %6.1f TFLOP/s, planned %.2f, error %.1e", us,
           c->ours.us[0], c->ours.us[c->ours.count - 1], (double)s->packed_bytes / us * 1e-3,
           2 * n * k * (double)c->m / us * 1e-6, c->variant.predicted_us, c->error);
    if (cublas->count)
        print_ratio("cuBLAS", cuda_median(cublas), us);
    if (a) {
        print_ratio("Marlin", a->marlin, us);
        print_ratio("Humming", a->humming, us);
        print_ratio(a->best_name, a->best, us);
        printf(" | floor %.0f%%", 100 * a->floor / us);
    }
    printf("\n");
    if (o->facts)
        fputs(c->facts, stdout);
}

static void csv_time(FILE *csv, double us)
{
    if (us > 0)
        fprintf(csv, ",%.3f", us);
    else
        fputc(',', csv);
}

static void csv_cell(FILE *csv, const cuda_shape *s, const char *desc, const cuda_cell *c,
                     const cuda_times *cublas, const bench_anchor *a)
{
    static const bench_anchor none = {0};
    if (!csv)
        return;
    a = a ? a : &none;
    fprintf(csv, "%lld,%lld,\"%s\",%lld,%s,%d,%s,%.3e,%.3e,%lld,%llu", (long long)s->desc.weight.n,
            (long long)s->desc.weight.k, desc, (long long)c->m, c->variant.id, c->variant.chosen,
            c->wrong         ? "wrong"
            : !c->ours.count ? "failed"
                             : "ok",
            c->error, c->worst, (long long)c->ours.calls, (unsigned long long)s->packed_bytes);
    csv_time(csv, cuda_median(&c->ours));
    csv_time(csv, c->ours.count ? c->ours.us[0] : 0);
    csv_time(csv, c->ours.count ? c->ours.us[c->ours.count - 1] : 0);
    csv_time(csv, c->variant.predicted_us);
    csv_time(csv, cuda_median(cublas));
    csv_time(csv, cublas->count ? cublas->us[0] : 0);
    csv_time(csv, cublas->count ? cublas->us[cublas->count - 1] : 0);
    csv_time(csv, a->marlin);
    csv_time(csv, a->humming);
    csv_time(csv, a->best);
    csv_time(csv, a->floor);
    fprintf(csv, ",%s\n", a->best_name);
    fflush(csv);
}

static void count_cell(summary *sum, const cuda_cell *c, const bench_anchor *a)
{
    double us = cuda_median(&c->ours);
    sum->cells++;
    sum->wrong += c->wrong;
    sum->failed += !c->wrong && !c->ours.count;
    if (!a || !c->variant.chosen || !c->ours.count)
        return;
    if (c->m <= 16) {
        sum->decode++;
        sum->decode_won += (!(a->marlin > 0) || us <= a->marlin) && us <= a->humming;
    }
    if (c->m <= 64) {
        sum->middle++;
        sum->middle_close += us <= 1.5 * a->best;
    }
}

/* ---- the work ---- */

typedef struct state {
    options *o;
    bench_cuda cuda;
    nib_device *dev;
    bench_cublas cublas;
    bool has_cublas;
    bench_anchors anchors;
    summary sum;
} state;

static void run_rows(state *st, cuda_shape *s, const char *desc, int64_t m)
{
    const options *o = st->o;
    cuda_candidate list[MAX_CANDIDATES];
    cuda_times cublas = {0};
    int count = cuda_candidates(s, m, list, MAX_CANDIDATES);
    const bench_anchor *a =
        is_anchored(&s->desc)
            ? bench_anchors_find(&st->anchors, s->desc.weight.n, s->desc.weight.k, m)
            : NULL;
    bool any = false, all = o->variant && !strcmp(o->variant, "all");
    for (int i = 0; i < count; i++) {
        cuda_cell cell;
        if (!all && (o->variant ? strcmp(list[i].id, o->variant) != 0 : i > 0))
            continue;
        cuda_cell_run(s, m, &list[i], &cell, cublas.count ? NULL : &cublas);
        print_cell(o, s, &cell, &cublas, a);
        csv_cell(o->csv, s, desc, &cell, &cublas, a);
        count_cell(&st->sum, &cell, a);
        fflush(stdout);
        any = true;
    }
    if (!any)
        printf("%6lld %6lld %5lld  %s cannot run it\n", (long long)s->desc.weight.n,
               (long long)s->desc.weight.k, (long long)m, o->variant ? o->variant : "no kernel");
}

static void run_shape(state *st, const char *desc, int64_t n, int64_t k)
{
    char line[512];
    nib_gemm_desc parsed;
    int64_t most = 0;
    snprintf(line, sizeof(line), "n=%lld k=%lld %s", (long long)n, (long long)k, desc);
    if (nib_gemm_desc_parse(line, &parsed)) {
        fprintf(stderr, "bench: %s\n", nib_last_message());
        st->sum.failed++;
        return;
    }
    for (int i = 0; i < st->o->rows; i++)
        most = st->o->m[i] > most ? st->o->m[i] : most;
    cuda_shape shape = {.cuda = &st->cuda,
                        .dev = st->dev,
                        .cublas = st->has_cublas && parsed.act_type == NIB_F16 ? &st->cublas : NULL,
                        .desc = parsed,
                        .smoke = st->o->smoke};
    if (cuda_shape_open(&shape, most))
        for (int i = 0; i < st->o->rows; i++)
            run_rows(st, &shape, desc, st->o->m[i]);
    else
        st->sum.failed++;
    cuda_shape_close(&shape);
}

static void read_anchors(state *st)
{
    const char *path = st->o->anchors_path;
    bool given = path != NULL;
    if (!given && !strstr(st->cuda.name, "H200"))
        return; /* other chips' times say nothing here */
    path = given ? path : "bench/anchors_h200.csv";
    if (bench_anchors_read(path, &st->anchors))
        printf("recorded times of others: %s\n", path);
    else if (given)
        fprintf(stderr, "bench: %s is no table of recorded times\n", path);
}

static void print_head(state *st)
{
    nib_device_info info = {.size = sizeof(info)};
    char why[256] = "not asked for";
    nib_device_get_info(st->dev, &info);
    printf("%s, %s, %d multiprocessors, %s, nibblas %s\n", st->cuda.name, info.isa, info.units,
           info.driver, nib_version());
    printf("device-to-device copy, read + write: %.0f GB/s\n",
           bench_cuda_copy_rate(&st->cuda, ROOF_BYTES));
    st->has_cublas = !st->o->no_cublas && bench_cublas_open(&st->cublas, &st->cuda,
                                                            st->o->cublas_path, why, sizeof(why));
    if (st->has_cublas)
        printf("cuBLAS %d, f16, f32 accumulation\n", st->cublas.version);
    else
        printf("without cuBLAS: %s\n", why);
    read_anchors(st);
    if (st->o->csv)
        fprintf(st->o->csv,
                "n,k,product,m,variant,chosen,check,error,worst,calls,packed_bytes,us,us_min,"
                "us_max,planned_us,cublas_us,cublas_min,cublas_max,marlin_us,humming_us,best_us,"
                "floor_us,best_name\n");
    if (st->o->smoke)
        printf("a smoke run: the times mean nothing\n");
    fflush(stdout);
}

static void print_summary(const summary *s)
{
    printf("\n%d cells, %d wrong, %d failed\n", s->cells, s->wrong, s->failed);
    if (s->decode)
        printf("m <= 16: %d of %d at least as fast as Marlin and Humming\n", s->decode_won,
               s->decode);
    if (s->middle)
        printf("m <= 64: %d of %d within 1.5 times the best\n", s->middle_close, s->middle);
}

int main(int argc, char **argv)
{
    options o = {0};
    state st = {.o = &o};
    nib_context *ctx = NULL;
    char why[256], selector[32];
    if (!parse_options(&o, argc, argv)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    fill_defaults(&o);
    if (!bench_cuda_open(&st.cuda, o.device, why, sizeof(why))) {
        fprintf(stderr, "bench-cuda: cannot run here: %s\n", why);
        return EXIT_NO_DEVICE;
    }
    snprintf(selector, sizeof(selector), "cuda:%d", o.device);
    if (nib_context_create(NULL, &ctx) || nib_device_open(ctx, selector, &st.dev)) {
        fprintf(stderr, "bench-cuda: cannot run here: %s\n", nib_last_message());
        nib_context_destroy(ctx);
        bench_cuda_close(&st.cuda);
        return EXIT_NO_DEVICE;
    }
    print_head(&st);
    for (int d = 0; d < o.descs; d++) {
        printf("\n%s\n", o.desc[d]);
        for (int i = 0; i < o.cases; i++)
            run_shape(&st, o.desc[d], o.n[i], o.k[i]);
    }
    print_summary(&st.sum);
    if (st.has_cublas)
        bench_cublas_close(&st.cublas, &st.cuda);
    nib_device_close(st.dev);
    nib_context_destroy(ctx);
    bench_cuda_close(&st.cuda);
    if (o.csv && fclose(o.csv))
        return EXIT_WRONG;
    return st.sum.wrong || st.sum.failed || !st.sum.cells ? EXIT_WRONG : 0;
}
