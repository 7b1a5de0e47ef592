/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that lives as long as a module: handed out in pieces, freed at once.
 */
#ifndef SIM_CUDA_ARENA_H
#define SIM_CUDA_ARENA_H

#include <stddef.h>

typedef struct sim_arena {
    struct sim_chunk *chunks;
} sim_arena;

/* Zeroed bytes, aligned to 64; NULL when there are none. */
void *sim_arena_get(sim_arena *arena, size_t bytes);
char *sim_arena_text(sim_arena *arena, const char *text, size_t length);
void sim_arena_free(sim_arena *arena);

#endif
