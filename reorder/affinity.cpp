// Data-affinity order (Acc-SpMM, section 3.2, Algorithm 1): the next row is the one that has most
// columns in common with the rows just placed; Rabbit Order's dendrogram breaks the ties.
//
// Readings where the paper is silent. "Common neighbours" are common columns of A's rows. Every row
// not yet placed competes, ties go to the earlier one in the base order, and where no row shares a
// column the next one of the base order follows. The paper's step II ends when all are placed.
// Departures: a column offers only its `candidates` nearest unplaced rows on each side of the row
// that was placed, nearest in the base order, so a hub costs no more than another column; it offers
// fewer of them to a row of more than 256 columns. Rows with the same columns are placed as one.
// score = window compares with all rows of the current row window (its first row with those of the
// previous window), not with the last row alone. ties = short takes the row that adds the fewest
// columns first. A large matrix is cut into stretches of the base order with a chain each
// (stretch_rows = 0 is the paper's single chain). Time: O(nnz candidates). Memory: that of Rabbit
// Order, then that of the stretches in progress (row_chain.hpp).

#include <numeric>

#include "formats/base/registry.hpp"
#include "reorder/rabbit.hpp"
#include "reorder/reordering.hpp"
#include "reorder/row_chain.hpp"

namespace tessera {
namespace {

/// A weight so large that the length of a row never outweighs a common column.
constexpr std::int64_t kTiesOnly = std::int64_t{1} << 31;

struct AffinityOptions {
  std::string base;
  ChainRule rule;
  double time_limit_s;
};

class Affinity final : public Reordering {
 public:
  explicit Affinity(const AffinityOptions& choices) : choices_(choices) {}

  int version() const override { return 2; }  // a chain for each stretch

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(choices_.time_limit_s);
    watch.begin_part(0, 0.4);
    const std::vector<std::int32_t> base = base_order(matrix, watch);
    watch.begin_part(0.4, 1);
    return {Permutation(chain_rows(matrix, base, choices_.rule, watch)), std::nullopt};
  }

 private:
  std::vector<std::int32_t> base_order(const CsrMatrix& matrix, Watch& watch) const {
    if (choices_.base == "rabbit") return rabbit_walk(matrix, watch).rows;
    std::vector<std::int32_t> base(matrix.rows);
    std::iota(base.begin(), base.end(), 0);
    return base;
  }

  AffinityOptions choices_;
};

const Register<Reordering> entry{{
    .name = "affinity",
    .summary = "Acc-SpMM's data affinity: the next row has most columns in common",
    .params = {{"base",
                std::string("rabbit"),
                "order that breaks ties: Rabbit Order or that of the file",
                {"rabbit", "none"}},
               {"score",
                std::string("last"),
                "count columns in common with the last row or with the row window so far",
                {"last", "window"}},
               {"window_rows", std::int64_t{8}, "rows of that row window", {}, 1, 1024},
               {"candidates",
                std::int64_t{32},
                "candidate rows that a column offers on each side of the row just placed",
                {},
                1,
                0x1p30},
               {"ties",
                std::string("base"),
                "order of rows with equally many common columns: base order, or shorter first",
                {"base", "short"}},
               {"merge_identical", true, "place rows with the same columns as one"},
               {"stretch_rows",
                std::int64_t{32768},
                "approximate rows of the base order per chain; 0: one chain for all rows",
                {},
                0,
                0x1p31},
               time_limit_param()},
    .make =
        [](const Params& p) {
          const bool last = p.text("score") == "last";
          return std::make_unique<Affinity>(AffinityOptions{
              .base = p.text("base"),
              .rule = {.window_rows =
                           last ? 1 : static_cast<std::int32_t>(p.integer("window_rows")),
                       .candidates = static_cast<std::int32_t>(p.integer("candidates")),
                       .common_weight = p.text("ties") == "short" ? kTiesOnly : 0,
                       .merge_identical = p.flag("merge_identical"),
                       .stretch_rows = p.integer("stretch_rows")},
              .time_limit_s = p.real("time_limit_s")});
        },
}};

}  // namespace
}  // namespace tessera
