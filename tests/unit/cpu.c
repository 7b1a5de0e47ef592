/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend from inside: thread limits, and each ISA's decoders against the decode tables,
 * every code of every type at every place of a unit.
 */
#include "../../backends/cpu/host/threads.h"
#include "../../backends/cpu/kernels/kernel.h"
#include "config/dtype.h"
#include "layout/layout.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From host/host.h, which includes by the backend's own paths. */
const nib_cpu_isa *nib_cpu_isa_choose(const char *wanted);
nib_status nib_cpu_layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out);

Test(cpu_threads, omp_num_threads_is_a_positive_number_or_ignored)
{
    cr_expect_eq(nib_cpu_threads_parse("3"), 3);
    cr_expect_eq(nib_cpu_threads_parse("4,2"), 4);
    cr_expect_eq(nib_cpu_threads_parse("0"), 0);
    cr_expect_eq(nib_cpu_threads_parse("-2"), 0);
    cr_expect_eq(nib_cpu_threads_parse("many"), 0);
    cr_expect_eq(nib_cpu_threads_parse("3x"), 0);
    cr_expect_eq(nib_cpu_threads_parse(NULL), 0);
}

Test(cpu_threads, cgroup_v2_quota_rounds_up)
{
    cr_expect_eq(nib_cpu_quota_v2("200000 100000\n"), 2);
    cr_expect_eq(nib_cpu_quota_v2("150000 100000\n"), 2);
    cr_expect_eq(nib_cpu_quota_v2("1000 100000\n"), 1);
    cr_expect_eq(nib_cpu_quota_v2("max 100000\n"), 0);
    cr_expect_eq(nib_cpu_quota_v2(""), 0);
    cr_expect_eq(nib_cpu_quota_v2("100000 0\n"), 0);
}

Test(cpu_threads, cgroup_v1_quota_of_minus_one_is_none)
{
    cr_expect_eq(nib_cpu_quota_v1("-1\n", "100000\n"), 0);
    cr_expect_eq(nib_cpu_quota_v1("250000\n", "100000\n"), 3);
}

Test(cpu_threads, the_environment_wins_over_limits)
{
    cr_expect_eq(nib_cpu_threads("5"), 5);
    cr_expect_geq(nib_cpu_threads(NULL), 1);
}

/* A tile whose lane n holds code (place + 37 n) mod 2^bits, `k` places, in the backend's layout. */
static void fill_tile(const nib_layout *layout, int64_t k, int32_t bits, unsigned char *memory,
                      nib_matrix *matrix)
{
    cr_assert_eq(nib_matrix_at(layout, memory, 16, k, matrix), NIB_OK);
    for (int64_t n = 0; n < 16; n++)
        for (int64_t i = 0; i < k; i++)
            nib_matrix_set(matrix, n, i, (uint32_t)(i + 37 * n) & ((1u << bits) - 1));
}

static float expected(nib_cpu_rule rule, float c, float s, float z)
{
    switch (rule) {
    case NIB_CPU_SCALE:
        return c * s;
    case NIB_CPU_SHIFT:
        return (c - z) * s;
    case NIB_CPU_RESCALE:
        return fmaf(c, s, -z);
    default:
        return c;
    }
}

static void expect_decoded(const nib_cpu_isa *isa, nib_type type, nib_cpu_rule rule,
                           const nib_layout *layout)
{
    enum { PLACES = 256 };
    static _Alignas(64) unsigned char memory[3 * PLACES * 16];
    static float out[PLACES * 16];
    int32_t bits = nib_type_bits(type);
    nib_matrix matrix;
    nib_cpu_codes codes = {.values = nib_dtype_table(type), .rule = rule, .bits = bits};
    memset(memory, 0, sizeof(memory));
    fill_tile(layout, PLACES, bits, memory, &matrix);
    for (int p = 0; p < layout->planes; p++)
        codes.plane[p] = matrix.planes[p];
    for (int lane = 0; lane < 16; lane++) {
        codes.scale[lane] = 0.25f * (float)(lane + 1);
        codes.zero[lane] = (float)lane;
    }
    int32_t unit = bits == 8 ? 4 : bits >= 4 ? 8 : bits >= 2 ? 16 : 32;
    isa->dequant(type)(&codes, 32 / unit, (PLACES - 32) / unit, out); /* from k = 32 on */
    for (int i = 32; i < PLACES; i++)
        for (int lane = 0; lane < 16; lane++) {
            uint32_t code = (uint32_t)(i + 37 * lane) & ((1u << bits) - 1);
            float want = expected(rule, codes.values[code], codes.scale[lane], codes.zero[lane]);
            float got = out[(i - 32) * 16 + lane];
            cr_assert(got == want || (isnan(want) && isnan(got)) ||
                          fabsf(got - want) <= 1e-6f * fabsf(want),
                      "%s %s rule %d: code %u lane %d decodes to %g, expected %g", isa->name,
                      nib_type_name(type), rule, code, lane, got, want);
        }
}

static void expect_all_decoded(const char *name)
{
    const nib_cpu_isa *isa = nib_cpu_isa_choose(name);
    nib_context *context;
    nib_device *device;
    if (!isa) {
        cr_skip_test("this processor or build has no %s", name);
        return;
    }
    cr_assert_eq(nib_context_create(NULL, &context), NIB_OK);
    cr_assert_eq(nib_device_open(context, "cpu", &device), NIB_OK);
    for (uint32_t i = 0; nib_dtype_row(i); i++) {
        const nib_dtype *row = nib_dtype_row(i);
        if (!(row->may & NIB_MAY_WEIGHT) || row->type == NIB_LUT4)
            continue;
        nib_weight_desc desc = {.size = sizeof(desc), .n = 16, .k = 256, .type = row->type};
        nib_backend_layout texts = {.size = sizeof(texts)};
        nib_layout layout;
        cr_assert_eq(nib_cpu_layout(NULL, &desc, &texts), NIB_OK);
        cr_assert_eq(nib_layout_make(texts.codes, row->bits, &layout), NIB_OK);
        for (int rule = NIB_CPU_RAW; rule <= NIB_CPU_RESCALE; rule++)
            expect_decoded(isa, row->type, (nib_cpu_rule)rule, &layout);
    }
    nib_device_close(device);
    nib_context_destroy(context);
}

Test(cpu_dequant, portable_decodes_every_code_of_every_type)
{
    expect_all_decoded("portable");
}

Test(cpu_dequant, avx2_decodes_every_code_of_every_type)
{
    expect_all_decoded("avx2");
}

Test(cpu_dequant, avx512_decodes_every_code_of_every_type)
{
    expect_all_decoded("avx512");
}

static nib_status open_with(const char *isa, nib_device_info *info)
{
    nib_context *context;
    nib_device *device;
    setenv("NIB_CPU_ISA", isa, 1);
    cr_assert_eq(nib_context_create(NULL, &context), NIB_OK);
    nib_status status = nib_device_open(context, "cpu", &device);
    if (!status) {
        info->size = sizeof(*info);
        cr_assert_eq(nib_device_get_info(device, info), NIB_OK);
        nib_device_close(device);
    }
    nib_context_destroy(context);
    return status;
}

Test(cpu_isa, the_environment_chooses_and_a_wrong_name_is_refused)
{
    nib_device_info info = {0};
    cr_assert_eq(open_with("portable", &info), NIB_OK);
    cr_expect_str_eq(info.isa, "portable");
    cr_expect_gt(info.read_gb_per_s, 0);
    cr_expect_gt(info.f32_tflop_per_s, 0);
    cr_expect_eq(open_with("sse9", &info), NIB_INVALID);
    cr_expect(strstr(nib_last_message(), "sse9"), "%s", nib_last_message());
}
