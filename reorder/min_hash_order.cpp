#include "reorder/min_hash_order.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "formats/base/parallel.hpp"
#include "formats/base/parallel_sort.hpp"
#include "formats/base/random.hpp"

namespace tessera {

std::vector<std::int32_t> min_hash_order(const CsrMatrix& matrix, std::uint64_t seed) {
  constexpr std::int64_t kRowGrain = 1 << 12;
  struct Row {
    std::uint32_t first, second;
    std::int32_t row;
  };
  std::vector<Row> rows(matrix.rows);
  parallel_for(matrix.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Row least{std::numeric_limits<std::uint32_t>::max(),
                std::numeric_limits<std::uint32_t>::max(), static_cast<std::int32_t>(i)};
      for (const std::int32_t col : matrix.row_cols(i)) {
        const std::uint64_t bits = random_bits(seed, col);  // two hashes in one
        least.first = std::min(least.first, static_cast<std::uint32_t>(bits));
        least.second = std::min(least.second, static_cast<std::uint32_t>(bits >> 32));
      }
      rows[i] = least;
    }
  });
  parallel_sort(rows, [](const Row& a, const Row& b) {
    return std::tie(a.first, a.second, a.row) < std::tie(b.first, b.second, b.row);
  });
  std::vector<std::int32_t> order;
  order.reserve(rows.size());
  for (const Row& row : rows) order.push_back(row.row);
  return order;
}

}  // namespace tessera
