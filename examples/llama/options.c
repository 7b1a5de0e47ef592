/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and the help that lists them. A new option is a line in each of the three tables here.
 */
#include "options.h"

#include "error.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const char llama_usage[] =
    "usage: nib-llama -m MODEL.gguf -p PROMPT [option...]\n"
    "       nib-llama -m MODEL.gguf --teacher FILE [--bound X]\n"
    "       nib-llama --synthetic -p PROMPT [option...]\n"
    "       nib-llama --write-synthetic FILE\n"
    "\n"
    "Writes text with a Llama model whose linear layers all run in nibblas.\n"
    "\n"
    "  -m, --model FILE      GGUF file: llama architecture, byte-level BPE\n"
    "  -p, --prompt TEXT     what to answer or to continue; '-' reads standard input\n"
    "  -n, --max-tokens N    tokens to write at most (128)\n"
    "      --chat            wrap the prompt in the model's chat template, or fail\n"
    "      --no-chat         continue the prompt as it is (by default, chat is used\n"
    "                        if the model's template is understood)\n"
    "      --system TEXT     system text of the chat (the template's own)\n"
    "      --temp T          temperature; 0 takes the likeliest token (0)\n"
    "      --top-p P         sample among the likeliest tokens of this mass (0.95)\n"
    "      --seed N          of the random choices (1)\n"
    "      --ignore-end      write on when the model ends its text\n"
    "      --device NAME     nibblas device, as 'nib devices' lists them (auto)\n"
    "      --threads N       CPU threads (what OMP_NUM_THREADS and the system give)\n"
    "      --act TYPE        activations of the products: f32, f16, bf16, or i8dyn,\n"
    "                        which rounds f32 to i8 with a scale per 32 (f32 on the\n"
    "                        CPU and with --teacher, else f16)\n"
    "      --kv TYPE         key-value cache: f16 or f32 (f16)\n"
    "      --batch N         prompt tokens per pass, 1..256 (256)\n"
    "      --json            print one JSON object with text and figures instead\n"
    "  -q, --quiet           print the text only\n"
    "      --logits-dump FILE  write the largest logits of each step, in the format\n"
    "                        that --teacher reads\n"
    "      --teacher FILE    compare logits with a reference, teacher-forced\n"
    "      --bound X         largest difference of a logit that --teacher accepts\n"
    "                        (0.05)\n"
    "      --synthetic       instead of -m: a small model with random weights made\n"
    "                        on the spot; its text means nothing\n"
    "      --write-synthetic FILE  write that model as a GGUF file and stop\n"
    "  -h, --help            print this\n"
    "      --version         print the version of nibblas\n"
    "\n"
    "Text goes to standard output, all else to standard error.\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 --teacher found a difference.\n";

enum {
    OPT_CHAT = 256, OPT_NO_CHAT, OPT_SYSTEM, OPT_TEMP, OPT_TOP_P, OPT_SEED, OPT_IGNORE_END,
    OPT_DEVICE, OPT_THREADS, OPT_ACT, OPT_KV, OPT_BATCH, OPT_JSON, OPT_LOGITS_DUMP, OPT_TEACHER,
    OPT_BOUND, OPT_SYNTHETIC, OPT_WRITE_SYNTHETIC, OPT_VERSION
};

static const struct option long_options[] = {
    {"model",       required_argument, NULL, 'm'},
    {"prompt",      required_argument, NULL, 'p'},
    {"max-tokens",  required_argument, NULL, 'n'},
    {"chat",        no_argument,       NULL, OPT_CHAT},
    {"no-chat",     no_argument,       NULL, OPT_NO_CHAT},
    {"system",      required_argument, NULL, OPT_SYSTEM},
    {"temp",        required_argument, NULL, OPT_TEMP},
    {"top-p",       required_argument, NULL, OPT_TOP_P},
    {"seed",        required_argument, NULL, OPT_SEED},
    {"ignore-end",  no_argument,       NULL, OPT_IGNORE_END},
    {"device",      required_argument, NULL, OPT_DEVICE},
    {"threads",     required_argument, NULL, OPT_THREADS},
    {"act",         required_argument, NULL, OPT_ACT},
    {"kv",          required_argument, NULL, OPT_KV},
    {"batch",       required_argument, NULL, OPT_BATCH},
    {"json",        no_argument,       NULL, OPT_JSON},
    {"quiet",       no_argument,       NULL, 'q'},
    {"logits-dump", required_argument, NULL, OPT_LOGITS_DUMP},
    {"teacher",     required_argument, NULL, OPT_TEACHER},
    {"bound",       required_argument, NULL, OPT_BOUND},
    {"synthetic",   no_argument,       NULL, OPT_SYNTHETIC},
    {"write-synthetic", required_argument, NULL, OPT_WRITE_SYNTHETIC},
    {"help",        no_argument,       NULL, 'h'},
    {"version",     no_argument,       NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};
/* clang-format on */

static nib_status parse_int(const char *option, const char *text, int64_t least, int64_t most,
                            int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most)
        return llama_fail(NIB_INVALID, "%s '%s': must be a whole number within %lld..%lld", option,
                          text, (long long)least, (long long)most);
    *value = number;
    return NIB_OK;
}

static nib_status parse_real(const char *option, const char *text, double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end)
        return llama_fail(NIB_INVALID, "%s '%s': must be a number", option, text);
    *value = number;
    return NIB_OK;
}

static nib_status parse_act(const char *text, llama_engine_options *engine)
{
    engine->act_dynamic_i8 = !strcmp(text, "i8dyn");
    if (!strcmp(text, "f32") || engine->act_dynamic_i8)
        engine->act_type = NIB_F32;
    else if (!strcmp(text, "f16"))
        engine->act_type = NIB_F16;
    else if (!strcmp(text, "bf16"))
        engine->act_type = NIB_BF16;
    else
        return llama_fail(NIB_INVALID, "--act '%s': must be f32, f16, bf16 or i8dyn", text);
    return NIB_OK;
}

static nib_status parse_kv(const char *text, nib_type *type)
{
    if (strcmp(text, "f16") && strcmp(text, "f32"))
        return llama_fail(NIB_INVALID, "--kv '%s': must be f16 or f32", text);
    *type = !strcmp(text, "f16") ? NIB_F16 : NIB_F32;
    return NIB_OK;
}

/* Options that take a number or a name. */
static nib_status parse_value(int option, const char *text, llama_options *o)
{
    int64_t seed = 0;
    switch (option) {
    case 'n':
        return parse_int("-n", text, 1, (int64_t)1 << 24, &o->tokens);
    case OPT_TEMP:
        return parse_real("--temp", text, &o->temperature);
    case OPT_TOP_P:
        return parse_real("--top-p", text, &o->top_p);
    case OPT_BOUND:
        return parse_real("--bound", text, &o->bound);
    case OPT_THREADS:
        return parse_int("--threads", text, 1, 4096, &o->threads);
    case OPT_BATCH:
        return parse_int("--batch", text, 1, LLAMA_BATCH_MAX, &o->batch);
    case OPT_ACT:
        return parse_act(text, &o->engine);
    case OPT_KV:
        return parse_kv(text, &o->cache_type);
    case OPT_SEED:
        if (parse_int("--seed", text, 0, INT64_MAX, &seed) != NIB_OK)
            return NIB_INVALID;
        o->seed = (uint64_t)seed;
        return NIB_OK;
    }
    return llama_fail(NIB_INVALID, "unknown option; 'nib-llama --help' lists all");
}

static nib_status parse_option(int option, char *text, llama_options *o)
{
    switch (option) {
    case 'm':
        o->model = text;
        return NIB_OK;
    case 'p':
        o->prompt = text;
        return NIB_OK;
    case 'q':
        o->quiet = true;
        return NIB_OK;
    case OPT_CHAT:
        o->chat = LLAMA_CHAT_ON;
        return NIB_OK;
    case OPT_NO_CHAT:
        o->chat = LLAMA_CHAT_OFF;
        return NIB_OK;
    case OPT_SYSTEM:
        o->system = text;
        return NIB_OK;
    case OPT_IGNORE_END:
        o->ignore_end = true;
        return NIB_OK;
    case OPT_DEVICE:
        o->engine.device = text;
        return NIB_OK;
    case OPT_JSON:
        o->json = true;
        return NIB_OK;
    case OPT_LOGITS_DUMP:
        o->logits_dump = text;
        return NIB_OK;
    case OPT_TEACHER:
        o->teacher = text;
        return NIB_OK;
    case OPT_SYNTHETIC:
        o->synthetic = true;
        return NIB_OK;
    case OPT_WRITE_SYNTHETIC:
        o->write_synthetic = text;
        return NIB_OK;
    }
    return parse_value(option, text, o);
}

static nib_status check(const llama_options *o, int argc, char **argv)
{
    if (optind < argc)
        return llama_fail(NIB_INVALID, "'%s' is no option; the prompt goes after -p", argv[optind]);
    if (o->write_synthetic)
        return NIB_OK;
    if (!o->model == !o->synthetic)
        return llama_fail(NIB_INVALID, "%s; name a GGUF file with -m, or give --synthetic",
                          o->model ? "two models" : "no model");
    if (!o->prompt && !o->teacher)
        return llama_fail(NIB_INVALID, "no prompt; give one with -p");
    if (!(o->temperature >= 0 && o->temperature <= 100))
        return llama_fail(NIB_INVALID, "--temp %g: must be within 0..100", o->temperature);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return llama_fail(NIB_INVALID, "--top-p %g: must be above 0 and at most 1", o->top_p);
    return NIB_OK;
}

nib_status llama_options_parse(int argc, char **argv, llama_options *out, llama_intent *intent)
{
    llama_options o = {
        .tokens = 128, .cache_type = NIB_F16, .top_p = 0.95, .bound = 0.05, .seed = 1};
    nib_status status = NIB_OK;
    *intent = LLAMA_INTENT_RUN;
    opterr = 0;
    optind = 1;
    int option;
    while ((option = getopt_long(argc, argv, ":m:p:n:qh", long_options, NULL)) != -1) {
        if (option == 'h' || option == OPT_VERSION) {
            *intent = option == 'h' ? LLAMA_INTENT_HELP : LLAMA_INTENT_VERSION;
            return NIB_OK;
        }
        if (option == ':')
            return llama_fail(NIB_INVALID, "%s needs a value", argv[optind - 1]);
        if (option == '?')
            return llama_fail(NIB_INVALID, "%s is no option, or takes no value", argv[optind - 1]);
        if ((status = parse_option(option, optarg, &o)) != NIB_OK)
            return status;
    }
    status = check(&o, argc, argv);
    if (o.teacher && o.engine.act_type == NIB_TYPE_NONE)
        o.engine.act_type = NIB_F32;
    if (status == NIB_OK)
        *out = o;
    return status;
}
