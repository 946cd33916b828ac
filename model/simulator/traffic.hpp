// The counters of a simulated launch. A sector is 32 bytes.
#pragma once

#include <cstdint>

namespace tessera::simulator {

/// The counters of the SMs.
struct SmCounts {
  std::int64_t instructions = 0;
  std::int64_t mma = 0;
  std::int64_t load_requests = 0;
  std::int64_t load_sectors = 0;
  std::int64_t load_hits = 0;  // sectors found in the L1, including those in flight
  std::int64_t store_sectors = 0;
  std::int64_t store_hits = 0;  // sectors whose line an earlier part of the instruction touched
  double active_cycles = 0;     // from an SM's first thread block to its last, summed over SMs
  double tensor_busy = 0;       // cycles, summed over tensor cores
  double issue_busy = 0;        // cycles, summed over schedulers
  double load_busy = 0;         // cycles of load units
  double port_busy = 0;         // cycles of the ports to the L2
  double warp_cycles = 0;       // resident warps, summed over cycles
  // Cycles that warps spent waiting, summed over warps.
  double wait_memory = 0, wait_issue = 0, wait_load_unit = 0, wait_tensor = 0, wait_barrier = 0;

  /// Calls f(of this, of the other) for each count.
  template <class F>
  void with_each(const SmCounts& o, F f) {
    f(instructions, o.instructions), f(mma, o.mma), f(load_requests, o.load_requests);
    f(load_sectors, o.load_sectors), f(load_hits, o.load_hits);
    f(store_sectors, o.store_sectors), f(store_hits, o.store_hits);
    f(active_cycles, o.active_cycles);
    f(tensor_busy, o.tensor_busy), f(issue_busy, o.issue_busy), f(load_busy, o.load_busy);
    f(port_busy, o.port_busy), f(warp_cycles, o.warp_cycles);
    f(wait_memory, o.wait_memory), f(wait_issue, o.wait_issue);
    f(wait_load_unit, o.wait_load_unit), f(wait_tensor, o.wait_tensor);
    f(wait_barrier, o.wait_barrier);
  }

  SmCounts& operator+=(const SmCounts& o) {
    with_each(o, [](auto& sum, auto part) { sum += part; });
    return *this;
  }
};

/// The counters of the L2 and the device memory.
struct MemoryCounts {
  std::int64_t sm_read = 0;    // sectors that SMs requested from the L2
  std::int64_t sm_write = 0;   // sectors that SMs wrote, including atomics
  std::int64_t sm_hits = 0;    // sectors of both that hit in the near partition
  std::int64_t coalesced = 0;  // sectors that another SM of the partition was already waiting for
  std::int64_t far_read = 0;   // sectors that one partition requested from the other
  std::int64_t far_write = 0;
  std::int64_t far_hits = 0;
  std::int64_t dram_read = 0;  // sectors
  std::int64_t dram_write = 0;
  double slice_busy = 0;  // cycles, summed over slices

  /// Calls f(of this, of the other) for each count.
  template <class F>
  void with_each(const MemoryCounts& o, F f) {
    f(sm_read, o.sm_read), f(sm_write, o.sm_write), f(sm_hits, o.sm_hits);
    f(coalesced, o.coalesced), f(far_read, o.far_read), f(far_write, o.far_write);
    f(far_hits, o.far_hits), f(dram_read, o.dram_read), f(dram_write, o.dram_write);
    f(slice_busy, o.slice_busy);
  }

  MemoryCounts& operator+=(const MemoryCounts& o) {
    with_each(o, [](auto& sum, auto part) { sum += part; });
    return *this;
  }
};

}  // namespace tessera::simulator
