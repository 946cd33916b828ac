// Steps that the warps of count_cells() and make_sums() share: they take a task, mark and rank its
// tile columns and walk over its pairs.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kernels/spgemm/tile/warps.hpp"

namespace tessera::tile_spgemm::tracing {

/// Pairs that a warp's lanes have at a time.
struct Pairs {
  struct Pair {
    int factor;
    std::int64_t of_b, of_c;  // tiles
    std::uint32_t step;
  };
  std::array<Pair, kWarpSize> pairs;
  int size = 0;

  auto begin() const { return pairs.begin(); }
  auto end() const { return pairs.begin() + size; }
};

class TaskTrace : public TaskLaunch {
 public:
  TaskTrace(std::shared_ptr<const ProductAnalysis> product, const ArrayAddresses& at)
      : product_(std::move(product)), at_(at) {}

 protected:
  static constexpr int kTaskBoard = 0, kTileBoard = 1, kFactorBoard = 2;
  /// The barriers of mark(), and of taking a task; those of each round of ranks.
  static constexpr int kMarkBarriers = 5, kTaskBarriers = 2;

  const TileOfC& tile_of_c(std::int64_t tile) const { return product_->tiles_of_c[tile]; }
  std::int64_t factors_of_task(const TaskWork& work) const {
    return product_->row_of_a(work.task).count;
  }

  /// Takes the next task.
  void take_task(int instructions, int of_first_warp, Warp& w) const;
  void load_tile_row(const TaskWork& work, Warp& w) const {
    w.load_and_wait(kTaskBoard, at_.a.row(work.task.tile_row), kTileRowBytes);
  }
  /// Reads the end of the task's columns, at the end of those at hand.
  void end_columns(int instructions, std::int64_t thread_block, Warp& w) const;

  /// Marks the tile columns of C and ranks the marks.
  void mark(const Task& task, const TaskColumns& columns, const CountedMarks& counted,
            Warp& w) const;
  /// The barriers of mark() and end_columns().
  static std::int64_t barriers_of_columns(const TaskColumns& columns) {
    return kMarkBarriers + 1 +
           Warp::kPrefixSumBarriers * rounds<std::int64_t>(columns.slots(), kThreads);
  }

  /// Calls visit(pairs) for what the warp's lanes have at a time.
  template <class Visit>
  void for_pairs(const Task& task, const TaskColumns& columns, const CountedPairs& counted, Warp& w,
                 Visit visit) const {
    const std::vector<FactorTiles> factors = product_->factors_of(task, columns);
    const int size = static_cast<int>(std::ssize(factors));
    const FactorLanes share(size);
    w.issue(counted.each + counted.bits * (FactorLanes::kMostBits + 1 - share.bits));
    for (int first = share.first_factor(w.first_thread()); first < size;
         first += share.factors_at_once()) {
      const std::span<const FactorTiles> own(factors.begin() + first,
                                             std::min(share.factors_of_warp(), size - first));
      std::int64_t longest = 0;
      for (const FactorTiles& factor : own) longest = std::max(longest, factor.count());
      w.issue(counted.factors);
      w.shared(1, 2);
      if (longest > 0) w.issue(counted.active);
      if (longest > 0) load_tiles(own, 0, share.lanes(), w);
      for (std::int64_t at = 0; at < longest; at += share.lanes()) {
        w.wait(kTileBoard);
        w.issue(counted.tiles);
        if (at + share.lanes() < longest)
          load_tiles(own, at + share.lanes(), share.lanes(), w);
        else
          w.issue(CountedPairs::kNoNext);
        const Pairs pairs = pairs_of(own, first, at, share, columns);
        if (pairs.size > 0) visit(pairs);
      }
      w.issue(counted.end);
    }
  }

  /// Lanes join the cells of pairs to those of the tiles [first, first + size) of C. Returns true
  /// where some did.
  bool join(const Task& task, const Pairs& pairs, std::int64_t first, std::int64_t size,
            Warp& w) const;
  /// Lanes read the ranks of the tiles of C.
  void read_ranks(const TaskColumns& columns, const Pairs& pairs, Warp& w) const;

  std::shared_ptr<const ProductAnalysis> product_;
  ArrayAddresses at_;

 private:
  void load_factors(const Task& task, const TaskColumns& columns, Warp& w) const;
  void load_tiles(std::span<const FactorTiles> factors, std::int64_t at, int lanes, Warp& w) const;
  Pairs pairs_of(std::span<const FactorTiles> factors, int first, std::int64_t at,
                 const FactorLanes& share, const TaskColumns& columns) const;
};

}  // namespace tessera::tile_spgemm::tracing
