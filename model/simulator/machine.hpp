// The simulated machine: a device's numbers in cycles of its SM clock and bytes per cycle.
//
// Numbers come from the device file; a rule derives missing ones from the rest, or they are those
// of an H200. Constants that no micro-benchmark gives were fitted to measured kernels on an H200 or
// set by hand; they hold for every device and are at the head of machine.cpp with their sources.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/gpu_limits.hpp"
#include "kernels/work.hpp"
#include "model/device.hpp"

namespace tessera::simulator {

struct Machine {
  double clock_mhz = 0;
  GpuLimits limits;    // SMs, and the thread blocks that they hold
  int schedulers = 4;  // per SM, each with a tensor core

  // An SM, in cycles.
  double issue_interval = 1;        // one scheduler, per instruction
  double instruction_latency = 2;   // one warp alone, per instruction
  double mma_interval = 0;          // one tensor core, per MMA
  double mma_latency = 0;           // until the accumulators are ready
  double load_interval = 1;         // load unit, per memory instruction
  double sector_interval = 0.25;    // load unit, per sector of one instruction
  double miss_sector_interval = 0;  // port to the L2, per sector
  double shared_interval = 1;       // shared memory, per wavefront
  double shared_latency = 0;
  double barrier_latency = 0;
  double fence_latency = 0;     // behind what the SM has asked for, until all see its stores
  double exchange_latency = 0;  // of an atomic of which the result is waited for
  double l1_latency = 0;
  std::int64_t l1_bytes = 0;  // including shared memory

  // The L2 and the device memory, in cycles.
  int partitions = 1;  // of the L2
  std::int64_t l2_bytes = 0;
  double l2_latency = 0;           // round trip of a hit in the near partition
  double l2_far_latency = 0;       // round trip of a hit in the far partition
  double dram_latency = 0;         // round trip of a miss whose home is near
  double slice_interval = 0;       // one slice of the L2, per sector that it looks up
  double answer_interval = 0;      // all ways from the L2 to SMs together, per sector
  double fabric_interval = 0;      // between the partitions, both ways together, per sector
  double way_spread = 0;           // from the L2 to SMs: the longest way less the shortest
  double way_wait = 0;             // the mean wait on it where half of the rate is used
  double atomic_interval = 0;      // one slice, per sector of atomics
  double dram_read_interval = 0;   // all channels together, per sector
  double dram_write_interval = 0;  // all channels together, per sector
  double dram_turn_interval = 0;   // the same, more for a sector written after one was read
  int dram_held_sectors = 1;       // that a channel behind a slice holds before it writes them

  // Launches.
  double block_latency = 0;       // cycles from a thread block's end to its successor's start
  double block_interval = 0;      // cycles from a thread block's start to that of the next one
  double launch_gap_us = 0;       // from the end of a launch to the start of the next in a stream
  double overlapped_gap_us = 0;   // the same where the next launch overlaps the one before
  double launch_overhead_us = 0;  // least time from launch to launch

  // The host, where it waits for the device.
  double launch_start_us = 0;     // from the end of the call that launches to the start
  double report_us = 0;           // from the end of a launch until the host has seen its report
  double synchronisation_us = 0;  // from the end of a launch until the host has waited for a stream
  double allocation_us = 0;       // of an array from a pool
  double fork_us = 0;             // to send launches to several streams
};

/// The slices of the L2 over all partitions; a model of its hashing, not a published number.
constexpr int kSlices = 96;
/// The machine of a device for the MMAs of a work description. Throws Unsupported, naming the
/// quantity, when the device lacks one, such as TF32 on Turing.
Machine describe(const Device& device, const WorkDescription& work);

/// The number of thread blocks of a launch that an SM holds at once, and the resource that limits
/// it.
struct Occupancy {
  int thread_blocks = 0;
  std::string limit;  // "registers", "shared memory", "warps", "thread blocks"
};
/// Throws Unsupported when not even one thread block fits.
Occupancy occupancy(const Machine& machine, const Launch& launch);

}  // namespace tessera::simulator
