// A product of negated operands against the C before: what follows its operands passes, what was
// kept does not.
#include "experiments/backends/later_product.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "tests/support.hpp"

namespace tessera {
namespace {

std::string wrong(const DenseMatrix&) { return "beyond the bound"; }
std::string right(const DenseMatrix&) { return ""; }

DenseMatrix negative(DenseMatrix c) {
  for (float& value : c.values) value = -value;
  return c;
}

DenseMatrix awkward() {
  DenseMatrix c(2, 2);
  c.values = {1.5f, 0.0f, std::numeric_limits<float>::quiet_NaN(),
              -std::numeric_limits<float>::infinity()};
  return c;
}

TEST_CASE("the negative of C passes without a further check, NaNs and signs of zeros aside") {
  DenseMatrix later = negative(awkward());

  CHECK(later_product_fault(awkward(), later, wrong) == "");
  later.values[1] = 0.0f;
  CHECK(later_product_fault(awkward(), later, wrong) == "");
}

TEST_CASE("a C that was kept, or was set to zero, is no product of negated operands") {
  const std::string fault = "after the timed launches, of a negated operand: beyond the bound";

  CHECK(later_product_fault(awkward(), awkward(), wrong) == fault);
  CHECK(later_product_fault(awkward(), DenseMatrix(2, 2), wrong) == fault);
}

TEST_CASE("one element that kept its sign is found in any part of a large C") {
  const DenseMatrix c = random_dense(1 << 14, 64, 3);
  const DenseMatrix later = negative(c);
  CHECK(later_product_fault(c, later, wrong) == "");
  for (const std::int64_t row : {0, (1 << 13) + 5, (1 << 14) - 1}) {
    CAPTURE(row);
    DenseMatrix kept = later;
    kept.at(row, 63) = -kept.at(row, 63);
    CHECK(later_product_fault(c, kept, wrong) != "");
  }
}

TEST_CASE("a product whose sums have another order is checked with its sign turned back") {
  DenseMatrix later = negative(awkward());
  later.values[0] = std::nextafter(later.values[0], 0.0f);
  float checked = 0;

  CHECK(later_product_fault(awkward(), later, right) == "");
  later_product_fault(awkward(), later, [&](const DenseMatrix& c) {
    checked = c.values[0];
    return "";
  });
  CHECK(checked > 1.49f);
  CHECK(later_product_fault(awkward(), later, wrong) != "");
}

TEST_CASE("a sparse product of another pattern or sign is no product of negated operands") {
  const CsrMatrix c = random_sparse(20, 20, 0.2, 1);
  std::vector<float> values(c.values.begin(), c.values.end());
  for (float& value : values) value = -value;
  CsrMatrix later = c;
  later.values = values;
  const auto wrong_sparse = [](const CsrMatrix&) { return std::string("wrong"); };

  CHECK(later_product_fault(c, later, wrong_sparse) == "");
  CHECK(later_product_fault(c, c, wrong_sparse) != "");
  CHECK(later_product_fault(c, random_sparse(20, 20, 0.2, 2), wrong_sparse) != "");
}

TEST_CASE("elements that a later launch leaves are a fault") {
  LaunchOutput output{DenseMatrix(1, 1), 3, true};

  CHECK(later_launch_fault(output) ==
        "after the timed launches, of a negated operand: 3 elements of C were never written");
  output.unwritten = 0;
  CHECK(later_launch_fault(output) == "");
}

TEST_CASE("reasons are joined, and an empty one changes nothing") {
  std::string reasons;
  add_reason("", reasons);
  CHECK(reasons == "");
  add_reason("a", reasons);
  add_reason("", reasons);
  add_reason("b", reasons);
  CHECK(reasons == "a; b");
}

}  // namespace
}  // namespace tessera
