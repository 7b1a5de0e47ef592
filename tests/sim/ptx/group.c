/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs wgmma: see group.h.
 */
#include "group.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1 << 16 };

typedef struct text {
    char *at;
    size_t used;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    t->used += (size_t)vsnprintf(t->at + t->used, TEXT - t->used, format, arguments);
    va_end(arguments);
}

static void add_list(text *t, const char *name, int count)
{
    for (int i = 0; i < count; ++i) {
        add(t, "%s%s%d", i == 0 ? "{" : ",", name, i);
    }
    add(t, "}");
}

/* The body with its lists written out. */
static void add_body(text *t, const char *body, int sums)
{
    for (const char *c = body; *c != 0; ++c) {
        if (strncmp(c, "{D}", 3) == 0) {
            add_list(t, "%c", sums);
            c += 2;
        } else if (strncmp(c, "{A}", 3) == 0) {
            add_list(t, "%a", 4);
            c += 2;
        } else {
            add(t, "%c", *c);
        }
    }
}

static void write_kernel(text *t, const group *g, const char *body)
{
    static const char fill[] =
        "mov.u32 %t, %tid.x; mov.u32 %base, image;\n"
        "mad.lo.u32 %r0, %t, 16, %base; mad.wide.u32 %x0, %t, 16, %image;\n"
        "mov.u32 %r1, 0;\n$fill:\n"
        "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%x0]; st.shared.v4.u32 [%r0], {%r2, %r3, %r4, "
        "%r5};\n"
        "add.u32 %r0, %r0, 2048; add.u64 %x0, %x0, 2048; add.u32 %r1, %r1, 1;\n"
        "setp.ne.u32 %p0, %r1, 32; @%p0 bra $fill;\n"
        "cvt.u64.u32 %x0, %base; shr.u64 %x0, %x0, 4; add.u64 %da, %da, %x0;\n"
        "add.u64 %db, %db, %x0;\n";
    add(t, ".version 9.0\n.target sm_90a\n.address_size 64\n");
    add(t, ".extern .shared .align 1024 .b8 image[];\n");
    add(t,
        ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3,\n"
        ".param .u64 p4, .param .u64 p5)\n%s\n{\n",
        g->limits != NULL ? g->limits : "");
    add(t, ".reg .b32 %%a<4>, %%c<%d>, %%r<8>, %%base, %%t; .reg .pred %%p<4>;\n", GROUP_SUMS);
    add(t, ".reg .b64 %%x<4>, %%image, %%da, %%db, %%pa, %%pc, %%pd;\n");
    add(t, "ld.param.u64 %%image, [p0]; ld.param.u64 %%da, [p1]; ld.param.u64 %%db, [p2];\n"
           "ld.param.u64 %%pa, [p3]; ld.param.u64 %%pc, [p4]; ld.param.u64 %%pd, [p5];\n");
    add(t, "%s", fill);
    add(t,
        "mad.wide.u32 %%pa, %%t, 16, %%pa; ld.global.v4.u32 {%%a0, %%a1, %%a2, %%a3}, [%%pa];\n");
    add(t, "mad.wide.u32 %%pc, %%t, %d, %%pc; mad.wide.u32 %%pd, %%t, %d, %%pd;\n", GROUP_SUMS * 4,
        GROUP_SUMS * 4);
    for (int i = 0; i < g->sums; ++i) {
        add(t, "ld.global.u32 %%c%d, [%%pc+%d];\n", i, i * 4);
    }
    add(t, "%s\n", g->before != NULL ? g->before : "fence.proxy.async.shared::cta; bar.sync 0;");
    add_body(t, body, g->sums);
    add(t, "\n");
    for (int i = 0; i < g->sums; ++i) {
        add(t, "st.global.u32 [%%pd+%d], %%c%d;\n", i * 4, i);
    }
    add(t, "$end:\nret;\n}\n");
}

static bool find(void *user, uint64_t address, sim_range *range)
{
    const uint64_t start = (uint64_t)(uintptr_t)user;
    *range = (sim_range){.address = start, .bytes = sizeof(group), .host = user};
    return address >= start && address - start < sizeof(group);
}

bool group_run(group *g, const char *body)
{
    text t = {malloc(TEXT), 0};
    bool fine = false;
    if (t.at == NULL) {
        return false;
    }
    write_kernel(&t, g, body);
    sim_module *module = sim_module_load(t.at, 90, g->log, sizeof g->log);
    if (module != NULL) {
        const uint64_t params[6] = {
            (uint64_t)(uintptr_t)g->image, g->a_descriptor,           g->b_descriptor,
            (uint64_t)(uintptr_t)g->a,     (uint64_t)(uintptr_t)g->c, (uint64_t)(uintptr_t)g->d};
        const sim_config config = {
            .grid = {1, 1, 1},
            .block = {GROUP_THREADS, 1, 1},
            .dynamic_shared = GROUP_IMAGE,
            .params = params,
            .param_bytes = sizeof params,
            .capability = 90,
            .memory = {find, g},
            .options = {.seed = g->seed, .delay = g->delay, .limit = 2000000}};
        fine = sim_launch(sim_function_find(module, "k"), &config, &g->report);
    }
    sim_module_destroy(module);
    free(t.at);
    return fine;
}

uint32_t group_place(int swizzle, uint32_t start, uint32_t row, uint32_t byte)
{
    if (swizzle == 0) {
        return start + row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16;
    }
    const uint32_t width = (uint32_t)swizzle, lines = row % 8 * width / 128;
    /* A row's line of 128 bytes, modulo the pattern's eight, four or two, moves its columns. */
    const uint32_t line = (row / 8 * 8 * width / 128 + lines) % (width / 16);
    const uint32_t column = (row % 8 * width % 128 + byte) / 16;
    return start + row / 8 * 8 * width + lines * 128 + (column ^ line) * 16 + byte % 16;
}

uint64_t group_descriptor(int swizzle, uint32_t start)
{
    const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    const uint64_t stride = swizzle == 0 ? 256 : (uint64_t)swizzle * 8;
    return mode << 62 | stride / 16 << 32 | (uint64_t)(swizzle == 0 ? 128 / 16 : 1) << 16 |
           start / 16;
}
