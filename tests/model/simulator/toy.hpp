// A machine of round numbers and kernels written as functions, for launches that can be worked out
// by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/work.hpp"
#include "model/simulator/machine.hpp"

namespace tessera::simulator {

/// Round numbers, one SM unless said otherwise.
inline Machine toy_machine(int sms = 1) {
  Machine m;
  m.clock_mhz = 1000;
  m.limits = {
      .sms = sms, .thread_blocks = 32, .warps = 64, .registers = 65536, .shared_bytes = 64 * 1024};
  m.issue_interval = 1;
  m.instruction_latency = 2;
  m.mma_interval = 8;
  m.mma_latency = 32;
  m.load_interval = 1;
  m.sector_interval = 0.25;
  m.miss_sector_interval = 0.5;
  m.shared_interval = 1;
  m.shared_latency = 20;
  m.barrier_latency = 10;
  m.fence_latency = 900;
  m.exchange_latency = 700;
  m.l1_latency = 30;
  m.l1_bytes = 256 * 1024;
  m.l2_bytes = 32 << 20;
  m.l2_latency = 200;
  m.l2_far_latency = 400;
  m.dram_latency = 600;
  m.slice_interval = 1;
  m.atomic_interval = 2;
  m.dram_read_interval = 0.01;
  m.dram_write_interval = 0.01;
  m.block_latency = 100;
  m.launch_gap_us = 1;
  return m;
}

/// A launch whose warps all follow one function; it is called until it says false.
class Toy final : public LaunchTrace {
 public:
  using Next = std::function<bool(std::int64_t block, int warp, WarpCursor&, WarpTrace&)>;
  explicit Toy(Next next) : next_(std::move(next)) {}
  bool next(std::int64_t block, int warp, WarpCursor& cursor, WarpTrace& trace) const override {
    return next_(block, warp, cursor, trace);
  }

 private:
  Next next_;
};

inline WorkDescription toy_work(std::int64_t thread_blocks, int warps, Toy::Next next) {
  WorkDescription work{.kernel = "toy", .mma_type = "tf32", .mma_shape = "m16n8k8"};
  work.thread_blocks.resize(static_cast<std::size_t>(thread_blocks));
  work.launches = {{.name = "toy",
                    .thread_blocks = thread_blocks,
                    .threads_per_block = 32 * warps,
                    .registers_per_thread = 32,
                    .trace = std::make_shared<Toy>(std::move(next))}};
  return work;
}

}  // namespace tessera::simulator
