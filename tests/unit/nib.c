/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `nib`, run as a user would: exit codes, suggestions, tables, files it writes and
 * files it must not leave behind. The test backends (tests/backends) give it wrong results to
 * notice.
 */
#include "support/files.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <nibblas/nibblas.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES (1 << 20)

static char folder[64];
static char output[OUTPUT_BYTES]; /* of the last run, both streams */

static void make_folder(void)
{
    strcpy(folder, "/tmp/nib-test-XXXXXX");
    cr_assert(mkdtemp(folder));
    cr_assert(!chdir(folder));
    unsetenv("NIB_DEVICE");
    unsetenv("NIB_BACKEND_PATH");
    setenv("NIB_PROGRESS", "0", 1);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert(!system(command));
}

TestSuite(nib, .init = make_folder, .fini = remove_folder);

/* Runs "nib ..." through the shell; answers the exit code. */
static int nib(const char *format, ...)
{
    char arguments[1024], command[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(arguments, sizeof(arguments), format, args);
    va_end(args);
    snprintf(command, sizeof(command), NIB_BINARY_DIR "/bin/nib %s 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    size_t got = fread(output, 1, sizeof(output) - 1, pipe);
    output[got] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define expect_output(text) cr_expect(strstr(output, text), "expected '%s' in:\n%s", text, output)

/* Files in the folder that are there beside those named. */
static int files_besides(const char *first, const char *second)
{
    int count = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' && strcmp(entry->d_name, first) &&
                 strcmp(entry->d_name, second);
    closedir(dir);
    return count;
}

/* An npy file of random values; `descr` is "<f4" or "<f2". */
static void write_npy(const char *path, const char *descr, int n, int k)
{
    test_random random = {test_seed(7)};
    char header[128];
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    int length =
        snprintf(header, sizeof(header),
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", descr, n, k);
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    unsigned char magic[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)padded, (unsigned char)(padded >> 8)};
    fwrite(magic, 1, sizeof(magic), file);
    fprintf(file, "%-*s\n", padded - 1, header);
    for (int64_t i = 0; i < (int64_t)n * k; i++) {
        if (descr[2] == '4') {
            float value = (float)test_random_unit(&random);
            fwrite(&value, sizeof(value), 1, file);
        } else {
            /* Any finite half: the highest exponent bit stays clear. */
            uint16_t value = (uint16_t)(test_random_next(&random) & 0xbfff);
            fwrite(&value, sizeof(value), 1, file);
        }
    }
    cr_assert(!fclose(file));
}

Test(nib, help_of_every_verb_fits_eighty_columns)
{
    static const char *const verbs[] = {"devices", "gemm",   "explain", "quantize",
                                        "inspect", "layout", "bench",   "kernels",
                                        "compile", "help",   "version"};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        cr_expect_eq(nib("%s --help", verbs[i]), 0);
        expect_output("usage: nib ");
        expect_output("examples:");
        for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
            cr_expect_leq(strlen(line), 80, "%s: %s", verbs[i], line);
        cr_expect_eq(nib("help"), 0);
        expect_output(verbs[i]);
    }
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect_leq(strlen(line), 80, "help: %s", line);
}

Test(nib, says_its_version)
{
    cr_expect_eq(nib("--version"), 0);
    expect_output(nib_version());
}

Test(nib, mistyped_words_get_a_suggestion)
{
    cr_expect_eq(nib("gem"), 2);
    expect_output("did you mean 'gemm'?");
    cr_expect_eq(nib("gemm --chekc"), 2);
    expect_output("did you mean '--check'?");
    cr_expect_eq(nib("layout lsit"), 2);
    expect_output("did you mean 'list'?");
    cr_expect_eq(nib("wrongest-of-all"), 2);
    expect_output("'nib help' lists them");
}

Test(nib, wrong_command_lines_are_usage_errors)
{
    cr_expect_eq(nib("gemm"), 2);
    cr_expect_eq(nib("gemm n=0 k=4"), 2);
    expect_output("n is 0");
    cr_expect_eq(nib("gemm n=4 k=4 w=u9"), 2);
    cr_expect_eq(nib("gemm n=4 k=4 m=x"), 2);
    cr_expect_eq(nib("gemm n=4 k=4 --seed soon"), 2);
    expect_output("expected a whole number");
    cr_expect_eq(nib("gemm n=4 k=4 --seed"), 2);
    cr_expect_eq(nib("inspect"), 2);
    cr_expect_eq(nib("quantize a b --method magic"), 2);
    cr_expect_eq(nib("quantize a b --type q4"), 2);
    cr_expect_eq(nib("quantize a b --iterations 99999999999"), 2);
    expect_output("expected 0..100000");
}

Test(nib, what_is_not_there_is_missing)
{
    cr_expect_eq(nib("inspect nowhere.gguf"), 4);
    expect_output("nowhere.gguf");
    cr_expect_eq(nib("gemm n=4 k=4 --device abacus:0"), 4);
    expect_output("abacus");
    cr_expect_eq(nib("bench nowhere.cases"), 4);
}

Test(nib, a_broken_file_is_corrupt)
{
    FILE *file = fopen("broken.gguf", "wb");
    cr_assert(file);
    fwrite("GGUF\3\0\0\0\1\0\0\0", 1, 12, file);
    fclose(file);
    cr_expect_eq(nib("inspect broken.gguf"), 5);
    expect_output("broken.gguf");
}

Test(nib, gemm_checks_products)
{
    cr_expect_eq(nib("gemm n=33 k=70 w=u3 g=32 a=f32 m=1,5 --check --device cpu"), 0);
    expect_output("165 of 165 outputs");
    cr_expect_eq(nib("gemm --n 40 --k 64 --w nf4 --group 16 --act bf16 --epilogue silu_gated "
                     "--bias f32 --check --time --seconds 0.01 --json"),
                 0);
    expect_output("\"wrong\": 0");
    expect_output("\"median_us\":");
    cr_expect_eq(nib("gemm n=16 k=64 w=i4 g=tensor s=none a=i8 acc=i32 o=i32 m=3 --check"), 0);
}

Test(nib, a_backend_that_computes_nothing_is_found_wrong)
{
    setenv("NIB_BACKEND_PATH", NIB_BINARY_DIR "/lib/test-backends", 1);
    cr_expect_eq(nib("gemm n=33 k=70 w=u3 a=f32 --check --device null:0"), 1);
    expect_output("WRONG");
    cr_expect_eq(nib("gemm n=33 k=70 w=u3 a=f32 --device null:0"), 0);
}

Test(nib, the_tutorial_backend_computes_and_declines)
{
    setenv("NIB_BACKEND_PATH", NIB_BINARY_DIR "/lib/example-backends", 1);
    cr_expect_eq(nib("gemm n=33 k=70 w=u3 g=32 z=rescale:f16 a=f32 m=2 --check --device example:0"),
                 0);
    cr_expect_eq(nib("gemm n=33 k=70 w=u3 a=f16 --device example:0"), 3);
    expect_output("it takes and gives f32 only");
}

Test(nib, devices_and_plans_are_shown)
{
    cr_expect_eq(nib("devices"), 0);
    expect_output("cpu");
    cr_expect_eq(nib("devices --json"), 0);
    expect_output("\"backend\": \"cpu\"");
    cr_expect_eq(nib("devices --types --markdown"), 0);
    expect_output("| nf4");
    cr_expect_eq(nib("explain n=64 k=64 w=u4 m=1"), 0);
    expect_output("chosen");
}

Test(nib, bench_checks_and_times_a_case_file)
{
    FILE *file = fopen("some.cases", "w");
    cr_assert(file);
    fputs("# two products\nn=32 k=64 w=i4 g=32 a=f32 m=1,3\n\nn=16 k=48 w=u8 a=f16 # last\n", file);
    fclose(file);
    cr_expect_eq(nib("bench some.cases --seconds 0.01 --csv"), 0);
    expect_output("m,median us,min us");
    expect_output("3,");
    cr_expect_eq(nib("bench some.cases --seconds 0.01 --json --warm"), 0);
    expect_output("\"check\": \"ok\"");
    cr_expect_eq(nib("bench some.cases --seconds 0.01"), 0);
    expect_output("2 cases, 0 wrong, 0 unsupported");
    file = fopen("some.cases", "a");
    cr_assert(file);
    fputs("n=32 k=64 w=i17\n", file);
    fclose(file);
    cr_expect_eq(nib("bench some.cases --seconds 0.01"), 2);
    expect_output("some.cases:5:");
}

Test(nib, bench_measures_the_roof_of_host_memory_alone)
{
    FILE *file = fopen("some.cases", "w");
    cr_assert(file);
    fputs("n=32 k=64 w=i4 g=32 a=f32\n", file);
    fclose(file);
    cr_expect_eq(nib("bench some.cases --seconds 0.01 --device cpu"), 0);
    expect_output("roof: measured read bandwidth");
    cr_expect_eq(nib("bench some.cases --seconds 0.01 --device cpu --json"), 0);
    expect_output("\"roof\": \"measured\"");
    const char *measured = strstr(output, "\"measured_read_gb_per_s\": ");
    cr_assert(measured);
    cr_expect_gt(strtod(strchr(measured, ':') + 1, NULL), 0);
    setenv("NIB_BACKEND_PATH", NIB_BINARY_DIR "/lib/test-backends", 1);
    cr_expect_eq(nib("bench some.cases --seconds 0.01 --no-check --device null:0"), 0);
    expect_output("roof: nominal read bandwidth, 1.0 GB/s");
}

Test(nib, bench_refuses_a_file_without_cases)
{
    FILE *file = fopen("none.cases", "w");
    cr_assert(file);
    fputs("# only a comment\n\n", file);
    fclose(file);
    cr_expect_eq(nib("bench none.cases --json"), 2);
    expect_output("none.cases: there is no case in it");
    cr_expect(!strchr(output, '{'), "%s", output);
}

Test(nib, sizes_that_no_address_counts_are_usage_errors)
{
    cr_expect_eq(nib("gemm n=16 k=16 m=9000000000000000000"), 2);
    expect_output("m is 9000000000000000000");
    cr_expect_eq(nib("gemm n=16 k=64 a=i8 o=f32 as=row m=3000000000000000000"), 2);
    cr_expect_eq(nib("gemm n=4000000000 k=4000000000"), 2);
    expect_output("does not fit");
    /* Countable, but more than there is. */
    cr_expect_eq(nib("gemm n=400000 k=4000000000"), 6);
}

Test(nib, help_names_the_environment_and_the_documents)
{
    static const char *const variables[] = {"NIB_DEVICE", "NIB_BACKEND_PATH", "NIB_CPU_ISA",
                                            "OMP_NUM_THREADS", "NIB_PROGRESS"};
    cr_expect_eq(nib("help"), 0);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        expect_output(variables[i]);
    cr_expect_eq(nib("layout --help"), 0);
    expect_output("docs/layouts.md");
    cr_expect_eq(nib("quantize --help"), 0);
    expect_output("OMP_NUM_THREADS, else processors this process may use");
    expect_output("of HQQ (20)");
}

Test(nib, bandwidth_of_devices_is_called_nominal)
{
    cr_expect_eq(nib("devices"), 0);
    expect_output("nominal GB/s");
    cr_expect_eq(nib("devices --help"), 0);
    expect_output("nominal");
    cr_expect_eq(nib("devices --json"), 0);
    expect_output("\"read_gb_per_s\": ");
    cr_expect_eq(nib("gemm n=32 k=64 a=f32 --time --seconds 0.01"), 0);
    expect_output("of the nominal read bandwidth");
}

Test(nib, times_fit_eighty_columns)
{
    cr_expect_eq(nib("gemm n=32 k=64 a=f32 --time --check --seconds 0.01"), 0);
    expect_output("second run");
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "device ", 7)) /* may have a long name */
            cr_expect_leq(strlen(line), 80, "%s", line);
}

Test(nib, times_that_are_none_are_refused)
{
    static const char *const seconds[] = {"-1", "0", "nan", "inf", "1s"};
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        cr_expect_eq(nib("gemm n=32 k=64 a=f32 --time --seconds %s", seconds[i]), 2);
        expect_output("expected a number above 0");
    }
}

Test(nib, layouts_convert_there_and_back)
{
    unsigned char before[64 * 32 / 2], after[sizeof(before)];
    test_random random = {test_seed(3)};
    for (size_t i = 0; i < sizeof(before); i++)
        before[i] = (unsigned char)test_random_next(&random);
    FILE *file = fopen("a", "wb");
    cr_assert(file);
    fwrite(before, 1, sizeof(before), file);
    fclose(file);
    cr_expect_eq(nib("layout list"), 0);
    expect_output("marlin");
    cr_expect_eq(nib("layout convert plain marlin a b --n 64 --k 32"), 0, "%s", output);
    cr_expect_eq(nib("layout convert marlin plain b c --n 64 --k 32"), 0, "%s", output);
    file = fopen("c", "rb");
    cr_assert(file);
    cr_expect_eq(fread(after, 1, sizeof(after), file), sizeof(after));
    fclose(file);
    cr_expect_arr_eq(before, after, sizeof(before));
    cr_expect_eq(nib("layout convert plain marlin a b --n 64 --k 16"), 5);
    expect_output("more than the 512 bytes");
    cr_expect_eq(nib("layout convert gptq marlin --explain"), 0);
    expect_output("not free");
    cr_expect_eq(nib("layout describe nonsense"), 2);
}

Test(nib, quantize_writes_what_inspect_reads)
{
    write_npy("w.npy", "<f4", 48, 100);
    cr_expect_eq(nib("quantize w.npy w.nib --type u4 --group 32 --zero float"), 0, "%s", output);
    expect_output("1 tensors quantised");
    cr_expect_eq(nib("inspect w.nib --json"), 0);
    expect_output("n=48 k=100 w=u4 g=32 s=f16 z=float:f16");
    cr_expect_eq(nib("quantize w.npy v.nib --type i8 --group row --json"), 0);
    expect_output("\"snr_db\":");
    expect_output("\"histogram\":");
    /* Weights that are quantised already go over; dense tensors that are excluded too. */
    cr_expect_eq(nib("quantize w.nib x.nib"), 0, "%s", output);
    expect_output("1 kept");
    cr_expect_eq(nib("quantize w.npy y.nib --exclude '*'"), 0);
    expect_output("1 copied dense");
    cr_expect_eq(nib("quantize w.nib z.nib --requantize --type nf4 --group 50"), 0, "%s", output);
    expect_output("1 tensors quantised");
}

Test(nib, a_failed_quantize_leaves_no_file)
{
    write_npy("w.npy", "<f4", 4, 8);
    FILE *file = fopen("w.npy", "r+b");
    cr_assert(file);
    float bad = NAN;
    cr_assert(!fseek(file, -4, SEEK_END));
    fwrite(&bad, sizeof(bad), 1, file);
    fclose(file);
    cr_expect_eq(nib("quantize w.npy w.nib"), 2);
    cr_expect_eq(files_besides("w.npy", ""), 0);
}

Test(nib, a_failed_quantize_prints_no_half_document)
{
    test_bytes bytes;
    float data[64] = {0};
    data[63] = NAN;
    /* The first tensor is done when the second fails. */
    bytes =
        test_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[128,256]}}",
                         data, sizeof(data));
    test_file_write("w.safetensors", &bytes);
    test_bytes_free(&bytes);
    cr_expect_eq(nib("quantize w.safetensors w.nib --json"), 2);
    expect_output("tensor 'b' failed");
    cr_expect(!strchr(output, '{'), "%s", output);
    cr_expect_eq(nib("quantize w.safetensors w.nib --json --exclude b"), 0);
    expect_output("\"copied\": 1");
}

/* A child that runs nib with its results in the file `out` and its messages thrown away. */
static pid_t start(const char *const *words, const char *out)
{
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        if (!freopen(out, "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(99);
        execv(NIB_BINARY_DIR "/bin/nib", (char *const *)words);
        _exit(99);
    }
    return child;
}

Test(nib, an_interrupted_quantize_leaves_no_file, .timeout = 60)
{
    static const char *const words[] = {"nib",          "quantize", "w.npy",  "w.nib",  "--method",
                                        "hqq",          "--zero",   "float",  "--type", "u4",
                                        "--iterations", "100000",   "--json", NULL};
    int status;
    write_npy("w.npy", "<f4", 4096, 4096);
    pid_t child = start(words, "out");
    for (int i = 0; i < 2000 && files_besides("w.npy", "out") == 0; i++)
        usleep(5000);
    cr_expect_eq(files_besides("w.npy", "out"), 1, "there should be a temporary file");
    kill(child, SIGINT);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    cr_expect_eq(files_besides("w.npy", "out"), 0);
    test_bytes printed = test_file_read("out");
    cr_expect_eq(printed.count, 0, "an interrupted run printed %zu bytes", printed.count);
    test_bytes_free(&printed);
}

Test(nib, quantize_past_the_file_size_limit_says_so_and_leaves_nothing)
{
    struct rlimit limit = {4096, RLIM_INFINITY};
    write_npy("w.npy", "<f4", 256, 256);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(nib("quantize w.npy w.nib"), 4, "%s", output);
    expect_output("cannot write w.nib");
    cr_expect_eq(files_besides("w.npy", ""), 0);
}

Test(nib, quantize_holds_less_than_three_tensors, .timeout = 120)
{
    static const char *const words[] = {"nib", "quantize", "w.npy", "w.nib", "--type",
                                        "i4",  "--group",  "64",    NULL};
    const long tensor_bytes = 4096L * 8192 * 2;
    struct rusage usage;
    int status;
    write_npy("w.npy", "<f2", 4096, 8192);
    pid_t child = start(words, "/dev/null");
    cr_assert_eq(wait4(child, &status, 0, &usage), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#ifndef __SANITIZE_ADDRESS__
    long limit = (3 * tensor_bytes + (64L << 20)) / 1024;
    cr_expect_lt(usage.ru_maxrss, limit, "%ld KB, limit %ld", usage.ru_maxrss, limit);
#else
    (void)tensor_bytes;
#endif
}

/* ---- kernels and compile, through the null backend, whose compiler copies text ---- */

#define NULL_COMPILE "compile --backend null --desc 'n=64 k=64 w=i4' --desc 'n=32 k=64 w=i4' "

static void use_null_backend(void)
{
    setenv("NIB_BACKEND_PATH", NIB_BINARY_DIR "/lib/test-backends", 1);
    setenv("NIB_CACHE_DIR", "cache", 1);
    setenv("NIB_PACK_PATH", "packs", 1);
    unsetenv("PAGER");
    cr_assert(!system("mkdir packs"));
}

/* The key of the kernel with this ISA and label. */
static void key_of(const char *isa, const char *label, char key[64])
{
    char end[128];
    cr_assert_eq(nib("kernels --isa %s --csv", isa), 0);
    snprintf(end, sizeof(end), ",%s,", label);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, end)) {
            cr_assert_eq(sscanf(line, "%63[^,]", key), 1);
            return;
        }
    cr_assert_fail("no kernel %s", label);
}

Test(nib, compile_makes_each_kernel_once_and_kernels_lists_it)
{
    use_null_backend();
    cr_expect_eq(nib("kernels"), 0);
    expect_output("no kernels");
    cr_expect_eq(nib(NULL_COMPILE "--isa null_1,null_2,null_1 -o a.nibpack --jobs 3"), 0);
    expect_output("4 kernels");
    expect_output("4 compiled, 0 were there");
    cr_expect_eq(nib(NULL_COMPILE "--isa all --output b.nibpack --json"), 0);
    expect_output("\"compiled\": 0");
    expect_output("\"images\": 4");
    cr_expect_eq(nib("kernels"), 0);
    expect_output("null_1   89 B  cache  null-i4-m1");
    cr_expect_eq(nib("kernels --isa null_9"), 0);
    expect_output("no kernels of that backend and ISA");
    cr_assert(!system("mv a.nibpack packs"));
    cr_expect_eq(nib("kernels"), 0);
    expect_output("8 kernels");
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect_leq(strlen(line), 80, "%s", line);
    cr_expect_eq(nib("kernels --clear"), 0);
    expect_output("4 kernels removed");
    cr_expect_eq(nib("kernels --json"), 0);
    expect_output("packs/a.nibpack");
    /* The pack serves the next compilation. */
    cr_expect_eq(nib(NULL_COMPILE "--isa all -o c.nibpack"), 0);
    expect_output("0 compiled, 4 were there");
}

Test(nib, kernels_shows_the_parts_of_one)
{
    char key[64];
    use_null_backend();
    cr_assert_eq(nib(NULL_COMPILE "--isa all -o packs/a.nibpack"), 0);
    key_of("null_2", "null-i4-m2", key);
    for (int packed = 1; packed >= 0; packed--) {
        cr_expect_eq(nib("kernels %s", key), 0);
        expect_output("common/nothing.cuh");
        expect_output(packed ? "packs/a.nibpack" : "cache/kernels/");
        cr_expect_eq(nib("kernels %.8s --show spec", key), 0);
        expect_output("#define NIB_TILE_M 2");
        cr_expect_eq(nib("kernels %s --show source", key), 0);
        expect_output("#include");
        cr_expect_eq(nib("kernels %s --show source --file nothing.cuh", key), 0);
        expect_output("/* nothing */");
        cr_expect_eq(nib("kernels %s --show source --file none", key), 2);
        expect_output("common/nothing.cuh");
        cr_expect_eq(nib("kernels %s --show log", key), 0);
        expect_output("copied");
        cr_expect_eq(nib("kernels %s --show image", key), 0);
        expect_output("// for null_2");
        cr_expect_eq(nib("kernels %s --show sass", key), 3);
        expect_output("not machine code");
        cr_expect_eq(nib("kernels %s --show ptx", key), 3);
        cr_assert(!system("rm -f packs/a.nibpack"));
    }
    cr_expect_eq(nib("kernels null-i4-m2 --show spec"), 2);
    expect_output("names 2 kernels");
    cr_expect_eq(nib("kernels null-i4-m2 --isa null_1 --show spec"), 0);
    cr_expect_eq(nib("kernels null-i4-m3"), 4);
    expect_output("did you mean 'null-i4-m");
    cr_expect_eq(nib("kernels --show sauce"), 2);
    expect_output("perhaps source");
}

Test(nib, compile_refuses_with_what_would_be_right)
{
    use_null_backend();
    cr_expect_eq(nib(NULL_COMPILE "--isa all"), 2);
    expect_output("-o FILE.nibpack");
    cr_expect_eq(nib(NULL_COMPILE "-o a.nibpack"), 2);
    expect_output("null_1, null_2");
    cr_expect_eq(nib(NULL_COMPILE "--isa nul_1 -o a.nibpack"), 2);
    expect_output("did you mean 'null_1'?");
    cr_expect_eq(nib("compile --backend null --isa all -o a.nibpack"), 2);
    expect_output("--cases");
    cr_expect_eq(nib("compile --backend cpu --isa all n=4 k=4 -o a.nibpack"), 3);
    cr_expect_eq(nib("compile --backend nothing --isa all n=4 k=4 -o a.nibpack"), 4);
    cr_expect_eq(nib("compile --backend null --isa all n=4 k=4 w=lut4 -o a.nibpack"), 3);
    expect_output("no kernel for lut4");
    cr_expect_eq(nib("compile --backend null --isa all n=4 k=4 w=i9 -o a.nibpack"), 2);
    cr_expect_eq(nib("compile --backend null --isa all n=4 k=4 -o /nowhere/a.nibpack"), 4);
    cr_assert(!system("printf 'n=4 k=4 w=u4 m=1 # one\\n\\nn=8 k=4 w=u9\\n' > bad.cases"));
    cr_expect_eq(nib("compile --backend null --isa all --cases bad.cases -o a.nibpack"), 2);
    expect_output("bad.cases:3: stopped here");
    cr_expect_eq(nib("compile --backend null --isa all n=4 k=4 --desc 'n=4 k=4 w=lut4' "
                     "-o packs/a.nibpack"),
                 0);
    expect_output("2 of 4 pairs of product and ISA have no kernel");
    cr_expect_eq(files_besides("packs", "cache"), 1, "something is left beside bad.cases");
}
