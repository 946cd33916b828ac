// The launches of row_spgemm and merge_spgemm on the GPU: tasks of all classes in one launch per
// stage, classes with launches of their own beside it, products with fewer and with more rows than
// prefix sums over tiles take; and a thread block's segments of B, long and short. C has the bits
// of the emulation, from poisoned memory, twice from the same operands.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/spgemm_operands.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

void check_bits(const Operands& operands, const char* kernel, const Params::Given& given = {}) {
  CAPTURE(operands.a.rows);
  CAPTURE(kernel);
  const Params params = Registry<SpgemmKernel>::instance().resolve(kernel, given);
  const CsrMatrix expected =
      Registry<SpgemmKernel>::instance()
          .make(kernel, params)
          ->emulate(operands.a, operands.b, find_generation(gpu_generation()));
  const auto product =
      Registry<GpuSpgemm>::instance().make(kernel, params)->upload(operands.a, operands.b);
  for (const MemorySource source : {MemorySource::kPool, MemorySource::kMalloc}) {
    ProductRun run(source, nullptr);
    run.poison();
    product->multiply(1, run);
    const Json bits = compare_bits(product->download(), expected);
    product->release();
    INFO(bits.dump());
    CHECK(bits["different"] == 0);
  }
}

void check_precision(const Operands& operands, const char* precision) {
  check_bits(operands, "row_spgemm", {{"precision", std::string(precision)}});
}

/// Rows of C with up to 60,000 columns, most of them short.
Operands rows_of_all_classes(std::int32_t rows) {
  const CsrMatrix b = patterned(600, 60'000, 71, [](int row, int col) {
    const auto draw = mix_bits(static_cast<std::uint64_t>(row) * 60'000 + col);
    if (row % 100 == 7) return draw % 3 != 0 && col < 40'000;
    return draw % (row % 40 == 3 ? 20 : 2000) == 0;
  });
  const CsrMatrix a = patterned(rows, 600, 72, [](int row, int col) {
    const auto draw = mix_bits(static_cast<std::uint64_t>(row) * 600 + col + 1);
    if (row % 90 == 5) return col % 100 == 7 || draw % 4 == 0;
    return draw % (row % 13 == 0 ? 12 : 200) == 0;
  });
  return {a, b};
}

/// Rows of length(row) neighbouring columns.
template <class Length>
CsrMatrix runs(std::int32_t rows, std::int32_t cols, std::uint64_t seed, Length length) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> col_indices;
  for (std::int32_t row = 0; row < rows; ++row) {
    const std::int32_t of_row = length(row);
    const auto first = static_cast<std::int32_t>(mix_bits(seed + row) % (cols - of_row + 1));
    for (std::int32_t i = 0; i < of_row; ++i) col_indices.push_back(first + i);
    offsets.push_back(std::ssize(col_indices));
  }
  std::vector<float> values = random_dense(1, std::ssize(col_indices), seed).values;
  return {rows, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

TEST_CASE("row_spgemm is right for tasks of all classes in one launch per stage") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const Operands operands = rows_of_all_classes(1500);
  for (const char* precision : {"fp32", "fp64"}) check_precision(operands, precision);
}

TEST_CASE("row_spgemm is right for more rows of one class than a joint launch takes") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const CsrMatrix a = runs(100'000, 3000, 75, [](int row) { return row % 5 == 0 ? 3 : 9; });
  check_precision({a, runs(3000, 5000, 76, [](int row) { return 5 + row % 9; })}, "fp32");
}

TEST_CASE("row_spgemm is right for segments longer and shorter than a thread block") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  for (const std::int32_t cols : {3000, 12'000, 40'000}) {
    const CsrMatrix b = runs(900, cols, 77, [](int row) {
      return row < 400 ? 300 + row * 7 % 2000 : row % 50 == 0 ? 2500 : row % 90;
    });
    const CsrMatrix a = patterned(60, 900, 78, [](int row, int col) {
      const auto draw = mix_bits(static_cast<std::uint64_t>(row) * 900 + col);
      if (row % 5 == 0) return col < 400 && draw % 8 == 0;   // long ones
      if (row % 5 == 1) return col >= 400 && draw % 2 == 0;  // short ones
      if (row % 5 == 2) return draw % 200 == 0;              // few
      return draw % (row % 5 == 3 ? 2 : 20) == 0;            // several sets
    });
    for (const char* precision : {"fp32", "fp64"}) check_precision({a, b}, precision);
  }
}

TEST_CASE("row_spgemm and merge_spgemm are right for more rows than prefix sums over tiles take") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  constexpr std::int32_t kRows = 264'000, kInner = 3000;
  static_assert(kRows > 1 << 18);
  const CsrMatrix a =
      runs(kRows, kInner, 73, [](int row) { return row % 66'000 == 9 ? 1100 : row % 4; });
  const CsrMatrix b = runs(kInner, 5000, 74, [](int row) { return row % 7; });
  for (const char* kernel : {"row_spgemm", "merge_spgemm"}) check_bits({a, b}, kernel);
}

TEST_CASE("merge_spgemm finds the places of rows from their sums over tiles") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  for (const std::int32_t rows : {1, 255, 256, 3000, 70'000}) {
    const CsrMatrix a = runs(rows, 3000, 79, [](int row) { return row % 999 == 9 ? 70 : row % 4; });
    const CsrMatrix b = runs(3000, 5000, 80, [](int row) { return row % 7; });
    check_bits({a, b}, "merge_spgemm");
  }
}

}  // namespace
}  // namespace tessera
