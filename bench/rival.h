/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench-cpu asks of another library's adapter. An adapter is a shared object, built outside
 * this tree against its library, that exports one function, `nib_rival_get`; `bench-cpu --rival
 * FILE` opens it at run time. It may be C or C++. Nothing here depends on nibblas.
 */
#ifndef NIB_BENCH_RIVAL_H
#define NIB_BENCH_RIVAL_H

#include <stdint.h>

#define NIB_RIVAL_VERSION 1

/* One way of computing out[m, n] = sum_k act[m, k] * w[n, k]. Weights come as GGUF Q4_0: rows of
 * k / 32 blocks of 18 bytes (f16 scale d; 16 bytes, byte j holding elements j and j + 16 in its low
 * and high half; w = (q - 8) * d). Activations and results are dense f32. Calls come from one
 * thread. */
typedef struct nib_rival {
    int32_t version;   /* NIB_RIVAL_VERSION */
    const char *name;  /* for tables, under 24 characters */
    const char *about; /* library, version, settings */
    /* Prepares weights for products of up to m_max rows on `threads` threads; the bytes may go
     * afterwards. NULL: cannot. */
    void *(*create)(int64_t n, int64_t k, const void *q4_0, int64_t m_max, int32_t threads);
    /* 0: done. */
    int32_t (*run)(void *weights, int64_t m, const float *act, float *out);
    void (*destroy)(void *weights);
} nib_rival;

/* The index-th way this adapter offers; NULL past the last. */
typedef const nib_rival *(*nib_rival_get_fn)(int32_t index);
#define NIB_RIVAL_SYMBOL "nib_rival_get"

#endif
