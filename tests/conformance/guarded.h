/* SPDX-License-Identifier: Apache-2.0
 *
 * A run with guards round every buffer a kernel may write, poison where it must write, and the
 * same bits demanded twice.
 */
#ifndef NIB_CONFORMANCE_GUARDED_H
#define NIB_CONFORMANCE_GUARDED_H

#include "support/canary.h"
#include "support/problem.h"

typedef struct guarded {
    const test_problem *p;
    nib_gemm_args args;
    test_canary act, act_scale, out, bias, workspace;
    unsigned char *first; /* the first run's output, stride gaps included */
} guarded;

/* Device buffers for a problem; prepares the gemm for 1..m. */
nib_status guarded_create(nib_device *dev, const test_problem *p, nib_gemm *gemm, guarded *out);
void guarded_destroy(guarded *g);

/* m rows, then one row, then m rows again over other poison: the guards, gaps and inputs must be
 * intact, the bits equal, and with NIB_GEMM_BATCH_INVARIANT the single row equal to the first. */
nib_status guarded_run(guarded *g, nib_gemm *gemm, const nib_weights *weights);

/* The result, on the host. */
const unsigned char *guarded_out(const guarded *g);

#endif
