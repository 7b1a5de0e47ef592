/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of launches, remembered: a family may search for the best split of K, which takes longer
 * than a launch may. A run must neither wait nor allocate, so each device has a table of slots that
 * are read and written without locks: a slot's count is odd while it is being written, and whoever
 * meets that, or sees it change, computes the shape itself.
 */
#include "host/host.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 256 };

/* What a shape depends on, and the shape; copied word by word. */
typedef struct entry {
    const nib_cuda_row *row;
    int64_t m;
    nib_gemm_desc desc;
    nib_cuda_shape shape;
} entry;

enum { WORDS = (sizeof(entry) + 7) / 8 };

typedef struct slot {
    atomic_uint_fast64_t count;
    atomic_uint_fast64_t words[WORDS];
} slot;

struct nib_cuda_shapes {
    slot slots[SLOTS];
};

nib_cuda_shapes *nib_cuda_shapes_create(void)
{
    return calloc(1, sizeof(nib_cuda_shapes));
}

static slot *slot_of(const nib_cuda_device *device, const entry *key)
{
    uint64_t hash = (uint64_t)key->m * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (uint64_t)key->desc.weight.n) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (uint64_t)key->desc.weight.k) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (uint64_t)(uintptr_t)key->row) * 0x9e3779b97f4a7c15u;
    return &device->shapes->slots[hash >> 32 & (SLOTS - 1)];
}

static bool read_slot(slot *from, entry *out)
{
    uint64_t words[WORDS];
    uint64_t count = atomic_load_explicit(&from->count, memory_order_acquire);
    if (!count || count & 1)
        return false;
    for (int i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&from->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire); /* the words are read before the count again */
    memcpy(out, words, sizeof(*out));
    return atomic_load_explicit(&from->count, memory_order_relaxed) == count;
}

static void write_slot(slot *to, const entry *what)
{
    uint64_t words[WORDS] = {0};
    uint_fast64_t count = atomic_load_explicit(&to->count, memory_order_relaxed);
    if (count & 1 || !atomic_compare_exchange_strong_explicit(
                         &to->count, &count, count + 1, memory_order_acquire, memory_order_relaxed))
        return;
    memcpy(words, what, sizeof(*what));
    atomic_thread_fence(memory_order_release); /* the odd count is seen before any new word */
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&to->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&to->count, count + 2, memory_order_release);
}

void nib_cuda_shape_find(const nib_cuda_device *device, const nib_cuda_row *row,
                         const nib_gemm_desc *desc, int64_t m, nib_cuda_shape *out)
{
    entry key = {.row = row, .m = m, .desc = *desc}, found;
    slot *place = slot_of(device, &key);
    if (read_slot(place, &found) && found.row == row && found.m == m &&
        !memcmp(&found.desc, desc, sizeof(*desc))) {
        *out = found.shape;
        return;
    }
    row->family->shape(row, &device->chip, desc, m, &key.shape);
    write_slot(place, &key);
    *out = key.shape;
}
