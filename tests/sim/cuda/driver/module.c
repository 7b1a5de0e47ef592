/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules and functions. Only PTX is taken: a binary is refused with the code that tells a program
 * to try PTX. Text for a newer chip, or for another chip's "a" target, is refused as the real
 * compiler does, with its log. The interpreter (sim.h) reads what is accepted.
 */
#include "state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NEWEST_PTX = 90, LOG_BYTES = 2000, SHARED_WITHOUT_ASKING = 49152 };

/* ---- log buffers -------------------------------------------------------------------------- */

typedef struct jit_logs {
    char *error, *info;
    size_t error_bytes, info_bytes;
    void **error_filled, **info_filled; /* where the option's value says how much there is */
} jit_logs;

static jit_logs find_logs(unsigned count, const CUjit_option *options, void **values)
{
    jit_logs logs = {0};
    for (unsigned i = 0; i < count; i++) {
        switch ((int)options[i]) {
        case CU_JIT_ERROR_LOG_BUFFER:
            logs.error = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            logs.error_bytes = (size_t)(uintptr_t)values[i];
            logs.error_filled = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            logs.info = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            logs.info_bytes = (size_t)(uintptr_t)values[i];
            logs.info_filled = &values[i];
            break;
        default:
            break;
        }
    }
    return logs;
}

static void fill_log(char *buffer, size_t bytes, void **filled, const char *text)
{
    size_t length = 0;
    if (buffer && bytes) {
        snprintf(buffer, bytes, "%s", text);
        length = strlen(buffer);
    }
    if (filled)
        *filled = (void *)(uintptr_t)length;
}

/* ---- what the text is for ------------------------------------------------------------------ */

/* The rest of the first line that begins with `directive`, or NULL. */
static const char *directive(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n\r\t ");
        if (!strncmp(line, name, length))
            return line + length;
        if (!*line)
            return NULL;
    }
    return NULL;
}

static CUresult check_target(const char *text, int cc, char *why, size_t why_bytes)
{
    const char *version = directive(text, ".version"), *target = directive(text, ".target");
    int major = 0, minor = 0, number = 0, length = 0;
    if (!version || !target || sscanf(version, " %d.%d", &major, &minor) != 2 ||
        sscanf(target, " sm_%d%n", &number, &length) != 1) {
        snprintf(why, why_bytes, "the image is neither a binary nor PTX with .version and .target");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (major * 10 + minor > NEWEST_PTX) {
        snprintf(why, why_bytes,
                 "ptxas fatal   : Unsupported .version %d.%d; current version is '%d.%d'", major,
                 minor, NEWEST_PTX / 10, NEWEST_PTX % 10);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    char kind = target[length];
    bool runs = kind == 'a'   ? number == cc
                : kind == 'f' ? number / 10 == cc / 10 && number <= cc
                              : number <= cc;
    if (!runs) {
        snprintf(why, why_bytes,
                 kind == 'a' || kind == 'f'
                     ? "ptxas fatal   : PTX with .target 'sm_%d%c' cannot be compiled for sm_%d"
                     : "ptxas fatal   : SM version specified by .target is higher than default SM "
                       "version assumed: sm_%d%c for sm_%d",
                 number, isalpha((unsigned char)kind) ? kind : ' ', cc);
        return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}

static bool is_binary(const void *image)
{
    static const uint8_t elf[4] = {0x7f, 'E', 'L', 'F'};
    static const uint8_t fat[4] = {0x50, 0xed, 0x55, 0xba}, wrapper[4] = {0xb1, 0x43, 0x62, 0x46};
    return !memcmp(image, elf, 4) || !memcmp(image, fat, 4) || !memcmp(image, wrapper, 4);
}

static CUresult load(CUcontext ctx, const void *image, CUmodule *out, char *why, size_t why_bytes)
{
    if (is_binary(image)) {
        snprintf(why, why_bytes, "the simulator takes PTX only");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    int cc = ctx->device->chip->cc;
    CUresult result = check_target(image, cc, why, why_bytes);
    if (result)
        return result;
    sim_module *program = sim_module_load(image, (unsigned)cc, why, why_bytes);
    if (!program) {
        drv_report("PTX that cannot be run: %s", why);
        return CUDA_ERROR_INVALID_PTX;
    }
    CUmodule module = drv_object_create(DRV_MODULE, sizeof(*module));
    if (!module) {
        sim_module_destroy(program);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->ctx = ctx;
    module->program = program;
    *out = module;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                                    CUjit_option *options, void **values)
{
    CUcontext ctx;
    char why[LOG_BYTES] = "";
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || !image || (count && (!options || !values)))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    result = drv_capture_forbid_unsafe();
    if (result)
        return drv_leave(result);
    jit_logs logs = find_logs(count, options, values);
    result = load(ctx, image, out, why, sizeof(why));
    fill_log(logs.error, logs.error_bytes, logs.error_filled, why);
    fill_log(logs.info, logs.info_bytes, logs.info_filled, "");
    return drv_leave(result);
}

SIM_API CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

SIM_API CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

SIM_API CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    long bytes = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    char *text = bytes >= 0 ? calloc((size_t)bytes + 8, 1) : NULL;
    CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
    if (text) {
        rewind(file);
        if (fread(text, 1, (size_t)bytes, file) == (size_t)bytes)
            result = cuModuleLoadData(out, text);
    }
    free(text);
    if (file)
        fclose(file);
    return result;
}

/* Waits for the context's work, as the real driver does, for some of it may run the module. */
SIM_API CUresult cuModuleUnload(CUmodule module)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!drv_object_alive(module, DRV_MODULE) || module->ctx != ctx)
        return drv_leave(CUDA_ERROR_INVALID_HANDLE);
    result = drv_capture_forbid_unsafe();
    if (result)
        return drv_leave(result);
    result = drv_context_drain(ctx);
    for (int i = 0; i < module->function_count; i++)
        module->functions[i]->object.alive = false;
    for (int i = 0; i < module->variable_count; i++)
        drv_memory_forget(module->variables[i]);
    sim_module_destroy(module->program);
    free(module->functions);
    free(module->variables);
    module->functions = NULL;
    module->variables = NULL;
    module->object.alive = false;
    return drv_leave(result);
}

static CUresult add_function(CUmodule module, const sim_function *entry, CUfunction *out)
{
    CUfunction *larger =
        realloc(module->functions, (size_t)(module->function_count + 1) * sizeof(*larger));
    if (!larger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->functions = larger;
    CUfunction function = drv_object_create(DRV_FUNCTION, sizeof(*function));
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    function->module = module;
    function->entry = entry;
    function->info = sim_function_describe(entry);
    size_t used = function->info->static_shared;
    function->shared_dynamic =
        used < SHARED_WITHOUT_ASKING ? (uint32_t)(SHARED_WITHOUT_ASKING - used) : 0;
    module->functions[module->function_count++] = function;
    *out = function;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || !name)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    if (!drv_object_alive(module, DRV_MODULE))
        return drv_leave(CUDA_ERROR_INVALID_HANDLE);
    const sim_function *entry = sim_function_find(module->program, name);
    if (!entry)
        return drv_leave(CUDA_ERROR_NOT_FOUND);
    for (int i = 0; i < module->function_count; i++) {
        if (module->functions[i]->entry == entry) {
            *out = module->functions[i];
            return drv_leave(CUDA_SUCCESS);
        }
    }
    return drv_leave(add_function(module, entry, out));
}

SIM_API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!count || !drv_object_alive(module, DRV_MODULE))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    for (*count = 0; sim_function_at(module->program, *count);)
        ++*count;
    return drv_leave(CUDA_SUCCESS);
}

/* A variable's address is the host's: it becomes a block when it is first asked for. */
static CUresult adopt_variable(CUmodule module, uint64_t address, size_t bytes)
{
    void *memory = (void *)(uintptr_t)address;
    const drv_block *block = drv_block_at(address);
    if (block && block->host)
        return CUDA_SUCCESS;
    void **larger =
        realloc(module->variables, (size_t)(module->variable_count + 1) * sizeof(*larger));
    if (!larger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->variables = larger;
    CUresult result = drv_memory_adopt(module->ctx, memory, bytes, 0, DRV_MODULE_MEMORY);
    if (!result)
        module->variables[module->variable_count++] = memory;
    return result;
}

SIM_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module,
                                      const char *name)
{
    CUcontext ctx;
    uint64_t address;
    size_t size;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!name)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    if (!drv_object_alive(module, DRV_MODULE))
        return drv_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!sim_module_variable(module->program, name, &address, &size))
        return drv_leave(CUDA_ERROR_NOT_FOUND);
    result = adopt_variable(module, address, size);
    if (!result && out)
        *out = address;
    if (!result && bytes)
        *bytes = size;
    return drv_leave(result);
}

/* ---- functions ---------------------------------------------------------------------------- */

static CUresult enter_function(CUfunction function, CUcontext *ctx)
{
    CUresult result = drv_enter(ctx);
    if (result)
        return result;
    return drv_object_alive(function, DRV_FUNCTION) ? CUDA_SUCCESS
                                                    : drv_leave(CUDA_ERROR_INVALID_HANDLE);
}

SIM_API CUresult cuFuncGetName(const char **name, CUfunction function)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    if (result)
        return result;
    if (!name)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *name = function->info->name;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    if (result)
        return result;
    if (!module)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *module = function->module;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                                    size_t *bytes)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    if (result)
        return result;
    if (!offset || index >= function->info->params)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *offset = function->info->param[index].offset;
    if (bytes)
        *bytes = function->info->param[index].bytes;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    if (result)
        return result;
    if (!value)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    const sim_function_info *info = function->info;
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)info->max_threads;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)info->static_shared;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)info->local;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = (int)info->registers;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = (int)info->target;
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = ctx->device->chip->cc;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)function->shared_dynamic;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = function->wide_cluster;
        break;
    default:
        *value = 0;
        break;
    }
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    if (result)
        return result;
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 ||
            (size_t)value + function->info->static_shared > (size_t)ctx->device->chip->shared_block)
            return drv_leave(CUDA_ERROR_INVALID_VALUE);
        function->shared_dynamic = (uint32_t)value;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function->wide_cluster = value != 0;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
    default:
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    (void)config;
    return result ? result : drv_leave(CUDA_SUCCESS);
}

static int occupancy(const drv_chip *chip, const sim_function_info *info, int threads,
                     size_t dynamic)
{
    int warps = (threads + 31) / 32;
    int registers = (int)(info->registers + 7) / 8 * 8 * 32 * warps;
    int blocks = chip->blocks_unit, limit;
    limit = chip->threads_unit / (warps * 32);
    blocks = limit < blocks ? limit : blocks;
    limit = registers ? 65536 / registers : blocks;
    blocks = limit < blocks ? limit : blocks;
    size_t shared = info->static_shared + dynamic + 1024;
    limit = (int)((size_t)chip->shared_unit / shared);
    return limit < blocks ? limit : blocks;
}

SIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                      CUfunction function,
                                                                      int threads, size_t dynamic,
                                                                      unsigned int flags)
{
    CUcontext ctx;
    CUresult result = enter_function(function, &ctx);
    if (result)
        return result;
    if (!blocks || threads < 1 || flags > 1)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    bool fits = threads <= (int)function->info->max_threads && dynamic <= function->shared_dynamic;
    *blocks = fits ? occupancy(ctx->device->chip, function->info, threads, dynamic) : 0;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                             int threads, size_t dynamic)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic,
                                                                0);
}
