/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment table: see env.h.
 */
#include "config/env.h"

#include <stdlib.h>

static const nib_env_row rows[] = {
    {"NIB_DEVICE", "device that \"auto\" opens, for instance cpu or cuda:0"},
    {"NIB_BACKEND_PATH", "folder with libnibblas-<name>.so plugins"},
    {"NIB_VARIANT", "kernel that a gemm runs wherever it can, for measurements"},
    {"NIB_CPU_ISA", "kernels of the CPU backend: portable, avx2 or avx512"},
    {"NIB_CUDA_LIBRARY", "the CUDA driver, in place of libcuda.so.1"},
    {"NIB_NVRTC_LIBRARY", "the run-time compiler of CUDA kernels, in place of the one found"},
    {"NIB_CACHE_DIR", "folder of the kernel cache; else $XDG_CACHE_HOME/nibblas, ~/.cache/nibblas"},
    {"NIB_PACK_PATH", "packs of compiled kernels: files or folders, ':' between them"},
    {"OMP_NUM_THREADS", "threads of the CPU backend and of quantisers"},
};

const nib_env_row *nib_env_describe(uint32_t index)
{
    return index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
}

const char *nib_env(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}
