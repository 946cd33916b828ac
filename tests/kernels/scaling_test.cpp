// alpha and beta: the rule for one element, by definition, and what must not be read.
#include <doctest/doctest.h>

#include <limits>

#include "formats/base/check.hpp"
#include "kernels/scaling.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("a scaled product is rounded once after alpha and once after beta") {
  const DenseMatrix product = random_dense(13, 17, 1), c = random_dense(13, 17, 2);
  const Scaling scaling{-1.7f, 0.3f};

  const DenseMatrix result = emulate_scaling(scaling, product, c);

  int fused = 0;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const float first = scaling.alpha * product.values[i];
    // A product of two floats is exact in a double, and the sum is close to exact.
    const double sum = double{scaling.beta} * c.values[i] + double{first};
    CHECK(result.values[i] == static_cast<float>(sum));
    fused += result.values[i] != first + static_cast<float>(double{scaling.beta} * c.values[i]);
  }
  CHECK(fused > 0);
}

TEST_CASE("an old C is not read for a beta of 0, and an alpha of 1 leaves every sum") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const DenseMatrix product = random_dense(5, 6, 3), old(5, 6, nan);

  CHECK(emulate_scaling({}, product, old).values == product.values);
  CHECK(std::isnan(emulate_scaling({1, 1}, product, old).values[0]));
  CHECK(std::bit_cast<std::uint32_t>(emulate_scaling({}, old, old).values[0]) == 0x7fffffff);
}

TEST_CASE("a scaled product of one shape does not go into a C of another") {
  CHECK_THROWS_WITH_AS(emulate_scaling({}, DenseMatrix(3, 4), DenseMatrix(4, 3)),
                       "A B is 3 x 4, but C is 4 x 3", Error);
}

}  // namespace
}  // namespace tessera
