/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters: who is who, other blocks' shared memory, barrier.cluster, and what must be found.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "bench.h"

static bench b;

static const char shared[] = ".shared .align 16 .b8 mine[4096];";

/* Everybody has started. */
#define MEET "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
/* %r30: the rank; %r31: the other block's `mine`. */
#define PEER                                                                       \
    "mov.u32 %r30, %cluster_ctarank; xor.b32 %r29, %r30, 1; mov.u32 %r28, mine;\n" \
    "mapa.shared::cluster.u32 %r31, %r28, %r29;\n"
/* Results of block n at the threads' words n. */
#define ANSWER(value)                                             \
    "mov.u32 %r20, %ctaid.x; mad.wide.u32 %x10, %r20, 8, %out;\n" \
    "cvt.u64.u32 %x11, " value "; st.global.u64 [%x10], %x11; exit;\n"

static void start(uint32_t blocks, uint32_t cluster)
{
    bench_start(&b, blocks);
    b.blocks = blocks;
    b.cluster = cluster;
    b.globals = shared;
}

static void run(const char *body)
{
    for (b.seed = 1; b.seed < 6; ++b.seed) {
        b.delay = b.seed % 2 != 0 ? SIM_DELAY_LAZY : SIM_DELAY_RANDOM;
        cr_assert(bench_run(&b, body), "%s%s", b.log, b.report.text);
    }
}

static void fails(enum sim_fault fault, const char *body, const char *text)
{
    for (b.seed = 1; b.seed < 6; ++b.seed) {
        cr_assert_not(bench_run(&b, body), "%s", body);
        cr_assert_str_empty(b.log);
        cr_assert_eq(b.report.fault, fault, "%s", b.report.text);
        cr_assert(strstr(b.report.text, text) != NULL, "%s", b.report.text);
    }
}

/* Like fails, but the order of the blocks decides whether it can be seen. */
static void may_fail(enum sim_fault fault, const char *body, const char *text)
{
    int found = 0;
    for (b.seed = 1; b.seed < 40; ++b.seed) {
        if (!bench_run(&b, body)) {
            cr_assert_eq(b.report.fault, fault, "%s", b.report.text);
            cr_assert(strstr(b.report.text, text) != NULL, "%s", b.report.text);
            ++found;
        }
    }
    cr_assert_gt(found, 0);
}

Test(cluster, blocks_know_their_place)
{
    start(8, 4);
    run("mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, "
        "%clusterid.x;\n"
        "mov.u32 %r3, %nclusterid.x; mov.u32 %r4, %cluster_ctaid.x; mov.u32 %r5, "
        "%cluster_nctaid.x;\n"
        "shl.b32 %r1, %r1, 4; shl.b32 %r2, %r2, 8; shl.b32 %r3, %r3, 12; shl.b32 %r4, %r4, 16;\n"
        "shl.b32 %r5, %r5, 20; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2;\n"
        "add.u32 %r0, %r0, %r3; add.u32 %r0, %r0, %r4; add.u32 %r0, %r0, %r5;\n"
        "mov.pred %p0, %is_explicit_cluster; selp.u32 %r6, 16777216, 0, %p0; add.u32 %r0, %r0, "
        "%r6;\n" ANSWER("%r0"));
    for (uint32_t i = 0; i < 8; ++i) {
        cr_assert_eq(b.out[7][i], 0x1402040u + i % 4 + (i / 4 << 8) + (i % 4 << 16));
    }
}

Test(cluster, blocks_reach_each_other)
{
    start(2, 2);
    run(PEER
        "mad.lo.u32 %r0, %t, 4, %r31; mad.lo.u32 %r1, %t, 4, %r28; add.u32 %r2, %t, %r30;\n" MEET
        "st.shared::cluster.u32 [%r0], %r2;\n" MEET "ld.shared.u32 %r3, [%r1];\n"
        "mapa.shared::cluster.u32 %r4, %r1, %r30; ld.shared::cluster.u32 %r5, [%r4];\n"
        "cvt.u64.u32 %x0, %r1; cvta.shared.u64 %x0, %x0; mapa.u64 %x0, %x0, %r29;\n"
        "ld.u32 %r6, [%x0]; shl.b32 %r6, %r6, 16; add.u32 %r3, %r3, %r6;\n"
        "getctarank.shared::cluster.u32 %r7, %r31; shl.b32 %r7, %r7, 12;\n"
        "add.u32 %r3, %r3, %r7; setp.ne.u32 %p0, %r4, %r1; @%p0 trap;\n" MEET ANSWER("%r3"));
    for (uint32_t t = 0; t < b.threads; ++t) {
        /* Block 0 has what block 1 wrote: t + 1; it reads block 1's t. */
        cr_assert_eq(b.out[t][0], t + 1 + (t << 16) + (1 << 12));
        cr_assert_eq(b.out[t][1], t + ((t + 1) << 16));
    }
}

Test(cluster, atomics_reach_other_blocks)
{
    start(4, 4);
    run("mov.u32 %r28, mine; mapa.shared::cluster.u32 %r31, %r28, 0;\n"
        "mov.u32 %r30, %cluster_ctarank; mov.u32 %r0, 0;\n"
        "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [mine], %r0; bar.sync 0;\n" MEET
        "red.relaxed.cluster.shared::cluster.add.u32 [%r31], 1;\n" MEET
        "ld.shared::cluster.u32 %r2, [%r31];\n" MEET ANSWER("%r2"));
    for (uint32_t i = 0; i < 4; ++i) {
        cr_assert_eq(b.out[5][i], 4 * b.threads);
    }
}

Test(cluster, mbarriers_count_other_blocks_threads)
{
    start(4, 2);
    run(PEER
        "setp.ne.u32 %p0, %t, 0; @%p0 bra $made;\n"
        "mbarrier.init.shared.b64 [mine], 128; fence.mbarrier_init.release.cluster;\n$made:\n"
        "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;\n"
        "mad.lo.u32 %r0, %t, 4, %r31; st.shared::cluster.u32 [%r0+64], %t;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r31];\n$wait:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [mine], 0; @!%p1 bra "
        "$wait;\n"
        "xor.b32 %r1, %t, 32; mad.lo.u32 %r1, %r1, 4, %r28; ld.shared.u32 %r2, [%r1+64];\n" MEET
            ANSWER("%r2"));
    for (uint32_t t = 0; t < b.threads; ++t) {
        for (uint32_t i = 0; i < 4; ++i) {
            cr_assert_eq(b.out[t][i], t ^ 32);
        }
    }
}

Test(cluster, other_blocks_are_to_be_waited_for)
{
    start(2, 2);
    fails(SIM_RACE, PEER "st.shared::cluster.u32 [%r31], %t;\n" MEET, "has started");
    fails(SIM_RACE,
          PEER "setp.ne.u32 %p0, %t, 0; @!%p0 st.shared.u32 [mine], %t;\n" MEET
               "@%p0 bra $out; st.shared::cluster.u32 [%r31], %t; ld.shared.u32 %r0, "
               "[mine];\n$out:\n" MEET,
          "no barrier");
    fails(SIM_UNSET, PEER MEET "ld.shared::cluster.u32 %r0, [%r31];\n" MEET, "never written");
    may_fail(SIM_RACE,
             PEER MEET "ld.global.u32 %r0, [%in]; st.shared::cluster.u32 [%r31+64], %t;\n", "");
    start(2, 2);
    b.threads = 1;
    may_fail(SIM_RACE, PEER MEET "st.shared::cluster.u32 [%r31+64], %t;\n", "has left");
}

Test(cluster, a_relaxed_arrival_publishes_what_a_fence_did)
{
    start(2, 2);
    b.threads = 1;
    static const char head[] = PEER MEET "st.shared::cluster.u32 [%r31], %t;\n";
    char body[1000];
    strcpy(body, head);
    strcat(body, "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;\n"
                 "ld.shared.u32 %r0, [mine];\n" MEET);
    fails(SIM_RACE, body, "with no barrier since");
    strcpy(body, head);
    strcat(body, "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned; ld.shared.u32 %r0, [mine];\n" MEET);
    run(body);
}

Test(cluster, addresses_and_barriers_are_held_to_their_rules)
{
    start(2, 2);
    fails(SIM_MEMORY, PEER MEET "st.shared.u32 [%r31], %t;\n" MEET, "no .shared::cluster");
    fails(SIM_MEMORY, PEER MEET "add.u32 %r31, %r31, 4096; st.shared::cluster.u32 [%r31], %t;\n",
          "lies outside");
    fails(SIM_MEMORY, PEER "mapa.shared::cluster.u32 %r31, %r28, 2;\n", "no block 2");
    fails(SIM_DEADLOCK, "barrier.cluster.wait.aligned;\n", "have not arrived");
    fails(SIM_DEADLOCK, "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;\n", "");
    fails(SIM_DEADLOCK,
          PEER "setp.eq.u32 %p0, %r30, 1; @%p0 bra $stay;\n" MEET "bra $end;\n$stay:\n"
               "setp.eq.u32 %p1, %t, 0; bar.sync 1, 256;\n",
          "nobody can go on");
    /* Threads that leave are not waited for. */
    run(PEER "setp.eq.u32 %p0, %r30, 1; @%p0 bra $end;\n" MEET);
}

Test(cluster, launches_are_checked)
{
    start(3, 2);
    cr_assert_not(bench_run(&b, ""));
    cr_assert_eq(b.report.fault, SIM_INVALID);
    start(16, 16);
    cr_assert_not(bench_run(&b, ""));
    cr_assert_eq(b.report.fault, SIM_INVALID);
    start(4, 0);
    b.limits = ".reqnctapercluster 2, 1, 1 .explicitcluster";
    run("mov.u32 %r0, %cluster_ctarank;\n" ANSWER("%r0"));
    cr_assert_eq(b.out[0][3], 1);
    b.cluster = 4;
    cr_assert_not(bench_run(&b, ""));
    cr_assert_eq(b.report.fault, SIM_INVALID);
}
