/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations to f32, and f32 to i8 with one scale a block, in plain C.
 */
#include "kernels/common/convert.h"
#include "kernels/portable/portable.h"

#include <math.h>

void nib_cpu_portable_load(nib_type type, const void *from, int64_t count, float *to)
{
    if (type == NIB_F32)
        memcpy(to, from, sizeof(float) * (size_t)count);
    else if (type == NIB_F16)
        for (int64_t i = 0; i < count; i++)
            to[i] = nib_cpu_from_f16(nib_cpu_u16_at(from, i));
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = nib_cpu_from_bf16(nib_cpu_u16_at(from, i));
}

float nib_cpu_portable_round(const float *from, int64_t count, int8_t *to)
{
    float largest = 0, probe = 0;
    memset(to, 0, NIB_CPU_QUANT_K);
    for (int64_t i = 0; i < count; i++) {
        largest = fabsf(from[i]) > largest ? fabsf(from[i]) : largest;
        probe += from[i] * 0; /* NaN once an element is not finite */
    }
    float step = largest / 127, inverse = largest > 0 ? 127 / largest : 0;
    if (!(probe == 0) || isinf(inverse))
        return probe == 0 ? 0 : NAN; /* magnitudes below 2^-121 count as zero */
    for (int64_t i = 0; i < count; i++)
        to[i] = (int8_t)nearbyintf(from[i] * inverse);
    return step;
}
