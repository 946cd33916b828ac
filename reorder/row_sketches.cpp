#include "reorder/row_sketches.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "formats/base/parallel.hpp"
#include "formats/base/parallel_sort.hpp"
#include "formats/base/raw_vector.hpp"
#include "formats/base/shared_grain.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kHashes = 8;

struct Sketch {
  std::array<std::uint32_t, kHashes> hashes;
  std::int32_t row;

  auto operator<=>(const Sketch&) const = default;
};

/// A bijection of 32 bits without visible structure (two rounds of a multiplication and a shift).
std::uint32_t hash_of(std::int32_t col) {
  auto hash = static_cast<std::uint32_t>(col);
  hash = (hash ^ (hash >> 16)) * 0x7feb352du;
  hash = (hash ^ (hash >> 15)) * 0x846ca68bu;
  return hash ^ (hash >> 16);
}

Sketch sketch_of(std::int32_t row, std::span<const std::int32_t> cols) {
  Sketch sketch{{}, row};
  auto& hashes = sketch.hashes;
  hashes.fill(std::numeric_limits<std::uint32_t>::max());
  for (const std::int32_t col : cols) {
    const std::uint32_t hash = hash_of(col);
    if (hash >= hashes.back()) continue;
    auto place = hashes.end() - 1;
    for (; place != hashes.begin() && hash < place[-1]; --place) *place = place[-1];
    *place = hash;
  }
  return sketch;
}

}  // namespace

std::vector<std::int32_t> order_by_sketches(const CsrMatrix& matrix) {
  RawVector<Sketch> sketches(matrix.rows);
  const std::int64_t grain = shared_grain(matrix.rows, 32, 256);
  parallel_for(matrix.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::int32_t>(begin); row < end; ++row)
      sketches[row] = sketch_of(row, matrix.row_cols(row));
  });
  parallel_sort(sketches);
  std::vector<std::int32_t> order(matrix.rows);
  parallel_for(matrix.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) order[place] = sketches[place].row;
  });
  return order;
}

}  // namespace tessera
