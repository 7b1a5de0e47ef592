/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with random operands, for the verbs that run some: described by a line, filled from a
 * seed, checked against a product computed here in double, and timed.
 */
#ifndef NIB_TOOL_PRODUCT_H
#define NIB_TOOL_PRODUCT_H

#include "tool.h"

/* ---- cases: a product's line with one more key, m=1,16,128 ---- */

#define TOOL_MAX_M      16
#define TOOL_LINE_BYTES 1024

typedef struct tool_case {
    nib_gemm_desc desc;
    int count;
    int64_t m[TOOL_MAX_M]; /* as many as the line says, at least one: 1 if it does not */
} tool_case;

/* Parses a line, which may be written over several words. Complains and answers the exit code. */
tool_exit tool_case_parse(const char *line, tool_case *out);
/* The keys of a line as options, --n 4096 for n=4096, for verbs that take one product. */
typedef struct tool_case_options {
    const char *n, *k, *w, *g, *s, *z, *wf, *a, *acc, *o, *as, *b, *e, *f, *m;
} tool_case_options;
/* clang-format off */
#define TOOL_CASE_OPTIONS(case_) \
    {"n", TOOL_TEXT, "N", &(case_).n, "output features"}, \
    {"k", TOOL_TEXT, "K", &(case_).k, "input features"}, \
    {"m", TOOL_TEXT, "M[,M..]", &(case_).m, "rows of activations (1)"}, \
    {"w", TOOL_TEXT, "TYPE", &(case_).w, "weight type: u1..u8 i1..i8 nf4 e2m1 lut4 .. (i4)"}, \
    {"group", TOOL_TEXT, "G", &(case_).g, "inputs a scale: a number, row or tensor (row)"}, \
    {"scale", TOOL_TEXT, "TYPE", &(case_).s, "f16 bf16 f32 e8m0 e4m3 none (f16)"}, \
    {"zero", TOOL_TEXT, "MODE", &(case_).z, "none, code, float:TYPE, rescale:TYPE (none)"}, \
    {"weight-flags", TOOL_TEXT, "LIST", &(case_).wf, "g_idx: groups in act-order"}, \
    {"act", TOOL_TEXT, "TYPE", &(case_).a, "activations: f32 f16 bf16 e4m3 e5m2 i8 (f16)"}, \
    {"acc", TOOL_TEXT, "TYPE", &(case_).acc, "accumulator: f32 f16 i32 (f32)"}, \
    {"out", TOOL_TEXT, "TYPE", &(case_).o, "output: f16 bf16 f32 i32 (as act)"}, \
    {"act-scale", TOOL_TEXT, "MODE", &(case_).as, "none tensor row mx (none)"}, \
    {"bias", TOOL_TEXT, "TYPE", &(case_).b, "f16 bf16 f32 none (none)"}, \
    {"epilogue", TOOL_TEXT, "NAME", &(case_).e, "none relu gelu silu silu_gated (none)"}, \
    {"flags", TOOL_TEXT, "LIST", &(case_).f, "batch_invariant,nondeterministic,act_dynamic_i8"}
/* clang-format on */
/* Options and operands together make the line. */
tool_exit tool_case_from(const tool_verb *verb, const tool_case_options *options, char **words,
                         int count, tool_case *out);

/* ---- operands ---- */

typedef struct tool_product {
    nib_gemm_desc desc;
    int64_t m, groups, out_cols;
    nib_weight_source source; /* plain codes; points at the arrays below */
    uint8_t *codes;
    void *scales, *zeros;
    int32_t *g_idx;
    float *table;
    void *act, *bias;
    void *act_scale;
    size_t act_bytes, bias_bytes, act_scale_bytes, out_bytes;
    /* Activations before they are rounded to act_type on the device; NONE: act is random itself. */
    nib_type act_from;
    void *wide;
    size_t wide_bytes;
} tool_product;

/* Makes the operands of a canonical product for m rows. */
tool_exit tool_product_create(const nib_gemm_desc *desc, int64_t m, uint64_t seed,
                              tool_product *out);
void tool_product_destroy(tool_product *product);
/* Gives a product with act_type i8, e4m3 or e5m2 and a scale a row or a tensor random activations
 * in f16, bf16 or f32, which runs then round first. */
tool_exit tool_product_widen(tool_product *product, nib_type from, uint64_t seed);

/* Element of an array of any type of 8 bits or more, as a number. */
double tool_load(nib_type type, const void *array, int64_t index);

/* ---- checking ---- */

typedef struct tool_check {
    int64_t outputs, checked, wrong;
    double worst;    /* largest |error| / bound; above 1 is wrong */
    double expected; /* and what stood there */
    double found;
    double bound;
    int64_t row, col;
} tool_check;

/* Compares rows 0..m-1 of a result in out_type, row stride out_cols, with the definition in
 * docs/numerics.md. Large products are sampled: at most about `budget` multiplications. */
tool_exit tool_product_check(const tool_product *product, int64_t m, const void *out, double budget,
                             tool_check *check);

/* ---- running ---- */

typedef struct tool_runner {
    nib_device *dev;
    nib_gemm *gemm;
    nib_weights **weights; /* copies that runs rotate through, so that none is found in the cache */
    int copies;
    nib_gemm_args args;
    nib_act_quantizer *quantizer; /* NULL: activations come as they are */
    nib_act_quantize_args quantize;
    uint64_t packed_bytes;
    /* Parts of the first result. Preparing is of the first m that ran. */
    double create_us, pack_us, upload_us, prepare_us, first_us, second_us;
} tool_runner;

typedef struct tool_timing {
    int64_t runs;
    bool device;                       /* by the device's clock; else by the host's */
    double min_us, median_us, high_us; /* the 90th percentile */
} tool_timing;

/* Plans, packs and uploads a product. `cold` makes enough copies of the weights to exceed the
 * last-level cache twice. */
tool_exit tool_runner_create(nib_device *dev, const tool_product *product, bool cold,
                             tool_runner *out);
void tool_runner_destroy(tool_runner *runner);
/* Prepares m rows, runs once and fetches out, [m, out_cols], which may be NULL, and what
 * activations were rounded to. The first time, the run is repeated for second_us. */
tool_exit tool_runner_run(tool_runner *runner, tool_product *product, int64_t m, void *out);
/* Prepares m rows and runs for about `seconds`. On a device with events and memory of its own the
 * runs queue up behind a copy, so that what the host does between them is not timed. */
tool_exit tool_runner_time(tool_runner *runner, int64_t m, double seconds, tool_timing *out);

/* Bandwidth in GB/s, measured in half a second at most: of reading host memory with the threads of
 * the device where that is what the device reads, else of copying in the device's memory, read plus
 * written. 0: it cannot be measured. */
double tool_roof_measure(nib_device *dev, const nib_device_info *info);
/* What was measured: "read" or "copy" bandwidth. */
const char *tool_roof_kind(const nib_device_info *info);

/* The way to a device and to its kernels: what the host's clock and the library's log say. */
typedef struct tool_startup {
    double library_us, device_us;
    double driver_us; /* of device_us: the vendor's driver by itself */
    struct {
        int count;
        double us;
    } images[3], loads; /* images by origin: packs, the cache, the compiler */
    bool verbose;       /* show the log on stderr */
} tool_startup;

/* Opens the library and a device, calls `work` and closes them; answers what `work` did, or why
 * there is no device. `startup`, which may be NULL, is filled as things happen. */
typedef tool_exit (*tool_device_work)(void *user, nib_device *dev);
tool_exit tool_device_with(const char *selector, tool_startup *startup, tool_device_work work,
                           void *user);
/* The log function of verbs that open the library themselves: all of it on stderr. */
void tool_log(void *user, nib_log_level level, const char *message);

/* Calls a printing function until the text fits; the caller frees. NULL: it failed. */
typedef nib_status (*tool_print_fn)(void *user, char *text, size_t capacity, size_t *needed);
char *tool_print(tool_print_fn print, void *user, nib_status *status);

#endif
