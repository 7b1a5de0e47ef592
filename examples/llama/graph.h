/* SPDX-License-Identifier: Apache-2.0
 *
 * A text in the making: the cache of one sequence and the buffers of a pass through the model.
 */
#ifndef LLAMA_GRAPH_H
#define LLAMA_GRAPH_H

#include "attention.h"
#include "model.h"

typedef struct llama_session {
    llama_model *model; /* its engine counts time: one session runs at a time */
    llama_cache cache;
    int64_t position;     /* tokens evaluated */
    int64_t batch;        /* rows a pass takes at most */
    float *x, *norm;      /* [batch][embed] */
    float *q, *mixed;     /* [batch][heads * head_dim] */
    float *k, *v;         /* [batch][kv_heads * head_dim] */
    float *gate, *up;     /* [batch][ff] */
    float *cosine, *sine; /* [batch][rope_dims / 2] */
    float *logits;        /* [vocab], of the last token evaluated */
    void *memory;         /* all of the buffers above */
} llama_session;

typedef struct llama_session_options {
    int64_t context;     /* positions of the cache */
    int64_t batch;       /* 1..LLAMA_BATCH_MAX; 0: the largest that the context needs */
    nib_type cache_type; /* NIB_F16 or NIB_F32 */
} llama_session_options;

nib_status llama_session_create(llama_model *model, const llama_session_options *options,
                                llama_session **out);
void llama_session_destroy(llama_session *session);

/* Evaluates tokens at the next positions and leaves the logits of the last one in session->logits.
 * NIB_INVALID: more than the context holds, or no token of the vocabulary. */
nib_status llama_session_eval(llama_session *session, const int32_t *tokens, int64_t count);

/* Forgets all positions. */
void llama_session_reset(llama_session *session);

#endif
