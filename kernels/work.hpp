// The work of a kernel's launches in numbers: all of a kernel that a performance model may see.
//
// This header and warp_trace.hpp hold no code of any kernel, and the model folder may include no
// other header of this one. A prediction therefore cannot peek at a measurement.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/warp_trace.hpp"

namespace tessera {

/// The work of one thread block. Bytes are those that its instructions request, before any cache.
struct ThreadBlockWork {
  std::int64_t mma = 0;      // MMA instructions, counted per warp
  std::int64_t fma = 0;      // scalar FP32 multiply-adds, counted per lane
  std::int64_t a_bytes = 0;  // reads of the packed A
  std::int64_t b_bytes = 0;  // reads of B
  std::int64_t c_bytes = 0;  // writes of C
  std::int64_t atomics = 0;  // atomic additions to C, counted per value
  std::int64_t barriers = 0;

  friend bool operator==(const ThreadBlockWork&, const ThreadBlockWork&) = default;
};

/// One grid of thread blocks. The launches of a product run one after another, but for those beside
/// another one.
struct Launch {
  std::string name = {};
  std::int64_t thread_blocks = 0;  // the next ones of WorkDescription::thread_blocks
  int threads_per_block = 0;
  int registers_per_thread = 0;
  std::int64_t shared_bytes = 0;  // of a thread block
  bool overlaps = false;  // begins before what the launch before it wrote is visible, and waits
  std::shared_ptr<const LaunchTrace> trace = {};  // null when the kernel publishes no trace

  bool is_beside = false;   // in another stream than the launch before it: both run at a time
  bool waits = false;       // the host waits for the device before it launches this
  int allocations = 0;      // by the host, behind that wait
  bool hides_wait = false;  // runs while the host waits for what the launch before it has reported
};

/// The work of one product, in the order of its launches.
struct WorkDescription {
  std::string kernel = {};
  std::string mma_type = {};   // the peak that limits the MMAs: "tf32", "fp16"; "" without MMAs
  std::string mma_shape = {};  // "m16n8k8"
  int flops_per_mma = 0;       // multiplications and additions of one MMA instruction
  std::vector<ThreadBlockWork> thread_blocks = {};  // of all launches, in their order
  std::vector<Launch> launches = {};
  AddressSpace memory = {};  // the arrays to which the addresses of the traces refer

  // The minimum traffic through device memory: every operand once.
  std::int64_t footprint_bytes = 0;  // packed A
  std::int64_t b_rows_bytes = 0;     // rows of B for which A has a nonzero
  std::int64_t c_bytes = 0;          // C, written once
  std::int64_t useful_flops = 0;     // 2 nnz N

  /// The sum over all thread blocks.
  ThreadBlockWork total() const {
    ThreadBlockWork sum;
    for (const ThreadBlockWork& block : thread_blocks) {
      sum.mma += block.mma;
      sum.fma += block.fma;
      sum.a_bytes += block.a_bytes;
      sum.b_bytes += block.b_bytes;
      sum.c_bytes += block.c_bytes;
      sum.atomics += block.atomics;
      sum.barriers += block.barriers;
    }
    return sum;
  }
};

}  // namespace tessera
