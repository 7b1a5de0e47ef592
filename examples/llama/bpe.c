/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging with a heap, so that a word of n bytes takes n log n steps: a single word can
 * be a megabyte of one letter.
 */
#include "bpe.h"

#include "error.h"

#include <stdbool.h>
#include <stdlib.h>

/* A piece of the word, in a list in text order. */
typedef struct symbol {
    int32_t id;             /* -2: merged into its left neighbour */
    int64_t previous, next; /* -1: none */
} symbol;

/* A possible merge; stale when its symbols are no longer those that it names. */
typedef struct candidate {
    int32_t rank;
    int32_t left_id, right_id, result;
    int64_t left;
} candidate;

typedef struct heap {
    candidate *items;
    int64_t count;
} heap;

static size_t slot_of(const llama_merges *merges, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio spreads neighbours */
    return (size_t)(key >> 32) & merges->mask;
}

nib_status llama_merges_create(int64_t count, llama_merges *out)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)count)
        slots *= 2;
    llama_merge *memory = malloc(slots * sizeof *memory);
    if (!memory)
        return llama_fail(NIB_NO_MEMORY, "no memory for %lld merges", (long long)count);
    for (size_t i = 0; i < slots; i++)
        memory[i].left = -1;
    *out = (llama_merges){.slots = memory, .mask = slots - 1};
    return NIB_OK;
}

void llama_merges_free(llama_merges *merges)
{
    free(merges->slots);
    *merges = (llama_merges){0};
}

void llama_merges_add(llama_merges *merges, llama_merge merge)
{
    if (llama_merges_find(merges, merge.left, merge.right))
        return;
    size_t slot = slot_of(merges, merge.left, merge.right);
    while (merges->slots[slot].left >= 0)
        slot = (slot + 1) & merges->mask;
    merges->slots[slot] = merge;
}

const llama_merge *llama_merges_find(const llama_merges *merges, int32_t left, int32_t right)
{
    if (left < 0 || right < 0)
        return NULL;
    size_t slot = slot_of(merges, left, right);
    for (; merges->slots[slot].left >= 0; slot = (slot + 1) & merges->mask) {
        const llama_merge *merge = &merges->slots[slot];
        if (merge->left == left && merge->right == right)
            return merge;
    }
    return NULL;
}

static bool before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(heap *h, candidate item)
{
    int64_t at = h->count++;
    while (at > 0 && before(&item, &h->items[(at - 1) / 2])) {
        h->items[at] = h->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->items[at] = item;
}

static candidate heap_pop(heap *h)
{
    candidate top = h->items[0], last = h->items[--h->count];
    int64_t at = 0;
    for (int64_t child = 1; child < h->count; child = 2 * at + 1) {
        if (child + 1 < h->count && before(&h->items[child + 1], &h->items[child]))
            child++;
        if (!before(&h->items[child], &last))
            break;
        h->items[at] = h->items[child];
        at = child;
    }
    h->items[at] = last;
    return top;
}

static void consider(const llama_merges *merges, heap *h, const symbol *symbols, int64_t left)
{
    if (left < 0 || symbols[left].next < 0)
        return;
    int32_t left_id = symbols[left].id, right_id = symbols[symbols[left].next].id;
    const llama_merge *merge = llama_merges_find(merges, left_id, right_id);
    if (merge)
        heap_push(h, (candidate){merge->rank, left_id, right_id, merge->result, left});
}

static void merge_all(const llama_merges *merges, heap *h, symbol *symbols)
{
    while (h->count > 0) {
        candidate best = heap_pop(h);
        symbol *left = &symbols[best.left];
        if (left->id != best.left_id || left->next < 0 || symbols[left->next].id != best.right_id)
            continue;
        symbol *right = &symbols[left->next];
        left->id = best.result;
        left->next = right->next;
        right->id = -2;
        if (left->next >= 0)
            symbols[left->next].previous = best.left;
        consider(merges, h, symbols, left->previous);
        consider(merges, h, symbols, best.left);
    }
}

nib_status llama_bpe_word(const llama_merges *merges, const int32_t *bytes, int64_t count,
                          llama_tokens *out)
{
    nib_status status = NIB_OK;
    if (count <= 0)
        return NIB_OK;
    /* count - 1 candidates at first; each of at most count - 1 merges takes one away and adds two
     */
    symbol *symbols = malloc((size_t)count * sizeof *symbols);
    heap h = {.items = malloc(2 * (size_t)count * sizeof *h.items)};
    if (!symbols || !h.items) {
        status = llama_fail(NIB_NO_MEMORY, "no memory for a word of %lld bytes", (long long)count);
        goto fail;
    }
    for (int64_t i = 0; i < count; i++)
        symbols[i] = (symbol){bytes[i], i - 1, i + 1 < count ? i + 1 : -1};
    for (int64_t i = 0; i + 1 < count; i++)
        consider(merges, &h, symbols, i);
    merge_all(merges, &h, symbols);
    for (int64_t i = 0; i >= 0 && status == NIB_OK; i = symbols[i].next)
        if (symbols[i].id >= 0)
            status = llama_tokens_add(out, symbols[i].id);
fail:
    free(symbols);
    free(h.items);
    return status;
}
