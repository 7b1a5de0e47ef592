/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning: which variant runs a description on a device, by the number of rows m. A plan is made
 * once, from the device's machine model and the variants' own numbers, and is constant afterwards.
 * docs/planning.md states the model.
 */
#ifndef NIB_PLAN_PLAN_H
#define NIB_PLAN_PLAN_H

#include "base/text.h"
#include "registry/device.h"

#define NIB_PLAN_BUCKETS   24
#define NIB_PLAN_WHY_BYTES 160

/* A row of the backend's table as this description sees it. */
typedef struct nib_candidate {
    const nib_variant *variant;
    char why[NIB_PLAN_WHY_BYTES]; /* why it cannot run the description; "" if it can */
} nib_candidate;

typedef struct nib_plan {
    int32_t count;
    nib_candidate *candidates;
    int32_t choice[NIB_PLAN_BUCKETS]; /* candidate index a bucket runs */
} nib_plan;

/* The bucket of m >= 1, and the largest m of a bucket (INT64_MAX for the last). The one place that
 * knows where buckets end. */
int32_t nib_plan_bucket(int64_t m);
int64_t nib_plan_bucket_end(int32_t bucket);

/* Core's model, for backends without their own (nib_backend_api, predict): microseconds of a
 * variant at m rows, and what bounds it: "memory", "decode" or "math". */
double nib_plan_predict(const nib_device_info *info, const nib_variant *variant,
                        const nib_gemm_desc *desc, int64_t m, const char **bound);

/* NIB_UNSUPPORTED with every candidate's reason when some m would have no variant. */
nib_status nib_plan_make(const nib_device *dev, const nib_gemm_desc *desc, nib_plan *out);
void nib_plan_release(nib_plan *plan);

/* Makes every bucket that a candidate's range of m covers run it, for tests and measurements.
 * NIB_INVALID: no candidate of that id. NIB_UNSUPPORTED: it cannot run the description. */
nib_status nib_plan_force(nib_plan *plan, const char *id);

/* Lines of text: every candidate at m rows, predicted times, and why all but one lost. */
void nib_plan_explain(const nib_device *dev, const nib_gemm_desc *desc, const nib_plan *plan,
                      int64_t m, nib_text *text);

#endif
