/* SPDX-License-Identifier: Apache-2.0
 *
 * Validation and canonical form: see desc.h. The text form is in desc_text.c.
 */
#include "config/desc.h"

#include "base/checked.h"
#include "base/hash.h"
#include "base/struct.h"
#include "config/dtype.h"

#include <inttypes.h>
#include <string.h>

/* Neither struct has had another version yet, so all of each is its first. */
#define WEIGHT_DESC_LEAST sizeof(nib_weight_desc)
#define GEMM_DESC_LEAST   sizeof(nib_gemm_desc)

int64_t nib_desc_groups(const nib_weight_desc *desc)
{
    return desc->group > 0 ? nib_ceil_div(desc->k, desc->group) : 1;
}

int64_t nib_desc_group_size(const nib_weight_desc *desc)
{
    return desc->group > 0 ? desc->group : desc->k;
}

int64_t nib_desc_scale_rows(const nib_weight_desc *desc)
{
    return desc->group == NIB_GROUP_TENSOR ? 1 : desc->n;
}

int32_t nib_desc_zero_bits(const nib_weight_desc *desc)
{
    if (desc->zero == NIB_ZERO_NONE)
        return 0;
    return nib_type_bits(desc->zero == NIB_ZERO_CODE ? desc->type : desc->zero_type);
}

int64_t nib_desc_out_cols(const nib_gemm_desc *desc)
{
    return desc->epilogue == NIB_EPILOGUE_SILU_GATED ? desc->weight.n / 2 : desc->weight.n;
}

static nib_status check_extents(const nib_weight_desc *d)
{
    int64_t product;
    if (d->n < 1)
        return nib_fail(NIB_INVALID, "n is %" PRId64 ", expected at least 1 output feature", d->n);
    if (d->k < 1)
        return nib_fail(NIB_INVALID, "k is %" PRId64 ", expected at least 1 input feature", d->k);
    /* 8 bytes an element is more than any array here needs, so sizes fit wherever they are summed.
     */
    if (!nib_mul_extent(d->n, d->k, &product) || !nib_mul_extent(product, 64, &product))
        return nib_fail(NIB_INVALID,
                        "n * k = %" PRId64 " * %" PRId64 " does not fit in 63 bits of size", d->n,
                        d->k);
    if (d->group < NIB_GROUP_ROW)
        return nib_fail(NIB_INVALID,
                        "group is %" PRId64
                        ", expected 1..k, NIB_GROUP_ROW (-1) or NIB_GROUP_TENSOR (0)",
                        d->group);
    if (d->group > d->k)
        return nib_fail(NIB_INVALID,
                        "group %" PRId64 " is larger than k = %" PRId64
                        ": use NIB_GROUP_ROW for one scale a row",
                        d->group, d->k);
    return NIB_OK;
}

static nib_status check_zeros(const nib_weight_desc *d)
{
    switch (d->zero) {
    case NIB_ZERO_NONE:
        if (d->zero_type)
            return nib_fail(NIB_INVALID, "zero_type is %s but there are no zeros: leave it none",
                            nib_type_name(d->zero_type));
        return NIB_OK;
    case NIB_ZERO_FLOAT:
    case NIB_ZERO_RESCALE:
        if (!nib_dtype_may(d->zero_type, NIB_MAY_ZERO))
            return nib_fail(NIB_INVALID, "zero_type is %s, expected f16, bf16 or f32",
                            nib_type_name(d->zero_type));
        break;
    case NIB_ZERO_CODE:
        if (d->zero_type)
            return nib_fail(NIB_INVALID,
                            "zero_type is %s, expected none: code zeros have the codes' bits",
                            nib_type_name(d->zero_type));
        if (d->type < NIB_U1 || d->type > NIB_U8)
            return nib_fail(NIB_INVALID, "code zeros need codes u1..u8, not %s",
                            nib_type_name(d->type));
        break;
    default:
        return nib_fail(NIB_INVALID, "zero is %d, expected a NIB_ZERO_ mode", d->zero);
    }
    if (!d->scale_type)
        return nib_fail(NIB_INVALID,
                        "zeros without scales: set scale_type, with scales of 1 if need be");
    return NIB_OK;
}

nib_status nib_weight_desc_check(const nib_weight_desc *desc, nib_weight_desc *out)
{
    nib_weight_desc d;
    if (!out)
        return nib_fail(NIB_INVALID, "the place for the weight description is NULL");
    nib_status status = nib_struct_read(&d, sizeof(d), desc, WEIGHT_DESC_LEAST, "nib_weight_desc");
    if (status)
        return status;
    if (!nib_dtype_may(d.type, NIB_MAY_WEIGHT))
        return nib_fail(NIB_INVALID,
                        "weight type is %s (%d), expected one of u1..u8, i1..i8, nf4, e2m1, "
                        "e4m3, e5m2, e3m2, e2m3, lut4",
                        nib_type_name(d.type), d.type);
    if (d.scale_type && !nib_dtype_may(d.scale_type, NIB_MAY_SCALE))
        return nib_fail(NIB_INVALID,
                        "scale_type is %s (%d), expected f16, bf16, f32, e8m0, e4m3 or none",
                        nib_type_name(d.scale_type), d.scale_type);
    if (d.flags & ~(uint32_t)NIB_WEIGHT_G_IDX)
        return nib_fail(NIB_INVALID, "weight flags 0x%x have bits that mean nothing", d.flags);
    for (int i = 0; i < 4; i++)
        if (d.reserved[i])
            return nib_fail(NIB_INVALID, "nib_weight_desc.reserved[%d] is not zero", i);
    status = check_extents(&d);
    if (!status)
        status = check_zeros(&d);
    if (status)
        return status;
    if (!out)
        return nib_fail(NIB_INVALID, "there is no place for the checked description");
    if (d.flags & NIB_WEIGHT_G_IDX && d.group <= 0)
        return nib_fail(NIB_INVALID, "g_idx needs groups along k: set group to 1..k");
    if (d.group == d.k && !(d.flags & NIB_WEIGHT_G_IDX))
        d.group = NIB_GROUP_ROW;
    if (!d.scale_type)
        d.group = NIB_GROUP_TENSOR;
    if (!d.scale_type && d.flags & NIB_WEIGHT_G_IDX)
        return nib_fail(NIB_INVALID, "g_idx without scales says nothing: clear NIB_WEIGHT_G_IDX");
    *out = d;
    return NIB_OK;
}

static nib_status check_accumulator(const nib_gemm_desc *d)
{
    switch (d->acc_type) {
    case NIB_F32:
        return NIB_OK;
    case NIB_F16:
        if (d->act_type != NIB_F16)
            return nib_fail(NIB_INVALID, "acc_type f16 goes with act_type f16, not %s",
                            nib_type_name(d->act_type));
        return NIB_OK;
    case NIB_I32:
        if (d->act_type != NIB_I8 || !nib_dtype_is_integer(d->weight.type))
            return nib_fail(NIB_INVALID,
                            "acc_type i32 needs i8 activations and integer codes, not %s x %s",
                            nib_type_name(d->act_type), nib_type_name(d->weight.type));
        if (d->weight.zero != NIB_ZERO_NONE)
            return nib_fail(NIB_INVALID,
                            "acc_type i32 goes with codes without zeros: use acc_type f32");
        return NIB_OK;
    default:
        return nib_fail(NIB_INVALID, "acc_type is %s (%d), expected f32, f16 or i32",
                        nib_type_name(d->acc_type), d->acc_type);
    }
}

static nib_status check_output(const nib_gemm_desc *d)
{
    if (!nib_dtype_may(d->out_type, NIB_MAY_OUT))
        return nib_fail(NIB_INVALID, "out_type is %s (%d), expected f16, bf16, f32 or i32",
                        nib_type_name(d->out_type), d->out_type);
    if (d->out_type == NIB_I32 && (d->acc_type != NIB_I32 || d->weight.scale_type || d->act_scale ||
                                   d->bias_type || d->epilogue))
        return nib_fail(NIB_INVALID,
                        "out_type i32 needs acc_type i32 and neither scales, act scales, bias "
                        "nor epilogue");
    if (d->bias_type && !nib_dtype_may(d->bias_type, NIB_MAY_BIAS))
        return nib_fail(NIB_INVALID, "bias_type is %s (%d), expected f16, bf16, f32 or none",
                        nib_type_name(d->bias_type), d->bias_type);
    if (d->epilogue < NIB_EPILOGUE_NONE || d->epilogue > NIB_EPILOGUE_SILU_GATED)
        return nib_fail(NIB_INVALID, "epilogue is %d, expected a NIB_EPILOGUE_ value", d->epilogue);
    if (d->epilogue == NIB_EPILOGUE_SILU_GATED && d->weight.n % 2)
        return nib_fail(NIB_INVALID, "the gated pair needs an even n, not %" PRId64, d->weight.n);
    return NIB_OK;
}

static nib_status check_activation(const nib_gemm_desc *d)
{
    bool wide = d->act_type == NIB_F32 || d->act_type == NIB_F16 || d->act_type == NIB_BF16;
    if (!nib_dtype_may(d->act_type, NIB_MAY_ACT))
        return nib_fail(NIB_INVALID,
                        "act_type is %s (%d), expected f32, f16, bf16, e4m3, e5m2 or i8",
                        nib_type_name(d->act_type), d->act_type);
    if (d->act_scale < NIB_ACT_SCALE_NONE || d->act_scale > NIB_ACT_SCALE_MX)
        return nib_fail(NIB_INVALID, "act_scale is %d, expected a NIB_ACT_SCALE_ value",
                        d->act_scale);
    if (d->act_scale == NIB_ACT_SCALE_MX && wide)
        return nib_fail(NIB_INVALID, "MX act scales go with e4m3, e5m2 or i8 activations, not %s",
                        nib_type_name(d->act_type));
    if (d->flags & NIB_GEMM_ACT_DYNAMIC_I8 && (!wide || d->acc_type != NIB_F32 || d->act_scale))
        return nib_fail(NIB_INVALID,
                        "NIB_GEMM_ACT_DYNAMIC_I8 needs f32, f16 or bf16 activations without "
                        "scales, and acc_type f32");
    return NIB_OK;
}

nib_status nib_gemm_desc_check(const nib_gemm_desc *desc, nib_gemm_desc *out)
{
    static const uint32_t known = NIB_GEMM_BATCH_INVARIANT | NIB_GEMM_ALLOW_NONDETERMINISTIC |
                                  NIB_GEMM_ACT_DYNAMIC_I8 | NIB_GEMM_EXACT_WEIGHTS;
    nib_gemm_desc d;
    if (!out)
        return nib_fail(NIB_INVALID, "the place for the gemm description is NULL");
    nib_status status = nib_struct_read(&d, sizeof(d), desc, GEMM_DESC_LEAST, "nib_gemm_desc");
    if (!status)
        status = nib_weight_desc_check(&d.weight, &d.weight);
    if (status)
        return status;
    for (int i = 0; i < 4; i++)
        if (d.reserved[i])
            return nib_fail(NIB_INVALID, "nib_gemm_desc.reserved[%d] is not zero", i);
    if (d.flags & ~known)
        return nib_fail(NIB_INVALID, "gemm flags 0x%x have bits that mean nothing", d.flags);
    if (!d.acc_type)
        d.acc_type = NIB_F32;
    if (!d.out_type)
        d.out_type = nib_dtype_may(d.act_type, NIB_MAY_OUT) ? d.act_type : NIB_F32;
    status = check_activation(&d);
    if (!status)
        status = check_accumulator(&d);
    if (!status)
        status = check_output(&d);
    if (!status && !out)
        status = nib_fail(NIB_INVALID, "there is no place for the checked description");
    if (!status)
        *out = d;
    return status;
}

nib_status nib_weight_desc_bytes(const nib_weight_desc *desc, size_t *codes, size_t *scales,
                                 size_t *zeros, int64_t *groups)
{
    nib_weight_desc d;
    nib_status status = nib_weight_desc_check(desc, &d);
    if (status)
        return status;
    int64_t values = nib_desc_scale_rows(&d) * nib_desc_groups(&d);
    int32_t zero_bits = d.zero == NIB_ZERO_CODE ? 8 : nib_desc_zero_bits(&d);
    if (codes)
        *codes = (size_t)(d.n * nib_ceil_div(d.k * nib_type_bits(d.type), 8));
    if (scales)
        *scales = (size_t)(values * nib_type_bits(d.scale_type) / 8);
    if (zeros)
        *zeros = (size_t)(values * zero_bits / 8);
    if (groups)
        *groups = nib_desc_groups(&d);
    return NIB_OK;
}

uint64_t nib_weight_desc_hash(const nib_weight_desc *desc)
{
    char line[NIB_DESC_LINE_BYTES];
    nib_weight_desc_print(desc, line, sizeof(line), NULL);
    return nib_hash_text(line);
}

uint64_t nib_gemm_desc_hash(const nib_gemm_desc *desc)
{
    char line[NIB_DESC_LINE_BYTES];
    nib_gemm_desc_print(desc, line, sizeof(line), NULL);
    return nib_hash_text(line);
}

bool nib_weight_desc_equal(const nib_weight_desc *a, const nib_weight_desc *b)
{
    return !memcmp(a, b, sizeof(*a));
}
