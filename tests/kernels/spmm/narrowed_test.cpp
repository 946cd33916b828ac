// B in FP16 under powers of two: what is narrowed, what is not, and the kernels that do so.

#include "kernels/spmm/narrowed/narrowed_b.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRows = 300, kCols = 200;

/// The same matrix with every element of a column multiplied by a power of two of its own.
DenseMatrix with_graded_columns(DenseMatrix b) {
  for (std::int64_t i = 0; i < b.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j)
      b.at(i, j) = std::ldexp(b.at(i, j), static_cast<int>(j % 61) - 30);
  return b;
}

/// The matrix with value_of(row, value) for its values.
template <class ValueOf>
CsrMatrix with_values(const CsrMatrix& a, ValueOf value_of) {
  std::vector<float> values;
  for (std::int32_t row = 0; row < a.rows; ++row)
    for (const float value : a.row_values(row)) values.push_back(value_of(row, value));
  return {a.rows, a.cols, a.row_offsets, a.col_indices, std::move(values)};
}

TEST_CASE("a narrowed B has 11 significant bits, whatever the scales of its columns are") {
  for (const bool graded : {false, true}) {
    CAPTURE(graded);
    DenseMatrix b = random_dense(kRows, kCols, 71);
    if (graded) b = with_graded_columns(b);
    const narrowed::NarrowedB narrow = narrowed::narrow(b);
    REQUIRE(narrow.is_narrow);
    for (std::int64_t j = 0; j < kCols; ++j) {
      float largest = 0;
      for (std::int64_t i = 0; i < kRows; ++i) largest = std::max(largest, std::abs(b.at(i, j)));
      for (std::int64_t i = 0; i < kRows; ++i) {
        const double back = double{narrow.b.at(i, j)} * narrow.col_scales[j];
        CHECK(std::abs(back - b.at(i, j)) <=
              0x1p-11 * std::abs(b.at(i, j)) + narrowed::kLost * largest);
        CHECK(rounded_to(ElementType::kFp16, narrow.b.at(i, j)) == narrow.b.at(i, j));
      }
    }
  }
}

TEST_CASE("a B to which FP16 would do harm is not narrowed") {
  const DenseMatrix good = random_dense(kRows, kCols, 72);
  const auto is_narrow = [](const DenseMatrix& b) { return narrowed::narrow(b).is_narrow; };
  REQUIRE(is_narrow(good));
  constexpr std::int64_t kUnsampled = 7;  // no multiple of kRows / kSampleRows
  for (int i = 0; i < narrowed::kSampleRows; ++i)
    REQUIRE(narrowed::sample_row(i, kRows) != kUnsampled);

  SUBCASE("an infinity or a NaN") {
    for (const float value :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::int64_t row : {std::int64_t{0}, kUnsampled}) {
        DenseMatrix b = good;
        b.at(row, 150) = value;
        CHECK_FALSE(is_narrow(b));
      }
    }
  }
  SUBCASE("a row of small elements, but not one of zeros") {
    for (const int exponent : {-10, -25, -60}) {
      DenseMatrix b = good;
      for (float& value : b.row(kUnsampled)) value = std::ldexp(value, exponent);
      CHECK(is_narrow(b) == (exponent == -10));
    }
    DenseMatrix b = good;
    for (float& value : b.row(kUnsampled)) value = 0;
    CHECK(is_narrow(b));
  }
  SUBCASE("a column far larger than its sample") {
    for (const float factor : {20.0f, 10000.0f}) {
      DenseMatrix b = good;
      b.at(kUnsampled, 3) = factor;
      CHECK(is_narrow(b) == (factor == 20));
    }
  }
  SUBCASE("a column of small elements whose sample is zero, but not one of zeros") {
    for (const float value : {1e-5f, 0.5f, 0.0f}) {
      DenseMatrix b = good;
      for (std::int64_t i = 0; i < kRows; ++i) b.at(i, 190) = 0;
      b.at(kUnsampled, 190) = value;
      CHECK(is_narrow(b) == (value != 1e-5f));
    }
  }
  SUBCASE("magnitudes far from one") {
    for (const int exponent : {-39, 38, -60, 60}) {
      DenseMatrix b = good;
      for (float& value : b.values) value = std::ldexp(value, exponent);
      CHECK(is_narrow(b) == (std::abs(exponent) < narrowed::kMostExponent));
    }
  }
}

TEST_CASE("kernels multiply what cannot be narrowed as it is, bit for bit") {
  const CsrMatrix a = random_sparse(120, kRows, 0.05, 73);
  const DenseMatrix b = random_dense(kRows, 40, 74);
  const Generation& hopper = find_generation("hopper");
  for (const char* name : {"tessera_spmm", "rows_spmm"}) {
    CAPTURE(name);
    const auto& kernels = Registry<SpmmKernel>::instance();
    const auto wide = kernels.make(name);
    const auto kernel = kernels.make(name, {{"precision", std::string("fp16_scaled")}});
    const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
    // With tessera_spmm, the 11 bits of FP16 are those of TF32.
    CHECK((kernel->emulate(*packed, b, hopper).values ==
           wide->emulate(*packed, b, hopper).values) == (std::string(name) == "tessera_spmm"));
    DenseMatrix huge = b;
    for (float& value : huge.values) value = std::ldexp(value, 70);
    CHECK(kernel->emulate(*packed, huge, hopper).values ==
          wide->emulate(*packed, huge, hopper).values);
  }
}

TEST_CASE("scales of rows and columns are powers of two that products bring back") {
  // What A's rows and B's columns are multiplied by, C's elements are, bit for bit.
  const CsrMatrix a = random_sparse(64, kRows, 0.05, 75);
  const DenseMatrix b = random_dense(kRows, 24, 76);
  const auto row_exponent = [](std::int64_t row) { return static_cast<int>(row % 41) - 20; };
  const CsrMatrix graded = with_values(
      a, [&](std::int32_t row, float value) { return std::ldexp(value, row_exponent(row)); });
  const DenseMatrix graded_b = with_graded_columns(b);
  const auto kernel = Registry<SpmmKernel>::instance().make(
      "tessera_spmm", {{"precision", std::string("fp16_scaled")}});
  const auto product = [&](const CsrMatrix& of_a, const DenseMatrix& of_b) {
    const auto packed = Registry<Format>::instance().make(kernel->format())->pack(of_a);
    return kernel->emulate(*packed, of_b, find_generation("hopper"));
  };
  const DenseMatrix c = product(a, b), scaled = product(graded, graded_b);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j)
      CHECK(scaled.at(i, j) ==
            std::ldexp(c.at(i, j), row_exponent(i) + static_cast<int>(j % 61) - 30));
}

TEST_CASE("a row of A that cannot be scaled is refused with its number") {
  const CsrMatrix a = with_values(
      random_sparse(64, 90, 0.2, 77),
      [](std::int32_t row, float value) { return row == 9 ? std::ldexp(value, 60) : value; });
  const auto kernel = Registry<SpmmKernel>::instance().make(
      "tessera_spmm", {{"precision", std::string("fp16_scaled")}});
  const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
  CHECK_THROWS_WITH_AS(kernel->emulate(*packed, random_dense(90, 8, 78), find_generation("hopper")),
                       doctest::Contains("row 9 is"), Unsupported);
  const auto rows = Registry<SpmmKernel>::instance().make(
      "rows_spmm", {{"precision", std::string("fp16_scaled")}});
  const auto csr = Registry<Format>::instance().make(rows->format())->pack(a);
  CHECK_THROWS_WITH_AS(rows->emulate(*csr, random_dense(90, 8, 78), find_generation("hopper")),
                       doctest::Contains("2^41"), Unsupported);
  CHECK_THROWS_WITH_AS(
      Registry<SpmmKernel>::instance().make("rows_spmm", {{"precision", std::string("fp16_scaled")},
                                                          {"storage", std::string("fp16")}}),
      doctest::Contains("FP32"), Error);
}

}  // namespace
}  // namespace tessera
