// Barriers in shared memory, bulk copies that arrive at them, and clusters of thread blocks:
// compute capability 9.0 (PTX ISA, "mbarrier", "cp.async.bulk", "barrier.cluster").
//
// Addresses are of the shared window of the thread block, 32 bits.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to the copies and to the cluster.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and lets the barrier's phase end only when `bytes` more have been copied.
__device__ inline void arrive_and_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Waits until the phase of that parity has ended.
__device__ inline void wait_for_phase(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred arrived;\nwait:\n"
      "mbarrier.try_wait.parity.shared.b64 arrived, [%0], %1;\n"
      "@!arrived bra wait;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Copies `bytes`, a multiple of 16 at addresses that are, from global memory.
__device__ inline void copy_bulk(std::uint32_t to, const void* from, int bytes,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
/// Fetches a tensor map that copies will use.
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// Copies the box of a tensor map that begins at `col` and `row`; zeros stand for what is outside.
__device__ inline void copy_box(std::uint32_t to, const CUtensorMap& map, int col, int row,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(col), "r"(row), "r"(barrier)
      : "memory");
}

/// The address, in the window of the cluster, of `at` in thread block `rank`.
__device__ inline std::uint32_t address_in_cluster(std::uint32_t at, int rank) {
  std::uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(at), "r"(rank));
  return remote;
}
/// Copies `bytes` from this thread block to addresses in the window of the cluster.
__device__ inline void copy_to_cluster(std::uint32_t to, std::uint32_t from, int bytes,
                                       std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
/// Orders this thread's writes to shared memory before bulk copies and wgmma that read it.
__device__ inline void fence_for_bulk_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// All threads of the cluster call both. Nothing that a thread wrote before is ordered by it, but
/// for published barriers.
__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace tessera
