/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix instructions: what an H200 answered (tests/golden/cuda), fragments against plain loops.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static bench b;

static void run(const char *body)
{
    cr_assert(bench_run(&b, body), "%s%s", b.log, b.report.text);
}

/* ---- recorded answers ---- */

typedef struct record {
    uint32_t tag, words[4];
    const uint32_t *part[4];
} record;

static uint32_t *golden;
static size_t golden_words;

static void read_golden(void)
{
    FILE *file = fopen(NIB_SOURCE_DIR "/tests/golden/cuda/h200-mma.bin", "rb");
    cr_assert_not_null(file);
    golden = calloc(1 << 20, 1);
    golden_words = fread(golden, 4, (1 << 20) / 4, file);
    fclose(file);
}

static bool find_record(uint32_t tag, record *out)
{
    for (size_t at = 0; at + 5 <= golden_words;) {
        const uint32_t *p = golden + at + 5;
        out->tag = golden[at];
        for (int i = 0; i < 4; ++i) {
            out->words[i] = golden[at + 1 + (size_t)i];
            out->part[i] = p;
            p += out->words[i];
        }
        if (out->tag == tag) {
            return true;
        }
        at = (size_t)(p - golden);
    }
    return false;
}

/* One mma a thread's warp: A in words 0-1, B in word 2, C in words 3-4 of its input. */
static void check_record(const char *instruction, uint32_t tag)
{
    char body[900];
    record r;
    cr_assert(find_record(tag, &r));
    bench_start(&b, tag);
    b.threads = r.words[0] / 4;
    for (uint32_t i = 0; i < b.threads; ++i) {
        memcpy(&b.in[i][0], r.part[0] + i * 4, 16);
        memcpy(&b.in[i][2], r.part[1] + i * 2, 8);
        memcpy(&b.in[i][4], r.part[2] + i * 4, 16);
    }
    snprintf(body, sizeof body,
             "mov.b64 {%%r0, %%r1}, %%a0; mov.b64 {%%r2, %%r3}, %%a1; mov.b64 {%%r4, %%r5}, %%a2;\n"
             "mov.b64 {%%r6, %%r7}, %%a4; mov.b64 {%%r8, %%r9}, %%a5;\n"
             "%s {%%r6, %%r7, %%r8, %%r9}, {%%r0, %%r1, %%r2, %%r3}, {%%r4, %%r5},"
             " {%%r6, %%r7, %%r8, %%r9};\n"
             "mov.b64 %%d0, {%%r6, %%r7}; mov.b64 %%d1, {%%r8, %%r9};",
             instruction);
    run(body);
    for (uint32_t i = 0; i < b.threads; ++i) {
        cr_assert_arr_eq(b.out[i], r.part[3] + i * 4, 16, "%s, tag %u, thread %u", instruction, tag,
                         i);
    }
}

Test(matrix, products_are_those_of_an_h200)
{
    static const struct {
        const char *instruction;
        uint32_t tag;
    } rows[] = {{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 100},
                {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 200},
                {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 300},
                {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 500}};
    read_golden();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        for (uint32_t run_of_four = 0; run_of_four < 4; ++run_of_four) {
            check_record(rows[i].instruction, rows[i].tag + run_of_four);
        }
    }
    free(golden);
}

/* In the order they were recorded in. */
static const char *const recorded[24] = {"fma.rn.f16x2 %r3, %r0, %r1, %r2;",
                                         "add.rn.f16x2 %r3, %r0, %r1;",
                                         "mul.rn.f16x2 %r3, %r0, %r2;",
                                         "sub.rn.f16x2 %r3, %r0, %r1;",
                                         "fma.rn.bf16x2 %r3, %r0, %r1, %r2;",
                                         "prmt.b32 %r3, %r0, %r1, %r2;",
                                         "lop3.b32 %r3, %r0, %r1, %r2, 0x6a;",
                                         "shf.l.wrap.b32 %r3, %r0, %r1, %r2;",
                                         "shf.r.clamp.b32 %r3, %r0, %r1, %r2;",
                                         "bfe.u32 %r3, %r0, %r1, %r2;",
                                         "bfe.s32 %r3, %r0, %r1, %r2;",
                                         "bfi.b32 %r3, %r0, %r1, %r2, 7;",
                                         "mul.hi.s32 %r3, %r0, %r1;",
                                         "mad.lo.s32 %r3, %r0, %r1, %r2;",
                                         "shr.s32 %r3, %r0, %r2;",
                                         "shl.b32 %r3, %r0, %r2;",
                                         "min.s32 %r3, %r0, %r1;",
                                         "max.u32 %r3, %r0, %r1;",
                                         "clz.b32 %r3, %r0;",
                                         "popc.b32 %r3, %r0;",
                                         "cvt.rn.f16x2.f32 %r3, %f0, %f1;",
                                         "cvt.rn.bf16x2.f32 %r3, %f0, %f1;",
                                         "fma.rn.f32 %f2, %f0, %f1, %f2; mov.b32 %r3, %f2;",
                                         "shfl.sync.bfly.b32 %r3, %r0, 5, 31, -1;"};

Test(matrix, scalar_instructions_are_those_of_an_h200)
{
    record r;
    read_golden();
    cr_assert(find_record(3000, &r));
    for (uint32_t op = 0; op < 24; ++op) {
        char body[400];
        bench_start(&b, op);
        b.threads = r.words[0];
        for (uint32_t i = 0; i < b.threads; ++i) {
            for (int j = 0; j < 3; ++j) {
                b.in[i][j] = r.part[j][i];
            }
        }
        snprintf(body, sizeof body,
                 "cvt.u32.u64 %%r0, %%a0; cvt.u32.u64 %%r1, %%a1; cvt.u32.u64 %%r2, %%a2;\n"
                 "mov.b32 %%f0, %%r0; mov.b32 %%f1, %%r1; mov.b32 %%f2, %%r2;\n"
                 "%s\ncvt.u64.u32 %%d0, %%r3;",
                 recorded[op]);
        run(body);
        for (uint32_t i = 0; i < b.threads; ++i) {
            cr_assert_eq(b.out[i][0], r.part[3][i * 24 + op], "%s, thread %u", recorded[op], i);
        }
    }
    free(golden);
}

/* ---- against loops ---- */

/* Integers that small floats hold exactly, so that sums are exact in any order. */
static const struct {
    const char *instruction;
    int k, bits;
    bool a_signed, b_signed, half;
} shapes[] = {
    {"mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32", 16, 8, true, false, false},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", 32, 8, false, true, false},
    {"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.u8.s32", 32, 8, false, false, false},
    {"mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32", 64, 4, true, false, false},
    {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 16, true, true, true},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16, true, true, true},
};

static int element(const uint32_t *word, int index, int bits, bool is_signed, bool half)
{
    const uint32_t w = word[index * bits / 32] >> (index * bits % 32);
    if (half) {
        /* Codes of 1024 + n, minus 1024 is too many bits for one product: small ones instead. */
        return (int)(w & 15) - 8;
    }
    const uint32_t value = w & ((1u << bits) - 1);
    return is_signed ? (int)(value << (32 - bits)) >> (32 - bits) : (int)value;
}

static uint32_t half_code(int n)
{
    const uint32_t size = (uint32_t)abs(n);
    if (size == 0) {
        return 0;
    }
    const uint32_t e = 31u - (uint32_t)__builtin_clz(size);
    return (n < 0 ? 0x8000u : 0) | (e + 15) << 10 | (size << (10 - e) & 1023);
}

Test(matrix, fragments_hold_the_rows_and_columns_the_manual_says)
{
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; ++s) {
        const int k_size = shapes[s].k, bits = shapes[s].bits, per = 32 / bits;
        const int steps = k_size / (4 * per);
        static int a[16][64], c[8][64];
        char body[900];
        bench_start(&b, s + 1);
        b.threads = 32;
        for (int lane = 0; lane < 32; ++lane) {
            uint32_t *fragment = (uint32_t *)b.in[lane];
            for (int i = 0; i < 2 * steps; ++i) {
                for (int j = 0; j < per; ++j) {
                    a[lane / 4 + 8 * (i & 1)][(lane % 4 + 4 * (i >> 1)) * per + j] =
                        element(&fragment[i], j, bits, shapes[s].a_signed, shapes[s].half);
                }
            }
            for (int i = 0; i < steps; ++i) {
                for (int j = 0; j < per; ++j) {
                    c[lane / 4][(lane % 4 + 4 * i) * per + j] =
                        element(&fragment[4 + i], j, bits, shapes[s].b_signed, shapes[s].half);
                }
            }
            for (int i = 0; shapes[s].half && i < 6; ++i) {
                const int low = element(&fragment[i], 0, 16, true, true);
                const int high = element(&fragment[i], 1, 16, true, true);
                fragment[i] = half_code(low) | half_code(high) << 16;
            }
        }
        snprintf(body, sizeof body,
                 "mov.b64 {%%r0, %%r1}, %%a0; mov.b64 {%%r2, %%r3}, %%a1; mov.b64 {%%r4, %%r5}, "
                 "%%a2;\n%s {%%r6, %%r7, %%r8, %%r9}, {%s}, {%s}, {%s};\n"
                 "mov.b64 %%d0, {%%r6, %%r7}; mov.b64 %%d1, {%%r8, %%r9};",
                 shapes[s].instruction, steps == 1 ? "%r0, %r1" : "%r0, %r1, %r2, %r3",
                 steps == 1 ? "%r4" : "%r4, %r5",
                 shapes[s].half ? "0f40000000, 0f40000000, 0f40000000, 0f40000000" : "2, 2, 2, 2");
        run(body);
        for (int lane = 0; lane < 32; ++lane) {
            const uint32_t *out = (const uint32_t *)b.out[lane];
            for (int j = 0; j < 4; ++j) {
                int sum = 2;
                for (int k = 0; k < k_size; ++k) {
                    sum += a[lane / 4 + 8 * (j >> 1)][k] * c[2 * (lane % 4) + (j & 1)][k];
                }
                float value;
                memcpy(&value, &out[j], 4);
                cr_assert_eq(shapes[s].half ? (int)value : (int)out[j], sum,
                             "%s lane %d element %d", shapes[s].instruction, lane, j);
            }
        }
    }
}

Test(matrix, halves_accumulate_in_halves)
{
    bench_start(&b, 1);
    b.threads = 32;
    run("mov.b32 %r0, 0x3c003c00; mov.b32 %r1, 0x4000bc00;\n"
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r2, %r3}, {%r0, %r0, %r0, %r0},"
        " {%r0, %r1}, {%r0, %r1};\n mov.b64 %d0, {%r2, %r3};");
    for (int lane = 0; lane < 32; ++lane) {
        /* 8 ones, 4 of -1 and 4 of 2: 12; plus 1, 1 and -1, 2. */
        cr_assert_eq(b.out[lane][0], UINT64_C(0x4b0049804a804a80));
    }
}

Test(matrix, ldmatrix_and_stmatrix_move_rows_and_columns)
{
    for (int trans = 0; trans < 2; ++trans) {
        char body[900];
        const char *suffix = trans != 0 ? ".trans" : "";
        bench_start(&b, 3);
        b.threads = 32;
        b.globals = ".shared .align 16 .b8 buffer[1024];\n";
        snprintf(body, sizeof body,
                 "mov.u32 %%r0, buffer; mad.lo.u32 %%r1, %%t, 16, %%r0;\n"
                 "st.shared.v2.b64 [%%r1], {%%a0, %%a1}; bar.sync 0;\n"
                 "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r2, %%r3, %%r4, %%r5}, [%%r1];\n"
                 "mov.b64 %%d0, {%%r2, %%r3}; mov.b64 %%d1, {%%r4, %%r5};\n"
                 "stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%r1+512], {%%r2, %%r3, %%r4, "
                 "%%r5};\nbar.sync 0; ld.shared.v2.b64 {%%d2, %%d3}, [%%r1+512];",
                 suffix, suffix);
        run(body);
        for (int lane = 0; lane < 32; ++lane) {
            const uint16_t *out = (const uint16_t *)b.out[lane];
            for (int i = 0; i < 4; ++i) {
                for (int e = 0; e < 2; ++e) {
                    const int r = trans != 0 ? 2 * (lane % 4) + e : lane / 4;
                    const int c = trans != 0 ? lane / 4 : 2 * (lane % 4) + e;
                    cr_assert_eq(out[i * 2 + e], ((const uint16_t *)b.in[i * 8 + r])[c]);
                }
            }
            cr_assert_arr_eq(&b.out[lane][2], b.in[lane], 16);
        }
    }
}
