#include "formats/generators/assemble.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowGrain = 1 << 12;

/// Sorts by column and sums the entries of a column in their given order.
void sort_and_sum(std::vector<Nonzero>& row) {
  const auto not_ascending = [](const Nonzero& a, const Nonzero& b) { return a.col >= b.col; };
  if (std::ranges::adjacent_find(row, not_ascending) == row.end()) return;
  std::ranges::stable_sort(row, {}, &Nonzero::col);
  auto out = row.begin();
  for (auto first = row.begin(); first != row.end();) {
    const std::int32_t col = first->col;
    double sum = 0;
    for (; first != row.end() && first->col == col; ++first) sum += first->value;
    *out++ = {col, static_cast<float>(sum)};
  }
  row.erase(out, row.end());
}

class FunctionGenerator final : public Generator {
 public:
  explicit FunctionGenerator(std::function<CsrMatrix()> generate)
      : generate_(std::move(generate)) {}
  CsrMatrix generate() const override { return generate_(); }

 private:
  std::function<CsrMatrix()> generate_;
};

}  // namespace

std::int32_t matrix_extent(std::initializer_list<std::int64_t> factors) {
  double product = 1;
  for (const std::int64_t factor : factors) product *= static_cast<double>(factor);
  require<Unsupported>(product <= std::numeric_limits<std::int32_t>::max(),
                       "{:.0f} rows or columns are requested; indices of 32 bits allow 2147483647",
                       product);
  return static_cast<std::int32_t>(product);
}

CsrMatrix assemble_rows(
    std::int32_t rows, std::int32_t cols,
    const std::function<void(std::int64_t row, std::vector<Nonzero>& out)>& nonzeros_of) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows) + 1, 0);
  std::vector<std::vector<Nonzero>> pieces((rows + kRowGrain - 1) / kRowGrain);
  parallel_for(rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Nonzero>& piece = pieces[begin / kRowGrain];
    std::vector<Nonzero> row_nonzeros;
    for (std::int64_t row = begin; row < end; ++row) {
      row_nonzeros.clear();
      nonzeros_of(row, row_nonzeros);
      sort_and_sum(row_nonzeros);
      assert(row_nonzeros.empty() || row_nonzeros.back().col < cols);
      offsets[row + 1] = static_cast<std::int64_t>(row_nonzeros.size());
      piece.insert(piece.end(), row_nonzeros.begin(), row_nonzeros.end());
    }
  });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());

  std::vector<std::int32_t> col_indices(offsets.back());
  std::vector<float> values(offsets.back());
  parallel_for(rows, kRowGrain, [&](std::int64_t begin, std::int64_t) {
    std::int64_t place = offsets[begin];
    for (const Nonzero& nonzero : std::exchange(pieces[begin / kRowGrain], {})) {
      col_indices[place] = nonzero.col;
      values[place++] = nonzero.value;
    }
  });
  return {rows, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

CsrMatrix assemble_entries(std::int32_t rows, std::int32_t cols,
                           const std::vector<Triplet>& entries) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(rows) + 1, 0);
  for (const Triplet& entry : entries) ++first[entry.row + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Nonzero> by_row(entries.size());
  std::vector<std::int64_t> next(first.begin(), first.end() - 1);
  for (const Triplet& entry : entries) by_row[next[entry.row]++] = {entry.col, entry.value};
  return assemble_rows(rows, cols, [&](std::int64_t row, std::vector<Nonzero>& out) {
    out.assign(by_row.begin() + first[row], by_row.begin() + first[row + 1]);
  });
}

std::vector<std::int32_t> distinct_cols(RandomSequence& random, std::int64_t count,
                                        std::int64_t cols) {
  assert(count <= cols);
  if (2 * count > cols) {  // more than half: choose the columns to leave out
    const std::vector<std::int32_t> absent = distinct_cols(random, cols - count, cols);
    std::vector<std::int32_t> present;
    present.reserve(count);
    auto gap = absent.begin();
    for (std::int32_t col = 0; col < cols; ++col) {
      if (gap != absent.end() && *gap == col)
        ++gap;
      else
        present.push_back(col);
    }
    return present;
  }
  std::vector<std::int32_t> chosen;
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    while (static_cast<std::int64_t>(chosen.size()) < count)
      chosen.push_back(static_cast<std::int32_t>(random.below(cols)));
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  }
  return chosen;
}

std::unique_ptr<Generator> make_generator(std::function<CsrMatrix()> generate) {
  return std::make_unique<FunctionGenerator>(std::move(generate));
}

}  // namespace tessera
