// The L2 and the device memory behind the SMs.
//
// Lines are assigned to slices in turn, rotated pseudo-randomly, so that every range of memory
// spreads evenly. Where the L2 has two partitions each block of 4 KiB has its home in one of them;
// an SM sends requests to the near partition, which fetches lines of the other partition from there
// and keeps a copy. (An H200's counters show this: a near miss of a line with a far home appears as
// a request of the other partition, and device memory is read once.) Writes count where they
// arrive, are passed on to the home, and never miss.
//
// Before the slices of a partition stands NVIDIA's L2 request coalescer: a read of sectors that an
// SM of the partition has requested, and that the L2 has not answered yet, does not reach the slice
// but shares the answer. It holds few reads: where many wait for the memory, newer ones take the
// places of older ones. Copies that bypass the L1 are not joined.
//
// A group is a set of slices with all their lines. Groups share no state, so they run in parallel
// and the result does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/simulator/cache.hpp"
#include "model/simulator/machine.hpp"
#include "model/simulator/traffic.hpp"

namespace tessera::simulator {

constexpr int kGroups = 16;

/// A request of an SM for sectors of one line.
struct Request {
  // kCopy is a read that bypasses the L1.
  enum class Kind : std::uint8_t { kRead, kCopy, kWrite, kAtomic };
  double time = 0;  // when it leaves the SM
  double done = 0;  // when its data arrives at the SM; set by the memory
  float lag = 0;    // from then until the L1 has delivered it
  std::uint32_t line = 0;
  std::uint32_t place = 0;  // index of the line in the SM's L1
  Kind kind = Kind::kRead;
  std::uint8_t sectors = 0;
  std::uint8_t warp = 0;
  std::uint8_t scoreboard = 0;
};

/// Mixes the bits of a number.
constexpr std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

/// The partition, slice and row of a line.
struct Home {
  int partition;
  int slice;         // within a partition
  std::int64_t row;  // distinct lines of one slice have distinct rows

  int group() const { return slice % kGroups; }
};
Home home_of(std::uint32_t line, int partitions);

/// The slices of one group and their share of the device memory.
class MemoryGroup {
 public:
  MemoryGroup(const Machine& machine, int group);

  /// Serves one request of an SM; call it in the order of request times.
  void serve(Request& request, int sm);

  /// Keeps the contents of the caches and resets all times; a launch starts at time zero.
  void start_launch();

  const MemoryCounts& counts() const { return counts_; }
  MemoryCounts take_counts() { return std::exchange(counts_, {}); }

 private:
  struct Slice {
    SectoredCache cache;
    double free = 0;
    // Each slice has a channel of the memory for the lines whose home it is.
    double memory_free = 0;  // when the channel is free
    int read = 0;            // sectors since the last turn to writing
    int held = 0;            // sectors to write
  };

  Slice& slice(int partition, int slice) {
    return slices_[static_cast<std::size_t>(partition * slices_per_group_ + slice / kGroups)];
  }
  /// The last read of a line by an SM of a partition. Requests for the same sectors that arrive
  /// before the answer share it.
  struct Asked {
    std::uint32_t line = SectoredCache::kNoLine;
    std::uint8_t sectors = 0;
    int partition = 0;
    double done = 0;
    double open_until = 0;  // the end of sharing
  };

  Asked& asked(std::uint32_t line, int partition) {
    return asked_[(line / kGroups * 31 + static_cast<std::uint32_t>(partition) * 7919) %
                  asked_.size()];
  }
  double occupy(double& free, double time, double cycles);
  double occupy_slice(Slice& slice, double time, double cycles);
  double cross(int sectors, double time);
  double wait_on_way(const Request& request, int sm);
  double read(int partition, const Home& home, std::uint32_t line, std::uint8_t sectors,
              double time, bool far);
  void write(int partition, const Home& home, const Request& request, double time, bool far);
  double read_dram(Slice& home, int sectors, double time);
  void write_dram(Slice& home, int sectors, double time);
  std::int64_t place_for(Slice& slice, const Home& home, std::uint32_t line, double time);

  const Machine& machine_;
  int slices_per_group_;
  std::vector<Slice> slices_;        // [partitions * slices_per_group_]
  double now_ = 0;                   // arrival time of the current request
  double answers_free_ = 0;          // the way to SMs
  double load_ = 0, load_time_ = 0;  // sectors answered in the latest cycles, and when it was so
  double fabric_free_ = 0;           // the way between the partitions
  std::vector<Asked> asked_;         // open reads, by a hash of their line
  MemoryCounts counts_;
};

}  // namespace tessera::simulator
