// uniform: a fixed number of nonzeros, every set of cells equally likely (the model G(n, m) of
// Erdos and Renyi, 1959).
//
// Cells are drawn in two steps. The first gives the row counts: a draw of a cell adds one to its
// row, and is repeated when its column is below the count that the row already has; so a row with k
// nonzeros is hit with probability (cols - k) / cols, exactly as if the cells had been drawn one by
// one without repetition. The second gives each row's columns, an equally likely set of that size.
// Above half full the empty cells are drawn instead.

#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

/// The number of nonzeros of each row, [rows], with sum `total`.
std::vector<std::int32_t> row_counts(std::int32_t rows, std::int32_t cols, std::int64_t total,
                                     std::uint64_t stream) {
  const std::int64_t cells = std::int64_t{rows} * cols;
  const bool draw_empty = total > cells / 2;
  std::vector<std::int32_t> counts(rows, 0);
  RandomSequence random(stream);
  for (std::int64_t left = draw_empty ? cells - total : total; left > 0;) {
    const std::int64_t row = static_cast<std::int64_t>(random.below(rows));
    if (static_cast<std::int64_t>(random.below(cols)) < counts[row]) continue;
    ++counts[row];
    --left;
  }
  if (draw_empty)
    for (std::int32_t& count : counts) count = cols - count;
  return counts;
}

CsrMatrix uniform(std::int64_t asked_rows, std::int64_t asked_cols, double per_row, double density,
                  std::int64_t seed) {
  const std::int32_t rows = matrix_extent({asked_rows});
  const std::int32_t cols = asked_cols > 0 ? matrix_extent({asked_cols}) : rows;
  const double mean = density > 0 ? density * cols : per_row;
  require(mean <= cols, "uniform: {} nonzeros per row do not fit {} columns", mean, cols);
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  const auto counts = row_counts(rows, cols, std::llround(mean * rows), stream_seed(seed, 2));
  return assemble_rows(rows, cols, [&](std::int64_t row, std::vector<Nonzero>& out) {
    RandomSequence random(random_bits(pattern, row));
    for (const std::int32_t col : distinct_cols(random, counts[row], cols))
      out.push_back({col, cell_value(values, row, col)});
  });
}

const Register<Generator> entry{{
    .name = "uniform",
    .summary = "uniformly random cells, a given number of nonzeros or a given density",
    .params =
        {{"rows", std::int64_t{4096}, "rows", {}, 0, kMaxSizeParameter},
         {"cols", std::int64_t{0}, "columns; 0: the number of rows", {}, 0, kMaxSizeParameter},
         {"per_row", 16.0, "mean nonzeros of a row", {}, 0, 0x1p31},
         {"density", 0.0, "share of nonzero cells, instead of per_row; 0: not used", {}, 0, 1},
         {"seed", std::int64_t{1}, "seed of pattern and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return uniform(p.integer("rows"), p.integer("cols"), p.real("per_row"),
                           p.real("density"), p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
