/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's run-time compiler, opened when the first kernel of a benchmark is compiled: the one that
 * NIB_NVRTC_LIBRARY names, else the newest of the usual names.
 */
#ifndef NIB_BENCH_GPU_NVRTC_H
#define NIB_BENCH_GPU_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

/* Compiles an embedded source ("kernels/read.cu") with one definition ("NIB_READ_BULK=1") to PTX
 * for a capability (major * 10 + minor). NULL: it failed, with the reason; the caller frees. */
char *bench_nvrtc_compile(const char *source, const char *definition, int cc, char *why,
                          size_t why_bytes);

#endif
