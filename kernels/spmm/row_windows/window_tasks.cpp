#include "kernels/spmm/row_windows/window_tasks.hpp"

#include <algorithm>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/window_balance.hpp"
#include "kernels/spmm/row_windows/schedule.hpp"

namespace tessera::window_tasks {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

std::int64_t num_windows(WindowOffsets windows) { return std::ssize(windows) - 1; }

/// Appends the tasks of window `w`: one for each pair of consecutive `bounds`.
void append(Tasks& result, std::int64_t w, std::span<const std::int64_t> bounds) {
  const std::int64_t parts = std::ssize(bounds) - 1;
  if (parts > 1) {
    result.splits.push_back({static_cast<std::uint32_t>(result.tasks.size()),
                             static_cast<std::uint32_t>(parts),
                             static_cast<std::uint32_t>(result.slots)});
    if (parts > result.team) result.slots += parts / result.team;
  }
  for (std::int64_t p = 0; p < parts; ++p)
    result.tasks.push_back({static_cast<std::uint32_t>(w), static_cast<std::uint32_t>(bounds[p]),
                            static_cast<std::uint32_t>(bounds[p + 1]),
                            parts > 1 ? static_cast<std::uint32_t>(result.splits.size()) : 0});
}

/// Fills `bounds` with those of `parts` nearly equal parts of window `w`.
void divide(WindowOffsets windows, std::int64_t w, std::int64_t parts,
            std::vector<std::int64_t>& bounds) {
  const std::int64_t first = windows[w], blocks = windows[w + 1] - first;
  bounds.clear();
  for (std::int64_t p = 0; p <= parts; ++p) bounds.push_back(first + blocks * p / parts);
}

/// The number of tasks of at most `max_blocks` TC blocks of window `w`.
std::int64_t parts_of(WindowOffsets windows, std::int64_t w, std::int64_t max_blocks) {
  const std::int64_t blocks = windows[w + 1] - windows[w];
  return max_blocks == 0 || blocks <= max_blocks ? 1 : (blocks + max_blocks - 1) / max_blocks;
}

void require_countable(const Tasks& tasks) {
  require<Unsupported>(tasks.tasks.size() < (std::size_t{1} << 31),
                       "{} tasks are more than the kernels can count", tasks.tasks.size());
}

}  // namespace

double imbalance(WindowOffsets windows) {
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(num_windows(windows)));
  for (std::size_t w = 0; w < blocks.size(); ++w) blocks[w] = windows[w + 1] - windows[w];
  return acc_balance::ibd(blocks);
}

Tasks cut(WindowOffsets windows, std::int64_t max_blocks) {
  Tasks result;
  result.tasks.reserve(static_cast<std::size_t>(num_windows(windows)));
  std::vector<std::int64_t> bounds;
  for (std::int64_t w = 0; w < num_windows(windows); ++w) {
    divide(windows, w, parts_of(windows, w, max_blocks), bounds);
    append(result, w, bounds);
  }
  require_countable(result);
  return result;
}

Tasks cut_for_teams(WindowOffsets windows, std::int64_t max_blocks, double blocks_of_warp) {
  constexpr std::int64_t kTeam = row_windows::kWarps, kLengthSteps = 4;
  constexpr double kTail = 0.5;
  // 3 tasks become 4, and more a multiple of them.
  const auto parts_in_team = [&](std::int64_t w) {
    const std::int64_t parts = parts_of(windows, w, max_blocks);
    return parts <= 2 ? parts : (parts + kTeam - 1) / kTeam * kTeam;
  };
  Tasks result;
  result.team = kTeam;
  result.tasks.reserve(static_cast<std::size_t>(num_windows(windows)));
  std::vector<std::int64_t> bounds;
  // Windows of more than `above` TC blocks and at most `up_to`.
  const auto append_windows = [&](std::int64_t least, std::int64_t most, std::int64_t above = -1,
                                  std::int64_t up_to = kAny) {
    for (std::int64_t w = 0; w < num_windows(windows); ++w) {
      const std::int64_t parts = parts_in_team(w), blocks = windows[w + 1] - windows[w];
      if (parts < least || parts > most || blocks <= above || blocks > up_to) continue;
      divide(windows, w, parts, bounds);
      append(result, w, bounds);
    }
  };
  const auto longest_whole = [&] {
    std::int64_t longest = 0;
    for (std::int64_t w = 0; w < num_windows(windows); ++w)
      if (parts_in_team(w) == 1)
        longest = std::max<std::int64_t>(longest, windows[w + 1] - windows[w]);
    return longest;
  };
  append_windows(kTeam + 1, kAny);
  append_windows(kTeam, kTeam);
  append_windows(2, 2);
  const std::int64_t longest = longest_whole();
  if (static_cast<double>(longest) <= kTail * blocks_of_warp) {
    append_windows(1, 1);
  } else {
    for (std::int64_t step = kLengthSteps; step > 1; --step)
      append_windows(1, 1, longest * (step - 1) / kLengthSteps, longest * step / kLengthSteps);
    append_windows(1, 1, -1, longest / kLengthSteps);
  }
  require_countable(result);
  return result;
}

Tasks join_windows(Tasks tasks, std::int64_t blocks) {
  std::vector<std::uint32_t> shares;
  std::int64_t of_share = 0;
  for (std::size_t i = 0; i < tasks.tasks.size(); ++i) {
    const Task& task = tasks.tasks[i];
    const std::int64_t own = std::int64_t{task.last} - task.first + 1;
    const auto follows = [&](const Task& before) {
      return before.split == 0 && task.split == 0 && before.window + 1 == task.window;
    };
    of_share += own;
    if (i == 0 || of_share > blocks || !follows(tasks.tasks[i - 1])) {
      shares.push_back(static_cast<std::uint32_t>(i));
      of_share = own;
    }
  }
  if (shares.size() == tasks.tasks.size()) return tasks;
  shares.push_back(static_cast<std::uint32_t>(tasks.tasks.size()));
  tasks.shares = std::move(shares);
  return tasks;
}

Tasks merge_shares(Tasks tasks) {
  if (tasks.shares.empty()) return tasks;
  std::vector<Task> of_shares;
  of_shares.reserve(static_cast<std::size_t>(tasks.num_shares()));
  for (std::int64_t share = 0; share < tasks.num_shares(); ++share) {
    const auto windows =
        static_cast<std::uint32_t>(tasks.first_of(share + 1) - tasks.first_of(share));
    Task& merged = of_shares.emplace_back(tasks.tasks[tasks.first_of(share)]);
    if (windows == 1) continue;
    merged.last = tasks.tasks[tasks.first_of(share + 1) - 1].last;
    merged.split = Task::kJoined + windows;
  }
  tasks.tasks = std::move(of_shares);
  tasks.shares.clear();
  return tasks;
}

Tasks cut_into_equal_shares(WindowOffsets windows, std::int64_t blocks) {
  Tasks result;
  std::vector<std::int64_t> bounds;
  std::int64_t empty = 0;  // windows without TC blocks in the current share
  for (std::int64_t w = 0; w < num_windows(windows); ++w) {
    const std::int64_t first = windows[w], last = windows[w + 1];
    bounds.assign(1, first);
    for (std::int64_t at = (first / blocks + 1) * blocks; at < last; at += blocks)
      bounds.push_back(at);
    bounds.push_back(last);
    const auto before = static_cast<std::uint32_t>(result.tasks.size());
    const bool fills_up = first == last && empty == blocks;
    if (before == 0 || fills_up || (0 < first && first < last && first % blocks == 0)) {
      result.shares.push_back(before);
      empty = 0;
    }
    if (first == last) ++empty;
    append(result, w, bounds);
    for (std::size_t p = 1; p + 1 < bounds.size(); ++p, empty = 0)
      result.shares.push_back(before + static_cast<std::uint32_t>(p));
  }
  result.shares.push_back(static_cast<std::uint32_t>(result.tasks.size()));
  require_countable(result);
  return result;
}

Tasks cut_into_timed_shares(WindowOffsets windows, std::int64_t max_blocks, double window_weight) {
  const double full = static_cast<double>(max_blocks) + window_weight;
  Tasks result;
  std::vector<std::int64_t> bounds;
  double time = full;  // of the current share, in TC blocks; the first window opens a share
  for (std::int64_t w = 0; w < num_windows(windows); ++w) {
    const std::int64_t last = windows[w + 1];
    const std::size_t before = result.tasks.size();
    bounds.assign(1, windows[w]);
    do {
      auto room = static_cast<std::int64_t>(full - time - window_weight);
      if (room < 1) {
        result.shares.push_back(static_cast<std::uint32_t>(before + bounds.size() - 1));
        time = 0, room = max_blocks;
      }
      const std::int64_t taken = std::min(room, last - bounds.back());
      time += static_cast<double>(taken) + window_weight;
      bounds.push_back(bounds.back() + taken);
    } while (bounds.back() < last);
    append(result, w, bounds);
  }
  result.shares.push_back(static_cast<std::uint32_t>(result.tasks.size()));
  require_countable(result);
  return result;
}

}  // namespace tessera::window_tasks
