/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded code of a device, shared by reference count. An image comes as a cubin for the chip, from
 * a pack, the cache or the compiler; where that fails or the driver takes no cubins, as PTX that
 * the driver compiles. The message of a failure has the reason of every step.
 */
#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 2048, WHY_BYTES = 900 };

/* Why each way to an image failed, one sentence a step. */
typedef struct reasons {
    char text[WHY_BYTES];
    size_t length;
} reasons;

static void add_reason(reasons *to, const char *what, const char *why)
{
    size_t left = sizeof(to->text) - to->length;
    int written =
        snprintf(to->text + to->length, left, "%s%s: %s", to->length ? "; " : "", what, why);
    if (written > 0)
        to->length += (size_t)written < left ? (size_t)written : left - 1;
}

/* Loads an image with the context current. `log` receives the driver's compiler's complaints. */
static nib_cu_result load(const nib_cuda_device *device, const nib_image *image,
                          nib_cuda_module *module, char *log, size_t log_bytes)
{
    nib_cu_attribute options[] = {NIB_CU_JIT_ERROR_LOG, NIB_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)log_bytes};
    double begin = nib_cuda_now_us();
    log[0] = '\0';
    nib_cu_result result =
        device->driver->module_load(&module->handle, image->data, 2, options, values);
    log[log_bytes - 1] = '\0';
    module->load_us = nib_cuda_now_us() - begin;
    nib_cuda_host->log(NIB_LOG_DEBUG, "timed: load %.0f us %s", module->load_us, module->source);
    return result;
}

/* Results after which another kind of image may still load. */
static bool may_try_another(nib_cu_result result)
{
    switch (result) {
    case NIB_CU_INVALID_IMAGE:
    case NIB_CU_NO_BINARY_FOR_GPU:
    case NIB_CU_INVALID_PTX:
    case NIB_CU_JIT_COMPILER_NOT_FOUND:
    case NIB_CU_UNSUPPORTED_PTX_VERSION:
    case NIB_CU_JIT_COMPILATION_DISABLED:
    case NIB_CU_INVALID_SOURCE:
        return true;
    default:
        return false;
    }
}

/* One way to code: an image for `isa`, loaded. NIB_UNSUPPORTED with the reason added: the next way
 * may do. Any other failure is final. */
static nib_status try_isa(nib_cuda_device *device, const char *label, const char *isa,
                          nib_cuda_module *module, reasons *why)
{
    nib_cuda_recipe recipe;
    nib_image image = {.size = sizeof(image)};
    char log[LOG_BYTES], what[64], compiler[NIB_CUDA_REASON_BYTES] = "";
    snprintf(what, sizeof(what), "%s for %s", strncmp(isa, "compute_", 8) ? "cubin" : "PTX", isa);
    nib_status status = nib_cuda_recipe_make(module->source, module->spec, label, isa, &recipe);
    if (status)
        return status;
    recipe.request.user = compiler;
    status = nib_cuda_host->image_get(&recipe.request, &image);
    bool has_compiler = recipe.request.compile != NULL;
    nib_cuda_recipe_free(&recipe);
    if (status == NIB_MISSING || status == NIB_UNSUPPORTED) {
        const char *reason = compiler[0] ? compiler : "in no pack, not cached";
        add_reason(why, what, reason);
        if (!has_compiler && !nib_cuda_nvrtc_path(0, &reason))
            add_reason(why, "compiler", reason);
        return NIB_UNSUPPORTED;
    }
    if (status)
        return status;
    nib_cu_result result = load(device, &image, module, log, sizeof(log));
    module->origin = image.origin;
    module->image_us = image.us;
    snprintf(module->isa, sizeof(module->isa), "%s", isa);
    nib_cuda_host->image_put(&image);
    if (result == NIB_CU_NO_BINARY_FOR_GPU || result == NIB_CU_INVALID_IMAGE)
        if (!strncmp(isa, "sm_", 3))
            atomic_store(&device->refuses_cubin, true);
    if (!result || !may_try_another(result))
        return nib_cuda_result(result, "cuModuleLoadDataEx");
    add_reason(why, what, log[0] ? log : nib_cuda_result_name(result));
    return NIB_UNSUPPORTED;
}

/* The ways to code, best first. */
static nib_status load_module(nib_cuda_device *device, const char *label, bool portable,
                              nib_cuda_module *module)
{
    reasons why = {0};
    nib_status status = NIB_UNSUPPORTED;
    nib_cuda_visit visit;
    char own_ptx[32];
    /* PTX of a portable kernel is the same for all chips; other kernels need their own chip's. */
    snprintf(own_ptx, sizeof(own_ptx), "compute_%s", strchr(device->target->isa, '_') + 1);
    nib_status entered = nib_cuda_enter(device, &visit);
    if (entered)
        return entered;
    if (device->known && atomic_load(&device->refuses_cubin))
        add_reason(&why, "cubin", "this driver refused one before");
    else if (device->known)
        status = try_isa(device, label, device->target->isa, module, &why);
    if (status == NIB_UNSUPPORTED)
        status = try_isa(device, label, portable ? "compute_80" : own_ptx, module, &why);
    nib_cuda_leave(&visit);
    if (status == NIB_UNSUPPORTED)
        return nib_cuda_host->fail(NIB_UNSUPPORTED, "no code of %s for %s (%s)", label,
                                   device->name, why.text);
    module->loaded = !status;
    return status;
}

/* The module of an identity, made if it is not there; counts its user. */
static nib_cuda_module *find_module(nib_cuda_device *device, const char *source, const char *spec)
{
    nib_cuda_module *module;
    pthread_mutex_lock(&device->lock);
    for (module = device->modules; module; module = module->next)
        if (!strcmp(module->source, source) && !strcmp(module->spec, spec))
            break;
    if (!module && (module = calloc(1, sizeof(*module))) != NULL) {
        module->source = source;
        module->spec = strdup(spec);
        if (module->spec) {
            pthread_mutex_init(&module->lock, NULL);
            module->next = device->modules;
            device->modules = module;
        } else {
            free(module);
            module = NULL;
        }
    }
    if (module)
        module->users++;
    pthread_mutex_unlock(&device->lock);
    return module;
}

nib_status nib_cuda_module_get(nib_cuda_device *device, const char *source, const char *spec,
                               const char *label, bool portable, nib_cuda_module **out)
{
    nib_status status = NIB_OK;
    nib_cuda_module *module = find_module(device, source, spec);
    if (!module)
        return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a kernel");
    /* Others who want the same code wait here, those of other code do not. */
    pthread_mutex_lock(&module->lock);
    if (!module->loaded)
        status = load_module(device, label, portable, module);
    pthread_mutex_unlock(&module->lock);
    if (status) {
        nib_cuda_module_put(device, module);
        return status;
    }
    *out = module;
    return NIB_OK;
}

void nib_cuda_module_put(nib_cuda_device *device, nib_cuda_module *module)
{
    nib_cuda_visit visit;
    pthread_mutex_lock(&device->lock);
    bool last = --module->users == 0;
    for (nib_cuda_module **at = &device->modules; last && *at; at = &(*at)->next)
        if (*at == module) {
            *at = module->next;
            break;
        }
    pthread_mutex_unlock(&device->lock);
    if (!last)
        return;
    if (module->loaded && !nib_cuda_enter(device, &visit)) {
        device->driver->module_unload(module->handle);
        nib_cuda_leave(&visit);
    }
    pthread_mutex_destroy(&module->lock);
    free(module->spec);
    free(module);
}
