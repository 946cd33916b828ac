#include "kernels/spgemm/row/masked.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "formats/base/parallel.hpp"

namespace tessera::row_spgemm {
namespace {

/// Adds the products of a row to the sums of its cells, in `parts` parts. sums [parts][cells]
void add_products(const CsrMatrix& a, const CsrMatrix& b, std::int32_t row,
                  std::span<const std::int32_t> cells, std::int64_t parts,
                  std::vector<float>& sums) {
  for (std::int64_t i = 0; i < a.row_length(row); ++i) {
    const std::int64_t of_a = a.row_offsets[row] + i;
    float* const of_part = sums.data() + i % parts * std::ssize(cells);
    const std::int32_t k = a.col_indices[of_a];
    for (std::int64_t at = b.row_offsets[k]; at < b.row_offsets[k + 1]; ++at) {
      const auto cell = std::ranges::lower_bound(cells, b.col_indices[at]);
      if (cell == cells.end() || *cell != b.col_indices[at]) continue;
      float& sum = of_part[cell - cells.begin()];
      sum = std::fma(a.values[of_a], b.values[at], sum);
    }
  }
}

/// The GPU has a single NaN.
float as_stored(float sum) { return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum; }

}  // namespace

CsrMatrix emulate_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask) {
  const MaskedPlan plan = plan_masked(a.rows, a.nnz(), b.rows, b.nnz());
  std::vector<float> values(mask.nnz());
  parallel_for(a.rows, 64, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sums;
    for (auto row = static_cast<std::int32_t>(begin); row < end; ++row) {
      const std::span<const std::int32_t> cells = mask.row_cols(row);
      std::int64_t products = 0;
      for (const std::int32_t k : a.row_cols(row)) products += b.row_length(k);
      const bool is_heavy =
          plan.way(std::ssize(cells), a.row_length(row), products) == MaskedWay::kHeavy;
      const std::int64_t parts = is_heavy ? kPartsOfRow : 1;
      sums.assign(parts * cells.size(), 0.0f);
      add_products(a, b, row, cells, parts, sums);
      for (std::size_t cell = 0; cell < cells.size(); ++cell) {
        float sum = sums[cell];
        for (std::int64_t part = 1; part < parts; ++part) sum += sums[part * cells.size() + cell];
        values[mask.row_offsets[row] + static_cast<std::int64_t>(cell)] = as_stored(sum);
      }
    }
  });
  return {mask.rows, mask.cols, mask.row_offsets, mask.col_indices, std::move(values)};
}

}  // namespace tessera::row_spgemm
