// The random order: a permutation that the seed alone decides.
#include <doctest/doctest.h>

#include <cstdlib>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Order random_order(const CsrMatrix& matrix, std::int64_t seed, const std::string& apply) {
  return Registry<Reordering>::instance()
      .make("random", {{"seed", seed}, {"apply", apply}})
      ->order(matrix);
}

TEST_CASE("a random order depends on the seed alone and leaves few rows near where they were") {
  const CsrMatrix a = random_sparse(1000, 70, 0.01, 1), b = random_sparse(1000, 900, 0.02, 2);

  const Order order = random_order(a, 5, "rows");

  CHECK(order.rows == random_order(b, 5, "rows").rows);
  CHECK_FALSE(order.rows == random_order(a, 6, "rows").rows);
  CHECK(!order.cols);
  std::int64_t moved = 0;  // |i - j| of two uniform places is n/3 on average
  for (std::int32_t i = 0; i < 1000; ++i) moved += std::abs(order.rows.old_of_new()[i] - i);
  CHECK(static_cast<double>(moved) / 1000 == doctest::Approx(1000.0 / 3).epsilon(0.1));
}

TEST_CASE("a random order moves rows and columns alike only where the matrix is square") {
  const CsrMatrix square = random_sparse(40, 40, 0.1, 3);

  const Order order = random_order(square, 7, "symmetric");

  REQUIRE(order.cols);
  CHECK(*order.cols == order.rows);
  CHECK(order.rows == random_order(square, 7, "rows").rows);
  CHECK_THROWS_AS(random_order(random_sparse(40, 41, 0.1, 3), 7, "symmetric"), Unsupported);
}

}  // namespace
}  // namespace tessera
