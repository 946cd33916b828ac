// The simulation of one launch, or of several that run at a time: thread blocks are assigned to
// SMs, and SMs and memory alternate.
//
// SMs advance in parallel through a time step shorter than the latency of the L2; then the groups
// of the memory serve the requests in the order of their times; then the SMs receive the answers.
// Both halves run in parallel and share no state, so the result is the same at any number of
// threads.
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

/// The result of one launch, or of several at a time.
struct LaunchResult {
  std::string name;   // of all of them
  double cycles = 0;  // from the start of the first thread block to the end of the last
  Occupancy occupancy;
  double waves = 0;          // thread blocks / resident thread blocks of the GPU
  double sampled_share = 1;  // simulated thread blocks / all thread blocks
  SmCounts sm;
  MemoryCounts memory;
  std::vector<BlockSpan> spans;  // [simulated thread blocks] in the order of the launch
  std::vector<OpSpan> watched;   // operations of the watched thread block
};

/// Threads that work on all steps of a launch together; starting threads for each step would take
/// longer than the steps.
class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  /// Runs body(member) on every thread. Members synchronise with meet() and stop when it returns
  /// false. Rethrows the first exception.
  void run(const std::function<void(int member)>& body);

  /// Waits for all members; false when a member has failed, and all have to stop.
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
  std::int64_t last = 0;   // exclusive
  std::size_t launch = 0;  // among those of the grid

  std::int64_t size() const { return last - first; }
};

/// The totals of a launch so far.
struct Totals {
  double cycles = 0;
  SmCounts sm;
  MemoryCounts memory;
};

/// The simulation of launches that run at a time, or of ranges of their thread blocks. As on a GPU,
/// a launch's thread blocks start once those of the launches before it have, and after the time
/// that the host takes to launch one for each of these.
class Grid {
 public:
  /// Prepares these ranges of thread blocks, ascending, to run without a pause between them.
  Grid(const Machine& machine, std::vector<const Launch*> launches, std::vector<BlockRange> ranges,
       std::deque<MemoryGroup>& memory);
  /// Not to be copied: the SMs refer to it.
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  /// Records the operations of this thread block.
  void watch(std::int64_t thread_block);
  /// Records the totals when each of these numbers of thread blocks has started; ascending.
  void keep_moments(std::vector<std::int64_t> dealt) { marks_ = std::move(dealt); }

  /// Runs the simulation; calls progress(completed share) regularly.
  LaunchResult run(Team& team, const std::function<void(double)>& progress);

  /// After the run: the totals of keep_moments(), and the instructions of each range.
  const std::vector<Totals>& moments() const { return moments_; }
  const std::vector<std::int64_t>& instructions() const { return instructions_; }

 private:
  struct Asked {
    Request* request;
    int sm;
  };

  void step(const std::function<void(double)>& progress);
  void deal(double now);
  bool earlier(int sm, int than, std::size_t launch) const;
  void collect();
  Totals totals() const;
  std::size_t range_of(std::int64_t number) const;
  void serve(std::size_t group);

  const Machine& machine_;
  std::vector<const Launch*> launches_;
  std::vector<BlockRange> ranges_;
  std::vector<std::int64_t> before_;  // [ranges] thread blocks of the earlier ranges
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
  double next_start_ = 0;  // the earliest start of the next thread block
  std::size_t range_ = 0;  // range of the next thread block to start
  std::int64_t dealt_ = 0, ended_ = 0, steps_ = 0;
  bool done_ = false;
  LaunchResult result_;
};

}  // namespace tessera::simulator
