/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout text to layout. nib_layout_make (rows.c) is the entrance for everybody else.
 */
#ifndef NIB_LAYOUT_TEXT_H
#define NIB_LAYOUT_TEXT_H

#include "layout/layout.h"

/* NIB_INVALID with the column and what is expected there. `out` is untouched on failure. */
nib_status nib_layout_parse(const char *text, nib_layout *out);

#endif
