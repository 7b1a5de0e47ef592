/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarriers, bulk copies and copies of tensors, and what the interpreter must find in kernels that
 * use them wrongly.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "tensor_map.h"

static bench b;

static const char globals[] = ".shared .align 1024 .b8 tile[8192];\n"
                              ".shared .align 8 .b8 bars[64];\n";

static void start(uint64_t seed)
{
    bench_start(&b, seed);
    b.globals = globals;
    b.delay = seed % 2 == 0 ? SIM_DELAY_RANDOM : SIM_DELAY_LAZY;
}

static void run(const char *body)
{
    cr_assert(bench_run(&b, body), "%s%s", b.log, b.report.text);
}

/* Thread 0 prepares an mbarrier; %r30 = tile, %r31 = bars, %p19 = thread 0. */
#define BEGIN(count)                                                     \
    "mov.u32 %r30, tile; mov.u32 %r31, bars; setp.eq.u32 %p19, %t, 0;\n" \
    "@%p19 mbarrier.init.shared::cta.b64 [%r31], " #count ";\n"          \
    "@%p19 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
#define WAIT(name, at, parity)                                                      \
    name ": mbarrier.try_wait.parity.shared::cta.b64 %p18, [" at "], " parity ";\n" \
         "@!%p18 bra " name ";\n"
#define LOAD                                                                                 \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r30], [%in], %r0, " \
    "[%r31];\n"
#define EXPECT "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r31], %r0;\n"

Test(async, an_mbarrier_orders_those_that_wait_behind_those_that_arrived)
{
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        start(seed);
        run(BEGIN(128) "mad.lo.u32 %r1, %t, 8, %r30; xor.b32 %r2, %t, 96;\n"
                       "mad.lo.u32 %r2, %r2, 8, %r30; mov.b32 %r5, 0;\n"
                       "$loop: st.shared.u64 [%r1], %a0;\n"
                       "mbarrier.arrive.shared.b64 %x0, [%r31];\n"
                       "$wait: mbarrier.test_wait.shared.b64 %p0, [%r31], %x0; @!%p0 bra $wait;\n"
                       "ld.shared.u64 %d0, [%r2]; add.s64 %d1, %d1, %d0;\n"
                       "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r31], 1;\n" WAIT(
                           "$wait2", "%r31", "1") "add.s64 %a0, %a0, 1; add.u32 %r5, %r5, 1;\n"
                                                  "setp.lt.u32 %p1, %r5, 3; @%p1 bra $loop;");
        for (uint32_t i = 0; i < b.threads; ++i) {
            cr_assert_eq(b.out[i][0], b.in[i ^ 96][0] + 2);
            cr_assert_eq(b.out[i][1], 3 * b.in[i ^ 96][0] + 3);
        }
    }
}

Test(async, generic_addresses_and_pending_counts_are_understood)
{
    start(2);
    run(BEGIN(256) "cvt.u64.u32 %x1, %r31; cvta.shared.u64 %x1, %x1;\n"
                   "@!%p19 bra $on; mbarrier.arrive.b64 %x0, [%x1], 100;\n"
                   "mbarrier.pending_count.b64 %r0, %x0; cvt.u64.u32 %d0, %r0;\n"
                   "mbarrier.arrive.b64 %x0, [%x1], 28;\n"
                   "mbarrier.pending_count.b64 %r0, %x0; cvt.u64.u32 %d1, %r0;\n"
                   "$on: bar.sync 0; mbarrier.arrive.shared.b64 _, [%r31];\n" WAIT(
                       "$wait", "%r31", "0") "bar.sync 0; @%p19 mbarrier.inval.shared.b64 [%r31];");
    cr_assert_eq(b.out[0][0], 256);
    cr_assert_eq(b.out[0][1], 156);
}

/* A ring of two slots: thread 0 of the last warp loads 512 bytes a turn, the others consume. */
static const char ring[] =
    "mov.u32 %r30, tile; mov.u32 %r31, bars; setp.eq.u32 %p19, %t, 96;\n"
    "@!%p19 bra $ready;\n"
    "mbarrier.init.shared::cta.b64 [%r31], 1; mbarrier.init.shared::cta.b64 [%r31+8], 1;\n"
    "mbarrier.init.shared::cta.b64 [%r31+16], 3; mbarrier.init.shared::cta.b64 [%r31+24], 3;\n"
    "fence.proxy.async.shared::cta;\n"
    "$ready: bar.sync 0; mov.b32 %r0, 0; mov.b32 %r9, 512; mul.wide.u32 %x1, %t, 64;\n"
    "sub.s64 %x0, %in, %x1;\n"
    "setp.lt.u32 %p17, %t, 96; @%p17 bra $consume;\n"
    "@!%p19 bra $end;\n"
    "$produce: and.b32 %r1, %r0, 1; shr.u32 %r2, %r0, 1; and.b32 %r2, %r2, 1; xor.b32 %r2, %r2, "
    "1;\n"
    "mad.lo.u32 %r3, %r1, 8, %r31; mad.lo.u32 %r4, %r1, 512, %r30;\n" WAIT(
        "$empty", "%r3+16",
        "%r2") "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r3], %r9;\n"
               "mad.wide.u32 %x2, %r0, 512, %x0;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%x2], "
               "256, [%r3];\n"
               "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%r4+256],"
               " [%x2+256], 256, [%r3], %x2;\n"
               "add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 12; @%p0 bra $produce; bra $end;\n"
               "$consume: and.b32 %r1, %r0, 1; shr.u32 %r2, %r0, 1; and.b32 %r2, %r2, 1;\n"
               "mad.lo.u32 %r3, %r1, 8, %r31; mad.lo.u32 %r4, %r1, 512, %r30;\n" WAIT(
                   "$full", "%r3",
                   "%r2") "rem.u32 %r5, %t, 64; mad.lo.u32 %r5, %r5, 8, %r4; ld.shared.u64 %x3, "
                          "[%r5];\n"
                          "add.s64 %d0, %d0, %x3; and.b32 %r6, %t, 31; setp.eq.u32 %p1, %r6, 0; "
                          "bar.warp.sync -1;\n"
                          "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r3+16];\n"
                          "add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 12; @%p0 bra $consume;";

Test(async, a_ring_of_bulk_copies_delivers_every_turn)
{
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        start(seed);
        run(ring);
        for (uint32_t i = 0; i < 96; ++i) {
            uint64_t sum = 0;
            for (uint32_t turn = 0; turn < 12; ++turn) {
                sum += (&b.in[0][0])[turn * 64 + i % 64];
            }
            cr_assert_eq(b.out[i][0], sum, "seed %llu thread %u", (unsigned long long)seed, i);
        }
    }
}

Test(async, bulk_stores_land_when_waited_for_and_at_the_end)
{
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        start(seed);
        run("mov.u32 %r30, tile; mad.lo.u32 %r1, %t, 32, %r30; st.shared.v2.b64 [%r1], {%a0, "
            "%a1};\n"
            "st.shared.v2.b64 [%r1+16], {%a2, %a3}; fence.proxy.async.shared::cta;\n"
            "cp.async.bulk.global.shared::cta.bulk_group [%in+32], [%r1], 16;\n"
            "cp.async.bulk.commit_group;\n"
            "cp.async.bulk.global.shared::cta.bulk_group [%in+48], [%r1+16], 16;\n"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;\n"
            "ld.global.v2.b64 {%d0, %d1}, [%in+32];\n"
            "cp.async.bulk.wait_group.read 0; st.shared.v2.b64 [%r1+16], {%a0, %a0};");
        for (uint32_t i = 0; i < b.threads; ++i) {
            cr_assert_eq(b.out[i][0], b.in[i][0]);
            cr_assert_eq(b.out[i][1], b.in[i][1]);
            cr_assert_eq(b.in[i][6], b.in[i][2]);
            cr_assert_eq(b.in[i][7], b.in[i][3]);
        }
    }
}

/* ---- tensors ---- */

/* The map lies in the first two threads' words, the tensor of 16-bit elements behind them. */
static void put_map(const sim_map *map)
{
    sim_map_encode(map, b.in);
}

static sim_map plain_map(enum sim_swizzle swizzle, uint16_t columns, uint16_t rows)
{
    return (sim_map){.address = (uint64_t)(uintptr_t)b.in[2],
                     .rank = 2,
                     .element_bytes = 2,
                     .swizzle = (uint8_t)swizzle,
                     .box = {columns, rows},
                     .step = {1, 1},
                     .size = {77, 30},
                     .stride = {2, 208}};
}

static const char load_tensor[] =
    BEGIN(1) "mul.wide.u32 %x1, %t, 64; sub.s64 %x0, %in, %x1; mov.b32 %r1, 48; mov.b32 %r2, -3;\n"
             "@!%p19 bra $wait; mov.u32 %r0, %r20;\n" EXPECT
             "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
             " [%r30], [%x0, {%r1, %r2}], [%r31];\n" WAIT(
                 "$wait", "%r31",
                 "0") "mad.lo.u32 %r3, %t, 16, %r30; ld.shared.v2.b64 {%d0, %d1}, [%r3];\n";

Test(async, boxes_of_tensors_are_swizzled_and_filled_with_zeros)
{
    static const uint16_t columns[] = {64, 16, 32, 64};
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        const enum sim_swizzle swizzle = (enum sim_swizzle)(seed % 4);
        const uint16_t wide = columns[swizzle], rows = (uint16_t)(1024 / wide);
        char body[2000];
        start(seed);
        const sim_map map = plain_map(swizzle, wide, rows);
        put_map(&map);
        snprintf(body, sizeof body, "mov.u32 %%r20, 2048;\n%s", load_tensor);
        run(body);
        for (uint32_t i = 0; i < 1024; ++i) {
            const uint32_t row = i / wide, column = i % wide;
            const int32_t y = (int32_t)row - 3, x = (int32_t)column + 48;
            const uint16_t *tensor = (const uint16_t *)b.in[2];
            const uint16_t want =
                y < 0 || y >= 30 || x >= 77 ? 0 : tensor[(uint32_t)y * 104 + (uint32_t)x];
            /* The tile lies at a multiple of 1024. */
            const uint32_t at = sim_map_swizzle((uint8_t)swizzle, i * 2) / 2;
            const uint16_t *out = (const uint16_t *)b.out[at / 8];
            cr_assert_eq(out[at % 8], want, "swizzle %d, row %u, column %u", swizzle, row, column);
        }
    }
}

Test(async, boxes_are_stored_without_what_lies_outside)
{
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        static uint64_t before[BENCH_THREADS][BENCH_WORDS];
        start(seed);
        const sim_map map = plain_map(SIM_SWIZZLE_128, 64, 16);
        put_map(&map);
        memcpy(before, b.in, sizeof before);
        run("mov.u32 %r30, tile; setp.eq.u32 %p19, %t, 0; mad.lo.u32 %r1, %t, 16, %r30;\n"
            "st.shared.v2.b64 [%r1], {%a0, %a1}; fence.proxy.async; bar.sync 0;\n"
            "mov.b32 %r2, 24; mov.b32 %r3, 20; @!%p19 bra $end;\n"
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%in, {%r2, %r3}], [%r30];\n"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;");
        const uint16_t *old = (const uint16_t *)before[2], *now = (const uint16_t *)b.in[2];
        for (uint32_t y = 0; y < 30; ++y) {
            for (uint32_t x = 0; x < 104; ++x) {
                const bool inside = y >= 20 && x >= 24 && x < 77;
                const uint32_t i = inside ? (y - 20) * 64 + x - 24 : 0;
                const uint32_t at = sim_map_swizzle(SIM_SWIZZLE_128, i * 2) / 2;
                const uint16_t *row = (const uint16_t *)before[at / 8];
                cr_assert_eq(now[y * 104 + x], inside ? row[at % 8] : old[y * 104 + x],
                             "row %u, column %u", y, x);
            }
        }
    }
}

Test(async, tensors_have_one_to_five_axes)
{
    for (unsigned rank = 1; rank <= 5; ++rank) {
        static const char *const at[] = {"{%r1}", "{%r1, %r2}", "{%r1, %r2, 0}", "{%r1, %r2, 1, 0}",
                                         "{%r1, %r2, 0, 1, 0}"};
        char body[2000];
        start(rank);
        sim_map map = {.address = (uint64_t)(uintptr_t)b.in[2],
                       .rank = (uint8_t)rank,
                       .element_bytes = 4,
                       .box = {8, 2, 2, 2, 2},
                       .step = {1, 1, 1, 1, 1},
                       .size = {32, 3, 2, 2, 2},
                       .stride = {4, 128, 384, 768, 1536}};
        put_map(&map);
        snprintf(body, sizeof body,
                 "%s mov.b32 %%r1, 4; mov.b32 %%r2, 2; mov.b32 %%r0, %u;\n"
                 "@!%%p19 bra $wait;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r31], %%r0;\n"
                 "cp.async.bulk.tensor.%ud.shared::cluster.global.mbarrier::complete_tx"
                 "::bytes [%%r30], [%%in, %s], [%%r31];\n"
                 "$wait: mbarrier.try_wait.parity.shared::cta.b64 %%p18, [%%r31], 0;\n"
                 "@!%%p18 bra $wait; setp.ge.u32 %%p0, %%t, %u; @%%p0 bra $end;\n"
                 "mad.lo.u32 %%r3, %%t, 32, %%r30; ld.shared.v2.b64 {%%d0, %%d1}, [%%r3];\n"
                 "ld.shared.v2.b64 {%%d2, %%d3}, [%%r3+16];",
                 BEGIN(1), 32u << (rank - 1), rank, at[rank - 1], 1u << (rank - 1));
        run(body);
        for (uint32_t row = 0; row < 1u << (rank - 1); ++row) {
            static const int32_t first[5][5] = {
                {4}, {4, 2}, {4, 2, 0}, {4, 2, 1, 0}, {4, 2, 0, 1, 0}};
            uint64_t from = 16;
            bool inside = true;
            for (unsigned axis = 1; axis < rank; ++axis) {
                const uint64_t y = (uint64_t)first[rank - 1][axis] + (row >> (axis - 1) & 1);
                inside = inside && y < map.size[axis];
                from += y * map.stride[axis];
            }
            const uint8_t *want = (const uint8_t *)b.in[2] + from;
            static const uint8_t zeros[32];
            cr_assert_arr_eq(b.out[row], inside ? want : zeros, 32, "rank %u, row %u", rank, row);
        }
    }
}

/* ---- cp.async and mbarriers ---- */

Test(async, cp_async_arrives_at_an_mbarrier)
{
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        start(seed);
        run(BEGIN(128) "mad.lo.u32 %r1, %t, 16, %r30; xor.b32 %r2, %r1, 512;\n"
                       "cp.async.cg.shared.global [%r1], [%in], 16;\n"
                       "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r31];\n" WAIT(
                           "$wait", "%r31",
                           "0") "ld.shared.v2.b64 {%d0, %d1}, [%r2];\n"
                                "cp.async.cg.shared.global [%r1+2048], [%in+16], 16;\n"
                                "cp.async.mbarrier.arrive.shared::cta.b64 [%r31];\n"
                                "mbarrier.arrive.shared::cta.b64 _, [%r31];\n" WAIT(
                                    "$wait2", "%r31",
                                    "1") "ld.shared.v2.b64 {%d2, %d3}, [%r2+2048];");
        for (uint32_t i = 0; i < b.threads; ++i) {
            cr_assert_arr_eq(b.out[i], b.in[i ^ 32], 32);
        }
    }
}

Test(async, sent_registers_are_counted_by_an_mbarrier)
{
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        start(seed);
        run(BEGIN(1) "mad.lo.u32 %r1, %t, 16, %r30; xor.b32 %r2, %r1, 512; mov.b32 %r0, 2560;\n"
                     "@%p19 " EXPECT
                     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r1],"
                     " {%a0, %a1}, [%r31]; mad.lo.u32 %r3, %t, 4, %r30; cvt.u32.u64 %r4, %a2;\n"
                     "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3+2048], %r4,"
                     " [%r31];\n" WAIT(
                         "$wait", "%r31",
                         "0") "ld.shared.v2.b64 {%d0, %d1}, [%r2]; ld.shared.u32 %r5, [%r3+2048];\n"
                              "cvt.u64.u32 %d2, %r5;");
        for (uint32_t i = 0; i < b.threads; ++i) {
            cr_assert_arr_eq(b.out[i], b.in[i ^ 32], 16);
            cr_assert_eq(b.out[i][2], (uint32_t)b.in[i][2]);
        }
    }
}

/* ---- clusters ---- */

/* Both blocks expect 512 bytes at `tile`; block 0 copies them to all that %rs0 names. */
static const char multicast[] = BEGIN(
    1) "mov.u32 %r10, %cluster_ctarank; mov.b32 %r0, 512;\n"
       "@%p19 " EXPECT
       "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
       "setp.ne.u32 %p0, %r10, 0; @%p0 bra $wait; @!%p19 bra $wait;\n"
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
       " [%r30], [%in+512], %r0, [%r31], %rs0;\n" WAIT(
           "$wait", "%r31",
           "0") "and.b32 %r1, %t, 31; mad.lo.u32 %r1, %r1, 16, %r30; ld.shared.v2.b64 {%x3, %x4}, "
                "[%r1];\nmov.u32 %r20, %ctaid.x; mad.wide.u32 %x10, %r20, 16, %out;\n"
                "st.global.v2.b64 [%x10], {%x3, %x4}; exit;\n";

Test(async, a_copy_goes_to_all_blocks_of_a_cluster)
{
    char body[2000];
    snprintf(body, sizeof body, "mov.b16 %%rs0, 3;\n%s", multicast);
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        start(seed);
        b.blocks = 4;
        b.cluster = 2;
        run(body);
        for (uint32_t i = 0; i < b.threads; ++i) {
            for (uint32_t block = 0; block < 4; ++block) {
                cr_assert_arr_eq(&b.out[i][2 * block], &(&b.in[8][0])[i % 32 * 2], 16);
            }
        }
    }
    start(1);
    b.blocks = b.cluster = 2;
    snprintf(body, sizeof body, "mov.b16 %%rs0, 5;\n%s", multicast);
    cr_assert_not(bench_run(&b, body));
    cr_assert_not_null(strstr(b.report.text, "the cluster has no block 2"), "%s", b.report.text);
    snprintf(body, sizeof body, "mov.b16 %%rs0, 1;\n%s", multicast);
    cr_assert_not(bench_run(&b, body));
    cr_assert_eq(b.report.fault, SIM_DEADLOCK, "%s", b.report.text);
}

/* ---- mistakes ---- */

static const struct {
    enum sim_fault fault;
    const char *text, *body;
} rows[] = {
    /* clang-format off */
    {SIM_UNSET, "no mbarrier was initialised", "mov.u32 %r31, bars; mbarrier.arrive.shared.b64 _, [%r31];"},
    {SIM_UNSET, "no mbarrier was initialised", BEGIN(1) "@%p19 mbarrier.inval.shared.b64 [%r31]; bar.sync 0; mbarrier.arrive.shared.b64 _, [%r31];"},
    {SIM_MEMORY, "an mbarrier of 0", BEGIN(0)},
    {SIM_MEMORY, "an mbarrier of 1", "mov.u32 %r31, bars; setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [%r31+4], 1;"},
    {SIM_MEMORY, "not in shared memory", BEGIN(1) "mbarrier.arrive.b64 _, [%in];"},
    {SIM_RACE, "part of an mbarrier", BEGIN(1) "ld.shared.u32 %r0, [%r31];"},
    {SIM_RACE, "part of an mbarrier", BEGIN(1) "@%p19 mbarrier.init.shared.b64 [%r31], 2;"},
    {SIM_DEADLOCK, "arrive at the mbarrier", BEGIN(2) "@%p19 mbarrier.arrive.shared.b64 _, [%r31], 3;"},
    {SIM_DEADLOCK, "arrive at the mbarrier", BEGIN(1) "mov.b32 %r0, 16; @%p19 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r31], %r0;"
        "bar.sync 0; mbarrier.arrive.shared.b64 _, [%r31];"},
    {SIM_MEMORY, "expects 2000000 bytes", BEGIN(1) "mov.b32 %r0, 1000000; @%p19 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r31], %r0;"
        "@%p19 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r31], %r0;"},
    {SIM_DEADLOCK, "`mbarrier.try_wait.parity.shared::cta.b", BEGIN(128) "@%p19 bra $end;" "mbarrier.arrive.shared.b64 _, [%r31];" WAIT("$wait", "%r31", "0")},
    {SIM_DEADLOCK, "nobody can go on", BEGIN(1) WAIT("$wait", "%r31", "0")},
    {SIM_DEADLOCK, "nobody can go on", BEGIN(1) "mov.b32 %r0, 512; @%p19 bra $first;" WAIT("$wait", "%r31", "0") "bra $end; $first: " EXPECT
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r30], [%in], 256, [%r31];" WAIT("$wait2", "%r31", "0")},
    {SIM_MEMORY, "is no multiple of 16", BEGIN(1) "mov.b32 %r0, 24; @%p19 " LOAD},
    {SIM_MEMORY, "is no multiple of 16", BEGIN(1) "mov.b32 %r0, 32; add.u32 %r30, %r30, 8; @%p19 " LOAD},
    {SIM_MEMORY, "is no multiple of 16", BEGIN(1) "mov.b32 %r0, 32; add.s64 %in, %in, 8; @%p19 " LOAD},
    {SIM_MEMORY, "ends beyond its allocation", BEGIN(1) "mov.b32 %r0, 8208; @%p19 " LOAD},
    {SIM_MEMORY, "lies outside of the block's", BEGIN(1) "mov.b32 %r0, 4096; add.u32 %r30, %r30, 8064; @%p19 " LOAD},
    {SIM_RACE, "no fence.mbarrier_init", "mov.u32 %r30, tile; mov.u32 %r31, bars; setp.ne.u32 %p0, %t, 0; @%p0 bra $end; mov.b32 %r0, 32;"
        "mbarrier.init.shared.b64 [%r31], 1;" LOAD},
    {SIM_RACE, "has not landed", BEGIN(1) "mov.b32 %r0, 32; @!%p19 bra $end; " EXPECT LOAD "ld.shared.u32 %r1, [%r30];"},
    {SIM_RACE, "has not landed", BEGIN(1) "mov.b32 %r0, 32; @!%p19 bra $end; " EXPECT LOAD "st.shared.u32 [%r30], %t;"},
    {SIM_RACE, "has not landed", BEGIN(1) "mov.b32 %r0, 32; @!%p19 bra $end; " EXPECT LOAD LOAD},
    {SIM_RACE, "whose mbarrier was not waited for", BEGIN(1) "mov.b32 %r0, 32; mov.b32 %r5, 0; setp.lt.u32 %p0, %t, 32; @!%p0 bra $spin; @!%p19 bra $end;"
        EXPECT LOAD WAIT("$wait", "%r31", "0") "st.volatile.global.u32 [%in+32], 1; bra $end;"
        "$spin: mul.wide.u32 %x0, %t, 64; sub.s64 %x1, %in, %x0; ld.volatile.global.u32 %r7, [%x1+32];"
        "setp.ne.u32 %p1, %r7, 1; @%p1 bra $spin; ld.shared.u32 %r8, [%r30];"},
    {SIM_RACE, "nobody waited", BEGIN(1) "@!%p19 bra $end; st.shared.v2.b64 [%r30], {%a0, %a1}; fence.proxy.async;"
        "cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 16; cp.async.bulk.commit_group;"},
    {SIM_RACE, "the block ended", BEGIN(1) "mov.b32 %r0, 32; @!%p19 bra $end; " EXPECT LOAD},
    {SIM_RACE, "being read by a bulk copy", "mov.u32 %r30, tile; setp.ne.u32 %p0, %t, 0; @%p0 bra $end; st.shared.v2.b64 [%r30], {%a0, %a1}; fence.proxy.async;"
        "cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 16; st.shared.u32 [%r30], %t;"},
    {SIM_RACE, "being read by a bulk copy", "mov.u32 %r30, tile; setp.ne.u32 %p0, %t, 0; @%p0 bra $end; st.shared.v2.b64 [%r30], {%a0, %a1}; fence.proxy.async;"
        "cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 16; cp.async.bulk.wait_group 0; st.shared.u32 [%r30], %t;"},
    {SIM_RACE, "without a fence.proxy.async", "mov.u32 %r30, tile; setp.ne.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 16, %r30; st.shared.v2.b64 [%r1], {%a0, %a1};"
        "bar.sync 0; @%p0 bra $end; fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 2048;"},
    {SIM_RACE, "without a fence.proxy.async", "mov.u32 %r30, tile; setp.ne.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 16, %r30; st.shared.v2.b64 [%r1], {%a0, %a1};"
        "bar.sync 0; fence.proxy.async.shared::cta; @%p0 bra $end; cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 2048;"},
    {SIM_RACE, "without a fence.proxy.async", "mov.u32 %r30, tile; setp.ne.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 16, %r30; st.shared.v2.b64 [%r1], {%a0, %a1};"
        "fence.proxy.async.global; bar.sync 0; @%p0 bra $end; cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 512;"},
    {SIM_RACE, "without a fence.proxy.async", BEGIN(1) "mov.b32 %r0, 32; @!%p19 bra $end; st.shared.u32 [%r30], %t; " EXPECT LOAD},
    {SIM_RACE, "has not landed", BEGIN(1) "mov.b32 %r0, 32; @!%p19 bra $end; "
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r30], %r0, [%r31]; ld.shared.u32 %r1, [%r30];"},
    {SIM_UNSET, "never written", "mov.u32 %r30, tile; setp.ne.u32 %p0, %t, 0; @%p0 bra $end; cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 16;"},
    {SIM_MEMORY, "holds no tensor map", BEGIN(1) "mov.b32 %r0, 32; mov.b32 %r1, 0; @%p19 cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%r30], [%in, {%r1, %r1}], [%r31];"},
    {SIM_MEMORY, "no multiple of the 64", BEGIN(1) "mov.b32 %r0, 32; mov.b32 %r1, 0; @%p19 cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%r30], [%in+32, {%r1, %r1}], [%r31];"},
    /* clang-format on */
};

Test(async, each_mistake_is_found_and_named)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        for (uint64_t seed = 1; seed <= 6; ++seed) {
            start(seed);
            cr_assert(!bench_run(&b, rows[i].body), "row %zu: %s", i, rows[i].body);
            cr_assert_str_empty(b.log, "row %zu: %s", i, b.log);
            cr_assert_eq(b.report.fault, rows[i].fault, "row %zu: %s", i, b.report.text);
            cr_assert_not_null(strstr(b.report.text, rows[i].text), "row %zu: %s", i,
                               b.report.text);
        }
    }
}
