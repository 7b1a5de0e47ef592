/* SPDX-License-Identifier: Apache-2.0
 *
 * `nib gemm`: one product with random operands, run, checked and timed.
 */
#include "product.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_BUDGET  3e8
#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define LABEL_COLUMNS 9 /* what a line begins with */
#define LINE_COLUMNS  80

typedef struct gemm_options {
    tool_case_options product;
    const char *device, *act_from;
    int64_t seed;
    double seconds;
    bool check, time, cold, json;
    tool_startup startup;
} gemm_options;

typedef struct gemm_result {
    int64_t m;
    tool_check check;
    tool_timing timing;
} gemm_result;

static nib_status print_desc(void *user, char *text, size_t capacity, size_t *needed)
{
    return nib_gemm_desc_print(user, text, capacity, needed);
}

static void say_check(const tool_check *c)
{
    if (c->wrong)
        printf("  check    WRONG: %" PRId64 " of %" PRId64 " checked outputs; worst at row %" PRId64
               " column %" PRId64 ":\n           %.9g instead of %.9g, bound %.3g\n",
               c->wrong, c->checked, c->row, c->col, c->found, c->expected, c->bound);
    else
        printf("  check    ok: %" PRId64 " of %" PRId64 " outputs, worst error %.2f of its bound\n",
               c->checked, c->outputs, c->worst);
}

static void say_time(const tool_runner *r, const tool_timing *t, const tool_product *p, int64_t m,
                     const nib_device_info *info)
{
    char low[32], median[32], high[32];
    double flop = 2.0 * (double)m * (double)p->desc.weight.n * (double)p->desc.weight.k;
    double gb_per_s = (double)r->packed_bytes / t->median_us * 1e-3;
    printf("  run      %s median of %" PRId64 " (least %s, 90th percentile %s)\n",
           tool_format_us(median, t->median_us), t->runs, tool_format_us(low, t->min_us),
           tool_format_us(high, t->high_us));
    printf("           by the %s clock\n", t->device ? "device's" : "host's");
    printf("  rate     %.1f GB/s of packed weights", gb_per_s);
    if (info->read_gb_per_s > 0)
        printf(" (%.0f%% of the nominal read bandwidth)", 100 * gb_per_s / info->read_gb_per_s);
    printf("\n           %.1f GFLOP/s%s\n", flop / t->median_us * 1e-3,
           r->copies > 1 ? ", cold weights" : "");
}

/* Everything from opening the library to the first result, but for what only makes the operands. */
static double first_result_us(const tool_startup *s, const tool_runner *r)
{
    return s->library_us + s->device_us + r->create_us + r->pack_us + r->upload_us + r->prepare_us +
           r->first_us;
}

static void say_images(const tool_startup *s)
{
    static const char *const from[] = {"from packs", "from the cache", "compiled"};
    char text[32];
    bool any = false;
    for (int i = 0; i < 3; i++)
        if (s->images[i].count) {
            printf("%s%d %s in %s", any ? ", " : "images   ", s->images[i].count, from[i],
                   tool_format_us(text, s->images[i].us));
            any = true;
        }
    if (any)
        printf("; loaded in %s:\n%*spart of pack and prepare\n", tool_format_us(text, s->loads.us),
               LABEL_COLUMNS, "");
}

static void say_start(const tool_startup *s, const tool_runner *r)
{
    const struct {
        const char *name;
        double us;
    } parts[] = {{"library", s->library_us}, {"device", s->device_us},
                 {"create", r->create_us},   {"pack", r->pack_us},
                 {"upload", r->upload_us},   {"prepare", r->prepare_us},
                 {"first run", r->first_us}, {"second run", r->second_us}};
    char text[32], part[96];
    int column = printf("set up   ");
    for (size_t i = 0; i < COUNT(parts); i++) {
        int length =
            snprintf(part, sizeof(part), "%s %s", parts[i].name, tool_format_us(text, parts[i].us));
        if (i == 1 && s->driver_us > 0)
            length += snprintf(part + length, sizeof(part) - (size_t)length, " (its driver %s)",
                               tool_format_us(text, s->driver_us));
        if (i && column + 3 + length > LINE_COLUMNS) /* a comma before and one behind */
            column = printf(",\n%*s%s", LABEL_COLUMNS, "", part) - 2;
        else
            column += printf("%s%s", i ? ", " : "", part);
    }
    printf("\n");
    say_images(s);
    printf("first    result after %s", tool_format_us(text, first_result_us(s, r)));
    if (s->driver_us > 0)
        printf(", %s on top of the driver's start",
               tool_format_us(text, first_result_us(s, r) - s->driver_us));
    printf("\n");
}

static void say(const gemm_options *o, const tool_runner *r, const tool_product *p,
                const nib_device_info *info, const gemm_result *results, int count,
                const char *line)
{
    char bytes[32];
    printf("product  %s\ndevice   %s: %s, %s\n", line, info->selector, info->name, info->isa);
    printf("weights  %s packed\n", tool_format_bytes(bytes, (double)r->packed_bytes));
    if (o->time)
        say_start(&o->startup, r);
    for (int i = 0; i < count; i++) {
        printf("m = %" PRId64 "\n", results[i].m);
        if (o->check)
            say_check(&results[i].check);
        if (o->time)
            say_time(r, &results[i].timing, p, results[i].m, info);
        if (!o->check && !o->time)
            puts("  ran");
    }
}

static void say_json(const gemm_options *o, const tool_runner *r, const nib_device_info *info,
                     const gemm_result *results, int count, const char *line)
{
    tool_json out = {.out = stdout};
    tool_json_begin(&out, NULL, '{');
    tool_json_text(&out, "product", line);
    tool_json_text(&out, "device", info->selector);
    tool_json_text(&out, "isa", info->isa);
    tool_json_int(&out, "packed_bytes", (int64_t)r->packed_bytes);
    const tool_startup *start = &o->startup;
    tool_json_real(&out, "context_us", start->library_us + start->device_us);
    tool_json_real(&out, "library_us", start->library_us);
    tool_json_real(&out, "device_us", start->device_us);
    tool_json_real(&out, "driver_us", start->driver_us);
    tool_json_real(&out, "create_us", r->create_us);
    tool_json_real(&out, "pack_us", r->pack_us);
    tool_json_real(&out, "upload_us", r->upload_us);
    tool_json_real(&out, "prepare_us", r->prepare_us);
    tool_json_real(&out, "first_run_us", r->first_us);
    tool_json_real(&out, "second_run_us", r->second_us);
    tool_json_real(&out, "first_result_us", first_result_us(start, r));
    static const char *const images[][2] = {{"images_from_packs", "images_from_packs_us"},
                                            {"images_from_cache", "images_from_cache_us"},
                                            {"images_compiled", "images_compiled_us"}};
    for (int i = 0; i < 3; i++) {
        tool_json_int(&out, images[i][0], start->images[i].count);
        tool_json_real(&out, images[i][1], start->images[i].us);
    }
    tool_json_real(&out, "images_load_us", start->loads.us);
    tool_json_begin(&out, "runs", '[');
    for (int i = 0; i < count; i++) {
        const gemm_result *one = &results[i];
        tool_json_begin(&out, NULL, '{');
        tool_json_int(&out, "m", one->m);
        if (o->check) {
            tool_json_int(&out, "outputs", one->check.outputs);
            tool_json_int(&out, "checked", one->check.checked);
            tool_json_int(&out, "wrong", one->check.wrong);
            tool_json_real(&out, "worst_share_of_bound", one->check.worst);
        }
        if (o->time) {
            tool_json_int(&out, "count", one->timing.runs);
            tool_json_text(&out, "clock", one->timing.device ? "device" : "host");
            tool_json_real(&out, "min_us", one->timing.min_us);
            tool_json_real(&out, "median_us", one->timing.median_us);
            tool_json_real(&out, "p90_us", one->timing.high_us);
        }
        tool_json_end(&out, '}');
    }
    tool_json_end(&out, ']');
    tool_json_end(&out, '}');
}

static tool_exit run_rows(const gemm_options *o, tool_runner *r, tool_product *p,
                          gemm_result *result)
{
    tool_exit code;
    void *out = malloc(p->out_bytes + 1);
    if (!out)
        return tool_error(TOOL_NO_MEMORY, "no memory for the result");
    /* What a kernel forgets to write must not look like a result. */
    memset(out, 0xff, p->out_bytes + 1);
    code = tool_runner_run(r, p, result->m, out);
    if (!code && o->check)
        code = tool_product_check(p, result->m, out, CHECK_BUDGET, &result->check);
    if (!code && o->time)
        code = tool_runner_time(r, result->m, o->seconds, &result->timing);
    free(out);
    return code;
}

typedef struct gemm_work {
    gemm_options options;
    tool_case what;
} gemm_work;

static tool_exit widen(const gemm_options *o, tool_product *product)
{
    nib_type from = NIB_TYPE_NONE;
    nib_status status = nib_type_parse(o->act_from, &from);
    return status ? tool_fail(status) : tool_product_widen(product, from, (uint64_t)o->seed);
}

static tool_exit run_product(void *user, nib_device *dev)
{
    const gemm_work *work = user;
    const gemm_options *o = &work->options;
    const tool_case *what = &work->what;
    gemm_result results[TOOL_MAX_M] = {0};
    nib_device_info info = {.size = sizeof(info)};
    tool_product product = {0};
    tool_runner runner = {0};
    int64_t most = 0, wrong = 0;
    nib_status status = nib_device_get_info(dev, &info);
    char *line = status ? NULL : tool_print(print_desc, (void *)&what->desc, &status);
    if (status)
        return tool_fail(status);
    for (int i = 0; i < what->count; i++)
        most = what->m[i] > most ? what->m[i] : most;
    tool_exit code = tool_product_create(&what->desc, most, (uint64_t)o->seed, &product);
    if (!code && o->act_from)
        code = widen(o, &product);
    if (!code)
        code = tool_runner_create(dev, &product, o->cold, &runner);
    for (int i = 0; i < what->count && !code; i++) {
        results[i].m = what->m[i];
        code = run_rows(o, &runner, &product, &results[i]);
        wrong += results[i].check.wrong;
    }
    if (!code && o->json)
        say_json(o, &runner, &info, results, what->count, line);
    else if (!code)
        say(o, &runner, &product, &info, results, what->count, line);
    tool_runner_destroy(&runner);
    tool_product_destroy(&product);
    free(line);
    return code ? code : wrong ? TOOL_WRONG : TOOL_OK;
}

static tool_exit run(const tool_verb *verb, int argc, char **argv)
{
    gemm_work work = {.options = {.seed = 1, .seconds = 0.5}};
    gemm_options *o = &work.options;
    const tool_option options[] = {
        {"device", TOOL_TEXT, "NAME", &o->device, "auto, cpu, .. ('nib devices')"},
        {"check", TOOL_FLAG, NULL, &o->check, "compare with the product in double"},
        {"time", TOOL_FLAG, NULL, &o->time, "time each part, and runs"},
        {"seconds", TOOL_REAL, "S", &o->seconds, "how long to time (0.5)"},
        {"act-from", TOOL_TEXT, "TYPE", &o->act_from,
         "round activations from f16, bf16, f32 first"},
        {"cold", TOOL_FLAG, NULL, &o->cold, "rotate copies of the weights beyond the cache"},
        {"seed", TOOL_INT, "N", &o->seed, "of the random operands (1)"},
        TOOL_CASE_OPTIONS(o->product),
        {"json", TOOL_FLAG, NULL, &o->json, "print JSON"},
        {"verbose", TOOL_FLAG, NULL, &o->startup.verbose, "show the library's log"},
        {0}};
    int operands;
    tool_exit code;
    if (!tool_parse(verb, options, argc, argv, &operands, &code))
        return code;
    if ((code = tool_case_from(verb, &o->product, argv, operands, &work.what)))
        return code;
    return tool_device_with(o->device, &o->startup, run_product, &work);
}

const tool_verb tool_verb_gemm = {
    .name = "gemm",
    .summary = "run one product; check it, time it",
    .usage = "[key=value ..] [--check] [--time] [options]",
    .details = "The product is a description line, options, or both; 'm' may be a list.\n"
               "Exit code 1 says that a check failed. --time shows the parts of the way to a\n"
               "first result in this process, then runs: by the device's own clock where it\n"
               "has one, queued up so that the host does not hold it up.\n",
    .examples = "  nib gemm n=4096 k=4096 w=u4 g=128 z=float:f16 m=1 --check --time\n"
                "  nib gemm --n 14336 --k 4096 --w i4 --group 32 --m 1,128 --time --cold\n"
                "  nib gemm n=4096 k=4096 w=i4 a=e4m3 as=row m=512 --act-from f16 --time\n"
                "  NIB_DEVICE=cpu nib gemm n=33 k=77 w=u3 g=25 a=bf16 m=5 --check --json\n",
    .run = run,
};
