/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts that follow from a description: see shape.h.
 */
#include "kernels/common/shape.h"

#include "kernels/common/convert.h"

#include <math.h>

/* Planes of each width, widest first: 7 = 4 + 2 + 1. */
static int split_planes(int bits, int32_t plane_bits[NIB_MAX_PLANES])
{
    int planes = 0;
    for (int width = 8; width; width /= 2)
        if (bits & width)
            plane_bits[planes++] = width;
    return planes;
}

static nib_cpu_rule rule_of(nib_zero zero)
{
    switch (zero) {
    case NIB_ZERO_FLOAT:
    case NIB_ZERO_CODE:
        return NIB_CPU_SHIFT;
    case NIB_ZERO_RESCALE:
        return NIB_CPU_RESCALE;
    default:
        return NIB_CPU_SCALE;
    }
}

static void find_operand(nib_cpu_shape *shape)
{
    nib_type type = shape->desc.weight.type;
    shape->operand_unit = 1;
    if (type == NIB_U1 || type == NIB_U2 || type == NIB_U4 || type == NIB_U8) {
        shape->operand = NIB_CPU_OPERAND_FIELD;
    } else if (type == NIB_I2 || type == NIB_I4) {
        shape->operand = NIB_CPU_OPERAND_FIELD;
        shape->operand_offset = 1 << (shape->bits - 1);
    } else if (type == NIB_I8) {
        shape->operand = NIB_CPU_OPERAND_FLIP;
        shape->operand_offset = 128;
    } else if (type == NIB_E2M1) {
        shape->operand = NIB_CPU_OPERAND_TABLE;
        shape->operand_offset = 12;
        shape->operand_unit = 0.5f;
    }
}

void nib_cpu_shape_make(const nib_host_api *host, const nib_gemm_desc *desc, nib_cpu_shape *shape)
{
    const nib_weight_desc *w = &desc->weight;
    *shape = (nib_cpu_shape){.desc = *desc, .n = w->n, .k = w->k};
    shape->n_tiles = nib_cpu_ceil_div(w->n, NIB_CPU_LANES);
    shape->group = w->group > 0 ? w->group : w->k;
    shape->groups = nib_cpu_ceil_div(w->k, shape->group);
    shape->bits = host->type_bits(w->type);
    shape->planes = split_planes(shape->bits, shape->plane_bits);
    shape->unit = 32 / shape->plane_bits[0];
    shape->units = nib_cpu_ceil_div(w->k, shape->unit);
    for (int p = 0; p < shape->planes; p++)
        shape->tile_bytes[p] =
            (uint64_t)nib_cpu_ceil_div(w->k, 32 / shape->plane_bits[p]) * NIB_CPU_TILE_BYTES;
    shape->scale_bytes = w->scale_type ? host->type_bits(w->scale_type) / 8 : 0;
    if (w->zero)
        shape->zero_bytes = w->zero == NIB_ZERO_CODE ? 1 : host->type_bits(w->zero_type) / 8;
    shape->per_tensor = w->group == NIB_GROUP_TENSOR;
    shape->rule = rule_of(w->zero);
    shape->values = host->decode_table(w->type);
    shape->e4m3 = host->decode_table(NIB_E4M3);
    shape->e5m2 = host->decode_table(NIB_E5M2);
    shape->e8m0 = host->decode_table(NIB_E8M0);
    find_operand(shape);
}

void nib_cpu_codes_at(const nib_cpu_run *run, int64_t n_tile, nib_cpu_codes *codes)
{
    const nib_cpu_shape *shape = run->shape;
    for (int p = 0; p < shape->planes; p++)
        codes->plane[p] =
            (const unsigned char *)run->weights->codes[p] + (uint64_t)n_tile * shape->tile_bytes[p];
    codes->values = run->values;
    codes->rule = shape->rule;
    codes->bits = shape->bits;
}

/* Element `index` of an array of scales or zeros. */
static float element(const nib_cpu_shape *shape, nib_type type, const void *array, int64_t index)
{
    const unsigned char *bytes = array;
    switch (type) {
    case NIB_F32:
        return nib_cpu_f32_at(array, index);
    case NIB_F16:
        return nib_cpu_from_f16(nib_cpu_u16_at(array, index));
    case NIB_BF16:
        return nib_cpu_from_bf16(nib_cpu_u16_at(array, index));
    case NIB_E8M0:
        return shape->e8m0[bytes[index]];
    case NIB_E4M3:
        return shape->e4m3[bytes[index]];
    case NIB_E5M2:
        return shape->e5m2[bytes[index]];
    case NIB_I8:
        return (int8_t)bytes[index];
    default: /* zero codes */
        return bytes[index];
    }
}

static void lanes(const nib_cpu_run *run, nib_type type, const void *array, int64_t n_tile,
                  int64_t group, float *to)
{
    const nib_cpu_shape *shape = run->shape;
    int64_t first = (n_tile * shape->groups + group) * NIB_CPU_LANES;
    if (run->lanes && !shape->per_tensor) {
        run->lanes(type, array, first, to);
        return;
    }
    for (int lane = 0; lane < NIB_CPU_LANES; lane++)
        to[lane] = element(shape, type, array, shape->per_tensor ? 0 : first + lane);
}

void nib_cpu_group_load(const nib_cpu_run *run, int64_t n_tile, int64_t group, nib_cpu_codes *codes)
{
    const nib_weight_desc *w = &run->shape->desc.weight;
    if (w->scale_type)
        lanes(run, w->scale_type, run->weights->scales, n_tile, group, codes->scale);
    else
        for (int lane = 0; lane < NIB_CPU_LANES; lane++)
            codes->scale[lane] = 1;
    if (w->zero)
        lanes(run, w->zero == NIB_ZERO_CODE ? NIB_U8 : w->zero_type, run->weights->zeros, n_tile,
              group, codes->zero);
}

int64_t nib_cpu_group_end(const nib_cpu_run *run, int64_t k, int64_t end, int64_t *group)
{
    const int32_t *g_idx = run->weights->g_idx;
    if (!(run->shape->desc.weight.flags & NIB_WEIGHT_G_IDX)) {
        *group = k / run->shape->group;
        return nib_cpu_min((*group + 1) * run->shape->group, end);
    }
    *group = g_idx[k];
    do
        k++;
    while (k < end && g_idx[k] == *group);
    return k;
}

static void apply_mx(const nib_cpu_run *run, int64_t row, int64_t k0, int64_t count, float *to)
{
    int64_t blocks = nib_cpu_ceil_div(run->shape->k, NIB_CPU_QUANT_K);
    const unsigned char *scales = (const unsigned char *)run->args->act_scale + row * blocks;
    for (int64_t i = 0; i < count; i++)
        to[i] *= run->shape->e8m0[scales[(k0 + i) / NIB_CPU_QUANT_K]];
}

void nib_cpu_act_load(const nib_cpu_run *run, nib_cpu_load_fn load, int64_t row, int64_t k0,
                      int64_t count, float *to)
{
    const nib_gemm_desc *desc = &run->shape->desc;
    bool byte =
        desc->act_type == NIB_E4M3 || desc->act_type == NIB_E5M2 || desc->act_type == NIB_I8;
    int64_t bytes = byte ? 1 : desc->act_type == NIB_F32 ? 4 : 2;
    const unsigned char *from =
        (const unsigned char *)run->args->act + (row * run->args->lda + k0) * bytes;
    if (byte)
        for (int64_t i = 0; i < count; i++)
            to[i] = element(run->shape, desc->act_type, from, i);
    else
        load(desc->act_type, from, count, to);
    if (desc->act_scale == NIB_ACT_SCALE_MX)
        apply_mx(run, row, k0, count, to);
}

float nib_cpu_act_scale(const nib_cpu_run *run, int64_t row)
{
    switch (run->shape->desc.act_scale) {
    case NIB_ACT_SCALE_TENSOR:
        return nib_cpu_f32_at(run->args->act_scale, 0);
    case NIB_ACT_SCALE_ROW:
        return nib_cpu_f32_at(run->args->act_scale, row);
    default:
        return 1;
    }
}

void nib_cpu_store_make(const nib_cpu_run *run, int64_t row, nib_cpu_store *store)
{
    const nib_gemm_desc *desc = &run->shape->desc;
    bool gated = desc->epilogue == NIB_EPILOGUE_SILU_GATED;
    int64_t bytes = desc->out_type == NIB_F16 || desc->out_type == NIB_BF16 ? 2 : 4;
    *store = (nib_cpu_store){
        .out_type = desc->out_type,
        .bias_type = desc->bias_type,
        .epilogue = desc->epilogue,
        .act_scale = nib_cpu_act_scale(run, row),
        .alpha = run->weights->alpha,
        .bias = desc->bias_type ? run->args->bias : NULL,
        .out = (unsigned char *)run->args->out + row * run->args->ldo * bytes,
        .gate = gated ? run->shape->n / 2 : 0,
    };
}

void nib_cpu_store_integers(const nib_cpu_run *run, int64_t row, int64_t n0, const uint32_t *sums,
                            int64_t count)
{
    unsigned char *out = run->args->out;
    out += (row * run->args->ldo + n0) * (int64_t)sizeof(int32_t);
    double alpha = run->weights->alpha;
    for (int64_t i = 0; i < count; i++) {
        uint32_t value = sums[i];
        if (alpha != 1) {
            double scaled = nearbyint((double)(int32_t)value * alpha);
            scaled = fmin(fmax(scaled, INT32_MIN), INT32_MAX); /* NaN becomes INT32_MIN */
            value = (uint32_t)(int32_t)scaled;
        }
        memcpy(out + i * (int64_t)sizeof(value), &value, sizeof(value));
    }
}
