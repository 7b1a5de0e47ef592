/* SPDX-License-Identifier: Apache-2.0
 *
 * The sm_80 decode family has no rows yet: the general one serves.
 */
#include "variants/variants.h"

#include <stddef.h>

const nib_cuda_row nib_cuda_sm80_decode_rows[] = {{.variant = {.id = NULL}}};
