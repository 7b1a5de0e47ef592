/* SPDX-License-Identifier: Apache-2.0
 *
 * One case on one device: see run.h. guarded.c has the run itself.
 */
#include "run.h"

#include "api/internal.h"
#include "base/status.h"
#include "config/desc.h"
#include "guarded.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Products up to this many terms are compared whole, larger ones in three strips of rows. */
static const double whole_terms = 4e8;
enum { STRIP = 8 };

/* The oracle's rows of a case: [m0, m1) each. */
typedef struct expectation {
    bool made;
    int32_t strips;
    int64_t m0[3], m1[3];
    double *out[3], *bound[3];
} expectation;

static void expectation_destroy(expectation *e)
{
    for (int i = 0; i < 3; i++) {
        free(e->out[i]);
        free(e->bound[i]);
    }
}

static nib_status expectation_create(const nib_ref_problem *p, expectation *out)
{
    int64_t m = p->m, cols = nib_desc_out_cols(p->desc);
    double terms = (double)m * (double)p->desc->weight.n * (double)p->desc->weight.k;
    expectation e = {.made = true, .strips = 1, .m1 = {m}};
    nib_status status = NIB_OK;
    if (terms > whole_terms && m > 3 * STRIP)
        e = (expectation){.made = true,
                          .strips = 3,
                          .m0 = {0, m / 2, m - STRIP},
                          .m1 = {STRIP, m / 2 + STRIP, m}};
    for (int32_t i = 0; i < e.strips && !status; i++) {
        size_t count = (size_t)((e.m1[i] - e.m0[i]) * cols);
        e.out[i] = malloc((count + 1) * sizeof(double));
        e.bound[i] = malloc((count + 1) * sizeof(double));
        if (!e.out[i] || !e.bound[i])
            status = nib_fail(NIB_NO_MEMORY, "no memory for the expected result");
        else
            status = nib_ref_gemm_rows(p, e.m0[i], e.m1[i], e.out[i], e.bound[i]);
    }
    if (status)
        expectation_destroy(&e);
    else
        *out = e;
    return status;
}

static nib_status compare(const test_problem *p, const expectation *e, const unsigned char *out)
{
    const nib_gemm_desc *d = p->ref.desc;
    int64_t ldo = nib_desc_out_cols(d) + p->given.ldo_more;
    for (int32_t i = 0; i < e->strips; i++) {
        const unsigned char *rows = out + e->m0[i] * ldo * nib_type_bits(d->out_type) / 8;
        nib_status status =
            nib_ref_compare(d, e->m1[i] - e->m0[i], e->out[i], e->bound[i], rows, ldo);
        if (status)
            return e->m0[i] ? nib_fail_within(status, "from row %" PRId64, e->m0[i]) : status;
    }
    return NIB_OK;
}

/* Packed weights must give back what went in. */
static nib_status check_unpack(const test_problem *p, const nib_weights *weights)
{
    unsigned char *codes = calloc(p->packed_bytes + 1, 1);
    unsigned char *scales = calloc(p->scales_bytes + 1, 1);
    unsigned char *zeros = calloc(p->zeros_bytes + 1, 1);
    nib_status status = NIB_OK;
    if (!codes || !scales || !zeros)
        status = nib_fail(NIB_NO_MEMORY, "no memory to unpack into");
    if (!status)
        status = nib_weights_unpack(weights, NULL, codes, NULL, p->ref.scales ? scales : NULL, NULL,
                                    p->ref.zeros ? zeros : NULL);
    if (!status && memcmp(codes, p->packed_codes, p->packed_bytes))
        status = nib_fail(NIB_INTERNAL, "unpacked codes differ from the packed ones");
    if (!status && memcmp(scales, p->scales, p->scales_bytes))
        status = nib_fail(NIB_INTERNAL, "unpacked scales differ from the packed ones");
    if (!status && memcmp(zeros, p->zeros, p->zeros_bytes))
        status = nib_fail(NIB_INTERNAL, "unpacked zeros differ from the packed ones");
    free(codes);
    free(scales);
    free(zeros);
    return status;
}

/* What a case's kernels are held to: those that can do with exact weights to the bound of such,
 * whether or not the case asks for them, and only the others to the wider one. */
typedef struct standard {
    const test_problem *p;
    nib_gemm_desc exact_desc;
    nib_gemm *exact; /* a gemm of exact weights: what its kernels are is asked of it */
    expectation of_exact, of_rounded;
} standard;

static nib_status standard_create(const run_options *options, const test_problem *p, standard *out)
{
    *out = (standard){.p = p, .exact_desc = *p->ref.desc};
    out->exact_desc.flags |= NIB_GEMM_EXACT_WEIGHTS;
    return nib_gemm_create(options->dev, &out->exact_desc, &out->exact);
}

static void standard_destroy(standard *s)
{
    expectation_destroy(&s->of_exact);
    expectation_destroy(&s->of_rounded);
    nib_gemm_destroy(s->exact);
}

/* The expectation of a kernel of a gemm's candidates, made when it is first wanted. */
static nib_status standard_of(standard *s, int32_t candidate, const expectation **out)
{
    const nib_candidate *c = candidate < 0 ? NULL : nib_gemm_variant(s->exact, candidate);
    bool exact = !c || !c->why[0];
    expectation *e = exact ? &s->of_exact : &s->of_rounded;
    nib_ref_problem ref = s->p->ref;
    if (exact)
        ref.desc = &s->exact_desc;
    *out = e;
    return e->made ? NIB_OK : expectation_create(&ref, e);
}

/* Another gemm of the same product that uses one variant wherever it can. */
static nib_status run_variant(const run_options *options, standard *s, const char *id,
                              int32_t candidate, const nib_weights *weights)
{
    const test_problem *p = s->p;
    const expectation *e;
    nib_gemm *gemm;
    guarded g;
    nib_status status = standard_of(s, candidate, &e);
    if (!status)
        status = nib_gemm_create(options->dev, p->ref.desc, &gemm);
    if (status)
        return status;
    if (id)
        status = nib_gemm_force_variant(gemm, id);
    if (!status)
        status = guarded_create(options->dev, p, gemm, &g);
    if (!status) {
        status = guarded_run(&g, gemm, weights);
        if (!status)
            status = compare(p, e, guarded_out(&g));
        guarded_destroy(&g);
    }
    nib_gemm_destroy(gemm);
    return status && id ? nib_fail_within(status, "variant %s", id) : status;
}

/* Whether an id is one of those between commas. */
static bool named(const char *list, const char *id)
{
    size_t length = strlen(id);
    for (const char *at = list; (at = strstr(at, id)) != NULL; at += length) {
        bool begins = at == list || at[-1] == ',', ends = !at[length] || at[length] == ',';
        if (begins && ends)
            return true;
    }
    return false;
}

static bool wanted(const run_options *options, const nib_candidate *c, int64_t m)
{
    if (c->why[0] || m < c->variant->m_min || (c->variant->m_max && m > c->variant->m_max))
        return false;
    return !strcmp(options->variant, "all") || named(options->variant, c->variant->id);
}

static nib_status run_all(const run_options *options, const test_problem *p, nib_gemm *gemm,
                          const nib_weights *weights, int64_t *runs)
{
    standard s;
    nib_status status = standard_create(options, p, &s);
    if (status)
        return status;
    int32_t planned = p->given.m ? gemm->plan.choice[nib_plan_bucket(p->given.m)] : -1;
    if (!options->variant || !strcmp(options->variant, "all")) {
        status = run_variant(options, &s, NULL, planned, weights);
        ++*runs;
    }
    for (int32_t i = 0; options->variant && i < nib_gemm_variant_count(gemm) && !status; i++) {
        const nib_candidate *c = nib_gemm_variant(gemm, i);
        bool done = i == planned && !strcmp(options->variant, "all");
        if (done || !wanted(options, c, p->given.m))
            continue;
        status = run_variant(options, &s, c->variant->id, i, weights);
        ++*runs;
    }
    standard_destroy(&s);
    return status;
}

/* A refusal must be the one the line asks for, and say why. */
static nib_status judge_refusal(const test_case *given, nib_status got, const char *where)
{
    if (got == given->expect)
        return nib_last_message()[0] ? NIB_OK : nib_fail(NIB_INTERNAL, "refused without a message");
    if (given->expect == NIB_OK)
        return nib_fail_within(got, "%s", where);
    return nib_fail(NIB_INTERNAL, "%s: expected %s, got %s", where, nib_status_name(given->expect),
                    nib_status_name(got));
}

nib_status run_case(const run_options *options, const test_case *given, int64_t *runs)
{
    nib_gemm *gemm = NULL;
    nib_weights *weights = NULL;
    test_problem p;
    if (given->desc_status)
        return judge_refusal(given, given->desc_status, "description");
    nib_status status = nib_gemm_create(options->dev, &given->desc, &gemm);
    if (status)
        return judge_refusal(given, status, "nib_gemm_create");
    status = test_problem_create(given, &p);
    if (status) {
        nib_gemm_destroy(gemm);
        return status;
    }
    status = nib_weights_pack(gemm, &p.plain, &weights);
    if (status)
        status = judge_refusal(given, status, "nib_weights_pack");
    else if (given->expect)
        status = nib_fail(NIB_INTERNAL, "expected %s, but it was accepted",
                          nib_status_name(given->expect));
    else
        status = check_unpack(&p, weights);
    if (!status && weights)
        status = run_all(options, &p, gemm, weights, runs);
    nib_weights_destroy(weights);
    nib_gemm_destroy(gemm);
    test_problem_destroy(&p);
    return status;
}
