/* SPDX-License-Identifier: Apache-2.0
 *
 * The little of the CUDA driver that timing needs beside nibblas: a stream, events, and graphs
 * captured from calls on it. The library is opened at run time (libcuda.so.1, or what
 * NIB_CUDA_LIBRARY names). For bench-cuda, bench-chain and `nib bench --baseline`.
 */
#ifndef NIB_BENCH_GPU_CUDA_H
#define NIB_BENCH_GPU_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned long long bench_cuda_memory; /* an address of the device */

typedef struct bench_cuda {
    void *library;
    void *context; /* the device's primary one, current in this thread */
    void *stream;
    void *from, *to; /* events */
    int device, version;
    int units, cc; /* multiprocessors; capability, major * 10 + minor */
    char name[96];
} bench_cuda;

/* Opens device `index`. False, with the reason: no driver, no such device. */
bool bench_cuda_open(bench_cuda *cuda, int index, char *why, size_t why_bytes);
void bench_cuda_close(bench_cuda *cuda);

/* One call among those that a graph repeats; 0: it was queued on `stream`. */
typedef int (*bench_launch_fn)(void *user, int64_t call, void *stream);

typedef struct bench_graph {
    void *exec;
    int64_t calls;
} bench_graph;

/* Each prints what failed and answers false. The functions below wait for the stream. */
bool bench_graph_capture(bench_cuda *cuda, bench_launch_fn launch, void *user, int64_t calls,
                         bench_graph *graph);
/* Microseconds of one replay by the device's clock. */
bool bench_graph_replay(bench_cuda *cuda, const bench_graph *graph, double *us);
void bench_graph_free(bench_cuda *cuda, bench_graph *graph);

bool bench_cuda_alloc(bench_cuda *cuda, size_t bytes, bench_cuda_memory *memory);
void bench_cuda_free(bench_cuda *cuda, bench_cuda_memory memory);
bool bench_cuda_upload(bench_cuda *cuda, bench_cuda_memory to, const void *from, size_t bytes);
bool bench_cuda_download(bench_cuda *cuda, void *to, bench_cuda_memory from, size_t bytes);
/* Bytes of BENCH_POISON are NaN in every float type. */
#define BENCH_POISON 0xff
bool bench_cuda_fill(bench_cuda *cuda, bench_cuda_memory memory, int byte, size_t bytes);
bool bench_cuda_wait(bench_cuda *cuda);

typedef struct bench_kernel {
    void *module, *function;
} bench_kernel;

/* Loads a kernel's PTX; launches of it may ask for `shared_bytes` of dynamic shared memory. */
bool bench_cuda_load(bench_cuda *cuda, const char *ptx, const char *entry, int shared_bytes,
                     bench_kernel *out);
void bench_cuda_unload(bench_cuda *cuda, bench_kernel *kernel);
/* Queues it on `stream`. */
bool bench_cuda_launch(bench_cuda *cuda, const bench_kernel *kernel, unsigned blocks,
                       unsigned threads, unsigned shared_bytes, void **parameters, void *stream);

/* Read plus written GB/s of a device-to-device copy of `bytes`, the best of several; 0: failed. */
double bench_cuda_copy_rate(bench_cuda *cuda, size_t bytes);

#endif
