/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: loading backends and the log hook.
 */
#include "base/struct.h"
#include "config/env.h"
#include "registry/registry.h"

#include <stdlib.h>

struct nib_context {
    nib_log_sink sink; /* linked if it has a function */
};

nib_status nib_context_create(const nib_context_options *options, nib_context **out)
{
    nib_context_options given = {.size = sizeof(given)};
    nib_status status = NIB_OK;
    if (!out)
        return nib_fail(NIB_INVALID, "nib_context_create needs a place for the context");
    if (options)
        status =
            nib_struct_read(&given, sizeof(given), options, sizeof(given), "nib_context_options");
    if (status)
        return status;
    nib_context *ctx = malloc(sizeof(*ctx));
    if (!ctx)
        return nib_fail(NIB_NO_MEMORY, "no memory for a context");
    ctx->sink = (nib_log_sink){.log = given.log, .user = given.log_user};
    if (given.log)
        nib_log_add(&ctx->sink);
    status =
        nib_registry_load(given.backend_path ? given.backend_path : nib_env("NIB_BACKEND_PATH"));
    if (status) {
        nib_context_destroy(ctx);
        return status;
    }
    *out = ctx;
    return NIB_OK;
}

void nib_context_destroy(nib_context *ctx)
{
    if (!ctx)
        return;
    if (ctx->sink.log)
        nib_log_remove(&ctx->sink);
    free(ctx);
}
