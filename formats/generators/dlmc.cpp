// dlmc: a pruned weight matrix like those of the Deep Learning Matrix Collection (T. Gale et al.,
// "Sparse GPU kernels for deep learning", SC 2020), with the balance that pruning to a fixed budget
// per output gives: every row keeps the same number of weights, give or take one.
//
// A row keeps (1 - sparsity) cols weights, rounded up with the probability of the fraction, in an
// equally likely set of columns.

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

CsrMatrix dlmc(std::int64_t asked_rows, std::int64_t asked_cols, double sparsity,
               std::int64_t seed) {
  const std::int32_t rows = matrix_extent({asked_rows}), cols = matrix_extent({asked_cols});
  const double kept = (1 - sparsity) * cols;
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  return assemble_rows(rows, cols, [=](std::int64_t row, std::vector<Nonzero>& out) {
    RandomSequence random(random_bits(pattern, row));
    const auto count = static_cast<std::int64_t>(kept + random.unit());
    for (const std::int32_t col : distinct_cols(random, std::min<std::int64_t>(count, cols), cols))
      out.push_back({col, cell_value(values, row, col)});
  });
}

const Register<Generator> entry{{
    .name = "dlmc",
    .summary = "pruned weight matrix: every row nearly the same number of random columns",
    .params = {{"rows", std::int64_t{2048}, "rows", {}, 0, kMaxSizeParameter},
               {"cols", std::int64_t{512}, "columns", {}, 0, kMaxSizeParameter},
               {"sparsity", 0.9, "share of zeros", {}, 0, 1},
               {"seed", std::int64_t{1}, "seed of pattern and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return dlmc(p.integer("rows"), p.integer("cols"), p.real("sparsity"),
                        p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
