/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin interface of nibblas, for authors of backends only.
 *
 * A backend is one table of functions, nib_backend_api, that its entry function hands out. It is
 * either built in (a folder backends/<name> whose CMakeLists.txt calls nib_add_backend) or a shared
 * library libnibblas-<name>.so that exports nib_backend_entry and is opened at run time. Both go
 * through the same checks: abi_major equal, size covering the mandatory entries, those entries set,
 * name unique. A refusal is logged with its reason. Backends are never unloaded.
 *
 * Rules for the table: append only; integers of fixed width; structs begin with `size`. Everything
 * a backend needs from core comes through nib_host_api; it includes nothing of core. Core validates
 * descriptions, arguments and blobs before it calls, so a backend may rely on the conditions stated
 * here; the `check` backend of the tests asserts them.
 */
#ifndef NIBBLAS_BACKEND_H
#define NIBBLAS_BACKEND_H

#include <nibblas/nibblas.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NIB_BACKEND_ABI_MAJOR 1
#define NIB_BACKEND_ABI_MINOR 2

typedef struct nib_backend_api nib_backend_api;

/* ---- kernel images ------------------------------------------------------------------------ */

/* Text of one source file, as `#include "name"` finds it. */
typedef struct nib_image_file {
    const char *name;
    const char *text;
} nib_image_file;

typedef struct nib_image_request nib_image_request;

/* What a compiler made; both from malloc, core frees them. */
typedef struct nib_image_build {
    void *image;
    uint64_t bytes;
    char *log;         /* may be NULL */
    char compiler[64]; /* "nvrtc 13.0" */
} nib_image_build;

/* A kernel's binary or text, asked for by everything it depends on. Core looks in ahead-of-time
 * packs, then in the disk cache, and else calls `compile`, once however many threads and processes
 * ask. The image's identity is backend, isa, format, spec, files and flags. */
struct nib_image_request {
    uint32_t size;
    uint32_t file_count;
    const char *backend;
    const char *isa;             /* the chip it is for: "sm_90a", "compute_80", "gfx942" */
    const char *format;          /* "cubin", "ptx", "hsaco", "spirv" */
    const char *label;           /* for people: the specialisation's id */
    const char *spec;            /* the text of nib_spec.h, one #define a line */
    const nib_image_file *files; /* the first is compiled, the others are included */
    const char *flags;           /* of the compiler, separated by blanks */
    const char *compiler_path;   /* its file; an image by another compiler is made anew. NULL: none
                                  * is here, any image will do */
    nib_status (*compile)(void *user, const nib_image_request *request, nib_image_build *out);
    void *user; /* `compile` may be NULL: there is no compiler */
};

typedef enum nib_image_origin {
    NIB_IMAGE_PACK = 1,
    NIB_IMAGE_CACHE = 2,
    NIB_IMAGE_COMPILED = 3
} nib_image_origin;

typedef struct nib_image {
    uint32_t size;
    nib_image_origin origin;
    const void *data; /* 16-byte aligned; a text has a NUL behind it that `bytes` leaves out */
    uint64_t bytes;
    double us;        /* that finding or making it took */
    const char *path; /* the pack or the cache entry; "" when there is none */
    void *owner;
} nib_image;

/* What core lends a backend. Valid for the life of the process. */
typedef struct nib_host_api {
    uint32_t size, abi_major, abi_minor, reserved;
    /* Sets the calling thread's message (printf style, without a final full stop) and returns
     * `status`. Use it for every failure: `return host->fail(NIB_UNSUPPORTED, "...")`. */
    nib_status (*fail)(nib_status status, const char *format, ...)
#ifdef __GNUC__
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    void (*log)(nib_log_level level, const char *format, ...)
#ifdef __GNUC__
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    /* Values of all codes of a type of at most 8 bits, 2^bits floats; NULL for others and lut4. */
    const float *(*decode_table)(nib_type type);
    int32_t (*type_bits)(nib_type type);
    const char *(*type_name)(nib_type type);
    /* Value of an environment variable, or NULL. For the entry function, device_count and
     * device_open; nothing later may depend on the environment. */
    const char *(*env)(const char *name);
    /* The table of a backend that was loaded before, for backends that wrap another.
     * NIB_MISSING: none of that name. */
    nib_status (*backend)(const char *name, const nib_backend_api **out);

    /* Since ABI 1.1. A kernel image, from a pack, the cache or the compiler; give it back with
     * image_put. May block for as long as a compiler runs, here or in another process.
     * NIB_MISSING: it is in no pack and not cached, and the request has no compiler. */
    nib_status (*image_get)(const nib_image_request *request, nib_image *out);
    void (*image_put)(nib_image *image);
    /* Whether a backend's packs and cache hold it, without making it: NIB_OK or NIB_MISSING. */
    nib_status (*image_find)(const nib_image_request *request, nib_image_origin *origin);
} nib_host_api;

/* A row of a backend's table of kernels. The planner compares rows through the numbers at the end;
 * docs/planning.md has the model. Rows are constant and outlive the device. */
typedef struct nib_variant {
    uint32_t size;
    const char *id; /* "w4-avx512-m1n16": unique within the backend */
    const char *isa;
    const char *source;   /* the file with its kernel, relative to the backend's folder */
    int64_t m_min, m_max; /* rows of act it is made for; m_max 0: no limit */
    int32_t m_tile, n_tile, k_tile;
    int32_t stages, threads;
    uint64_t shared_bytes;
    /* Model: with memory = packed bytes / read bandwidth and compute =
     *   n k passes / (decode_per_ns units 1000) + 2 ceil(m / m_tile) m_tile n k / (peak
     * efficiency), passes = ceil(m / decode_m): us = launch + max(memory, compute) + 0.1
     * min(memory, compute). */
    double decode_per_ns;    /* weights one unit turns into operands in a nanosecond */
    int64_t decode_m;        /* rows of act that share one decoding; 0: all */
    double efficiency;       /* share of the matrix peak its inner loop reaches */
    nib_type math_type;      /* which peak: NIB_F32, NIB_F16 or NIB_I8 */
    int32_t batch_invariant; /* the bits of a row do not depend on m, nor on which variants with the
                              * same number here run: 0 is none */
} nib_variant;

/* The layout a device wants for a weight description: three layout texts (docs/layouts.md). They
 * depend on the ISA and the weight description alone. `codes` may have several planes. Strings live
 * as long as the device. */
typedef struct nib_backend_layout {
    uint32_t size;
    uint32_t reserved;
    const char *codes, *scales, *zeros;
} nib_backend_layout;

#define NIB_MAX_PLANES 3

/* One plane of a layout in numbers, for conversion on the device; docs/layouts.md has the words.
 * Element (n, k) lies in tile (n >> n_bits, k >> k_bits); bit i of its cell there is the parity of
 * (n's low bits | k's low bits << 16) & addr[i]. The tile starts at byte offset + tile_n * stride_n
 * + tile_k * stride_k of the plane, and byte b of the tile is byte b of memory there, or, woven,
 * byte b / 4 * piece + b % 4. */
typedef struct nib_plane_map {
    int32_t bits, shift, cell; /* of a code; where they stand in it; that an element takes */
    int32_t n_bits, k_bits;    /* log2 of the tile's extents */
    int32_t reserved;
    uint32_t addr[16];
    int64_t tiles_n, tiles_k;
    uint64_t stride_n, stride_k, offset, piece; /* bytes; piece 0: tiles are whole */
    uint64_t last_bytes, tile_bytes;            /* a row's last tile may be cut short */
    uint64_t bytes;                             /* of the plane */
    void *memory;                               /* of the device */
} nib_plane_map;

/* A matrix [n, k] of codes in the device's memory, at most 3 planes. */
typedef struct nib_matrix_map {
    uint32_t size;
    int32_t planes;
    int64_t n, k;
    nib_plane_map plane[NIB_MAX_PLANES];
} nib_matrix_map;

/* to[n, k] = ((from[n0 + n, k0 + k] + add) mod 2^bits) ^ flip, padding with zeros. */
typedef struct nib_convert_args {
    uint32_t size;
    uint32_t add, flip, reserved;
    int64_t n0, k0;
    const nib_matrix_map *from, *to;
    void *stream;
} nib_convert_args;

/* Packed weights as a kernel sees them. Device memory; all arrays 64-byte aligned. */
typedef struct nib_packed {
    uint32_t size;
    uint32_t planes;
    const nib_weight_desc *desc;
    const void *codes[NIB_MAX_PLANES];
    uint64_t codes_bytes[NIB_MAX_PLANES];
    const void *scales; /* NULL when scale_type is none */
    const void *zeros;
    uint64_t scales_bytes, zeros_bytes;
    const int32_t *g_idx;
    const float *table;
    float alpha;
    uint32_t reserved;
} nib_packed;

struct nib_backend_api {
    uint32_t size, abi_major, abi_minor, reserved;
    const char *name;   /* "cpu"; the first half of a selector */
    int32_t preference; /* "auto" takes the device of the highest */
    int32_t reserved2;

    /* Devices. device_count answers 0 on a machine without any: that is no failure. `why` then
     * receives a sentence for `nib devices` ("no libcuda.so.1"). */
    nib_status (*device_count)(uint32_t *count, char *why, size_t why_bytes);
    nib_status (*device_open)(uint32_t index, void **dev);
    void (*device_close)(void *dev);
    nib_status (*device_info)(void *dev,
                              nib_device_info *info); /* selector and backend: core fills */

    /* Planning. `variant` answers NULL past the last row. `supports` decides for one row and says
     * in words why not, for every m in the row's range; core already checked the description. */
    nib_status (*layout)(void *dev, const nib_weight_desc *desc, nib_backend_layout *out);
    nib_status (*variant)(void *dev, uint32_t index, const nib_variant **out);
    nib_status (*supports)(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                           char *why, size_t why_bytes);
    /* Bytes of workspace for m rows; must not shrink as m grows. */
    nib_status (*workspace)(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                            int64_t m, uint64_t *bytes);

    /* Kernels. A kernel is one variant specialised for one description; getting it does all slow
     * work. `launch` obeys the rules of nib_gemm_run; m is at least 1 and within the variant's
     * range. */
    nib_status (*kernel_get)(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                             void **kernel);
    void (*kernel_put)(void *dev, void *kernel);
    nib_status (*launch)(void *dev, void *kernel, const nib_packed *weights,
                         const nib_gemm_args *args);

    /* Memory and streams. */
    nib_status (*memory_alloc)(void *dev, uint64_t bytes,
                               void **out); /* 64-byte aligned or better */
    void (*memory_free)(void *dev, void *memory);
    nib_status (*memory_copy)(void *dev, void *to, const void *from, uint64_t bytes,
                              nib_copy_kind kind, void *stream);
    nib_status (*synchronize)(void *dev, void *stream);

    /* The mandatory part ends here. */

    /* Events, for timing on the device: all four or none. */
    nib_status (*event_create)(void *dev, void **event);
    void (*event_destroy)(void *dev, void *event);
    nib_status (*event_record)(void *dev, void *event, void *stream);
    nib_status (*event_elapsed)(void *dev, void *from, void *to, double *us); /* waits for `to` */

    /* Facts about a compiled kernel: registers, spills, shared memory, occupancy, bound. */
    nib_status (*explain)(void *dev, void *kernel, int64_t m, char *text, size_t capacity,
                          size_t *needed);
    /* 1 when device memory is host memory that packed weights may be mapped into. */
    int32_t (*host_memory)(void *dev);

    /* Since ABI 1.1, each optional. */

    /* A variant's time for m rows by the backend's own model, in place of core's. `bound` receives
     * "memory", "decode", "math" or another word of the backend's. */
    nib_status (*predict)(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                          int64_t m, double *us, const char **bound);
    /* Moves a matrix between layouts in device memory: NIB_UNSUPPORTED lets core do it on the host.
     * Returns before it is done; the stream orders. */
    nib_status (*convert)(void *dev, const nib_convert_args *args);

    /* Ahead-of-time compilation; both work without any device. `isa` answers NULL past the last
     * name. `images` calls `each` with every image that plans for this description may use on this
     * ISA; a status other than NIB_OK ends it and is returned. */
    nib_status (*isa)(uint32_t index, const char **name);
    nib_status (*images)(const char *isa, const nib_gemm_desc *desc,
                         nib_status (*each)(void *user, const nib_image_request *request),
                         void *user);

    /* Since ABI 1.2. Activations to 8 bits: all three or none. Getting a quantizer does all slow
     * work; `quantize_activations` obeys the rules of nib_gemm_run, and m and k are at least 1. */
    nib_status (*act_quantizer_get)(void *dev, const nib_act_quantizer_desc *desc,
                                    void **quantizer);
    void (*act_quantizer_put)(void *dev, void *quantizer);
    nib_status (*quantize_activations)(void *dev, void *quantizer,
                                       const nib_act_quantize_args *args);
};

#define NIB_BACKEND_MANDATORY_BYTES offsetof(nib_backend_api, event_create)
/* The one symbol a plugin exports; built-in backends have it under nib_backend_entry_<name>. */
typedef nib_status (*nib_backend_entry_fn)(const nib_host_api *host, const nib_backend_api **out);
NIB_API nib_status nib_backend_entry(const nib_host_api *host, const nib_backend_api **out);

#ifdef __cplusplus
}
#endif
#endif
