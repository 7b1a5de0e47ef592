/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing array of bytes in little-endian order, for synthetic.c. A failure to grow is kept:
 * later writes do nothing, and whoever finishes looks once.
 */
#ifndef LLAMA_BYTES_H
#define LLAMA_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct llama_bytes {
    unsigned char *data;
    size_t count, capacity;
    bool failed;
} llama_bytes;

void llama_bytes_free(llama_bytes *bytes);
/* Room for `count` bytes at the end, zeroed; NULL after a failure. Lasts until the next write. */
unsigned char *llama_bytes_grow(llama_bytes *bytes, size_t count);
/* The lowest `width` bytes of value. */
void llama_bytes_int(llama_bytes *bytes, uint64_t value, int width);
/* A GGUF string: length, then bytes. */
void llama_bytes_string(llama_bytes *bytes, const char *text);
void llama_bytes_align(llama_bytes *bytes, size_t alignment);

#endif
