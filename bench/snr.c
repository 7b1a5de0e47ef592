/* SPDX-License-Identifier: Apache-2.0
 *
 * How much each quantiser loses on real weights: quantises every dense matrix of the files given
 * with every method of the table below and prints, as a Markdown table, bits a weight, the mean and
 * the worst signal-to-noise ratio, and speed. docs/quantizers.md holds a run of it.
 *
 *     bench-snr [--threads N] FILE...     safetensors, GGUF or npy
 */
#include <nibblas/nibblas.h>

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct recipe {
    const char *name;
    nib_quantizer method;
    const char *weight; /* line without extents */
} recipe;

/* clang-format off */
static const recipe recipes[] = {
    {"i8 symmetric",        NIB_QUANTIZE_RTN,        "w=i8 g=row s=f16"},
    {"i8 symmetric",        NIB_QUANTIZE_RTN,        "w=i8 g=32 s=f16"},
    {"i4 symmetric",        NIB_QUANTIZE_RTN,        "w=i4 g=32 s=f16"},
    {"i4 symmetric",        NIB_QUANTIZE_HQQ,        "w=i4 g=32 s=f16"},
    {"i4 symmetric",        NIB_QUANTIZE_RTN,        "w=i4 g=128 s=f16"},
    {"i4 symmetric",        NIB_QUANTIZE_HQQ,        "w=i4 g=128 s=f16"},
    {"u4 float zero",       NIB_QUANTIZE_RTN,        "w=u4 g=64 s=f16 z=float:f16"},
    {"u4 float zero",       NIB_QUANTIZE_PERCENTILE, "w=u4 g=64 s=f16 z=float:f16"},
    {"u4 float zero",       NIB_QUANTIZE_HQQ,        "w=u4 g=64 s=f16 z=float:f16"},
    {"u4 rescale",          NIB_QUANTIZE_RTN,        "w=u4 g=32 s=f16 z=rescale:f16"},
    {"u4 rescale",          NIB_QUANTIZE_HQQ,        "w=u4 g=32 s=f16 z=rescale:f16"},
    {"u4 code zero",        NIB_QUANTIZE_RTN,        "w=u4 g=64 s=f16 z=code"},
    {"u4 code zero",        NIB_QUANTIZE_HQQ,        "w=u4 g=64 s=f16 z=code"},
    {"u3 float zero",       NIB_QUANTIZE_RTN,        "w=u3 g=64 s=f16 z=float:f16"},
    {"u3 float zero",       NIB_QUANTIZE_PERCENTILE, "w=u3 g=64 s=f16 z=float:f16"},
    {"u3 float zero",       NIB_QUANTIZE_HQQ,        "w=u3 g=64 s=f16 z=float:f16"},
    {"u2 float zero",       NIB_QUANTIZE_RTN,        "w=u2 g=64 s=f16 z=float:f16"},
    {"u2 float zero",       NIB_QUANTIZE_PERCENTILE, "w=u2 g=64 s=f16 z=float:f16"},
    {"u2 float zero",       NIB_QUANTIZE_HQQ,        "w=u2 g=64 s=f16 z=float:f16"},
    {"u2 float zero",       NIB_QUANTIZE_RTN,        "w=u2 g=32 s=f16 z=float:f16"},
    {"u2 float zero",       NIB_QUANTIZE_HQQ,        "w=u2 g=32 s=f16 z=float:f16"},
    {"u2 code zero",        NIB_QUANTIZE_RTN,        "w=u2 g=64 s=f16 z=code"},
    {"u2 code zero",        NIB_QUANTIZE_HQQ,        "w=u2 g=64 s=f16 z=code"},
    {"i1 sign",             NIB_QUANTIZE_RTN,        "w=i1 g=64 s=f16"},
    {"nf4",                 NIB_QUANTIZE_RTN,        "w=nf4 g=64 s=f16"},
    {"nf4",                 NIB_QUANTIZE_HQQ,        "w=nf4 g=64 s=f16"},
    {"e2m1",                NIB_QUANTIZE_RTN,        "w=e2m1 g=32 s=f16"},
    {"MXFP4",               NIB_QUANTIZE_RTN,        "w=e2m1 g=32 s=e8m0"},
    {"NVFP4",               NIB_QUANTIZE_RTN,        "w=e2m1 g=16 s=e4m3"},
    {"NVFP4",               NIB_QUANTIZE_HQQ,        "w=e2m1 g=16 s=e4m3"},
    {"lut4",                NIB_QUANTIZE_RTN,        "w=lut4 g=64 s=f16"},
    {"e3m2",                NIB_QUANTIZE_RTN,        "w=e3m2 g=32 s=f16"},
    {"e2m3",                NIB_QUANTIZE_RTN,        "w=e2m3 g=32 s=f16"},
    {"e4m3",                NIB_QUANTIZE_RTN,        "w=e4m3 g=row s=f32"},
};
/* clang-format on */
enum { RECIPES = sizeof(recipes) / sizeof(recipes[0]) };

typedef struct score {
    double db, worst_db, bits, seconds;
    int64_t matrices, weights;
    char worst[128];
} score;

/* Processor time, so that the speed is one core's whatever else runs. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static nib_status quantize_one(const recipe *r, int32_t threads, const float *w, int64_t n,
                               int64_t k, const char *name, score *s)
{
    char line[160];
    size_t codes, scales, zeros;
    nib_quantize_options options = {
        .size = sizeof(options), .method = r->method, .threads = threads};
    nib_quantize_report report = {.size = sizeof(report)};
    float table[16];
    options.weight.size = sizeof(options.weight);
    snprintf(line, sizeof(line), "n=%" PRId64 " k=%" PRId64 " %s", n, k, r->weight);
    nib_status status = nib_weight_desc_parse(line, &options.weight);
    if (!status)
        status = nib_weight_desc_bytes(&options.weight, &codes, &scales, &zeros, NULL);
    if (status)
        return status;
    nib_quantize_result result = {.size = sizeof(result),
                                  .codes = malloc(codes + 1),
                                  .scales = malloc(scales + 1),
                                  .zeros = malloc(zeros + 1),
                                  .table = table};
    double start = now();
    status = nib_quantize(&options, w, k, &result);
    s->seconds += now() - start;
    if (!status)
        status = nib_quantize_measure(&options.weight, &result, w, k, &report);
    free(result.codes);
    free(result.scales);
    free(result.zeros);
    if (status)
        return status;
    if (!s->matrices || report.snr_db < s->worst_db) {
        s->worst_db = report.snr_db;
        snprintf(s->worst, sizeof(s->worst), "%s", name);
    }
    s->db += report.snr_db;
    s->bits += 8.0 * (double)(codes + scales + zeros);
    s->matrices++;
    s->weights += n * k;
    return NIB_OK;
}

static nib_status score_file(const char *path, int32_t threads, score *scores)
{
    nib_file *file = NULL;
    nib_status status = nib_file_open(path, &file);
    for (int64_t i = 0; !status && i < nib_file_tensor_count(file); i++) {
        nib_tensor t = {.size = sizeof(t)};
        status = nib_file_tensor(file, i, &t);
        bool dense = t.type == NIB_F32 || t.type == NIB_F16 || t.type == NIB_BF16;
        if (status || t.rank != 2 || !dense || t.shape[1] < 128)
            continue; /* vectors, and matrices too narrow for the groups of the table */
        float *w = malloc((size_t)(t.shape[0] * t.shape[1]) * sizeof(*w));
        if (!w) {
            fprintf(stderr, "no memory for %s\n", t.name);
            break;
        }
        status = nib_file_read_f32(file, i, 0, t.shape[0], w);
        for (int r = 0; !status && r < RECIPES; r++)
            status =
                quantize_one(&recipes[r], threads, w, t.shape[0], t.shape[1], t.name, &scores[r]);
        free(w);
    }
    nib_file_close(file);
    return status;
}

static void print_scores(const score *scores)
{
    static const char *const method[] = {"RTN", "percentile 99.9", "HQQ"};
    printf("%" PRId64 " matrices, %" PRId64 " weights\n\n", scores[0].matrices, scores[0].weights);
    printf("| quantiser | weight | method | bits/weight | mean SNR, dB | worst, dB | worst matrix "
           "| Mweights/s a core |\n|---|---|---|---|---|---|---|---|\n");
    for (int r = 0; r < RECIPES; r++) {
        const score *s = &scores[r];
        printf("| %s | `%s` | %s | %.3f | %.2f | %.2f | %s | %.0f |\n", recipes[r].name,
               recipes[r].weight, method[recipes[r].method], s->bits / (double)s->weights,
               s->db / (double)s->matrices, s->worst_db, s->worst,
               (double)s->weights / s->seconds / 1e6);
    }
}

int main(int argc, char **argv)
{
    static score scores[RECIPES];
    int32_t threads = 1;
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--threads")) {
        threads = (int32_t)strtol(argv[2], NULL, 10);
        first = 3;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: bench-snr [--threads N] FILE...\n");
        return 2;
    }
    for (int i = first; i < argc; i++)
        if (score_file(argv[i], threads, scores)) {
            fprintf(stderr, "%s: %s\n", argv[i], nib_last_message());
            return 1;
        }
    if (!scores[0].matrices) {
        fprintf(stderr, "no dense matrix in the files given\n");
        return 1;
    }
    print_scores(scores);
    return 0;
}
