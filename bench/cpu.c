/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-cpu: nibblas on the CPU against other libraries, which are opened at run time, interleaved
 * in one run on the same data. Reads case files, one description a line plus m=; lines that follow
 * each other with the same weights and m are one contest. README.md beside this file says how to
 * use it, support/ holds the parts.
 */
#include "support/report.h"

#include <ctype.h>
#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define MAX_RIVALS     16
#define MAX_CASES      256
#define MAX_CONTENDERS (MAX_RIVALS + 16)

typedef struct case_line {
    nib_gemm_desc desc;
    int64_t m;
} case_line;

typedef struct options {
    int threads, rounds;
    bool memory, cached, ours;
    const char *baseline; /* part of a contender's name; NULL: the fastest rival */
    void *openblas;
    const nib_rival *rivals[MAX_RIVALS];
    int rival_count;
    case_line *cases;
    int case_count;
    bench_report report;
} options;

static const char usage[] =
    "usage: bench-cpu [option...] CASES...\n"
    "  CASES                 files of lines such as: n=4096 k=4096 w=i4 g=32 s=f16 a=f32 o=f32 "
    "m=1\n"
    "  --openblas LIBRARY    also time cblas_sgemm of this library on the dequantised matrix\n"
    "  --rival LIBRARY       also time what this adapter (rival.h) offers; may be repeated\n"
    "  --baseline NAME       ratios are to the contender whose name holds NAME, not the best "
    "rival\n"
    "  --residency WHICH     memory (rotate beyond the cache), cached, or both (the default)\n"
    "  --rounds N            rounds of a contest (default 9)\n"
    "  --threads N           threads of every contender (default: what OpenMP says)\n"
    "  --without-ours        time the rivals only\n"
    "  --json FILE, --csv FILE\n"
    "exit status: 0 done, 1 a contender was wrong or failed, 2 bad usage\n";

static bool open_rival(options *o, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    nib_rival_get_fn get = NULL;
    if (library)
        *(void **)&get = dlsym(library, NIB_RIVAL_SYMBOL);
    if (!get) {
        fprintf(stderr, "bench: %s is no adapter: %s\n", path, dlerror());
        return false;
    }
    const nib_rival *rival;
    for (int32_t i = 0; (rival = get(i)) && o->rival_count < MAX_RIVALS; i++) {
        if (rival->version != NIB_RIVAL_VERSION) {
            fprintf(stderr, "bench: %s is of version %d, this program of %d\n", path,
                    rival->version, NIB_RIVAL_VERSION);
            return false;
        }
        printf("rival %s: %s\n", rival->name, rival->about);
        o->rivals[o->rival_count++] = rival;
    }
    return true;
}

static bool open_output(const char *path, FILE **out)
{
    *out = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (!*out)
        fprintf(stderr, "bench: cannot write %s\n", path);
    return *out;
}

/* Takes " m=8" out of a line; 1 where there is none, 0 where it is no count. */
static int64_t take_m(char *line)
{
    for (char *at = line; (at = strstr(at, "m=")); at++) {
        if (at != line && !isspace((unsigned char)at[-1]))
            continue;
        char *end;
        long long m = strtoll(at + 2, &end, 10);
        memset(at, ' ', (size_t)(end - at));
        return m > 0 && m <= 1 << 20 ? m : 0;
    }
    return 1;
}

static bool read_cases(options *o, const char *path)
{
    char line[512];
    int number = 0;
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "bench: cannot read %s\n", path);
        return false;
    }
    bool good = true;
    while (good && fgets(line, sizeof(line), f)) {
        number++;
        line[strcspn(line, "#\n")] = 0;
        if (!line[strspn(line, " \t\r")])
            continue;
        case_line c = {.m = take_m(line)};
        good = c.m && o->case_count < MAX_CASES && !nib_gemm_desc_parse(line, &c.desc);
        if (good)
            o->cases[o->case_count++] = c;
        else
            fprintf(stderr, "bench: %s:%d: %s\n", path, number,
                    !c.m                         ? "m= is no count from 1 to 2^20"
                    : o->case_count == MAX_CASES ? "too many cases"
                                                 : nib_last_message());
    }
    fclose(f);
    return good;
}

static bool parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {{"openblas", 1, 0, 'o'}, {"rival", 1, 0, 'r'},
                                          {"baseline", 1, 0, 'b'}, {"residency", 1, 0, 'c'},
                                          {"rounds", 1, 0, 'n'},   {"threads", 1, 0, 't'},
                                          {"json", 1, 0, 'j'},     {"without-ours", 0, 0, 'w'},
                                          {"csv", 1, 0, 's'},      {0, 0, 0, 0}};
    bool good = true;
    for (int c; good && (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'o':
            o->openblas = dlopen(optarg, RTLD_NOW | RTLD_LOCAL);
            good = o->openblas;
            if (!good)
                fprintf(stderr, "bench: %s\n", dlerror());
            break;
        case 'r':
            good = open_rival(o, optarg);
            break;
        case 'b':
            o->baseline = optarg;
            break;
        case 'c':
            o->memory = strcmp(optarg, "cached");
            o->cached = strcmp(optarg, "memory");
            break;
        case 'n':
            good = (o->rounds = atoi(optarg)) > 0;
            break;
        case 't':
            good = (o->threads = atoi(optarg)) > 0;
            break;
        case 'w':
            o->ours = false;
            break;
        case 'j':
            good = open_output(optarg, &o->report.json);
            break;
        case 's':
            good = open_output(optarg, &o->report.csv);
            break;
        default:
            good = false;
        }
    }
    if (!good || optind == argc)
        return false;
    for (int i = optind; good && i < argc; i++)
        good = read_cases(o, argv[i]);
    return good;
}

static bool same_contest(const case_line *a, const case_line *b)
{
    return a->m == b->m && !memcmp(&a->desc.weight, &b->desc.weight, sizeof(a->desc.weight));
}

/* The fastest rival, or the fastest contender that --baseline names; -1: none. */
static int baseline_of(const options *o, const bench_contender *list, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        bool candidate =
            o->baseline ? strstr(list[i].name, o->baseline) != NULL : list[i].kind == BENCH_RIVAL;
        if (candidate && list[i].count &&
            (best < 0 || bench_quantile(&list[i], 0.5) < bench_quantile(&list[best], 0.5)))
            best = i;
    }
    return best;
}

/* The stream is measured again before every contest and the best counts: a roof that other work on
 * the machine lowered would flatter. So would one below what a contest's own floor reached. */
static void raise_roof(bench_machine *machine, const bench_contender *list, int count, bool cached)
{
    for (int i = 0; i < count && !cached; i++)
        if (list[i].kind == BENCH_READ && list[i].count)
            machine->read_gb_per_s = fmax(
                machine->read_gb_per_s, (double)list[i].bytes / bench_quantile(&list[i], 0) * 1e-3);
    machine->read_gb_per_s =
        fmax(machine->read_gb_per_s,
             bench_read_bandwidth(5 * machine->cache_bytes, machine->threads, 4));
}

/* Bytes of codes, scales and zeros: what any packing must read. */
static size_t packed_bytes(const nib_weight_desc *weight)
{
    size_t codes = 0, scales = 0, zeros = 0;
    nib_weight_desc_bytes(weight, &codes, &scales, &zeros, NULL);
    if (weight->zero == NIB_ZERO_CODE)
        zeros = zeros * (size_t)nib_type_bits(weight->type) / 8;
    return codes + scales + zeros;
}

/* One contest: lines first..first+lines-1. Returns how many contenders failed. */
static int contest(options *o, bench_machine *machine, nib_device *dev, const case_line *first,
                   int lines, bool cached)
{
    bench_settings settings = {.threads = o->threads,
                               .rounds = o->rounds,
                               .cache_bytes = machine->cache_bytes,
                               .cached = cached};
    const nib_weight_desc *weight = &first->desc.weight;
    bool q4_0 = o->rival_count && bench_is_q4_0(weight);
    /* With one row a dense product reads eight times the bytes: nothing to learn. */
    bool dense = o->openblas && first->m > 1;
    bench_contender list[MAX_CONTENDERS];
    bench_problem p;
    int count = 0, failed = 0;
    unsigned want = (q4_0 ? BENCH_WANT_Q4_0 : 0) | (dense ? BENCH_WANT_DENSE : 0);
    if (!bench_problem_make(&p, weight, first->m, want))
        return 1;
    if (bench_read_make(&list[count], &p, &settings, packed_bytes(weight)))
        count++;
    for (int i = 0; dev && i < lines && count < MAX_CONTENDERS; i++) {
        bool made = bench_ours_make(&list[count], &p, &settings, dev, &first[i].desc);
        count += made;
        failed += !made;
    }
    for (int i = 0; q4_0 && i < o->rival_count && count < MAX_CONTENDERS; i++) {
        bool made = bench_rival_make(&list[count], &p, &settings, o->rivals[i]);
        count += made;
        failed += !made;
    }
    for (int i = 0; dense && i < 2 && count < MAX_CONTENDERS; i++) {
        bool made = bench_openblas_make(&list[count], &p, &settings, o->openblas, i == 1);
        count += made;
        failed += !made;
    }
    failed += bench_contest_run(list, count, &p, &settings);
    raise_roof(machine, list, count, cached);
    bench_report_contest(&o->report, machine, &p, &settings, list, count,
                         baseline_of(o, list, count));
    for (int i = 0; i < count; i++)
        bench_contender_free(&list[i]);
    bench_problem_free(&p);
    return failed;
}

static bool open_ours(nib_context **ctx, nib_device **dev, bench_machine *machine)
{
    nib_device_info info = {.size = sizeof(info)};
    if (nib_context_create(NULL, ctx) || nib_device_open(*ctx, "cpu", dev) ||
        nib_device_get_info(*dev, &info)) {
        fprintf(stderr, "bench: %s\n", nib_last_message());
        return false;
    }
    snprintf(machine->isa, sizeof(machine->isa), "%s", info.isa);
    if (info.units != machine->threads)
        fprintf(stderr, "bench: nibblas uses %d threads, the others %d\n", info.units,
                machine->threads);
    return true;
}

static void describe_openblas(void *library, bench_machine *machine)
{
    char *(*core)(void) = NULL, *(*config)(void) = NULL;
    if (!library)
        return;
    *(void **)&core = dlsym(library, "openblas_get_corename");
    *(void **)&config = dlsym(library, "openblas_get_config");
    snprintf(machine->openblas, sizeof(machine->openblas), "%s (%.70s)", core ? core() : "?",
             config ? config() : "?");
}

int main(int argc, char **argv)
{
    case_line cases[MAX_CASES];
    options o = {.rounds = 9, .memory = true, .cached = true, .ours = true, .cases = cases};
    bench_machine machine = {0};
    nib_context *ctx = NULL;
    nib_device *dev = NULL;
    int failed = 0;
    o.report.table = stdout;
#ifdef _OPENMP
    o.threads = omp_get_max_threads();
#else
    o.threads = 1;
#endif
    if (!parse_options(&o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
#ifdef _OPENMP
    omp_set_num_threads(o.threads);
#endif
    if (o.report.json == stdout || o.report.csv == stdout)
        o.report.table = stderr;
    machine.threads = o.threads;
    bench_machine_describe(&machine);
    describe_openblas(o.openblas, &machine);
    machine.read_gb_per_s = bench_read_bandwidth(5 * machine.cache_bytes, o.threads, 8);
    if (o.ours && !open_ours(&ctx, &dev, &machine))
        failed = 1;
    bench_report_begin(&o.report, &machine);
    for (int i = 0, lines; i < o.case_count; i += lines) {
        for (lines = 1; i + lines < o.case_count && same_contest(&cases[i], &cases[i + lines]);)
            lines++;
        if (o.memory)
            failed += contest(&o, &machine, dev, &cases[i], lines, false);
        if (o.cached)
            failed += contest(&o, &machine, dev, &cases[i], lines, true);
    }
    failed += !bench_report_end(&o.report);
    nib_device_close(dev);
    nib_context_destroy(ctx);
    return failed != 0;
}
