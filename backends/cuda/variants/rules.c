/* SPDX-License-Identifier: Apache-2.0
 *
 * What a description means to the kernels: see rules.h.
 */
#include "variants/rules.h"

int64_t nib_cuda_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

bool nib_cuda_is_integer(nib_type type)
{
    return (type >= NIB_U1 && type <= NIB_U8) || (type >= NIB_I1 && type <= NIB_I8);
}

bool nib_cuda_is_table(nib_type type)
{
    return type == NIB_NF4 || type == NIB_LUT4;
}

int nib_cuda_type_bits(nib_type type)
{
    if (nib_cuda_is_integer(type))
        return type - (type >= NIB_I1 ? NIB_I1 : NIB_U1) + 1;
    switch (type) {
    case NIB_TYPE_NONE:
        return 0;
    case NIB_F32:
    case NIB_I32:
        return 32;
    case NIB_F16:
    case NIB_BF16:
        return 16;
    case NIB_NF4:
    case NIB_E2M1:
    case NIB_LUT4:
        return 4;
    case NIB_E3M2:
    case NIB_E2M3:
        return 6;
    default:
        return 8;
    }
}

int nib_cuda_element_bytes(nib_type type)
{
    return (nib_cuda_type_bits(type) + 7) / 8;
}

int nib_cuda_group_class(const nib_weight_desc *weight)
{
    if (weight->group <= 0)
        return 0;
    for (int multiple = 128; multiple > 16; multiple /= 2)
        if (weight->group % multiple == 0)
            return multiple;
    return 16;
}

bool nib_cuda_multiplies_integers(const nib_gemm_desc *desc)
{
    return desc->act_type == NIB_I8 && nib_cuda_is_integer(desc->weight.type);
}

int nib_cuda_limbs(const nib_gemm_desc *desc)
{
    return !nib_cuda_is_table(desc->weight.type) ? 1 : desc->act_type == NIB_BF16 ? 3 : 2;
}

bool nib_cuda_gated(const nib_gemm_desc *desc)
{
    return desc->epilogue == NIB_EPILOGUE_SILU_GATED;
}
