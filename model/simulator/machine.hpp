// The machine the simulator runs: a device's numbers in cycles of its SM clock and bytes a cycle.
//
// What a device file has is taken from it; for what it lacks there is a rule that says how it
// follows from the rest, or the value of an H200. What no micro-benchmark gives was fitted to
// measured kernels on an H200 or set by hand, holds for every device, and stands at the head of
// machine.cpp with where it comes from.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/work.hpp"
#include "model/device.hpp"

namespace tessera::simulator {

struct Machine {
  double clock_mhz = 0;
  int sms = 0;
  int schedulers = 4;  // of an SM, each with a tensor core

  // Residence.
  int warps_per_sm = 0;
  int thread_blocks_per_sm = 0;
  std::int64_t registers_per_sm = 0;
  std::int64_t shared_per_sm = 0;
  std::int64_t reserved_shared = 0;  // of each thread block, by the system

  // An SM, in cycles.
  double issue_interval = 1;        // of one scheduler, per instruction
  double instruction_latency = 2;   // a warp's own pace, per instruction, with nobody beside it
  double mma_interval = 0;          // of one tensor core, per MMA
  double mma_latency = 0;           // to the accumulators
  double load_interval = 1;         // of the load unit, per memory instruction
  double sector_interval = 0.25;    // of the load unit, per sector of one instruction
  double miss_sector_interval = 0;  // of the port to the L2, per sector
  double shared_interval = 1;       // of shared memory, per wavefront
  double shared_latency = 0;
  double barrier_latency = 0;
  double l1_latency = 0;
  std::int64_t l1_bytes = 0;  // with shared memory

  // Behind the SMs.
  int partitions = 1;  // of the L2
  std::int64_t l2_bytes = 0;
  double l2_latency = 0;           // hit in the near partition, there and back
  double l2_far_latency = 0;       // hit in the far one
  double dram_latency = 0;         // miss in both
  double slice_interval = 0;       // of one slice of the L2, per sector
  double atomic_interval = 0;      // of one slice, per sector of atomics
  double dram_read_interval = 0;   // of all channels together, per sector
  double dram_write_interval = 0;  // the same

  // Launches.
  double block_latency = 0;       // from a thread block's end to the start of its successor
  double launch_gap_us = 0;       // between launches in a stream, beside what they run
  double launch_overhead_us = 0;  // least time from launch to launch
};

/// Slices of the L2 over all partitions; a model of its hashing, not a published number.
constexpr int kSlices = 96;

/// Throws Unsupported with what the device's files lack, such as TF32 on Turing.
Machine describe(const Device& device, const WorkDescription& work);

/// How many thread blocks of a launch an SM holds at once, and by what they are limited.
struct Occupancy {
  int thread_blocks = 0;
  std::string limit;  // "registers", "shared memory", "warps", "thread blocks"
};
Occupancy occupancy(const Machine& machine, const Launch& launch);

}  // namespace tessera::simulator
