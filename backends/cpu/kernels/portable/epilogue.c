/* SPDX-License-Identifier: Apache-2.0
 *
 * The epilogue in plain C: see common/epilogue.h.
 */
#include "kernels/common/epilogue.h"

#include "kernels/portable/portable.h"

static void cast(nib_type type, const float *from, int64_t count, void *to)
{
    uint16_t halves[NIB_CPU_STORE_COLUMNS];
    for (int64_t i = 0; i < count; i++)
        halves[i] = type == NIB_F16 ? nib_cpu_to_f16(from[i]) : nib_cpu_to_bf16(from[i]);
    memcpy(to, halves, sizeof(*halves) * (size_t)count);
}

void nib_cpu_portable_store(const nib_cpu_store *store, const float *x, const float *x2, int64_t n0,
                            int64_t count)
{
    nib_cpu_store_columns(store, x, x2, n0, count, cast);
}
