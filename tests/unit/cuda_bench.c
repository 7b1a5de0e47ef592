/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that time on a GPU, on a simulated one: `nib bench --baseline`, bench-cuda and
 * bench-chain run, check and print. What they measure there means nothing. Needs NVRTC.
 */
#include "support/image.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIMULATOR NIB_BINARY_DIR "/lib/libcuda-sim.so"

static char output[1 << 18]; /* of the last run, both streams */
static test_cache cache;

/* Runs a program of this build through the shell; answers the exit code. */
static int run(const char *format, ...)
{
    char arguments[1024], command[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(arguments, sizeof(arguments), format, args);
    va_end(args);
    snprintf(command, sizeof(command), NIB_BINARY_DIR "/bin/%s 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    size_t got = fread(output, 1, sizeof(output) - 1, pipe);
    output[got] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define expect_output(text) cr_expect(strstr(output, text), "expected '%s' in:\n%s", text, output)

static void begin(void)
{
    if (access(SIMULATOR, R_OK))
        cr_skip("SKIPPED: there is no simulator");
    test_cache_begin(&cache);
    cr_assert(!chdir(cache.folder));
    setenv("NIB_CUDA_LIBRARY", SIMULATOR, 1);
    setenv("NIB_SIM_CC", "80", 1);
    setenv("NIB_PROGRESS", "0", 1);
    FILE *file = fopen("some.cases", "w");
    cr_assert(file);
    fputs("n=64 k=128 w=i4 g=32 a=f16 m=1,3\n", file);
    fclose(file);
    run("nib bench some.cases --device cuda:0 --seconds 0.001");
    if (strstr(output, "NVRTC"))
        cr_skip("SKIPPED: %s", output);
}

static void end(void)
{
    test_cache_end(&cache);
}

TestSuite(cuda_bench, .init = begin, .fini = end);

static bool is_built(const char *program)
{
    char path[512];
    snprintf(path, sizeof(path), NIB_BINARY_DIR "/bin/%s", program);
    return !access(path, X_OK);
}

Test(cuda_bench, nib_times_a_product_beside_the_read_floor)
{
    const char *bench = "nib bench some.cases --seconds 0.001 --device cuda:0";
    cr_expect_eq(run("%s --baseline floor", bench), 0);
    expect_output("floor  % of it");
    expect_output("1 cases, 0 wrong");
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect_leq(strlen(line), 80, "'%s'", line);
    cr_expect_eq(run("%s --baseline floor --csv", bench), 0);
    expect_output("m,us,min us,max us,GB/s,floor us,floor %,check,product\n1,");
    cr_expect_eq(run("%s --baseline floor --json", bench), 0);
    expect_output("\"floor_median_us\": ");
    expect_output("\"check\": \"ok\"");
}

Test(cuda_bench, nib_says_which_baselines_there_are_and_that_cublas_is_missing)
{
    cr_expect_eq(run("nib bench some.cases --baseline floor,marlin --device cuda:0"), 2);
    expect_output("no baseline 'marlin': floor, cublas or cublas-fp8");
    cr_expect_eq(run("nib bench some.cases --baseline floor --device cpu"), 2);
    expect_output("--baseline times NVIDIA GPUs, and cpu:0 is none");
    /* Where a cuBLAS is installed it finds no driver it knows. */
    cr_expect_eq(
        run("nib bench some.cases --seconds 0.001 --device cuda:0 --baseline cublas,floor"), 0);
    expect_output("nib: no cuBLAS, its columns stay empty");
    expect_output("ok");
}

Test(cuda_bench, bench_cuda_writes_a_table_and_goes_on_with_it)
{
    if (!is_built("bench-cuda"))
        cr_skip("SKIPPED: the benchmarks are not built");
    const char *bench = "bench-cuda --smoke --no-cublas --case 128,128 --csv some.csv "
                        "--desc 'w=e2m1 g=16 s=e4m3 a=f16'";
    cr_expect_eq(run("%s --m 1", bench), 0);
    expect_output("| floor ");
    cr_expect_eq(run("%s --m 1,3 --twin aligned,odd-a --resume", bench), 0);
    cr_expect(!strstr(output, "    1 aligned"), "%s", output);
    expect_output("    3 aligned");
    expect_output("    1 odd-a");
    cr_expect_eq(run("bench-cuda --summary some.csv"), 0);
    expect_output("| `w=e2m1 g=16 s=e4m3 a=f16`, odd-a | M >= 1, times its aligned twin");
    cr_expect_eq(run("bench-cuda --set none"), 2);
    cr_expect_eq(run("bench-cuda --device 7"), 77);
}

Test(cuda_bench, a_chain_leaves_the_same_bits_either_way)
{
    if (!is_built("bench-chain"))
        cr_skip("SKIPPED: the benchmarks are not built");
    cr_expect_eq(run("bench-chain --smoke --model llama --m 3"), 0);
    expect_output(" ok, equal |");
    cr_expect(!strstr(output, "WRONG") && !strstr(output, "NOT EQUAL"), "%s", output);
}
