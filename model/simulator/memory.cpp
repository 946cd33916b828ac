#include "model/simulator/memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::simulator {
namespace {

/// Cycles from the time when a slice takes a read that hits until its answer; the ways between SM
/// and L2 are apart. No probe isolates it: with 16, the coalesced share of the reads of csr_spmm
/// and warps_spmm on nine small matrices is nearest to an H200's counters.
constexpr double kAnswerCycles = 16;

/// The open reads that the coalescer holds for each slice. No probe isolates it either: with 12 the
/// sectors that csr_spmm reads from the L2 are nearest to the counters where reads hit (wiki-Vote,
/// fb-Cornell5) and where they wait for the memory (DD, recon-mc2depi) alike.
constexpr int kOpenReads = 12;

/// The cycles over which the used share of the rate of answers is averaged, and its most.
constexpr double kLoadCycles = 512, kMostBusy = 0.88;

/// Waits of exponential distribution with mean 1, one for each 256th of all chances: a logarithm
/// for every request would take as long as the rest of it.
const std::array<float, 256> kWaits = [] {
  std::array<float, 256> waits;
  for (std::size_t i = 0; i < waits.size(); ++i)
    waits[i] = static_cast<float>(-std::log1p(-(static_cast<double>(i) + 0.5) / 256));
  return waits;
}();

}  // namespace

Home home_of(std::uint32_t line, int partitions) {
  // Blocks of 4 KiB are in one partition: near, far, far, near, as an H200's latencies tell. Beyond
  // 32 KiB the order is not known, and pseudo-random here.
  constexpr std::uint32_t kBlock = 4096 / kLineBytes;
  const std::uint32_t block = line / kBlock;
  const auto slices = static_cast<std::uint32_t>(kSlices / partitions), row = line / slices;
  return {static_cast<int>((block ^ block >> 1 ^ mix(block >> 3)) %
                           static_cast<std::uint32_t>(partitions)),
          static_cast<int>((line % slices + mix(row) % slices) % slices), row};
}

MemoryGroup::MemoryGroup(const Machine& machine, int group) : machine_(machine) {
  const int slices = kSlices / machine.partitions;
  slices_per_group_ = (slices - group + kGroups - 1) / kGroups;
  const std::int64_t sets = machine.l2_bytes / kSlices / (kLineBytes * SectoredCache::kWays);
  for (int i = 0; i < machine.partitions * slices_per_group_; ++i)
    slices_.push_back({.cache = SectoredCache(std::max<std::int64_t>(sets, 1))});
  asked_.resize(kOpenReads * slices_.size());
}

void MemoryGroup::start_launch() {
  for (Slice& slice : slices_) {
    slice.free = slice.memory_free = 0;
    slice.read = slice.held = 0;
    for (std::int64_t place = 0; place < slice.cache.sets() * SectoredCache::kWays; ++place)
      slice.cache.line(place).ready = 0;
  }
  answers_free_ = fabric_free_ = 0;
  load_ = load_time_ = 0;
  now_ = 0;
  for (Asked& asked : asked_) asked = {};
}

/// Occupies a resource, which is free from `free` on, for `cycles` on behalf of a request that
/// arrives at `time`; when that is later than now_, requests in between are served first.
double MemoryGroup::occupy(double& free, double time, double cycles) {
  free = std::max(free, now_);
  const double start = std::max(time, free);
  free += cycles;
  return start;
}

double MemoryGroup::read_dram(Slice& home, int sectors, double time) {
  counts_.dram_read += sectors;
  home.read += sectors;
  return occupy(home.memory_free, time, sectors * machine_.dram_read_interval * kSlices);
}

/// A channel of the memory holds what is written until it turns from reading, which costs as much
/// as the rate of copies tells: for each sector written, where one was read.
void MemoryGroup::write_dram(Slice& home, int sectors, double time) {
  counts_.dram_write += sectors;
  home.held += sectors;
  if (home.held < machine_.dram_held_sectors) return;
  const int turned = std::min(home.held, std::exchange(home.read, 0));
  occupy(
      home.memory_free, time,
      (home.held * machine_.dram_write_interval + turned * machine_.dram_turn_interval) * kSlices);
  home.held = 0;
}

/// The line's index in the slice's cache; an absent line is inserted.
std::int64_t MemoryGroup::place_for(Slice& slice, const Home& home, std::uint32_t line,
                                    double time) {
  const std::int64_t set = home.row % slice.cache.sets();
  if (const std::int64_t place = slice.cache.find(set, line); place >= 0) return place;
  std::uint32_t out = SectoredCache::kNoLine;
  SectoredCache::Line out_line;
  const std::int64_t place = slice.cache.replace(set, line, out, out_line);
  if (out != SectoredCache::kNoLine && out_line.dirty != 0)
    write_dram(slice, count_sectors(out_line.dirty), time);
  return place;
}

/// The time when the sectors leave this partition.
double MemoryGroup::read(int partition, const Home& home, std::uint32_t line, std::uint8_t sectors,
                         double time, bool far) {
  Slice& here = slice(partition, home.slice);
  const int count = count_sectors(sectors);
  (far ? counts_.far_read : counts_.sm_read) += count;
  double done = occupy_slice(here, time, count * machine_.slice_interval);
  const std::int64_t place = place_for(here, home, line, time);
  SectoredCache::Line& entry = here.cache.line(place);
  const auto missing = static_cast<std::uint8_t>(sectors & ~entry.valid);
  const int misses = count_sectors(missing);
  (far ? counts_.far_hits : counts_.sm_hits) += count - misses;
  if (missing == 0) return std::max(done, double{entry.ready});
  if (home.partition != partition) {
    const double there = (machine_.l2_far_latency - machine_.l2_latency) / 2;
    done = cross(misses, read(home.partition, home, line, missing, done + there, true)) + there;
  } else {
    done = read_dram(here, misses, done) + machine_.dram_latency - machine_.l2_latency;
  }
  entry.valid |= missing;
  entry.ready = std::max(entry.ready, static_cast<float>(done));
  return std::max(done, double{entry.ready});
}

void MemoryGroup::write(int partition, const Home& home, const Request& request, double time,
                        bool far) {
  Slice& here = slice(partition, home.slice);
  const int count = count_sectors(request.sectors);
  const bool atomic = request.kind == Request::Kind::kAtomic;
  (far ? counts_.far_write : counts_.sm_write) += count;
  (far ? counts_.far_hits : counts_.sm_hits) += count;
  occupy_slice(here, time, count * (atomic ? machine_.atomic_interval : machine_.slice_interval));
  SectoredCache::Line& entry = here.cache.line(place_for(here, home, request.line, time));
  const auto missing = static_cast<std::uint8_t>(request.sectors & ~entry.valid);
  entry.valid |= request.sectors;
  if (home.partition != partition) {
    const double there = (machine_.l2_far_latency - machine_.l2_latency) / 2;
    write(home.partition, home, request, cross(count, time) + there, true);
    return;
  }
  if (atomic && missing != 0) read_dram(here, count_sectors(missing), time);
  entry.dirty |= request.sectors;
}

/// The time that an answer waits on its way to an SM, besides the rate of all ways together. Some
/// ways are longer than others, and the more is on them the longer answers wait: exponentially
/// distributed here. Lines of 512 adjacent bytes travel together, so that a load of one row waits
/// once, and a load of eight pieces of rows for the last of eight.
double MemoryGroup::wait_on_way(const Request& request, int sm) {
  const double left = std::max(0.0, 1 - (now_ - load_time_) / kLoadCycles);
  load_ = load_ * left + count_sectors(request.sectors);
  load_time_ = now_;
  const double busy = std::min(load_ * machine_.answer_interval * kGroups / kLoadCycles, kMostBusy);
  const std::uint32_t row = request.line / 4, moment = static_cast<std::uint32_t>(now_) / 64;
  const double place = mix(row * 31 + static_cast<std::uint32_t>(sm)) / 4294967296.0;
  const std::uint32_t chance = mix(row + 7919 * moment + 104729 * static_cast<std::uint32_t>(sm));
  return machine_.way_spread * (place - 0.5) +
         machine_.way_wait * busy / (1 - busy) * kWaits[chance >> 24];
}

/// Sectors pass between the partitions.
double MemoryGroup::cross(int sectors, double time) {
  return occupy(fabric_free_, time, sectors * machine_.fabric_interval * kGroups);
}

double MemoryGroup::occupy_slice(Slice& slice, double time, double cycles) {
  counts_.slice_busy += cycles;
  return occupy(slice.free, time, cycles);
}

void MemoryGroup::serve(Request& request, int sm) {
  const Home home = home_of(request.line, machine_.partitions);
  const int partition = sm % machine_.partitions;
  const double way = machine_.l2_latency / 2;
  now_ = request.time + way;
  const auto answered = [&] {
    const double ready = read(partition, home, request.line, request.sectors, now_, false);
    const double busy = count_sectors(request.sectors) * machine_.answer_interval * kGroups;
    return occupy(answers_free_, ready, busy) + wait_on_way(request, sm);
  };
  if (request.kind == Request::Kind::kCopy) {
    request.done = answered() + way;
    return;
  }
  if (request.kind != Request::Kind::kRead) {
    write(partition, home, request, now_, false);
    return;
  }
  Asked& before = asked(request.line, partition);
  if (before.line == request.line && before.partition == partition && now_ < before.open_until &&
      (request.sectors & ~before.sectors) == 0) {
    counts_.coalesced += count_sectors(request.sectors);
    request.done = std::max(before.done, request.time + way);
    return;
  }
  const double end = answered();
  request.done = end + way;
  before = {request.line, request.sectors, partition, request.done, end + kAnswerCycles};
}

}  // namespace tessera::simulator
