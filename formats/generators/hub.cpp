// hub: rows of one length at random columns, and among them one long row and one long column, as a
// power-law graph or the constraint of an optimization problem (a KKT matrix) has them.
//
// The long row and the long column have the same number, half that of the rows. A row that the long
// column meets has one nonzero more than the others.

#include <algorithm>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

CsrMatrix hub(std::int64_t asked_rows, std::int64_t per_row, std::int64_t row_length,
              std::int64_t col_length, bool is_contiguous, std::int64_t seed) {
  const std::int32_t rows = matrix_extent({asked_rows});
  for (const std::int64_t length : {per_row, row_length, col_length})
    require(length <= rows, "hub: {} nonzeros do not fit a row or a column of {}", length, rows);
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  const std::int32_t number = rows / 2;
  const auto cells_of_hub = [&](RandomSequence& random, std::int64_t length) {
    if (!is_contiguous) return distinct_cols(random, length, rows);
    std::vector<std::int32_t> first(static_cast<std::size_t>(length));
    std::iota(first.begin(), first.end(), 0);
    return first;
  };
  RandomSequence of_col(stream_seed(seed, 2));
  std::vector<bool> is_in_col(static_cast<std::size_t>(rows));
  for (const std::int32_t row : cells_of_hub(of_col, col_length)) is_in_col[row] = true;
  return assemble_rows(rows, rows, [&](std::int64_t row, std::vector<Nonzero>& out) {
    RandomSequence random(random_bits(pattern, row));
    const bool is_long = row == number && row_length > 0;
    std::vector<std::int32_t> cols =
        is_long ? cells_of_hub(random, row_length) : distinct_cols(random, per_row, rows);
    if (is_in_col[row] && !std::ranges::binary_search(cols, number)) cols.push_back(number);
    for (const std::int32_t col : cols) out.push_back({col, cell_value(values, row, col)});
  });
}

const Register<Generator> entry{{
    .name = "hub",
    .summary = "square, rows of one length at random columns, and one long row and one long column",
    .params =
        {{"rows", std::int64_t{4096}, "rows and columns", {}, 1, kMaxSizeParameter},
         {"per_row", std::int64_t{8}, "nonzeros of the other rows", {}, 0, kMaxSizeParameter},
         {"row", std::int64_t{1024}, "nonzeros of the long row; 0: none", {}, 0, kMaxSizeParameter},
         {"col",
          std::int64_t{0},
          "rows that the long column meets; 0: none",
          {},
          0,
          kMaxSizeParameter},
         {"contiguous", false, "true: the long row and column meet the first rows and columns"},
         {"seed", std::int64_t{1}, "seed of pattern and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return hub(p.integer("rows"), p.integer("per_row"), p.integer("row"), p.integer("col"),
                       p.flag("contiguous"), p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
