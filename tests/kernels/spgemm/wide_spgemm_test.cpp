// Products in FP64 on the host: exact conversions, sums in FP64, and the tasks of row_spgemm with
// sums of 8 bytes.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/wide_matrix.hpp"
#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A matrix whose values have digits below those of FP32.
WideCsrMatrix random_wide(std::int32_t rows, std::int32_t cols, double density,
                          std::uint64_t seed) {
  WideCsrMatrix wide = widened(random_sparse(rows, cols, density, seed));
  RandomSequence random(seed);
  for (double& value : wide.values) value += 0x1p-30 * random.unit();
  return wide;
}

TEST_CASE("widening is exact, and rounding goes to the nearest value and to one NaN") {
  const CsrMatrix a = random_sparse(20, 30, 0.3, 1);
  CHECK(rounded(widened(a)) == a);
  WideCsrMatrix b{1, 3, {0, 3}, {0, 1, 2}, {1 + 0x1p-30, -0x1p200, std::nan("")}};
  const CsrMatrix c = rounded(b);
  CHECK(c.values[0] == 1);
  CHECK(c.values[1] == -std::numeric_limits<float>::infinity());
  CHECK(std::bit_cast<std::uint32_t>(c.values[2]) == 0x7fffffff);
}

TEST_CASE("rows multiplied in FP64 agree with sums of more digits") {
  const WideCsrMatrix a = random_wide(40, 60, 0.3, 2), b = random_wide(60, 50, 0.3, 3);
  const WideCsrMatrix c = multiply_rows(a, b);
  double largest = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    std::vector<long double> sums(b.cols, 0), magnitudes(b.cols, 0);
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
      const std::int32_t of_b = a.col_indices[k];
      for (std::int64_t j = b.row_offsets[of_b]; j < b.row_offsets[of_b + 1]; ++j) {
        const long double product = static_cast<long double>(a.values[k]) * b.values[j];
        sums[b.col_indices[j]] += product;
        magnitudes[b.col_indices[j]] += std::abs(product);
      }
    }
    for (std::int64_t k = c.row_offsets[row]; k < c.row_offsets[row + 1]; ++k) {
      const std::int32_t col = c.col_indices[k];
      const auto error = static_cast<double>(std::abs(c.values[k] - sums[col]) / magnitudes[col]);
      largest = std::max(largest, error);
    }
  }
  CHECK(largest < 60 * 0x1p-53);
  CHECK(largest > 0);
}

TEST_CASE("row_spgemm and mixed_spgemm in FP64 are inside a bound that FP32 sums are not") {
  // Long sums of terms of one sign: FP32 loses many roundings.
  CsrMatrix a = random_sparse(12, 3000, 0.9, 4), b = random_sparse(3000, 11, 0.9, 5);
  const auto positive = [](CsrMatrix& matrix) {
    std::vector<float> values(matrix.values.begin(), matrix.values.end());
    for (float& value : values) value = std::abs(value);
    matrix.values = values;
  };
  positive(a);
  positive(b);
  const std::string generation = "hopper";
  const Params::Given fp64{{"precision", std::string("fp64")}};
  for (const char* name : {"row_spgemm", "mixed_spgemm"}) {
    const auto kernel = Registry<SpgemmKernel>::instance().make(name, fp64);
    const CsrMatrix c = kernel->emulate(a, b, find_generation(generation));
    CHECK(kernel->arithmetic().sum == Arithmetic::Sum::kFp64);
    CHECK(c == rounded(multiply_rows(widened(a), widened(b))));
    CHECK(check_result({*kernel, a, b, generation}, c).reason == "");
    CHECK(check_result({*kernel, a, b, generation}, multiply_rows(a, b)).reason != "");
  }
  CHECK_THROWS_AS(
      Registry<SpgemmKernel>::instance().make(
          "mixed_spgemm", {{"precision", std::string("fp64")}, {"path", std::string("merge")}}),
      Error);
}

TEST_CASE("the tasks of rows with sums of 8 bytes fit the shared memory of their class") {
  using namespace row_spgemm;
  static_assert(most_words(kSumSize) == kMostWords);
  RandomSequence random(14);
  const auto up_to = [&](double most) {
    return static_cast<std::int64_t>(std::exp(random.unit() * std::log(most)));
  };
  Thresholds many = thresholds_for(1 << 20, 8, 1);
  many.sum_size = sizeof(double);
  int sliced = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t nonzeros = up_to(100'000), products = nonzeros * up_to(5000) + 1;
    const auto width = static_cast<std::int32_t>(up_to(3e6));
    const std::int64_t words = nonzeros * (width / kWordCols + 1);
    const RowPlan plan = plan_row(0,
                                  {.products = products,
                                   .words = std::min(products, words),
                                   .nonzeros = static_cast<std::int32_t>(nonzeros),
                                   .first = 0,
                                   .last = width - 1},
                                  many);
    if (plan.whole.storage == MarkStorage::kLanes) continue;
    for (const int slice : {0, plan.slices - 1}) {
      const row_spgemm::Task task = slice_of(plan.whole, plan.slice_words, slice);
      const std::int64_t columns =
          std::int64_t{kWordCols} * (task.storage == MarkStorage::kWords ? task.kept : task.words);
      const std::int64_t sums = std::min(products, columns);
      REQUIRE(sum_bytes(task, sums, many.sum_size) <=
              launch_of(sum_class(task, sums, many.sum_size)).bytes);
    }
    sliced += plan.slices > 1;
  }
  CHECK(sliced > 1000);
}

TEST_CASE("sums begin at a multiple of their size") {
  using namespace row_spgemm;
  for (int bytes = 0; bytes < 40; bytes += 4) {
    CHECK(place_of_sums(bytes, 4) == bytes);
    CHECK(place_of_sums(bytes, 8) % 8 == 0);
    CHECK(place_of_sums(bytes, 8) - bytes <= 4);
  }
}

}  // namespace
}  // namespace tessera
