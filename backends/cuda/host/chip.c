/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of chips: targets by compute capability and nominal rates by product. Nominal, so that a
 * plan, and with it the bits of a result, is the same in every process on the same product.
 */
#include "host/host.h"

#include <math.h>
#include <string.h>

/* In the order in which `isa` lists them. Code for "a" targets runs on exactly that chip. */
static const nib_cuda_target targets[] = {
    {"sm_80", 80, 80, true},
    {"sm_86", 86, 86, true},
    {"sm_89", 89, 89, true},
    {"sm_90a", 90, 90, true},
    {"sm_100a", 100, 100, true},
    {"sm_103a", 103, 103, true},
    {"sm_120a", 120, 120, true},
    {"compute_80", 80, 0, true},
    /* Kin of the chips above, which share their kernels but not their images. */
    {"sm_87", 80, 87, false},
    {"sm_121a", 120, 121, false},
};

enum { TARGETS = sizeof(targets) / sizeof(targets[0]) };

const nib_cuda_target *nib_cuda_target_of(int32_t cc)
{
    for (size_t i = 0; i < TARGETS; i++)
        if (targets[i].own_cc == cc)
            return &targets[i];
    return NULL;
}

const nib_cuda_target *nib_cuda_target_at(uint32_t index)
{
    return index < TARGETS && targets[index].packed ? &targets[index] : NULL;
}

const nib_cuda_target *nib_cuda_target_named(const char *isa)
{
    for (size_t i = 0; i < TARGETS; i++)
        if (!strcmp(targets[i].isa, isa))
            return &targets[i];
    return NULL;
}

/* A usual chip of each capability, and what one multiprocessor does in a cycle (dense, f16 with f32
 * sums at a data centre product's rate). */
static const struct {
    nib_cuda_chip chip;
    int32_t f16_cycle, i8_cycle, f32_cycle;
} usual[] = {
    /* clang-format off */
    /*  cc units shared block, unit  registers  GHz   GB/s  f16   i8    f32   cache              per cycle */
    {{ 80, 108, 166912, 167936, 65536, 1.41, 1555,  312,  624, 19.5,  40 << 20},  2048,  4096, 128},
    {{ 86,  72, 101376, 102400, 65536, 1.70,  600,  125,  250, 31.2,   6 << 20},  1024,  2048, 256},
    {{ 89, 142, 101376, 102400, 65536, 2.52,  864,  362,  733, 91.6,  96 << 20},  1024,  2048, 256},
    {{ 90, 132, 232448, 233472, 65536, 1.83, 3350,  989, 1979, 67.0,  50 << 20},  4096,  8192, 256},
    {{100, 148, 232448, 233472, 65536, 1.85, 8000, 2250, 4500, 75.0, 126 << 20},  8192, 16384, 256},
    {{103, 160, 232448, 233472, 65536, 1.92, 8000, 2250,  300, 77.0, 126 << 20},  8192,  1024, 256},
    {{120, 188, 101376, 102400, 65536, 2.60, 1792,  504, 1008,  126, 128 << 20},  1024,  2048, 256},
    /* clang-format on */
};

enum { USUAL = sizeof(usual) / sizeof(usual[0]) };

/* Products whose name contains the text; of several the longest text counts. The rates are those of
 * `units` multiprocessors; a part of a GPU gets its share. */
static const struct {
    const char *name;
    int32_t cc, units;
    double read_gb_per_s, f16_tflop_per_s, i8_top_per_s, f32_tflop_per_s;
} products[] = {
    /* clang-format off */
    {"A100-SXM4-40GB",           80,  108,  1555,   312,   624,  19.5},
    {"A100-PCIE-40GB",           80,  108,  1555,   312,   624,  19.5},
    {"A100-SXM4-80GB",           80,  108,  2039,   312,   624,  19.5},
    {"A100 80GB PCIe",           80,  108,  1935,   312,   624,  19.5},
    {"A800-SXM4-80GB",           80,  108,  2039,   312,   624,  19.5},
    {"A800 80GB PCIe",           80,  108,  1935,   312,   624,  19.5},
    {"NVIDIA A30",               80,   56,   933,   165,   330,  10.3},
    {"NVIDIA A2",                86,   10,   200,    18,    36,   4.5},
    {"NVIDIA A10",               86,   72,   600,   125,   250,  31.2},
    {"NVIDIA A10G",              86,   80,   600,    70,   140,  31.5},
    {"NVIDIA A16",               86,   10,   200,    18,    36,   4.5},
    {"NVIDIA A40",               86,   84,   696,   150,   299,  37.4},
    {"RTX A6000",                86,   84,   768,   155,   310,  38.7},
    {"RTX A5000",                86,   64,   768,   111,   222,  27.8},
    {"RTX A4000",                86,   48,   448,    77,   153,  19.2},
    {"RTX 3090",                 86,   82,   936,    71,   284,  35.6},
    {"RTX 3090 Ti",              86,   84,  1008,    80,   320,  40.0},
    {"RTX 3080",                 86,   68,   760,    60,   238,  29.8},
    {"RTX 3080 Ti",              86,   80,   912,    68,   273,  34.1},
    {"RTX 3070",                 86,   46,   448,    41,   163,  20.3},
    {"RTX 3070 Ti",              86,   48,   608,    43,   174,  21.7},
    {"RTX 3060",                 86,   28,   360,    25,   102,  12.7},
    {"RTX 3060 Ti",              86,   38,   448,    32,   130,  16.2},
    {"NVIDIA L4",                89,   58,   300,   121,   242,  30.3},
    {"NVIDIA L40",               89,  142,   864,   181,   362,  90.5},
    {"NVIDIA L40S",              89,  142,   864,   362,   733,  91.6},
    {"NVIDIA L20",               89,   92,   864,   120,   239,  59.8},
    {"RTX 6000 Ada",             89,  142,   960,   364,   728,  91.1},
    {"RTX 5000 Ada",             89,  100,   576,   261,   522,  65.3},
    {"RTX 4000 Ada",             89,   48,   360,   107,   214,  26.7},
    {"RTX 4090",                 89,  128,  1008,   165,   661,  82.6},
    {"RTX 4080",                 89,   76,   717,    98,   390,  48.7},
    {"RTX 4080 SUPER",           89,   80,   736,   104,   418,  52.2},
    {"RTX 4070",                 89,   46,   504,    58,   233,  29.1},
    {"RTX 4070 SUPER",           89,   56,   504,    71,   284,  35.5},
    {"RTX 4070 Ti",              89,   60,   504,    80,   321,  40.1},
    {"RTX 4070 Ti SUPER",        89,   66,   672,    88,   353,  44.1},
    {"RTX 4060",                 89,   24,   272,    30,   121,  15.1},
    {"RTX 4060 Ti",              89,   34,   288,    44,   177,  22.1},
    {"NVIDIA H100 80GB HBM3",    90,  132,  3350,   989,  1979,    67},
    {"NVIDIA H100 PCIe",         90,  114,  2039,   756,  1513,    51},
    {"NVIDIA H100 NVL",          90,  132,  3938,   835,  1671,    60},
    {"NVIDIA H800",              90,  132,  3350,   989,  1979,    67},
    {"NVIDIA H200",              90,  132,  4800,   989,  1979,    67},
    {"NVIDIA H200 NVL",          90,  132,  4800,   835,  1671,    60},
    {"NVIDIA H20",               90,   78,  4000,   148,   296,    44},
    {"GH200 480GB",              90,  132,  4000,   989,  1979,    67},
    {"GH200 144G",               90,  132,  4900,   989,  1979,    67},
    {"NVIDIA B200",             100,  148,  8000,  2250,  4500,    75},
    {"NVIDIA GB200",            100,  148,  8000,  2250,  4500,    75},
    {"NVIDIA B300",             103,  160,  8000,  2250,   300,    77},
    {"NVIDIA GB300",            103,  160,  8000,  2250,   300,    77},
    {"RTX PRO 6000",            120,  188,  1792,   504,  1008,   126},
    {"RTX PRO 5000",            120,  110,  1344,   295,   590,  73.7},
    {"RTX 5090",                120,  170,  1792,   210,   838,   105},
    {"RTX 5080",                120,   84,   960,   113,   450,  56.3},
    {"RTX 5070",                120,   48,   672,    62,   247,  30.9},
    {"RTX 5070 Ti",             120,   70,   896,    88,   352,  43.9},
    {"RTX 5060",                120,   30,   448,    38,   153,  19.2},
    {"RTX 5060 Ti",             120,   36,   448,    47,   190,  23.7},
    /* clang-format on */
};

static size_t usual_of(const nib_cuda_target *target)
{
    size_t i = 0;
    while (i + 1 < USUAL && usual[i].chip.cc < target->cc)
        i++;
    return i;
}

void nib_cuda_chip_usual(const nib_cuda_target *target, nib_cuda_chip *chip)
{
    *chip = usual[usual_of(target)].chip;
    chip->cc = target->cc;
}

/* A name stands for itself where it ends at a blank, a dash or the end. Chips of laptops have the
 * names of others with less power. */
static int product_of(const char *name)
{
    int best = -1;
    if (strstr(name, "Laptop") || strstr(name, "Max-Q"))
        return -1;
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        const char *at = strstr(name, products[i].name);
        size_t length = strlen(products[i].name);
        if (at && !strchr(" -", at[length]))
            at = NULL; /* strchr finds the final NUL too */
        if (at && (best < 0 || length > strlen(products[best].name)))
            best = (int)i;
    }
    return best;
}

/* GeForce products sum f16 in f32 at half the rate of the table. */
static double f16_share(const char *name)
{
    return strstr(name, "GeForce") ? 0.5 : 1;
}

void nib_cuda_chip_rates(const char *name, const nib_cuda_target *target, double bus_gb_per_s,
                         nib_cuda_chip *chip)
{
    size_t own = usual_of(target);
    const nib_cuda_chip *fallback = &usual[own].chip;
    int product = product_of(name);
    chip->cc = target->cc;
    if (product >= 0) /* so that a pack's builder, who has no chip to ask, plans the same */
        chip->ghz = fallback->ghz;
    if (chip->units <= 0)
        chip->units = fallback->units;
    if (chip->shared_block <= 0)
        chip->shared_block = fallback->shared_block;
    if (chip->shared_unit <= 0)
        chip->shared_unit = chip->shared_block + 1024; /* what the driver keeps of each block */
    if (chip->registers_unit <= 0)
        chip->registers_unit = fallback->registers_unit;
    if (chip->ghz <= 0)
        chip->ghz = fallback->ghz;
    if (!chip->cache_bytes)
        chip->cache_bytes = fallback->cache_bytes;
    if (product >= 0) {
        double share = fmin(1, (double)chip->units / products[product].units);
        chip->read_gb_per_s = products[product].read_gb_per_s * share;
        chip->f16_tflop_per_s = products[product].f16_tflop_per_s * share;
        chip->i8_top_per_s = products[product].i8_top_per_s * share;
        chip->f32_tflop_per_s = products[product].f32_tflop_per_s * share;
        return;
    }
    double cycles = chip->units * chip->ghz * 1e-3;
    chip->read_gb_per_s =
        bus_gb_per_s > 0 ? bus_gb_per_s : fallback->read_gb_per_s * chip->units / fallback->units;
    chip->f16_tflop_per_s = cycles * usual[own].f16_cycle * f16_share(name);
    chip->i8_top_per_s = cycles * usual[own].i8_cycle;
    chip->f32_tflop_per_s = cycles * usual[own].f32_cycle;
}

bool nib_cuda_chip_product(const nib_cuda_target *target, uint32_t index, nib_cuda_chip *chip)
{
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        if (products[i].cc != target->cc || index-- > 0)
            continue;
        nib_cuda_chip_usual(target, chip);
        chip->units = products[i].units;
        nib_cuda_chip_rates(products[i].name, target, 0, chip);
        return true;
    }
    return false;
}
