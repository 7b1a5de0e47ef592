/* SPDX-License-Identifier: Apache-2.0
 *
 * The PTX interpreter's interface: load a module's text, look up kernels and variables, launch. The
 * fake libcuda of this folder and the interpreter's own tests call it; it knows nothing of the
 * driver API. Where next: module.c (text to instructions), launch.c (grids), schedule.c (warps).
 *
 * A module may be launched from several threads at once; loading and destroying are the caller's to
 * order. Nothing here aborts, prints or exits: what went wrong is text in a log or a report.
 */
#ifndef SIM_CUDA_SIM_H
#define SIM_CUDA_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sim_module sim_module;
typedef struct sim_function sim_function;

/* Parses and decodes PTX text (need not be kept). NULL on failure, with a sentence naming the line
 * in log[log_bytes] (log may be NULL). capability: 10 * major + minor of the chip that is to run
 * it; text whose .target that chip cannot run is refused. */
sim_module *sim_module_load(const char *text, unsigned capability, char *log, size_t log_bytes);
void sim_module_destroy(sim_module *module); /* NULL is harmless */

/* The entry of that name, or NULL. It lives as long as the module. */
const sim_function *sim_function_find(const sim_module *module, const char *name);
/* Entries in the order of the text; NULL from the first index beyond the last. */
const sim_function *sim_function_at(const sim_module *module, size_t index);

/* A .global or .const variable. Its address is the host pointer to its bytes, in kernels as well.
 * False when there is none of that name. */
bool sim_module_variable(const sim_module *module, const char *name, uint64_t *address,
                         size_t *bytes);

typedef struct sim_param {
    size_t offset, bytes, align; /* in the kernel's parameter block */
} sim_param;

typedef struct sim_function_info {
    const char *name;
    unsigned ptx_version;         /* 10 * major + minor of .version */
    unsigned target;              /* 80 of .target sm_80 */
    unsigned max_threads;         /* a block: of .maxntid or .reqntid, else 1024 */
    unsigned required_block[3];   /* .reqntid, or zeros */
    unsigned required_cluster[3]; /* .reqnctapercluster, or zeros */
    unsigned registers;           /* declared 32-bit registers a thread, 255 at most: a guess */
    size_t static_shared;         /* bytes */
    size_t local;                 /* bytes a thread */
    size_t param_bytes;           /* of the parameter block */
    size_t params;
    const sim_param *param; /* [params] */
} sim_function_info;

const sim_function_info *sim_function_describe(const sim_function *function);

/* Global memory as kernels see it: the allocation around an address. */
typedef struct sim_range {
    uint64_t address, bytes; /* of the whole allocation */
    uint8_t *host;           /* its first byte */
    /* [bytes / 4, rounded up] number of the launch that wrote and read each word last; NULL: not
     * kept. */
    uint32_t *written, *read;
} sim_range;

typedef struct sim_memory {
    /* True and *range when address lies in an allocation. It must stay so during the launch. Called
     * from every thread of the launch. */
    bool (*find)(void *user, uint64_t address, sim_range *range);
    void *user;
} sim_memory;

/* When asynchronous copies land. */
enum sim_delay {
    SIM_DELAY_LAZY,   /* only when something waits for them */
    SIM_DELAY_RANDOM, /* at a seeded random moment until then */
};

typedef struct sim_options {
    uint64_t seed; /* of the order of warps and blocks, slices, delays */
    enum sim_delay delay;
    bool no_races;     /* do not look for races in shared memory */
    bool no_registers; /* do not report reads of registers that were never written */
    unsigned threads;  /* of the host, for independent blocks; 0 and 1: the caller's */
    uint64_t limit;    /* warp instructions of a block before it counts as hung; 0: 4e9 */
} sim_options;

/* Launches that are under way together, by griddepcontrol: numbers of those that may still write
 * and read while this one runs, until one of its threads has waited and after that. */
typedef struct sim_overlap {
    uint32_t number; /* this launch's, not 0 */
    const uint32_t *before, *behind;
    uint32_t befores, behinds;
} sim_overlap;

typedef struct sim_config {
    uint32_t grid[3], block[3];
    uint32_t cluster[3];     /* zeros: as the function requires, else 1 */
    uint32_t dynamic_shared; /* bytes */
    const void *params;      /* the parameter block, laid out as sim_function_info says */
    size_t param_bytes;
    unsigned capability; /* 80, 86, 89, 90, ... */
    size_t shared_limit; /* static and dynamic bytes a block; 0: as the capability allows */
    sim_memory memory;
    sim_overlap overlap; /* zeros: nothing else is under way */
    sim_options options;
} sim_config;

enum sim_fault {
    SIM_OK,
    SIM_INVALID,  /* the configuration: nothing ran */
    SIM_MEMORY,   /* out of bounds, misaligned, or no such space */
    SIM_UNSET,    /* read of memory or a register that was never written */
    SIM_RACE,     /* shared memory, between warps; global memory, between launches */
    SIM_DIVERGED, /* a collective without all of its lanes */
    SIM_DEADLOCK,
    SIM_UNKNOWN, /* an instruction, or a form of one, that is not modelled */
    SIM_TRAP,    /* trap, or a device assertion */
    SIM_LIMIT,   /* more instructions than the limit */
    SIM_HOST,    /* out of memory here */
};

/* What a launch did. text: empty, or the first fault, with kernel, block, warp, lane and PTX line.
 */
typedef struct sim_report {
    enum sim_fault fault;
    uint64_t warp_instructions, lane_instructions, macs; /* macs: of matrix instructions */
    bool waited;                                         /* some thread ran griddepcontrol.wait */
    char text[2000];
} sim_report;

/* Runs a grid to its end. True when nothing went wrong; else memory is as the fault left it. */
bool sim_launch(const sim_function *function, const sim_config *config, sim_report *report);

const char *sim_fault_name(enum sim_fault fault);

#ifdef __cplusplus
}
#endif
#endif
