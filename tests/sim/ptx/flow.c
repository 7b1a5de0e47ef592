/* SPDX-License-Identifier: Apache-2.0
 *
 * Branches, calls, what lanes do together, barriers.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

static bench b;

static void run(const char *body)
{
    cr_assert(bench_run(&b, body), "%s%s", b.log, b.report.text);
}

Test(flow, lanes_leave_loops_one_by_one_and_meet_again)
{
    bench_start(&b, 5);
    run("cvt.u32.u64 %r0, %a0; and.b32 %r0, %r0, 1023; add.u32 %r0, %r0, 1; mov.b32 %r1, 0;\n"
        "$loop: setp.eq.u32 %p0, %r0, 1; @%p0 bra $done;\n"
        "and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra $even;\n"
        "mad.lo.u32 %r0, %r0, 3, 1; bra.uni $next;\n"
        "$even: shr.u32 %r0, %r0, 1;\n"
        "$next: add.u32 %r1, %r1, 1; bra $loop;\n"
        "$done: cvt.u64.u32 %d0, %r1; vote.sync.ballot.b32 %r3, %p0, -1; cvt.u64.u32 %d1, %r3;");
    for (uint32_t i = 0; i < b.threads; ++i) {
        uint32_t x = (uint32_t)(b.in[i][0] & 1023) + 1, steps = 0;
        for (; x != 1; ++steps) {
            x = (x & 1) != 0 ? 3 * x + 1 : x / 2;
        }
        cr_assert_eq(b.out[i][0], steps);
        cr_assert_eq(b.out[i][1], UINT32_MAX);
    }
}

Test(flow, indexed_branches_go_where_the_list_says)
{
    bench_start(&b, 6);
    run("cvt.u32.u64 %r0, %a0; and.b32 %r0, %r0, 3;\n"
        "$list: .branchtargets $zero, $one, $two,\n $three;\n"
        "brx.idx %r0, $list;\n"
        "$zero: mov.b64 %d0, 10; bra $out;\n$one: mov.b64 %d0, 11; bra $out;\n"
        "$two: mov.b64 %d0, 12; bra $out;\n$three: mov.b64 %d0, 13;\n$out: bar.warp.sync -1;");
    for (uint32_t i = 0; i < b.threads; ++i) {
        cr_assert_eq(b.out[i][0], 10 + (b.in[i][0] & 3));
    }
}

Test(flow, functions_are_called_from_some_lanes_and_call_others)
{
    bench_start(&b, 7);
    b.globals = ".func (.param .b32 r) twice(.param .b32 x) {\n"
                ".reg .b32 %r<3>; ld.param.b32 %r0, [x]; add.u32 %r1, %r0, %r0;\n"
                "st.param.b32 [r], %r1; ret; }\n"
                ".func (.param .b32 r) more(.param .b32 x) {\n"
                ".reg .b32 %r<4>; ld.param.b32 %r0, [x];\n"
                "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r0;\n"
                "call (q), twice, (p); ld.param.b32 %r1, [q]; }\n"
                "add.u32 %r2, %r1, 1; st.param.b32 [r+0], %r2; ret; }\n";
    run("cvt.u32.u64 %r0, %a0; and.b32 %r1, %r0, 1; setp.ne.u32 %p0, %r1, 0; mov.b32 %r2, %r0;\n"
        "@!%p0 bra $skip;\n"
        "{ .param .b32 param0; .param .b32 retval0; st.param.b32 [param0+0], %r0;\n"
        "call.uni (retval0),\n more,\n (\n param0\n );\n ld.param.b32 %r2, [retval0+0]; }\n"
        "$skip: cvt.u64.u32 %d0, %r2;");
    for (uint32_t i = 0; i < b.threads; ++i) {
        const uint32_t x = (uint32_t)b.in[i][0];
        cr_assert_eq(b.out[i][0], (x & 1) != 0 ? 2 * x + 1 : x);
    }
}

/* The manual's formulas, once more. */
static uint32_t shuffled(const char *mode, uint32_t lane, uint32_t x, uint32_t c)
{
    const uint32_t segment = c >> 8 & 31, most = (lane & segment) | (c & 31 & ~segment);
    const uint32_t least = lane & segment;
    int from = (int)lane;
    if (strcmp(mode, "up") == 0) {
        from = (int)lane - (int)x >= (int)most ? (int)lane - (int)x : from;
    } else if (strcmp(mode, "down") == 0) {
        from = lane + x <= most ? (int)(lane + x) : from;
    } else if (strcmp(mode, "bfly") == 0) {
        from = (lane ^ x) <= most ? (int)(lane ^ x) : from;
    } else {
        const uint32_t j = least | (x & ~segment);
        from = j <= most ? (int)j : from;
    }
    return (uint32_t)from;
}

Test(flow, shuffles_read_the_lane_the_manual_names)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    static const uint32_t widths[] = {32, 16, 8, 4};
    for (int m = 0; m < 4; ++m) {
        for (uint32_t w = 0; w < 4; ++w) {
            for (uint32_t x = 0; x < widths[w]; x += 3) {
                char body[300];
                const uint32_t c = (32 - widths[w]) << 8 | (m == 0 ? 0 : 31);
                bench_start(&b, x + 1);
                b.threads = 64;
                snprintf(body, sizeof body,
                         "cvt.u32.u64 %%r0, %%a0;\nshfl.sync.%s.b32 %%r1, %%r0, %u, %u, -1;\n"
                         "cvt.u64.u32 %%d0, %%r1;",
                         modes[m], x, c);
                run(body);
                for (uint32_t i = 0; i < b.threads; ++i) {
                    const uint32_t from = i / 32 * 32 + shuffled(modes[m], i % 32, x, c);
                    cr_assert_eq(b.out[i][0], (uint32_t)b.in[from][0], "%s", body);
                }
            }
        }
    }
}

Test(flow, votes_matches_and_reductions_cover_their_members)
{
    bench_start(&b, 9);
    run("cvt.u32.u64 %r0, %a0; and.b32 %r1, %r0, 7; setp.lt.u32 %p0, %r1, 3;\n"
        "vote.sync.ballot.b32 %r2, %p0, -1; cvt.u64.u32 %d0, %r2;\n"
        "match.any.sync.b32 %r3, %r1, -1; cvt.u64.u32 %d1, %r3;\n"
        "redux.sync.add.u32 %r4, %r0, -1; cvt.u64.u32 %d2, %r4;\n"
        "redux.sync.min.s32 %r5, %r0, -1; cvt.u64.u32 %d3, %r5;\n"
        "and.b32 %r6, %t, 16; setp.ne.u32 %p1, %r6, 0;\n"
        "@%p1 bra $high;\nvote.sync.any.pred %p2, %p0, 0x0000ffff; bra $out;\n"
        "$high: vote.sync.any.pred %p2, %p0, 0xffff0000;\n"
        "$out: selp.b64 %d4, 1, 0, %p2; elect.sync %r7|%p3, -1; selp.b64 %d5, 1, 0, %p3;");
    for (uint32_t w = 0; w < b.threads / 32; ++w) {
        uint32_t ballot = 0, sum = 0;
        int32_t least = INT32_MAX;
        for (uint32_t l = 0; l < 32; ++l) {
            const uint32_t x = (uint32_t)b.in[w * 32 + l][0];
            ballot |= (uint32_t)((x & 7) < 3) << l;
            sum += x;
            least = (int32_t)x < least ? (int32_t)x : least;
        }
        for (uint32_t l = 0; l < 32; ++l) {
            const uint64_t *out = b.out[w * 32 + l];
            uint32_t same = 0;
            for (uint32_t o = 0; o < 32; ++o) {
                same |= (uint32_t)((b.in[w * 32 + o][0] & 7) == (b.in[w * 32 + l][0] & 7)) << o;
            }
            cr_assert_eq(out[0], ballot);
            cr_assert_eq(out[1], same);
            cr_assert_eq(out[2], sum);
            cr_assert_eq(out[3], (uint32_t)least);
            cr_assert_eq(out[4], (ballot >> (l & 16) & 0xffff) != 0);
            cr_assert_eq(out[5], l == 0);
        }
    }
}

Test(flow, barriers_order_shared_memory_between_warps)
{
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        bench_start(&b, seed);
        b.globals = ".shared .align 8 .b8 buffer[1024];\n";
        run("mov.u32 %r0, buffer; mad.lo.u32 %r1, %t, 8, %r0; xor.b32 %r2, %t, 96;\n"
            "mad.lo.u32 %r2, %r2, 8, %r0; st.shared.b64 [%r1], %a0; bar.sync 0;\n"
            "ld.shared.b64 %d0, [%r2]; bar.sync 0; st.shared.b64 [%r1], %a1;\n"
            "barrier.sync 1, 128; ld.shared.b64 %d1, [%r2];\n"
            "setp.lt.u32 %p0, %t, 50; bar.red.popc.u32 %r3, 2, %p0; cvt.u64.u32 %d2, %r3;");
        for (uint32_t i = 0; i < b.threads; ++i) {
            cr_assert_eq(b.out[i][0], b.in[i ^ 96][0]);
            cr_assert_eq(b.out[i][1], b.in[i ^ 96][1]);
            cr_assert_eq(b.out[i][2], 50);
        }
    }
}

/* Half of the warps write and arrive, the others wait and read. */
Test(flow, a_named_barrier_orders_those_that_come_to_it)
{
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        bench_start(&b, seed);
        b.globals = ".shared .align 8 .b8 buffer[512];\n";
        run("mov.u32 %r0, buffer; and.b32 %r1, %t, 63; mad.lo.u32 %r1, %r1, 8, %r0;\n"
            "setp.ge.u32 %p0, %t, 64; @%p0 bra $read;\n"
            "st.shared.b64 [%r1], %a0; bar.arrive 3, 128; bra $done;\n"
            "$read: bar.sync 3, 128; ld.shared.b64 %d0, [%r1];\n$done:");
        for (uint32_t i = 64; i < b.threads; ++i) {
            cr_assert_eq(b.out[i][0], b.in[i - 64][0]);
        }
    }
}

/* Blocks begin in random order, and one at a time where there is one thread of the host. */
Test(flow, blocks_that_wait_for_lower_ones_get_their_turn)
{
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        bench_start(&b, seed);
        b.blocks = 9;
        b.globals = ".global .align 8 .b8 flags[80];\n";
        run("mov.u32 %r0, %ctaid.x; mov.u64 %x0, flags; mad.wide.u32 %x0, %r0, 8, %x0;\n"
            "setp.eq.u32 %p0, %r0, 0; @%p0 bra $go;\n"
            "$wait: ld.acquire.gpu.global.u64 %x1, [%x0-8]; setp.eq.u64 %p1, %x1, 0;\n"
            "@%p1 nanosleep.u32 20; @%p1 bra $wait;\n"
            "$go: bar.sync 0; setp.eq.u32 %p2, %t, 0; add.u32 %r0, %r0, 1; cvt.u64.u32 %x2, %r0;\n"
            "@%p2 st.release.gpu.global.u64 [%x0], %x2; bar.sync 0;\n"
            "ld.acquire.gpu.global.u64 %d0, [%x0];");
    }
}
