/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of floats as GGUF tensor data, for the synthetic model.
 */
#ifndef LLAMA_BLOCKS_H
#define LLAMA_BLOCKS_H

#include "bytes.h"

#define LLAMA_BLOCK 32 /* elements of a quantised block */

/* GGUF's own numbers. */
typedef enum llama_gguf_type {
    LLAMA_GGUF_F32 = 0,
    LLAMA_GGUF_F16 = 1,
    LLAMA_GGUF_Q4_0 = 2,
    LLAMA_GGUF_Q4_1 = 3,
    LLAMA_GGUF_Q8_0 = 8
} llama_gguf_type;

/* Appends values, a multiple of LLAMA_BLOCK of them for the quantised types. */
void llama_blocks_write(llama_bytes *bytes, llama_gguf_type type, const float *values,
                        int64_t count);
/* Bytes that llama_blocks_write appends. */
size_t llama_blocks_bytes(llama_gguf_type type, int64_t count);

#endif
