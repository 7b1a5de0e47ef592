/* SPDX-License-Identifier: Apache-2.0
 *
 * Guarded runs: see guarded.h.
 */
#include "guarded.h"

#include "base/status.h"
#include "config/desc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Two poisons, so that an element which no run writes differs between runs. */
static const unsigned char poisons[] = {0xa5, 0x5b};
enum { INPUT_GUARD = 0x7f }; /* NaN in every float type: a kernel that reads beyond shows */

static size_t row_bytes(const guarded *g)
{
    const nib_gemm_desc *d = g->p->ref.desc;
    return (size_t)(nib_desc_out_cols(d) * nib_type_bits(d->out_type) / 8);
}

static size_t stride_bytes(const guarded *g)
{
    return (size_t)(g->args.ldo * nib_type_bits(g->p->ref.desc->out_type) / 8);
}

static nib_status input(nib_device *dev, const void *data, size_t bytes, size_t shift,
                        test_canary *out)
{
    nib_status status = test_canary_create(dev, bytes, shift, out);
    if (status)
        return status;
    memset(out->image, INPUT_GUARD, out->bytes);
    memcpy(test_canary_host(out), data, bytes);
    return test_canary_upload(out);
}

nib_status guarded_create(nib_device *dev, const test_problem *p, nib_gemm *gemm, guarded *out)
{
    const nib_gemm_desc *d = p->ref.desc;
    guarded g = {.p = p};
    size_t align = (size_t)p->given.align, workspace_bytes = 0;
    g.args = (nib_gemm_args){.size = sizeof(nib_gemm_args),
                             .m = p->given.m,
                             .lda = p->ref.lda,
                             .ldo = nib_desc_out_cols(d) + p->given.ldo_more};
    size_t out_bytes = (size_t)g.args.m * stride_bytes(&g);
    nib_status status = nib_gemm_prepare(gemm, g.args.m ? 1 : 0, g.args.m);
    if (!status)
        status = nib_gemm_workspace(gemm, g.args.m, &workspace_bytes);
    if (!status)
        status = input(dev, p->act, p->act_bytes, align * (size_t)nib_type_bits(d->act_type) / 8,
                       &g.act);
    if (!status)
        status = input(dev, p->act_scale, p->act_scale_bytes, 0, &g.act_scale);
    if (!status)
        status = input(dev, p->bias, p->bias_bytes, align * (size_t)nib_type_bits(d->bias_type) / 8,
                       &g.bias);
    if (!status)
        status = test_canary_create(dev, out_bytes, align * (size_t)nib_type_bits(d->out_type) / 8,
                                    &g.out);
    if (!status)
        status = test_canary_create(dev, workspace_bytes, 0, &g.workspace);
    if (!status) {
        g.first = malloc(out_bytes + 1);
        if (!g.first)
            status = nib_fail(NIB_NO_MEMORY, "no memory for the first run's output");
    }
    if (status) {
        guarded_destroy(&g);
        return status;
    }
    g.args.act = test_canary_device(&g.act);
    g.args.act_scale = d->act_scale ? test_canary_device(&g.act_scale) : NULL;
    g.args.bias = d->bias_type ? test_canary_device(&g.bias) : NULL;
    g.args.out = test_canary_device(&g.out);
    g.args.workspace = workspace_bytes ? test_canary_device(&g.workspace) : NULL;
    g.args.workspace_bytes = workspace_bytes;
    *out = g;
    return NIB_OK;
}

void guarded_destroy(guarded *g)
{
    test_canary_destroy(&g->act);
    test_canary_destroy(&g->act_scale);
    test_canary_destroy(&g->bias);
    test_canary_destroy(&g->out);
    test_canary_destroy(&g->workspace);
    free(g->first);
}

const unsigned char *guarded_out(const guarded *g)
{
    return test_canary_host(&g->out);
}

static nib_status check_guards(const test_canary *canary, unsigned char poison, const char *name)
{
    int64_t where;
    if (test_canary_intact(canary, poison, &where))
        return NIB_OK;
    return nib_fail(NIB_INTERNAL, "the kernel wrote outside the %s, at byte %" PRId64 " of %zu",
                    name, where, canary->body_bytes);
}

/* Gaps between rows, and rows past m, still hold the poison. */
static nib_status check_gaps(const guarded *g, int64_t m, unsigned char poison)
{
    size_t used = row_bytes(g), stride = stride_bytes(g);
    for (int64_t row = 0; row < g->args.m; row++)
        for (size_t i = row < m ? used : 0; i < stride; i++)
            if (guarded_out(g)[(size_t)row * stride + i] != poison)
                return nib_fail(NIB_INTERNAL,
                                "a run of %" PRId64 " rows wrote into row %" PRId64
                                ", byte %zu, of which %zu are its own",
                                m, row, i, row < m ? used : 0);
    return NIB_OK;
}

/* NIB_CONFORMANCE_TWICE: each run again, with nothing between, as layers follow each other. */
static bool runs_twice(void)
{
    const char *text = getenv("NIB_CONFORMANCE_TWICE");
    return text && *text == '1';
}

static nib_status run_once(guarded *g, nib_gemm *gemm, const nib_weights *weights, int64_t m,
                           unsigned char poison)
{
    nib_gemm_args args = g->args;
    args.m = m;
    nib_status status = test_canary_poison(&g->out, poison);
    if (!status)
        status = test_canary_poison(&g->workspace, poison);
    if (!status)
        status = nib_gemm_run(gemm, weights, &args);
    if (!status && runs_twice())
        status = nib_gemm_run(gemm, weights, &args);
    if (!status)
        status = nib_stream_synchronize(g->out.dev, NULL);
    if (!status)
        status = test_canary_download(&g->out);
    if (!status)
        status = test_canary_download(&g->workspace);
    if (!status)
        status = check_guards(&g->out, poison, "output");
    if (!status)
        status = check_guards(&g->workspace, poison, "workspace");
    return status ? status : check_gaps(g, m, poison);
}

static nib_status same_rows(const guarded *g, int64_t m, const char *what)
{
    size_t stride = stride_bytes(g);
    for (int64_t row = 0; row < m; row++)
        if (memcmp(g->first + (size_t)row * stride, guarded_out(g) + (size_t)row * stride,
                   row_bytes(g)))
            return nib_fail(NIB_INTERNAL, "%s: row %" PRId64 " has other bits", what, row);
    return NIB_OK;
}

static nib_status check_inputs(guarded *g)
{
    const test_problem *p = g->p;
    nib_status status = test_canary_download(&g->act);
    if (!status)
        status = test_canary_download(&g->bias);
    if (!status && (memcmp(test_canary_host(&g->act), p->act, p->act_bytes) ||
                    memcmp(test_canary_host(&g->bias), p->bias, p->bias_bytes)))
        status = nib_fail(NIB_INTERNAL, "the kernel changed its inputs");
    return status;
}

nib_status guarded_run(guarded *g, nib_gemm *gemm, const nib_weights *weights)
{
    const nib_gemm_desc *d = g->p->ref.desc;
    int64_t m = g->args.m;
    nib_status status = run_once(g, gemm, weights, m, poisons[0]);
    if (status)
        return status;
    memcpy(g->first, guarded_out(g), (size_t)m * stride_bytes(g));
    if (m > 1) {
        status = run_once(g, gemm, weights, 1, poisons[0]);
        if (!status && d->flags & NIB_GEMM_BATCH_INVARIANT)
            status = same_rows(g, 1, "batch invariance, m = 1");
    }
    if (!status)
        status = run_once(g, gemm, weights, m, poisons[1]);
    if (!status && !(d->flags & NIB_GEMM_ALLOW_NONDETERMINISTIC))
        status = same_rows(g, m, "the second run");
    return status ? status : check_inputs(g);
}
