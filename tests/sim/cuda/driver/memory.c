/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory and pinned host memory. A device address is a number in a range that the host
 * cannot touch; the bytes behind it lie elsewhere, between red zones, filled with NaN patterns. No
 * address is given twice, so a pointer into freed memory is always found out. copy.c moves the
 * bytes.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 512,
    RED_BYTES = 512,
    RED = 0xa5,
    FRESH = 0xff, /* NaN in every float type, -1 in integers */
    FREED = 0xdd,
    GAP = 4096 /* between addresses: a long over-read meets no neighbour */
};

/* Sorted by address; the dead stay. Device addresses grow, so most insertions are at the end. */
static drv_block *blocks;
static size_t block_count, block_room;
static uint64_t last_serial;

/* The last block that begins at or before the address. */
static size_t upper(uint64_t address)
{
    size_t low = 0, high = block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

drv_block *drv_block_at(uint64_t address)
{
    size_t at = upper(address);
    if (!at)
        return NULL;
    drv_block *block = &blocks[at - 1];
    return address - block->address < (block->bytes ? block->bytes : 1) ? block : NULL;
}

static drv_block *insert(uint64_t address)
{
    size_t at = upper(address);
    if (block_count == block_room) {
        size_t room = block_room ? 2 * block_room : 256;
        drv_block *larger = realloc(blocks, room * sizeof(*larger));
        if (!larger)
            return NULL;
        blocks = larger;
        block_room = room;
    }
    memmove(&blocks[at + 1], &blocks[at], (block_count - at) * sizeof(*blocks));
    block_count++;
    return &blocks[at];
}

uint8_t *drv_memory_resolve(CUcontext ctx, uint64_t address, uint64_t bytes, char *why,
                            size_t why_bytes)
{
    const drv_block *block = drv_block_at(address);
    if (!block) {
        size_t at = upper(address);
        const drv_block *before = at ? &blocks[at - 1] : NULL;
        if (before && address - before->address < before->bytes + GAP)
            snprintf(why, why_bytes,
                     "address 0x%" PRIx64 " is %" PRIu64
                     " bytes past the end of a block of %" PRIu64 " bytes at 0x%" PRIx64 "%s",
                     address, address - before->address - before->bytes, before->bytes,
                     before->address, before->host ? "" : ", which was freed");
        else
            snprintf(why, why_bytes, "address 0x%" PRIx64 " is in no block of device memory",
                     address);
        return NULL;
    }
    uint64_t offset = address - block->address;
    if (!block->host)
        snprintf(why, why_bytes,
                 "address 0x%" PRIx64 " is %" PRIu64 " bytes into a block of %" PRIu64
                 " bytes that was freed",
                 address, offset, block->bytes);
    else if (bytes > block->bytes - offset)
        snprintf(why, why_bytes,
                 "%" PRIu64 " bytes at 0x%" PRIx64 ", %" PRIu64 " into a block of %" PRIu64
                 " bytes, pass its end",
                 bytes, address, offset, block->bytes);
    else if ((block->kind == DRV_DEVICE_MEMORY || block->kind == DRV_MODULE_MEMORY) &&
             block->ctx->device != ctx->device)
        snprintf(why, why_bytes, "address 0x%" PRIx64 " is memory of device %d, used on device %d",
                 address, block->ctx->device->ordinal, ctx->device->ordinal);
    else
        return block->host + offset;
    return NULL;
}

bool drv_memory_pinned(const void *address, uint64_t bytes)
{
    const drv_block *block = drv_block_at((uint64_t)(uintptr_t)address);
    if (!block || !block->host || block->kind == DRV_DEVICE_MEMORY ||
        block->kind == DRV_MODULE_MEMORY)
        return false;
    uint64_t offset = (uint64_t)(uintptr_t)address - block->address;
    return bytes <= block->bytes - offset;
}

CUresult drv_memory_create(CUcontext ctx, uint64_t bytes, uint64_t *address)
{
    drv_device *device = ctx->device;
    if (bytes > device->memory - device->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint8_t *memory =
        aligned_alloc(ALIGNMENT, (bytes + 2 * RED_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    drv_block *block = memory ? insert(device->next) : NULL;
    if (!block) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(memory, RED, RED_BYTES);
    memset(memory + RED_BYTES, FRESH, bytes);
    memset(memory + RED_BYTES + bytes, RED, RED_BYTES);
    *block = (drv_block){.address = device->next,
                         .bytes = bytes,
                         .host = memory + RED_BYTES,
                         .memory = memory,
                         .ctx = ctx,
                         .serial = ++last_serial};
    if (device->chip->cc >= 90) {
        /* Pages that nobody touches cost nothing. */
        block->written = calloc(bytes / 4 + 1, sizeof(*block->written));
        block->read = calloc(bytes / 4 + 1, sizeof(*block->read));
        if (!block->written || !block->read) {
            free(block->written);
            free(block->read);
            block->written = block->read = NULL;
        }
    }
    device->next += (bytes + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    device->used += bytes;
    *address = block->address;
    return CUDA_SUCCESS;
}

static void check_red_zones(const drv_block *block)
{
    for (int i = 0; i < RED_BYTES; i++) {
        if (block->memory[i] == RED && block->host[block->bytes + (uint64_t)i] == RED)
            continue;
        drv_report("the red zone of a block of %" PRIu64 " bytes was overwritten", block->bytes);
        drv_context_fault(block->ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
}

/* Blocks at host addresses leave the table, for these addresses come again. */
static void release(drv_block *block)
{
    if (block->kind != DRV_DEVICE_MEMORY) {
        free(block->memory);
        block_count--;
        memmove(block, block + 1, (size_t)(&blocks[block_count] - block) * sizeof(*block));
        return;
    }
    check_red_zones(block);
    memset(block->host, FREED, block->bytes);
    block->ctx->device->used -= block->bytes;
    free(block->memory);
    free(block->written);
    free(block->read);
    block->memory = block->host = NULL;
    block->written = block->read = NULL;
}

CUresult drv_memory_release(CUcontext ctx, uint64_t address)
{
    drv_block *block = drv_block_at(address);
    if (!block || block->address != address || !block->host || block->kind != DRV_DEVICE_MEMORY) {
        drv_report("cuMemFree of 0x%" PRIx64 ", which is %s", address,
                   block && !block->host ? "freed already" : "no block's first address");
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (block->ctx != ctx) {
        drv_report("cuMemFree of 0x%" PRIx64 " in another context than its own", address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    release(block);
    return CUDA_SUCCESS;
}

void drv_memory_release_context(CUcontext ctx)
{
    for (size_t i = block_count; i-- > 0;) {
        if (blocks[i].ctx == ctx && blocks[i].host)
            release(&blocks[i]);
    }
}

SIM_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (unused)
        *unused = ctx->device->memory - ctx->device->used;
    if (total)
        *total = ctx->device->memory;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    CUcontext ctx;
    uint64_t address;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || !bytes)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    result = drv_capture_forbid_unsafe();
    if (!result)
        result = drv_memory_create(ctx, bytes, &address);
    if (!result)
        *out = address;
    return drv_leave(result);
}

SIM_API CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                    unsigned int element)
{
    if (!pitch || (element != 4 && element != 8 && element != 16) || !height ||
        width > SIZE_MAX / 2 / height)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return cuMemAlloc_v2(out, *pitch * height);
}

/* Freeing waits for all work of the context, as the real driver does. */
SIM_API CUresult cuMemFree_v2(CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!address)
        return drv_leave(CUDA_SUCCESS);
    result = drv_capture_forbid_unsafe();
    if (!result)
        result = drv_context_drain(ctx);
    if (!result)
        result = drv_memory_release(ctx, address);
    return drv_leave(result ? result : ctx->fault);
}

SIM_API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    uint64_t address;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || !bytes)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    result = drv_stream_get(ctx, handle, &stream);
    if (!result && stream->capture)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result)
        result = drv_memory_create(ctx, bytes, &address);
    if (!result)
        *out = address;
    return drv_leave(result);
}

SIM_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    const drv_block *block = drv_block_at(address);
    result = drv_stream_get(ctx, handle, &stream);
    if (!result && (!block || block->address != address || !block->host))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && stream->capture)
        result = CUDA_ERROR_NOT_SUPPORTED;
    drv_op *op = result ? NULL : drv_op_create(DRV_OP_FREE);
    if (op) {
        op->to.address = address;
        result = drv_submit(stream, op);
    }
    return drv_leave(result);
}

SIM_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    const drv_block *block = drv_block_at(address);
    if (!block || !block->host)
        return drv_leave(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = block->address;
    if (bytes)
        *bytes = block->bytes;
    return drv_leave(CUDA_SUCCESS);
}

/* ---- pinned host memory: the device sees it at the host's address ------------------------- */

CUresult drv_memory_adopt(CUcontext ctx, void *memory, uint64_t bytes, unsigned flags,
                          drv_memory_kind kind)
{
    const drv_block *there = drv_block_at((uint64_t)(uintptr_t)memory);
    if (there && there->host)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    drv_block *block = insert((uint64_t)(uintptr_t)memory);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *block = (drv_block){.address = (uint64_t)(uintptr_t)memory,
                         .bytes = bytes,
                         .host = memory,
                         .memory = kind == DRV_PINNED_MEMORY ? memory : NULL,
                         .kind = kind,
                         .ctx = ctx,
                         .flags = flags,
                         .serial = ++last_serial};
    return CUDA_SUCCESS;
}

void drv_memory_forget(const void *memory)
{
    drv_block *block = drv_block_at((uint64_t)(uintptr_t)memory);
    if (block && block->host && block->kind != DRV_DEVICE_MEMORY)
        release(block);
}

static CUresult unpin(CUcontext ctx, const void *memory, drv_memory_kind kind)
{
    drv_block *block = drv_block_at((uint64_t)(uintptr_t)memory);
    if (!block || block->address != (uint64_t)(uintptr_t)memory || !block->host ||
        block->kind != kind)
        return kind == DRV_REGISTERED_MEMORY ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                                             : CUDA_ERROR_INVALID_VALUE;
    CUresult result = drv_context_drain(ctx);
    drv_memory_forget(memory);
    return result;
}

SIM_API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || !bytes || flags > 7)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    result = drv_capture_forbid_unsafe();
    void *memory = result ? NULL : aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!result && !memory)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        memset(memory, FRESH, bytes);
        result = drv_memory_adopt(ctx, memory, bytes, flags, DRV_PINNED_MEMORY);
    }
    if (result)
        free(memory);
    else
        *out = memory;
    return drv_leave(result);
}

SIM_API CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    return cuMemHostAlloc(out, bytes, 0);
}

SIM_API CUresult cuMemFreeHost(void *memory)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    result = drv_capture_forbid_unsafe();
    return drv_leave(result ? result : unpin(ctx, memory, DRV_PINNED_MEMORY));
}

SIM_API CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!memory || !bytes)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    return drv_leave(drv_memory_adopt(ctx, memory, bytes, flags, DRV_REGISTERED_MEMORY));
}

SIM_API CUresult cuMemHostUnregister(void *memory)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    return drv_leave(unpin(ctx, memory, DRV_REGISTERED_MEMORY));
}

SIM_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *memory, unsigned int flags)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!out || flags || !drv_memory_pinned(memory, 1))
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUdeviceptr)(uintptr_t)memory;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemHostGetFlags(unsigned int *flags, void *memory)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    const drv_block *block = drv_block_at((uint64_t)(uintptr_t)memory);
    if (!flags || !block || !block->host || block->kind == DRV_DEVICE_MEMORY)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = block->flags;
    return drv_leave(CUDA_SUCCESS);
}

static CUresult pointer_attribute(const drv_block *block, CUpointer_attribute attribute,
                                  uint64_t address, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = block->ctx;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = block->kind == DRV_DEVICE_MEMORY || block->kind == DRV_MODULE_MEMORY
                                ? CU_MEMORYTYPE_DEVICE
                                : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (block->kind == DRV_DEVICE_MEMORY)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block->ctx->device->ordinal;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

SIM_API CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                       CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    const drv_block *block = drv_block_at(address);
    if (!data || !block || !block->host)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    return drv_leave(pointer_attribute(block, attribute, address, data));
}

/* Of an address that is no block's, everything is 0, and that is no failure. */
SIM_API CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = drv_enter(&ctx);
    if (result)
        return result;
    if (!attributes || !data)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    const drv_block *block = drv_block_at(address);
    for (unsigned i = 0; i < count; i++) {
        bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        bool byte = attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
        memset(data[i], 0, wide ? 8 : byte ? 1 : 4);
        if (block && block->host)
            pointer_attribute(block, attributes[i], address, data[i]);
    }
    return drv_leave(CUDA_SUCCESS);
}
