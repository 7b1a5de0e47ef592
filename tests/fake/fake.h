/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA driver that does as it is told. A test opens the library before the backend does, finds
 * fake_cuda() in it, changes what it wants and reads the counts.
 */
#ifndef NIB_TEST_FAKE_H
#define NIB_TEST_FAKE_H

#include "host/driver.h"
#include "kernels/common/params.h"

#include <stdatomic.h>

typedef struct fake_cuda {
    /* What it pretends. */
    int cc, devices, version, units;
    bool takes_cubin, takes_ptx;
    nib_cu_result launch_result, alloc_result;
    const char *name;
    /* What a launch does; NULL: nothing. */
    void (*run)(const char *kernel, const nib_cuda_params *params);
    /* What was called. `slow` counts calls that a launch must not make. */
    atomic_int launches, reductions, slow, loads, unloads, pushes, pops, alive, cubins, ptx;
    nib_cu_stream last_stream;
} fake_cuda;

typedef fake_cuda *(*fake_cuda_fn)(void); /* fake_cuda_get */

#endif
