/* SPDX-License-Identifier: Apache-2.0
 *
 * ggml's tensor types by number: a new one is a row, and a decoding function in element.c. Rows
 * without one are known by size, so that files with such tensors open and list.
 */
#include "formats/gguf.h"

#include <stddef.h>

/* q = code - 8, w = q * d. */
static const nib_block_weights q4_0 = {.type = NIB_I4,
                                       .scale_type = NIB_F16,
                                       .layout = "gguf-q4_0",
                                       .scale_layout = "gguf-q4_0-scales"};
/* w = q * d + m: rescale with z = -m. */
static const nib_block_weights q4_1 = {.type = NIB_U4,
                                       .scale_type = NIB_F16,
                                       .zero = NIB_ZERO_RESCALE,
                                       .zero_type = NIB_F16,
                                       .source_flags = NIB_SOURCE_NEGATE_ZEROS,
                                       .layout = "gguf-q4_1",
                                       .scale_layout = "gguf-q4_1-scales",
                                       .zero_layout = "gguf-q4_1-mins"};
static const nib_block_weights q8_0 = {.type = NIB_I8,
                                       .scale_type = NIB_F16,
                                       .layout = "gguf-q8_0",
                                       .scale_layout = "gguf-q8_0-scales"};

/* clang-format off */
/*   number   name       type      block bytes  read               weights */
static const nib_element elements[] = {
    [0]  = {"F32",      NIB_F32,       1,   4, nib_element_f32,   NULL},
    [1]  = {"F16",      NIB_F16,       1,   2, nib_element_f16,   NULL},
    [2]  = {"Q4_0",     NIB_TYPE_NONE, 32,  18, nib_element_q4_0,  &q4_0},
    [3]  = {"Q4_1",     NIB_TYPE_NONE, 32,  20, nib_element_q4_1,  &q4_1},
    [6]  = {"Q5_0",     NIB_TYPE_NONE, 32,  22, nib_element_q5_0,  NULL},
    [7]  = {"Q5_1",     NIB_TYPE_NONE, 32,  24, nib_element_q5_1,  NULL},
    [8]  = {"Q8_0",     NIB_TYPE_NONE, 32,  34, nib_element_q8_0,  &q8_0},
    [9]  = {"Q8_1",     NIB_TYPE_NONE, 32,  36, NULL,              NULL},
    [10] = {"Q2_K",     NIB_TYPE_NONE, 256, 84, NULL,              NULL},
    [11] = {"Q3_K",     NIB_TYPE_NONE, 256, 110, NULL,             NULL},
    [12] = {"Q4_K",     NIB_TYPE_NONE, 256, 144, NULL,             NULL},
    [13] = {"Q5_K",     NIB_TYPE_NONE, 256, 176, NULL,             NULL},
    [14] = {"Q6_K",     NIB_TYPE_NONE, 256, 210, NULL,             NULL},
    [15] = {"Q8_K",     NIB_TYPE_NONE, 256, 292, NULL,             NULL},
    [16] = {"IQ2_XXS",  NIB_TYPE_NONE, 256, 66, NULL,              NULL},
    [17] = {"IQ2_XS",   NIB_TYPE_NONE, 256, 74, NULL,              NULL},
    [18] = {"IQ3_XXS",  NIB_TYPE_NONE, 256, 98, NULL,              NULL},
    [19] = {"IQ1_S",    NIB_TYPE_NONE, 256, 50, NULL,              NULL},
    [20] = {"IQ4_NL",   NIB_TYPE_NONE, 32,  18, NULL,              NULL},
    [21] = {"IQ3_S",    NIB_TYPE_NONE, 256, 110, NULL,             NULL},
    [22] = {"IQ2_S",    NIB_TYPE_NONE, 256, 82, NULL,              NULL},
    [23] = {"IQ4_XS",   NIB_TYPE_NONE, 256, 136, NULL,             NULL},
    [24] = {"I8",       NIB_I8,        1,   1, nib_element_i8,     NULL},
    [25] = {"I16",      NIB_TYPE_NONE, 1,   2, nib_element_i16,    NULL},
    [26] = {"I32",      NIB_I32,       1,   4, nib_element_i32,    NULL},
    [27] = {"I64",      NIB_TYPE_NONE, 1,   8, nib_element_i64,    NULL},
    [28] = {"F64",      NIB_TYPE_NONE, 1,   8, nib_element_f64,    NULL},
    [29] = {"IQ1_M",    NIB_TYPE_NONE, 256, 56, NULL,              NULL},
    [30] = {"BF16",     NIB_BF16,      1,   2, nib_element_bf16,   NULL},
    [34] = {"TQ1_0",    NIB_TYPE_NONE, 256, 54, NULL,              NULL},
    [35] = {"TQ2_0",    NIB_TYPE_NONE, 256, 66, NULL,              NULL},
    [39] = {"MXFP4",    NIB_TYPE_NONE, 32,  17, nib_element_mxfp4, NULL},
};
/* clang-format on */

const nib_element *nib_gguf_element(uint32_t type)
{
    if (type >= sizeof(elements) / sizeof(elements[0]) || !elements[type].name)
        return NULL;
    return &elements[type];
}
