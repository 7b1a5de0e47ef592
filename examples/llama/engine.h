/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place where nib-llama multiplies: a nibblas device, the products planned on it (one
 * nib_gemm serves all linear layers of equal description) and the buffers they share. linear.c
 * loads layers into it, graph.c runs them.
 */
#ifndef LLAMA_ENGINE_H
#define LLAMA_ENGINE_H

#include <nibblas/nibblas.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct llama_engine_options {
    const char *device;  /* nibblas selector; NULL: auto */
    nib_type act_type;   /* f32, f16 or bf16; NIB_TYPE_NONE: f32 on the CPU, else f16 */
    bool act_dynamic_i8; /* nibblas may round activations to i8 on the fly */
} llama_engine_options;

typedef struct llama_product {
    nib_weight_desc weight;
    nib_gemm *gemm;
    int64_t m_max;
} llama_product;

typedef struct llama_engine {
    nib_context *ctx;
    nib_device *dev;
    nib_device_info info;
    llama_engine_options options;
    bool in_place; /* the device reads and writes host memory: no copies */
    llama_product *products;
    int64_t product_count;
    void *workspace;
    size_t workspace_bytes;
    void *narrow;             /* activations in act_type, on the host, when that is not f32 */
    void *act, *out;          /* on the device, when not in_place; out for LLAMA_JOBS_MAX results */
    int64_t act_max, out_max; /* elements of the largest activation and output */
    double seconds;           /* spent inside nibblas by llama_engine_run_all */
    int64_t runs;
} llama_engine;

/* `engine` must be zero; close it after a failure too. */
nib_status llama_engine_open(llama_engine *engine, const llama_engine_options *options);
void llama_engine_close(llama_engine *engine);

/* The gemm for weights of this description, for up to m_max rows. The engine owns it. */
nib_status llama_engine_gemm(llama_engine *engine, const nib_weight_desc *weight, int64_t m_max,
                             nib_gemm **out);

/* After the last llama_engine_gemm: buffers, and all slow work. */
nib_status llama_engine_prepare(llama_engine *engine);

/* out[m, n] = act[m, k] * W^T, f32 on the host, rows contiguous. */
typedef struct llama_job {
    nib_gemm *gemm;
    const nib_weights *weights;
    int64_t n;
    float *out;
} llama_job;

#define LLAMA_JOBS_MAX 3

/* Products of one act[m, k], at most LLAMA_JOBS_MAX. On a device with memory of its own act goes
 * there once, and the host waits once. */
nib_status llama_engine_run_all(llama_engine *engine, const llama_job *jobs, int count, int64_t k,
                                const float *act, int64_t m);

/* Seconds of a clock that only goes forward. */
double llama_clock(void);

#endif
