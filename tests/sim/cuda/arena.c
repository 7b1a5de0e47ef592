/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that lives as long as a module: see arena.h.
 */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct sim_chunk {
    struct sim_chunk *next;
    size_t used, bytes;
};

enum { ALIGN = 64, HEADER = 64, CHUNK = 1 << 18 };

void *sim_arena_get(sim_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct sim_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        const size_t room = HEADER + (bytes > CHUNK ? bytes : CHUNK);
        chunk = aligned_alloc(ALIGN, room);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->next = arena->chunks;
        chunk->used = HEADER;
        chunk->bytes = room;
        arena->chunks = chunk;
    }
    void *piece = (uint8_t *)chunk + chunk->used;
    chunk->used += bytes;
    memset(piece, 0, bytes);
    return piece;
}

char *sim_arena_text(sim_arena *arena, const char *text, size_t length)
{
    char *copy = sim_arena_get(arena, length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

void sim_arena_free(sim_arena *arena)
{
    while (arena->chunks != NULL) {
        struct sim_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}
