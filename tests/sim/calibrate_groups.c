/* SPDX-License-Identifier: Apache-2.0
 *
 * sim-calibrate's products of warpgroups (wgmma, 9.0 only): a kernel of PTX for each line of
 * cuda/probes/wgmma.inc. A block is a warpgroup; its shared memory is an image from the host, 64
 * rows of A and 128 of B, 128 bytes apart under a swizzle of 128 bytes. Fragments of A are the
 * image's first words.
 */
#include "calibrate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2, THREADS = 128, A_WORDS = 64 * 32, IMAGE_WORDS = A_WORDS + 128 * 32, SUMS = 64 };

typedef struct probe {
    const char *name;
    int n, k;
    const char *types;
    number a, b, result;
    bool registers;
    const char *modifiers;
} probe;

static const probe probes[] = {
#define PROBE(name, n, k, types, a, b, result, registers, modifiers) \
    {#name, n, k, types, a, b, result, registers, modifiers},
#include "cuda/probes/wgmma.inc"
#undef PROBE
};

/* 32-bit accumulators of a thread. */
static int sums_of(const probe *p)
{
    return p->result == F16 ? p->n / 4 : p->n / 2;
}

typedef struct text {
    char *at;
    size_t used, room;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(t->at + t->used, t->room - t->used, format, arguments);
    va_end(arguments);
    t->used += written > 0 ? (size_t)written : 0;
    if (t->used >= t->room)
        calibrate_fail("the probes' text is too long", 0);
}

static void add_sums(text *t, int count)
{
    for (int i = 0; i < count; i++)
        add(t, "%s%%c%d", i ? "," : "{", i);
    add(t, "}");
}

/* k(image, c, d, warp): sums of all four warps are computed, those of one are stored. */
static void add_kernel(text *t, const probe *p)
{
    int sums = sums_of(p);
    add(t,
        ".visible .entry %s(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n"
        ".maxntid %d, 1, 1\n{\n"
        ".reg .b32 %%c<%d>, %%a<4>, %%r<12>; .reg .b64 %%x<10>; .reg .pred %%p<3>;\n"
        ".shared .align 1024 .b8 image[%d];\n"
        "ld.param.u64 %%x0, [p0]; ld.param.u64 %%x1, [p1]; ld.param.u64 %%x2, [p2];\n"
        "ld.param.u32 %%r11, [p3]; mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ctaid.x;\n"
        "mad.wide.u32 %%x0, %%r1, %d, %%x0; mad.wide.u32 %%x0, %%r0, 16, %%x0; mov.u64 %%x3, "
        "%%x0;\n"
        "ld.global.v4.u32 {%%a0, %%a1, %%a2, %%a3}, [%%x0];\n"
        "mov.u32 %%r2, image; mad.lo.u32 %%r3, %%r0, 16, %%r2; mov.u32 %%r4, 0;\n"
        "fill:\n"
        "ld.global.v4.u32 {%%r5, %%r6, %%r7, %%r8}, [%%x3];\n"
        "st.shared.v4.u32 [%%r3], {%%r5, %%r6, %%r7, %%r8};\n"
        "add.u64 %%x3, %%x3, %d; add.u32 %%r3, %%r3, %d; add.u32 %%r4, %%r4, 1;\n"
        "setp.ne.u32 %%p0, %%r4, %d; @%%p0 bra fill;\n"
        "fence.proxy.async.shared::cta; bar.sync 0;\n",
        p->name, THREADS, sums, IMAGE_WORDS * 4, IMAGE_WORDS * 4, THREADS * 16, THREADS * 16,
        IMAGE_WORDS / (4 * THREADS));
    add(t, "mad.lo.u32 %%r9, %%r1, %d, %%r0; mad.wide.u32 %%x1, %%r9, %d, %%x1;\n", THREADS,
        sums * 4);
    for (int i = 0; i < sums; i++)
        add(t, "ld.global.u32 %%c%d, [%%x1+%d];\n", i, i * 4);
    /* Swizzle of 128 bytes, eight rows 1024 bytes apart. */
    add(t,
        "and.b32 %%r10, %%r2, 0x3ffff; shr.u32 %%r10, %%r10, 4; cvt.u64.u32 %%x4, %%r10;\n"
        "or.b64 %%x5, %%x4, 0x4000004000010000; add.u64 %%x6, %%x5, %d;\n"
        "setp.eq.u32 %%p1, %%r0, %%r0; wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n%dk%d.%s ",
        A_WORDS * 4 / 16, p->n, p->k, p->types);
    add_sums(t, sums);
    add(t,
        ", %s, %%x6, %%p1%s;\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
        "shr.u32 %%r3, %%r0, 5; setp.ne.u32 %%p2, %%r3, %%r11; @%%p2 bra done;\n"
        "and.b32 %%r4, %%r0, 31; mad.lo.u32 %%r4, %%r1, 32, %%r4;\n"
        "mad.wide.u32 %%x2, %%r4, %d, %%x2;\n",
        p->registers ? "{%a0,%a1,%a2,%a3}" : "%x5", p->modifiers, sums * 4);
    for (int i = 0; i < sums; i++)
        add(t, "st.global.u32 [%%x2+%d], %%c%d;\n", i * 4, i);
    add(t, "done:\nret;\n}\n");
}

static void run_probe(const driver *d, const probe *p, uint64_t seed, int32_t warp, FILE *file)
{
    static uint32_t image[BLOCKS * IMAGE_WORDS], c[BLOCKS * THREADS * SUMS],
        out[BLOCKS * 32 * SUMS];
    test_random random = {seed};
    size_t bytes = (size_t)(BLOCKS * 32 * sums_of(p)) * 4;
    for (int i = 0; i < BLOCKS * IMAGE_WORDS; i++)
        image[i] = calibrate_operand(&random, i % IMAGE_WORDS < A_WORDS ? p->a : p->b,
                                     4 + i / IMAGE_WORDS * 12);
    for (int i = 0; i < BLOCKS * THREADS * sums_of(p); i++)
        c[i] = i % 3 ? calibrate_operand(&random, p->result, 16) : 0;
    CUdeviceptr di = calibrate_upload(d, image, sizeof(image));
    CUdeviceptr dc = calibrate_upload(d, c, sizeof(c)), o = calibrate_upload(d, out, sizeof(out));
    calibrate_run(d, p->name, BLOCKS, THREADS, (void *[]){&di, &dc, &o, &warp});
    if (d->down(out, o, bytes))
        calibrate_fail("cuMemcpyDtoH", 0);
    d->release(di), d->release(dc), d->release(o);
    calibrate_put(file, p->name, p->result, out, bytes);
}

void calibrate_groups(driver *d, FILE *file)
{
    enum { COUNT = sizeof(probes) / sizeof(probes[0]) };
    int major = 0;
    text t = {calloc(1, 1 << 20), 0, 1 << 20};
    if (!t.at)
        calibrate_fail("out of memory", 0);
    if (!d->attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) && major == 9) {
        add(&t, ".version 8.4\n.target sm_90a\n.address_size 64\n");
        for (int i = 0; i < COUNT; i++)
            add_kernel(&t, &probes[i]);
        int result = d->load(&d->module, t.at);
        if (result)
            calibrate_fail("the driver does not take the probes of wgmma", result);
        for (int i = 0; i < COUNT; i++)
            run_probe(d, &probes[i], 101 + (uint64_t)i, i % 4, file);
    }
    free(t.at);
}
