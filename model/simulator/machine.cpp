#include "model/simulator/machine.hpp"

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "model/described_limits.hpp"

namespace tessera::simulator {
namespace {

/// The usable share of the reported L2 capacity, from bytes that an H200 reads from its memory for
/// random rows of 32 to 96 MB (experiments/results/h200/calibration/l2_capacity.csv): 0.98 where
/// nothing else is done, 0.95 beside a stream of stores.
constexpr double kUsableL2 = 0.96;

/// The L2 bandwidth per SM where it is unknown: that of an A100 and of an H100 (RRZE gpu-benches).
constexpr double kL2BytesPerCycle = 35;

/// What the slices look up, and what passes between the partitions, over what the L2 delivers to
/// SMs, where a device file has no such numbers; those of an H200.
constexpr double kLookups = 1.72, kFabric = 0.27;

/// Of the ways from the L2 to SMs, in cycles: the difference between the longest and the shortest,
/// and the mean wait where half of the rate is used. From warps of an H200 that each wait for a
/// load of random rows (experiments/results/h200/calibration/l2_load.csv).
constexpr double kWaySpread = 50, kWayWait = 15;

/// The share of the rate of independent instructions that compiled kernels reach with enough ready
/// warps: counters of five kernels show at most 77 % of an H200's issue slots in use. Fitted to the
/// measured times of eight of 24 matrices at N = 32 and 128.
constexpr double kIssueEfficiency = 0.79;

/// The pace of a single warp: the stall counts in the machine code of acc_spmm's and csr_spmm's
/// loops average two cycles per instruction.
constexpr double kInstructionLatency = 2;

/// Cycles of a fence of the whole GPU (MEMBAR.SC.GPU) behind all that its SM waits for, and of an
/// atomic whose result a warp waits for, both measured on an H200 (fences.cu) and taken where a
/// device file has no such numbers.
constexpr double kFenceLatency = 284, kExchangeLatency = 597;

/// Sectors that a channel of the memory holds before it writes them. Assumed: no probe isolates it.
constexpr int kHeldSectors = 256;

/// The memory's time for turning between reading and writing, for a sector written, over the time
/// of writing it; that of an H200, whose copies have 0.89 of the rate of reading and of writing.
constexpr double kTurnShare = 0.25;

/// Cycles from a thread block's end to the start of the next one in its place; that of an H200.
constexpr double kBlockLatency = 300;

/// Microseconds from the end of a launch to the start of the next. Fitted to the measured times of
/// seven small matrices at N = 32; notebooks/simulator_error.py fits it again without one kind of
/// matrix at a time.
constexpr double kLaunchGapUs = 2.3;

/// Microseconds of the host, measured on an H200's (launches.cu) and taken where a device file has
/// no such numbers: a launch that reports until the host has seen that, a launch and a wait for its
/// stream, an allocation from a pool, and the fork to four streams.
constexpr double kRoundTripUs = 8, kSynchronisedUs = 10.3, kAllocationUs = 1.3, kForkUs = 3.8;
/// The part of a round trip behind the end of a launch of a microsecond. Assumed: the host sees its
/// end, but not its start.
constexpr double kReportUs = 1.5, kShortLaunchUs = 1;

/// Microseconds less for a launch that overlaps the one before: what rows_spmm and tessera_spmm
/// gained on an H200 at N = 32 and 128 (median of 96 products, 0.6 to 1.4 for most of them).
constexpr double kOverlappedUs = 1.1;

/// Thread blocks that a GPU starts in a microsecond; that of an H200.
constexpr double kBlocksPerUs = 1648;

/// Bytes per cycle from the L2 to an SM that reads alone, where a device file has no such number;
/// that of an H200.
constexpr double kPortBytes = 122;

/// A quantity, or `otherwise` where the device file has none.
double value_or(const Device& device, const char* quantity, double otherwise) {
  return device.has(quantity) ? device.value(quantity) : otherwise;
}

/// Cycles between the MMAs of one tensor core, from a measurement or from the peak rate. wgmma, of
/// 64 rows, has the data sheet's rate (Luo et al., "Dissecting the NVIDIA Hopper Architecture",
/// tables 8 and 9: 64 cycles for m64n128k16 in FP16), which mma.sync does not reach.
double mma_interval(const Device& device, const WorkDescription& work, const Machine& machine) {
  if (work.mma_shape.starts_with("m64"))
    return work.flops_per_mma * device.value("sm_count") * machine.schedulers *
           device.value("clock", Ceilings::kDatasheet) /
           (1e6 * device.value(work.mma_type, Ceilings::kDatasheet));
  const std::string measured = work.mma_type + "_" + work.mma_shape + "_interval";
  if (device.has(measured)) return device.value(measured);
  const std::string through_mma = work.mma_type + "_mma";
  const double tflops = device.value(device.has(through_mma) ? through_mma : work.mma_type);
  return work.flops_per_mma * static_cast<double>(machine.limits.sms) * machine.schedulers *
         machine.clock_mhz / (1e6 * tflops);
}

}  // namespace

Machine describe(const Device& device, const WorkDescription& work) {
  Machine m;
  const double clock = device.value("clock");
  m.clock_mhz = work.mma_type.empty() ? clock : value_or(device, "tensor_clock", clock);
  m.limits = described_limits(device);
  m.l1_bytes = std::llround(device.value("l1_capacity"));

  m.issue_interval = m.schedulers / (value_or(device, "issue_rate", 3.876) * kIssueEfficiency);
  m.instruction_latency = kInstructionLatency;
  m.load_interval = value_or(device, "load_interval", 1);
  m.sector_interval = value_or(device, "load_line_interval", 0.25);
  m.l1_latency = value_or(device, "l1_latency", 32);
  m.shared_latency = value_or(device, "shared_latency", 23);
  m.shared_interval = kLineBytes / value_or(device, "shared_bandwidth", 128);
  m.barrier_latency = value_or(device, "barrier_latency", 22);
  m.fence_latency = value_or(device, "fence_latency", kFenceLatency);
  m.exchange_latency = value_or(device, "exchange_latency", kExchangeLatency);
  if (!work.mma_type.empty()) {
    const std::string instruction = work.mma_type + "_" + work.mma_shape;
    m.mma_interval = mma_interval(device, work, m);
    m.mma_latency = value_or(device, (instruction + "_latency").c_str(), 25);
  }

  const double gbps_to_bytes_per_cycle = 1e3 / m.clock_mhz;
  m.partitions = static_cast<int>(value_or(device, "l2_partitions", 1));
  m.l2_bytes = std::llround(kUsableL2 * device.value("l2_capacity"));
  m.l2_latency = value_or(device, "l2_latency", 281);
  m.l2_far_latency = value_or(device, "l2_far_latency", m.l2_latency);
  // The memory does not depend on the SM clock. Half of the lines that are measured are far ones.
  const double behind_l2 = value_or(device, "dram_latency", m.l2_latency + 350) - m.l2_latency;
  m.dram_latency =
      m.l2_latency + behind_l2 * m.clock_mhz / clock - (m.l2_far_latency - m.l2_latency) / 2;
  const double l2_rate = device.has("l2_bandwidth")
                             ? device.value("l2_bandwidth") * gbps_to_bytes_per_cycle
                             : kL2BytesPerCycle * static_cast<double>(m.limits.sms);
  const auto interval_of = [&](const char* quantity, double of_l2_rate) {
    const double rate = device.has(quantity) ? device.value(quantity) * gbps_to_bytes_per_cycle
                                             : of_l2_rate * l2_rate;
    return kSectorBytes / rate;
  };
  m.answer_interval = kSectorBytes / l2_rate;
  m.slice_interval = kSlices * interval_of("l2_lookup_bandwidth", kLookups);
  m.fabric_interval = interval_of("l2_fabric_bandwidth", kFabric);
  m.way_spread = kWaySpread;
  m.way_wait = kWayWait;
  m.atomic_interval = 2 * kSlices * kSectorBytes / l2_rate;
  m.miss_sector_interval = kSectorBytes / value_or(device, "l2_sm_bandwidth", kPortBytes);
  const double read = device.value("dram_bandwidth") * gbps_to_bytes_per_cycle;
  const double write = value_or(device, "dram_write_bandwidth", device.value("dram_bandwidth")) *
                       gbps_to_bytes_per_cycle;
  m.dram_read_interval = kSectorBytes / read;
  m.dram_write_interval = kSectorBytes / write;
  m.dram_held_sectors = kHeldSectors;
  m.dram_turn_interval = kTurnShare * m.dram_write_interval;
  if (device.has("dram_copy_bandwidth")) {
    const double copy = device.value("dram_copy_bandwidth") * gbps_to_bytes_per_cycle;
    m.dram_turn_interval =
        std::max(0.0, 2 * kSectorBytes / copy - m.dram_read_interval - m.dram_write_interval);
  }

  m.block_latency = value_or(device, "thread_block_gap", kBlockLatency);
  m.block_interval = m.clock_mhz / value_or(device, "thread_block_launch_interval", kBlocksPerUs);
  m.launch_overhead_us = value_or(device, "launch_overhead", 2.5);
  m.launch_gap_us = kLaunchGapUs;
  const double round_trip = value_or(device, "host_round_trip", kRoundTripUs);
  m.report_us = kReportUs;
  m.launch_start_us = std::max(0.0, round_trip - kReportUs - kShortLaunchUs - m.launch_overhead_us);
  m.synchronisation_us =
      kReportUs + value_or(device, "host_synchronisation", kSynchronisedUs) - round_trip;
  m.allocation_us = value_or(device, "pool_allocation", kAllocationUs);
  m.fork_us = kForkUs;
  m.overlapped_gap_us = kLaunchGapUs - kOverlappedUs;
  return m;
}

Occupancy occupancy(const Machine& machine, const Launch& launch) {
  const Residency found = residency(machine.limits, launch.threads_per_block,
                                    launch.registers_per_thread, launch.shared_bytes);
  require<Unsupported>(found.thread_blocks > 0, "not one thread block of {} fits an SM: {}",
                       launch.name, found.limit);
  return {static_cast<int>(found.thread_blocks), found.limit};
}

}  // namespace tessera::simulator
