/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions of sm_90 that bring data: barriers in shared memory that count bytes, bulk and
 * tensor copies, shared memory of other blocks of a cluster. One instruction a function; what sm_80
 * has is in kernels/sm80/mma.cuh, dependent launches too. Kernels of this folder include it after
 * that file.
 *
 * Addresses in shared memory are 32-bit, of the own block where nothing else is said; barriers are
 * 8 bytes at multiples of 8. Copies go through the asynchronous proxy: what threads store to shared
 * memory is seen by it after nib_fence_async, what it brings is seen by threads after the wait.
 */
#ifndef NIB_CUDA_SM90_COPY_CUH
#define NIB_CUDA_SM90_COPY_CUH

/* ---- one thread of a warp ----------------------------------------------------------------- */

/* True in one lane, always the same; the whole warp calls it. The assembler knows then that a copy
 * in its branch is started by one thread: behind lane == 0 it would loop over the active lanes,
 * some five instructions a copy. */
NIB_DEVICE bool nib_elect(void)
{
    uint32_t mine;
    asm volatile("{\n\t"
                 ".reg .pred mine;\n\t"
                 "elect.sync _|mine, 0xffffffff;\n\t"
                 "selp.u32 %0, 1, 0, mine;\n\t"
                 "}"
                 : "=r"(mine));
    return mine != 0;
}

/* ---- barriers (PTX ISA, mbarrier) --------------------------------------------------------- */

/* A phase ends when `arrivals` threads have arrived and all bytes expected in it are there. */
NIB_DEVICE void nib_barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

/* Makes this thread's nib_barrier_init seen by copies and by the cluster; other threads also need
 * a barrier of theirs behind it. */
NIB_DEVICE void nib_barrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* One arrival that also announces `bytes` of copies. */
NIB_DEVICE void nib_barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

NIB_DEVICE void nib_barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives when this thread's cp.async copies so far are done: one of the arrivals that the barrier
 * was made for. */
NIB_DEVICE void nib_barrier_arrive_copies(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Whether the phase of this parity has ended; may sleep for a while first. */
NIB_DEVICE bool nib_barrier_try(uint32_t barrier, uint32_t parity)
{
    uint32_t ended;
    asm volatile("{\n\t"
                 ".reg .pred ended;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, ended;\n\t"
                 "}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended != 0;
}

/* Waits for the end of a phase: parity 0 is the first's, 1 the second's and, at once, that of the
 * phase before the first. */
NIB_DEVICE void nib_barrier_wait(uint32_t barrier, uint32_t parity)
{
    while (!nib_barrier_try(barrier, parity)) {
    }
}

/* ---- copies (PTX ISA, cp.async.bulk) ------------------------------------------------------ */

/* `bytes` from global to shared memory; both addresses and `bytes` are multiples of 16. */
NIB_DEVICE void nib_bulk_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* The box of the map at column k, row m. A box counts in full, whatever part of it lies beyond the
 * matrix and is filled with zeros. Swizzled by 128 bytes: `to` is a multiple of 1024, row r of the
 * box is at 128 r, and its 16-byte piece i at 16 (i ^ r % 8). */
NIB_DEVICE void nib_tensor_copy(uint32_t to, const nib_cuda_map *map, int32_t k, int32_t m,
                                uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(k), "r"(m), "r"(barrier)
                 : "memory");
}

/* Fetches a map's 128 bytes ahead of the first copy that needs them. */
NIB_DEVICE void nib_map_prefetch(const nib_cuda_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Stores of this thread to shared memory come before what the asynchronous proxy does afterwards:
 * copies into the same place, wgmma that reads it. */
NIB_DEVICE void nib_fence_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- clusters ----------------------------------------------------------------------------- */

NIB_DEVICE uint32_t nib_cluster_rank(void)
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Blocks of the cluster, 1 where the launch has none. */
NIB_DEVICE uint32_t nib_cluster_size(void)
{
    uint32_t size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

/* The address in block `rank`'s shared memory of what is at `address` in this block's. */
NIB_DEVICE uint32_t nib_cluster_address(uint32_t address, uint32_t rank)
{
    uint32_t out;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(address), "r"(rank));
    return out;
}

NIB_DEVICE void nib_cluster_store4(uint32_t address, const uint32_t *in)
{
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(in[0]),
                 "r"(in[1]), "r"(in[2]), "r"(in[3])
                 : "memory");
}

/* 16 bytes into another block's memory, counted by a barrier of that block as a copy would be; both
 * by addresses from nib_cluster_address. Who waits at the barrier sees them: no fence is needed. */
NIB_DEVICE void nib_cluster_send4(uint32_t address, const uint32_t *in, uint32_t barrier)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[%0], {%1,%2,%3,%4}, [%5];" ::"r"(address),
                 "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]), "r"(barrier)
                 : "memory");
}

/* The barrier of all threads of the cluster in two halves. Stores before the first are seen by all
 * after the second; a block's memory may be written by others from its first arrival on, and until
 * its last. */
NIB_DEVICE void nib_cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* The same without an order of stores, which costs a MEMBAR: behind nib_barrier_init_fence barriers
 * are seen by all after the second half all the same. */
NIB_DEVICE void nib_cluster_arrive_relaxed(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

NIB_DEVICE void nib_cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

#endif
