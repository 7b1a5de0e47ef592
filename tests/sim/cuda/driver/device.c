/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated devices: the chips they pose as, their attributes and addresses. A chip's numbers are
 * those its maker publishes for one product with it. To pose as another chip, add a row.
 */
#include "state.h"

#include <string.h>
#include <sys/mman.h>

drv_device drv_devices[DRV_MAX_DEVICES];

enum { DRIVER_VERSION = 13000, RESERVED_SHARED = 1024 };
/* Addresses of one device; never given twice, so they must last. */
static const uint64_t range_bytes = (uint64_t)1 << 41;

// clang-format off
static const drv_chip chips[] = {
    /* cc  like              units block   unit   blocks threads  kHz      memory   bits  cache */
    { 80, "A100",            108, 166912, 167936, 32, 2048, 1410000,  1215000, 5120,  40 << 20},
    { 86, "GeForce RTX 3090", 82, 101376, 102400, 16, 1536, 1695000,  9751000,  384,   6 << 20},
    { 87, "Orin",             16, 166912, 167936, 16, 1536, 1300000,  3200000,  256,   4 << 20},
    { 89, "GeForce RTX 4090",128, 101376, 102400, 24, 1536, 2520000, 10501000,  384,  72 << 20},
    { 90, "H200",            132, 232448, 233472, 32, 2048, 1980000,  3201000, 6144,  50 << 20},
    {100, "B200",            148, 232448, 233472, 32, 2048, 1965000,  3996000, 8192, 126 << 20},
    {103, "B300",            148, 232448, 233472, 32, 2048, 1920000,  3996000, 8192, 126 << 20},
    {120, "GeForce RTX 5090",170, 101376, 102400, 24, 1536, 2407000, 14001000,  512,  96 << 20},
    {121, "GB10",             48, 101376, 102400, 24, 1536, 2418000,  4266000,  256,  24 << 20},
};
// clang-format on

/* What a chip that nobody knows yet says of itself; its capability is what was asked for. */
static drv_chip unknown_chip = {0,    "a chip to come", 160,     232448, 233472,   32,
                                2048, 2000000,          4000000, 8192,   128 << 20};

static const drv_chip *find_chip(int cc)
{
    for (size_t i = 0; i < sizeof(chips) / sizeof(chips[0]); i++) {
        if (chips[i].cc == cc)
            return &chips[i];
    }
    unknown_chip.cc = cc;
    return &unknown_chip;
}

CUresult drv_devices_create(void);
CUresult drv_devices_create(void)
{
    for (int i = 0; i < drv_options.devices; i++) {
        /* Never readable: a host that follows a device pointer must fall. */
        void *range =
            mmap(NULL, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        drv_devices[i] = (drv_device){.ordinal = i,
                                      .chip = find_chip(drv_options.cc),
                                      .range = (uint64_t)(uintptr_t)range,
                                      .memory = drv_options.memory};
        drv_devices[i].next = drv_devices[i].range + 4096;
    }
    return CUDA_SUCCESS;
}

static CUresult enter_device(CUdevice number, drv_device **out)
{
    CUresult result = drv_enter_any();
    bool exists = number >= 0 && number < drv_options.devices;
    *out = &drv_devices[exists ? number : 0];
    return result || exists ? result : drv_leave(CUDA_ERROR_INVALID_DEVICE);
}

SIM_API CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetCount(int *count)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    if (!count)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *count = drv_options.devices;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    drv_device *found;
    CUresult result = enter_device(ordinal, &found);
    if (result)
        return result;
    if (!device)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *device = found->ordinal;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceGetName(char *name, int length, CUdevice number)
{
    drv_device *device;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    if (!name || length < 1)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)length, "simulated sm_%d, like %s", device->chip->cc,
             device->chip->name);
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice number)
{
    drv_device *device;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    if (!uuid)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    memset(uuid, 0, sizeof(*uuid));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "sim%d-%d", device->chip->cc, number);
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice number)
{
    return cuDeviceGetUuid_v2(uuid, number);
}

SIM_API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice number)
{
    drv_device *device;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    if (!text || length < 1)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(text, (size_t)length, "0000:%02X:00.0", number + 1);
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice number)
{
    drv_device *device;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    if (!bytes)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *bytes = device->memory;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice number)
{
    drv_device *device;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    if (!major || !minor)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    *major = device->chip->cc / 10;
    *minor = device->chip->cc % 10;
    return drv_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice number, CUdevice peer)
{
    drv_device *device, *other;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    other = peer >= 0 && peer < drv_options.devices ? &drv_devices[peer] : NULL;
    if (!other || !can)
        return drv_leave(other ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE);
    *can = 0;
    return drv_leave(CUDA_SUCCESS);
}

static int attribute_of_chip(const drv_device *device, CUdevice_attribute attribute)
{
    const drv_chip *chip = device->chip;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return chip->clock_khz;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return chip->units;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return device->ordinal + 1;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return chip->memory_khz;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return chip->bus_bits;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return chip->cache_bytes;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
        return chip->cache_bytes / 4 * 3;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return chip->threads_unit;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return chip->cc / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return chip->cc % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return chip->shared_unit;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return chip->shared_block;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return chip->blocks_unit;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
        return chip->cc >= 90;
    default:
        return -1;
    }
}

/* The same for every chip from 8.0 on; -1: not known here. */
static int attribute_of_all(CUdevice_attribute attribute)
{
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 49152;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return RESERVED_SHARED;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

SIM_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice number)
{
    drv_device *device;
    CUresult result = enter_device(number, &device);
    if (result)
        return result;
    if (!value || (int)attribute < 1 || (int)attribute > 160)
        return drv_leave(CUDA_ERROR_INVALID_VALUE);
    int answer = attribute_of_chip(device, attribute);
    *value = answer >= 0 ? answer : attribute_of_all(attribute);
    return drv_leave(CUDA_SUCCESS);
}
