/* SPDX-License-Identifier: Apache-2.0
 *
 * The read floor: kernels that read `bytes` (a multiple of 16) and do nothing with them. read.c
 * picks the fastest shape of both. nib_read_bulk (compute capability 9.0 and newer) has one thread
 * a block keep a ring of bulk copies to shared memory in flight; nib_read_loads is plain 16-byte
 * loads.
 */
typedef unsigned long long u64;
typedef unsigned int u32;

#if NIB_READ_BULK
__device__ static u32 shared_address(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}

__device__ static void barrier_init(u32 barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

__device__ static void barrier_expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ static bool barrier_try(u32 barrier, u32 parity)
{
    u32 done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

__device__ static void copy(u32 to, const unsigned char *from, u32 bytes, u32 barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

enum { MOST_STAGES = 64 };

/* A block's share is one range (rounded to 128 bytes), cut into chunks. */
extern "C" __global__ void nib_read_bulk(const unsigned char *memory, u64 bytes, u32 chunk,
                                         u32 stages, u32 *sink)
{
    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ __align__(8) u64 barrier[MOST_STAGES];
    u64 lines = (bytes + 127) / 128;
    u64 from = lines * blockIdx.x / gridDim.x * 128,
        to = lines * (blockIdx.x + 1) / gridDim.x * 128;
    to = to < bytes ? to : bytes;
    if (threadIdx.x)
        return;
    for (u32 i = 0; i < stages; i++)
        barrier_init(shared_address(&barrier[i]));
    /* Orders the barriers' initial state before the copies, which complete on them. */
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    u32 chunks = (u32)((to - from + chunk - 1) / chunk), issued = 0;
    for (u32 done = 0; done < chunks; done++) {
        for (; issued < chunks && issued < done + stages; issued++) {
            u64 at = from + (u64)issued * chunk;
            u32 size = (u32)(to - at < chunk ? to - at : chunk), slot = issued % stages;
            barrier_expect(shared_address(&barrier[slot]), size);
            copy(shared_address(ring) + slot * chunk, memory + at, size,
                 shared_address(&barrier[slot]));
        }
        while (!barrier_try(shared_address(&barrier[done % stages]), done / stages & 1))
            ;
    }
    if (chunks == 0xffffffff) /* never: the parameter is of both kernels */
        *sink = 0;
}

#else
enum { UNROLL = 8 };

extern "C" __global__ void nib_read_loads(const uint4 *memory, u64 bytes, u32 chunk, u32 stages,
                                          u32 *sink)
{
    u64 count = bytes / 16, step = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u32 all = 0;
    for (; i + (UNROLL - 1) * step < count; i += UNROLL * step) {
        uint4 v[UNROLL];
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            v[j] = __ldg(memory + i + j * step);
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            all |= v[j].x & v[j].y & v[j].z & v[j].w;
    }
    for (; i < count; i += step) {
        uint4 v = __ldg(memory + i);
        all |= v.x & v.y & v.z & v.w;
    }
    if (all == 0x5a5a5a5b) /* the memory holds bytes of 0x5a: never, but the compiler cannot know */
        *sink = all + chunk + stages;
}
#endif
