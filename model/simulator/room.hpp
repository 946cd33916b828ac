// The part of an SM that no thread block uses, and the time since which a thread block fits there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "kernels/gpu_limits.hpp"
#include "kernels/work.hpp"

namespace tessera::simulator {

/// A part of an SM: what a thread block takes, or what is free.
struct SmShare {
  std::int64_t thread_blocks = 0, warps = 0, registers = 0, shared_bytes = 0;

  bool is_nothing() const { return *this == SmShare{}; }
  bool covers(const SmShare& other) const {
    return thread_blocks >= other.thread_blocks && warps >= other.warps &&
           registers >= other.registers && shared_bytes >= other.shared_bytes;
  }
  SmShare& operator+=(const SmShare& other) { return add(other, 1); }
  SmShare& operator-=(const SmShare& other) { return add(other, -1); }
  friend bool operator==(const SmShare&, const SmShare&) = default;
  friend SmShare common(const SmShare& a, const SmShare& b) {
    return {std::min(a.thread_blocks, b.thread_blocks), std::min(a.warps, b.warps),
            std::min(a.registers, b.registers), std::min(a.shared_bytes, b.shared_bytes)};
  }

 private:
  SmShare& add(const SmShare& other, int sign) {
    thread_blocks += sign * other.thread_blocks, warps += sign * other.warps;
    registers += sign * other.registers, shared_bytes += sign * other.shared_bytes;
    return *this;
  }
};

inline SmShare share_of(const GpuLimits& gpu, const Launch& launch) {
  const BlockNeeds needs =
      needs_of(gpu, launch.threads_per_block, launch.registers_per_thread, launch.shared_bytes);
  return {1, needs.warps, needs.registers, needs.shared_bytes};
}

/// The free part of an SM. What became free first is taken first.
class Room {
 public:
  explicit Room(const GpuLimits& gpu)
      : all_{gpu.thread_blocks, gpu.warps, gpu.registers, gpu.shared_bytes}, freed_{{0, all_}} {}

  bool fits(const SmShare& need) const { return all_.covers(need); }
  /// The time since which there has been room for a thread block that fits.
  double since(SmShare need) const {
    for (const Freed& freed : freed_) {
      need -= common(need, freed.share);
      if (need.is_nothing()) return freed.time;
    }
    return 0;
  }
  void take(SmShare need) {
    all_ -= need;
    for (Freed& freed : freed_) {
      const SmShare taken = common(need, freed.share);
      freed.share -= taken, need -= taken;
      if (need.is_nothing()) break;
    }
    while (!freed_.empty() && freed_.front().share.is_nothing()) freed_.pop_front();
  }
  void give(const SmShare& share, double time) {
    all_ += share;
    freed_.push_back({time, share});
  }

 private:
  struct Freed {
    double time;
    SmShare share;
  };
  SmShare all_;
  std::deque<Freed> freed_;  // in the order in which it became free
};

}  // namespace tessera::simulator
