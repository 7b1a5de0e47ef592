/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of sim-calibrate share: calibrate.c (the program), calibrate_groups.c (products of
 * warpgroups). Whatever goes wrong ends the program.
 */
#ifndef SIM_CALIBRATE_H
#define SIM_CALIBRATE_H

#include "cuda/driver/api.h"
#include "support/random.h"

#include <stdio.h>

#undef WORD
/* What a word of operands or results holds. */
typedef enum number { WORD, F16, BF16, F32, E4M3, E5M2 } number;

typedef struct driver {
    __typeof__(cuMemAlloc_v2) *alloc;
    __typeof__(cuMemFree_v2) *release;
    __typeof__(cuMemcpyHtoD_v2) *up;
    __typeof__(cuMemcpyDtoH_v2) *down;
    __typeof__(cuModuleLoadData) *load;
    __typeof__(cuModuleGetFunction) *function;
    __typeof__(cuLaunchKernel) *launch;
    __typeof__(cuCtxSynchronize) *synchronize;
    __typeof__(cuDeviceGetAttribute) *attribute;
    CUmodule module;
} driver;

_Noreturn void calibrate_fail(const char *what, int code);
CUdeviceptr calibrate_upload(const driver *d, const void *data, size_t bytes);
/* The module's kernel of that name, to its end. */
void calibrate_run(const driver *d, const char *name, unsigned blocks, unsigned threads,
                   void **params);
/* A word of the kind, with exponents that spread so far. */
uint32_t calibrate_operand(test_random *random, number kind, int spread);
/* A record of the output. */
void calibrate_put(FILE *file, const char *name, number kind, const void *data, size_t bytes);

/* wgmma, where the device has it. */
void calibrate_groups(driver *d, FILE *file);

#endif
