/* SPDX-License-Identifier: Apache-2.0
 *
 * The integer schedule: i8 activations times integer codes, summed modulo 2^32 within a group, for
 * acc_type i32. Portable and exact for any description; ISAs with dot products have faster paths
 * for the common ones (direct.c).
 *
 * Columns are visited group by group: with g_idx in an order sorted by group. A segment is a run of
 * that order that shares its group and, with MX activations, its act scale.
 */
#include "kernels/common/convert.h"
#include "kernels/common/schedule.h"
#include "kernels/common/shape.h"

enum {
    CHUNK_ROWS = 32,
    ROWS = 4 /* rows of act that share a decoded panel's pass */
};

typedef struct integer_plan {
    int64_t chunk, k_pad;
    int64_t order_bytes;  /* i32 [2][k_pad]: the sorted order and its inverse; 0 without g_idx */
    int64_t act_bytes;    /* i8 [chunk][k_pad], columns in that order */
    int64_t gated_bytes;  /* f32 [chunk][n_pad] */
    int64_t thread_bytes; /* i32 [k_pad][16] codes' values of one n tile */
    int64_t n_pad;
} integer_plan;

static integer_plan make_plan(const nib_cpu_kernel *kernel, int64_t m)
{
    const nib_cpu_shape *shape = &kernel->shape;
    integer_plan plan = {.chunk = nib_cpu_min(m, CHUNK_ROWS),
                         .k_pad = nib_cpu_round_up(shape->k, 64),
                         .n_pad = shape->n_tiles * NIB_CPU_LANES};
    if (shape->desc.weight.flags & NIB_WEIGHT_G_IDX)
        plan.order_bytes = 2 * plan.k_pad * (int64_t)sizeof(int32_t);
    plan.act_bytes = plan.chunk * plan.k_pad;
    if (shape->desc.epilogue == NIB_EPILOGUE_SILU_GATED)
        plan.gated_bytes = plan.chunk * plan.n_pad * (int64_t)sizeof(float);
    plan.thread_bytes = plan.k_pad * NIB_CPU_LANES * (int64_t)sizeof(int32_t);
    return plan;
}

uint64_t nib_cpu_integer_workspace(const nib_cpu_kernel *kernel, int64_t m)
{
    integer_plan plan = make_plan(kernel, m);
    return (uint64_t)(plan.order_bytes + plan.act_bytes + plan.gated_bytes +
                      kernel->threads * plan.thread_bytes);
}

/* Columns sorted by group, by counting; stable. order[place] is a column, order[k_pad + column] its
 * place. `starts` has room for groups + 1 numbers. */
static void sort_columns(const nib_cpu_shape *shape, const int32_t *g_idx, int64_t k_pad,
                         int32_t *starts, int32_t *order)
{
    int64_t k = shape->k, groups = shape->groups;
    memset(starts, 0, sizeof(*starts) * (size_t)(groups + 1));
    for (int64_t i = 0; i < k; i++)
        starts[g_idx[i] + 1]++;
    for (int64_t g = 0; g < groups; g++)
        starts[g + 1] += starts[g];
    for (int64_t i = 0; i < k; i++) {
        int32_t place = starts[g_idx[i]]++;
        order[place] = (int32_t)i;
        order[k_pad + i] = place;
    }
}

static void pack_row(const nib_cpu_run *run, const int32_t *places, int64_t row, int8_t *to)
{
    const int8_t *from = (const int8_t *)run->args->act + (run->m0 + row) * run->args->lda;
    if (!places) {
        memcpy(to, from, (size_t)run->shape->k);
        return;
    }
    for (int64_t k = 0; k < run->shape->k; k++)
        to[places[k]] = from[k];
}

/* Values of an n tile's codes as integers, columns in order: panel[place][16]. */
static void decode_tile(const nib_cpu_run *run, const nib_cpu_kernel *kernel, const int32_t *places,
                        int64_t n_tile, int32_t *panel)
{
    const nib_cpu_shape *shape = run->shape;
    float values[NIB_CPU_BLOCK_K * NIB_CPU_LANES];
    nib_cpu_codes codes;
    nib_cpu_codes_at(run, n_tile, &codes);
    codes.rule = NIB_CPU_RAW;
    for (int64_t k0 = 0; k0 < shape->k; k0 += NIB_CPU_BLOCK_K) {
        int64_t count = nib_cpu_min(NIB_CPU_BLOCK_K, shape->k - k0);
        kernel->dequant(&codes, k0 / shape->unit, nib_cpu_ceil_div(count, shape->unit), values);
        for (int64_t i = 0; i < count; i++) {
            int64_t place = places ? places[k0 + i] : k0 + i;
            for (int lane = 0; lane < NIB_CPU_LANES; lane++)
                panel[place * NIB_CPU_LANES + lane] = (int32_t)values[i * NIB_CPU_LANES + lane];
        }
    }
}

/* Unsigned arithmetic, so that sums wrap as they should. */
static void dot(const int32_t *panel, const int8_t *act, int64_t ld, int64_t k0, int64_t k1,
                int rows, uint32_t sums[ROWS][NIB_CPU_LANES])
{
    memset(sums, 0, ROWS * sizeof(*sums));
    for (int64_t k = k0; k < k1; k++)
        for (int r = 0; r < rows; r++) {
            uint32_t a = (uint32_t)(int32_t)act[r * ld + k];
            for (int lane = 0; lane < NIB_CPU_LANES; lane++)
                sums[r][lane] += a * (uint32_t)panel[k * NIB_CPU_LANES + lane];
        }
}

/* The end of the segment that begins at place k of the order. */
static int64_t segment_end(const nib_cpu_run *run, const int32_t *order, int64_t k, int64_t *group,
                           int64_t *block)
{
    const int32_t *g_idx = run->weights->g_idx;
    bool mx = run->shape->desc.act_scale == NIB_ACT_SCALE_MX;
    int64_t end = run->shape->k;
    *block = mx ? (order ? order[k] : k) / NIB_CPU_QUANT_K : 0;
    if (!order) {
        end = nib_cpu_group_end(run, k, end, group);
        return mx ? nib_cpu_min(end, (*block + 1) * NIB_CPU_QUANT_K) : end;
    }
    *group = g_idx[order[k]];
    do
        k++;
    while (k < end && g_idx[order[k]] == *group && (!mx || order[k] / NIB_CPU_QUANT_K == *block));
    return k;
}

/* Adds a segment's sums, with its scales, to the row's results. */
static void add_segment(const nib_cpu_run *run, const nib_cpu_codes *codes, int64_t row,
                        int64_t block, const uint32_t *sums, float *results)
{
    float act_scale = 1;
    if (run->shape->desc.act_scale == NIB_ACT_SCALE_MX) {
        int64_t blocks = nib_cpu_ceil_div(run->shape->k, NIB_CPU_QUANT_K);
        const unsigned char *scales = run->args->act_scale;
        act_scale = run->shape->e8m0[scales[(run->m0 + row) * blocks + block]];
    }
    for (int lane = 0; lane < NIB_CPU_LANES; lane++)
        results[lane] += (float)(int32_t)sums[lane] * act_scale * codes->scale[lane];
}

/* Up to ROWS rows of one n tile. */
static void run_rows(const nib_cpu_run *run, const nib_cpu_isa *isa, const int32_t *panel,
                     const int32_t *order, const int8_t *act, int64_t ld, int64_t row0,
                     int64_t n_tile, float *gated, int64_t n_pad)
{
    int rows = (int)nib_cpu_min(ROWS, run->rows - row0);
    int64_t n0 = n_tile * NIB_CPU_LANES;
    uint32_t sums[ROWS][NIB_CPU_LANES];
    float results[ROWS][NIB_CPU_LANES] = {0};
    bool integers = run->shape->desc.out_type == NIB_I32;
    nib_cpu_codes codes;
    for (int64_t k = 0, next, group, block; k < run->shape->k; k = next) {
        next = segment_end(run, order, k, &group, &block);
        nib_cpu_group_load(run, n_tile, group, &codes);
        dot(panel, act + row0 * ld, ld, k, next, rows, sums);
        for (int r = 0; r < rows && !integers; r++)
            add_segment(run, &codes, row0 + r, block, sums[r], results[r]);
    }
    for (int r = 0; r < rows; r++) {
        nib_cpu_store store;
        nib_cpu_store_make(run, run->m0 + row0 + r, &store);
        if (integers)
            nib_cpu_store_integers(run, run->m0 + row0 + r, n0, sums[r],
                                   nib_cpu_min(NIB_CPU_LANES, run->shape->n - n0));
        else if (store.gate)
            memcpy(gated + (row0 + r) * n_pad + n0, results[r], sizeof(results[r]));
        else
            isa->store(&store, results[r], NULL, n0,
                       nib_cpu_min(NIB_CPU_LANES, run->shape->n - n0));
    }
}

static void run_chunk(const nib_cpu_team *team, const nib_cpu_kernel *kernel,
                      const nib_cpu_run *run, const integer_plan *plan, unsigned char *workspace)
{
    const nib_cpu_isa *isa = kernel->row->isa;
    int32_t *order = plan->order_bytes ? (int32_t *)(void *)workspace : NULL;
    const int32_t *places = order ? order + plan->k_pad : NULL;
    int8_t *act = (int8_t *)workspace + plan->order_bytes;
    float *gated = (float *)(void *)(act + plan->act_bytes);
    unsigned char *panels = (unsigned char *)gated + plan->gated_bytes;
    int32_t *panel = (int32_t *)(void *)(panels + team->thread * plan->thread_bytes);
    int64_t row, end;
    if (order) {
        if (team->thread == 0)
            sort_columns(run->shape, run->weights->g_idx, plan->k_pad, (int32_t *)(void *)panels,
                         order);
        nib_cpu_barrier(team);
    }
    for (nib_cpu_share(team, run->rows, &row, &end); row < end; row++)
        pack_row(run, places, row, act + row * plan->k_pad);
    nib_cpu_barrier(team);
    for (int64_t tile; (tile = nib_cpu_next(team)) < run->shape->n_tiles;) {
        decode_tile(run, kernel, places, tile, panel);
        for (int64_t row0 = 0; row0 < run->rows; row0 += ROWS)
            run_rows(run, isa, panel, order, act, plan->k_pad, row0, tile, gated, plan->n_pad);
    }
    nib_cpu_barrier(team);
    if (plan->gated_bytes) {
        nib_cpu_store_gated(team, run, isa, gated, plan->n_pad);
        nib_cpu_barrier(team);
    }
}

typedef struct integer_work {
    const nib_cpu_call *call;
    integer_plan plan;
} integer_work;

static void run_integer(void *context, const nib_cpu_team *team)
{
    const integer_work *work = context;
    const nib_gemm_args *args = work->call->args;
    for (int64_t m0 = 0; m0 < args->m; m0 += work->plan.chunk) {
        nib_cpu_run run =
            nib_cpu_run_make(work->call, m0, nib_cpu_min(work->plan.chunk, args->m - m0));
        run_chunk(team, work->call->kernel, &run, &work->plan, args->workspace);
    }
}

void nib_cpu_integer_launch(const nib_cpu_call *call)
{
    integer_work work = {call, make_plan(call->kernel, call->args->m)};
    nib_cpu_crew_run(call->kernel->crew, run_integer, &work);
}
