/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor types of GGUF: gguf_types.c.
 */
#ifndef NIB_FORMATS_GGUF_H
#define NIB_FORMATS_GGUF_H

#include "formats/element.h"

/* The row of a type number, NULL if the number names none. */
const nib_element *nib_gguf_element(uint32_t type);

#endif
