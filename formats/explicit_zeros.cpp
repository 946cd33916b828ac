#include "formats/explicit_zeros.hpp"

#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kValueGrain = 1 << 16;

}  // namespace

ExplicitZeros::ExplicitZeros(const CsrMatrix& matrix) {
  const float* const values = matrix.values.data();
  std::vector<std::vector<std::int64_t>> pieces((matrix.nnz() + kValueGrain - 1) / kValueGrain);
  parallel_for(matrix.nnz(), kValueGrain, [&](std::int64_t begin, std::int64_t end) {
    // Most matrices have none, and counting zeros is faster than listing them.
    if (std::count(values + begin, values + end, 0.0f) == 0) return;
    for (std::int64_t k = begin; k < end; ++k)
      if (values[k] == 0) pieces[begin / kValueGrain].push_back(k);
  });
  for (const auto& piece : pieces) nonzeros_.insert(nonzeros_.end(), piece.begin(), piece.end());
  cells_.resize(nonzeros_.size());
}

std::vector<std::int64_t> ExplicitZeros::take_cells() {
  std::ranges::sort(cells_);
  return std::move(cells_);
}

}  // namespace tessera
