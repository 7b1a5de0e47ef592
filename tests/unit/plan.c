/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning with variants made up here: the choice by m, batch invariance, and refusals that say
 * why.
 */
#include "plan/plan.h"
#include "config/desc.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Fast for few rows, fast for many, and slow for all; the first two differ in invariance class. */
static const nib_variant few = {.size = sizeof(few),
                                .id = "few",
                                .m_min = 1,
                                .m_max = 8,
                                .m_tile = 1,
                                .decode_per_ns = 10,
                                .decode_m = 1,
                                .efficiency = 0.9,
                                .math_type = NIB_F32,
                                .batch_invariant = 1};
static const nib_variant many = {.size = sizeof(many),
                                 .id = "many",
                                 .m_min = 1,
                                 .m_tile = 64,
                                 .decode_per_ns = 2,
                                 .efficiency = 0.9,
                                 .math_type = NIB_F32,
                                 .batch_invariant = 2};
static const nib_variant slow = {.size = sizeof(slow),
                                 .id = "slow",
                                 .m_min = 1,
                                 .m_tile = 1,
                                 .decode_per_ns = 0.1,
                                 .efficiency = 0.01,
                                 .math_type = NIB_F32};

static const nib_variant *list[4];
static const char *refused; /* id that supports() refuses; "all" refuses each */

static nib_status variant(void *dev, uint32_t index, const nib_variant **out)
{
    (void)dev;
    *out = list[index];
    return NIB_OK;
}

static nib_status supports(void *dev, const nib_variant *v, const nib_gemm_desc *desc, char *why,
                           size_t why_bytes)
{
    (void)dev, (void)desc;
    if (!refused || (strcmp(refused, v->id) && strcmp(refused, "all")))
        return NIB_OK;
    snprintf(why, why_bytes, "%s has no such codes", v->id);
    return NIB_UNSUPPORTED;
}

static nib_backend backend = {.api = {.variant = variant, .supports = supports}};
static nib_device dev = {.backend = &backend,
                         .info = {.selector = "test:0",
                                  .units = 1,
                                  .read_gb_per_s = 10,
                                  .f32_tflop_per_s = 0.1,
                                  .launch_us = 1}};

static nib_gemm_desc desc(const char *line)
{
    nib_gemm_desc d;
    cr_assert_eq(nib_gemm_desc_parse(line, &d), NIB_OK, "%s", nib_last_message());
    return d;
}

static void use(const nib_variant *a, const nib_variant *b, const nib_variant *c)
{
    list[0] = a;
    list[1] = b;
    list[2] = c;
    list[3] = NULL;
    refused = NULL;
}

static const char *chosen(const nib_plan *plan, int64_t m)
{
    return plan->candidates[plan->choice[nib_plan_bucket(m)]].variant->id;
}

Test(plan, buckets_cover_every_m_once)
{
    int32_t last = 0;
    for (int64_t m = 1; m < 10000; m++) {
        int32_t bucket = nib_plan_bucket(m);
        cr_assert(bucket == last || bucket == last + 1);
        cr_assert_leq(m, nib_plan_bucket_end(bucket));
        last = bucket;
    }
    cr_expect_eq(nib_plan_bucket(INT64_MAX), NIB_PLAN_BUCKETS - 1);
}

Test(plan, chooses_by_rows)
{
    nib_plan plan;
    nib_gemm_desc d = desc("n=4096 k=4096 w=i4 g=32");
    use(&slow, &few, &many);
    cr_assert_eq(nib_plan_make(&dev, &d, &plan), NIB_OK, "%s", nib_last_message());
    cr_expect_str_eq(chosen(&plan, 1), "few");
    cr_expect_str_eq(chosen(&plan, 4096), "many");
    cr_expect_str_eq(chosen(&plan, 1000000), "many");
    nib_plan_release(&plan);
}

Test(plan, batch_invariance_keeps_to_one_class_for_every_m)
{
    nib_plan plan;
    nib_gemm_desc d = desc("n=4096 k=4096 w=i4 g=32 f=batch_invariant");
    use(&slow, &few, &many);
    cr_assert_eq(nib_plan_make(&dev, &d, &plan), NIB_OK, "%s", nib_last_message());
    cr_expect_str_eq(chosen(&plan, 1), "many",
                     "few is fast but lacks m > 8, slow is not invariant");
    cr_expect_str_eq(chosen(&plan, 4096), "many");
    nib_plan_release(&plan);
}

Test(plan, refuses_when_some_m_has_no_variant)
{
    nib_plan plan;
    nib_gemm_desc d = desc("n=64 k=64 w=i4 g=32");
    use(&few, NULL, NULL);
    cr_expect_eq(nib_plan_make(&dev, &d, &plan), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "few: not for every m"), "%s", nib_last_message());
    use(&few, &many, NULL);
    refused = "all";
    cr_expect_eq(nib_plan_make(&dev, &d, &plan), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "many has no such codes"), "%s", nib_last_message());
    list[0] = NULL;
    cr_expect_eq(nib_plan_make(&dev, &d, &plan), NIB_UNSUPPORTED);
    cr_expect(strstr(nib_last_message(), "no kernels"), "%s", nib_last_message());
}

Test(plan, explains_every_candidate)
{
    nib_plan plan;
    char out[2000];
    nib_gemm_desc d = desc("n=4096 k=4096 w=i4 g=32");
    use(&slow, &few, &many);
    refused = "slow";
    cr_assert_eq(nib_plan_make(&dev, &d, &plan), NIB_OK);
    nib_text text = nib_text_into(out, sizeof(out));
    nib_plan_explain(&dev, &d, &plan, 100, &text);
    cr_expect(strstr(out, "cannot: slow has no such codes"), "%s", out);
    cr_expect(strstr(out, "not for this m"), "%s", out);
    cr_expect(strstr(out, "* many"), "%s", out);
    nib_plan_release(&plan);
}

/* The backend's own model: slow is fast, few is as core thinks, many answers nonsense. */
static nib_status predict(void *handle, const nib_variant *v, const nib_gemm_desc *d, int64_t m,
                          double *us, const char **bound)
{
    (void)handle, (void)d;
    if (v == &slow) {
        *us = 0.5 * (double)m;
        *bound = "latency";
        return NIB_OK;
    }
    if (v == &few)
        return NIB_UNSUPPORTED;
    *us = NAN;
    return NIB_OK;
}

Test(plan, a_backends_own_prediction_replaces_the_model)
{
    nib_plan plan;
    char out[2000];
    nib_gemm_desc d = desc("n=4096 k=4096 w=i4 g=32");
    use(&slow, &few, &many);
    backend.api.predict = predict;
    cr_assert_eq(nib_plan_make(&dev, &d, &plan), NIB_OK, "%s", nib_last_message());
    cr_expect_str_eq(chosen(&plan, 1), "slow");
    cr_expect_str_eq(chosen(&plan, 4096), "slow");
    nib_text text = nib_text_into(out, sizeof(out));
    nib_plan_explain(&dev, &d, &plan, 8, &text);
    cr_expect(strstr(out, "4.00 us  chosen, bound by latency"), "%s", out);
    nib_plan_release(&plan);
}

Test(plan, a_backend_without_a_prediction_for_a_variant_leaves_it_to_the_model)
{
    nib_plan plan;
    nib_gemm_desc d = desc("n=4096 k=4096 w=i4 g=32");
    use(&few, &many, NULL);
    backend.api.predict = predict;
    cr_assert_eq(nib_plan_make(&dev, &d, &plan), NIB_OK, "%s", nib_last_message());
    cr_expect_str_eq(chosen(&plan, 1), "few");
    cr_expect_str_eq(chosen(&plan, 4096), "many");
    nib_plan_release(&plan);
}

Test(plan, a_forced_variant_runs_wherever_it_can)
{
    nib_plan plan;
    nib_gemm_desc d = desc("n=4096 k=4096 w=i4 g=32");
    use(&slow, &few, &many);
    cr_assert_eq(nib_plan_make(&dev, &d, &plan), NIB_OK);
    cr_expect_eq(nib_plan_force(&plan, "slow"), NIB_OK);
    cr_expect_str_eq(chosen(&plan, 1), "slow");
    cr_expect_eq(nib_plan_force(&plan, "few"), NIB_OK);
    cr_expect_str_eq(chosen(&plan, 8), "few");
    cr_expect_str_eq(chosen(&plan, 9), "slow");
    cr_expect_eq(nib_plan_force(&plan, "none"), NIB_INVALID);
    nib_plan_release(&plan);
}

Test(plan, prediction_follows_the_stated_model)
{
    nib_gemm_desc d = desc("n=1000 k=1000 w=i8 g=row s=f32 a=f32 o=f32");
    nib_variant v = {
        .m_tile = 4, .decode_per_ns = 5, .decode_m = 2, .efficiency = 0.5, .math_type = NIB_F32};
    const char *bound;
    /* decode: 1e6 codes * 2 passes / (5 per ns * 1 unit * 1000 ns per us) = 400 us;
     * math: 2 * 4 rows * 1e6 / (1e5 flop per us * 0.5) = 160 us;
     * memory: 1e6 + 4000 bytes of weights, 3 * 8000 bytes of rows, at 1e4 bytes per us = 102.8 us.
     */
    double us = nib_plan_predict(&dev.info, &v, &d, 3, &bound);
    cr_expect_float_eq(us, 1 + 400 + 160 + 0.1 * 102.8, 1e-6, "%f", us);
    cr_expect_str_eq(bound, "decode");
    /* decode 0.002 us, math 0.08 us: memory bounds. */
    v.decode_per_ns = 1e6;
    v.efficiency = 1;
    dev.info.f32_tflop_per_s = 100;
    us = nib_plan_predict(&dev.info, &v, &d, 3, &bound);
    cr_expect_float_eq(us, 1 + 102.8 + 0.1 * 0.082, 1e-6, "%f", us);
    cr_expect_str_eq(bound, "memory");
}
