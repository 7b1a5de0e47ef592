/* SPDX-License-Identifier: Apache-2.0
 *
 * sim-calibrate: the same instructions and products on a GPU and on the simulator, compared. Runs
 * on whatever NIB_CUDA_LIBRARY is (libcuda.so.1 without it):
 *
 *     sim-calibrate run FILE FOLDER     writes the raw outputs; FOLDER: tests/sim/cuda/probes
 *     sim-calibrate compare ONE OTHER   prints a line a probe; fails where integers or codes differ
 *                                       or floats by more than the probe allows
 *
 * docs/simulator.md has the table. To compare with a chip, the simulator must pose as it
 * (NIB_SIM_CC), for the split of K depends on its multiprocessors. Probes: cuda/probes/.
 */
#include "calibrate.h"

#include "api/internal.h"
#include "support/problem.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = 32, LANES = WARPS * 32, NAME_BYTES = 96 };

/* A record of the file, followed by `bytes` of data. */
typedef struct record {
    char name[NAME_BYTES];
    uint32_t kind, bytes;
} record;

typedef struct probe {
    const char *name;
    number kind;
} probe;

static const probe alu[] = {
#define PROBE(name, kind, text) {#name, kind},
#include "cuda/probes/alu.inc"
#undef PROBE
};
enum { ALU = sizeof(alu) / sizeof(alu[0]) };

/* Operand types: how a word is drawn. */
typedef struct product {
    const char *name;
    number operands, result;
} product;

static const product products[] = {
    {"probe_mma_f16", F16, F32},  {"probe_mma_bf16", BF16, F32}, {"probe_mma_s8", WORD, WORD},
    {"probe_mma_u8", WORD, WORD}, {"probe_mma_acc16", F16, F16}, {"probe_ldmatrix", WORD, WORD},
};

/* Whole products, each with one kernel of a family. */
static const struct {
    const char *variant, *line;
} gemms[] = {
    {"any-general-m16", "n=72 k=200 w=u4 g=32 s=f16 a=f16 o=f32 m=5"},
    {"any-general-m16", "n=72 k=200 w=nf4 g=40 s=f32 a=f32 o=f32 b=f32 e=gelu m=5"},
    {"any-general-m16", "n=72 k=200 w=i8 s=none a=i8 acc=i32 o=i32 m=5"},
    {"gemm-sm80-m16n128k128s4w4x1x2", "n=72 k=520 w=u4 g=32 s=f16 z=code a=f16 o=f32 m=9"},
    {"gemm-sm80-m16n128k128s4w4x1x2", "n=72 k=520 w=i3 g=64 s=f16 a=bf16 o=f32 e=silu m=9"},
    {"gemm-sm80-m16n128k128s4w4x1x2", "n=72 k=520 w=nf4 g=64 s=f16 a=f16 o=f16 m=9"},
    {"gemm-sm80-m16n128k128s4w4x1x2", "n=72 k=520 w=i8 s=none a=i8 acc=i32 o=i32 m=9"},
    {"gemm-sm80-m16n128k128s4w4x1x2", "n=72 k=520 w=u4 g=32 s=f16 a=i8 o=f32 m=9"},
    {"dec-sm80-m16n32w8s2", "n=72 k=520 w=u4 g=32 s=f16 z=float:f16 a=f16 o=f32 m=9"},
    {"dec-sm80-m8n32w8s2", "n=72 k=2056 w=u4 g=128 s=f16 a=f16 o=f32 m=1"},
    {"dec-sm80-m16n32w8s2", "n=72 k=520 w=e2m1 g=32 s=e8m0 a=bf16 o=f32 m=9"},
    {"dec-sm80-m16n32w8s2", "n=72 k=520 w=i8 s=none a=i8 acc=i32 o=i32 m=9"},
};

_Noreturn void calibrate_fail(const char *what, int code)
{
    fprintf(stderr, "sim-calibrate: %s (%d) %s\n", what, code, nib_last_message());
    exit(2);
}

void calibrate_put(FILE *file, const char *name, number kind, const void *data, size_t bytes)
{
    record r = {.kind = (uint32_t)kind, .bytes = (uint32_t)bytes};
    snprintf(r.name, sizeof(r.name), "%s", name);
    if (fwrite(&r, sizeof(r), 1, file) != 1 || fwrite(data, 1, bytes, file) != bytes)
        calibrate_fail("cannot write", 0);
}

/* ---- the probes' PTX ---------------------------------------------------------------------- */

static void *entry(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    if (!found)
        calibrate_fail(name, 0);
    return found;
}

static char *read_text(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 18);
    if (!file || !text || fread(text, 1, (1 << 18) - 1, file) == 0)
        calibrate_fail(path, 0);
    fclose(file);
    return text;
}

/* By NVRTC: NIB_NVRTC_LIBRARY, or the one that the linker finds. */
static char *compile(const char *folder)
{
    const char *name = getenv("NIB_NVRTC_LIBRARY"), *included = "alu.inc";
    void *library = dlopen(name ? name : "libnvrtc.so.13", RTLD_NOW);
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*build)(void *, int, const char *const *);
    int (*size_of)(void *, size_t *);
    int (*ptx_of)(void *, char *);
    int (*destroy)(void **);
    *(void **)&create = entry(library, "nvrtcCreateProgram");
    *(void **)&build = entry(library, "nvrtcCompileProgram");
    *(void **)&size_of = entry(library, "nvrtcGetPTXSize");
    *(void **)&ptx_of = entry(library, "nvrtcGetPTX");
    *(void **)&destroy = entry(library, "nvrtcDestroyProgram");
    char *source = read_text(folder, "probes.cu"), *list = read_text(folder, included);
    const char *const options[] = {"--gpu-architecture=compute_80"};
    void *program = NULL;
    size_t bytes = 0;
    int result = create(&program, source, "probes.cu", 1, (const char *const *)&list, &included);
    if (!result)
        result = build(program, 1, options);
    if (!result)
        result = size_of(program, &bytes);
    char *ptx = result ? NULL : calloc(bytes + 1, 1);
    if (!ptx || ptx_of(program, ptx))
        calibrate_fail("the probes do not compile", result);
    destroy(&program);
    free(source);
    free(list);
    return ptx;
}

/* ---- probes, through the driver ----------------------------------------------------------- */

/* The context stays current until the program ends. */
static driver open_driver(const char *ptx)
{
    const char *name = getenv("NIB_CUDA_LIBRARY");
    void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);
    CUcontext ctx;
    driver d;
#define GET(field, symbol) *(void **)&field = entry(library, #symbol)
    __typeof__(cuInit) *init;
    __typeof__(cuDevicePrimaryCtxRetain) *retain;
    __typeof__(cuCtxPushCurrent_v2) *push;
    GET(init, cuInit);
    GET(retain, cuDevicePrimaryCtxRetain);
    GET(push, cuCtxPushCurrent_v2);
    GET(d.load, cuModuleLoadData);
    GET(d.attribute, cuDeviceGetAttribute);
    GET(d.alloc, cuMemAlloc_v2);
    GET(d.release, cuMemFree_v2);
    GET(d.up, cuMemcpyHtoD_v2);
    GET(d.down, cuMemcpyDtoH_v2);
    GET(d.function, cuModuleGetFunction);
    GET(d.launch, cuLaunchKernel);
    GET(d.synchronize, cuCtxSynchronize);
#undef GET
    int result = init(0);
    if (!result)
        result = retain(&ctx, 0);
    if (!result)
        result = push(ctx);
    if (!result)
        result = d.load(&d.module, ptx);
    if (result)
        calibrate_fail("the driver does not start, or does not take the probes", result);
    return d;
}

CUdeviceptr calibrate_upload(const driver *d, const void *data, size_t bytes)
{
    CUdeviceptr memory;
    int result = d->alloc(&memory, bytes);
    if (!result)
        result = d->up(memory, data, bytes);
    if (result)
        calibrate_fail("cuMemcpyHtoD", result);
    return memory;
}

void calibrate_run(const driver *d, const char *name, unsigned blocks, unsigned threads,
                   void **params)
{
    CUfunction function;
    int result = d->function(&function, d->module, name);
    if (!result)
        result = d->launch(function, blocks, 1, 1, threads, 1, 1, 0, NULL, params, NULL);
    if (!result)
        result = d->synchronize();
    if (result)
        calibrate_fail(name, result);
}

static uint32_t half_near(test_random *random, int spread)
{
    uint32_t bits = (uint32_t)test_random_next(random);
    uint32_t exponent = 15u - (unsigned)spread / 2 + (bits >> 20) % ((unsigned)spread + 1);
    return (bits & 0x83ff) | exponent << 10;
}

static uint32_t bfloat_near(test_random *random, int spread)
{
    uint32_t bits = (uint32_t)test_random_next(random);
    uint32_t exponent = 127u - (unsigned)spread / 2 + (bits >> 20) % ((unsigned)spread + 1);
    return (bits & 0x807f) | exponent << 7;
}

static uint32_t float_near(test_random *random, int spread)
{
    return bfloat_near(random, spread) << 16 | (test_random_next(random) & 0xffff);
}

/* Four 8-bit floats, without the codes of infinities and NaN. */
static uint32_t eights_near(test_random *random, int mantissa, int bias, int top, int spread)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t bits = (uint32_t)test_random_next(random);
        int exponent = bias - spread / 2 + (int)((bits >> 20) % ((unsigned)spread + 1));
        exponent = exponent < 0 ? 0 : exponent > top ? top : exponent;
        uint32_t code =
            (bits & 0x80) | (uint32_t)exponent << mantissa | ((bits >> 8) & ((1u << mantissa) - 1));
        word |= (top == 15 && (code & 0x7f) == 0x7f ? code - 1 : code) << 8 * i;
    }
    return word;
}

uint32_t calibrate_operand(test_random *random, number kind, int spread)
{
    uint32_t low;
    switch (kind) {
    case F16:
        low = half_near(random, spread);
        return low | half_near(random, spread) << 16;
    case BF16:
        low = bfloat_near(random, spread);
        return low | bfloat_near(random, spread) << 16;
    case F32:
        return float_near(random, spread);
    case E4M3:
        return eights_near(random, 3, 7, 15, spread);
    case E5M2:
        return eights_near(random, 2, 15, 30, spread);
    default:
        return (uint32_t)test_random_next(random);
    }
}

/* Bits at random, pairs of f16, f32, and small integers for amounts. */
static void draw_alu(test_random *random, uint32_t words[3][LANES])
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 3; j++) {
            number kind = (number[]){WORD, F16, F32, WORD}[i / 32 % 4];
            uint32_t word = calibrate_operand(random, kind, 2 + i / 128 % 8 * 4);
            words[j][i] = i / 32 % 4 == 3 ? word % 71 : word;
        }
}

static void run_alu(const driver *d, FILE *file)
{
    static uint32_t words[3][LANES], out[ALU * LANES];
    test_random random = {11};
    int count = LANES;
    draw_alu(&random, words);
    CUdeviceptr a = calibrate_upload(d, words[0], sizeof(words[0])),
                b = calibrate_upload(d, words[1], sizeof(words[1]));
    CUdeviceptr c = calibrate_upload(d, words[2], sizeof(words[2])),
                o = calibrate_upload(d, out, sizeof(out));
    calibrate_run(d, "probe_alu", WARPS, 32, (void *[]){&a, &b, &c, &o, &count});
    if (d->down(out, o, sizeof(out)))
        calibrate_fail("cuMemcpyDtoH", 0);
    for (int i = 0; i < (int)ALU; i++)
        calibrate_put(file, alu[i].name, alu[i].kind, out + i * LANES, LANES * sizeof(uint32_t));
}

static void run_products(const driver *d, FILE *file)
{
    static uint32_t a[LANES * 4], b[LANES * 2], c[LANES * 4], out[LANES * 4];
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        const product *p = &products[i];
        test_random random = {13 + i};
        for (int j = 0; j < LANES * 4; j++) {
            int spread = 4 + j / 4 / 32 % 4 * 6;
            a[j] = calibrate_operand(&random, p->operands, spread);
            b[j / 2] = calibrate_operand(&random, p->operands, spread);
            c[j] = j / 128 % 3 ? calibrate_operand(&random, p->result, spread + 4) : 0;
        }
        CUdeviceptr da = calibrate_upload(d, a, sizeof(a)), db = calibrate_upload(d, b, sizeof(b));
        CUdeviceptr dc = calibrate_upload(d, c, sizeof(c)),
                    o = calibrate_upload(d, out, sizeof(out));
        calibrate_run(d, p->name, WARPS, 32, (void *[]){&da, &db, &dc, &o});
        if (d->down(out, o, sizeof(out)))
            calibrate_fail("cuMemcpyDtoH", 0);
        calibrate_put(file, p->name, p->result, out, sizeof(out));
    }
}

/* ---- products, through the library -------------------------------------------------------- */

static void *send(nib_device *dev, const void *data, size_t bytes)
{
    void *memory = NULL;
    if (nib_memory_alloc(dev, bytes + 16, &memory) ||
        (bytes && nib_memory_copy(dev, memory, data, bytes, NIB_COPY_TO_DEVICE, NULL)))
        calibrate_fail("memory", 0);
    return memory;
}

static number kind_of(nib_type type)
{
    return type == NIB_F32 ? F32 : type == NIB_F16 ? F16 : type == NIB_BF16 ? BF16 : WORD;
}

static void run_gemm(nib_device *dev, const char *variant, const char *line, FILE *file)
{
    test_case given;
    test_problem p;
    nib_gemm *gemm;
    nib_weights *weights;
    size_t workspace = 0;
    char name[256];
    if (test_case_parse(line, &given) || test_problem_create(&given, &p) ||
        nib_gemm_create(dev, p.ref.desc, &gemm) || nib_gemm_force_variant(gemm, variant) ||
        nib_gemm_prepare(gemm, given.m, given.m) || nib_gemm_workspace(gemm, given.m, &workspace) ||
        nib_weights_pack(gemm, &p.plain, &weights))
        calibrate_fail(line, 0);
    const nib_gemm_desc *desc = p.ref.desc;
    size_t bytes =
        (size_t)given.m * (size_t)desc->weight.n * (size_t)nib_type_bits(desc->out_type) / 8;
    void *out = calloc(bytes + 4, 1);
    nib_gemm_args args = {.size = sizeof(args),
                          .m = given.m,
                          .act = send(dev, p.act, p.act_bytes),
                          .lda = desc->weight.k,
                          .bias = desc->bias_type ? send(dev, p.bias, p.bias_bytes) : NULL,
                          .out = send(dev, out, bytes),
                          .ldo = desc->weight.n,
                          .workspace = send(dev, NULL, 0),
                          .workspace_bytes = workspace};
    nib_memory_free(dev, args.workspace);
    if (nib_memory_alloc(dev, workspace + 16, &args.workspace) ||
        nib_gemm_run(gemm, weights, &args) ||
        nib_memory_copy(dev, out, args.out, bytes, NIB_COPY_TO_HOST, NULL) ||
        nib_stream_synchronize(dev, NULL))
        calibrate_fail(line, 0);
    snprintf(name, sizeof(name), "%.12s %s", variant, line);
    calibrate_put(file, name, kind_of(desc->out_type), out, bytes);
    free(out);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
    test_problem_destroy(&p);
}

static int run_everything(const char *path, const char *folder)
{
    nib_context *ctx;
    nib_device *dev;
    FILE *file = fopen(path, "wb");
    if (!file)
        calibrate_fail("cannot write the output", 0);
    char *ptx = compile(folder);
    driver d = open_driver(ptx);
    free(ptx);
    run_alu(&d, file);
    run_products(&d, file);
    calibrate_groups(&d, file);
    if (nib_context_create(NULL, &ctx) || nib_device_open(ctx, "cuda:0", &dev))
        calibrate_fail("no device", 0);
    for (size_t i = 0; i < sizeof(gemms) / sizeof(gemms[0]); i++)
        run_gemm(dev, gemms[i].variant, gemms[i].line, file);
    nib_device_close(dev);
    nib_context_destroy(ctx);
    return fclose(file) ? 2 : 0;
}

/* ---- comparing ---------------------------------------------------------------------------- */

/* Floats as integers that grow with them, so that neighbours differ by one; false: NaN. */
static bool ordered(uint32_t bits, int width, int mantissa, int64_t *out)
{
    uint32_t sign = 1u << (width - 1), magnitude = bits & (sign - 1);
    uint32_t infinity = (sign - 1) >> mantissa << mantissa;
    *out = bits & sign ? -(int64_t)magnitude : (int64_t)magnitude;
    return magnitude <= infinity;
}

static int64_t distance(uint32_t one, uint32_t other, int width, int mantissa)
{
    int64_t a, b;
    bool number_a = ordered(one, width, mantissa, &a),
         number_b = ordered(other, width, mantissa, &b);
    if (!number_a || !number_b)
        return number_a == number_b ? 0 : INT64_MAX;
    return llabs(a - b);
}

typedef struct outcome {
    size_t elements, equal;
    int64_t most; /* units in the last place */
} outcome;

static void note(outcome *o, int64_t units)
{
    o->elements++;
    o->equal += units == 0;
    if (units > o->most)
        o->most = units;
}

/* Sums of f32 may be contracted otherwise by a chip's own compiler, and parts of K differ from plan
 * to plan: results are compared in units of the last place of the largest. */
static outcome compare_sums(const float *one, const float *other, size_t count)
{
    outcome o = {0};
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(one[i]));
    for (size_t i = 0; i < count; i++)
        note(&o,
             one[i] == other[i] ? 0 : llrintf(fabsf(one[i] - other[i]) / largest * 0x1p24f) + 1);
    return o;
}

static outcome compare_data(const record *r, const uint32_t *one, const uint32_t *other)
{
    outcome o = {0};
    size_t bytes = r->bytes;
    number kind = r->kind;
    if (kind == F32 && strchr(r->name, '='))
        return compare_sums((const float *)(const void *)one, (const float *)(const void *)other,
                            bytes / 4);
    for (size_t i = 0; i < bytes / 4; i++) {
        if (kind != F32 && kind != F16 && kind != BF16) {
            note(&o, one[i] == other[i] ? 0 : INT64_MAX);
        } else if (kind == F32) {
            note(&o, distance(one[i], other[i], 32, 23));
        } else {
            int mantissa = kind == F16 ? 10 : 7;
            note(&o, distance(one[i] & 0xffff, other[i] & 0xffff, 16, mantissa));
            note(&o, distance(one[i] >> 16, other[i] >> 16, 16, mantissa));
        }
    }
    return o;
}

static bool read_record(FILE *file, record *r, uint32_t **data)
{
    if (fread(r, sizeof(*r), 1, file) != 1)
        return false;
    *data = calloc(1, r->bytes + 4);
    return *data && fread(*data, 1, r->bytes, file) == r->bytes;
}

/* Approximations differ by a unit or two between chips. */
static int64_t allowed(const record *r)
{
    if (r->kind == WORD)
        return 0;
    return strstr(r->name, "approx") ? 2 : strchr(r->name, '=') ? 16 : 0;
}

/* All records of a file; the last one has no name. */
typedef struct recording {
    record *head;
    uint32_t **data;
    int count;
} recording;

static recording read_all(const char *path)
{
    enum { MOST = 1000 };
    FILE *file = fopen(path, "rb");
    recording all = {calloc(MOST, sizeof(record)), calloc(MOST, sizeof(uint32_t *)), 0};
    if (!file || !all.head || !all.data)
        calibrate_fail(path, 0);
    while (all.count < MOST - 1 && read_record(file, &all.head[all.count], &all.data[all.count]))
        all.count++;
    fclose(file);
    return all;
}

static void release(recording *all)
{
    for (int i = 0; i < all->count; i++)
        free(all->data[i]);
    free(all->data);
    free(all->head);
}

static int find(const recording *all, const char *name)
{
    int i = 0;
    while (i < all->count && strcmp(all->head[i].name, name))
        i++;
    return i;
}

/* Probes that ONE does not have are named, no more: they are to be recorded. */
static int compare(const char *one_path, const char *other_path)
{
    recording one = read_all(one_path), other = read_all(other_path);
    int bad = 0, missing = 0;
    printf("| probe | results | equal bits | most units in the last place |\n|---|---|---|---|\n");
    for (int i = 0; i < one.count; i++) {
        const record *r = &one.head[i];
        int j = find(&other, r->name);
        if (j == other.count || other.head[j].bytes != r->bytes)
            calibrate_fail("the second file lacks a probe of the first, or has it of another size",
                           0);
        outcome o = compare_data(r, one.data[i], other.data[j]);
        bool good = o.most <= allowed(r);
        if (o.most == INT64_MAX)
            printf("| %s | %zu | %zu | different%s |\n", r->name, o.elements, o.equal,
                   good ? "" : " (FAIL)");
        else
            printf("| %s | %zu | %zu | %" PRId64 "%s |\n", r->name, o.elements, o.equal, o.most,
                   good ? "" : " (FAIL)");
        bad += !good;
    }
    for (int j = 0; j < other.count; j++) {
        if (find(&one, other.head[j].name) == one.count) {
            printf("| %s | not recorded | | |\n", other.head[j].name);
            missing++;
        }
    }
    printf("\n%d of %d probes agree, %d are not recorded\n", one.count - bad, one.count, missing);
    bad = bad || !one.count;
    release(&one);
    release(&other);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "run"))
        return run_everything(argv[2], argv[3]);
    if (argc == 4 && !strcmp(argv[1], "compare"))
        return compare(argv[2], argv[3]);
    fputs("usage: sim-calibrate run FILE FOLDER | compare ONE OTHER\n", stderr);
    return 2;
}
