#include "model/simulator/grid.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera::simulator {

void Team::run(const std::function<void(int member)>& body) {
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
  others.reserve(static_cast<std::size_t>(threads_));
  try {
    for (int member = 1; member < threads_; ++member) others.emplace_back(guarded, member);
  } catch (const std::system_error& error) {
    failed_ = true;
    for (int member = static_cast<int>(others.size()) + 1; member < threads_; ++member)
      meeting_->arrive_and_drop();
    errors[0] = std::make_exception_ptr(OutOfMemory(
        fmt::format("the system refuses thread {} of {}: {}; TESSERA_THREADS takes fewer",
                    others.size() + 2, threads_, error.code().message())));
  }
  guarded(0);
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

Grid::Grid(const Machine& machine, std::vector<const Launch*> launches,
           std::vector<BlockRange> ranges, std::deque<MemoryGroup>& memory)
    : machine_(machine),
      launches_(std::move(launches)),
      ranges_(std::move(ranges)),
      instructions_(ranges_.size()),
      memory_(memory),
      dealt_to_(static_cast<std::size_t>(machine.limits.sms)) {
  for (const BlockRange& range : ranges_) {
    before_.push_back(thread_blocks_);
    thread_blocks_ += range.size();
  }
  result_.occupancy = occupancy(machine, *launches_.front());
  for (const Launch* launch : launches_) {
    if (!result_.name.empty()) result_.name += ", ";
    result_.name += launch->name;
    result_.waves +=
        static_cast<double>(launch->thread_blocks) /
        static_cast<double>(machine.limits.sms * occupancy(machine, *launch).thread_blocks);
  }
  result_.spans.resize(static_cast<std::size_t>(thread_blocks_));
  for (int sm = 0; sm < machine.limits.sms; ++sm)
    sms_.push_back(std::make_unique<Multiprocessor>(machine, launches_));
  // No answer arrives sooner than this.
  stretch_ = machine.l2_latency;
  buckets_.resize(memory.size());
}

void Grid::watch(std::int64_t thread_block) {
  for (const auto& sm : sms_) sm->watch(thread_block);
}

LaunchResult Grid::run(Team& team, const std::function<void(double)>& progress) {
  for (MemoryGroup& group : memory_) group.start_launch();
  deal(0);
  team.run([&](int member) {
    // Every member reads the same done_, which changes only between two meetings.
    while (!done_) {
      const double end = begin_ + stretch_;
      for (std::size_t sm = member; sm < sms_.size(); sm += team.size()) sms_[sm]->advance(end);
      if (!team.meet()) return;
      for (std::size_t group = member; group < memory_.size(); group += team.size()) serve(group);
      if (!team.meet()) return;
      for (std::size_t sm = member; sm < sms_.size(); sm += team.size()) sms_[sm]->answer();
      if (!team.meet()) return;
      if (member == 0) step(progress);
      if (!team.meet()) return;
    }
  });
  const Totals end = totals();
  result_.sm = end.sm;
  result_.memory = end.memory;
  for (const auto& sm : sms_)
    result_.watched.insert(result_.watched.end(), sm->watched().begin(), sm->watched().end());
  for (MemoryGroup& group : memory_) group.take_counts();
  return std::move(result_);
}

/// The work of one member for all between two time steps.
void Grid::step(const std::function<void(double)>& progress) {
  const double end = begin_ + stretch_;
  collect();
  deal(end);
  begin_ = end;
  while (moments_.size() < marks_.size() && dealt_ >= marks_[moments_.size()])
    moments_.push_back(totals());
  if (progress && ++steps_ % 64 == 0)
    progress(static_cast<double>(ended_) / static_cast<double>(thread_blocks_));
  done_ = ended_ == thread_blocks_;
}

/// Starts thread blocks in order, each on the SM that has had room for longest, at first one on
/// each SM in turn.
void Grid::deal(double now) {
  while (dealt_ < thread_blocks_) {
    while (dealt_ - before_[range_] == ranges_[range_].size()) ++range_;
    const std::size_t launch = ranges_[range_].launch;
    const double launched =
        static_cast<double>(launch) * machine_.launch_overhead_us * machine_.clock_mhz;
    if (launched > now) return;
    int best = -1;
    for (int sm = 0; sm < machine_.limits.sms; ++sm) {
      const Multiprocessor& candidate = *sms_[static_cast<std::size_t>(sm)];
      if (!candidate.has_room(launch)) continue;
      if (best < 0 || earlier(sm, best, launch)) best = sm;
    }
    if (best < 0) return;
    Multiprocessor& sm = *sms_[static_cast<std::size_t>(best)];
    const double free =
        now == 0 ? 0 : std::max(now, sm.room_since(launch) + machine_.block_latency);
    const double start = std::max(free, next_start_);
    next_start_ = start + machine_.block_interval;
    result_.spans[static_cast<std::size_t>(dealt_)].sm = best;
    sm.place(launch, ranges_[range_].first + dealt_ - before_[range_], dealt_, start);
    ++dealt_;
    ++dealt_to_[static_cast<std::size_t>(best)];
  }
}

bool Grid::earlier(int sm, int than, std::size_t launch) const {
  const double a = sms_[static_cast<std::size_t>(sm)]->room_since(launch);
  const double b = sms_[static_cast<std::size_t>(than)]->room_since(launch);
  if (a != b) return a < b;
  return dealt_to_[static_cast<std::size_t>(sm)] < dealt_to_[static_cast<std::size_t>(than)];
}

void Grid::collect() {
  for (const auto& sm : sms_) {
    for (const Multiprocessor::Finished& block : sm->finished()) {
      BlockSpan& span = result_.spans[static_cast<std::size_t>(block.number)];
      span.start = block.start;
      span.end = block.end;
      instructions_[range_of(block.number)] += block.instructions;
      result_.cycles = std::max(result_.cycles, block.end);
      ++ended_;
    }
    sm->finished().clear();
  }
}

Totals Grid::totals() const {
  Totals sum{.cycles = begin_, .sm = {}, .memory = {}};
  for (const auto& sm : sms_) sum.sm += sm->counts();
  for (const MemoryGroup& group : memory_) sum.memory += group.counts();
  return sum;
}

/// The range of the thread block that was started as that one.
std::size_t Grid::range_of(std::int64_t number) const {
  const auto next = std::ranges::upper_bound(before_, number);
  return static_cast<std::size_t>(next - before_.begin()) - 1;
}

/// Serves the group's requests of this time step, earliest first (to a cycle; then by SM).
void Grid::serve(std::size_t group) {
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

}  // namespace tessera::simulator
