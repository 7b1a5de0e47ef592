/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a few lines of PTX: see bench.h.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] =
    ".version 9.0\n.target sm_%u\n.address_size 64\n%s\n"
    ".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n%s\n{\n"
    ".reg .b32 %%r<40>, %%t; .reg .b16 %%rs<20>; .reg .b64 %%x<20>, %%a<8>, %%d<8>, %%in, %%out;\n"
    ".reg .f32 %%f<20>; .reg .f64 %%fd<8>; .reg .pred %%p<20>;\n"
    "ld.param.u64 %%in, [k_param_0];\nld.param.u64 %%out, [k_param_1];\n"
    "mov.u32 %%t, %%tid.x;\n"
    "mad.wide.u32 %%in, %%t, 64, %%in;\nmad.wide.u32 %%out, %%t, 64, %%out;\n"
    "mov.b64 %%d0, 0; mov.b64 %%d1, 0; mov.b64 %%d2, 0; mov.b64 %%d3, 0;\n"
    "mov.b64 %%d4, 0; mov.b64 %%d5, 0; mov.b64 %%d6, 0; mov.b64 %%d7, 0;\n"
    "ld.global.v2.b64 {%%a0, %%a1}, [%%in];\nld.global.v2.b64 {%%a2, %%a3}, [%%in+16];\n"
    "ld.global.v2.b64 {%%a4, %%a5}, [%%in+32];\nld.global.v2.b64 {%%a6, %%a7}, [%%in+48];\n";
static const char tail[] =
    "\n$end:\nst.global.v2.b64 [%out], {%d0, %d1};\nst.global.v2.b64 [%out+16], {%d2, %d3};\n"
    "st.global.v2.b64 [%out+32], {%d4, %d5};\nst.global.v2.b64 [%out+48], {%d6, %d7};\nret;\n}\n";

uint64_t bench_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

void bench_start(bench *b, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    memset(b, 0, sizeof *b);
    b->threads = 128;
    b->blocks = 1;
    b->capability = 90;
    b->seed = seed;
    for (int i = 0; i < BENCH_THREADS; ++i) {
        for (int j = 0; j < BENCH_WORDS; ++j) {
            b->in[i][j] = bench_random(&state);
        }
    }
    memset(b->out, 0xaa, sizeof b->out);
}

static bool find(void *user, uint64_t address, sim_range *range)
{
    bench *b = user;
    uint8_t *const part[] = {(uint8_t *)b->in, (uint8_t *)b->out};
    for (int i = 0; i < 2; ++i) {
        const uint64_t start = (uint64_t)(uintptr_t)part[i];
        const uint64_t bytes = (uint64_t)b->threads * sizeof b->in[0];
        if (address >= start && address - start < bytes) {
            *range = (sim_range){.address = start, .bytes = bytes, .host = part[i]};
            return true;
        }
    }
    return false;
}

bool bench_run(bench *b, const char *body)
{
    const char *globals = b->globals != NULL ? b->globals : "";
    const char *limits = b->limits != NULL ? b->limits : "";
    const size_t room =
        sizeof head + strlen(globals) + strlen(limits) + strlen(body) + sizeof tail + 16;
    char *text = malloc(room);
    bool fine = false;
    if (text == NULL) {
        return false;
    }
    snprintf(text, room, head, b->capability, globals, limits);
    strcat(text, body);
    strcat(text, tail);
    sim_module *module = sim_module_load(text, b->capability, b->log, sizeof b->log);
    if (module != NULL) {
        uint64_t params[2] = {(uint64_t)(uintptr_t)b->in, (uint64_t)(uintptr_t)b->out};
        const sim_config config = {
            .grid = {b->blocks, 1, 1},
            .block = {b->threads, 1, 1},
            .cluster = {b->cluster, b->cluster != 0, b->cluster != 0},
            .dynamic_shared = b->dynamic_shared,
            .params = params,
            .param_bytes = sizeof params,
            .capability = b->capability,
            .memory = {find, b},
            .options = {.seed = b->seed, .delay = b->delay, .limit = 2000000}};
        fine = sim_launch(sim_function_find(module, "k"), &config, &b->report);
    }
    sim_module_destroy(module);
    free(text);
    return fine;
}
