// What a warp of make_sums() does with the pairs that its thread block has listed: values meet in
// MMAs, sums go to C.
#pragma once

#include <array>
#include <vector>

#include "kernels/spgemm/tile/tasks_trace.hpp"

namespace tessera::tile_spgemm::tracing {

/// Tiles of C that a thread block has at once, and where their pairs begin: where an MMA takes two,
/// tiles have an even number.
struct Pass {
  Pass(const Product& product, const Columns& columns, std::int64_t number);

  int pairs_before(int tile) const { return first_pairs[static_cast<std::size_t>(tile)]; }

  /// Calls step() for each of the search's.
  template <class Step>
  int end_of_list(int tile, Step step) const {
    const int most = pairs_before(tile) + pairs_listed(false) + odd * kTilesOfPass;
    int begin = tile + 1, end = size;
    while (begin < end) {
      step();
      const int middle = (begin + end + 1) / 2;
      if (pairs_before(middle) <= most)
        begin = middle;
      else
        end = middle - 1;
    }
    return begin;
  }
  int end_of_list(int tile) const {
    return end_of_list(tile, [] {});
  }

  template <class Step>
  int tile_after(int begin, int end, int work, Step step) const {
    while (begin < end) {
      step();
      const int middle = (begin + end) / 2;
      if (pairs_before(middle) + kPairsOfTile * middle < work)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }

  std::int64_t first;
  int size, odd;
  std::array<int, kTilesOfPass + 1> first_pairs;
};

class PassTrace : public TaskTrace {
 public:
  using TaskTrace::TaskTrace;

 protected:
  static constexpr int kValueBoard = 3;

  int value_bytes() const { return product_->numbers == TileArithmetic::kFp16 ? 2 : 4; }

  /// The values of a tile, by two loads.
  void load_tile_values(std::uint64_t values, const Tile& tile, const ValueSectors& sectors,
                        WarpTrace& trace) const;

  /// The warp's share of the listed tiles.
  void add(const TaskWork& work, const Pass& pass, int tile, int warp, WarpTrace& trace) const;

 private:
  static constexpr int kPairBoard = 4;

  /// A listed pair's tiles; -1: none.
  struct Listed {
    std::int64_t of_a, of_b;
  };

  /// The pairs of tiles [tile, end) of a pass, in their order.
  std::vector<Listed> listed_pairs(const Task& task, const Pass& pass, int tile, int end) const;
  void add_tiles(const TaskWork& work, const Pass& pass, int first, int last,
                 WarpTrace& trace) const;
  void pass_cells(std::int64_t tile, std::array<std::int64_t, kSide>& places) const;
  /// A lane a pair, as many as there are.
  void stage_pairs(const std::vector<Listed>& pairs, int at, WarpTrace& trace) const;
  /// MMAs of staged pairs of one tile: an odd one, then two at a time.
  void take_steps(const std::vector<Listed>& pairs, int at, int stop, WarpTrace& trace) const;
  void load_pair(const Listed& pair, WarpTrace& trace) const;
  /// Two cells a lane: columns and values of the first ones, then of the second ones.
  void store(std::int64_t tile, const std::array<std::int64_t, kSide>& places,
             WarpTrace& trace) const;
};

}  // namespace tessera::tile_spgemm::tracing
