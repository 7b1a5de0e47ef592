/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix's layout and places in numbers, as backend.h hands them to a device's conversion.
 */
#ifndef NIB_LAYOUT_MAP_H
#define NIB_LAYOUT_MAP_H

#include "layout/layout.h"

#include <nibblas/backend.h>

/* `matrix` may point to memory of any device. NIB_INVALID: its extents do not fit memory. */
nib_status nib_matrix_map_make(const nib_matrix *matrix, nib_matrix_map *out);

/* Whether writing a matrix leaves bytes between its first and its last alone. */
bool nib_layout_has_gaps(const nib_layout *layout);

#endif
