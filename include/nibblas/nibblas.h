/* SPDX-License-Identifier: Apache-2.0
 *
 * nibblas: matrix multiplication of 16- or 8-bit activations by 1- to 8-bit weights.
 *
 *     out[m, n] = act( alpha * sum_k act[m, k] * w[n, k] + bias[n] )
 *
 * This is the whole user interface. A program describes a product (nib_gemm_desc), creates a
 * nib_gemm on a device, packs its weights once (nib_weights) and runs. The other header,
 * backend.h, is for authors of backends only.
 *
 * Conventions, unless a function says otherwise:
 *  - Every struct that crosses this interface begins with `size`; set it to sizeof the struct and
 *    zero the rest. A struct from an older or newer header is understood: missing fields read as
 *    zero, unknown trailing fields must be zero (else NIB_UNSUPPORTED).
 *  - A function that can fail returns nib_status; results leave through the last parameters and are
 *    untouched on failure. nib_last_message() then says, in the calling thread, what was wrong and
 *    what would be right.
 *  - Strides count elements, sizes named `bytes` count bytes, times named `us` are microseconds.
 *  - Functions may be called from any thread. Handles are immutable after creation, except that a
 *    nib_writer and destroy calls need one thread at a time.
 *  - Only nib_gemm_run() and nib_quantize_activations() promise neither to allocate, compile, block
 *    nor read the environment.
 *  - The CPU's threads belong to the device. A run that finds them busy with another, and every run
 *    in a forked child, computes on the calling thread alone, with the same bits.
 *  - A device must outlive the gemms and weights made on it; weights may outlive their gemm.
 *  - Destroying NULL is harmless. Other NULL arguments are NIB_INVALID unless allowed below.
 *
 * docs/numerics.md states the formulas and error bounds, docs/formats.md the files,
 * docs/layouts.md the layouts.
 */
#ifndef NIBBLAS_H
#define NIBBLAS_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) || !defined(__GNUC__)
#define NIB_API
#else
#define NIB_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define NIB_VERSION_MAJOR 0
#define NIB_VERSION_MINOR 1
#define NIB_VERSION_PATCH 0

/* ---- status ------------------------------------------------------------------------------- */

typedef int32_t nib_status;
enum {
    NIB_OK = 0,
    NIB_INVALID = 1, /* the caller is wrong: the message says what would be right */
    NIB_UNSUPPORTED =
        2,           /* a right request that this device or build cannot serve, with the reason */
    NIB_MISSING = 3, /* a file, device, library or compiler is not there */
    NIB_NO_MEMORY = 4,
    NIB_CORRUPT = 5, /* a file is not what it claims to be; the message names field and offset */
    NIB_DEVICE_LOST = 6, /* the device failed; the message carries the vendor's number and name */
    NIB_INTERNAL = 7     /* a bug in nibblas */
};

/* The name of a status, "NIB_INVALID" for instance; "NIB_?" for a number that is none. */
NIB_API const char *nib_status_name(nib_status status);

/* The message of the last failed call in the calling thread, "" if none failed yet.
 * The text belongs to the thread and lasts until its next failing call. */
NIB_API const char *nib_last_message(void);

/* Version of the library at run time, "0.1.0". */
NIB_API const char *nib_version(void);

/* ---- types -------------------------------------------------------------------------------- */

/* Element types. Floats are IEEE or OCP formats. uB is code itself; iB with B < 8 is offset binary,
 * value = code - 2^(B-1); i1 is -1 for code 0 and +1 for code 1; i8 is two's complement. nf4 is the
 * QLoRA table; lut4 reads a 16-entry table that comes with the weights. */
typedef int32_t nib_type;
enum {
    NIB_TYPE_NONE = 0,
    NIB_F32 = 1,
    NIB_F16 = 2,
    NIB_BF16 = 3,
    NIB_E4M3 = 4, /* OCP: bias 7, no infinity, 0x7f and 0xff NaN, largest 448 */
    NIB_E5M2 = 5,
    NIB_E8M0 = 6, /* 2^(byte - 127), 255 is NaN */
    NIB_I32 = 7,
    NIB_U1 = 16,
    NIB_U2 = 17,
    NIB_U3 = 18,
    NIB_U4 = 19,
    NIB_U5 = 20,
    NIB_U6 = 21,
    NIB_U7 = 22,
    NIB_U8 = 23,
    NIB_I1 = 32,
    NIB_I2 = 33,
    NIB_I3 = 34,
    NIB_I4 = 35,
    NIB_I5 = 36,
    NIB_I6 = 37,
    NIB_I7 = 38,
    NIB_I8 = 39,
    NIB_NF4 = 48,
    NIB_E2M1 = 49, /* sign, then 0 .5 1 1.5 2 3 4 6 */
    NIB_E3M2 = 50,
    NIB_E2M3 = 51,
    NIB_LUT4 = 52
};

/* Bits an element takes, 0 for NIB_TYPE_NONE and for numbers that name no type. */
NIB_API int32_t nib_type_bits(nib_type type);

/* Short name ("f16", "u4", "e2m1", "none"); "?" for numbers that name no type. */
NIB_API const char *nib_type_name(nib_type type);

/* The type of a short name. NIB_INVALID: no such name. */
NIB_API nib_status nib_type_parse(const char *name, nib_type *type);

/* The value a code of at most 8 bits stands for, scales and zeros aside. `code` is masked to the
 * type's bits. NaN for wider types, and for lut4, whose table belongs to the weights. */
NIB_API float nib_type_decode(nib_type type, uint32_t code);

/* ---- descriptions ------------------------------------------------------------------------- */

/* How zeros enter. c is the value of the code, s the scale and z the zero of its group. */
typedef int32_t nib_zero;
enum {
    NIB_ZERO_NONE = 0,    /* w = c * s */
    NIB_ZERO_FLOAT = 1,   /* w = (c - z) * s, z in zero_type: BitBLAS "original", HQQ */
    NIB_ZERO_RESCALE = 2, /* w = c * s - z, z in zero_type: Q4_1 with z = -m */
    NIB_ZERO_CODE = 3     /* w = (c - z) * s, z an unsigned code of as many bits: AWQ, GPTQ */
};

#define NIB_GROUP_TENSOR 0    /* one scale for the whole matrix */
#define NIB_GROUP_ROW    (-1) /* one scale per output feature */

enum {
    NIB_WEIGHT_G_IDX = 1u << 0 /* act-order: the group of k is g_idx[k], not k / group */
};

/* Everything that decides where weight bytes lie. It stands inside nib_gemm_desc, so it never
 * grows: what may come takes the reserved words, which must be zero. */
typedef struct nib_weight_desc {
    uint32_t size;
    uint32_t flags; /* NIB_WEIGHT_* */
    int64_t n, k;   /* W is [n, k]: n output features, k input features; both at least 1 */
    int64_t group;  /* k per scale: 1..k (the last group may be short), NIB_GROUP_ROW or _TENSOR */
    nib_type type;  /* of the codes: u1..u8, i1..i8, nf4, e2m1, e4m3, e5m2, e3m2, e2m3, lut4 */
    nib_type scale_type; /* f16, bf16, f32, e8m0, e4m3; NIB_TYPE_NONE: no scales, s = 1 */
    nib_zero zero;
    nib_type zero_type; /* FLOAT and RESCALE: f16, bf16 or f32. NONE and CODE: NIB_TYPE_NONE */
    uint32_t reserved[4];
} nib_weight_desc;

typedef int32_t nib_act_scale;
enum {
    NIB_ACT_SCALE_NONE = 0,
    NIB_ACT_SCALE_TENSOR = 1, /* f32 [1] */
    NIB_ACT_SCALE_ROW = 2,    /* f32 [m] */
    NIB_ACT_SCALE_MX = 3      /* e8m0 [m, ceil(k / 32)] */
};

typedef int32_t nib_epilogue;
enum {
    NIB_EPILOGUE_NONE = 0,
    NIB_EPILOGUE_RELU = 1,
    NIB_EPILOGUE_GELU = 2, /* x * (1 + erf(x / sqrt 2)) / 2 */
    NIB_EPILOGUE_SILU = 3, /* x / (1 + exp(-x)) */
    /* Gated pair: n is even, rows 0..n/2-1 of W give x1 and rows n/2..n-1 give x2;
     * out is [m, n/2] = silu(x1) * x2. */
    NIB_EPILOGUE_SILU_GATED = 4
};

enum {
    /* A row's bits do not depend on m. May cost speed; see docs/numerics.md. */
    NIB_GEMM_BATCH_INVARIANT = 1u << 0,
    /* Results may differ from run to run by rounding. */
    NIB_GEMM_ALLOW_NONDETERMINISTIC = 1u << 1,
    /* Activations in f32, f16 or bf16 may be rounded on the fly to i8 with one f32 scale per 32 k,
     * as ggml does for its block formats. Faster on a CPU, less exact: see docs/numerics.md. */
    NIB_GEMM_ACT_DYNAMIC_I8 = 1u << 2,
    /* Without it, with f16 or bf16 activations, a kernel may round each weight once to the type of
     * the activations, as if the matrix had been dequantised to that type first; large products
     * are faster that way. With it weights are exact: see docs/numerics.md. */
    NIB_GEMM_EXACT_WEIGHTS = 1u << 3
};

/* A product: a weight description and everything that only affects a launch. */
typedef struct nib_gemm_desc {
    uint32_t size;
    uint32_t flags; /* NIB_GEMM_* */
    nib_weight_desc weight;
    nib_type act_type; /* f32, f16, bf16, e4m3, e5m2, i8 */
    nib_type
        acc_type; /* f32; f16: the kernel may accumulate as coarsely as that; i32: i8 activations
                   * times integer codes without zeros, exact modulo 2^32 within a group */
    nib_type out_type; /* f16, bf16, f32; i32 with acc_type i32 and no scales */
    nib_act_scale act_scale;
    nib_type bias_type; /* f16, bf16, f32; NIB_TYPE_NONE: no bias */
    nib_epilogue epilogue;
    uint32_t reserved[4]; /* zero; like nib_weight_desc, this struct never grows */
} nib_gemm_desc;

/* Checks a description and makes it canonical, so that equal products are equal bytes: acc_type
 * NIB_TYPE_NONE becomes f32; out_type NIB_TYPE_NONE becomes act_type if that is f32, f16 or bf16,
 * else f32; group k becomes NIB_GROUP_ROW; without scales the group becomes NIB_GROUP_TENSOR.
 * NIB_INVALID says which field is wrong. `out` may be `desc`. */
NIB_API nib_status nib_weight_desc_check(const nib_weight_desc *desc, nib_weight_desc *out);
NIB_API nib_status nib_gemm_desc_check(const nib_gemm_desc *desc, nib_gemm_desc *out);

/* One line of text that says all of a description, and back:
 *   "n=4096 k=4096 w=u4 g=128 s=f16 z=float:f16 a=f16 acc=f32 o=f16"
 * Keys in any order on parsing; a missing key is its default; docs/formats.md has the grammar.
 * `text` receives at most `capacity` bytes with the final NUL, `needed` (may be NULL) the bytes the
 * whole line takes with its NUL. NIB_INVALID: the line does not parse, with the column. */
NIB_API nib_status nib_weight_desc_print(const nib_weight_desc *desc, char *text, size_t capacity,
                                         size_t *needed);
NIB_API nib_status nib_weight_desc_parse(const char *line, nib_weight_desc *desc);
NIB_API nib_status nib_gemm_desc_print(const nib_gemm_desc *desc, char *text, size_t capacity,
                                       size_t *needed);
NIB_API nib_status nib_gemm_desc_parse(const char *line, nib_gemm_desc *desc);

/* Bytes that plain codes ([n, k], each row padded to whole bytes, least significant bits first),
 * scales ([n, groups]) and zeros ([n, groups]; one byte each for NIB_ZERO_CODE) take, and the
 * number of groups along k. Per-tensor scales and zeros are single values. Any output may be NULL.
 */
NIB_API nib_status nib_weight_desc_bytes(const nib_weight_desc *desc, size_t *codes, size_t *scales,
                                         size_t *zeros, int64_t *groups);

/* ---- context and devices ------------------------------------------------------------------ */

typedef struct nib_context nib_context;
typedef struct nib_device nib_device;

typedef enum nib_log_level {
    NIB_LOG_DEBUG = 0,
    NIB_LOG_INFO = 1,
    NIB_LOG_WARNING = 2
} nib_log_level;
typedef void (*nib_log_fn)(void *user, nib_log_level level, const char *message);

typedef struct nib_context_options {
    uint32_t size;
    uint32_t reserved;
    /* Called from any thread, for what any context does; NULL: none. Once nib_context_destroy has
     * returned it is not called again. It must neither create nor destroy contexts. */
    nib_log_fn log;
    void *log_user;
    /* Folder with libnibblas-<name>.so plugins; NULL: NIB_BACKEND_PATH if set, else none. */
    const char *backend_path;
} nib_context_options;

/* Opens the library: built-in backends and plugins. options may be NULL. Backends are loaded once a
 * process and never unloaded; a plugin that is refused is logged with the reason and skipped.
 * NIB_MISSING: the folder with plugins cannot be read. */
NIB_API nib_status nib_context_create(const nib_context_options *options, nib_context **out);
/* All devices and everything made on them must be gone. */
NIB_API void nib_context_destroy(nib_context *ctx);

typedef struct nib_device_info {
    uint32_t size;
    int32_t units;     /* multiprocessors, compute units, Xe cores, or CPU threads in use */
    char selector[32]; /* "cuda:0" */
    char backend[16];  /* "cuda" */
    char name[96];     /* the vendor's product name */
    char isa[32];      /* "sm_90a", "gfx942", "avx512-vnni" */
    char driver[64];   /* driver and its version */
    uint64_t memory_bytes;
    uint64_t cache_bytes;  /* last-level cache */
    uint64_t shared_bytes; /* shared memory or local data share per unit; on a CPU the L2 cache */
    /* Nominal rates, the same in every process, for planning; `nib bench` measures. */
    double read_gb_per_s;   /* of memory */
    double f32_tflop_per_s; /* dense peaks; 0: the device has no such path */
    double f16_tflop_per_s;
    double i8_top_per_s;
    double launch_us; /* least time of one launch */
} nib_device_info;

/* Devices of all backends, in the order "auto" prefers them. NIB_MISSING: no device at `index`.
 * Describing a device opens and closes it. */
NIB_API nib_status nib_device_count(nib_context *ctx, uint32_t *count);
NIB_API nib_status nib_device_describe(nib_context *ctx, uint32_t index, nib_device_info *info);

/* Opens a device: "auto" or NULL (NIB_DEVICE if that is set, else the first), "cpu", "cuda:0".
 * NIB_MISSING: no such device, with the list of those there are. NIB_INVALID: no selector. */
NIB_API nib_status nib_device_open(nib_context *ctx, const char *selector, nib_device **out);
NIB_API void nib_device_close(nib_device *dev);
NIB_API nib_status nib_device_get_info(nib_device *dev, nib_device_info *info);

/* Memory of a device (host memory on the CPU). Copies run on `stream` and may return before they
 * end; nib_stream_synchronize waits. NULL is the device's default stream. */
typedef enum nib_copy_kind {
    NIB_COPY_TO_DEVICE = 0,
    NIB_COPY_TO_HOST = 1,
    NIB_COPY_ON_DEVICE = 2
} nib_copy_kind;
NIB_API nib_status nib_memory_alloc(nib_device *dev, size_t bytes, void **out);
NIB_API void nib_memory_free(nib_device *dev, void *memory);
NIB_API nib_status nib_memory_copy(nib_device *dev, void *to, const void *from, size_t bytes,
                                   nib_copy_kind kind, void *stream);
NIB_API nib_status nib_stream_synchronize(nib_device *dev, void *stream);

/* Points in a stream, and the time between two of them by the device's own clock. Both of a pair
 * are of one device. An event may be recorded again. NIB_UNSUPPORTED from nib_event_create: the
 * device has none; time its runs with the host's clock. */
typedef struct nib_event nib_event;
NIB_API nib_status nib_event_create(nib_device *dev, nib_event **out);
NIB_API void nib_event_destroy(nib_event *event);
NIB_API nib_status nib_event_record(nib_event *event, void *stream);
/* Waits for `to`. NIB_INVALID: the events are of two devices. */
NIB_API nib_status nib_event_elapsed(nib_event *from, nib_event *to, double *us);

/* ---- products ----------------------------------------------------------------------------- */

typedef struct nib_gemm nib_gemm;
typedef struct nib_weights nib_weights;

typedef struct nib_gemm_args {
    uint32_t size;
    uint32_t reserved;
    int64_t m;       /* rows of act and out; 0 does nothing */
    const void *act; /* [m, k] in act_type; row stride lda >= k */
    int64_t lda;
    const void *act_scale; /* as act_scale says; NULL when none */
    void *out; /* [m, n] in out_type ([m, n/2] when gated); row stride ldo >= its width */
    int64_t ldo;
    const void *bias; /* [n] in bias_type; NULL when there is none */
    void *workspace;  /* at least nib_gemm_workspace() bytes, 64-byte aligned; not shared by
                       * runs that overlap in time */
    size_t workspace_bytes;
    void *stream; /* CUstream, hipStream_t, ze_command_list_handle_t; NULL: the default.
                   * The CPU ignores it and returns when the result is there. */
} nib_gemm_args;

/* NIB_OK if the device can run the product for every m, alignment and stride;
 * NIB_UNSUPPORTED with the reason, or NIB_INVALID. Slow like nib_gemm_create. */
NIB_API nib_status nib_gemm_supports(nib_device *dev, const nib_gemm_desc *desc);

/* Plans a product on a device. NIB_UNSUPPORTED: with the reason of every kernel. */
NIB_API nib_status nib_gemm_create(nib_device *dev, const nib_gemm_desc *desc, nib_gemm **out);
NIB_API void nib_gemm_destroy(nib_gemm *gemm);
/* The canonical description. */
NIB_API nib_status nib_gemm_get_desc(const nib_gemm *gemm, nib_gemm_desc *desc);

/* Text: the layout, and for this m (at least 1) every candidate kernel with its predicted time and,
 * for all but the chosen one, why it lost. `capacity` and `needed` as in nib_weight_desc_print. */
NIB_API nib_status nib_gemm_explain(nib_gemm *gemm, int64_t m, char *text, size_t capacity,
                                    size_t *needed);

/* Workspace bytes that suffice for every m in 0..m_max. */
NIB_API nib_status nib_gemm_workspace(nib_gemm *gemm, int64_t m_max, size_t *bytes);

/* Does all slow work for m in m_min..m_max now: compiles or loads kernels, starts threads. */
NIB_API nib_status nib_gemm_prepare(nib_gemm *gemm, int64_t m_min, int64_t m_max);

/* Runs the product. NIB_INVALID: weights packed for another layout, shape or device, a null or too
 * small buffer, a stride below the width, an m whose kernel was not prepared. */
NIB_API nib_status nib_gemm_run(nib_gemm *gemm, const nib_weights *weights,
                                const nib_gemm_args *args);

/* ---- activations of 8 bits ------------------------------------------------------------------ */

/* Rounds activations to 8 bits on the device, for products whose act_type has 8. With L the largest
 * value of `to` (127, 448 or 57344) and all operations in f32, rounded to nearest:
 *
 *     NIB_ACT_SCALE_ROW     s = max(max |act[m, :]| / L, 2^-126), which is stored for each row
 *     NIB_ACT_SCALE_TENSOR  s = scale[0], which the caller gives
 *     out[m, k] = act[m, k] * (1 / s), to the nearest value of `to`, ties to even, at most +-L
 *
 * A product with the same act_scale takes both arrays as they are. docs/numerics.md has the error
 * and what becomes of NaN and infinities. */
typedef struct nib_act_quantizer nib_act_quantizer;

typedef struct nib_act_quantizer_desc {
    uint32_t size;
    nib_type from; /* f32, f16, bf16 */
    nib_type to;   /* i8, e4m3, e5m2 */
    nib_act_scale scale;
} nib_act_quantizer_desc;

typedef struct nib_act_quantize_args {
    uint32_t size;
    uint32_t reserved;
    int64_t m, k;    /* either may be 0: nothing is done */
    const void *act; /* [m, k] in `from`; row stride lda >= k */
    int64_t lda;
    void *out; /* [m, k] in `to`; row stride ldo >= k. Must not overlap act. */
    int64_t ldo;
    float *scale; /* ROW: [m], written. TENSOR: [1], read. Memory of the device. */
    void *stream; /* as in nib_gemm_args */
} nib_act_quantize_args;

/* Does all slow work: compiles or loads the kernel. NIB_UNSUPPORTED: with the reason. */
NIB_API nib_status nib_act_quantizer_create(nib_device *dev, const nib_act_quantizer_desc *desc,
                                            nib_act_quantizer **out);
NIB_API void nib_act_quantizer_destroy(nib_act_quantizer *quantizer);
/* Like nib_gemm_run neither allocates, compiles, blocks nor reads the environment. NIB_INVALID: a
 * null buffer, or a stride below k. */
NIB_API nib_status nib_quantize_activations(nib_act_quantizer *quantizer,
                                            const nib_act_quantize_args *args);

/* ---- weights ------------------------------------------------------------------------------ */

enum {
    NIB_SOURCE_NEGATE_ZEROS = 1u << 0 /* float zeros are stored as their negative (Q4_1's m) */
};

/* Logical or foreign weights, in host memory. A layout is the name of a row ("plain", "bytes",
 * "gptq", "awq", "marlin", ...; `nib layout list`) or a layout text; NULL is "plain" ("bytes" for
 * the zeros of NIB_ZERO_CODE). */
typedef struct nib_weight_source {
    uint32_t size;
    uint32_t flags;     /* NIB_SOURCE_* */
    const char *layout; /* of the codes, a matrix [n, k] */
    const void *codes;
    const char *scale_layout; /* of the scales, a matrix [n, groups] */
    const void *scales;       /* NULL when scale_type is none */
    const char *zero_layout;  /* of the zeros, a matrix [n, groups] */
    const void *zeros;        /* NULL when zero is NIB_ZERO_NONE */
    const int32_t *g_idx;     /* [k], with NIB_WEIGHT_G_IDX */
    const float *table;       /* [16], with lut4 */
    float alpha;              /* scale of the whole tensor; 0 reads as 1 */
    int32_t zero_offset;      /* added to each zero code, modulo its bits: 1 for GPTQ v1 */
    /* Sizes of the three arrays, checked against what the layouts need; 0: not checked. */
    size_t codes_bytes, scales_bytes, zeros_bytes;
} nib_weight_source;

typedef struct nib_weights_info {
    uint32_t size;
    float alpha;
    nib_weight_desc desc;
    uint64_t packed_bytes; /* codes, scales and zeros as the kernel reads them */
    uint64_t layout_hash;
    const char *layout; /* texts, owned by the weights */
    const char *scale_layout;
    const char *zero_layout;
} nib_weights_info;

/* Packs for a gemm: any layout to the one its kernels read. The source may go afterwards.
 * NIB_INVALID: an array missing or too short, or g_idx out of range. Scales that are NaN or
 * infinite are kept: they spread to the outputs of their own rows only. */
NIB_API nib_status nib_weights_pack(nib_gemm *gemm, const nib_weight_source *source,
                                    nib_weights **out);
NIB_API void nib_weights_destroy(nib_weights *weights);
NIB_API nib_status nib_weights_get_info(const nib_weights *weights, nib_weights_info *info);

/* The inverse: writes codes, scales and zeros in any layout (NULL: plain, and "bytes" for zero
 * codes). Any array may be NULL; sizes come from nib_layout_bytes. */
NIB_API nib_status nib_weights_unpack(const nib_weights *weights, const char *layout, void *codes,
                                      const char *scale_layout, void *scales,
                                      const char *zero_layout, void *zeros);

/* The group indices [k] and the lut4 table [16]; each may be NULL. NIB_INVALID: asked for one that
 * these weights do not have. */
NIB_API nib_status nib_weights_unpack_extra(const nib_weights *weights, int32_t *g_idx,
                                            float *table);

/* w[n0..n1, k0..k1] as weights for another gemm of those extents, for tensor parallelism. k0 must
 * be at a group boundary. Does not go through logical form. `gemm` may be on another device. */
NIB_API nib_status nib_weights_slice(const nib_weights *weights, int64_t n0, int64_t n1, int64_t k0,
                                     int64_t k1, nib_gemm *gemm, nib_weights **out);

/* Repacks for another gemm (another device's layout) of the same weight description. */
NIB_API nib_status nib_weights_convert(const nib_weights *weights, nib_gemm *gemm,
                                       nib_weights **out);

/* w[n, k] as f32, alpha included: rows n0..n1 into out[n1 - n0, k], row stride ldo. */
NIB_API nib_status nib_weights_dequantize(const nib_weights *weights, int64_t n0, int64_t n1,
                                          float *out, int64_t ldo);

/* One tensor to and from a .nib file. Saving writes a temporary file and renames it. Loading maps
 * the file when it holds the gemm's layout and the device reads host memory, and converts
 * otherwise. NIB_CORRUPT: a checksum or field is off. */
NIB_API nib_status nib_weights_save(const nib_weights *weights, const char *path);
NIB_API nib_status nib_weights_load(nib_gemm *gemm, const char *path, nib_weights **out);

/* ---- layouts ------------------------------------------------------------------------------ */

/* A layout maps the codes of a matrix [n, k] to bits in memory. `layout` is the name of a row,
 * which `bits` (of an element, 1..32) makes concrete, or a layout text, which says its bits itself
 * (`bits` then is 0 or the same). Planes of a layout with several follow each other at 64-byte
 * boundaries. docs/layouts.md has the grammar and a picture of each row. */

/* Name and one-line summary of a row by index, for listing; NIB_MISSING past the last. */
NIB_API nib_status nib_layout_row(uint32_t index, const char **name, const char **summary);
/* The concrete text of a layout. `capacity` and `needed` as in nib_weight_desc_print.
 * NIB_UNSUPPORTED: the row does not exist for these bits. */
NIB_API nib_status nib_layout_print(const char *layout, int32_t bits, char *text, size_t capacity,
                                    size_t *needed);
/* Bytes a matrix [n, k] takes. */
NIB_API nib_status nib_layout_bytes(const char *layout, int32_t bits, int64_t n, int64_t k,
                                    size_t *bytes);
/* Moves a matrix [n, k] of codes from one layout to another. */
NIB_API nib_status nib_layout_convert(const char *from, const void *from_codes, const char *to,
                                      void *to_codes, int32_t bits, int64_t n, int64_t k);
/* Text: where each address bit comes from, a picture of a tile, and (with `to`) whether the
 * conversion only moves whole words and so is free for a kernel. `to` may be NULL. */
NIB_API nib_status nib_layout_explain(const char *layout, const char *to, int32_t bits, char *text,
                                      size_t capacity, size_t *needed);

/* ---- quantisers --------------------------------------------------------------------------- */

typedef int32_t nib_quantizer;
enum {
    NIB_QUANTIZE_RTN = 0,        /* round to nearest, range from min and max */
    NIB_QUANTIZE_PERCENTILE = 1, /* round to nearest, range from quantiles */
    NIB_QUANTIZE_HQQ = 2         /* half-quadratic optimisation of the zeros */
};

typedef struct nib_quantize_options {
    uint32_t size;
    nib_quantizer method;
    /* Says the method's target: integers without zeros are symmetric, with float, rescale or code
     * zeros asymmetric; nf4 absmax; e2m1 with e8m0 scales per 32 is MXFP4, with e4m3 per 16 NVFP4
     * (second level in alpha); other floats absmax; lut4 finds the best table for the
     * scaled weights. docs/quantizers.md has the formulas. */
    nib_weight_desc weight;
    double percentile;  /* two-sided, 0 < p <= 100; 0: 99.9 */
    int32_t iterations; /* of HQQ; 0: 20 */
    int32_t threads;    /* 0: OMP_NUM_THREADS, else the processors this process may use; the bits
                         * of the result do not depend on it */
} nib_quantize_options;

/* Arrays the caller owns, sizes from nib_weight_desc_bytes. Codes in the plain layout. */
typedef struct nib_quantize_result {
    uint32_t size;
    float alpha; /* set by the quantiser; 1 unless two-level */
    void *codes;
    void *scales;
    void *zeros;
    float *table; /* [16] for lut4, else NULL */
} nib_quantize_result;

#define NIB_HISTOGRAM_BINS 64

/* How far weights moved: errors are |dequantised - original|, relative ones over |original| where
 * that is not zero. Quantiles at 0.5, 0.9, 0.99, 0.999. */
typedef struct nib_quantize_report {
    uint32_t size;
    int32_t reserved;
    int64_t count;
    double abs_mean, abs_max, abs_quantile[4];
    double rel_mean, rel_max, rel_quantile[4];
    double snr_db; /* 10 log10( sum w^2 / sum error^2 ); infinite when exact */
    /* Signed errors over [-histogram_limit, histogram_limit] in equal bins, outliers in the ends.
     */
    double histogram_limit;
    int64_t histogram[NIB_HISTOGRAM_BINS];
} nib_quantize_report;

/* Quantises w [n, k], row stride ldw. NIB_INVALID: w holds a NaN or an infinity, with its place.
 * NIB_UNSUPPORTED: act-order. */
NIB_API nib_status nib_quantize(const nib_quantize_options *options, const float *w, int64_t ldw,
                                nib_quantize_result *result);
/* Measures a result against its original. NIB_INVALID: an error that is not finite, with its
 * place. */
NIB_API nib_status nib_quantize_measure(const nib_weight_desc *desc,
                                        const nib_quantize_result *result, const float *w,
                                        int64_t ldw, nib_quantize_report *report);

/* ---- files -------------------------------------------------------------------------------- */

/* Tensors in a .nib, GGUF, safetensors or npy file, mapped and read only. Everything in a file is
 * checked before it is used: NIB_CORRUPT names the field and its offset. */
typedef struct nib_file nib_file;

typedef struct nib_tensor {
    uint32_t size;
    int32_t rank;
    const char *name;
    const char
        *type_name;    /* as the file says: "F16", "BF16", "Q4_1", "<f4"; .nib: the weight line */
    nib_type type;     /* of dense tensors; NIB_TYPE_NONE for quantised blocks and .nib weights */
    int32_t quantized; /* nib_file_source can describe it as weights */
    int64_t shape[8];  /* outermost first; weights are [n, k] */
    const void *data;  /* in the mapping; NULL for .nib weights, which are several arrays */
    uint64_t bytes;
    uint64_t offset; /* of data in the file */
} nib_tensor;

NIB_API nib_status nib_file_open(const char *path, nib_file **out);
NIB_API void nib_file_close(nib_file *file);
/* "nib", "gguf", "safetensors" or "npy"; "" and 0 for NULL. */
NIB_API const char *nib_file_format(const nib_file *file);
NIB_API int64_t nib_file_tensor_count(const nib_file *file);
NIB_API nib_status nib_file_tensor(const nib_file *file, int64_t index, nib_tensor *out);
/* NIB_MISSING: no tensor of that name. */
NIB_API nib_status nib_file_find(const nib_file *file, const char *name, int64_t *index);

/* A quantised tensor as weights, pointing into the mapping: exact, nothing is copied. act-order,
 * tables and alpha included. NIB_UNSUPPORTED: a dense tensor, or a block format that is no group
 * format, by name. */
NIB_API nib_status nib_file_source(const nib_file *file, int64_t index, nib_weight_desc *desc,
                                   nib_weight_source *source);
/* Rows r0..r1 of a tensor seen as [rows, last extent], as f32. Works for every type the file module
 * can read, quantised ones included. */
NIB_API nib_status nib_file_read_f32(const nib_file *file, int64_t index, int64_t r0, int64_t r1,
                                     float *out);
/* A quantised tensor packed for a gemm; the mapping itself when a .nib holds the gemm's layout (the
 * file must then outlive the weights). */
NIB_API nib_status nib_file_weights(const nib_file *file, int64_t index, nib_gemm *gemm,
                                    nib_weights **out);

typedef enum nib_meta_kind {
    NIB_META_INT = 0,
    NIB_META_FLOAT = 1,
    NIB_META_BOOL = 2,
    NIB_META_STRING = 3,
    NIB_META_ARRAY = 4
} nib_meta_kind;

/* A metadata value; strings are not NUL-terminated and point into the file's own memory. */
typedef struct nib_meta {
    uint32_t size;
    nib_meta_kind kind;
    int64_t integer;   /* INT, BOOL; uint64 values above INT64_MAX are refused at open */
    double real;       /* FLOAT */
    const char *text;  /* STRING */
    int64_t count;     /* STRING: bytes. ARRAY: items */
    const void *items; /* ARRAY: for nib_file_meta_item */
} nib_meta;

/* By index (key receives its name, valid while the file is open) or by key. NIB_MISSING: none. */
NIB_API int64_t nib_file_meta_count(const nib_file *file);
NIB_API nib_status nib_file_meta(const nib_file *file, int64_t index, const char **key,
                                 nib_meta *value);
NIB_API nib_status nib_file_meta_find(const nib_file *file, const char *key, nib_meta *value);
/* Item `index` of an array, in constant time. */
NIB_API nib_status nib_file_meta_item(const nib_file *file, const nib_meta *array, int64_t index,
                                      nib_meta *value);

/* Writes a .nib file tensor by tensor into a temporary file beside `path`. What stands at `path`
 * stays until nib_writer_finish, which renames. Holds no tensor in memory. */
typedef struct nib_writer nib_writer;
NIB_API nib_status nib_writer_create(const char *path, nib_writer **out);
/* Packed weights as they are. */
NIB_API nib_status nib_writer_add_weights(nib_writer *writer, const char *name,
                                          const nib_weights *weights);
/* Logical weights, stored plain: any device converts them when it loads. */
NIB_API nib_status nib_writer_add_source(nib_writer *writer, const char *name,
                                         const nib_weight_desc *desc,
                                         const nib_weight_source *source);
/* A dense tensor of f32, f16, bf16, i32, i8, u8, e4m3, e5m2. */
NIB_API nib_status nib_writer_add_dense(nib_writer *writer, const char *name, nib_type type,
                                        int32_t rank, const int64_t *shape, const void *data);
NIB_API nib_status nib_writer_add_meta(nib_writer *writer, const char *key, const char *value);
/* Ends the file. On failure the path is as it was. Either way the writer is gone. */
NIB_API nib_status nib_writer_finish(nib_writer *writer);
/* Gives up: removes the temporary file. */
NIB_API void nib_writer_discard(nib_writer *writer);

/* ---- kernels ------------------------------------------------------------------------------ */

/* Compiled kernels of backends that compile at run time: in packs, made ahead of time, and in the
 * cache on disk, which fills as gemms are prepared. A kernel stands there as everything it was made
 * of: docs/kernels.md. Nothing here opens a device. */
typedef struct nib_kernels nib_kernels;

typedef enum nib_kernel_origin { NIB_KERNEL_PACK = 1, NIB_KERNEL_CACHE = 2 } nib_kernel_origin;

/* Texts belong to the list. */
typedef struct nib_kernel {
    uint32_t size;
    nib_kernel_origin origin;
    const char *key;   /* 32 hexadecimal digits: the hash of all it depends on */
    const char *label; /* the specialisation's name */
    const char *backend, *isa;
    const char *format; /* of the image: "cubin", "ptx", "hsaco", "spirv" */
    const char *flags;  /* of the compiler */
    const char *compiler;
    const char *path; /* the pack, or the folder of the cache entry */
    uint64_t bytes;   /* of the image */
    int64_t date;     /* of its compilation, seconds since 1970 */
    int32_t files;    /* source files */
    int32_t reserved;
} nib_kernel;

typedef enum nib_kernel_part {
    NIB_KERNEL_SPEC = 0, /* nib_spec.h */
    NIB_KERNEL_LOG = 1,  /* what the compiler said */
    NIB_KERNEL_IMAGE = 2,
    NIB_KERNEL_FILE = 3 /* source file 0, which is compiled; + i: file i, which it includes */
} nib_kernel_part;

/* What packs and cache hold now, sorted by backend, ISA and label; `backend` NULL: all. Packs that
 * are damaged and folders that are no entries are logged and left out. */
NIB_API nib_status nib_kernels_open(const char *backend, nib_kernels **out);
NIB_API void nib_kernels_close(nib_kernels *kernels);
NIB_API int64_t nib_kernels_count(const nib_kernels *kernels);
NIB_API nib_status nib_kernels_get(const nib_kernels *kernels, int64_t index, nib_kernel *out);
/* A part, checked; it belongs to the list, and a text has a NUL behind it that `bytes` leaves out.
 * `name` (may be NULL) receives what the part is called. NIB_CORRUPT: it is damaged. NIB_MISSING:
 * the kernel has no such file, or is gone since. One thread at a time. */
NIB_API nib_status nib_kernels_part(nib_kernels *kernels, int64_t index, nib_kernel_part part,
                                    const char **name, const void **data, size_t *bytes);

/* Removes a kernel (NULL: all, and what was moved aside) from the cache; packs stay. Running
 * compilations are left alone. `removed` (may be NULL) counts kernels. */
NIB_API nib_status nib_kernels_clear(const char *key, int64_t *removed);

/* Names of the ISAs a backend compiles for, by index; NIB_MISSING past the last. NIB_UNSUPPORTED:
 * the backend does not compile. */
NIB_API nib_status nib_kernels_isa(nib_context *ctx, const char *backend, uint32_t index,
                                   const char **isa);

typedef struct nib_pack_options {
    uint32_t size;
    int32_t threads; /* 0: the processors this process may use */
    const char *backend;
    const char *const *isas; /* as nib_kernels_isa names them */
    size_t isa_count;
    const nib_gemm_desc *descs;
    size_t desc_count;
    /* Called before each image, from one thread at a time; `done` of `total` are ready. A status
     * other than NIB_OK ends the work and is returned. NULL: none. */
    nib_status (*progress)(void *user, int64_t done, int64_t total, const char *label);
    void *user;
} nib_pack_options;

typedef struct nib_pack_report {
    uint32_t size;
    uint32_t reserved;
    int64_t images;   /* in the pack */
    int64_t compiled; /* of them now; the others were in packs or in the cache */
    int64_t refused;  /* pairs of description and ISA without a kernel; the log says why */
    uint64_t bytes;   /* of the file */
} nib_pack_report;

/* Writes a pack with every kernel that plans for these descriptions may use on these ISAs, each
 * once; no device is needed. `report` may be NULL. NIB_UNSUPPORTED: no pair has a kernel, with the
 * first reason. On failure the path is as it was. */
NIB_API nib_status nib_pack_build(nib_context *ctx, const nib_pack_options *options,
                                  const char *path, nib_pack_report *report);

#ifdef __cplusplus
}
#endif
#endif
