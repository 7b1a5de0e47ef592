/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of kernels/general/convert.cu, which moves matrices between layouts. host/ compiles the
 * source without constants and launches what nib_cuda_convert_make answers.
 */
#ifndef NIB_CUDA_CONVERT_H
#define NIB_CUDA_CONVERT_H

#include <nibblas/backend.h>

#include "kernels/general/convert.h"

#define NIB_CUDA_CONVERT_SOURCE "kernels/general/convert.cu"
#define NIB_CUDA_CONVERT_ENTRY  "nib_convert"
#define NIB_CUDA_CONVERT_LABEL  "convert"

/* One launch for each plane of the target; they do not depend on each other. */
typedef struct nib_cuda_convert_job {
    int32_t launches;
    uint32_t block;
    uint32_t grid[NIB_MAX_PLANES]; /* along x */
    nib_cuda_convert_params params[NIB_MAX_PLANES];
} nib_cuda_convert_job;

/* NULL, or why the kernel cannot do it; `out` is then of no meaning. */
const char *nib_cuda_convert_make(const nib_convert_args *args, nib_cuda_convert_job *out);

#endif
