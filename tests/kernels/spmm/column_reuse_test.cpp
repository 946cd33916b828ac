// The shares of nonzeros that miss in a cache, beside a cache that is simulated.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "formats/io/source.hpp"
#include "kernels/spmm/rows/column_reuse.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using rows_spmm::ColumnReuse;
using rows_spmm::gathered_columns;

/// The share of nonzeros whose row of B an LRU cache of `places` rows of B and C misses.
double simulated_misses(const CsrMatrix& a, std::size_t places) {
  std::list<std::int64_t> lines;
  std::unordered_map<std::int64_t, std::list<std::int64_t>::iterator> at;
  const auto touch = [&](std::int64_t line) {
    const auto found = at.find(line);
    const bool hit = found != at.end();
    if (hit) lines.erase(found->second);
    lines.push_front(line);
    at[line] = lines.begin();
    if (lines.size() > places) at.erase(lines.back()), lines.pop_back();
    return hit;
  };
  std::int64_t missed = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i)
      missed += !touch(a.col_indices[i]);
    touch(-1 - row);  // a row of C
  }
  return static_cast<double>(missed) / static_cast<double>(a.nnz());
}

TEST_CASE("misses of rows of B are those of a cache with the least recently used row replaced") {
  for (const char* name : {"uniform(rows=3000, per_row=8)", "poisson3d(nx=16)",
                           "geometric(n=4000, degree=8)", "rmat(scale=12, edge_factor=6)"}) {
    CAPTURE(name);
    const CsrMatrix a = load_matrix(name).matrix;
    const ColumnReuse reuse(a);
    constexpr double kRounding = 1e-9;  // of sums of a few dozen shares
    double least = 1, most = 0;
    for (const std::size_t places : {100, 400, 1600, 20000}) {
      CAPTURE(places);
      const double found = reuse.misses(static_cast<double>(places), 1, 1);
      // A bucket spans a fifth of the time, and windows differ from their average: the share is
      // that of a cache of between half and twice the size.
      CHECK(found <= simulated_misses(a, places / 2) + kRounding);
      CHECK(found >= simulated_misses(a, 2 * places) - kRounding);
      CHECK(std::abs(found - simulated_misses(a, places)) < 0.05);
      least = std::min(least, found), most = std::max(most, found);
    }
    CHECK(most > least + 0.1);
  }
}

TEST_CASE("rows of B that the L2 cannot keep are gathered a part at a time") {
  // The planes of a grid of 100^3 points: of 512 columns, two do not fit the L2 with those of C.
  const CsrMatrix grid = load_matrix("poisson3d(nx=100)").matrix;
  CHECK(gathered_columns(grid, 128, 4, 4) == 128);
  CHECK(gathered_columns(grid, 512, 4, 4) == 128);
  CHECK(gathered_columns(grid, 512, 2, 2) == 256);
  // Neighbours share their rows of B at once.
  const CsrMatrix chain = load_matrix("poisson2d(nx=1000)").matrix;
  for (const std::int64_t n : {200, 512}) CHECK(gathered_columns(chain, n, 4, 4) == n);
  CHECK(gathered_columns(chain, 2000, 4, 4) == 512);
  // All of B and C fits.
  const CsrMatrix small = load_matrix("uniform(rows=5000, per_row=20)").matrix;
  CHECK(gathered_columns(small, 512, 4, 4) == 512);
  CHECK(gathered_columns(CsrMatrix(3, 3, std::vector<std::int64_t>(4, 0),
                                   std::vector<std::int32_t>(), std::vector<float>()),
                         512, 4, 4) == 512);
}

}  // namespace
}  // namespace tessera
