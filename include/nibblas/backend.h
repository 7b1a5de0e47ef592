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
#define NIB_BACKEND_ABI_MINOR 0

typedef struct nib_backend_api nib_backend_api;

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
};

#define NIB_BACKEND_MANDATORY_BYTES offsetof(nib_backend_api, event_create)
/* The one symbol a plugin exports; built-in backends have it under nib_backend_entry_<name>. */
typedef nib_status (*nib_backend_entry_fn)(const nib_host_api *host, const nib_backend_api **out);
NIB_API nib_status nib_backend_entry(const nib_host_api *host, const nib_backend_api **out);

#ifdef __cplusplus
}
#endif
#endif
