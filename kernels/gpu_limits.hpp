// The limits of a GPU for the thread blocks that it holds at a time. A kernel may plan its launches
// by them, as cuTeSpMM does by its waves (section 5): they come from a described device or from the
// GPU at hand.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

struct GpuLimits {
  std::int64_t sms = 0;
  std::int64_t thread_blocks = 0;    // of an SM
  std::int64_t warps = 0;            // of an SM
  std::int64_t registers = 0;        // of an SM, 32 bits each
  std::int64_t shared_bytes = 0;     // of an SM
  std::int64_t reserved_shared = 0;  // bytes that the system takes for each thread block

  friend bool operator==(const GpuLimits&, const GpuLimits&) = default;
};

/// Those of an NVIDIA H200 (CUDA C++ Programming Guide, compute capability 9.0).
constexpr GpuLimits kH200Limits{.sms = 132,
                                .thread_blocks = 32,
                                .warps = 64,
                                .registers = 65536,
                                .shared_bytes = 233472,
                                .reserved_shared = 1024};

/// What a thread block takes of an SM. Registers are allocated to warps in units of 256, shared
/// memory in units of 128 bytes.
struct BlockNeeds {
  std::int64_t warps, registers, shared_bytes;
};

/// `threads` and `shared_bytes` are of a thread block, `registers` of a thread.
constexpr BlockNeeds needs_of(const GpuLimits& gpu, std::int64_t threads, std::int64_t registers,
                              std::int64_t shared_bytes) {
  const auto round_up = [](std::int64_t amount, std::int64_t unit) {
    return (amount + unit - 1) / unit * unit;
  };
  const std::int64_t warps = (threads + 31) / 32;
  return {warps, warps * round_up(32 * registers, 256),
          round_up(shared_bytes + gpu.reserved_shared, 128)};
}

/// The thread blocks of a launch that an SM holds at a time, and the resource that limits them.
struct Residency {
  std::int64_t thread_blocks;  // 0 where not one fits
  const char* limit;           // "thread blocks", "warps", "registers", "shared memory"
};

constexpr Residency residency(const GpuLimits& gpu, std::int64_t threads, std::int64_t registers,
                              std::int64_t shared_bytes) {
  const BlockNeeds needs = needs_of(gpu, threads, registers, shared_bytes);
  Residency found{gpu.thread_blocks, "thread blocks"};
  const auto limit = [&](std::int64_t thread_blocks, const char* name) {
    if (thread_blocks < found.thread_blocks) found = {thread_blocks, name};
  };
  limit(gpu.warps / needs.warps, "warps");
  limit(gpu.registers / std::max<std::int64_t>(needs.registers, 1), "registers");
  limit(gpu.shared_bytes / std::max<std::int64_t>(needs.shared_bytes, 1), "shared memory");
  return found;
}

/// The same of the whole GPU.
constexpr std::int64_t resident_thread_blocks(const GpuLimits& gpu, std::int64_t threads,
                                              std::int64_t registers, std::int64_t shared_bytes) {
  return gpu.sms * residency(gpu, threads, registers, shared_bytes).thread_blocks;
}

}  // namespace tessera
