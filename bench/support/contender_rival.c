/* SPDX-License-Identifier: Apache-2.0
 *
 * Other libraries, opened at run time: adapters of rival.h, and cblas_sgemm of an OpenBLAS.
 */
#include "support/contest.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rival_state {
    const nib_rival *rival;
    const bench_problem *p;
    int copies;
    void *weights[];
} rival_state;

static int run_rival(bench_contender *self, int copy)
{
    rival_state *s = self->state;
    return s->rival->run(s->weights[copy], s->p->m, s->p->act, self->out);
}

static void destroy_rival(bench_contender *self)
{
    rival_state *s = self->state;
    for (int i = 0; i < s->copies; i++)
        if (s->weights[i])
            s->rival->destroy(s->weights[i]);
    free(s);
}

static float *make_out(const bench_problem *p)
{
    return aligned_alloc(64, ((size_t)(p->m * p->weight.n) * sizeof(float) + 63) / 64 * 64);
}

bool bench_rival_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                      const nib_rival *rival)
{
    size_t bytes = (size_t)(p->weight.n * p->groups) * 18;
    int copies = bench_copies(settings, bytes);
    rival_state *s = calloc(1, sizeof(*s) + (size_t)copies * sizeof(void *));
    if (!s)
        return false;
    *s = (rival_state){.rival = rival, .p = p, .copies = copies};
    *c = (bench_contender){.kind = BENCH_RIVAL,
                           .bytes = bytes,
                           .copies = copies,
                           .run = run_rival,
                           .destroy = destroy_rival,
                           .state = s,
                           .out = make_out(p),
                           .out_type = NIB_F32,
                           .tolerance = 0.03, /* it may round activations to 8 bits */
                           .error = -1};
    snprintf(c->name, sizeof(c->name), "%s", rival->name);
    for (int i = 0; i < copies; i++) {
        s->weights[i] =
            rival->create(p->weight.n, p->weight.k, p->q4_0, p->m, (int32_t)settings->threads);
        if (!s->weights[i] || !c->out) {
            fprintf(stderr, "bench: %s cannot take %lld x %lld\n", rival->name,
                    (long long)p->weight.n, (long long)p->weight.k);
            bench_contender_free(c);
            return false;
        }
    }
    return true;
}

/* The parts of cblas.h that are used, by the reference BLAS standard. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);

typedef struct openblas_state {
    sgemm_fn sgemm;
    const bench_problem *p;
    bool transposed;
    int copies;
    float *dense[];
} openblas_state;

static int run_openblas(bench_contender *self, int copy)
{
    openblas_state *s = self->state;
    int m = (int)s->p->m, n = (int)s->p->weight.n, k = (int)s->p->weight.k;
    s->sgemm(ROW_MAJOR, NO_TRANS, s->transposed ? NO_TRANS : TRANS, m, n, k, 1, s->p->act, k,
             s->dense[copy], s->transposed ? n : k, 0, self->out, n);
    return 0;
}

static void destroy_openblas(bench_contender *self)
{
    openblas_state *s = self->state;
    for (int i = 0; i < s->copies; i++)
        free(s->dense[i]);
    free(s);
}

static float *copy_dense(const bench_problem *p, bool transposed)
{
    int64_t n = p->weight.n, k = p->weight.k, tile = 64;
    float *to = aligned_alloc(64, ((size_t)(n * k) * sizeof(float) + 63) / 64 * 64);
    if (to && !transposed)
        memcpy(to, p->dense, (size_t)(n * k) * sizeof(float));
    if (!to || !transposed)
        return to;
    for (int64_t i0 = 0; i0 < n; i0 += tile)
        for (int64_t j0 = 0; j0 < k; j0 += tile)
            for (int64_t i = i0; i < i0 + tile && i < n; i++)
                for (int64_t j = j0; j < j0 + tile && j < k; j++)
                    to[j * n + i] = p->dense[i * k + j];
    return to;
}

bool bench_openblas_make(bench_contender *c, const bench_problem *p, const bench_settings *settings,
                         void *library, bool transposed)
{
    sgemm_fn sgemm;
    void (*set_threads)(int);
    *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (!sgemm || !set_threads) {
        fprintf(stderr, "bench: the library has no cblas_sgemm or no openblas_set_num_threads\n");
        return false;
    }
    set_threads(settings->threads);
    size_t bytes = (size_t)(p->weight.n * p->weight.k) * sizeof(float);
    int copies = bench_copies(settings, bytes);
    openblas_state *s = calloc(1, sizeof(*s) + (size_t)copies * sizeof(float *));
    if (!s)
        return false;
    *s = (openblas_state){.sgemm = sgemm, .p = p, .transposed = transposed, .copies = copies};
    *c = (bench_contender){.kind = BENCH_RIVAL,
                           .bytes = bytes,
                           .copies = copies,
                           .run = run_openblas,
                           .destroy = destroy_openblas,
                           .state = s,
                           .out = make_out(p),
                           .out_type = NIB_F32,
                           .tolerance = 1e-4,
                           .error = -1};
    snprintf(c->name, sizeof(c->name), "openblas f32 W%s", transposed ? " [k,n]" : " [n,k]");
    for (int i = 0; i < copies; i++) {
        s->dense[i] = copy_dense(p, transposed);
        if (!s->dense[i] || !c->out) {
            bench_contender_free(c);
            return false;
        }
    }
    return true;
}
