// Row windows are cut into tasks and into equal shares: every TC block belongs to one task, and no
// task or share exceeds its limit.

#include "kernels/spmm/row_windows/window_tasks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/format.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("windows are cut into tasks of at most max_blocks TC blocks that cover all TC blocks") {
  const CsrMatrix a = random_sparse(203, 400, 0.06, 73);
  const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(a);
  const auto& tiles = packed_as<BitTcf>(*packed);

  for (const std::int64_t cap : {0, 1, 4, 7, 1000}) {
    const window_tasks::Tasks cut = window_tasks::cut(tiles.row_window_offset, cap);
    std::int64_t slots = 0;
    std::uint32_t next = 0, shortest = ~0u, longest = 0;
    for (std::size_t i = 0; i < cut.tasks.size(); ++i) {
      const window_tasks::Task& task = cut.tasks[i];
      const std::uint32_t blocks = task.last - task.first;
      CHECK(task.first == next);
      next = task.last;
      CHECK(task.first >= tiles.row_window_offset[task.window]);
      CHECK(task.last <= tiles.row_window_offset[task.window + 1]);
      if (cap > 0) CHECK(blocks <= cap);
      if (task.split == 0) continue;
      const window_tasks::Split& split = cut.splits[task.split - 1];
      CHECK(i >= split.first_task);
      CHECK(i < split.first_task + split.parts);
      CHECK(split.first_slot + i - split.first_task == static_cast<std::size_t>(slots++));
      shortest = std::min(shortest, blocks), longest = std::max(longest, blocks);
    }
    CHECK(next == tiles.num_tc_blocks());
    CHECK(slots == cut.slots);
    CHECK(cut.splits.empty() == (cap == 0 || cap == 1000));
    if (cap == 4) CHECK(2 * shortest >= longest);
  }
}

TEST_CASE("short windows that follow each other are joined, and merged into one task") {
  // Windows of 0 to 6 TC blocks, three empty ones in a row, and one of 40, which is split.
  std::vector<std::uint32_t> windows{0};
  for (const std::uint32_t blocks : {3, 2, 0, 0, 0, 6, 1, 40, 5, 2, 4, 4, 0})
    windows.push_back(windows.back() + blocks);
  const window_tasks::Tasks cut = window_tasks::cut_for_teams(windows, 16, 1e9);
  REQUIRE(cut.splits.size() == 1);

  CHECK(window_tasks::join_windows(cut, 1).shares.empty());
  for (const std::int64_t limit : {4, 8, 12, 100}) {
    CAPTURE(limit);
    const window_tasks::Tasks joined = window_tasks::join_windows(cut, limit);
    const window_tasks::Tasks merged = window_tasks::merge_shares(joined);
    REQUIRE(merged.shares.empty());
    REQUIRE(std::ssize(merged.tasks) == joined.num_shares());
    CHECK(merged.slots == joined.slots);
    std::int64_t most = 0;
    for (std::int64_t share = 0; share < joined.num_shares(); ++share) {
      const window_tasks::Task& task = merged.tasks[share];
      const std::int64_t first = joined.first_of(share), end = joined.first_of(share + 1);
      CHECK(task.first == joined.tasks[first].first);
      CHECK(task.last == joined.tasks[end - 1].last);
      CHECK(task.window == joined.tasks[first].window);
      CHECK(task.windows() == end - first);
      CHECK(task.is_part() == (joined.tasks[first].split != 0));
      CHECK(merged.is_last_part(share) == joined.is_last_part(end - 1));
      CHECK(merged.parts_from(share) == joined.parts_from(first));
      for (std::int64_t i = first; end - first > 1 && i < end; ++i) {
        CHECK(joined.tasks[i].split == 0);
        CHECK(joined.tasks[i].window == task.window + i - first);
      }
      if (end - first > 1) {
        CHECK(task.last - task.first + (end - first) <= limit);
        CHECK(task.last == windows[task.window + task.windows()]);
      }
      most = std::max(most, end - first);
    }
    CHECK(most > 1);
  }
  // After the split window come 0 to 6 (limit 12: six windows, then one) and 8 to 12.
  const window_tasks::Tasks joined = window_tasks::join_windows(cut, 12);
  CHECK(joined.num_shares() == 4 + 2 + 2);
}

TEST_CASE("tasks cut for teams are in one thread block, up to four of a window") {
  // Windows of 0 to 39 TC blocks, in an order without pattern.
  std::vector<std::uint32_t> windows{0};
  for (std::uint32_t w = 0; w < 200; ++w) windows.push_back(windows.back() + w * 2654435761u % 40);

  for (const auto& [cap, of_warp] : std::vector<std::pair<std::int64_t, double>>{
           {0, 1e9}, {0, 1}, {1, 1}, {3, 1e9}, {8, 1}, {100, 1e9}, {100, 77}, {100, 78}}) {
    CAPTURE(cap);
    CAPTURE(of_warp);
    const window_tasks::Tasks cut = window_tasks::cut_for_teams(windows, cap, of_warp);
    std::vector<int> covered(windows.back(), 0);
    std::set<std::uint32_t> written;
    std::uint32_t parts_before = ~0u;
    std::int64_t slots = 0;
    for (std::int64_t i = 0; i < std::ssize(cut.tasks); ++i) {
      const window_tasks::Task& task = cut.tasks[i];
      CHECK(task.first >= windows[task.window]);
      CHECK(task.last <= windows[task.window + 1]);
      if (cap > 0) CHECK(task.last - task.first <= cap);
      for (std::uint32_t block = task.first; block < task.last; ++block) ++covered[block];
      const std::int64_t parts = cut.parts_from(i);
      if (parts == 0) continue;
      CHECK(written.insert(task.window).second);
      CHECK((parts == 1 || parts == 2 || parts % 4 == 0));
      CHECK(std::min<std::int64_t>(parts, 5) <= std::min<std::int64_t>(parts_before, 5));
      parts_before = static_cast<std::uint32_t>(parts);
      if (parts <= 4) CHECK(i / 4 == (i + parts - 1) / 4);
      if (parts > 4) CHECK(cut.splits[task.split - 1].first_slot == slots);
      if (parts > 4) slots += parts / 4;
      if (parts > 1) {
        for (std::int64_t p = 0; p < parts; ++p) {
          const window_tasks::Tasks::TeamPlace place = cut.place_in_team(i + p);
          CHECK(place.size == std::min<std::int64_t>(parts, 4));
          CHECK(place.team == p / 4);
          CHECK(place.teams == (parts + 3) / 4);
          CHECK(place.is_last == ((p + 1) % place.size == 0));
        }
      }
      for (std::int64_t p = 0; p + 1 < parts; ++p)
        CHECK(cut.tasks[i + p].last == cut.tasks[i + p + 1].first);
    }
    CHECK(std::ranges::count(covered, 1) == std::ssize(covered));
    CHECK(written.size() == windows.size() - 1);
    CHECK(slots == cut.slots);
    CHECK(cut.splits.empty() == (cap == 0 || cap == 100));
    if (!cut.splits.empty()) continue;
    // 39 TC blocks, the longest, are more than half of 77 and not more than half of 78.
    const auto step = [](const window_tasks::Task& task) {
      const int blocks = static_cast<int>(task.last - task.first);
      return blocks > 29 ? 3 : blocks > 19 ? 2 : blocks > 9 ? 1 : 0;  // of 39: 29.25, 19.5, 9.75
    };
    const auto before = [&](const window_tasks::Task& x, const window_tasks::Task& y) {
      return step(x) != step(y) ? step(x) > step(y) : x.window < y.window;
    };
    const auto in_order = [](const window_tasks::Task& x, const window_tasks::Task& y) {
      return x.window < y.window;
    };
    if (of_warp < 78)
      CHECK(std::ranges::is_sorted(cut.tasks, before));
    else
      CHECK(std::ranges::is_sorted(cut.tasks, in_order));
  }
}

TEST_CASE("equal shares have the same number of TC blocks wherever windows begin") {
  // Two windows without nonzeros at the start, forty in the middle.
  CsrMatrix a = random_sparse(600, 300, 0.02, 74);
  const auto empty = [](std::int64_t row) { return row < 16 || (row >= 200 && row < 520); };
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    if (!empty(row)) cols.insert(cols.end(), a.row_cols(row).begin(), a.row_cols(row).end());
    offsets.push_back(std::ssize(cols));
  }
  std::vector<float> values(cols.size(), 0.5f);
  a = CsrMatrix{a.rows, a.cols, std::move(offsets), std::move(cols), std::move(values)};
  const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(a);
  const auto& tiles = packed_as<BitTcf>(*packed);

  for (const std::int64_t blocks : {1, 5, 16, 10000}) {
    CAPTURE(blocks);
    const window_tasks::Tasks equal =
        window_tasks::cut_into_equal_shares(tiles.row_window_offset, blocks);
    REQUIRE(equal.shares.front() == 0);
    REQUIRE(equal.shares.back() == equal.tasks.size());
    std::int64_t next = 0, window = -1, full = 0;
    for (std::int64_t share = 0; share < equal.num_shares(); ++share) {
      std::int64_t mine = 0, empties = 0;
      for (std::int64_t i = equal.first_of(share); i < equal.first_of(share + 1); ++i) {
        const window_tasks::Task& task = equal.tasks[i];
        CHECK(task.first == next);
        next = task.last;
        CHECK((task.window == window || task.window == window + 1));
        window = task.window;
        CHECK(task.first >= tiles.row_window_offset[window]);
        CHECK(task.last <= tiles.row_window_offset[window + 1]);
        const bool whole = task.first == tiles.row_window_offset[window] &&
                           task.last == tiles.row_window_offset[window + 1];
        CHECK((task.split == 0) == whole);
        mine += task.last - task.first;
        if (task.first == task.last) ++empties;
      }
      CHECK(mine + empties > 0);
      CHECK(mine <= blocks);
      CHECK(empties <= blocks);
      if (mine == blocks) ++full;
    }
    CHECK(next == tiles.num_tc_blocks());
    CHECK(window + 1 == tiles.num_row_windows());
    // All but the last, and one that ends before a range of empty windows.
    CHECK(full >= tiles.num_tc_blocks() / blocks - 1);
  }
}

TEST_CASE("timed shares take equal times in which a window that is written counts") {
  // Windows of 0 to 9 TC blocks, and three long ones.
  std::vector<std::uint32_t> offsets{0};
  for (std::uint32_t w = 0; w < 400; ++w)
    offsets.push_back(offsets.back() + (w % 150 == 20 ? 500 : w * w % 10));

  for (const std::int64_t most : {1, 7, 32}) {
    for (const double weight : {0.0, 0.5, 0.975}) {
      CAPTURE(most);
      CAPTURE(weight);
      const window_tasks::Tasks cut = window_tasks::cut_into_timed_shares(offsets, most, weight);
      const double full = static_cast<double>(most) + weight;
      std::uint32_t next = 0, window = 0;
      std::int64_t joined = 0;
      REQUIRE(cut.shares.front() == 0);
      REQUIRE(cut.shares.back() == cut.tasks.size());
      for (std::int64_t share = 0; share < cut.num_shares(); ++share) {
        std::int64_t blocks = 0, windows = 0;
        for (std::int64_t i = cut.first_of(share); i < cut.first_of(share + 1); ++i, ++windows) {
          const window_tasks::Task& task = cut.tasks[i];
          CHECK(task.first == next);
          next = task.last;
          CHECK((task.window == window || task.window == window + 1));
          window = task.window;
          const bool whole = task.first == offsets[window] && task.last == offsets[window + 1];
          CHECK((task.split == 0) == whole);
          blocks += task.last - task.first;
        }
        const double time = static_cast<double>(blocks) + weight * static_cast<double>(windows);
        CHECK(windows > 0);
        CHECK(blocks <= most);
        CHECK(time <= full + 1e-9);
        if (share + 1 < cut.num_shares()) CHECK(time > full - 1 - weight - 1e-9);
        if (windows > 1) ++joined;
      }
      CHECK(next == offsets.back());
      CHECK(window + 1 == offsets.size() - 1);
      if (most == 32) CHECK(joined > 20);
    }
  }
}

TEST_CASE("imbalance is the mean distance from the mean window") {
  // Windows of 4, 0 and 2 TC blocks: mean 2, distances 2, 2 and 0.
  std::vector<std::int64_t> offsets(25, 32);
  offsets.front() = 0, offsets.back() = 48;
  std::vector<std::int32_t> cols(48);
  for (std::int32_t i = 0; i < 48; ++i) cols[i] = i % 32;
  const CsrMatrix a{24, 40, std::move(offsets), std::move(cols), std::vector<float>(48, 1.5f)};
  const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(a);

  CHECK(window_tasks::imbalance(packed_as<BitTcf>(*packed).row_window_offset) ==
        doctest::Approx(4.0 / 3));
}

}  // namespace
}  // namespace tessera
