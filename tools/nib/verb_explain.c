/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib explain`: the plan of a product on a device, with every candidate and why it lost.
 */
#include "product.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct explain_call {
    nib_gemm *gemm;
    int64_t m;
} explain_call;

static nib_status explain_print(void *user, char *text, size_t capacity, size_t *needed)
{
    explain_call *call = user;
    return nib_gemm_explain(call->gemm, call->m, text, capacity, needed);
}

typedef struct explain_work {
    tool_case what;
    bool json;
} explain_work;

static tool_exit explain(void *user, nib_device *dev)
{
    const explain_work *work = user;
    const tool_case *what = &work->what;
    bool json = work->json;
    nib_gemm *gemm;
    tool_json out = {.out = stdout};
    nib_status status = nib_gemm_create(dev, &what->desc, &gemm);
    if (status)
        return tool_fail(status);
    if (json)
        tool_json_begin(&out, NULL, '[');
    for (int i = 0; i < what->count && !status; i++) {
        explain_call call = {gemm, what->m[i]};
        /* So that the backend can say what it knows of the kernel; what is wrong with m, explaining
         * says itself. */
        if (call.m > 0 && (status = nib_gemm_prepare(gemm, call.m, call.m)))
            break;
        char *text = tool_print(explain_print, &call, &status);
        if (!text)
            break;
        if (json) {
            tool_json_begin(&out, NULL, '{');
            tool_json_int(&out, "m", what->m[i]);
            tool_json_text(&out, "text", text);
            tool_json_end(&out, '}');
        } else {
            printf("%s%s", i ? "\n" : "", text);
        }
        free(text);
    }
    if (json)
        tool_json_end(&out, ']');
    nib_gemm_destroy(gemm);
    return status ? tool_fail(status) : TOOL_OK;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    tool_case_options product = {0};
    const char *selector = NULL;
    explain_work work = {0};
    const tool_option options[] = {
        {"device", TOOL_TEXT, "NAME", &selector, "auto, cpu, .. ('nib devices')"},
        TOOL_CASE_OPTIONS(product),
        {"json", TOOL_FLAG, NULL, &work.json, "print JSON"},
        {0}};
    int operands;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if ((code = tool_case_from(verb, &product, argv, operands, &work.what)))
        return code;
    return tool_device_with(selector, NULL, explain, &work);
}

const tool_verb tool_verb_explain = {
    .name = "explain",
    .summary = "how a product would run: layout, candidates, why each lost",
    .usage = "[key=value ..] [options]",
    .details = "The product is a description line, options, or both; 'm' may be a list. The\n"
               "chosen kernel is prepared first, so that its device can say what it knows of\n"
               "it: registers, memory, and where its code came from.\n",
    .examples = "  nib explain n=4096 k=4096 w=u4 g=128 z=float:f16 m=1,128\n"
                "  nib explain --n 11008 --k 4096 --w nf4 --group 64 --act bf16\n",
    .run = run,
};
