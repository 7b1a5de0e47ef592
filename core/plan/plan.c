/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates, the cost model and the choice by bucket: see plan.h.
 */
#include "plan/plan.h"

#include "base/checked.h"
#include "base/text.h"
#include "config/desc.h"
#include "config/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Last m of each bucket. Dense where kernels change with every row, sparse where they do not. */
static const int64_t bucket_end[NIB_PLAN_BUCKETS] = {
    1,  2,  3,  4,   5,   6,   7,   8,   12,   16,   24,   32,
    48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, INT64_MAX,
};

int32_t nib_plan_bucket(int64_t m)
{
    int32_t bucket = 0;
    while (m > bucket_end[bucket])
        bucket++;
    return bucket;
}

int64_t nib_plan_bucket_end(int32_t bucket)
{
    return bucket_end[bucket];
}

static int64_t bucket_begin(int32_t bucket)
{
    return bucket == 0 ? 1 : bucket_end[bucket - 1] + 1;
}

/* The m at which a bucket's candidates are compared. */
static int64_t bucket_sample(int32_t bucket)
{
    return bucket == NIB_PLAN_BUCKETS - 1 ? 2 * bucket_end[bucket - 1] : bucket_end[bucket];
}

static double peak_flop_per_us(const nib_device_info *info, nib_type math)
{
    double tera = math == NIB_I8    ? info->i8_top_per_s
                  : math == NIB_F16 ? info->f16_tflop_per_s
                                    : info->f32_tflop_per_s;
    return (tera > 0 ? tera : info->f32_tflop_per_s) * 1e6;
}

/* Share of the shorter of reading and computing that the longer does not hide. It also decides
 * between candidates that the same memory bounds. */
static const double not_hidden = 0.1;

double nib_plan_predict(const nib_device_info *info, const nib_variant *v,
                        const nib_gemm_desc *desc, int64_t m, const char **bound)
{
    const nib_weight_desc *w = &desc->weight;
    double codes = (double)w->n * (double)w->k;
    double values = (double)nib_desc_scale_rows(w) * (double)nib_desc_groups(w);
    double bytes = codes * nib_type_bits(w->type) / 8 +
                   values * (nib_type_bits(w->scale_type) + nib_desc_zero_bits(w)) / 8 +
                   (double)m *
                       ((double)w->k * nib_type_bits(desc->act_type) +
                        (double)w->n * nib_type_bits(desc->out_type)) /
                       8;
    double memory = bytes / (info->read_gb_per_s * 1e3);
    double passes = v->decode_m > 0 ? (double)nib_ceil_div(m, v->decode_m) : 1;
    double decode =
        v->decode_per_ns > 0 ? codes * passes / (v->decode_per_ns * info->units * 1e3) : 0;
    double rows =
        (double)nib_ceil_div(m, v->m_tile > 0 ? v->m_tile : 1) * (v->m_tile > 0 ? v->m_tile : 1);
    double math = 2 * rows * codes / (peak_flop_per_us(info, v->math_type) * v->efficiency);
    double compute = decode + math;
    if (bound)
        *bound = memory > compute ? "memory" : decode > math ? "decode" : "math";
    return info->launch_us + fmax(memory, compute) + not_hidden * fmin(memory, compute);
}

/* A variant's time on a device: by the backend's own model where it has one and that answers with a
 * time, else by the model above. */
static double predict(const nib_device *dev, const nib_variant *v, const nib_gemm_desc *desc,
                      int64_t m, const char **bound)
{
    const nib_backend_api *api = &dev->backend->api;
    const char *word = NULL;
    double us = 0;
    if (api->predict && api->predict(dev->handle, v, desc, m, &us, &word) == NIB_OK &&
        isfinite(us) && us > 0) {
        if (bound)
            *bound = word ? word : "its own model";
        return us;
    }
    return nib_plan_predict(&dev->info, v, desc, m, bound);
}

static bool in_range(const nib_variant *v, int32_t bucket)
{
    return bucket_begin(bucket) >= v->m_min && (v->m_max == 0 || bucket_end[bucket] <= v->m_max);
}

static nib_status list_candidates(const nib_device *dev, const nib_gemm_desc *desc, nib_plan *plan)
{
    const nib_backend_api *api = &dev->backend->api;
    int32_t capacity = 0;
    for (uint32_t i = 0;; i++) {
        const nib_variant *variant = NULL;
        nib_status status = api->variant(dev->handle, i, &variant);
        if (status)
            return status;
        if (!variant)
            return NIB_OK;
        if (variant->size < sizeof(*variant))
            return nib_fail(NIB_INTERNAL,
                            "variant %u of %s has %u bytes, expected %zu: its size is "
                            "not set",
                            i, api->name, variant->size, sizeof(*variant));
        if (plan->count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            nib_candidate *grown = realloc(plan->candidates, (size_t)capacity * sizeof(*grown));
            if (!grown)
                return nib_fail(NIB_NO_MEMORY, "no memory for %d candidates", capacity);
            plan->candidates = grown;
        }
        nib_candidate *candidate = &plan->candidates[plan->count++];
        *candidate = (nib_candidate){.variant = variant};
        status = api->supports(dev->handle, variant, desc, candidate->why, sizeof(candidate->why));
        if (status && status != NIB_UNSUPPORTED)
            return status;
        if (status && !candidate->why[0])
            strcpy(candidate->why, "the backend gave no reason");
        if (!status && desc->flags & NIB_GEMM_BATCH_INVARIANT && !variant->batch_invariant)
            strcpy(candidate->why, "its bits depend on m, and batch_invariant is asked for");
    }
}

/* The fastest candidate for a bucket among those of one invariance class (0: any); -1: none. */
static int32_t fastest(const nib_device *dev, const nib_gemm_desc *desc, const nib_plan *plan,
                       int32_t bucket, int32_t class, double *us)
{
    int32_t best = -1;
    for (int32_t i = 0; i < plan->count; i++) {
        const nib_candidate *c = &plan->candidates[i];
        if (c->why[0] || !in_range(c->variant, bucket) ||
            (class && c->variant->batch_invariant != class))
            continue;
        double t = predict(dev, c->variant, desc, bucket_sample(bucket), NULL);
        if (best < 0 || t < *us) {
            best = i;
            *us = t;
        }
    }
    return best;
}

/* Fills all buckets from one class. False when one stays empty; `cost` sums logarithms of times. */
static bool choose(const nib_device *dev, const nib_gemm_desc *desc, const nib_plan *plan,
                   int32_t class, int32_t *choice, double *cost)
{
    *cost = 0;
    for (int32_t bucket = 0; bucket < NIB_PLAN_BUCKETS; bucket++) {
        double us = 0;
        choice[bucket] = fastest(dev, desc, plan, bucket, class, &us);
        if (choice[bucket] < 0)
            return false;
        *cost += log(us);
    }
    return true;
}

/* Batch invariance: all buckets run variants of one class, the one with the least cost. */
static bool choose_invariant(const nib_device *dev, const nib_gemm_desc *desc, nib_plan *plan)
{
    bool found = false;
    double least = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        int32_t choice[NIB_PLAN_BUCKETS];
        double cost;
        int32_t class = plan->candidates[i].variant->batch_invariant;
        if (class && choose(dev, desc, plan, class, choice, &cost) && (!found || cost < least)) {
            memcpy(plan->choice, choice, sizeof(choice));
            least = cost;
            found = true;
        }
    }
    return found;
}

static nib_status nothing_runs(const nib_device *dev, const nib_plan *plan)
{
    char reasons[NIB_MESSAGE_BYTES / 2];
    nib_text text = nib_text_into(reasons, sizeof(reasons));
    for (int32_t i = 0; i < plan->count; i++)
        nib_text_add(&text, "%s%s: %s", i ? "; " : "", plan->candidates[i].variant->id,
                     plan->candidates[i].why[0] ? plan->candidates[i].why : "not for every m");
    return nib_fail(NIB_UNSUPPORTED, "%s cannot run this product for every m (%s)",
                    dev->info.selector, text.length ? reasons : "it has no kernels");
}

nib_status nib_plan_make(const nib_device *dev, const nib_gemm_desc *desc, nib_plan *out)
{
    nib_plan plan = {0};
    nib_status status = list_candidates(dev, desc, &plan);
    if (!status) {
        double cost;
        bool found = desc->flags & NIB_GEMM_BATCH_INVARIANT
                         ? choose_invariant(dev, desc, &plan)
                         : choose(dev, desc, &plan, 0, plan.choice, &cost);
        if (!found)
            status = nothing_runs(dev, &plan);
    }
    if (status) {
        nib_plan_release(&plan);
        return status;
    }
    *out = plan;
    return NIB_OK;
}

void nib_plan_release(nib_plan *plan)
{
    free(plan->candidates);
    *plan = (nib_plan){0};
}

nib_status nib_plan_force(nib_plan *plan, const char *id)
{
    for (int32_t i = 0; i < plan->count; i++) {
        const nib_candidate *c = &plan->candidates[i];
        if (strcmp(c->variant->id, id))
            continue;
        if (c->why[0])
            return nib_fail(NIB_UNSUPPORTED, "%s: %s", id, c->why);
        for (int32_t bucket = 0; bucket < NIB_PLAN_BUCKETS; bucket++)
            if (in_range(c->variant, bucket))
                plan->choice[bucket] = i;
        return NIB_OK;
    }
    return nib_fail(NIB_INVALID, "there is no variant '%s'", id);
}

void nib_plan_explain(const nib_device *dev, const nib_gemm_desc *desc, const nib_plan *plan,
                      int64_t m, nib_text *text)
{
    int32_t bucket = nib_plan_bucket(m);
    int32_t chosen = plan->choice[bucket];
    double best = predict(dev, plan->candidates[chosen].variant, desc, m, NULL);
    for (int32_t i = 0; i < plan->count; i++) {
        const nib_candidate *c = &plan->candidates[i];
        const char *bound = "";
        double us = 0;
        nib_text_add(text, "%c %-28s ", i == chosen ? '*' : ' ', c->variant->id);
        if (!c->why[0] && in_range(c->variant, bucket))
            us = predict(dev, c->variant, desc, m, &bound);
        if (c->why[0])
            nib_text_add(text, "%12s  cannot: %s\n", "-", c->why);
        else if (!in_range(c->variant, bucket))
            nib_text_add(text, "%12s  not for this m\n", "-");
        else if (i == chosen)
            nib_text_add(text, "%9.2f us  chosen, bound by %s\n", us, bound);
        else
            nib_text_add(text, "%9.2f us  %.2f times the chosen, bound by %s\n", us, us / best,
                         bound);
    }
}
