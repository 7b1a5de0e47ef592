/* SPDX-License-Identifier: Apache-2.0
 *
 * What the interpreter must find: each row is a small kernel with one mistake, the kind of report
 * it must give and a piece of its text.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "bench.h"

static bench b;

static const char globals[] = ".shared .align 16 .b8 buffer[1024];\n"
                              ".extern .shared .align 16 .b8 dynamic[];\n";

static const struct {
    enum sim_fault fault;
    const char *text, *body;
} rows[] = {
    /* clang-format off */
    {SIM_MEMORY, "lies in no allocation", "ld.global.u32 %r0, [%in+16777216]; cvt.u64.u32 %d0, %r0;"},
    {SIM_MEMORY, "lane 31", "setp.eq.u32 %p0, %t, 127; @%p0 ld.global.u64 %d0, [%in+64];"},
    {SIM_MEMORY, "no multiple of the 8 bytes", "ld.global.u64 %d0, [%in+4];"},
    {SIM_MEMORY, "no multiple of the 16 bytes", "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%in+8];"},
    {SIM_MEMORY, "shared offset", "mov.u32 %r0, buffer; st.shared.u32 [%r0+1024], %t;"},
    {SIM_MEMORY, "shared offset", "mov.u32 %r0, 0; st.shared.u32 [%r0], %t;"},
    {SIM_MEMORY, "local offset", ".local .align 4 .b8 depot[8]; mov.u64 %x0, depot; st.local.u32 [%x0+8], %t;"},
    {SIM_MEMORY, "parameter offset", "ld.param.u64 %d0, [k_param_1+8];"},
    {SIM_MEMORY, "no multiple of 16", "mov.u32 %r0, buffer; cp.async.cg.shared.global [%r0+8], [%in], 16;"},
    {SIM_UNSET, "never written", "mov.u32 %r0, buffer; mad.lo.u32 %r0, %t, 4, %r0; ld.shared.u32 %r1, [%r0];"},
    {SIM_UNSET, "register was never written", "add.u32 %r1, %r0, 1; cvt.u64.u32 %d0, %r1;"},
    {SIM_UNSET, "register was never written", "mov.b32 %r1, %r0; add.u32 %r2, %r1, 1; shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;"},
    {SIM_UNSET, "lane 5", "setp.ne.u32 %p0, %t, 5; @%p0 mov.b32 %r0, 1; add.u32 %r1, %r0, 1; mul.wide.u32 %d0, %r1, 3;"},
    {SIM_UNSET, "guard was never written", "add.u32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 5; @%p0 mov.b32 %r2, 1;"},
    {SIM_UNSET, "guard was never written", "@%p0 mov.b32 %r0, 1;"},
    {SIM_RACE, "no barrier since", "mov.u32 %r0, buffer; mad.lo.u32 %r1, %t, 8, %r0; xor.b32 %r2, %t, 32; mad.lo.u32 %r2, %r2, 8, %r0;"
        "st.shared.u64 [%r1], %a0; bar.sync 0; st.shared.u64 [%r1], %a1; ld.shared.u64 %d0, [%r2];"},
    {SIM_RACE, "no barrier since", "mov.u32 %r0, buffer; mad.lo.u32 %r1, %t, 8, %r0; xor.b32 %r2, %t, 32; mad.lo.u32 %r2, %r2, 8, %r0;"
        "st.shared.u64 [%r1], %a0; bar.sync 0; ld.shared.u64 %d0, [%r2]; st.shared.u64 [%r1], %a1;"},
    {SIM_RACE, "no barrier since", "mov.u32 %r0, buffer; mad.lo.u32 %r1, %t, 8, %r0; xor.b32 %r2, %t, 32; mad.lo.u32 %r2, %r2, 8, %r0;"
        "st.shared.u64 [%r1], %a0; bar.sync 0; ld.shared.u64 %d0, [%r2]; and.b32 %r3, %t, 64; setp.ne.u32 %p0, %r3, 0; @%p0 bra $two;"
        "bar.sync 1, 64; bra $end; $two: st.shared.u64 [%r1], %a1;"},
    {SIM_RACE, "as well", "st.shared.u32 [buffer], %t;"},
    {SIM_RACE, "has not been waited for", "mov.u32 %r0, buffer; and.b32 %r1, %t, 31; mad.lo.u32 %r0, %r1, 16, %r0; setp.ge.u32 %p0, %t, 32; @%p0 bra $end;"
        "cp.async.cg.shared.global [%r0], [%in], 16; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r2, [%r0];"},
    {SIM_DIVERGED, "only lanes 0x", "and.b32 %r0, %t, 1; setp.eq.u32 %p0, %r0, 0; @%p0 bra $other; shfl.sync.bfly.b32 %r1, %t, 1, 31, -1; bra $end; $other: bar.sync 0;"},
    {SIM_DIVERGED, "names lanes that have left", "and.b32 %r0, %t, 1; setp.eq.u32 %p0, %r0, 0; @%p0 exit; bar.warp.sync -1;"},
    {SIM_DIVERGED, "not in its own", "shfl.sync.bfly.b32 %r1, %t, 1, 31, 0xffff;"},
    {SIM_DIVERGED, "guard holds in lanes", "mov.b32 %r0, 0; and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 0;"
        "@%p0 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r2, %r3, %r4, %r5}, {%r0, %r0}, {%r0}, {%r0, %r0, %r0, %r0};"},
    {SIM_DIVERGED, "have left", "mov.b32 %r0, 0; setp.eq.u32 %p0, %t, 3; @%p0 exit;"
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r2, %r3, %r4, %r5}, {%r0, %r0}, {%r0}, {%r0, %r0, %r0, %r0};"},
    {SIM_DEADLOCK, "nobody can go on", "setp.lt.u32 %p0, %t, 64; @%p0 bra $other; bar.sync 1, 128; bra $end; $other: bar.sync 2, 128;"},
    {SIM_DEADLOCK, "deadlock", "setp.lt.u32 %p0, %t, 64; @%p0 bra $other; bar.sync 1, 128; bra $end; $other: bar.sync 1, 64;"},
    {SIM_TRAP, "trapped", "setp.eq.u32 %p0, %t, 77; @%p0 trap;"},
    {SIM_LIMIT, "the block ran", "$loop: nanosleep.u32 20; bra $loop;"},
    /* clang-format on */
};

Test(faults, each_mistake_is_found_and_named)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            bench_start(&b, seed);
            b.globals = globals;
            cr_assert(!bench_run(&b, rows[i].body), "row %zu: %s", i, rows[i].body);
            cr_assert_str_empty(b.log, "row %zu: %s", i, b.log);
            cr_assert_eq(b.report.fault, rows[i].fault, "row %zu: %s", i, b.report.text);
            cr_assert_not_null(strstr(b.report.text, rows[i].text), "row %zu: %s", i,
                               b.report.text);
            cr_assert_not_null(strstr(b.report.text, "k, block (0, 0, 0), warp"));
            cr_assert_not_null(strstr(b.report.text, "PTX line"));
        }
    }
}

static const struct {
    const char *text, *body;
} unknown[] = {
    {"the instruction vadd.s32.s32.s32 is not modelled", "vadd.s32.s32.s32 %r0, %r1, %r2;"},
    {"the .foo of add.foo.s32", "add.foo.s32 %r0, %r1, %r2;"},
    {"%r99 is not declared", "mov.b32 %r99, 1;"},
    {"no register of 64 bits", "add.s64 %x0, %x1, %r0;"},
    {"$nowhere is nowhere", "bra $nowhere;"},
    {"not of this shape", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r2, %r3, %r4, %r5},"
                          " {%r0, %r0}, {%r0}, {%r0, %r0, %r0, %r0};"},
    {"twice has no body", "{ .param .b32 a; call twice, (a); }"},
};

Test(faults, text_that_is_not_understood_is_refused_with_its_line)
{
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; ++i) {
        bench_start(&b, 1);
        cr_assert(!bench_run(&b, unknown[i].body));
        cr_assert_not_null(strstr(b.log, unknown[i].text), "row %zu: %s", i, b.log);
        cr_assert_not_null(strstr(b.log, "k, PTX line "), "row %zu: %s", i, b.log);
    }
}

Test(faults, a_chip_refuses_text_of_a_newer_one)
{
    const char *text = ".version 9.0\n.target sm_90a\n.address_size 64\n";
    char log[200];
    cr_assert_null(sim_module_load(text, 80, log, sizeof log));
    cr_assert_not_null(strstr(log, "cannot run"));
    cr_assert_null(sim_module_load(text, 100, log, sizeof log));
    sim_module *module = sim_module_load(text, 90, log, sizeof log);
    cr_assert_not_null(module);
    sim_module_destroy(module);
}

/* Compilers compute ahead of a choice. */
Test(faults, what_is_not_chosen_may_come_from_registers_that_nobody_wrote)
{
    bench_start(&b, 1);
    cr_assert(bench_run(&b, "add.u32 %r1, %r0, 7; mul.lo.u32 %r1, %r1, 3; setp.ge.u32 %p0, %t, 0;\n"
                            "selp.b32 %r2, %t, %r1, %p0; cvt.u64.u32 %d0, %r2;"),
              "%s%s", b.log, b.report.text);
    cr_assert_eq(b.out[77][0], 77);
}

/* What is right must not be reported whatever the order. */
Test(faults, correct_kernels_pass_under_every_seed)
{
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        bench_start(&b, seed);
        b.globals = globals;
        b.delay = seed % 2 == 0 ? SIM_DELAY_RANDOM : SIM_DELAY_LAZY;
        cr_assert(
            bench_run(&b,
                      "mov.u32 %r0, buffer; and.b32 %r1, %t, 63; mad.lo.u32 %r2, %r1, 16, %r0;\n"
                      "mov.b32 %r5, 0; setp.lt.u32 %p1, %t, 64;\n"
                      "$loop: @!%p1 bra $consume;\n"
                      "cp.async.cg.shared.global [%r2], [%in], 16; cp.async.commit_group;\n"
                      "cp.async.wait_group 0;\n"
                      "$consume: bar.sync 0; xor.b32 %r3, %r2, 32;\n"
                      "ld.shared.v2.b64 {%d0, %d1}, [%r3]; bar.sync 0;\n"
                      "add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 4; @%p0 bra $loop;"),
            "%s%s", b.log, b.report.text);
    }
}
