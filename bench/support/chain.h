/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of products, each of which reads what the one before wrote, as decoding a token runs
 * them. It is run on two devices of the library that are the same GPU: one starts each kernel while
 * the one before it ends (dependent launch), the other does not. The only difference may be time.
 */
#ifndef NIB_BENCH_CHAIN_H
#define NIB_BENCH_CHAIN_H

#include "gpu/read.h"
#include "gpu/rounds.h"

#include <nibblas/nibblas.h>

#define CHAIN_MOST_KINDS 4

/* One kind of layer: out = act W^T, or with `gated` silu(x1 + 4) * x2. */
typedef struct chain_kind {
    const char *name;
    int64_t n, k;
    bool gated;
} chain_kind;

/* Layers take their kinds in turn. A layer reads the first k columns of what the one before wrote.
 */
typedef struct chain_model {
    const char *name;
    chain_kind kind[CHAIN_MOST_KINDS];
    int kinds, layers;
} chain_model;

typedef struct chain_kind_data chain_kind_data; /* codes and scales of a kind */
typedef struct chain_side chain_side;           /* what stands on one of the two devices */

typedef struct chain {
    bench_cuda *cuda;
    const chain_model *model;
    nib_type type; /* of activations, scales and results: f16 or bf16 */
    int64_t m_max;
    chain_kind_data *data;
    chain_side *side[2]; /* with and without dependent launch */
    void *input;
    bench_cuda_memory act, buffer[2], bias[CHAIN_MOST_KINDS];
    size_t buffer_bytes;
} chain;

/* False with a line on stderr; close it then too. `dev`: with and without dependent launch. */
bool chain_open(chain *c, bench_cuda *cuda, nib_device *const dev[2], const chain_model *model,
                nib_type type, int64_t m_max);
void chain_close(chain *c);

typedef struct chain_result {
    double error;                /* the largest of a layer's relative errors, run one by one */
    bool right;                  /* that is within the type's rounding */
    bool equal;                  /* both graphs left the bits that layers run one by one left */
    bench_stat dependent, plain; /* us of the whole chain */
    bench_stat floor[CHAIN_MOST_KINDS]; /* us of a layer's bytes; zero: no floor */
    double floor_us;                    /* of the whole chain; 0: no floor */
    char variant[CHAIN_MOST_KINDS][64];
} chain_result;

/* Checks and times m rows. `readers`: one a kind, loaded, or NULL. False: it did not run. */
bool chain_run(chain *c, int64_t m, bench_reader *readers, const bench_pace *pace,
               chain_result *out);

/* Packed bytes of a layer of a kind. */
uint64_t chain_bytes(const chain *c, int kind);

#endif
