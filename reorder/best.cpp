// Our own order, the default of `tessera reorder`: it groups rows into windows so that the windows
// have as few TC blocks as possible, and keeps the order of the file where that has fewer.
//
// Apart from the rounding up to whole blocks the objective is hypergraph partitioning in the
// connectivity metric: rows are vertices, columns nets, parts have exactly window_rows rows. There
// are three steps; the last two can be turned off:
//   fill    at up to 64 places of an order that brings similar rows together, windows grow by the
//           row with most columns in common with the window (row_fronts.hpp)
//   swaps   rows change places between two windows where that leaves fewer TC blocks, rounding up
//           included (window_swaps.hpp)
//   pairs   windows are paired for tiles of twice the height (window_pairs.hpp), and rows change
//           places once more within each pair
// The order to begin with is that of the file or of sketches of rows (row_sketches.hpp), whichever
// has fewer TC blocks, or Rabbit Order where stretches divide the rows. The order of the file, with
// its swaps, is the other candidate. All steps but Rabbit Order use all threads. Memory: 16 bytes
// per nonzero of a stretch to fill windows, then 8 per nonzero, and 6 for each wish to swap.

#include <numeric>

#include "formats/base/kept_threads.hpp"
#include "formats/base/registry.hpp"
#include "reorder/rabbit.hpp"
#include "reorder/reordering.hpp"
#include "reorder/row_chain.hpp"
#include "reorder/row_fronts.hpp"
#include "reorder/row_sketches.hpp"
#include "reorder/window_columns.hpp"
#include "reorder/window_pairs.hpp"
#include "reorder/window_swaps.hpp"

namespace tessera {
namespace {

struct BestOptions {
  std::int32_t window_rows;
  std::int32_t candidates;
  std::int64_t stretch_rows;
  std::int32_t swap_passes;
  bool pairs;
  bool keep_natural;
  double time_limit_s;
};

std::vector<std::int32_t> natural_order(std::int32_t rows) {
  std::vector<std::int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

class Best final : public Reordering {
 public:
  explicit Best(const BestOptions& choices) : choices_(choices) {}

  int version() const override { return 4; }  // stretches of at most half of the nonzeros

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(choices_.time_limit_s);
    const KeptThreads threads;
    const std::int64_t natural_blocks = blocks(matrix, natural_order(matrix.rows));
    // An order to begin with brings nothing by itself.
    if (choices_.keep_natural && watch.stop())
      return {Permutation::identity(matrix.rows), std::nullopt, "natural"};
    std::vector<std::int32_t> start = fill(matrix, natural_blocks, watch);
    std::string chosen = "filled";
    if (choices_.keep_natural && natural_blocks <= blocks(matrix, start)) {
      start = natural_order(matrix.rows);
      chosen = "natural";
    }
    // From here on a row number is an index into `start`.
    const RowPattern pattern = number_columns(matrix, start);
    std::vector<std::int32_t> order = natural_order(matrix.rows);
    watch.begin_part(0.5, 0.8);
    const SwapRule swaps{.window_rows = choices_.window_rows, .passes = choices_.swap_passes};
    if (swap_rows(pattern, order, swaps, watch) > 0) chosen += ", swapped";
    // All passes but the last may trade blocks for columns.
    if (choices_.keep_natural && natural_blocks <= blocks(pattern, order))
      return {Permutation::identity(matrix.rows), std::nullopt, "natural"};
    if (choices_.pairs && !watch.stop()) {
      watch.begin_part(0.8, 1);
      order = pair_windows(pattern, order, {.window_rows = choices_.window_rows}, watch);
      if (choices_.swap_passes > 0) swap_neighbours(pattern, order, choices_.window_rows, watch);
    }
    for (std::int32_t& row : order) row = start[row];
    return {Permutation(std::move(order)), std::nullopt, chosen};
  }

 private:
  std::vector<std::int32_t> fill(const CsrMatrix& matrix, std::int64_t natural_blocks,
                                 Watch& watch) const {
    const ChainRule rule{.window_rows = choices_.window_rows,
                         .candidates = choices_.candidates,
                         .common_weight = 6,
                         .stretch_rows = choices_.stretch_rows};
    watch.begin_part(0, 0.2);
    const std::vector<std::int32_t> base = base_order(matrix, natural_blocks, watch);
    watch.begin_part(0.2, 0.5);
    return grow_windows(matrix, base, rule, watch);
  }

  /// An order in which similar rows are near each other. Rows with similar sketches are neighbours,
  /// but the rows similar to those are anywhere: where stretches divide the rows, they are to be
  /// those of communities.
  std::vector<std::int32_t> base_order(const CsrMatrix& matrix, std::int64_t natural_blocks,
                                       Watch& watch) const {
    if (choices_.stretch_rows > 0 && matrix.rows > choices_.stretch_rows)
      return rabbit_walk(matrix, watch).rows;
    std::vector<std::int32_t> base = order_by_sketches(matrix);
    if (natural_blocks <= blocks(matrix, base)) return natural_order(matrix.rows);
    return base;
  }

  template <class Matrix>
  std::int64_t blocks(const Matrix& matrix, const std::vector<std::int32_t>& order) const {
    return count_tc_blocks(matrix, {order, choices_.window_rows});
  }

  BestOptions choices_;
};

const Register<Reordering> entry{{
    .name = "best",
    .summary = "ours: rows that share columns in one window, or the order of the file if better",
    .params = {{"window_rows", std::int64_t{8}, "rows of a row window", {}, 2, 32},
               {"candidates",
                std::int64_t{32},
                "candidate rows that a column offers on each side of the row just placed",
                {},
                1,
                0x1p30},
               {"stretch_rows",
                std::int64_t{1} << 20,
                "rows that windows choose from; more are divided along Rabbit Order; 0: all rows",
                {},
                0,
                0x1p31},
               {"swap_passes", std::int64_t{1}, "passes of swaps over all windows", {}, 0, 100},
               {"pairs", true, "pair windows for tiles of twice the height"},
               {"keep_natural", true, "start from the order of the file where that is better"},
               time_limit_param()},
    .make =
        [](const Params& p) {
          return std::make_unique<Best>(
              BestOptions{.window_rows = static_cast<std::int32_t>(p.integer("window_rows")),
                          .candidates = static_cast<std::int32_t>(p.integer("candidates")),
                          .stretch_rows = p.integer("stretch_rows"),
                          .swap_passes = static_cast<std::int32_t>(p.integer("swap_passes")),
                          .pairs = p.flag("pairs"),
                          .keep_natural = p.flag("keep_natural"),
                          .time_limit_s = p.real("time_limit_s")});
        },
}};

}  // namespace
}  // namespace tessera
