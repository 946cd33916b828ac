#include "kernels/spmm/tall/schedule.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace tessera::tall_spmm {
namespace {

using window_tasks::Task;
using window_tasks::Tasks;

/// The expected times of a tile, of a task besides its tiles, of leaving the sums of a part of a
/// split window, and of adding those of each part, in quarters of the time of a tile.
constexpr std::int64_t kTileCost = 4, kTaskCost = 3, kPartCost = 12, kAddCost = 3;

/// Longer shares are not balanced by the choice of a limit: no end of a product is a large part of
/// them.
constexpr std::int64_t kLongShare = 100;

/// The smallest limit of tiles that is tried.
constexpr std::int64_t kLeastTiles = 4;

/// The tasks of each worker.
struct Assignment {
  std::vector<std::vector<std::uint32_t>> taken;  // [workers]
  std::int64_t longest = 0;                       // the most work of a worker
};

/// The worker with the least work takes the next task, so that neighbours are multiplied at about
/// the same time.
Assignment assign(const Tasks& tasks, std::int64_t workers) {
  using Load = std::pair<std::int64_t, std::int64_t>;  // work, worker
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (std::int64_t worker = 0; worker < workers; ++worker) loads.push({0, worker});
  Assignment assignment;
  assignment.taken.resize(static_cast<std::size_t>(workers));
  for (std::int64_t i = 0; i < std::ssize(tasks.tasks); ++i) {
    auto [work, worker] = loads.top();
    loads.pop();
    work += cost_of(tasks, i);
    loads.push({work, worker});
    assignment.taken[worker].push_back(static_cast<std::uint32_t>(i));
    assignment.longest = std::max(assignment.longest, work);
  }
  return assignment;
}

std::int64_t longest_window(std::span<const std::uint32_t> window_offset) {
  std::int64_t longest = 0;
  for (std::size_t window = 1; window < window_offset.size(); ++window)
    longest = std::max<std::int64_t>(longest, window_offset[window] - window_offset[window - 1]);
  return longest;
}

}  // namespace

std::int64_t cost_of(const Tasks& tasks, std::int64_t i) {
  const Task& task = tasks.tasks[i];
  std::int64_t cost = kTaskCost + kTileCost * (task.last - task.first);
  if (!task.is_part()) return cost;
  cost += kPartCost;
  if (tasks.is_last_part(i)) cost += kAddCost * tasks.splits[task.split - 1].parts;
  return cost;
}

Tasks parts_of_warps(const Tasks& tasks) {
  Tasks parts;
  parts.slots = kWarps * tasks.slots;
  for (const window_tasks::Split& split : tasks.splits)
    for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
      parts.splits.push_back({.first_task = static_cast<std::uint32_t>(parts.tasks.size()),
                              .parts = split.parts,
                              .first_slot = kWarps * split.first_slot + warp * split.parts});
      for (std::uint32_t part = 0; part < split.parts; ++part) {
        Task task = tasks.tasks[split.first_task + part];
        task.split = static_cast<std::uint32_t>(parts.splits.size());
        parts.tasks.push_back(task);
      }
    }
  return parts;
}

Plan make_plan(std::span<const std::uint32_t> window_offset, std::int64_t n,
               std::int64_t max_tiles) {
  const std::int64_t tiles = window_offset.back();
  const std::int64_t most =
      std::max<std::int64_t>(kWorkers / std::max<std::int64_t>(chunks_of(n), 1), 1);
  Plan plan;
  Assignment assignment;
  const auto try_limit = [&](std::int64_t limit) {
    Tasks tasks = window_tasks::cut(window_offset, limit);
    Assignment made = assign(tasks, std::min<std::int64_t>(most, std::ssize(tasks.tasks)));
    if (!plan.tasks.tasks.empty() && made.longest >= assignment.longest) return;
    plan.tasks = std::move(tasks), assignment = std::move(made);
  };
  const std::int64_t share = (tiles + most - 1) / most;
  if (max_tiles > 0) {
    try_limit(max_tiles);
  } else if (share > kLongShare) {
    try_limit(share);
  } else {
    const std::int64_t longest = longest_window(window_offset);
    try_limit(std::max<std::int64_t>(longest, 1));
    for (std::int64_t limit = kLeastTiles; limit < longest; limit += (limit + 1) / 2)
      try_limit(limit);
  }

  for (const std::vector<std::uint32_t>& of_worker : assignment.taken) {
    plan.first_turn.push_back(static_cast<std::uint32_t>(plan.turns.size()));
    for (const std::uint32_t index : of_worker) {
      const Task& task = plan.tasks.tasks[index];
      const std::uint32_t part =
          task.is_part() ? index - plan.tasks.splits[task.split - 1].first_task : 0;
      const std::uint32_t end = std::max(task.last, task.first + 1);
      for (std::uint32_t tile = task.first; tile < end; ++tile)
        plan.turns.push_back({.tile = task.first == task.last ? window_offset.back() : tile,
                              .window = task.window,
                              .flags = (tile == task.first ? Turn::kFirst : 0) |
                                       (tile + 1 == end ? Turn::kLast : 0) | part * 4,
                              .split = task.split});
    }
  }
  plan.first_turn.push_back(static_cast<std::uint32_t>(plan.turns.size()));
  return plan;
}

}  // namespace tessera::tall_spmm
