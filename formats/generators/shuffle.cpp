#include "formats/generators/shuffle.hpp"

#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/permutation.hpp"
#include "formats/base/random.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

Permutation random_order(std::int32_t size, std::uint64_t stream) {
  std::vector<std::int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  RandomSequence(stream).shuffle(order);
  return Permutation(std::move(order));
}

}  // namespace

CsrMatrix shuffled(const CsrMatrix& matrix, ShuffledSides sides, std::int64_t seed) {
  const Permutation rows = random_order(matrix.rows, stream_seed(seed, 0));
  switch (sides) {
    case ShuffledSides::kRows:
      return permute_rows(matrix, rows);
    case ShuffledSides::kCols:
      return permute_cols(matrix, random_order(matrix.cols, stream_seed(seed, 1)));
    case ShuffledSides::kBoth:
      return permute_cols(permute_rows(matrix, rows),
                          random_order(matrix.cols, stream_seed(seed, 1)));
    case ShuffledSides::kSymmetric:
      break;
  }
  require<Unsupported>(matrix.rows == matrix.cols,
                       "a symmetric shuffle needs a square matrix, not {} x {}", matrix.rows,
                       matrix.cols);
  return permute_cols(permute_rows(matrix, rows), rows);
}

}  // namespace tessera
