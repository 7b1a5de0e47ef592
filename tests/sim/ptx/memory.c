/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads, stores, atomics and asynchronous copies; conversions of small floats.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

static bench b;

static void run(const char *body)
{
    cr_assert(bench_run(&b, body), "%s%s", b.log, b.report.text);
}

Test(memory, loads_extend_and_vectors_keep_their_order)
{
    bench_start(&b, 1);
    run("ld.global.nc.L1::no_allocate.s8 %r0, [%in]; cvt.s64.s32 %d0, %r0;\n"
        "ld.global.ca.u8 %rs0, [%in+1]; cvt.u64.u16 %d1, %rs0;\n"
        "ld.global.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%in+16]; mov.b64 %d2, {%r4, %r1};\n"
        "ld.volatile.global.v4.u16 {%rs1, %rs2, %rs3, %rs4}, [%in+8];\n"
        "mov.b64 %d3, {%rs4, %rs3, %rs2, %rs1};\n"
        "ld.global.s16 %x0, [%in+2]; mov.b64 %d4, %x0;\n"
        "ld.global.v2.f64 {%fd0, %fd1}, [%in+32]; mov.b64 %d5, %fd1;");
    for (uint32_t i = 0; i < b.threads; ++i) {
        const uint8_t *in = (const uint8_t *)b.in[i];
        const uint64_t w = b.in[i][1];
        int16_t half;
        memcpy(&half, in + 2, 2);
        cr_assert_eq((int64_t)b.out[i][0], (int8_t)in[0]);
        cr_assert_eq(b.out[i][1], in[1]);
        cr_assert_eq(b.out[i][2], (b.in[i][2] & UINT32_MAX) << 32 | b.in[i][3] >> 32);
        cr_assert_eq(b.out[i][3],
                     w >> 48 | (w >> 16 & 0xffff0000) | (w << 16 & 0xffff00000000) | w << 48);
        cr_assert_eq((int64_t)b.out[i][4], half);
        cr_assert_eq(b.out[i][5], b.in[i][5]);
    }
}

Test(memory, local_shared_and_constant_memory_are_separate)
{
    bench_start(&b, 2);
    b.globals = ".const .align 4 .b32 table[4] = {10, 20, 30, 40};\n"
                ".global .align 8 .u64 where = table;\n"
                ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[4];\n";
    b.dynamic_shared = 1024;
    run(".local .align 8 .b8 depot[32];\n"
        "mov.u64 %x0, depot; cvta.local.u64 %x1, %x0; st.local.u64 [%x0+8], %a0;\n"
        "ld.u64 %d0, [%x1+8];\n"
        "mov.u32 %r0, dynamic; mad.lo.u32 %r0, %t, 8, %r0; st.shared.u64 [%r0], %a1;\n"
        "cvt.u64.u32 %x2, %r0; cvta.shared.u64 %x3, %x2; ld.u64 %d1, [%x3];\n"
        "isspacep.shared %p0, %x3; selp.b64 %d2, 1, 0, %p0;\n"
        "isspacep.global %p1, %in; selp.b64 %d3, 1, 0, %p1;\n"
        "mov.u64 %x4, table; ld.const.u32 %r1, [%x4+8]; cvt.u64.u32 %d4, %r1;\n"
        "ld.global.u64 %x5, [where]; ld.u32 %r2, [%x5+12]; cvt.u64.u32 %d5, %r2;\n"
        "mov.u32 %r3, dynamic; mov.u32 %r4, fixed; sub.u32 %r5, %r3, %r4; cvt.u64.u32 %d6, %r5;\n"
        "setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u32 [fixed], %t;");
    for (uint32_t i = 0; i < b.threads; ++i) {
        cr_assert_eq(b.out[i][0], b.in[i][0]);
        cr_assert_eq(b.out[i][1], b.in[i][1]);
        cr_assert_eq(b.out[i][2], 1);
        cr_assert_eq(b.out[i][3], 1);
        cr_assert_eq(b.out[i][4], 30);
        cr_assert_eq(b.out[i][5], 40);
        cr_assert_eq(b.out[i][6], 16);
    }
}

Test(memory, atomics_of_all_lanes_and_blocks_add_up)
{
    bench_start(&b, 3);
    b.blocks = 5;
    b.globals = ".global .align 8 .b8 sums[64];\n";
    run("mov.u64 %x0, sums; atom.global.add.u32 %r0, [%x0], 1;\n"
        "cvt.u32.u64 %r1, %a0; atom.global.max.u32 %r2, [%x0+4], %r1;\n"
        "red.relaxed.gpu.global.add.u64 [%x0+8], %a1;\n"
        "mov.f32 %f0, 0f3F800000; red.global.add.f32 [%x0+16], %f0;\n"
        "$again: ld.volatile.global.u32 %r3, [%x0+20]; add.u32 %r4, %r3, 2;\n"
        "atom.global.cas.b32 %r5, [%x0+20], %r3, %r4; setp.ne.u32 %p0, %r5, %r3;\n"
        "@%p0 bra $again;\n"
        "ld.global.v2.u32 {%r6, %r7}, [%x0]; mov.b64 %d0, {%r6, %r7};\n"
        "ld.global.u64 %d1, [%x0+8]; ld.global.v2.u32 {%r8, %r9}, [%x0+16];\n"
        "mov.b64 %d2, {%r8, %r9}; cvt.u64.u32 %d3, %r0;");
    uint64_t sum = 0, last = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < b.threads; ++i) {
        sum += b.in[i][1] * 5;
        most = (uint32_t)b.in[i][0] > most ? (uint32_t)b.in[i][0] : most;
    }
    /* The thread that came last saw everything. */
    for (uint32_t i = 0; i < b.threads; ++i) {
        const bool complete = (uint32_t)b.out[i][0] == 5 * b.threads && b.out[i][1] == sum &&
                              b.out[i][2] >> 32 == 10 * b.threads;
        last += complete;
        if (complete) {
            float adds;
            memcpy(&adds, &b.out[i][2], 4);
            cr_assert_eq(b.out[i][0] >> 32, most);
            cr_assert_eq(adds, 5.0f * (float)b.threads);
        }
    }
    cr_assert_neq(last, 0);
}

Test(memory, copies_land_when_waited_for_and_fill_with_zeros)
{
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        bench_start(&b, seed);
        b.delay = seed % 2 == 0 ? SIM_DELAY_RANDOM : SIM_DELAY_LAZY;
        b.dynamic_shared = 128 * 32;
        b.globals = ".extern .shared .align 16 .b8 buffer[];\n";
        run("mov.u32 %r0, buffer; mad.lo.u32 %r0, %t, 32, %r0; and.b32 %r1, %t, 15;\n"
            "cp.async.cg.shared.global.L2::128B [%r0], [%in], 16, %r1;\n"
            "cp.async.commit_group;\n"
            "cp.async.ca.shared.global [%r0+16], [%in+24], 8; cp.async.commit_group;\n"
            "cp.async.wait_group 1; ld.shared.v2.b64 {%d0, %d1}, [%r0];\n"
            "cp.async.wait_all; ld.shared.b64 %d2, [%r0+16];\n"
            "bar.sync 0; xor.b32 %r2, %r0, 3072; sub.u32 %r3, %r2, %r0;\n");
        for (uint32_t i = 0; i < b.threads; ++i) {
            uint8_t want[16] = {0};
            memcpy(want, b.in[i], i & 15);
            cr_assert_arr_eq(b.out[i], want, 16);
            cr_assert_eq(b.out[i][2], b.in[i][3]);
        }
    }
}

static double small(unsigned exponent, unsigned mantissa, int bias, uint32_t code)
{
    const uint32_t m = code & ((1u << mantissa) - 1), e = code >> mantissa & ((1u << exponent) - 1);
    const double v =
        ldexp(e != 0 ? m + (1u << mantissa) : m, (int)(e != 0 ? e : 1) - bias - (int)mantissa);
    return (code >> (exponent + mantissa) & 1) != 0 ? -v : v;
}

/* All codes decode, encode back to themselves, and what lies between goes to the nearest. */
Test(memory, eight_bit_floats_round_to_the_nearest_code)
{
    bench_start(&b, 4);
    b.threads = 256;
    for (uint32_t i = 0; i < 256; ++i) {
        const uint64_t pair = i | ((i * 7 + 3) & 255) << 8;
        const float between =
            (float)((i & 1) != 0 ? 1 : -1) * ldexpf(1.0f + (float)i / 300, (int)(i % 20) - 11);
        uint32_t code;
        memcpy(&code, &between, 4);
        b.in[i][0] = pair;
        b.in[i][1] = code;
    }
    run("cvt.u16.u64 %rs0, %a0; cvt.rn.f16x2.e4m3x2 %r0, %rs0; cvt.u64.u32 %d0, %r0;\n"
        "cvt.rn.satfinite.e4m3x2.f16x2 %rs1, %r0; cvt.u64.u16 %d1, %rs1;\n"
        "cvt.rn.f16x2.e5m2x2 %r1, %rs0; cvt.rn.satfinite.e5m2x2.f16x2 %rs2, %r1;\n"
        "cvt.u64.u16 %d2, %rs2; cvt.u32.u64 %r2, %a1; mov.b32 %f0, %r2;\n"
        "cvt.rn.satfinite.e4m3x2.f32 %rs3, %f0, %f0; cvt.u64.u16 %d3, %rs3;\n"
        "cvt.rz.bf16.f32 %rs4, %f0; cvt.rn.bf16x2.f32 %r3, %f0, %f0; cvt.u64.u32 %d4, %r3;\n"
        "cvt.u64.u16 %d5, %rs4; mov.b32 {%rs5, %rs6}, %r0; cvt.f32.f16 %f1, %rs5;\n"
        "mov.b32 %r4, %f1; cvt.u64.u32 %d6, %r4;");
    for (uint32_t i = 0; i < 256; ++i) {
        const uint32_t pair = (uint32_t)b.in[i][0], low = pair & 255;
        const bool nan4 = (low & 127) == 127, nan_high = (pair >> 8 & 127) == 127;
        float value, decoded;
        memcpy(&value, &b.in[i][1], 4);
        memcpy(&decoded, &b.out[i][6], 4);
        if (!nan4) {
            cr_assert_eq(decoded, small(4, 3, 7, low));
        }
        if (!nan4 && !nan_high) {
            cr_assert_eq(b.out[i][1], pair, "%x", pair);
        }
        if ((low & 127) < 124 && (pair >> 8 & 127) < 124) {
            cr_assert_eq(b.out[i][2], pair, "%x", pair);
        }
        const double got = small(4, 3, 7, b.out[i][3] & 255);
        for (uint32_t code = 0; code < 256; ++code) {
            if ((code & 127) != 127) {
                cr_assert_leq(fabs(got - value), fabs(small(4, 3, 7, code) - value));
            }
        }
        cr_assert_eq(b.out[i][5], b.in[i][1] >> 16);
        cr_assert_eq(b.out[i][4] & 0xffff, (b.in[i][1] + 0x7fff + (b.in[i][1] >> 16 & 1)) >> 16);
    }
}
