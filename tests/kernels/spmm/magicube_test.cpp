// magicube's host half: both precisions against their definitions, element by element, from A
// itself; INT8 against integer products that know no kernel.

#include "kernels/spmm/vector_tiles/magicube.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const std::vector<std::int64_t> kHeights{2, 4, 8};

std::unique_ptr<SpmmKernel> kernel_of(const char* precision) {
  return Registry<SpmmKernel>::instance().make("magicube", {{"precision", std::string(precision)}});
}

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& a, const char* precision, std::int64_t height) {
  const std::int64_t stride = std::string_view(precision) == "int8" ? 32 : 16;
  return Registry<Format>::instance()
      .make("sr_bcrs", {{"vector_rows", height}, {"stride", stride}})
      ->pack(a);
}

DenseMatrix emulate(const CsrMatrix& a, const DenseMatrix& b, const char* precision,
                    std::int64_t height) {
  return kernel_of(precision)->emulate(*pack(a, precision, height), b, find_generation("hopper"));
}

/// Columns that the rows of row i's window have.
std::vector<std::int32_t> active_cols(const CsrMatrix& a, std::int64_t height, std::int64_t i) {
  std::set<std::int32_t> cols;
  const std::int64_t first = i / height * height;
  for (std::int64_t row = first; row < std::min<std::int64_t>(first + height, a.rows); ++row)
    cols.insert(a.row_cols(row).begin(), a.row_cols(row).end());
  return {cols.begin(), cols.end()};
}

float fp16_chain(const CsrMatrix& a, const DenseMatrix& dense_a, const DenseMatrix& b,
                 std::int64_t height, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kFp16);
  const std::vector<std::int32_t> cols = active_cols(a, height, i);
  float sum = 0;
  for (std::size_t first = 0; first < cols.size(); first += 16) {
    std::vector<float> left(16), right(16);
    for (std::size_t k = first; k < std::min(first + 16, cols.size()); ++k) {
      left[k - first] = convert(dense_a.at(i, cols[k]), Conversion::kFp16);
      right[k - first] = convert(b.at(cols[k], j), Conversion::kFp16);
    }
    sum = fused_dot_add(step, left, right, sum);
  }
  return sum;
}

TEST_CASE("magicube's FP16 emulation gives the bits of its definition, for vectors of any height") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 1);
  DenseMatrix b = random_dense(177, 6, 3);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(7, 3) = std::numeric_limits<float>::infinity();
  b.at(9, 4) = 70000;  // infinite in FP16
  const DenseMatrix dense_a = to_dense(a);

  for (const std::int64_t height : kHeights) {
    CAPTURE(height);
    const DenseMatrix c = emulate(a, b, "fp16", height);
    for (std::int64_t i = 0; i < c.rows; ++i)
      for (std::int64_t j = 0; j < c.cols; ++j)
        REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
                std::bit_cast<std::uint32_t>(fp16_chain(a, dense_a, b, height, i, j)));
  }
}

/// Whole numbers up to 127 in magnitude, one of which is: their scale is 1.
float whole_number(float uniform) {
  return std::nearbyint(uniform * 126) + (uniform < 0 ? -1.0f : 1.0f);
}

TEST_CASE("magicube's INT8 products of whole numbers are exact") {
  CsrMatrix a = random_sparse(203, 177, 0.08, 11);
  DenseMatrix b = random_dense(177, 9, 12);
  std::vector<float> values(a.values.begin(), a.values.end());
  for (float& value : values) value = whole_number(value);
  for (float& value : b.values) value = whole_number(value);
  values[5] = 127, b.values[8] = -127;
  a.values = std::vector<float>(values);

  for (const std::int64_t height : kHeights) {
    const DenseMatrix c = emulate(a, b, "int8", height);
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t j = 0; j < b.cols; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
          sum += static_cast<std::int64_t>(a.values[k]) *
                 static_cast<std::int64_t>(b.at(a.col_indices[k], j));
        REQUIRE(c.at(i, j) == static_cast<float>(sum));
      }
  }
}

TEST_CASE("magicube quantises with one scale per matrix, to nearest even") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 21);
  const DenseMatrix b = random_dense(177, 9, 22);
  float largest_a = 0, largest_b = 0;
  for (const float value : a.values) largest_a = std::max(largest_a, std::abs(value));
  for (const float value : b.values) largest_b = std::max(largest_b, std::abs(value));
  const float scale_a = largest_a / 127, scale_b = largest_b / 127;

  const DenseMatrix c = emulate(a, b, "int8", 8);

  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
        sum += std::lrint(a.values[k] / scale_a) * std::lrint(b.at(a.col_indices[k], j) / scale_b);
      REQUIRE(c.at(i, j) == static_cast<float>(sum) * scale_a * scale_b);
    }
}

TEST_CASE("INT8 products of zeros are zero, and those of a B that is not finite are NaN") {
  const CsrMatrix a = random_sparse(20, 30, 0.2, 31);
  DenseMatrix b(30, 3);
  const auto check_all = [&](auto is_right) {
    const DenseMatrix c = emulate(a, b, "int8", 8);
    for (const float value : c.values) CHECK(is_right(value));
  };

  check_all([](float value) { return value == 0; });
  b.at(4, 1) = 2;
  b.at(7, 0) = std::numeric_limits<float>::infinity();
  check_all([](float value) { return std::bit_cast<std::uint32_t>(value) == 0x7fffffff; });
  b.at(7, 0) = std::numeric_limits<float>::quiet_NaN();
  check_all([](float value) { return std::bit_cast<std::uint32_t>(value) == 0x7fffffff; });
}

TEST_CASE("magicube stays within its error bound, and a wrong element breaks it") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 41);
  const DenseMatrix b = random_dense(177, 20, 42);
  const Permutation order = Permutation::identity(a.rows);
  const std::string generation = "hopper";

  for (const char* precision : {"fp16", "int8"})
    for (const std::int64_t height : kHeights) {
      const auto kernel = kernel_of(precision);
      const auto packed = pack(a, precision, height);
      DenseMatrix c = kernel->emulate(*packed, b, find_generation(generation));
      const CheckedResult right = check_result(a, b, c, {*kernel, *packed, order, generation});
      CHECK(right.reason == "");
      CHECK(right.check->bound_ratio > 0.05);  // and the bound is no empty promise
      c.at(5, 7) += 1;
      CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason != "");
    }
}

TEST_CASE("magicube refuses strides without an instance and windows too long for INT32") {
  const CsrMatrix a = random_sparse(20, 30, 0.2, 51);
  const DenseMatrix b = random_dense(30, 2, 52);
  const auto strides_of = [&](const char* precision) { return pack(a, precision, 8); };
  const Generation& hopper = find_generation("hopper");

  CHECK_THROWS_AS(kernel_of("int8")->emulate(*strides_of("fp16"), b, hopper), Unsupported);
  CHECK_THROWS_AS(kernel_of("fp16")->emulate(*strides_of("int8"), b, hopper), Unsupported);
  CHECK_THROWS_AS(kernel_of("fp16")->emulate(*pack(a, "fp16", 16), b, hopper), Unsupported);
  // 2^31 / 127^2 products are one too many.
  const CsrMatrix wide = random_sparse(1, 140'000, 1.0, 53);
  CHECK_THROWS_AS(kernel_of("int8")->work(*pack(wide, "int8", 8), 1), Unsupported);
  CHECK_NOTHROW(kernel_of("fp16")->work(*pack(wide, "fp16", 8), 1));
}

TEST_CASE("magicube refuses an A whose INT8 sums overflow before the scale of B meets them") {
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto single = [](float value) {
    return CsrMatrix{1, 1, std::vector<std::int64_t>{0, 1}, std::vector<std::int32_t>{0},
                     std::vector<float>{value}};
  };
  const DenseMatrix b(1, 1, 0x1p-100f);
  const std::int64_t height = kHeights.front();
  // A stride has 32 vectors: sums of at most 32 x 127 x 127 times a 127th of the largest magnitude.
  for (const float value : {kMost, -kMost / 4000}) {
    CHECK_THROWS_WITH_AS(emulate(single(value), b, "int8", height),
                         doctest::Contains("times the scale of A"), Unsupported);
    CHECK_THROWS_AS(kernel_of("int8")->work(*pack(single(value), "int8", height), 1), Unsupported);
  }
  const DenseMatrix c = emulate(single(kMost / 4100), b, "int8", height);
  CHECK(c.at(0, 0) == doctest::Approx(double{kMost} / 4100 * 0x1p-100));
  CHECK(std::isnan(
      emulate(single(std::numeric_limits<float>::infinity()), b, "int8", height).at(0, 0)));
  CHECK_NOTHROW(emulate(single(kMost), b, "fp16", height));
}

TEST_CASE("magicube's work counts the MMAs and the bytes of its strides") {
  const CsrMatrix a = random_sparse(203, 157, 0.03, 61);
  for (const std::int64_t height : kHeights) {
    for (const char* precision : {"fp16", "int8"}) {
      const bool int8 = std::string_view(precision) == "int8";
      const std::int64_t depth = int8 ? 32 : 16, bytes = int8 ? 1 : 2, sector = 32 / bytes;
      std::int64_t vectors = 0, mmas = 0;
      for (std::int64_t i = 0; i < a.rows; i += height) {
        const std::int64_t active = std::ssize(active_cols(a, height, i));
        vectors += active;
        mmas += (active + depth - 1) / depth;
      }
      for (const std::int64_t n : {8, 100, 128, 300}) {
        const WorkDescription work = kernel_of(precision)->work(*pack(a, precision, height), n);
        const std::int64_t groups = n <= 32 ? 1 : (n + 127) / 128 * 4;
        CHECK(work.total().mma == 2 * groups * mmas);
        CHECK(work.flops_per_mma == 2 * 16 * 8 * depth);
        CHECK(work.total().c_bytes == 4 * n * a.rows);
        CHECK(work.total().b_bytes == (int8 ? 2 : 1) * 4 * n * a.cols +
                                          bytes * ((n + sector - 1) / sector * sector) * vectors);
        CHECK(work.launches.size() == (int8 ? 3 : 2));
      }
    }
  }
}

}  // namespace
}  // namespace tessera
