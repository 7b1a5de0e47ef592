/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench-cuda does around its measurements: rows to CSV and back, the arithmetic of the
 * summary, plans, and jobs that outlive their cells.
 */
#include "support/cuda_sets.h"
#include "support/jobs.h"
#include "support/summary.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define F16 "w=i4 g=128 s=f16 a=f16"

static bench_row row_of(const char *line, int64_t n, int64_t k, int64_t m, double us)
{
    bench_row row = {.n = n, .k = k, .m = m, .chosen = 1, .ours = {us, us, us, 20}};
    snprintf(row.line, sizeof(row.line), "%s", line);
    snprintf(row.variant, sizeof(row.variant), "some");
    return row;
}

static void add(bench_rows *rows, bench_row row)
{
    cr_assert(bench_rows_add(rows, &row));
}

static char *print(const bench_rows *rows)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out);
    bench_summary(out, rows);
    cr_assert(!fclose(out));
    return text;
}

#define expect_in(text, part) cr_expect(strstr(text, part), "expected '%s' in:\n%s", part, text)

/* ---- rows ---- */

Test(bench, a_row_survives_csv)
{
    bench_row row = row_of("w=i4 g=32 s=f16 a=f16 f=a,b", 4096, 8192, 48, 12.345), back;
    char line[2048] = "";
    row.twin = BENCH_ODD_A;
    row.state = BENCH_WRONG;
    row.error = NAN;
    row.worst = 0.25;
    row.bytes = 123456789012;
    row.cublas = (bench_stat){3, 2, 4, 0};
    snprintf(row.floor_name, sizeof(row.floor_name), "bulk 13x16 KB, 1 a unit");
    snprintf(row.best_name, sizeof(row.best_name), "humming");
    FILE *file = tmpfile();
    cr_assert(file);
    bench_row_write(file, &row);
    rewind(file);
    cr_assert(fgets(line, sizeof(line), file));
    fclose(file);
    cr_assert(bench_row_parse(line, &back), "%s", line);
    cr_expect_str_eq(back.line, row.line);
    cr_expect_str_eq(back.variant, row.variant);
    cr_expect_str_eq(back.floor_name, row.floor_name);
    cr_expect_str_eq(back.best_name, row.best_name);
    cr_expect_eq(back.n, 4096);
    cr_expect_eq(back.k, 8192);
    cr_expect_eq(back.m, 48);
    cr_expect_eq(back.twin, BENCH_ODD_A);
    cr_expect_eq(back.state, BENCH_WRONG);
    cr_expect(isnan(back.error));
    cr_expect_eq(back.worst, 0.25);
    cr_expect_eq(back.bytes, 123456789012);
    cr_expect_eq(back.ours.us, 12.345);
    cr_expect_eq(back.ours.calls, 20);
    cr_expect_eq(back.cublas.most, 4);
    cr_expect_eq(back.cublas_fp8.us, 0);
    cr_expect(!bench_row_parse("4096,8192,x", &back));
}

Test(bench, twins_change_what_they_are_named_after)
{
    for (int i = 0; i < BENCH_TWINS; i++) {
        nib_gemm_desc desc = {.weight = {.n = 100, .k = 200}};
        bench_twin twin;
        cr_assert(bench_twin_parse(bench_twin_name((bench_twin)i), &twin));
        cr_expect_eq(twin, (bench_twin)i);
        bench_twin_apply(twin, &desc);
        cr_expect_eq(desc.weight.n, i == BENCH_ODD_N ? 99 : 100);
        cr_expect_eq(desc.weight.k, i == BENCH_K_TAIL ? 160 : i == BENCH_ODD_K ? 159 : 200);
    }
}

/* ---- the summary ---- */

Test(bench, geometric_means_and_worst_cells_are_of_a_range_alone)
{
    bench_rows rows = {0};
    for (int64_t m = 1; m <= 64; m *= 2) {
        bench_row row = row_of(F16, 8192, 8192, m, 10);
        row.floor.us = m == 2 ? 9 : m == 4 ? 4 : 100;
        add(&rows, row);
    }
    bench_tally t = bench_tally_of(&rows, F16, BENCH_ALIGNED, 2, 4, BENCH_SHARE_OF_FLOOR);
    cr_expect_eq(t.cells, 2);
    cr_expect_float_eq(t.geomean, 0.6, 1e-12);
    cr_expect_float_eq(t.worst, 0.4, 1e-12);
    cr_expect_eq(t.worst_row->m, 4);
    t = bench_tally_of(&rows, F16, BENCH_ALIGNED, 2, 4, BENCH_X_CUBLAS);
    cr_expect_eq(t.cells, 0);
    cr_expect(isnan(t.geomean));
    bench_rows_free(&rows);
}

Test(bench, only_right_choices_of_the_library_count)
{
    bench_rows rows = {0};
    bench_row row = row_of(F16, 4096, 4096, 1, 10);
    row.floor.us = 5;
    add(&rows, row);
    row.ours.us = 5; /* faster, but not chosen, or wrong */
    row.chosen = 0;
    add(&rows, row);
    row.chosen = 1;
    row.m = 2;
    row.state = BENCH_WRONG;
    add(&rows, row);
    bench_tally t = bench_tally_of(&rows, F16, BENCH_ALIGNED, 1, 8, BENCH_SHARE_OF_FLOOR);
    cr_expect_eq(t.cells, 1);
    cr_expect_float_eq(t.geomean, 0.5, 1e-12);
    char *text = print(&rows);
    expect_in(text, "4096 x 4096, M = 2, some: wrong");
    free(text);
    bench_rows_free(&rows);
}

Test(bench, a_cell_measured_again_counts_as_it_was_last)
{
    bench_rows rows = {0};
    bench_row row = row_of(F16, 8192, 8192, 1, 20);
    row.floor.us = 10;
    row.state = BENCH_LOST;
    add(&rows, row);
    row.state = BENCH_OK;
    add(&rows, row);
    row.ours.us = 10;
    add(&rows, row);
    bench_tally t = bench_tally_of(&rows, F16, BENCH_ALIGNED, 1, 1, BENCH_SHARE_OF_FLOOR);
    cr_expect_eq(t.cells, 1);
    cr_expect_float_eq(t.geomean, 1, 1e-12);
    char *text = print(&rows);
    cr_expect(!strstr(text, "lost"), "%s", text);
    free(text);
    bench_rows_free(&rows);
}

Test(bench, targets_name_every_cell_that_misses_them)
{
    bench_rows rows = {0};
    bench_row small = row_of(F16, 4096, 4096, 1, 10), large = row_of(F16, 8192, 8192, 1, 10);
    small.floor.us = 9.1; /* 91 %: enough there, not elsewhere */
    large.floor.us = 9.1;
    add(&rows, small);
    add(&rows, large);
    bench_row slow = row_of(F16, 8192, 8192, 256, 10), fast = row_of(F16, 8192, 8192, 512, 10);
    slow.cublas.us = 9.9;
    fast.cublas.us = 12;
    add(&rows, slow);
    add(&rows, fast);
    char *text = print(&rows);
    expect_in(text, "8192 x 8192, M = 1: 91 % | NOT met in 1 of 2");
    expect_in(text, "8192 x 8192, M = 256: 0.99 | NOT met in 1 of 2");
    cr_expect(!strstr(text, "4096 x 4096, M = 1: 91 %"), "%s", text);
    expect_in(text, "1.09 (worst 0.99, 8192 x 8192, M = 256) | met");
    free(text);
    bench_rows_free(&rows);
}

Test(bench, other_types_are_compared_with_int4_of_the_same_activations)
{
    bench_rows rows = {0};
    bench_row twin = row_of(F16, 4096, 4096, 16, 12);
    add(&rows, row_of(F16, 4096, 4096, 16, 10));
    add(&rows, row_of("w=i4 g=128 s=bf16 a=bf16", 4096, 4096, 16, 11));
    add(&rows, row_of("w=e2m1 g=32 s=e8m0 a=bf16", 4096, 4096, 16, 22));
    add(&rows, row_of("w=u4 g=64 s=f16 z=code a=f16", 4096, 4096, 16, 15));
    add(&rows, row_of("w=i4 g=128 s=f16 a=i8 as=row o=f16", 4096, 4096, 16, 15));
    twin.twin = BENCH_ODD_N;
    add(&rows, twin);
    double over[6];
    for (int i = 0; i < 6; i++)
        over[i] = bench_metric_of(&rows, &rows.row[i], BENCH_OVER_REFERENCE);
    cr_expect(isnan(over[0]));
    cr_expect_float_eq(over[1], 1.1, 1e-12);
    cr_expect_float_eq(over[2], 2, 1e-12);
    cr_expect_float_eq(over[3], 1.5, 1e-12);
    cr_expect(isnan(over[4]));
    cr_expect(isnan(over[5]));
    cr_expect_float_eq(bench_metric_of(&rows, &rows.row[5], BENCH_OVER_ALIGNED), 1.2, 1e-12);
    bench_tally t = bench_tally_of(&rows, F16, BENCH_ODD_N, 1, 64, BENCH_OVER_ALIGNED);
    cr_expect_float_eq(t.worst, 1.2, 1e-12);
    bench_rows_free(&rows);
}

/* ---- plans ---- */

Test(bench, sets_share_their_jobs_and_options_replace_their_parts)
{
    bench_plan plan = {0};
    cr_assert(bench_plan_sets(&plan, "base,types"));
    cr_assert(bench_plan_shape(&plan, "256,512"));
    cr_assert(bench_plan_rows(&plan, "1,7"));
    cr_assert(bench_plan_finish(&plan));
    int reference = 0;
    for (int i = 0; i < plan.count; i++) {
        cr_expect_eq(plan.job[i].n, 256);
        cr_expect_eq(plan.job[i].k, 512);
        cr_expect_eq(plan.job[i].rows, 2);
        cr_expect_eq(plan.job[i].m[1], 7);
        reference += !strcmp(plan.job[i].line, F16);
    }
    cr_expect_gt(plan.count, 5);
    cr_expect_eq(reference, 1);
    bench_plan_free(&plan);
    cr_expect(!bench_plan_rows(&plan, "1,x"));
    cr_expect(!bench_plan_rows(&plan, "0"));
    cr_expect(!bench_plan_shape(&plan, "1x2"));
    cr_expect(!bench_plan_twins(&plan, "even"));
}

/* ---- jobs ---- */

static bench_rows taken;

static void take(void *user, const bench_row *row)
{
    (void)user;
    cr_assert(bench_rows_add(&taken, row));
}

/* Six cells: the second crashes, the fourth fails, the fifth hangs. */
static bench_job_end work(void *user, bench_job *job)
{
    (void)user;
    for (int64_t m = 1; m <= 6; m++) {
        bench_row row = row_of(F16, 1, 1, m, 1);
        if (!bench_job_begin(job, &row))
            continue;
        if (m == 2)
            raise(SIGKILL); /* no core, no message of Criterion's */
        if (m == 5)
            pause();
        row.state = m == 4 ? BENCH_FAILED : BENCH_OK;
        bench_job_send(job, &row);
        if (row.state)
            return BENCH_JOB_AGAIN;
    }
    return BENCH_JOB_DONE;
}

Test(bench, a_cell_that_crashes_fails_or_hangs_costs_no_other, .timeout = 60)
{
    static const bench_state want[] = {BENCH_OK,     BENCH_LOST, BENCH_OK,
                                       BENCH_FAILED, BENCH_LOST, BENCH_OK};
    cr_expect_eq(bench_job_run(work, take, NULL, 1), BENCH_JOB_DONE);
    cr_assert_eq(taken.count, 6);
    for (int i = 0; i < 6; i++) {
        cr_expect_eq(taken.row[i].m, i + 1);
        cr_expect_eq(taken.row[i].state, want[i], "cell %d: %s", i,
                     bench_state_name(taken.row[i].state));
    }
    bench_rows_free(&taken);
}

static bench_job_end useless(void *user, bench_job *job)
{
    (void)user;
    (void)job;
    return BENCH_JOB_USELESS;
}

Test(bench, a_job_without_a_device_says_so)
{
    cr_expect_eq(bench_job_run(useless, take, NULL, 5), BENCH_JOB_USELESS);
    cr_expect_eq(taken.count, 0);
}
