/* SPDX-License-Identifier: Apache-2.0
 *
 * The panel schedule: W is decoded a panel at a time into f32, scales and zeros applied, and
 * multiplied as a dense f32 product. Serves every description; the fast choice for large m.
 *
 *     for each chunk of rows of act                      (at most CHUNK_ROWS)
 *         all threads pack the chunk: f32, [k block][row panel][k][panel_rows]
 *         each thread takes jobs of up to 128 rows of W  (whoever is free)
 *             for each k block of 256
 *                 for each pair of n tiles
 *                     decode 32 x 256 weights            (32 KB, stays in L1)
 *                     for each row panel: micro-kernel   (the chunk's k block stays in L2)
 *             epilogue of chunk x 128 results
 *
 * An element's sum is one chain of additions over k, whatever m and the cuts: bits of a row do not
 * depend on m.
 */
#include "kernels/common/schedule.h"
#include "kernels/common/shape.h"

enum {
    CHUNK_ROWS = 192, /* 16 panels of 12, 32 of 6, 48 of 4; 192 x 256 f32 are 196 KB of L2 */
    TILE_FLOATS = NIB_CPU_BLOCK_K * NIB_CPU_LANES,
    ALIGN_FLOATS = 16
};

/* Where everything lies in the workspace, in floats. */
typedef struct panel_plan {
    int64_t chunk;     /* rows of act at a time, a multiple of panel_rows */
    int64_t job_tiles; /* n tiles of a job, a multiple of panel_tiles */
    int64_t jobs;
    int64_t k_blocks;
    int64_t act_floats;
    int64_t thread_floats; /* decoded panel, then sums [chunk][job_tiles * 16] */
    int64_t gated_floats;  /* sums [chunk][n_pad] of gated products */
    int64_t n_pad;
} panel_plan;

static panel_plan make_plan(const nib_cpu_kernel *kernel, int64_t chunk)
{
    const nib_cpu_shape *shape = &kernel->shape;
    const nib_cpu_isa *isa = kernel->row->isa;
    /* Four jobs a thread even out what else runs on the machine. */
    int64_t even = nib_cpu_ceil_div(shape->n_tiles, 4 * (int64_t)kernel->threads);
    int64_t tiles = nib_cpu_min(even, NIB_CPU_PANEL_N / NIB_CPU_LANES);
    panel_plan plan = {.chunk = nib_cpu_round_up(chunk, isa->panel_rows)};
    plan.job_tiles = nib_cpu_round_up(tiles, isa->panel_tiles);
    plan.jobs = nib_cpu_ceil_div(shape->n_tiles, plan.job_tiles);
    plan.k_blocks = nib_cpu_ceil_div(shape->k, NIB_CPU_BLOCK_K);
    plan.act_floats = nib_cpu_round_up(plan.chunk * shape->k, ALIGN_FLOATS);
    plan.thread_floats =
        isa->panel_tiles * TILE_FLOATS + plan.job_tiles * plan.chunk * NIB_CPU_LANES;
    plan.n_pad = shape->n_tiles * NIB_CPU_LANES;
    if (shape->desc.epilogue == NIB_EPILOGUE_SILU_GATED)
        plan.gated_floats = plan.chunk * plan.n_pad;
    return plan;
}

uint64_t nib_cpu_panel_workspace(const nib_cpu_kernel *kernel, int64_t m)
{
    panel_plan plan = make_plan(kernel, nib_cpu_min(m, CHUNK_ROWS));
    return sizeof(float) *
           (uint64_t)(plan.act_floats + plan.gated_floats + kernel->threads * plan.thread_floats);
}

static void apply_rule(const nib_cpu_codes *codes, int64_t count, float *out)
{
    const float *s = codes->scale, *z = codes->zero;
    for (int64_t k = 0; k < count; k++, out += NIB_CPU_LANES)
        for (int lane = 0; lane < NIB_CPU_LANES; lane++) {
            if (codes->rule == NIB_CPU_SHIFT)
                out[lane] = (out[lane] - z[lane]) * s[lane];
            else if (codes->rule == NIB_CPU_RESCALE)
                out[lane] = out[lane] * s[lane] - z[lane];
            else
                out[lane] = out[lane] * s[lane];
        }
}

void nib_cpu_decode(const nib_cpu_run *run, nib_cpu_dequant_fn dequant, int64_t n_tile, int64_t k0,
                    int64_t count, float *out)
{
    const nib_cpu_shape *shape = run->shape;
    bool whole = !(shape->desc.weight.flags & NIB_WEIGHT_G_IDX) &&
                 (shape->groups == 1 || shape->group % shape->unit == 0);
    nib_cpu_codes codes;
    nib_cpu_codes_at(run, n_tile, &codes);
    if (!whole) {
        codes.rule = NIB_CPU_RAW;
        dequant(&codes, k0 / shape->unit, nib_cpu_ceil_div(count, shape->unit), out);
        codes.rule = shape->rule;
    }
    for (int64_t k = k0, next, group; k < k0 + count; k = next) {
        next = nib_cpu_group_end(run, k, k0 + count, &group);
        nib_cpu_group_load(run, n_tile, group, &codes);
        float *to = out + (k - k0) * NIB_CPU_LANES;
        if (whole)
            dequant(&codes, k / shape->unit, nib_cpu_ceil_div(next - k, shape->unit), to);
        else
            apply_rule(&codes, next - k, to);
    }
}

nib_cpu_run nib_cpu_run_make(const nib_cpu_call *call, int64_t m0, int64_t rows)
{
    const nib_cpu_shape *shape = &call->kernel->shape;
    return (nib_cpu_run){.shape = shape,
                         .weights = call->weights,
                         .args = call->args,
                         .values = shape->values ? shape->values : call->weights->table,
                         .lanes = call->kernel->row->isa->lanes,
                         .m0 = m0,
                         .rows = rows};
}

void nib_cpu_store_gated(const nib_cpu_team *team, const nib_cpu_run *run, const nib_cpu_isa *isa,
                         const float *sums, int64_t ld)
{
    int64_t columns = run->shape->n / 2, row, end;
    for (nib_cpu_share(team, run->rows, &row, &end); row < end; row++) {
        nib_cpu_store store;
        nib_cpu_store_make(run, run->m0 + row, &store);
        isa->store(&store, sums + row * ld, sums + row * ld + columns, 0, columns);
    }
}

/* Packs rows of one row panel and one k block; rows beyond the chunk are zero. */
static void pack_block(const nib_cpu_run *run, const nib_cpu_isa *isa, int64_t row0, int64_t k0,
                       int64_t count, float *to)
{
    float line[NIB_CPU_BLOCK_K];
    int rows = isa->panel_rows;
    for (int r = 0; r < rows; r++) {
        if (row0 + r < run->rows)
            nib_cpu_act_load(run, isa->load, run->m0 + row0 + r, k0, count, line);
        else
            memset(line, 0, sizeof(line));
        for (int64_t k = 0; k < count; k++)
            to[k * rows + r] = line[k];
    }
}

static void pack_act(const nib_cpu_team *team, const nib_cpu_run *run, const nib_cpu_isa *isa,
                     const panel_plan *plan, float *act)
{
    int64_t row_panels = nib_cpu_ceil_div(run->rows, isa->panel_rows), piece, end;
    for (nib_cpu_share(team, plan->k_blocks * row_panels, &piece, &end); piece < end; piece++) {
        int64_t k0 = piece / row_panels * NIB_CPU_BLOCK_K;
        int64_t row0 = piece % row_panels * isa->panel_rows;
        int64_t count = nib_cpu_min(NIB_CPU_BLOCK_K, run->shape->k - k0);
        pack_block(run, isa, row0, k0, count, act + k0 * plan->chunk + row0 * count);
    }
}

/* sums[rows][ld] of n tiles tile0 .. tile0 + tiles - 1. */
static void multiply(const nib_cpu_run *run, const nib_cpu_kernel *kernel, const panel_plan *plan,
                     const float *act, int64_t tile0, int64_t tiles, float *panel, float *sums)
{
    const nib_cpu_isa *isa = kernel->row->isa;
    int64_t ld = plan->job_tiles * NIB_CPU_LANES;
    memset(sums, 0, sizeof(float) * (size_t)(run->rows * ld));
    for (int64_t k0 = 0; k0 < run->shape->k; k0 += NIB_CPU_BLOCK_K) {
        int64_t count = nib_cpu_min(NIB_CPU_BLOCK_K, run->shape->k - k0);
        for (int64_t t = 0; t < tiles; t += isa->panel_tiles) {
            for (int64_t i = 0; i < isa->panel_tiles && t + i < tiles; i++)
                nib_cpu_decode(run, kernel->dequant, tile0 + t + i, k0, count,
                               panel + i * TILE_FLOATS);
            for (int64_t row = 0; row < run->rows; row += isa->panel_rows)
                isa->micro(panel, TILE_FLOATS, act + k0 * plan->chunk + row * count, count,
                           (int)nib_cpu_min(run->rows - row, isa->panel_rows),
                           sums + row * ld + t * NIB_CPU_LANES, ld);
        }
    }
}

static void store_job(const nib_cpu_run *run, const nib_cpu_isa *isa, const float *sums, int64_t ld,
                      int64_t n0, int64_t count)
{
    for (int64_t row = 0; row < run->rows; row++) {
        nib_cpu_store store;
        nib_cpu_store_make(run, run->m0 + row, &store);
        isa->store(&store, sums + row * ld, NULL, n0, count);
    }
}

/* One chunk of rows, by all threads of the team. */
static void run_chunk(const nib_cpu_team *team, const nib_cpu_kernel *kernel,
                      const nib_cpu_run *run, const panel_plan *plan, float *workspace)
{
    const nib_cpu_isa *isa = kernel->row->isa;
    int64_t ld = plan->job_tiles * NIB_CPU_LANES;
    float *gated = workspace + plan->act_floats;
    float *panel = gated + plan->gated_floats + team->thread * plan->thread_floats;
    float *sums = panel + isa->panel_tiles * TILE_FLOATS;
    pack_act(team, run, isa, plan, workspace);
    /* A last odd tile leaves its neighbour in the micro-kernel's pair without weights of its own.
     * What is computed there is never stored, but should start from numbers. */
    memset(panel, 0, sizeof(float) * (size_t)(isa->panel_tiles * TILE_FLOATS));
    nib_cpu_barrier(team);
    for (int64_t job; (job = nib_cpu_next(team)) < plan->jobs;) {
        int64_t tile0 = job * plan->job_tiles, n0 = tile0 * NIB_CPU_LANES;
        int64_t tiles = nib_cpu_min(plan->job_tiles, run->shape->n_tiles - tile0);
        multiply(run, kernel, plan, workspace, tile0, tiles, panel, sums);
        if (!plan->gated_floats) {
            store_job(run, isa, sums, ld, n0, nib_cpu_min(ld, run->shape->n - n0));
            continue;
        }
        for (int64_t row = 0; row < run->rows; row++)
            memcpy(gated + row * plan->n_pad + n0, sums + row * ld,
                   sizeof(float) * (size_t)(tiles * NIB_CPU_LANES));
    }
    nib_cpu_barrier(team);
    if (plan->gated_floats) {
        nib_cpu_store_gated(team, run, isa, gated, plan->n_pad);
        nib_cpu_barrier(team);
    }
}

typedef struct panel_work {
    const nib_cpu_call *call;
    panel_plan plan;
} panel_work;

static void run_panel(void *context, const nib_cpu_team *team)
{
    const panel_work *work = context;
    const nib_gemm_args *args = work->call->args;
    for (int64_t m0 = 0; m0 < args->m; m0 += work->plan.chunk) {
        nib_cpu_run run =
            nib_cpu_run_make(work->call, m0, nib_cpu_min(work->plan.chunk, args->m - m0));
        run_chunk(team, work->call->kernel, &run, &work->plan, args->workspace);
    }
}

void nib_cpu_panel_launch(const nib_cpu_call *call)
{
    /* Even chunks: 200 rows are 2 x 100, not 192 + 8. */
    int64_t chunks = nib_cpu_ceil_div(call->args->m, CHUNK_ROWS);
    int64_t rows = nib_cpu_ceil_div(call->args->m, chunks);
    panel_work work = {call, make_plan(call->kernel, rows)};
    nib_cpu_crew_run(call->kernel->crew, run_panel, &work);
}
