/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX's type names and what they measure.
 */
#include <string.h>

#include "ptx.h"

static const struct {
    const char *name;
    uint8_t bits;
    bool is_signed, is_float;
} types[SIM_TYPES] = {
    /* clang-format off */
    [SIM_TYPE_NONE] = {"none", 0, false, false},
    [SIM_B8] = {"b8", 8, false, false},       [SIM_B16] = {"b16", 16, false, false},
    [SIM_B32] = {"b32", 32, false, false},    [SIM_B64] = {"b64", 64, false, false},
    [SIM_B128] = {"b128", 128, false, false}, [SIM_U8] = {"u8", 8, false, false},
    [SIM_U16] = {"u16", 16, false, false},    [SIM_U32] = {"u32", 32, false, false},
    [SIM_U64] = {"u64", 64, false, false},    [SIM_S8] = {"s8", 8, true, false},
    [SIM_S16] = {"s16", 16, true, false},     [SIM_S32] = {"s32", 32, true, false},
    [SIM_S64] = {"s64", 64, true, false},     [SIM_U16X2] = {"u16x2", 32, false, false},
    [SIM_S16X2] = {"s16x2", 32, true, false}, [SIM_F16] = {"f16", 16, true, true},
    [SIM_BF16] = {"bf16", 16, true, true},    [SIM_F32] = {"f32", 32, true, true},
    [SIM_F64] = {"f64", 64, true, true},      [SIM_F16X2] = {"f16x2", 32, true, true},
    [SIM_BF16X2] = {"bf16x2", 32, true, true}, [SIM_TF32] = {"tf32", 32, true, true},
    [SIM_E4M3] = {"e4m3", 8, true, true},     [SIM_E5M2] = {"e5m2", 8, true, true},
    [SIM_E4M3X2] = {"e4m3x2", 16, true, true}, [SIM_E5M2X2] = {"e5m2x2", 16, true, true},
    [SIM_E2M1X2] = {"e2m1x2", 8, true, true}, [SIM_E2M3X2] = {"e2m3x2", 16, true, true},
    [SIM_E3M2X2] = {"e3m2x2", 16, true, true}, [SIM_UE8M0X2] = {"ue8m0x2", 16, false, true},
    [SIM_U4] = {"u4", 4, false, false},       [SIM_S4] = {"s4", 4, true, false},
    [SIM_PRED] = {"pred", 1, false, false},
    /* clang-format on */
};

unsigned sim_type_bits(enum sim_type type)
{
    return types[type].bits;
}

bool sim_type_signed(enum sim_type type)
{
    return types[type].is_signed;
}

bool sim_type_float(enum sim_type type)
{
    return types[type].is_float;
}

enum sim_type sim_type_find(const char *name)
{
    for (int i = 1; i < SIM_TYPES; ++i) {
        if (strcmp(types[i].name, name) == 0) {
            return (enum sim_type)i;
        }
    }
    return SIM_TYPE_NONE;
}
