// METIS: parts that are found again, both methods, and what it refuses.
#include <doctest/doctest.h>

#include "formats/base/registry.hpp"
#include "formats/generators/shuffle.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/statistics.hpp"
#include "reorder/metis_parts.hpp"
#include "reorder/reordering.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Order metis(const CsrMatrix& a, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make("metis", given)->order(a);
}

TEST_CASE("metis lists the two halves of a shuffled pair of cliques one after the other") {
  // Vertices 0, 2, 4, ... and 1, 3, 5, ... are cliques of 16, joined by one edge.
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (std::int32_t i = 0; i < 32; ++i) {
    for (std::int32_t j = 0; j < 32; ++j)
      if ((i + j) % 2 == 0 || i + j == 1) cols.push_back(j);
    offsets.push_back(static_cast<std::int64_t>(cols.size()));
  }
  DenseMatrix values = random_dense(1, static_cast<std::int64_t>(cols.size()), 3);
  const CsrMatrix cliques{32, 32, offsets, cols, std::move(values.values)};

  const Order order = metis(cliques, {{"part_rows", std::int64_t{16}}});

  const auto rows = order.rows.old_of_new();
  for (int place = 0; place < 32; ++place) CHECK(rows[place] % 2 == rows[place < 16 ? 0 : 16] % 2);
  CHECK(rows[0] % 2 != rows[16] % 2);
  CHECK(order.cols == order.rows);
}

TEST_CASE("both methods of metis gain on a shuffled grid and depend on the seed alone") {
  const CsrMatrix mixed =
      shuffled(load_matrix("poisson2d(nx=60, ny=40)", false).matrix, ShuffledSides::kSymmetric, 4);
  for (const char* method : {"kway", "nd"}) {
    CAPTURE(method);
    const Params::Given given{{"method", std::string(method)}};

    const Order order = metis(mixed, given);

    CHECK(statistics(apply(mixed, order)).windows[0].mean_nnz_tc >
          1.05 * statistics(mixed).windows[0].mean_nnz_tc);
    const ThreadCount three(3);
    CHECK(metis(mixed, given).rows == order.rows);
  }
}

TEST_CASE("metis orders matrices without edges and refuses rectangular ones") {
  for (const char* method : {"kway", "nd"}) {
    const Params::Given given{{"method", std::string(method)}, {"part_rows", std::int64_t{2}}};
    CHECK(metis(random_sparse(9, 9, 0, 1), given).rows.is_identity());
    CHECK(metis(random_sparse(1, 1, 1, 1), given).rows.is_identity());
    CHECK(metis(CsrMatrix{}, given).rows.size() == 0);
    CHECK(metis(random_sparse(50, 50, 0.02, 2), given).rows.size() == 50);  // isolated rows too
    CHECK_THROWS_AS(metis(random_sparse(9, 8, 0.5, 1), given), Unsupported);
  }
}

TEST_CASE(
    "metis cuts a shuffled mesh into parts of like nonzeros that need few of each other's rows") {
  const CsrMatrix mesh = load_matrix("poisson3d(nx=12)").matrix;
  const Permutation order =
      metis(mesh, {{"part_rows", std::int64_t{7}}, {"seed", std::int64_t{3}}}).rows;
  const CsrMatrix a = permute_cols(permute_rows(mesh, order), order);
  const auto of_row = metis_parts(a, 3);
  std::vector<std::int64_t> nonzeros(3);
  std::int64_t cut = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    nonzeros[static_cast<std::size_t>(of_row[static_cast<std::size_t>(row)])] += a.row_length(row);
    for (const std::int32_t col : a.row_cols(row))
      cut += of_row[static_cast<std::size_t>(col)] != of_row[static_cast<std::size_t>(row)];
  }
  for (const std::int64_t of_part : nonzeros)
    CHECK(static_cast<double>(of_part) ==
          doctest::Approx(static_cast<double>(a.nnz()) / 3).epsilon(0.03));
  CHECK(cut < a.nnz() / 10);  // of three parts at random it is two thirds
  CHECK(metis_parts(a, 1) == std::vector<std::int32_t>(static_cast<std::size_t>(a.rows), 0));
  CHECK_THROWS_AS(metis_parts(a, 0), Error);
  CHECK_THROWS_AS(metis_parts(random_sparse(9, 8, 0.5, 1), 2), Unsupported);
}

}  // namespace
}  // namespace tessera
