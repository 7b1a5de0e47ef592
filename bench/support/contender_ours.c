/* SPDX-License-Identifier: Apache-2.0
 *
 * nibblas itself, through its public header only, with the kernels it chooses by itself.
 */
#include "support/contest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ours_state {
    nib_gemm *gemm;
    nib_gemm_args args;
    int copies;
    nib_weights *weights[];
} ours_state;

static int run_ours(bench_contender *self, int copy)
{
    ours_state *s = self->state;
    return nib_gemm_run(s->gemm, s->weights[copy], &s->args);
}

static void destroy_ours(bench_contender *self)
{
    ours_state *s = self->state;
    for (int i = 0; i < s->copies; i++)
        nib_weights_destroy(s->weights[i]);
    nib_gemm_destroy(s->gemm);
    free(s->args.workspace);
    free(s);
}

static double tolerance_of(const nib_gemm_desc *desc)
{
    if (desc->flags & NIB_GEMM_ACT_DYNAMIC_I8)
        return 0.03;
    return desc->out_type == NIB_F32 ? 1e-4 : desc->out_type == NIB_F16 ? 1e-3 : 8e-3;
}

/* Packs the copies; their number follows from the bytes that the first one takes. */
static nib_status pack(ours_state **state, nib_gemm *gemm, const bench_problem *p,
                       const bench_settings *settings, size_t *bytes)
{
    nib_weight_source source = {.size = sizeof(source),
                                .codes = p->codes,
                                .scales = p->scales,
                                .zeros = p->zeros,
                                .alpha = p->alpha};
    nib_weights_info info = {.size = sizeof(info)};
    nib_weights *first;
    nib_status status = nib_weights_pack(gemm, &source, &first);
    if (status)
        return status;
    status = nib_weights_get_info(first, &info);
    int copies = bench_copies(settings, info.packed_bytes);
    ours_state *s = status ? NULL : calloc(1, sizeof(*s) + (size_t)copies * sizeof(void *));
    if (!s) {
        nib_weights_destroy(first);
        return status ? status : NIB_NO_MEMORY;
    }
    *s = (ours_state){.gemm = gemm, .copies = copies};
    s->weights[0] = first;
    *state = s;
    *bytes = info.packed_bytes;
    for (int i = 1; i < copies && !status; i++)
        status = nib_weights_pack(gemm, &source, &s->weights[i]);
    return status;
}

static nib_status set_args(ours_state *s, const bench_problem *p, const nib_gemm_desc *desc,
                           void *out)
{
    size_t bytes;
    nib_status status = nib_gemm_workspace(s->gemm, p->m, &bytes);
    if (status)
        return status;
    bytes = (bytes + 63) / 64 * 64;
    s->args = (nib_gemm_args){.size = sizeof(s->args),
                              .m = p->m,
                              .act = bench_problem_act(p, desc->act_type),
                              .lda = p->weight.k,
                              .act_scale = desc->act_scale ? p->act_i8_scale : NULL,
                              .out = out,
                              .ldo = p->weight.n,
                              .workspace = bytes ? aligned_alloc(64, bytes) : NULL,
                              .workspace_bytes = bytes};
    return nib_gemm_prepare(s->gemm, p->m, p->m);
}

/* The chosen candidate's line of an explanation: "* <variant> <us> us  chosen, ...". */
static void read_plan(nib_gemm *gemm, int64_t m, bench_contender *c)
{
    char text[16384];
    if (nib_gemm_explain(gemm, m, text, sizeof(text), NULL))
        return;
    char *line = strstr(text, "\n* ");
    if (line)
        sscanf(line, "\n* %47s %lf us", c->variant, &c->predicted_us);
}

bool bench_ours_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                     nib_device *dev, const nib_gemm_desc *desc)
{
    bool i8 = desc->act_type == NIB_I8;
    if (!bench_problem_act(p, desc->act_type) || desc->bias_type || desc->epilogue ||
        desc->out_type == NIB_I32 ||
        desc->act_scale != (i8 ? NIB_ACT_SCALE_ROW : NIB_ACT_SCALE_NONE)) {
        fprintf(stderr, "bench: timed are a=f32, f16, bf16 without scales and a=i8 as=row, "
                        "without bias and epilogue, o=f32, f16 or bf16\n");
        return false;
    }
    *c = (bench_contender){.kind = BENCH_OURS,
                           .run = run_ours,
                           .out_type = desc->out_type,
                           .i8 = i8,
                           .tolerance = tolerance_of(desc),
                           .error = -1};
    snprintf(c->name, sizeof(c->name), "nibblas a=%s%s", nib_type_name(desc->act_type),
             desc->flags & NIB_GEMM_ACT_DYNAMIC_I8 ? " dynamic i8" : "");
    nib_gemm *gemm = NULL;
    ours_state *s = NULL;
    c->out = aligned_alloc(64, ((size_t)(p->m * p->weight.n) * sizeof(float) + 63) / 64 * 64);
    nib_status status = c->out ? nib_gemm_create(dev, desc, &gemm) : NIB_NO_MEMORY;
    if (!status)
        read_plan(gemm, p->m, c);
    if (!status)
        status = pack(&s, gemm, p, settings, &c->bytes);
    if (!status)
        status = set_args(s, p, desc, c->out);
    if (s) {
        c->state = s;
        c->destroy = destroy_ours;
        c->copies = s->copies;
    } else {
        nib_gemm_destroy(gemm);
    }
    if (status) {
        fprintf(stderr, "bench: %s: %s: %s\n", c->name, nib_status_name(status),
                nib_last_message());
        bench_contender_free(c);
    }
    return !status;
}
