/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma: what an H200 answered (tests/golden/cuda), operands of all kinds against plain loops, and
 * what must be found.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"

static group g;

static void start(void)
{
    memset(&g, 0, sizeof g);
    g.seed = 1;
    g.sums = 4;
}

static void run(const char *body)
{
    cr_assert(group_run(&g, body), "%s%s", g.log, g.report.text);
}

static void fails(enum sim_fault fault, const char *body, const char *text)
{
    for (g.seed = 1; g.seed < 5; ++g.seed) {
        for (int delay = 0; delay < 2; ++delay) {
            g.delay = delay == 0 ? SIM_DELAY_LAZY : SIM_DELAY_RANDOM;
            cr_assert_not(group_run(&g, body), "%s", body);
            cr_assert_str_empty(g.log);
            cr_assert_eq(g.report.fault, fault, "%s", g.report.text);
            cr_assert(strstr(g.report.text, text) != NULL, "%s", g.report.text);
        }
    }
}

/* ---- recorded answers ---- */

static uint64_t recorded_state;

static uint32_t recorded_random(void)
{
    recorded_state ^= recorded_state << 13;
    recorded_state ^= recorded_state >> 7;
    recorded_state ^= recorded_state << 17;
    return (uint32_t)(recorded_state >> 11);
}

static uint32_t recorded_f16(int window)
{
    int e = 15 - window / 2 + (int)(recorded_random() % (uint32_t)(window + 1));
    e = e < 0 ? 0 : e > 30 ? 30 : e;
    return (recorded_random() & 0x83ff) | (uint32_t)e << 10;
}

static uint32_t recorded_e4m3(int window)
{
    for (;;) {
        int e = 7 - window / 2 + (int)(recorded_random() % (uint32_t)(window + 1));
        e = e < 0 ? 0 : e > 15 ? 15 : e;
        const uint32_t code = (recorded_random() & 0x87) | (uint32_t)e << 3;
        if ((code & 0x7f) != 0x7f) {
            return code;
        }
    }
}

/* Operands were drawn in this order. */
static void recorded_operands(const uint32_t *head, bool narrow, int variant)
{
    const int window = variant % 2 != 0 ? 8 : 14;
    recorded_state = head[1] | (uint64_t)head[2] << 32;
    for (int i = 0; i < 8192; ++i) {
        uint32_t word = 0;
        for (int shift = 0; shift < 32; shift += narrow ? 8 : 16) {
            word |= (narrow ? recorded_e4m3(window) : recorded_f16(window)) << shift;
        }
        memcpy(g.image + i * 4, &word, 4);
    }
    recorded_state = head[3] | (uint64_t)head[4] << 32;
    for (int i = 0; i < 4096; ++i) {
        uint32_t word = 0;
        if (variant % 3 != 0) {
            word = recorded_random() & 0x807fffff;
            word |= (120u + recorded_random() % 12) << 23;
        }
        g.c[i / 32][i % 32] = word;
    }
    g.a_descriptor = head[5] | (uint64_t)head[6] << 32;
    g.b_descriptor = head[7] | (uint64_t)head[8] << 32;
}

Test(wgmma, products_are_those_of_an_h200)
{
    enum { HEAD = 10, WORDS = 1024, RECORDS = 14 };
    static uint32_t record[HEAD + WORDS];
    FILE *file = fopen(NIB_SOURCE_DIR "/tests/golden/cuda/h200-wgmma.bin", "rb");
    cr_assert_not_null(file);
    for (int i = 0; i < RECORDS; ++i) {
        cr_assert_eq(fread(record, 4, HEAD + WORDS, file), HEAD + WORDS);
        const bool narrow = record[0] >= 1500;
        const int variant = (int)record[0] % 100, warp = variant % 4;
        start();
        g.sums = 32;
        recorded_operands(record, narrow, variant);
        run(narrow
                ? "wgmma.fence.sync.aligned;\n"
                  "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {D}, %da, %db, 1, 1, 1;\n"
                  "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
                : "wgmma.fence.sync.aligned;\n"
                  "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {D}, %da, %db, 1, 1, 1, 0, "
                  "0;\n"
                  "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
        for (int lane = 0; lane < 32; ++lane) {
            cr_assert_arr_eq(g.d[warp * 32 + lane], record + HEAD + lane * 32, 128,
                             "record %u, lane %d", record[0], lane);
        }
    }
    fclose(file);
}

/* ---- operands against plain loops ---- */

typedef struct kind {
    const char *name;  /* of the instruction's types */
    int bits;          /* of an element */
    const char *a, *b; /* "f16", ... */
    bool integer;
} kind;

static const kind kinds[] = {
    {"f32.f16.f16", 16, "f16", "f16", false},    {"f32.bf16.bf16", 16, "bf16", "bf16", false},
    {"f32.e4m3.e4m3", 8, "e4m3", "e4m3", false}, {"f32.e5m2.e5m2", 8, "e5m2", "e5m2", false},
    {"f32.e4m3.e5m2", 8, "e4m3", "e5m2", false}, {"f32.e5m2.e4m3", 8, "e5m2", "e4m3", false},
    {"s32.s8.s8", 8, "s8", "s8", true},          {"s32.u8.u8", 8, "u8", "u8", true},
    {"s32.s8.u8", 8, "s8", "u8", true},          {"s32.u8.s8", 8, "u8", "s8", true}};

static uint64_t random_state = 12345;

static uint32_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 24);
}

/* A code, and the number that it means. Floats: -3 to 3, so that sums are exact. */
static uint32_t element(const char *type, int *value)
{
    static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200}, bf16[] = {0, 0x3f80, 0x4000, 0x4040};
    static const uint16_t e4m3[] = {0, 0x38, 0x40, 0x44}, e5m2[] = {0, 0x3c, 0x40, 0x42};
    const uint32_t word = draw(), size = word & 3, minus = word >> 2 & 1;
    if (type[1] == '8') {
        const uint32_t code = word >> 8 & 255;
        *value = type[0] == 's' ? (int8_t)code : (int)code;
        return code;
    }
    const uint16_t *codes = strcmp(type, "f16") == 0    ? f16
                            : strcmp(type, "bf16") == 0 ? bf16
                            : strcmp(type, "e4m3") == 0 ? e4m3
                                                        : e5m2;
    *value = minus != 0 ? -(int)size : (int)size;
    return codes[size] | minus << (codes == f16 || codes == bf16 ? 15 : 7);
}

static int a_value[64][32], b_value[256][32], k_size;

static void put(uint32_t at, uint32_t code, int bits)
{
    memcpy(g.image + at, &code, (size_t)bits / 8);
}

/* Random operands in shared memory; A in registers as well. */
static void fill(const kind *x, int n, int swizzle, uint32_t advance)
{
    const int bytes = x->bits / 8;
    k_size = 32 / bytes;
    for (int row = 0; row < 64; ++row) {
        for (int k = 0; k < k_size; ++k) {
            const uint32_t code = element(x->a, &a_value[row][k]);
            const uint32_t byte = (uint32_t)(k * bytes);
            put(group_place(swizzle, 0, (uint32_t)row, advance + byte), code, x->bits);
            /* Lane 4 (row % 8) + k / E % 4, register row / 8 % 2 + 2 (k / 4E). */
            const int elements = 4 / bytes, lane = row % 8 * 4 + k / elements % 4;
            uint32_t *word = &g.a[row / 16 * 32 + lane][row / 8 % 2 + 2 * (k / (4 * elements))];
            *word |= code << (k % elements * x->bits);
        }
    }
    for (int row = 0; row < n; ++row) {
        for (int k = 0; k < k_size; ++k) {
            const uint32_t code = element(x->b, &b_value[row][k]);
            put(group_place(swizzle, GROUP_B, (uint32_t)row, advance + (uint32_t)(k * bytes)), code,
                x->bits);
        }
    }
    g.a_descriptor = group_descriptor(swizzle, 0) + advance / 16;
    g.b_descriptor = group_descriptor(swizzle, GROUP_B) + advance / 16;
}

static int product_of(int row, int column)
{
    int sum = 0;
    for (int k = 0; k < k_size; ++k) {
        sum += a_value[row][k] * b_value[column][k];
    }
    return sum;
}

/* d = c + sign (a b) in every place. */
static void compare(bool integer, int n, int sign, bool adds)
{
    for (int row = 0; row < 64; ++row) {
        for (int column = 0; column < n; ++column) {
            const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
            const int j = column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
            const int sum = sign * product_of(row, column);
            int c = 0, d = 0;
            memcpy(&c, &g.c[thread][j], 4);
            memcpy(&d, &g.d[thread][j], 4);
            if (!integer) {
                float from, to;
                memcpy(&from, &c, 4);
                memcpy(&to, &d, 4);
                c = (int)from;
                d = (int)to;
            }
            cr_assert_eq(d, (adds ? c : 0) + sum, "n = %d, row %d, column %d: %d and not %d", n,
                         row, column, d, (adds ? c : 0) + sum);
        }
    }
}

static void fill_sums(bool integer, int n)
{
    g.sums = n / 2;
    for (int i = 0; i < GROUP_THREADS * GROUP_SUMS; ++i) {
        uint32_t *c = &g.c[i / GROUP_SUMS][i % GROUP_SUMS];
        const float value = (float)(int)(draw() % 64) - 32;
        memcpy(c, &value, 4);
        if (integer) {
            *c = draw() % 100000;
        }
    }
}

static void check_kind(const kind *x, int n, int swizzle, uint32_t advance, bool registers)
{
    char body[400];
    start();
    g.seed = (uint64_t)n;
    g.delay = n % 16 == 0 ? SIM_DELAY_LAZY : SIM_DELAY_RANDOM;
    fill(x, n, swizzle, advance);
    fill_sums(x->integer, n);
    snprintf(body, sizeof body,
             "setp.eq.u32 %%p1, %%t, %%t;\nwgmma.fence.sync.aligned;\n"
             "wgmma.mma_async.sync.aligned.m64n%dk%d.%s {D}, %s, %%db, %%p1%s%s;\n"
             "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
             n, k_size, x->name, registers ? "{A}" : "%da", x->integer ? "" : ", 1, 1",
             x->bits == 8 ? ""
             : registers  ? ", 0"
                          : ", 0, 0");
    run(body);
    compare(x->integer, n, 1, true);
    cr_assert_eq(g.report.macs, (uint64_t)64 * (uint64_t)n * (uint64_t)k_size);
}

Test(wgmma, operands_come_from_where_they_are)
{
    static const int sizes[] = {8, 16, 64, 128, 256}, swizzles[] = {128, 64, 32, 0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; ++j) {
            const int swizzle = swizzles[(i + j) % 4];
            check_kind(&kinds[i], sizes[j], swizzle, 0, false);
            check_kind(&kinds[i], sizes[j], swizzles[j % 4], 0, true);
        }
    }
    check_kind(&kinds[0], 40, 128, 32, false);
    check_kind(&kinds[1], 248, 128, 96, true);
    check_kind(&kinds[2], 72, 64, 32, false);
}

Test(wgmma, the_compiler_chooses_the_first_sum_and_signs)
{
    start();
    fill(&kinds[0], 8, 128, 0);
    fill_sums(false, 8);
    run("wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, %da, %db, 0, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    compare(false, 8, 1, false);
    run("wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, {A}, %db, 1, -1, 1, 0;\n"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    compare(false, 8, -1, true);
    run("wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, %da, %db, 1, -1, -1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    compare(false, 8, 1, true);
}

Test(wgmma, sums_may_be_halves)
{
    start();
    fill(&kinds[0], 16, 128, 0);
    g.sums = 4;
    run("wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {D}, %da, %db, 0, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    for (int row = 0; row < 64; ++row) {
        for (int column = 0; column < 16; ++column) {
            const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
            const uint32_t word = g.d[thread][column / 8 * 2 + row / 8 % 2];
            const uint32_t code = word >> (column % 2 * 16) & 0xffff;
            const uint32_t e = code >> 10 & 31, m = (code & 1023) | (e != 0 ? 1024 : 0);
            const int size = (int)(m << (e != 0 ? e : 1)) >> 25;
            const int value = (code & 0x8000) != 0 ? -size : size;
            cr_assert_eq(value, product_of(row, column));
        }
    }
}

Test(wgmma, integer_sums_wrap_or_stop)
{
    for (int stops = 0; stops < 2; ++stops) {
        start();
        memset(g.image, 0x7f, sizeof g.image);
        g.a_descriptor = group_descriptor(128, 0);
        g.b_descriptor = group_descriptor(128, GROUP_B);
        for (int i = 0; i < 4; ++i) {
            g.c[5][i] = 0x7ffffff0;
        }
        run(stops != 0
                ? "wgmma.fence.sync.aligned;\n"
                  "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.s8 {D}, %da, %db, 1;\n"
                  "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
                : "wgmma.fence.sync.aligned;\n"
                  "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {D}, %da, %db, 1;\n"
                  "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
        cr_assert_eq(g.d[5][0], stops != 0 ? 0x7fffffff : 0x7ffffff0u + 32 * 127 * 127);
        cr_assert_eq(g.d[6][0], 32 * 127 * 127);
    }
}

#define MMA_S  "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, %da, %db, 1, 1, 1, 0, 0;\n"
#define MMA_R  "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, {A}, %db, 1, 1, 1, 0;\n"
#define FENCE  "wgmma.fence.sync.aligned;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT   "wgmma.wait_group.sync.aligned 0;\n"

Test(wgmma, products_follow_each_other_in_the_same_sums)
{
    for (int delay = 0; delay < 2; ++delay) {
        start();
        g.delay = delay == 0 ? SIM_DELAY_LAZY : SIM_DELAY_RANDOM;
        fill(&kinds[0], 8, 128, 0);
        run(FENCE MMA_S COMMIT MMA_S COMMIT "wgmma.wait_group.sync.aligned 1;\n" MMA_R COMMIT WAIT);
        for (int i = 0; i < 64; ++i) {
            for (int k = 0; k < k_size; ++k) {
                a_value[i][k] *= 3;
            }
        }
        compare(false, 8, 1, true);
    }
}

/* ---- what must be found ---- */

static void start_faults(void)
{
    start();
    fill(&kinds[0], 8, 128, 0);
}

Test(wgmma, registers_need_a_fence_and_a_wait)
{
    start_faults();
    fails(SIM_RACE, MMA_S COMMIT WAIT, "no wgmma.fence came before");
    fails(SIM_RACE, FENCE "mov.b32 %a1, 0;\n" MMA_R COMMIT WAIT, "with no wgmma.fence since");
    fails(SIM_RACE, FENCE "mov.b32 %c3, 0;\n" MMA_S COMMIT WAIT, "with no wgmma.fence since");
    fails(SIM_RACE, FENCE MMA_S COMMIT "mov.b32 %r0, %c2;\n" WAIT, "has not been waited for");
    fails(SIM_RACE, FENCE MMA_R COMMIT "mov.b32 %a2, 0;\n" WAIT, "has not been waited for");
    fails(SIM_RACE,
          FENCE MMA_R COMMIT MMA_R COMMIT
          "wgmma.wait_group.sync.aligned 1;\nmov.b32 %a2, 0;\n" WAIT,
          "has not been waited for");
    fails(SIM_RACE, FENCE MMA_S WAIT, "has not been waited for");
    fails(SIM_RACE, FENCE MMA_S COMMIT WAIT "mov.b32 %r0, %c0;\n" MMA_S COMMIT WAIT,
          "with no wgmma.fence since");
    fails(SIM_RACE, FENCE MMA_S COMMIT "exit;\n", "leaves with a wgmma");
}

Test(wgmma, sums_of_another_shape_need_a_fence)
{
    start_faults();
    g.sums = 8;
    fails(
        SIM_RACE,
        FENCE
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {D}, %da, %db, 1, 1, 1, 0, 0;\n" COMMIT
            WAIT
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}, %da, %db, 1, 1, "
        "1, 0, 0;\n" COMMIT WAIT,
        "of another shape");
}

Test(wgmma, unwritten_sums_and_fragments_are_found)
{
    start_faults();
    fails(SIM_UNSET,
          FENCE "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c4, %c5, %c6, %c7}, %da, %db, "
                "1, 1, 1, 0, 0;\n" COMMIT WAIT,
          "never written");
    fails(SIM_UNSET,
          FENCE "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, {%c4, %c5, %c6, %c7}, %db, "
                "1, 1, 1, 0;\n" COMMIT WAIT,
          "never written");
    run(FENCE "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c4, %c5, %c6, %c7}, %da, %db, "
              "0, 1, 1, 0, 0;\n" COMMIT WAIT "mov.b32 %c0, %c4;");
}

Test(wgmma, shared_operands_are_the_asynchronous_proxys)
{
    start_faults();
    g.before = "bar.sync 0;";
    fails(SIM_RACE, FENCE MMA_S COMMIT WAIT, "without a fence.proxy.async");
    g.before = "fence.proxy.async.shared::cta; bar.sync 0; mad.lo.u32 %r0, %t, 16, %base; "
               "st.shared.b32 [%r0+16384], %t;"
               "fence.proxy.async.shared::cta;";
    fails(SIM_RACE, FENCE MMA_R COMMIT WAIT, "shared offset");
    g.before = NULL;
    fails(SIM_RACE,
          "setp.eq.u32 %p0, %t, 0;\n" FENCE MMA_R COMMIT
          "@%p0 st.shared.b32 [%base+16384], %t;\n" WAIT,
          "wgmma");
    fails(SIM_MEMORY, "add.u64 %db, %db, 4096;\n" FENCE MMA_S COMMIT WAIT, "lies outside");
    fails(SIM_MEMORY, "or.b64 %db, %db, 0x10000000000000;\n" FENCE MMA_S COMMIT WAIT,
          "bits that mean nothing");
}

Test(wgmma, a_barrier_behind_the_wait_frees_shared_operands)
{
    start_faults();
    run(FENCE MMA_S COMMIT WAIT "bar.sync 0;\nsetp.eq.u32 %p0, %t, 0;\n"
                                "@%p0 st.shared.b32 [%base+16384], %t;\n");
}

Test(wgmma, all_four_warps_ask_for_the_same)
{
    start_faults();
    fails(SIM_DEADLOCK,
          "setp.ge.u32 %p0, %t, 96; @%p0 bra $out;\n" FENCE MMA_S COMMIT WAIT "$out: bar.sync 0;\n",
          "wait_group");
    fails(SIM_DIVERGED,
          "setp.ge.u32 %p0, %t, 96; @%p0 add.u64 %db, %db, 2;\n" FENCE MMA_S COMMIT WAIT,
          "other descriptors");
    fails(SIM_DIVERGED,
          "setp.eq.u32 %p0, %t, 3; @%p0 add.u64 %db, %db, 2;\n" FENCE MMA_S COMMIT WAIT,
          "different descriptors");
    fails(SIM_DIVERGED,
          "setp.ge.u32 %p0, %t, 96; @%p0 bra $other;\n" FENCE MMA_S COMMIT WAIT
          "bra $out;\n$other:\n" FENCE MMA_R COMMIT WAIT "$out:\n",
          "another warp of the warpgroup");
}

Test(wgmma, what_is_not_modelled_does_not_load)
{
    static const struct {
        const char *body, *why;
    } rows[] = {
        {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, %da, %db, 1, 1, 1, 0, 1;",
         "transposed"},
        {"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {D}, %da, %db, 1, 1, 1;",
         "not modelled"},
        {"wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3 {D}, %da, %db, 1, 1, 1;",
         "f16 sums of 8-bit"},
        {"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {D}, %da, %db, 1;", "no such shape"},
        {"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {D}, %da, %db, 1, 1, 1, 0, 0;",
         "not of this shape"},
        {"setmaxnreg.inc.sync.aligned.u32 100;", "multiple of 8"}};
    start();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        cr_assert_not(group_run(&g, rows[i].body));
        cr_assert(strstr(g.log, rows[i].why) != NULL, "%s", g.log);
    }
}

/* ---- setmaxnreg ---- */

Test(wgmma, registers_come_from_those_given_back)
{
    start();
    g.limits = ".maxnreg 168";
    run("setmaxnreg.dec.sync.aligned.u32 40; bar.sync 0; setmaxnreg.inc.sync.aligned.u32 168;");
    fails(SIM_DEADLOCK, "setmaxnreg.inc.sync.aligned.u32 176;", "setmaxnreg");
    fails(SIM_MEMORY, "setmaxnreg.dec.sync.aligned.u32 176;", "176 registers");
    fails(SIM_DIVERGED,
          "setp.ge.u32 %p0, %t, 96; @%p0 bra $end;\nsetmaxnreg.dec.sync.aligned.u32 40;\n",
          "never came to it");
    g.limits = NULL;
    fails(SIM_UNKNOWN, "setmaxnreg.dec.sync.aligned.u32 40;", "needs .maxntid");
}
