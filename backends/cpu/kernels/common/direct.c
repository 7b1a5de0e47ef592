/* SPDX-License-Identifier: Apache-2.0
 *
 * The direct schedules: codes are decoded in registers, right before they are used, and every byte
 * of W is read once per 4 rows of act. The fast choice for few rows, where reading W is the work.
 *
 *     for each chunk of at most 32 rows of act
 *         all threads prepare the chunk: f32 rows (DIRECT), or i8 rows with a step per segment
 * (DOT) each thread takes jobs of 4 n tiles: a slice for each 4 rows, then the epilogue
 *
 * Zeros leave the inner loop: sum a (c - z) s = s (sum a c - z sum a), with sum a per group
 * prepared here. In DOT, a segment is the longest run of k within one group and one step.
 */
#include "kernels/common/schedule.h"
#include "kernels/common/shape.h"

#include <math.h>

enum {
    CHUNK_ROWS = 32,
    PIECE_K = 1024,        /* k that a thread prepares at a time */
    EXACT_K = 65536,       /* 255 * 128 * 65536 < 2^31: sums this long do not wrap */
    SLICE_FLOATS = 8 * 64, /* most rows and columns of a slice */
    LANES = NIB_CPU_LANES
};

typedef struct direct_plan {
    int64_t chunk, k_pad, segment, segments;
    bool stepped; /* every 32 k have a step of their own: dynamic i8, MX */
    /* Bytes of the workspace's parts, in this order, each a multiple of 64. */
    int64_t act_bytes, counts_bytes, steps_bytes, sums_bytes, gated_bytes;
    int64_t n_pad;
} direct_plan;

static bool is_stepped(const nib_cpu_shape *shape)
{
    return shape->desc.flags & NIB_GEMM_ACT_DYNAMIC_I8 || shape->desc.act_scale == NIB_ACT_SCALE_MX;
}

static const char *dot_refusal(const nib_cpu_shape *shape)
{
    const nib_gemm_desc *desc = &shape->desc;
    if (shape->operand == NIB_CPU_OPERAND_NONE)
        return "its codes are no small integers";
    if (desc->act_type != NIB_I8 && !(desc->flags & NIB_GEMM_ACT_DYNAMIC_I8))
        return "needs i8 activations, or NIB_GEMM_ACT_DYNAMIC_I8";
    if (is_stepped(shape) && shape->groups > 1 && shape->group % NIB_CPU_QUANT_K &&
        NIB_CPU_QUANT_K % shape->group)
        return "groups and blocks of 32 k overlap partly";
    if (desc->acc_type != NIB_I32 && !is_stepped(shape) && shape->group > EXACT_K)
        return "sums of more than 65536 products may overflow";
    return NULL;
}

const char *nib_cpu_direct_refusal(const nib_cpu_shape *shape, nib_cpu_schedule schedule)
{
    const nib_gemm_desc *desc = &shape->desc;
    if (desc->weight.flags & NIB_WEIGHT_G_IDX)
        return "g_idx scatters groups over k";
    if (shape->groups > 1 && shape->group % shape->unit)
        return "groups end inside a word of codes";
    if (schedule == NIB_CPU_DOT)
        return dot_refusal(shape);
    if (shape->bits > 4 && desc->weight.type != NIB_I8 && desc->weight.type != NIB_U8)
        return "its codes take a table of more than 16 entries";
    if (desc->acc_type == NIB_I32)
        return "acc_type i32 sums in integers";
    if (!shape->values && shape->k % shape->unit)
        return "a lut4 table may hold infinities, which padding must not meet";
    return NULL;
}

static direct_plan make_plan(const nib_cpu_kernel *kernel, int64_t m)
{
    const nib_cpu_shape *shape = &kernel->shape;
    int64_t size = (int64_t)sizeof(float);
    direct_plan plan = {.chunk = nib_cpu_min(m, CHUNK_ROWS),
                        .k_pad = nib_cpu_round_up(shape->k, 64),
                        .segment = shape->groups > 1 ? shape->group : shape->k,
                        .n_pad = shape->n_tiles * LANES};
    if (kernel->row->schedule == NIB_CPU_DOT) {
        plan.stepped = is_stepped(shape);
        if (plan.stepped)
            plan.segment = nib_cpu_min(plan.segment, NIB_CPU_QUANT_K);
        plan.segments = nib_cpu_ceil_div(shape->k, plan.segment);
        plan.act_bytes = plan.chunk * plan.k_pad;
        plan.counts_bytes = nib_cpu_round_up(plan.chunk * plan.segments * size, 64);
        plan.steps_bytes = plan.counts_bytes;
    } else {
        plan.act_bytes = plan.chunk * plan.k_pad * size;
    }
    if (shape->zero_bytes)
        plan.sums_bytes = nib_cpu_round_up(plan.chunk * shape->groups * size, 64);
    if (shape->desc.epilogue == NIB_EPILOGUE_SILU_GATED)
        plan.gated_bytes = plan.chunk * plan.n_pad * size;
    return plan;
}

uint64_t nib_cpu_direct_workspace(const nib_cpu_kernel *kernel, int64_t m)
{
    direct_plan plan = make_plan(kernel, m);
    return (uint64_t)(plan.act_bytes + plan.counts_bytes + plan.steps_bytes + plan.sums_bytes +
                      plan.gated_bytes);
}

/* The workspace's parts. */
typedef struct direct_parts {
    float *act;
    int8_t *quant;
    int32_t *counts;
    float *steps, *sums, *gated;
} direct_parts;

static direct_parts find_parts(const direct_plan *plan, unsigned char *at)
{
    direct_parts parts = {.act = (float *)(void *)at, .quant = (int8_t *)at};
    at += plan->act_bytes;
    parts.counts = (int32_t *)(void *)at;
    at += plan->counts_bytes;
    parts.steps = (float *)(void *)at;
    at += plan->steps_bytes;
    parts.sums = (float *)(void *)at;
    at += plan->sums_bytes;
    parts.gated = (float *)(void *)at;
    return parts;
}

/* Rows are cut into blocks of direct_rows, then of half as many, and so on. */
typedef struct row_block {
    int64_t first, width;
} row_block;

static row_block block_of(const nib_cpu_isa *isa, int64_t rows, int64_t row)
{
    row_block block = {.width = isa->direct_rows};
    for (;; block.width /= 2) {
        int64_t end = rows - rows % block.width;
        if (row < end) {
            block.first = row - row % block.width;
            return block;
        }
    }
}

/* Sixteen chains, then their sum: fast, and always in the same order. */
static float sum_floats(const float *x, int64_t count, int64_t stride)
{
    float chains[LANES] = {0}, sum = 0;
    int64_t i = 0;
    if (stride == 1)
        for (; i + LANES <= count; i += LANES)
            for (int lane = 0; lane < LANES; lane++)
                chains[lane] += x[i + lane];
    for (; i < count; i++)
        chains[i % LANES] += x[i * stride];
    for (int lane = 0; lane < LANES; lane++)
        sum += chains[lane];
    return sum;
}

/* Sum of `words` groups of four bytes that lie `stride` bytes apart. */
static int32_t sum_bytes(const int8_t *x, int64_t words, int64_t stride)
{
    int32_t sum = 0;
    if (stride == 4)
        for (int64_t i = 0; i < 4 * words; i++)
            sum += x[i];
    else
        for (int64_t i = 0; i < words; i++, x += stride)
            sum += x[0] + x[1] + x[2] + x[3];
    return sum;
}

/* k of a piece with the padding behind the last one. */
static int64_t padded_count(const direct_plan *plan, const nib_cpu_run *run, int64_t k0,
                            int64_t count)
{
    return k0 + count == run->shape->k ? plan->k_pad - k0 : count;
}

/* f32 activations of one piece of one row. */
static void prepare_floats(const nib_cpu_run *run, const nib_cpu_isa *isa, const direct_plan *plan,
                           int64_t row, int64_t k0, const direct_parts *parts)
{
    float line[PIECE_K];
    row_block block = block_of(isa, run->rows, row);
    int64_t count = nib_cpu_min(PIECE_K, run->shape->k - k0);
    int64_t padded = padded_count(plan, run, k0, count);
    float *to = parts->act + block.first * plan->k_pad + k0 * block.width + row - block.first;
    nib_cpu_act_load(run, isa->load, run->m0 + row, k0, count, line);
    memset(line + count, 0, sizeof(float) * (size_t)(padded - count));
    for (int64_t i = 0; i < padded; i++)
        to[i * block.width] = line[i];
}

/* i8 activations of one piece: rounded here, or copied. */
static void prepare_bytes(const nib_cpu_run *run, const nib_cpu_isa *isa, const direct_plan *plan,
                          int64_t row, int64_t k0, const direct_parts *parts)
{
    float line[PIECE_K];
    int8_t bytes[PIECE_K];
    row_block block = block_of(isa, run->rows, row);
    int64_t k = run->shape->k, count = nib_cpu_min(PIECE_K, k - k0);
    int64_t padded = padded_count(plan, run, k0, count), lane = row - block.first;
    int8_t *to = parts->quant + block.first * plan->k_pad + k0 * block.width + 4 * lane;
    float *steps = parts->steps + block.first * plan->segments + lane;
    memset(bytes + count, 0, (size_t)(padded - count));
    if (run->shape->desc.act_type == NIB_I8) {
        const int8_t *from = (const int8_t *)run->args->act;
        memcpy(bytes, from + (run->m0 + row) * run->args->lda + k0, (size_t)count);
    } else {
        nib_cpu_act_load(run, isa->load, run->m0 + row, k0, count, line);
        for (int64_t i = 0; i < count; i += NIB_CPU_QUANT_K) {
            float step = isa->round(line + i, nib_cpu_min(NIB_CPU_QUANT_K, count - i), bytes + i);
            int64_t end = nib_cpu_min(k0 + i + NIB_CPU_QUANT_K, k);
            for (int64_t at = k0 + i; at < end; at += plan->segment)
                steps[at / plan->segment * block.width] = step;
        }
    }
    for (int64_t i = 0; i < padded; i += 4)
        memcpy(to + i * block.width, bytes + i, 4);
}

/* Steps that were not found by rounding: MX scales, or 1. */
static void prepare_steps(const nib_cpu_run *run, const direct_plan *plan, row_block block,
                          int64_t row, const direct_parts *parts)
{
    float *steps = parts->steps + block.first * plan->segments + row - block.first;
    const nib_gemm_desc *desc = &run->shape->desc;
    int64_t blocks = nib_cpu_ceil_div(run->shape->k, NIB_CPU_QUANT_K);
    if (desc->act_type != NIB_I8)
        return;
    for (int64_t s = 0; s < plan->segments; s++) {
        const unsigned char *scales = run->args->act_scale;
        int64_t at = (run->m0 + row) * blocks + s * plan->segment / NIB_CPU_QUANT_K;
        steps[s * block.width] =
            desc->act_scale == NIB_ACT_SCALE_MX ? run->shape->e8m0[scales[at]] : 1;
    }
}

static void prepare_counts(const nib_cpu_run *run, const direct_plan *plan, row_block block,
                           int64_t row, const direct_parts *parts)
{
    const int8_t *quant = parts->quant + block.first * plan->k_pad + 4 * (row - block.first);
    int32_t *counts = parts->counts + block.first * plan->segments + row - block.first;
    for (int64_t s = 0; s < plan->segments; s++) {
        int64_t k0 = s * plan->segment, count = nib_cpu_min(plan->segment, run->shape->k - k0);
        counts[s * block.width] =
            sum_bytes(quant + k0 * block.width, nib_cpu_ceil_div(count, 4), 4 * block.width);
    }
}

/* Sums of act over each group of a row, for zeros. */
static void prepare_sums(const nib_cpu_run *run, const direct_plan *plan, row_block block,
                         int64_t row, const direct_parts *parts)
{
    const nib_cpu_shape *shape = run->shape;
    int64_t lane = row - block.first, s = 0;
    const float *act = parts->act + block.first * plan->k_pad + lane;
    int64_t segments = block.first * plan->segments + lane;
    float *sums = parts->sums + block.first * shape->groups + lane;
    for (int64_t g = 0; g < shape->groups; g++) {
        int64_t k0 = g * shape->group, end = nib_cpu_min(k0 + shape->group, shape->k);
        float sum = 0;
        if (plan->segments)
            for (; s < plan->segments && s * plan->segment < end; s++)
                sum += (float)parts->counts[segments + s * block.width] *
                       parts->steps[segments + s * block.width];
        else
            sum = sum_floats(act + k0 * block.width, end - k0, block.width);
        sums[g * block.width] = sum;
    }
}

/* Operands of a chunk, by all threads of the team; they are there after a barrier. */
static void prepare(const nib_cpu_team *team, const nib_cpu_run *run, const nib_cpu_isa *isa,
                    const direct_plan *plan, const direct_parts *parts)
{
    int64_t pieces = nib_cpu_ceil_div(run->shape->k, PIECE_K), i, row, end;
    for (nib_cpu_share(team, run->rows * pieces, &i, &end); i < end; i++) {
        if (plan->segments)
            prepare_bytes(run, isa, plan, i / pieces, i % pieces * PIECE_K, parts);
        else
            prepare_floats(run, isa, plan, i / pieces, i % pieces * PIECE_K, parts);
    }
    if (!plan->segments && !plan->sums_bytes)
        return;
    nib_cpu_barrier(team);
    for (nib_cpu_share(team, run->rows, &row, &end); row < end; row++) {
        row_block block = block_of(isa, run->rows, row);
        if (plan->segments) {
            prepare_steps(run, plan, block, row, parts);
            prepare_counts(run, plan, block, row, parts);
        }
        if (plan->sums_bytes)
            prepare_sums(run, plan, block, row, parts);
    }
}

/* Stores a slice's results, or keeps them for the gated pair. */
static void finish(const nib_cpu_run *run, const nib_cpu_isa *isa, const direct_plan *plan,
                   const nib_cpu_direct *slice, int64_t row0, float *gated)
{
    int64_t n0 = slice->n_tile * LANES;
    int64_t count = nib_cpu_min((int64_t)slice->tiles * LANES, run->shape->n - n0);
    for (int r = 0; r < slice->rows; r++) {
        const float *acc = slice->acc + r * slice->ld_acc;
        nib_cpu_store store;
        nib_cpu_store_make(run, run->m0 + row0 + r, &store);
        if (slice->integers) {
            uint32_t sums[SLICE_FLOATS];
            memcpy(sums, acc, sizeof(*sums) * (size_t)count);
            nib_cpu_store_integers(run, run->m0 + row0 + r, n0, sums, count);
        } else if (store.gate) {
            memcpy(gated + (row0 + r) * plan->n_pad + n0, acc, sizeof(*acc) * (size_t)count);
        } else {
            isa->store(&store, acc, NULL, n0, count);
        }
    }
}

/* All rows of the chunk against the n tiles of one job. */
static void run_job(const nib_cpu_kernel *kernel, const nib_cpu_run *run, const direct_plan *plan,
                    const direct_parts *parts, int64_t tile0)
{
    const nib_cpu_isa *isa = kernel->row->isa;
    int64_t tiles = nib_cpu_min(isa->direct_tiles, run->shape->n_tiles - tile0);
    _Alignas(64) float acc[SLICE_FLOATS];
    for (int64_t row = 0; row < run->rows;) {
        row_block block = block_of(isa, run->rows, row);
        nib_cpu_direct slice = {
            .run = run,
            .n_tile = tile0,
            .tiles = (int32_t)tiles,
            .rows = (int32_t)block.width,
            .sums = parts->sums + row * run->shape->groups,
            .act = parts->act + (plan->segments ? 0 : row * plan->k_pad),
            .quant = parts->quant + (plan->segments ? row * plan->k_pad : 0),
            .counts = parts->counts + row * plan->segments,
            .steps = parts->steps + row * plan->segments,
            .segment = plan->segment,
            .segments = plan->segments,
            .integers = run->shape->desc.out_type == NIB_I32,
            .acc = acc,
            .ld_acc = tiles * LANES,
        };
        (kernel->row->schedule == NIB_CPU_DOT ? isa->dot : isa->direct)(&slice);
        finish(run, isa, plan, &slice, row, parts->gated);
        row += block.width;
    }
}

typedef struct direct_work {
    const nib_cpu_call *call;
    direct_plan plan;
    direct_parts parts;
} direct_work;

static void run_direct(void *context, const nib_cpu_team *team)
{
    const direct_work *work = context;
    const nib_cpu_kernel *kernel = work->call->kernel;
    const nib_cpu_isa *isa = kernel->row->isa;
    const nib_gemm_args *args = work->call->args;
    int64_t jobs = nib_cpu_ceil_div(kernel->shape.n_tiles, isa->direct_tiles);
    for (int64_t m0 = 0; m0 < args->m; m0 += work->plan.chunk) {
        nib_cpu_run run =
            nib_cpu_run_make(work->call, m0, nib_cpu_min(work->plan.chunk, args->m - m0));
        prepare(team, &run, isa, &work->plan, &work->parts);
        nib_cpu_barrier(team);
        for (int64_t job; (job = nib_cpu_next(team)) < jobs;)
            run_job(kernel, &run, &work->plan, &work->parts, job * isa->direct_tiles);
        nib_cpu_barrier(team);
        if (work->plan.gated_bytes) {
            nib_cpu_store_gated(team, &run, isa, work->parts.gated, work->plan.n_pad);
            nib_cpu_barrier(team);
        }
    }
}

void nib_cpu_direct_launch(const nib_cpu_call *call)
{
    direct_work work = {.call = call, .plan = make_plan(call->kernel, call->args->m)};
    work.parts = find_parts(&work.plan, call->args->workspace);
    nib_cpu_crew_run(call->kernel->crew, run_direct, &work);
}
