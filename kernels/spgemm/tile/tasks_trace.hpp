// tile_spgemm's launches over tasks: cells counted, sums made. On the device a thread block takes
// one task after another; here it has one, in the order in which they are taken: what the machine
// needs to start a thread block stands for the atomic addition that asks for the next task.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "kernels/spgemm/tile/tiles_trace.hpp"

namespace tessera::tile_spgemm::tracing {

/// Instructions of a way through all pairs, beside those that the trace tells one by one.
struct PairCosts {
  int each, bits;          // once; for each number of lanes tried
  int round, active, end;  // of factors, for each set that a warp has; where there are tiles
  int step;                // tiles of them, a lane each
};

/// Pairs that a warp's lanes have at a time.
struct Pairs {
  struct Pair {
    int factor;
    std::int64_t of_b, of_c;  // tiles
    std::uint32_t step;
  };
  std::array<Pair, 32> pairs;
  int size = 0;

  auto begin() const { return pairs.begin(); }
  auto end() const { return pairs.begin() + size; }
};

/// What both launches do.
class TaskTrace : public LaunchTrace {
 public:
  TaskTrace(std::shared_ptr<const Product> product, const Addresses& at)
      : product_(std::move(product)), at_(at) {}

  /// Of a warp.
  virtual std::int64_t barriers(std::int64_t thread_block) const = 0;

 protected:
  static constexpr int kTaskBoard = 0, kTileBoard = 1, kFactorBoard = 2;

  const TileOfC& tile_of_c(std::int64_t tile) const {
    return product_->tiles_of_c[static_cast<std::size_t>(tile)];
  }
  static std::int64_t slots_of(const Columns& columns) {
    return (columns.end - columns.first + kColsOfSlot - 1) / kColsOfSlot;
  }
  static std::int64_t slot_of(const Columns& columns, std::int32_t col) {
    return (col - columns.first) / kColsOfSlot;
  }

  void load(int board, std::uint64_t address, std::int64_t bytes, WarpTrace& trace) const {
    trace.load(board);
    trace.touch(address, bytes);
  }

  /// The next task is asked for.
  void ask(int instructions, int of_first_warp, int warp, WarpTrace& trace) const;

  /// Marks the tile columns of C, and gives them their ranks.
  void mark(const Task& task, const Columns& columns, const PairCosts& costs, int visit,
            int rank_begin, int rank_round, int warp, WarpTrace& trace) const;

  /// Factors come to shared memory, cut where the columns are not all.
  void stage(const Task& task, const Columns& columns, int warp, WarpTrace& trace) const;

  /// Calls visit(pairs) for what the warp's lanes have at a time.
  template <class Visit>
  void for_pairs(const Task& task, const Columns& columns, const PairCosts& costs, int warp,
                 WarpTrace& trace, Visit visit) const {
    const std::vector<Factor> factors = product_->factors_of(task, columns);
    const int size = static_cast<int>(std::ssize(factors)), bits = bits_of_lanes(size);
    const int lanes = 1 << bits, groups = 32 / lanes;
    trace.issue(costs.each + costs.bits * (6 - bits));
    for (int first = warp * groups; first < size; first += kThreads / lanes) {
      const int last = std::min(first + groups, size);
      trace.issue(costs.round);
      trace.shared(1);
      trace.shared(1);
      std::int64_t longest = 0;
      for (int i = first; i < last; ++i)
        longest = std::max(longest, factors[static_cast<std::size_t>(i)].end -
                                        factors[static_cast<std::size_t>(i)].begin);
      if (longest > 0) trace.issue(costs.active);
      if (longest > 0) load_tiles(factors, first, last, 0, lanes, trace);
      for (std::int64_t at = 0; at < longest; at += lanes) {
        trace.wait(kTileBoard);
        trace.issue(costs.step);
        if (at + lanes < longest)
          load_tiles(factors, first, last, at + lanes, lanes, trace);
        else
          trace.issue(2);
        const Pairs pairs = pairs_of(factors, first, last, at, bits, columns);
        if (pairs.size > 0) visit(pairs);
      }
      trace.issue(costs.end);
    }
  }

  /// Lanes join the cells of pairs to those of tiles of C from `first` on, of which the thread
  /// block has so many. True: some did.
  bool join(const Task& task, const Pairs& pairs, std::int64_t first, std::int64_t size,
            WarpTrace& trace) const;
  /// They look up ranks.
  void look_up(const Columns& columns, const Pairs& pairs, WarpTrace& trace) const;

  std::shared_ptr<const Product> product_;
  Addresses at_;

 private:
  void load_tiles(const std::vector<Factor>& factors, int first, int last, std::int64_t at,
                  int lanes, WarpTrace& trace) const;
  Pairs pairs_of(const std::vector<Factor>& factors, int first, int last, std::int64_t at, int bits,
                 const Columns& columns) const;
};

std::shared_ptr<const TaskTrace> trace_counting(std::shared_ptr<const Product> product,
                                                const Addresses& at);
/// Of short tile rows of A.
std::shared_ptr<const TaskTrace> trace_sums(std::shared_ptr<const Product> product,
                                            const Addresses& at);

}  // namespace tessera::tile_spgemm::tracing
