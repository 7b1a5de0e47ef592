/* SPDX-License-Identifier: Apache-2.0
 *
 * Baselines: see baseline.h. cuBLAS multiplies the same activations by the dequantised weights, in
 * the 16-bit type nearest to the product's or in e4m3; of a product with bias, epilogue or scales
 * of activations it computes the product alone.
 */
#include "baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMOKE_SECONDS 0.01 /* below, only that everything runs is of interest */
#define LEAST_ROUNDS  5

static const char *const names[TOOL_BASELINES] = {"floor", "cublas", "cublas-fp8"};

const char *tool_baseline_name(int index)
{
    return names[index];
}

/* ---- the option ---- */

static int find_name(const char *word, size_t length)
{
    for (int i = 0; i < TOOL_BASELINES; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], word, length))
            return i;
    return -1;
}

tool_exit tool_baseline_parse(const tool_verb *verb, const char *list, tool_baseline *out)
{
    while (list && *list) {
        size_t length = strcspn(list, ",");
        int index = find_name(list, length);
        if (index < 0)
            return tool_usage(verb, "there is no baseline '%.*s': floor, cublas or cublas-fp8",
                              (int)length, list);
        out->wanted[index] = true;
        list += length + (list[length] == ',');
    }
    return TOOL_OK;
}

bool tool_baseline_wanted(const tool_baseline *b)
{
    return b->wanted[TOOL_FLOOR] || b->wanted[TOOL_CUBLAS] || b->wanted[TOOL_CUBLAS_FP8];
}

/* ---- the device ---- */

tool_exit tool_baseline_open(tool_baseline *b, const nib_device_info *info, double seconds,
                             bool warm)
{
    char why[512];
    int index;
    if (strcmp(info->backend, "cuda") || sscanf(info->selector, "cuda:%d", &index) != 1)
        return tool_error(TOOL_USAGE,
                          "--baseline times NVIDIA GPUs, and %s is none; leave it out, or name "
                          "one: --device cuda:0",
                          info->selector);
    if (!bench_cuda_open(&b->cuda, index, why, sizeof(why)))
        return tool_error(TOOL_MISSING, "%s for --baseline: %s", info->selector, why);
    b->seconds = seconds;
    b->smoke = seconds < SMOKE_SECONDS;
    b->rotate = warm ? 0 : 2 * info->cache_bytes;
    if (b->wanted[TOOL_FLOOR]) {
        b->has_reader = bench_reader_open(&b->reader, &b->cuda, why, sizeof(why));
        if (!b->has_reader)
            fprintf(stderr, "nib: no read floor: %s\n", why);
    }
    if (b->wanted[TOOL_CUBLAS] || b->wanted[TOOL_CUBLAS_FP8]) {
        b->has_cublas = bench_cublas_open(&b->cublas, &b->cuda, NULL, why, sizeof(why));
        if (!b->has_cublas)
            fprintf(stderr, "nib: no cuBLAS, its columns stay empty: %s\n", why);
    }
    return TOOL_OK;
}

void tool_baseline_close(tool_baseline *b)
{
    if (!b->cuda.library)
        return;
    tool_baseline_unload(b);
    if (b->has_cublas)
        bench_cublas_close(&b->cublas, &b->cuda);
    if (b->has_reader)
        bench_reader_close(&b->reader);
    bench_cuda_close(&b->cuda);
}

/* ---- a product ---- */

static bench_pace pace_of(const tool_baseline *b)
{
    return (bench_pace){.rounds = LEAST_ROUNDS, .smoke = b->smoke};
}

static nib_type sixteen_bits(nib_type type)
{
    return type == NIB_BF16 ? NIB_BF16 : NIB_F16;
}

static tool_exit load_dense(tool_baseline *b, const tool_runner *r, const tool_product *p)
{
    const nib_gemm_desc *d = &p->desc;
    int64_t n = d->weight.n, k = d->weight.k;
    nib_type type = nib_type_bits(d->act_type) == 16 ? d->act_type : sixteen_bits(d->out_type);
    float *weights = malloc((size_t)(n * k) * sizeof(float));
    float *act = malloc((size_t)(p->m * k) * sizeof(float));
    tool_exit code = TOOL_OK;
    if (!weights || !act)
        code = tool_error(TOOL_NO_MEMORY, "no memory for the dequantised weights of a baseline");
    nib_status status = code ? NIB_OK : nib_weights_dequantize(r->weights[0], 0, n, weights, k);
    if (status)
        code = tool_fail(status);
    for (int64_t i = 0; i < p->m * k && !code; i++)
        act[i] = (float)tool_load(d->act_type, p->act, i);
    for (int i = TOOL_CUBLAS; i <= TOOL_CUBLAS_FP8 && !code; i++) {
        bench_dense_source source = {.m = p->m,
                                     .n = n,
                                     .k = k,
                                     .type = i == TOOL_CUBLAS ? type : NIB_E4M3,
                                     .out_type = sixteen_bits(d->out_type),
                                     .weights = weights,
                                     .act = act,
                                     .bytes = b->rotate};
        if (!b->wanted[i])
            continue;
        b->loaded[i] = bench_dense_open(&b->dense[i], &b->cublas, &b->cuda, &source);
        if (!b->loaded[i])
            bench_dense_close(&b->dense[i], &b->cuda);
    }
    free(weights);
    free(act);
    return code;
}

tool_exit tool_baseline_load(tool_baseline *b, const tool_runner *r, const tool_product *p)
{
    bench_pace pace = pace_of(b);
    if (b->has_reader)
        b->loaded[TOOL_FLOOR] = bench_reader_load(&b->reader, r->packed_bytes, b->rotate, &pace);
    return b->has_cublas && p->m > 0 ? load_dense(b, r, p) : TOOL_OK;
}

void tool_baseline_unload(tool_baseline *b)
{
    for (int i = TOOL_CUBLAS; i <= TOOL_CUBLAS_FP8; i++)
        if (b->loaded[i])
            bench_dense_close(&b->dense[i], &b->cuda);
    memset(b->loaded, 0, sizeof(b->loaded));
}

/* ---- a measurement ---- */

static int launch(void *user, int64_t call, void *stream)
{
    tool_runner *r = user;
    r->args.stream = stream;
    nib_status status = nib_gemm_run(r->gemm, r->weights[call % r->copies], &r->args);
    r->args.stream = NULL;
    if (status)
        tool_fail(status);
    return status != NIB_OK;
}

static bool is_bare(const nib_gemm_desc *d)
{
    return !d->bias_type && !d->epilogue && !d->act_scale && d->out_type != NIB_I32;
}

/* Whether cuBLAS computed about what the product did: a baseline of something else is none. */
static bool agrees(tool_baseline *b, const tool_runner *r, const tool_product *p, int64_t m,
                   int index)
{
    const bench_dense *d = &b->dense[index];
    int64_t count = m * p->desc.weight.n;
    size_t unit = (size_t)nib_type_bits(p->desc.out_type) / 8;
    void *ours = malloc((size_t)count * unit), *theirs = malloc((size_t)count * 2);
    double error = 0, norm = 0;
    bool good = ours && theirs &&
                bench_cuda_download(&b->cuda, ours, (bench_cuda_memory)(uintptr_t)r->args.out,
                                    (size_t)count * unit) &&
                bench_cuda_download(&b->cuda, theirs, d->out, (size_t)count * 2);
    for (int64_t i = 0; i < count && good; i++) {
        double x = tool_load(p->desc.out_type, ours, i), y = tool_load(d->out_type, theirs, i);
        error += (x - y) * (x - y);
        norm += x * x;
    }
    free(ours);
    free(theirs);
    /* Weights and activations rounded to e4m3 are off by up to 2^-4 each. */
    if (good && error <= norm * (index == TOOL_CUBLAS_FP8 ? 0.01 : 4e-4))
        return true;
    fprintf(stderr, "nib: %s computes something else here and is left out\n", names[index]);
    return false;
}

/* As many rounds as fill the time asked for, but five at least. */
static bool time_rounds(tool_baseline *b, bench_runner *const *list, int count)
{
    bench_pace pace = pace_of(b);
    double round_us = 0;
    pace.rounds = 1;
    if (!bench_rounds(&b->cuda, list, count, &pace))
        return false;
    for (int i = 0; i < count; i++)
        round_us += list[i]->stat.us * (double)list[i]->stat.calls;
    double rounds = 1e6 * b->seconds / round_us;
    pace.rounds = rounds < LEAST_ROUNDS        ? LEAST_ROUNDS
                  : rounds > BENCH_MOST_ROUNDS ? BENCH_MOST_ROUNDS
                                               : (int)rounds;
    return bench_rounds(&b->cuda, list, count, &pace);
}

/* The contender of a baseline; false: it is not loaded or does not run. */
static bool open_runner(tool_baseline *b, int index, int64_t m, bench_runner *r)
{
    bench_pace pace = pace_of(b);
    *r = (bench_runner){.name = names[index],
                        .launch = index == TOOL_FLOOR ? bench_reader_launch : bench_dense_launch,
                        .user = index == TOOL_FLOOR ? (void *)&b->reader : &b->dense[index],
                        .copies = index == TOOL_FLOOR ? b->reader.copies : b->dense[index].copies};
    return b->loaded[index] && (index == TOOL_FLOOR || bench_dense_rows(&b->dense[index], m)) &&
           bench_runner_open(&b->cuda, r, &pace);
}

tool_exit tool_baseline_time(tool_baseline *b, tool_runner *runner, const tool_product *p,
                             int64_t m, tool_beside *out)
{
    bench_runner list[1 + TOOL_BASELINES], *order[1 + TOOL_BASELINES];
    int of[TOOL_BASELINES], count = 1;
    bench_pace pace = pace_of(b);
    *out = (tool_beside){0};
    runner->args.m = m;
    list[0] = (bench_runner){
        .name = "the product", .launch = launch, .user = runner, .copies = runner->copies};
    if (!bench_runner_open(&b->cuda, &list[0], &pace))
        return tool_error(TOOL_DEVICE_LOST, "the product does not run in a CUDA graph");
    for (int i = 0; i < TOOL_BASELINES; i++)
        if (open_runner(b, i, m, &list[count]))
            of[count++ - 1] = i;
    for (int i = 0; i < count; i++)
        order[i] = &list[i];
    bool good = time_rounds(b, order, count);
    out->ours = list[0].stat;
    for (int i = 1; i < count && good; i++)
        if (of[i - 1] == TOOL_FLOOR || !is_bare(&p->desc) || agrees(b, runner, p, m, of[i - 1]))
            out->other[of[i - 1]] = list[i].stat;
    for (int i = 0; i < count; i++)
        bench_runner_close(&b->cuda, &list[i]);
    return good ? TOOL_OK : tool_error(TOOL_DEVICE_LOST, "the GPU failed while it was timed");
}
