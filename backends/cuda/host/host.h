/* SPDX-License-Identifier: Apache-2.0
 *
 * The host side of the CUDA backend: what its files share. backend.c has the table and the entry,
 * driver.c and nvrtc.c the vendor's libraries, chip.c facts, device.c devices, rows.c the planner's
 * questions, shape.c launch shapes, image.c and module.c code, launch.c runs, selftest.c the check
 * of unknown chips, convert.c layouts, quantize.c activations to 8 bits, explain.c facts about
 * kernels, memory.c memory, streams and events.
 */
#ifndef NIB_CUDA_HOST_H
#define NIB_CUDA_HOST_H

#include "host/driver.h"
#include "host/nvrtc.h"
#include "variants/variants.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- facts ---- */

/* What is known of a chip before its driver is asked. */
typedef struct nib_cuda_target {
    const char *isa; /* "sm_90a"; "compute_80" for the PTX that every newer chip runs */
    int32_t cc;      /* whose kernels it runs */
    int32_t own_cc;  /* of the chip */
    bool packed;     /* ahead-of-time packs may be made for it */
} nib_cuda_target;

/* By compute capability, NULL: not known. By index, NULL past the last. By name, NULL: none. */
const nib_cuda_target *nib_cuda_target_of(int32_t cc);
const nib_cuda_target *nib_cuda_target_at(uint32_t index);
const nib_cuda_target *nib_cuda_target_named(const char *isa);

/* The facts of a usual chip of a target. */
void nib_cuda_chip_usual(const nib_cuda_target *target, nib_cuda_chip *chip);
/* Completes a chip: `chip` holds the attributes (0: not told) and is given the rates of the
 * product, or what the attributes and a usual chip of the target say. `bus_gb_per_s` as the
 * attributes have it, 0 unknown. */
void nib_cuda_chip_rates(const char *name, const nib_cuda_target *target, double bus_gb_per_s,
                         nib_cuda_chip *chip);

/* Known products of a target, by index; false past the last. A device of that product has the same
 * facts, but for its cache. */
bool nib_cuda_chip_product(const nib_cuda_target *target, uint32_t index, nib_cuda_chip *chip);

/* ---- devices ---- */

typedef struct nib_cuda_module nib_cuda_module;
typedef struct nib_cuda_shapes nib_cuda_shapes;

typedef struct nib_cuda_device {
    const nib_cuda_driver *driver;
    nib_cu_device handle;
    nib_cu_context context; /* the primary one */
    const nib_cuda_target *target;
    nib_cuda_chip chip;
    bool known;                /* false: a newer chip, served with PTX */
    atomic_bool refuses_cubin; /* it told so once: PTX from then on */
    int32_t threads_unit;
    uint64_t memory_bytes;
    char name[96], driver_name[64];
    pthread_mutex_t lock; /* of the modules */
    nib_cuda_module *modules;
    nib_cuda_shapes *shapes;
    nib_cuda_module *converter; /* NULL until the first conversion */
    bool converts_always;       /* NIB_CUDA_CONVERT=device: compiles for the smallest matrix */
    bool depends;               /* dependent launches; NIB_CUDA_DEPENDENT=0: none */
    atomic_uint_fast64_t nonce; /* of the next launch */
    uint64_t left_to_host;      /* bytes of conversions not worth compiling for; under lock */
} nib_cuda_device;

/* Set once by the entry function, before anything else here runs. */
extern const nib_host_api *nib_cuda_host;

/* Makes the device's context current, and gives back what was. Between the two, driver calls; the
 * pair is cheap when the context is current already. nib_cuda_enter fails in a forked child. */
typedef struct nib_cuda_visit {
    const nib_cuda_device *device;
    bool pushed;
} nib_cuda_visit;
nib_status nib_cuda_enter(const nib_cuda_device *device, nib_cuda_visit *visit);
void nib_cuda_leave(const nib_cuda_visit *visit);

nib_status nib_cuda_device_count(uint32_t *count, char *why, size_t why_bytes);
nib_status nib_cuda_device_open(uint32_t index, void **dev);
void nib_cuda_device_close(void *dev);
nib_status nib_cuda_device_info(void *dev, nib_device_info *info);

/* ---- rows ---- */

const nib_cuda_row *nib_cuda_row_of(const nib_variant *variant);
/* All tables in one order, NULL past the last. */
const nib_cuda_row *nib_cuda_row_at(uint32_t index);
/* NULL when the row can serve the description on the chip, else why not. */
const char *nib_cuda_row_refusal(const nib_cuda_row *row, const nib_cuda_chip *chip,
                                 const nib_gemm_desc *desc);
/* The family's shape for m rows, remembered: neither allocates nor waits. */
void nib_cuda_shape_find(const nib_cuda_device *device, const nib_cuda_row *row,
                         const nib_gemm_desc *desc, int64_t m, nib_cuda_shape *out);
/* The empty memory of shapes, from malloc; NULL: there is no memory. */
nib_cuda_shapes *nib_cuda_shapes_create(void);
/* Microseconds that starting a launch costs. */
#define NIB_CUDA_LAUNCH_US 3.0

nib_status nib_cuda_layout(void *dev, const nib_weight_desc *desc, nib_backend_layout *out);
nib_status nib_cuda_variant(void *dev, uint32_t index, const nib_variant **out);
nib_status nib_cuda_supports(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                             char *why, size_t why_bytes);
nib_status nib_cuda_workspace(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                              int64_t m, uint64_t *bytes);
nib_status nib_cuda_predict(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                            int64_t m, double *us, const char **bound);

/* ---- code ---- */

enum { NIB_CUDA_MOST_FILES = 64, NIB_CUDA_LABEL_BYTES = 160 };

/* The source of every kernel, embedded; ended by a NULL name. Names are relative to backends/cuda:
 * "kernels/sm80/decode.cu". */
extern const nib_image_file nib_cuda_sources[];

/* What one image is made of. */
typedef struct nib_cuda_recipe {
    nib_image_request request;
    nib_image_file files[NIB_CUDA_MOST_FILES];
    char label[NIB_CUDA_LABEL_BYTES];
    char *spec; /* from malloc */
} nib_cuda_recipe;

/* Source, spec and label to a request for a target: a cubin, or PTX for "compute_..." names. `spec`
 * is copied. */
nib_status nib_cuda_recipe_make(const char *source, const char *spec, const char *label,
                                const char *isa, nib_cuda_recipe *out);
void nib_cuda_recipe_free(nib_cuda_recipe *recipe);
/* The spec of a row for a description, from malloc. */
nib_status nib_cuda_spec_make(const nib_cuda_row *row, const nib_cuda_chip *chip,
                              const nib_gemm_desc *desc, char **spec);

/* What people call a row's code for a description: "wu4_g128zf_sf16_af16-w4-sm80-m16". */
void nib_cuda_label(const nib_cuda_row *row, const nib_gemm_desc *desc, char *text, size_t bytes);

nib_status nib_cuda_isa(uint32_t index, const char **name);
nib_status nib_cuda_images(const char *isa, const nib_gemm_desc *desc,
                           nib_status (*each)(void *user, const nib_image_request *request),
                           void *user);

/* Code loaded on a device, shared by all who ask for the same source and spec. */
struct nib_cuda_module {
    nib_cuda_module *next;
    int32_t users;        /* under the device's lock, like the list */
    const char *source;   /* identity */
    char *spec;           /* identity */
    pthread_mutex_t lock; /* held while it is being loaded */
    bool loaded, tested;
    nib_cu_module handle;
    nib_image_origin origin;
    double image_us, load_us;
    char isa[32]; /* of the image */
};

/* The module, loaded: from a pack, the cache, the compiler or as PTX. */
nib_status nib_cuda_module_get(nib_cuda_device *device, const char *source, const char *spec,
                               const char *label, bool portable, nib_cuda_module **out);
void nib_cuda_module_put(nib_cuda_device *device, nib_cuda_module *module);

/* ---- kernels ---- */

typedef struct nib_cuda_kernel {
    const nib_cuda_row *row;
    nib_gemm_desc desc;
    nib_cuda_module *module;
    nib_cu_function entry, before, reduce; /* the latter two NULL: the family has none */
    int32_t act_bytes;
} nib_cuda_kernel;

/* Starts a function in the current context; `params` is its one parameter, by value. */
nib_cu_result nib_cuda_start(const nib_cuda_device *device, nib_cu_function function,
                             const nib_cu_launch *launch, void *params);

/* Whether the waits by griddepcontrol in a module's kernels are there, as in code for sm_90 and
 * newer, so that they may be launched as dependents of the kernel before them. */
bool nib_cuda_may_depend(const nib_cuda_device *device, const nib_cuda_module *module);

nib_status nib_cuda_kernel_get(void *dev, const nib_variant *variant, const nib_gemm_desc *desc,
                               void **kernel);
void nib_cuda_kernel_put(void *dev, void *kernel);
nib_status nib_cuda_launch(void *dev, void *kernel, const nib_packed *weights,
                           const nib_gemm_args *args);
/* The same with the context current: the self-test's. */
nib_status nib_cuda_launch_here(nib_cuda_device *device, const nib_cuda_kernel *kernel,
                                const nib_packed *weights, const nib_gemm_args *args);
nib_status nib_cuda_explain(void *dev, void *kernel, int64_t m, char *text, size_t capacity,
                            size_t *needed);
/* Runs the kernel on a problem whose result is known whatever the layout. NIB_UNSUPPORTED: it
 * computed something else. */
nib_status nib_cuda_selftest(nib_cuda_device *device, const nib_cuda_kernel *kernel);

nib_status nib_cuda_convert(void *dev, const nib_convert_args *args);

nib_status nib_cuda_act_quantizer_get(void *dev, const nib_act_quantizer_desc *desc,
                                      void **quantizer);
void nib_cuda_act_quantizer_put(void *dev, void *quantizer);
nib_status nib_cuda_quantize_activations(void *dev, void *quantizer,
                                         const nib_act_quantize_args *args);
/* What people call a quantizer's code: "quantize-f16-e4m3-row". */
void nib_cuda_quantizer_label(const nib_act_quantizer_desc *desc, char *text, size_t bytes);

/* ---- memory ---- */

nib_status nib_cuda_memory_alloc(void *dev, uint64_t bytes, void **out);
void nib_cuda_memory_free(void *dev, void *memory);
nib_status nib_cuda_memory_copy(void *dev, void *to, const void *from, uint64_t bytes,
                                nib_copy_kind kind, void *stream);
nib_status nib_cuda_synchronize(void *dev, void *stream);
nib_status nib_cuda_event_create(void *dev, void **event);
void nib_cuda_event_destroy(void *dev, void *event);
nib_status nib_cuda_event_record(void *dev, void *event, void *stream);
nib_status nib_cuda_event_elapsed(void *dev, void *from, void *to, double *us);

#endif
