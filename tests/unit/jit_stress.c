/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel cache under many processes and threads at once, and under processes killed at any
 * moment: each image is compiled once, nobody waits for the dead, and nothing is left of them.
 */
#include "jit/image.h"
#include "support/image.h"
#include "support/random.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 16, THREADS = 16, KEYS = 3 };

static const char *const specs[KEYS] = {"#define NIB_TILE 16\n", "#define NIB_TILE 32\n",
                                        "#define NIB_TILE 64\n"};

static test_cache cache;

static void begin(void)
{
    test_cache_begin(&cache);
}

static void end(void)
{
    test_cache_end(&cache);
}

TestSuite(kernel_stress, .init = begin, .fini = end, .timeout = 120);

static void *ask_for_all(void *argument)
{
    size_t first = (size_t)(uintptr_t)argument, wrong = 0;
    for (size_t i = 0; i < KEYS; i++)
        wrong += !test_image_origin(&cache, specs[(first + i) % KEYS]);
    return (void *)(uintptr_t)wrong;
}

/* Answers how many images were wrong or missing. */
static int ask_with_threads(int first)
{
    pthread_t threads[THREADS];
    int wrong = 0;
    for (int t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, ask_for_all, (void *)(uintptr_t)(first + t)))
            return -1;
    for (int t = 0; t < THREADS; t++) {
        void *result;
        pthread_join(threads[t], &result);
        wrong += (int)(uintptr_t)result;
    }
    return wrong;
}

Test(kernel_stress, processes_and_threads_that_start_together_compile_each_image_once)
{
    int gate[2];
    cr_assert(!pipe(gate));
    cache.sleep_ms = 50;
    fflush(NULL);
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        cr_assert_geq(children[p], 0);
        if (!children[p]) {
            char byte;
            close(gate[1]);
            if (read(gate[0], &byte, 1)) /* the end of the pipe opens the gate for all */
                _exit(1);
            _exit(ask_with_threads(p) != 0);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        cr_assert_eq(waitpid(children[p], &status, 0), children[p]);
        cr_expect_eq(status, 0, "process %d", p);
    }
    cr_expect_eq(test_cache_compiled(&cache), KEYS);
}

Test(kernel_stress, threads_share_a_compilation_without_a_cache_too)
{
    nib_image_request request = test_image_request(&cache, specs[0]);
    nib_image image;
    setenv("NIB_CACHE_DIR", "/proc/nothing", 1);
    cache.sleep_ms = 200;
    cr_expect_eq(ask_with_threads(0), 0);
    cr_expect_lt(test_cache_compiled(&cache), THREADS * KEYS);
    cache.answer = NIB_UNSUPPORTED;
    cr_expect_eq(nib_image_get(&request, &image), NIB_UNSUPPORTED);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void wait_us(int64_t us)
{
    struct timespec rest = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&rest, NULL);
}

Test(kernel_stress, nobody_waits_for_a_process_that_was_killed)
{
    int status;
    cache.sleep_ms = 60000;
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(test_image_origin(&cache, specs[0]));
    while (!test_cache_compiled(&cache))
        wait_us(1000);
    cache.sleep_ms = 0;
    double begun = seconds();
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(test_image_origin(&cache, specs[0]), NIB_IMAGE_COMPILED);
    cr_expect_lt(seconds() - begun, 20);
}

/* Names in the cache folder that are no entries. */
static int leftovers(void)
{
    int count = 0;
    DIR *dir = opendir(cache.kernels);
    for (struct dirent *item; dir && (item = readdir(dir)) != NULL;)
        count += item->d_name[0] != '.' && strlen(item->d_name) != 32;
    if (dir)
        closedir(dir);
    return count;
}

/* Makes entries for ever, each by a compiler that the next time is another. */
static void make_for_ever(test_random *random)
{
    for (;;) {
        snprintf(cache.compiler, sizeof(cache.compiler), "compiler-%d",
                 (int)test_random_below(random, 3));
        if (!test_image_origin(&cache, specs[test_random_below(random, KEYS)]))
            _exit(1);
    }
}

Test(kernel_stress, killing_makers_at_any_moment_leaves_a_usable_cache)
{
    enum { ROUNDS = 60, MAKERS = 3 };
    test_random random = {test_seed(5)};
    int status;
    fflush(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t makers[MAKERS];
        for (int i = 0; i < MAKERS; i++) {
            test_random own = {test_random_next(&random)};
            makers[i] = fork();
            if (!makers[i])
                make_for_ever(&own);
        }
        wait_us(test_random_below(&random, 20000));
        for (int i = 0; i < MAKERS; i++)
            kill(makers[i], SIGKILL);
        for (int i = 0; i < MAKERS; i++) {
            cr_assert_eq(waitpid(makers[i], &status, 0), makers[i]);
            cr_assert(WIFSIGNALED(status), "a maker got a wrong image in round %d", round);
        }
        for (int i = 0; i < KEYS; i++)
            cr_assert(test_image_origin(&cache, specs[i]), "round %d", round);
    }
    /* What the dead left goes when a process first makes something. */
    pid_t last = fork();
    if (!last)
        _exit(test_image_origin(&cache, "#define LAST 1\n") != NIB_IMAGE_COMPILED);
    cr_assert_eq(waitpid(last, &status, 0), last);
    cr_expect_eq(status, 0);
    cr_expect_eq(leftovers(), 0);
}
