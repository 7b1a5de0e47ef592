/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle's entry: walks W row by row against blocks of act. See ref.h.
 */
#include "ref/ref.h"

#include "base/checked.h"
#include "base/status.h"
#include "config/desc.h"
#include "ref/terms.h"

#include <inttypes.h>
#include <stdlib.h>

static nib_status check_problem(const nib_ref_problem *problem, int64_t m0, int64_t m1)
{
    const nib_gemm_desc *d = problem->desc;
    if (m0 < 0 || m1 < m0 || m1 > problem->m)
        return nib_fail(NIB_INVALID, "rows %" PRId64 "..%" PRId64 " of %" PRId64, m0, m1,
                        problem->m);
    if (problem->lda < d->weight.k)
        return nib_fail(NIB_INVALID, "lda is %" PRId64 ", below k = %" PRId64, problem->lda,
                        d->weight.k);
    if (!problem->codes || (m1 > m0 && !problem->act) ||
        (d->weight.scale_type && !problem->scales) || (d->weight.zero && !problem->zeros) ||
        (d->weight.type == NIB_LUT4 && !problem->table) || (d->act_scale && !problem->act_scale) ||
        (d->bias_type && !problem->bias) ||
        ((d->weight.flags & NIB_WEIGHT_G_IDX) && !problem->g_idx))
        return nib_fail(NIB_INVALID, "an array that the description asks for is NULL");
    return NIB_OK;
}

/* Rows of act that one walk over W serves. */
enum { STRIP = REF_BLOCKS * REF_LANES };

/* Scratch of one call. */
typedef struct workspace {
    ref_row row;
    ref_act act[REF_BLOCKS];
    ref_value *values; /* [STRIP, n] before the epilogue */
} workspace;

static void workspace_destroy(workspace *ws)
{
    ref_row_destroy(&ws->row);
    for (int b = 0; b < REF_BLOCKS; b++)
        ref_act_destroy(&ws->act[b]);
    free(ws->values);
}

/* For a strip of `rows`. */
static nib_status workspace_create(const nib_gemm_desc *desc, int64_t rows, workspace *out)
{
    workspace ws = {0};
    size_t bytes;
    nib_status status = ref_row_create(desc, &ws.row);
    for (int b = 0; b * REF_LANES < rows && !status; b++)
        status = ref_act_create(desc, &ws.act[b]);
    if (!status) {
        if (nib_mul_size((size_t)desc->weight.n, (size_t)rows * sizeof(ref_value), &bytes))
            ws.values = malloc(bytes);
        if (!ws.values)
            status = nib_fail(NIB_NO_MEMORY, "no memory for the oracle's values");
    }
    if (status)
        workspace_destroy(&ws);
    else
        *out = ws;
    return status;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows m .. m + rows - 1 into ws->values. */
static void strip(const nib_ref_problem *problem, int64_t m, int64_t rows, workspace *ws)
{
    int64_t n_count = problem->desc->weight.n;
    for (int64_t b = 0; b * REF_LANES < rows; b++)
        ref_act_fill(problem, m + b * REF_LANES, least(rows - b * REF_LANES, REF_LANES),
                     &ws->act[b]);
    for (int64_t n = 0; n < n_count; n++) {
        ref_row_fill(problem, n, &ws->row);
        for (int64_t from = 0; from < rows; from += REF_LANES) {
            const ref_act *act = &ws->act[from / REF_LANES];
            int64_t lanes = least(rows - from, REF_LANES);
            ref_sums sums[REF_LANES];
            ref_sum(problem, &ws->row, act, m + from, lanes, sums);
            for (int64_t l = 0; l < lanes; l++)
                ws->values[(from + l) * n_count + n] = ref_finish(
                    problem, &sums[l], n, ws->row.nan || act->nan[l], ws->row.inf || act->inf[l]);
        }
    }
}

static void finish_rows(const nib_gemm_desc *desc, const ref_value *values, int64_t rows,
                        double *out, double *bound)
{
    int64_t n = desc->weight.n, cols = nib_desc_out_cols(desc);
    for (int64_t m = 0; m < rows; m++)
        for (int64_t c = 0; c < cols; c++) {
            const ref_value *x1 = &values[m * n + c];
            ref_value y = ref_epilogue(desc->epilogue, *x1, cols < n ? x1[cols] : *x1);
            out[m * cols + c] = y.x;
            if (bound)
                bound[m * cols + c] = y.bound;
        }
}

nib_status nib_ref_gemm_rows(const nib_ref_problem *problem, int64_t m0, int64_t m1, double *out,
                             double *bound)
{
    int64_t cols = nib_desc_out_cols(problem->desc);
    workspace ws;
    nib_status status = check_problem(problem, m0, m1);
    if (status || m0 == m1)
        return status;
    status = workspace_create(problem->desc, least(m1 - m0, STRIP), &ws);
    if (status)
        return status;
    for (int64_t m = m0; m < m1; m += STRIP) {
        int64_t rows = least(m1 - m, STRIP);
        strip(problem, m, rows, &ws);
        finish_rows(problem->desc, ws.values, rows, out + (m - m0) * cols,
                    bound ? bound + (m - m0) * cols : NULL);
    }
    workspace_destroy(&ws);
    return NIB_OK;
}

nib_status nib_ref_gemm(const nib_ref_problem *problem, double *out, double *bound)
{
    return nib_ref_gemm_rows(problem, 0, problem->m, out, bound);
}
