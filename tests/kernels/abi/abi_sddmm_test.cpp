// The SDDMM of the C interface on the CPU: values, types, errors, options.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/abi/tessera.h"
#include "kernels/storage.hpp"
#include "oracle/sddmm_oracle.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

tessera_csr csr_of(const CsrMatrix& a) {
  return {a.rows, a.cols, a.nnz(), a.row_offsets.data(), a.col_indices.data(), a.values.data()};
}

/// X and Y with rows two elements further apart than they are long.
struct Operands {
  static constexpr std::int64_t kGap = 2;
  DenseMatrix x, y, wide_x, wide_y;
  std::int64_t k, ld;

  Operands(const CsrMatrix& a, std::int64_t width)
      : x(a.rows, width),
        y(a.cols, width),
        wide_x(random_dense(a.rows, width + kGap, 3)),
        wide_y(random_dense(a.cols, width + kGap, 4)),
        k(width),
        ld(width + kGap) {
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t j = 0; j < k; ++j) x.at(i, j) = wide_x.at(i, j);
    for (std::int64_t i = 0; i < y.rows; ++i)
      for (std::int64_t j = 0; j < k; ++j) y.at(i, j) = wide_y.at(i, j);
  }
};

const CsrMatrix kMatrix = random_sparse(150, 90, 0.1, 1);

TEST_CASE("the SDDMM on the CPU is the truth rounded once and has the same bits at any threads") {
  const tessera_csr a = csr_of(kMatrix);
  for (const std::int64_t k : {1, 7, 8, 45}) {
    const Operands of(kMatrix, k);
    for (const bool scales : {false, true}) {
      const TrueSamples truth = sddmm_fp64(kMatrix, {of.x, of.y, scales}, 0, kMatrix.rows);
      std::vector<float> first;
      for (const int threads : {1, 2, 5}) {
        REQUIRE(tessera_set_threads(threads) == TESSERA_OK);
        std::vector<float> s(static_cast<std::size_t>(kMatrix.nnz()), -7777.0f);
        REQUIRE(tessera_sddmm_cpu(&a, k, TESSERA_FP32, nullptr, of.wide_x.values.data(), of.ld,
                                  of.wide_y.values.data(), of.ld, s.data(), TESSERA_FP32,
                                  scales) == TESSERA_OK);
        if (first.empty()) first = s;
        CHECK(std::memcmp(s.data(), first.data(), s.size() * sizeof(float)) == 0);
      }
      tessera_set_threads(0);
      for (std::size_t i = 0; i < first.size(); ++i) {
        const double error = std::abs(first[i] - truth.product[i]);
        CHECK(error <= 0x1p-24 * std::abs(truth.product[i]) + 0x1p-45 * truth.magnitude[i]);
      }
    }
  }
}

TEST_CASE("the SDDMM on the CPU takes FP64 operands and FP64 values of A") {
  const tessera_csr a = csr_of(kMatrix);
  const Operands of(kMatrix, 13);
  const std::vector<double> x(of.x.values.begin(), of.x.values.end()),
      y(of.y.values.begin(), of.y.values.end());
  std::vector<double> values(kMatrix.values.begin(), kMatrix.values.end());
  for (double& value : values) value *= 3;
  const TrueSamples truth = sddmm_fp64(kMatrix, {of.x, of.y, true}, 0, kMatrix.rows);
  const auto run = [&](const double* of_a, int scales) {
    std::vector<double> s(static_cast<std::size_t>(kMatrix.nnz()), -7777);
    REQUIRE(tessera_sddmm_cpu(&a, 13, TESSERA_FP64, of_a, x.data(), 13, y.data(), 13, s.data(),
                              TESSERA_FP64, scales) == TESSERA_OK);
    return s;
  };
  const auto tripled = run(values.data(), 1), stored = run(nullptr, 1), ones = run(nullptr, 0);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const double tolerance = 0x1p-49 * truth.magnitude[i];
    CHECK(std::abs(stored[i] - truth.product[i]) <= tolerance);
    CHECK(std::abs(tripled[i] - 3 * truth.product[i]) <= 4 * tolerance);
    CHECK(std::abs(ones[i] * double{kMatrix.values[i]} - truth.product[i]) <= tolerance);
  }
}

TEST_CASE("the SDDMM on the CPU takes operands of 16 bits, and rounds S to FP32 or to them") {
  const tessera_csr a = csr_of(kMatrix);
  for (const auto& [type, of_type] :
       {std::pair(TESSERA_FP16, ElementType::kFp16), {TESSERA_BF16, ElementType::kBf16}}) {
    Operands of(kMatrix, 21);
    const auto x = to_16_bits(of_type, of.wide_x.values), y = to_16_bits(of_type, of.wide_y.values);
    const DenseMatrix stored_x = stored_as(of_type, of.x), stored_y = stored_as(of_type, of.y);
    const TrueSamples truth = sddmm_fp64(kMatrix, {stored_x, stored_y}, 0, kMatrix.rows);
    std::vector<float> wide(truth.product.size(), -7777);
    std::vector<std::uint16_t> narrow(truth.product.size(), 0xffff);
    REQUIRE(tessera_sddmm_cpu(&a, 21, type, nullptr, x.data(), of.ld, y.data(), of.ld, wide.data(),
                              TESSERA_FP32, 0) == TESSERA_OK);
    REQUIRE(tessera_sddmm_cpu(&a, 21, type, nullptr, x.data(), of.ld, y.data(), of.ld,
                              narrow.data(), type, 0) == TESSERA_OK);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      CHECK(wide[i] == static_cast<float>(truth.product[i]));
      CHECK(from_16_bits(of_type, narrow[i]) == rounded_to(of_type, wide[i]));
    }
  }
}

TEST_CASE("an SDDMM that cannot be is refused with the reason") {
  const tessera_csr a = csr_of(kMatrix);
  const Operands of(kMatrix, 4);
  std::vector<float> s(static_cast<std::size_t>(kMatrix.nnz()));
  const double of_a = 1;
  const float *x = of.x.values.data(), *y = of.y.values.data();
  const auto says = [&](tessera_status status, const char* text) {
    CHECK(status == TESSERA_INVALID);
    CHECK_MESSAGE(std::string(tessera_last_error()).find(text) != std::string::npos,
                  tessera_last_error());
  };
  const auto run = [&](std::int64_t k, tessera_type type, const double* values, const float* of_x,
                       std::int64_t ldx, float* of_s, tessera_type result) {
    return tessera_sddmm_cpu(&a, k, type, values, of_x, ldx, y, 4, of_s, result, 1);
  };
  CHECK(run(4, TESSERA_FP32, nullptr, x, 4, s.data(), TESSERA_FP32) == TESSERA_OK);
  says(run(0, TESSERA_FP32, nullptr, x, 4, s.data(), TESSERA_FP32), "at least one");
  says(run(4, TESSERA_FP32, nullptr, nullptr, 4, s.data(), TESSERA_FP32), "X is a null pointer");
  says(run(4, TESSERA_FP32, nullptr, x, 3, s.data(), TESSERA_FP32), "3 elements apart");
  says(run(4, TESSERA_FP32, nullptr, x, 4, nullptr, TESSERA_FP32), "S is a null pointer");
  says(run(4, TESSERA_FP32, &of_a, x, 4, s.data(), TESSERA_FP32), "FP64");
  says(run(4, TESSERA_FP32, nullptr, x, 4, s.data(), TESSERA_FP16), "S cannot be");
  says(run(4, 9, nullptr, x, 4, s.data(), 9), "of type 9");
}

TEST_CASE("options of a plan of an SDDMM have defaults, and wrong ones are refused") {
  tessera_sddmm_options options;
  std::memset(&options, 0xff, sizeof options);
  tessera_sddmm_options_init(&options);
  CHECK(options.size == sizeof options);
  CHECK(options.num_kernels == 0);
  CHECK(options.type == TESSERA_FP32);
  CHECK(options.narrow_result == 0);

  const tessera_csr a = csr_of(kMatrix);
  tessera_sddmm_plan* plan = nullptr;
  options.type = TESSERA_FP64;
  CHECK(tessera_sddmm_plan_create(&a, 8, &options, &plan) == TESSERA_INVALID);
  CHECK(plan == nullptr);
  options.type = TESSERA_FP16, options.precision = 17;
  CHECK(tessera_sddmm_plan_create(&a, 8, &options, &plan) == TESSERA_INVALID);
  CHECK(tessera_sddmm_plan_create(&a, 8, nullptr, nullptr) == TESSERA_INVALID);
  CHECK(tessera_sddmm_plan_run(nullptr, nullptr, nullptr, nullptr, nullptr) == TESSERA_INVALID);
  tessera_sddmm_plan_destroy(nullptr);
}

}  // namespace
}  // namespace tessera
