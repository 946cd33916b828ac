// The schedules of the kernels over row windows: thread blocks and warps cover every task and every
// column of C once, and parts of shared memory do not overlap.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/spmm/acc_spmm/schedule.hpp"
#include "kernels/spmm/dtc_spmm/schedule.hpp"
#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/shares_spmm.hpp"
#include "kernels/spmm/row_windows/staged_tiles.hpp"
#include "kernels/spmm/row_windows/warps_spmm.hpp"
#include "kernels/spmm/tcgnn/schedule.hpp"

namespace tessera {
namespace {

/// How many warps compute each (share, column of C).
using Cover = std::map<std::pair<std::int64_t, std::int64_t>, int>;

void add_columns(Cover& cover, std::int64_t share, std::int64_t first, std::int64_t cols,
                 std::int64_t n) {
  for (std::int64_t col = first; col < std::min(first + cols, n); ++col) ++cover[{share, col}];
}

void check_cover(const Cover& cover, std::int64_t shares, std::int64_t n) {
  CHECK(std::ssize(cover) == shares * n);
  CHECK(std::all_of(cover.begin(), cover.end(), [](const auto& each) { return each.second == 1; }));
}

TEST_CASE("a schedule of tasks gives every share and column to one warp") {
  std::vector<row_windows::Schedule> schedules;
  for (const int groups : {1, 2, 4}) schedules.push_back(acc_spmm::schedule_of(groups));
  schedules.push_back(acc_spmm::schedule_of(1, acc_spmm::Scope::kBlock));
  for (const auto& [groups, team] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}})
    schedules.push_back(dtc_spmm::schedule_of(groups, team));

  for (const row_windows::Schedule& schedule : schedules) {
    CAPTURE(schedule.groups);
    CAPTURE(schedule.team);
    for (const std::uint32_t shares : {1u, 3u, 4u, 9u}) {
      for (const std::int64_t n : {1, 31, 32, 128, 200}) {
        Cover cover;
        std::int64_t chunks = 0;
        for (std::int64_t block = 0; block < schedule.thread_blocks(shares, n); ++block) {
          for (int warp = 0; warp < schedule.warps(); ++warp) {
            const row_windows::WorkItem item = schedule.item_of(
                static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(warp), shares);
            if (item.share >= shares) continue;
            chunks = std::max<std::int64_t>(chunks, item.chunk + 1);
            add_columns(cover, item.share, schedule.first_col(item.chunk), schedule.warp_cols(), n);
          }
        }
        check_cover(cover, shares, n);
        CHECK(chunks == schedule.chunks(n));
        // The sums of a warp are 16-byte vectors of its 32 lanes.
        CHECK(32 * 4 * schedule.lane_vectors() == schedule.window_rows * schedule.warp_cols());
      }
    }
  }
}

TEST_CASE("tcgnn's schedule gives every row window and column to one warp") {
  for (const int warps : tcgnn::kWarpChoices) {
    const tcgnn::Schedule schedule{.warps = warps};
    for (const std::int64_t n : {1, 40, 128, 300}) {
      Cover cover;
      for (std::int64_t block = 0; block < schedule.thread_blocks(5, n); ++block) {
        for (int warp = 0; warp < warps; ++warp) {
          const auto item = schedule.item_of(static_cast<std::uint32_t>(block), warp, 5);
          add_columns(cover, item.window, item.first_col, tcgnn::kWarpCols, n);
        }
      }
      check_cover(cover, 5, n);
    }
  }
}

TEST_CASE("the schedules with passes give every column of a window to one warp and pass") {
  const std::int64_t n = 300;
  Cover staged, warps;
  for (std::int64_t pass = 0; pass < 4; ++pass)
    for (int warp = 0; warp < staged_tiles::kWarps; ++warp)
      add_columns(staged, 0, staged_tiles::first_col(warp, pass), window_tile::kWarpCols, n);
  check_cover(staged, 1, n);

  for (std::int64_t block = 0; block < warps_spmm::thread_blocks(19); ++block) {
    for (std::uint32_t warp = 0; warp < warps_spmm::kWarps; ++warp) {
      const std::int64_t window = warps_spmm::window_of(static_cast<std::uint32_t>(block), warp);
      for (std::int64_t pass = 0; window < 19 && pass < warps_spmm::num_passes(n); ++pass)
        add_columns(warps, window, warps_spmm::first_col(pass), warps_spmm::kPassCols, n);
    }
  }
  check_cover(warps, 19, n);
}

TEST_CASE("shares_spmm clears every element of C once") {
  const std::int64_t values = 10000;
  std::set<std::int64_t> cleared;
  int stores = 0;
  for (std::int64_t block = 0; block < shares_spmm::clear_thread_blocks(values); ++block)
    for (int store = 0; store < shares_spmm::kClearStores; ++store)
      for (std::uint32_t thread = 0; thread < shares_spmm::kClearThreads; ++thread) {
        const std::int64_t at =
            shares_spmm::cleared_value(static_cast<std::uint32_t>(block), store, thread);
        if (at < values) cleared.insert(at), ++stores;
      }
  CHECK(stores == values);
  CHECK(std::ssize(cleared) == values);
}

/// Checks that parts of shared memory, as (first float, floats), fill [0, bytes / 4) once.
void check_layout(std::vector<std::pair<int, int>> parts, std::int64_t bytes) {
  std::sort(parts.begin(), parts.end());
  std::int64_t end = 0;
  for (const auto& [first, floats] : parts) {
    CHECK(first == end);
    end = first + floats;
  }
  CHECK(4 * end == bytes);
}

TEST_CASE("the parts of shared memory follow each other without overlap") {
  for (const int groups : {1, 2, 4}) {
    for (const int stages : {2, 3, 4}) {
      for (const bool has_tiles : {false, true}) {
        const acc_spmm::StagedMemory memory{groups, stages, has_tiles};
        std::vector<std::pair<int, int>> parts;
        for (int warp = 0; warp < acc_spmm::kWarps; ++warp) {
          parts.emplace_back(memory.stages_of(warp), memory.warp_floats());
          if (has_tiles) parts.emplace_back(memory.tile_of(warp), acc_spmm::kTileElements);
        }
        check_layout(std::move(parts), memory.bytes());
      }
    }
  }
  for (const auto& [groups, team] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}}) {
    const row_windows::Schedule schedule = dtc_spmm::schedule_of(groups, team);
    const dtc_spmm::SharedMemory memory{schedule, true};
    std::vector<std::pair<int, int>> parts;
    for (int i = 0; i < schedule.teams(); ++i)
      parts.emplace_back(memory.tiles_of(i), dtc_spmm::kTiles * dtc_spmm::kTileElements);
    for (int warp = 0; warp < schedule.warps(); ++warp)
      parts.emplace_back(memory.stages_begin() + memory.stages_of(warp),
                         dtc_spmm::kStages * row_windows::stage_floats(groups));
    check_layout(std::move(parts), memory.bytes());
  }
}

}  // namespace
}  // namespace tessera
