// One launch on one machine: thread blocks are dealt to the SMs, and SMs and memory take turns.
//
// SMs advance side by side through a short stretch of time, less than what any answer of the L2
// takes; then the groups of the memory serve what was asked, in the order of its times; then the
// answers are handed back. Both halves run in parallel and share nothing, so the outcome is the
// same for any number of threads.
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/work.hpp"
#include "model/simulator/machine.hpp"
#include "model/simulator/memory.hpp"
#include "model/simulator/multiprocessor.hpp"
#include "model/simulator/traffic.hpp"

namespace tessera::simulator {

/// What came of one launch.
struct LaunchResult {
  std::string name;
  double cycles = 0;  // from its first thread block's start to its last one's end
  Occupancy occupancy;
  double waves = 0;          // thread blocks over those the GPU holds at once
  double sampled_share = 1;  // of its thread blocks: those that were simulated
  SmCounts sm;
  MemoryCounts memory;
  std::vector<BlockSpan> spans;  // [simulated thread blocks] in the order of the launch
  std::vector<OpSpan> watched;   // operations of the watched thread block
};

/// Threads that take turns on the same steps for as long as a launch lasts; starting them for each
/// step would cost more than the steps.
class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  /// body(member) on every thread; members meet by calling meet() and stop when it says false. The
  /// first exception is rethrown.
  void run(const std::function<void(int member)>& body);

  /// False: a member has failed, and nobody goes on.
  bool meet() {
    meeting_->arrive_and_wait();
    return !failed_;
  }
  int size() const { return threads_; }

 private:
  int threads_;
  std::optional<std::barrier<>> meeting_;
  std::atomic<bool> failed_ = false;
};

/// Consecutive thread blocks of a launch.
struct BlockRange {
  std::int64_t first = 0;
  std::int64_t last = 0;  // exclusive

  std::int64_t size() const { return last - first; }
};

/// What a launch has come to.
struct Totals {
  double cycles = 0;
  SmCounts sm;
  MemoryCounts memory;
};

class Grid {
 public:
  /// Runs these ranges of thread blocks, ascending, one straight after the other.
  Grid(const Machine& machine, const Launch& launch, std::vector<BlockRange> ranges,
       std::deque<MemoryGroup>& memory);

  /// Keeps the operations of this thread block.
  void watch(std::int64_t thread_block);
  /// Keeps the totals of when so many thread blocks had been dealt; ascending.
  void keep_moments(std::vector<std::int64_t> dealt) { marks_ = std::move(dealt); }

  LaunchResult run(Team& team, const std::function<void(double)>& progress);

  /// After the run: what keep_moments() asked for, and the instructions of each range.
  const std::vector<Totals>& moments() const { return moments_; }
  const std::vector<std::int64_t>& instructions() const { return instructions_; }

 private:
  struct Asked {
    Request* request;
    int sm;
  };

  void step(const std::function<void(double)>& progress);
  void deal(double now);
  bool earlier(int sm, int than) const;
  void collect();
  Totals totals() const;
  std::size_t range_of(std::int64_t thread_block) const;
  void serve(std::size_t group);

  const Machine& machine_;
  const Launch& launch_;
  std::vector<BlockRange> ranges_;
  std::vector<std::int64_t> before_;  // [ranges] thread blocks of the ranges before
  std::int64_t thread_blocks_ = 0;    // of all ranges
  std::vector<std::int64_t> marks_;
  std::vector<Totals> moments_;
  std::vector<std::int64_t> instructions_;  // [ranges]
  std::deque<MemoryGroup>& memory_;
  std::vector<std::unique_ptr<Multiprocessor>> sms_;
  std::vector<std::vector<std::vector<Asked>>> buckets_;  // [groups][cycles]
  std::vector<int> dealt_to_;                             // [SMs]
  double stretch_ = 0;
  double begin_ = 0;
  std::size_t range_ = 0;  // of the thread block that is dealt next
  std::int64_t dealt_ = 0, ended_ = 0, steps_ = 0;
  bool done_ = false;
  LaunchResult result_;
};

}  // namespace tessera::simulator
