/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of the reading kernels, and the choice among them: see read.h.
 */
#include "gpu/read.h"

#include "gpu/nvrtc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BULK_SHARED (224 * 1024) /* of a block; the H200 gives 227 KB less the barriers */

/* The best one depends on the bytes: few need all copies in flight at once on every multiprocessor,
 * many run best with large chunks. */
typedef struct shape {
    bool bulk;
    unsigned blocks; /* a multiprocessor */
    unsigned threads;
    unsigned chunk, stages;
} shape;
/* clang-format off */
static const shape shapes[] = {
    {true, 1, 32, 32768, 7},  {true, 1, 32, 16384, 13}, {true, 1, 32, 8192, 27}, {true, 1, 32, 4096, 54},
    {true, 2, 32, 16384, 6},  {true, 2, 32, 8192, 13},  {true, 2, 32, 4096, 27}, {true, 4, 32, 8192, 6},
    {true, 4, 32, 4096, 13},  {true, 8, 32, 4096, 6},
    {false, 2, 512, 0, 0},    {false, 4, 512, 0, 0},    {false, 8, 256, 0, 0},   {false, 2, 1024, 0, 0},
};
/* clang-format on */
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static bool load_kernel(bench_reader *r, bool bulk, bench_kernel *out, char *why, size_t why_bytes)
{
    const char *entry = bulk ? "nib_read_bulk" : "nib_read_loads";
    int cc = r->cuda->cc;
    char *ptx = bench_nvrtc_compile("kernels/read.cu", bulk ? "NIB_READ_BULK=1" : "NIB_READ_BULK=0",
                                    bulk      ? 90
                                    : cc < 90 ? cc
                                              : 90,
                                    why, why_bytes);
    if (!ptx)
        return false;
    bool good = bench_cuda_load(r->cuda, ptx, entry, bulk ? BULK_SHARED : 0, out);
    if (!good)
        snprintf(why, why_bytes, "the driver does not take %s", entry);
    free(ptx);
    return good;
}

bool bench_reader_open(bench_reader *r, bench_cuda *cuda, char *why, size_t why_bytes)
{
    *r = (bench_reader){.cuda = cuda};
    if (!load_kernel(r, false, &r->loads, why, why_bytes) ||
        (cuda->cc >= 90 && !load_kernel(r, true, &r->bulk, why, why_bytes)) ||
        !bench_cuda_alloc(cuda, sizeof(unsigned), &r->sink)) {
        bench_reader_close(r);
        return false;
    }
    return true;
}

static void unload(bench_reader *r)
{
    bench_cuda_free(r->cuda, r->memory);
    r->memory = 0;
}

void bench_reader_close(bench_reader *r)
{
    if (!r->cuda)
        return;
    unload(r);
    bench_cuda_free(r->cuda, r->sink);
    bench_cuda_unload(r->cuda, &r->bulk);
    bench_cuda_unload(r->cuda, &r->loads);
    *r = (bench_reader){0};
}

static bool usable(const bench_reader *r, int index)
{
    return !shapes[index].bulk || r->bulk.function;
}

static void name_shape(bench_reader *r)
{
    const shape *s = &shapes[r->shape];
    if (s->bulk)
        snprintf(r->name, sizeof(r->name), "bulk %ux%u KB, %u a unit", s->stages, s->chunk / 1024,
                 s->blocks);
    else
        snprintf(r->name, sizeof(r->name), "loads, %u x %u threads a unit", s->blocks, s->threads);
}

/* The median of three replays, infinite when it does not run. */
static double time_shape(bench_reader *r, int index, const bench_pace *pace)
{
    bench_pace three = {.rounds = 3, .smoke = pace->smoke};
    bench_runner runner = {
        .name = "reading", .launch = bench_reader_launch, .user = r, .copies = r->copies};
    bench_runner *list = &runner;
    r->shape = index;
    if (!bench_runner_open(r->cuda, &runner, &three))
        return INFINITY;
    double us = bench_rounds(r->cuda, &list, 1, &three) ? runner.stat.us : INFINITY;
    bench_runner_close(r->cuda, &runner);
    return us;
}

bool bench_reader_load(bench_reader *r, uint64_t bytes, uint64_t rotate, const bench_pace *pace)
{
    int best = -1;
    double least = INFINITY;
    unload(r);
    r->bytes = (bytes + 15) / 16 * 16;
    r->stride = (r->bytes + 255) / 256 * 256;
    r->copies = pace->smoke ? 1 : bench_copies_of(r->stride, rotate);
    if (!bench_cuda_alloc(r->cuda, r->stride * (uint64_t)r->copies, &r->memory) ||
        !bench_cuda_fill(r->cuda, r->memory, 0x5a, r->stride * (uint64_t)r->copies))
        return false;
    for (int i = 0; i < SHAPES; i++) {
        double us = usable(r, i) ? time_shape(r, i, pace) : INFINITY;
        if (us < least) {
            least = us;
            best = i;
        }
        if (best == i && pace->smoke) /* a simulator's times would not tell them apart */
            break;
    }
    if (best < 0)
        return false;
    r->shape = best;
    name_shape(r);
    return true;
}

int bench_reader_launch(void *user, int64_t call, void *stream)
{
    bench_reader *r = user;
    const shape *s = &shapes[r->shape];
    bench_cuda_memory at = r->memory + (uint64_t)(call % r->copies) * r->stride;
    unsigned long long bytes = r->bytes;
    unsigned chunk = s->chunk, stages = s->stages;
    void *parameters[] = {&at, &bytes, &chunk, &stages, &r->sink};
    return !bench_cuda_launch(r->cuda, s->bulk ? &r->bulk : &r->loads,
                              s->blocks * (unsigned)r->cuda->units, s->threads,
                              s->chunk * s->stages, parameters, stream);
}
