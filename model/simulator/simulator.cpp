#include "model/simulator/simulator.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <deque>
#include <exception>
#include <optional>
#include <thread>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera::simulator {
namespace {

/// Threads that take turns on the same steps for as long as a launch lasts; starting them for each
/// step would cost more than the steps.
class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  /// body(member) on every thread; members meet by calling meet() and stop when it says false. The
  /// first exception is rethrown.
  void run(const std::function<void(int member)>& body) {
    meeting_.emplace(threads_);
    failed_ = false;
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads_));
    const auto guarded = [&](int member) {
      try {
        body(member);
      } catch (...) {
        errors[static_cast<std::size_t>(member)] = std::current_exception();
        failed_ = true;
      }
      meeting_->arrive_and_drop();
    };
    std::vector<std::thread> others;
    for (int member = 1; member < threads_; ++member) others.emplace_back(guarded, member);
    guarded(0);
    for (std::thread& thread : others) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }

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

/// Where a warm-up may begin. What does not fit the L2 replaces what was there before: it is enough
/// to run thread blocks that ask for several times what it holds. Index into WorkDescription's.
std::int64_t warm_up_from(const WorkDescription& work, const Machine& machine) {
  constexpr double kTurnovers = 6;
  if (work.footprint_bytes + work.b_rows_bytes + work.c_bytes <= machine.l2_bytes) return 0;
  double bytes = kTurnovers * static_cast<double>(machine.l2_bytes);
  auto first = static_cast<std::int64_t>(work.thread_blocks.size());
  while (first > 0 && bytes > 0) {
    const ThreadBlockWork& block = work.thread_blocks[static_cast<std::size_t>(--first)];
    bytes -= static_cast<double>(block.a_bytes + block.b_bytes + block.c_bytes);
  }
  return first;
}

/// One launch on one machine.
class Grid {
 public:
  /// Runs the thread blocks from `first` on.
  Grid(const Machine& machine, const Launch& launch, std::int64_t first, std::int64_t watched,
       std::deque<MemoryGroup>& memory)
      : machine_(machine), launch_(launch), memory_(memory), next_(first), ended_(first) {
    result_.name = launch.name;
    result_.occupancy = occupancy(machine, launch);
    result_.waves = static_cast<double>(launch.thread_blocks) /
                    (double{1} * machine.sms * result_.occupancy.thread_blocks);
    result_.spans.resize(static_cast<std::size_t>(launch.thread_blocks));
    for (int sm = 0; sm < machine.sms; ++sm)
      sms_.push_back(std::make_unique<Multiprocessor>(machine, launch,
                                                      result_.occupancy.thread_blocks, watched));
    // No answer comes back sooner than this.
    stretch_ = machine.l2_latency;
    buckets_.resize(memory.size());
  }

  LaunchResult run(Team& team, const std::function<void(double)>& progress) {
    for (MemoryGroup& group : memory_) group.start_launch();
    deal(0);
    team.run([&](int member) {
      // Every member sees the same done_, which changes between two meetings only.
      while (!done_) {
        const double end = begin_ + stretch_;
        for (std::size_t sm = member; sm < sms_.size(); sm += team.size()) sms_[sm]->advance(end);
        if (!team.meet()) return;
        for (std::size_t group = member; group < memory_.size(); group += team.size()) serve(group);
        if (!team.meet()) return;
        for (std::size_t sm = member; sm < sms_.size(); sm += team.size()) sms_[sm]->answer();
        if (!team.meet()) return;
        if (member == 0) {
          collect();
          deal(end);
          begin_ = end;
          if (progress && ++steps_ % 64 == 0)
            progress(static_cast<double>(ended_) / static_cast<double>(launch_.thread_blocks));
          done_ = ended_ == launch_.thread_blocks;
        }
        if (!team.meet()) return;
      }
    });
    for (const auto& sm : sms_) {
      result_.sm += sm->counts();
      result_.watched.insert(result_.watched.end(), sm->watched().begin(), sm->watched().end());
    }
    for (MemoryGroup& group : memory_) result_.memory += group.take_counts();
    return std::move(result_);
  }

 private:
  /// Thread blocks go out in order, each to the SM whose place has been free for longest; in the
  /// beginning one to each SM in turn.
  void deal(double now) {
    while (next_ < launch_.thread_blocks) {
      int best = -1;
      for (int sm = 0; sm < machine_.sms; ++sm) {
        const Multiprocessor& candidate = *sms_[static_cast<std::size_t>(sm)];
        if (!candidate.has_room()) continue;
        if (best < 0 || earlier(sm, best)) best = sm;
      }
      if (best < 0) return;
      Multiprocessor& sm = *sms_[static_cast<std::size_t>(best)];
      const double start = now == 0 ? 0 : std::max(now, sm.room_since() + machine_.block_latency);
      result_.spans[static_cast<std::size_t>(next_)].sm = best;
      sm.place(next_++, start);
      ++dealt_[static_cast<std::size_t>(best)];
    }
  }

  bool earlier(int sm, int than) const {
    const double a = sms_[static_cast<std::size_t>(sm)]->room_since();
    const double b = sms_[static_cast<std::size_t>(than)]->room_since();
    if (a != b) return a < b;
    return dealt_[static_cast<std::size_t>(sm)] < dealt_[static_cast<std::size_t>(than)];
  }

  void collect() {
    for (const auto& sm : sms_) {
      for (const Multiprocessor::Finished& block : sm->finished()) {
        BlockSpan& span = result_.spans[static_cast<std::size_t>(block.thread_block)];
        span.start = block.start;
        span.end = block.end;
        result_.cycles = std::max(result_.cycles, block.end);
        ++ended_;
      }
      sm->finished().clear();
    }
  }

  /// The group's requests of this stretch, earliest first (to a cycle; then by SM).
  void serve(std::size_t group) {
    auto& buckets = buckets_[group];
    buckets.resize(2 * static_cast<std::size_t>(stretch_));
    for (auto& bucket : buckets) bucket.clear();
    for (std::size_t sm = 0; sm < sms_.size(); ++sm) {
      for (Request& request : sms_[sm]->requests(static_cast<int>(group))) {
        const auto cycle = static_cast<std::size_t>(std::max(request.time - begin_, 0.0));
        buckets[std::min(cycle, buckets.size() - 1)].push_back({&request, static_cast<int>(sm)});
      }
    }
    for (const auto& bucket : buckets)
      for (const auto& [request, sm] : bucket) memory_[group].serve(*request, sm);
  }

  struct Asked {
    Request* request;
    int sm;
  };

  const Machine& machine_;
  const Launch& launch_;
  std::deque<MemoryGroup>& memory_;
  std::vector<std::unique_ptr<Multiprocessor>> sms_;
  std::vector<std::vector<std::vector<Asked>>> buckets_;  // [groups][cycles]
  std::vector<int> dealt_ = std::vector<int>(static_cast<std::size_t>(machine_.sms), 0);
  double stretch_ = 0;
  double begin_ = 0;
  std::int64_t next_, ended_, steps_ = 0;
  bool done_ = false;
  LaunchResult result_;
};

}  // namespace

SmCounts Result::sm() const {
  SmCounts sum;
  for (const LaunchResult& launch : launches) sum += launch.sm;
  return sum;
}

MemoryCounts Result::memory() const {
  MemoryCounts sum;
  for (const LaunchResult& launch : launches) sum += launch.memory;
  return sum;
}

double Result::cycles() const {
  double sum = 0;
  for (const LaunchResult& launch : launches) sum += launch.cycles;
  return sum;
}

Result simulate(const WorkDescription& work, const Device& device, const Options& options) {
  return simulate(work, describe(device, work), options);
}

Result simulate(const WorkDescription& work, const Machine& machine, const Options& options) {
  require<Unsupported>(!work.launches.empty(), "{} describes no launches", work.kernel);
  for (const Launch& launch : work.launches)
    require<Unsupported>(launch.trace != nullptr, "{} publishes no trace of its warps",
                         work.kernel);
  std::deque<MemoryGroup> memory;
  for (int group = 0; group < kGroups; ++group) memory.emplace_back(machine, group);
  Team team(std::clamp(num_threads(), 1, kGroups));

  const auto run = [&](std::int64_t first, bool counted) {
    Result result;
    result.machine = machine;
    std::int64_t before = 0;  // thread blocks of the launches before
    for (const Launch& launch : work.launches) {
      const std::int64_t from = std::clamp<std::int64_t>(first - before, 0, launch.thread_blocks);
      before += launch.thread_blocks;
      if (from == launch.thread_blocks) continue;
      result.launches.push_back(Grid(machine, launch, from, counted ? options.watched : -1, memory)
                                    .run(team, counted ? options.progress : nullptr));
      const double us = result.launches.back().cycles / machine.clock_mhz;
      result.time_us += std::max(us + machine.launch_gap_us, machine.launch_overhead_us);
    }
    return result;
  };
  if (options.warm) run(warm_up_from(work, machine), false);
  return run(0, true);
}

}  // namespace tessera::simulator
