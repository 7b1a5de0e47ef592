/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to 8 bits, for host/quantize.c. nibblas.h has the formulas.
 */
#ifndef NIB_CPU_QUANTIZE_H
#define NIB_CPU_QUANTIZE_H

#include "kernels/kernel.h"

/* Rows row .. row + rows - 1 of a call; bits do not depend on the ISA that `load` is of. */
void nib_cpu_quantize_rows(const nib_act_quantizer_desc *desc, nib_cpu_load_fn load,
                           const nib_act_quantize_args *args, int64_t row, int64_t rows);

#endif
