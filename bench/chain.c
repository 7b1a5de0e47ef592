/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-chain: back-to-back decoding. 32 products in a row, each reading what the one before wrote,
 * as one CUDA graph: with dependent launch and without, in turns, with the read floor of the
 * layers' bytes. The results must be the same bits. Without a GPU it says so and ends with 77.
 */
#include "support/chain.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 77 };

#define MAX_ROWS 32

static const char usage[] =
    "usage: bench-chain [option...]\n"
    "  --model NAME     4096, 8192: square layers; llama: qkv, o, gated gate_up and down of an 8 "
    "B\n"
    "                   model; may stand several times (all)\n"
    "  --layers N       products in the chain (32)\n"
    "  --m M[,M...]     rows (1,2,4,8,16)\n"
    "  --act TYPE       f16 or bf16, of activations and scales (f16); weights are i4, group 128\n"
    "  --rounds N       interleaved rounds (7)\n"
    "  --csv FILE       the table for programs\n"
    "  --device N       of the driver's devices (0)\n"
    "  --smoke          small layers, few calls, to see that all runs; on a simulator. The times\n"
    "                   then mean nothing\n"
    "exit status: 0 done, 1 something was wrong or failed, 2 bad usage, 77 no such device\n";

static chain_model models[] = {
    {"4096", {{"square", 4096, 4096, false}}, 1, 32},
    {"8192", {{"square", 8192, 8192, false}}, 1, 32},
    {"llama",
     {{"qkv", 6144, 4096, false},
      {"o", 4096, 4096, false},
      {"gate_up", 28672, 4096, true},
      {"down", 4096, 14336, false}},
     4,
     32},
};
#define MODELS ((int)(sizeof(models) / sizeof(models[0])))

typedef struct options {
    int device, layers, rows;
    int64_t m[MAX_ROWS];
    unsigned wanted; /* models, bits */
    nib_type type;
    FILE *csv;
    bench_pace pace;
} options;

/* ---- the command line ---- */

static bool take_number(const char *text, int least, int most, int *out)
{
    char rest;
    return sscanf(text, "%d%c", out, &rest) == 1 && *out >= least && *out <= most;
}

static bool take_model(options *o, const char *name)
{
    for (int i = 0; i < MODELS; i++)
        if (!strcmp(name, models[i].name)) {
            o->wanted |= 1u << i;
            return true;
        }
    return false;
}

static bool take_rows(options *o, const char *text)
{
    for (o->rows = 0; o->rows < MAX_ROWS;) {
        char *end;
        long m = strtol(text, &end, 10);
        if (end == text || m < 1 || m > 4096)
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

static bool take_option(options *o, int c, const char *value)
{
    switch (c) {
    case 'M':
        return take_model(o, value);
    case 'l':
        return take_number(value, 1, 1000, &o->layers);
    case 'm':
        return take_rows(o, value);
    case 'a':
        return !nib_type_parse(value, &o->type) && (o->type == NIB_F16 || o->type == NIB_BF16);
    case 'r':
        return take_number(value, 1, BENCH_MOST_ROUNDS, &o->pace.rounds);
    case 's':
        return (o->csv = fopen(value, "w")) != NULL;
    case 'D':
        return take_number(value, 0, 1 << 16, &o->device);
    case 'S':
        return o->pace.smoke = true;
    default:
        return false;
    }
}

static bool parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"model", 1, 0, 'M'},  {"layers", 1, 0, 'l'}, {"m", 1, 0, 'm'},
        {"act", 1, 0, 'a'},    {"rounds", 1, 0, 'r'}, {"csv", 1, 0, 's'},
        {"device", 1, 0, 'D'}, {"smoke", 0, 0, 'S'},  {0, 0, 0, 0}};
    static const int64_t rows[] = {1, 2, 4, 8, 16};
    bool good = true;
    *o = (options){.layers = 32, .type = NIB_F16, .pace = {.rounds = 7}};
    for (int c; good && (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        good = take_option(o, c, optarg);
    if (!o->rows) {
        o->rows = (int)(sizeof(rows) / sizeof(rows[0]));
        memcpy(o->m, rows, sizeof(rows));
    }
    if (!o->wanted)
        o->wanted = (1u << MODELS) - 1;
    return good && optind == argc;
}

/* Sixteenths of a layer keep what is odd about it. */
static void shrink(chain_model *model)
{
    for (int i = 0; i < model->kinds; i++) {
        model->kind[i].n /= 16;
        model->kind[i].k /= 16;
    }
    model->layers = 2 * model->kinds;
}

/* ---- the table ---- */

static void print_result(const chain_model *model, int64_t m, const chain_result *r)
{
    double layers = (double)model->layers;
    printf("%-6s M = %-4lld %7.2f us a layer (%.2f..%.2f), without dependent launch %7.2f "
           "(%.2f..%.2f), %.2fx",
           model->name, (long long)m, r->dependent.us / layers, r->dependent.least / layers,
           r->dependent.most / layers, r->plain.us / layers, r->plain.least / layers,
           r->plain.most / layers, r->plain.us / r->dependent.us);
    if (r->floor_us > 0)
        printf(", floor %.2f: %.0f%%, without %.0f%%", r->floor_us / layers,
               100 * r->floor_us / r->dependent.us, 100 * r->floor_us / r->plain.us);
    printf(", error %.1e %s, %s |", r->error, r->right ? "ok" : "WRONG",
           r->equal ? "equal" : "NOT EQUAL");
    for (int i = 0; i < model->kinds; i++)
        printf(" %s", r->variant[i]);
    printf("\n");
    fflush(stdout);
}

static void csv_result(FILE *csv, const chain_model *model, const char *type, int64_t m,
                       const chain_result *r)
{
    if (!csv)
        return;
    fprintf(csv, "%s,%s,%d,%lld,%s,%s,%.3e", model->name, type, model->layers, (long long)m,
            r->right ? "ok" : "wrong", r->equal ? "equal" : "different", r->error);
    const bench_stat *stats[] = {&r->dependent, &r->plain};
    for (int i = 0; i < 2; i++)
        fprintf(csv, ",%.3f,%.3f,%.3f", stats[i]->us / model->layers,
                stats[i]->least / model->layers, stats[i]->most / model->layers);
    fprintf(csv, ",%.3f,", r->floor_us / model->layers);
    for (int i = 0; i < model->kinds; i++)
        fprintf(csv, "%s%s", i ? " " : "", r->variant[i]);
    fputc('\n', csv);
    fflush(csv);
}

/* ---- the work ---- */

typedef struct opened {
    bench_cuda cuda;
    nib_context *ctx;
    nib_device *dev[2];
    bench_reader reader[CHAIN_MOST_KINDS];
    bool has_floor;
} opened;

static bool open_all(const options *o, opened *p)
{
    char why[512], selector[24];
    snprintf(selector, sizeof(selector), "cuda:%d", o->device);
    if (!bench_cuda_open(&p->cuda, o->device, why, sizeof(why))) {
        fprintf(stderr, "bench: %s\n", why);
        return false;
    }
    nib_status status = nib_context_create(NULL, &p->ctx);
    for (int i = 0; i < 2 && !status; i++) {
        setenv("NIB_CUDA_DEPENDENT", i ? "0" : "1", 1); /* read when a device is opened */
        status = nib_device_open(p->ctx, selector, &p->dev[i]);
    }
    unsetenv("NIB_CUDA_DEPENDENT");
    if (status) {
        fprintf(stderr, "bench: %s\n", nib_last_message());
        return false;
    }
    p->has_floor = true;
    for (int i = 0; i < CHAIN_MOST_KINDS && p->has_floor; i++)
        p->has_floor = bench_reader_open(&p->reader[i], &p->cuda, why, sizeof(why));
    if (!p->has_floor)
        fprintf(stderr, "bench: no read floor: %s\n", why);
    printf("%s, CUDA %d.%d; us a layer, medians of %d interleaved rounds (least..most)\n",
           p->cuda.name, p->cuda.version / 1000, p->cuda.version % 1000 / 10, o->pace.rounds);
    return true;
}

static void close_all(opened *p)
{
    for (int i = 0; i < CHAIN_MOST_KINDS; i++)
        bench_reader_close(&p->reader[i]);
    for (int i = 0; i < 2; i++)
        nib_device_close(p->dev[i]);
    nib_context_destroy(p->ctx);
    if (p->cuda.library)
        bench_cuda_close(&p->cuda);
}

/* Answers how many of its measurements were wrong or failed. */
static int run_model(const options *o, opened *p, chain_model *model)
{
    chain c;
    int bad = 0;
    int64_t m_max = 0;
    for (int i = 0; i < o->rows; i++)
        m_max = o->m[i] > m_max ? o->m[i] : m_max;
    model->layers = o->layers;
    if (o->pace.smoke)
        shrink(model);
    bool good = chain_open(&c, &p->cuda, p->dev, model, o->type, m_max);
    for (int i = 0; i < model->kinds && good && p->has_floor; i++)
        good = bench_reader_load(&p->reader[i], chain_bytes(&c, i), BENCH_ROTATE_BYTES, &o->pace);
    for (int i = 0; i < o->rows && good; i++) {
        chain_result r;
        if (!chain_run(&c, o->m[i], p->has_floor ? p->reader : NULL, &o->pace, &r)) {
            good = false;
            break;
        }
        print_result(model, o->m[i], &r);
        csv_result(o->csv, model, nib_type_name(o->type), o->m[i], &r);
        bad += !r.right || !r.equal;
    }
    chain_close(&c);
    return bad + !good;
}

int main(int argc, char **argv)
{
    options o;
    opened p = {0};
    int bad = 0;
    if (!parse_options(&o, argc, argv)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (!open_all(&o, &p)) {
        close_all(&p);
        return EXIT_NO_DEVICE;
    }
    if (o.csv)
        fprintf(o.csv, "model,type,layers,m,check,bits,error,dependent_us,dependent_least,"
                       "dependent_most,plain_us,plain_least,plain_most,floor_us,variants\n");
    for (int i = 0; i < MODELS; i++)
        if (o.wanted >> i & 1)
            bad += run_model(&o, &p, &models[i]);
    close_all(&p);
    if (o.csv)
        fclose(o.csv);
    return bad ? EXIT_WRONG : 0;
}
