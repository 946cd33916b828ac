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

MaskedSample sample_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask) {
  constexpr std::int64_t kRows = 64, kNonzerosOfRow = 32, kMostProducts = 1 << 20;
  MaskedSample sample;
  std::vector<std::uint32_t> cells(static_cast<std::size_t>(parts(mask.cols, kWordCols)));
  const auto word_at = [&](std::int32_t col) -> std::uint32_t& { return cells[word_of(col)]; };
  const std::int64_t step = parts(a.rows, kRows);
  for (std::int64_t at = step / 2; at < a.rows && sample.products < kMostProducts; at += step) {
    const auto row = static_cast<std::int32_t>(at);
    if (mask.row_length(row) == 0) continue;  // it has no products to find
    for (const std::int32_t col : mask.row_cols(row)) word_at(col) |= 1u << (col % kWordCols);
    const std::span<const std::int32_t> of_a = a.row_cols(row);
    const std::int64_t stride = std::max(parts(std::ssize(of_a), kNonzerosOfRow), std::int64_t{1});
    for (std::int64_t k = 0; k < std::ssize(of_a); k += stride) {
      std::int32_t word = -1;
      std::uint32_t columns = 0;
      const auto end_word = [&] {
        if (word < 0) return;
        ++sample.words;
        if ((columns & cells[word]) != 0) ++sample.words_with_cells;
      };
      for (const std::int32_t col : b.row_cols(of_a[static_cast<std::size_t>(k)])) {
        if (word_of(col) != word) {
          end_word();
          word = word_of(col);
          columns = 0;
        }
        columns |= 1u << (col % kWordCols);
        ++sample.products;
      }
      end_word();
    }
    for (const std::int32_t col : mask.row_cols(row)) word_at(col) = 0;
  }
  return sample;
}

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
