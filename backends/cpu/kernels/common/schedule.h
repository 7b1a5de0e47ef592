/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedules: how a product is cut into pieces, who computes which, and in what memory. They are
 * the same for all ISAs and call the ISA's functions. All scratch memory is the caller's workspace;
 * every element of the result is summed by one thread in an order that depends neither on m nor on
 * the number of threads.
 */
#ifndef NIB_CPU_SCHEDULE_H
#define NIB_CPU_SCHEDULE_H

#include "kernels/common/team.h"
#include "kernels/kernel.h"

/* A kernel: one row specialised for one description. */
typedef struct nib_cpu_kernel {
    nib_cpu_shape shape;
    const nib_cpu_row *row;
    nib_cpu_dequant_fn dequant;
    int32_t threads; /* of the crew, at most */
    nib_cpu_crew *crew;
} nib_cpu_kernel;

typedef struct nib_cpu_call {
    const nib_cpu_kernel *kernel;
    const nib_packed *weights;
    const nib_gemm_args *args;
} nib_cpu_call;

/* Workspace bytes; they do not fall as m grows. */
uint64_t nib_cpu_panel_workspace(const nib_cpu_kernel *kernel, int64_t m);
uint64_t nib_cpu_integer_workspace(const nib_cpu_kernel *kernel, int64_t m);
uint64_t nib_cpu_direct_workspace(const nib_cpu_kernel *kernel, int64_t m);

void nib_cpu_panel_launch(const nib_cpu_call *call);
void nib_cpu_integer_launch(const nib_cpu_call *call);
/* Serves NIB_CPU_DIRECT and NIB_CPU_DOT. */
void nib_cpu_direct_launch(const nib_cpu_call *call);

/* NULL when the direct schedules can serve a description, else the reason they cannot. */
const char *nib_cpu_direct_refusal(const nib_cpu_shape *shape, nib_cpu_schedule schedule);

/* Decodes k0 .. k0 + count - 1 of an n tile with scales and zeros; k0 is a multiple of 32. Writes
 * whole units: up to 31 k more than `count`. */
void nib_cpu_decode(const nib_cpu_run *run, nib_cpu_dequant_fn dequant, int64_t n_tile, int64_t k0,
                    int64_t count, float *out);

/* The run of rows m0 .. m0 + rows - 1. */
nib_cpu_run nib_cpu_run_make(const nib_cpu_call *call, int64_t m0, int64_t rows);

/* x1 and x2 of gated pairs lie n / 2 columns apart, perhaps in tiles of different threads, so
 * gated products keep sums[rows][ld] and store them when all are there; by all threads of the team.
 */
void nib_cpu_store_gated(const nib_cpu_team *team, const nib_cpu_run *run, const nib_cpu_isa *isa,
                         const float *sums, int64_t ld);

#endif
