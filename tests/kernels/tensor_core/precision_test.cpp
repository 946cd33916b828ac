// The precision ladder: each rung by its definition on single values, within its bound, and in the
// order of its name.

#include "kernels/tensor_core/precision.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <map>

#include "experiments/backends/check_result.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

DenseMatrix emulate(const CsrMatrix& a, const DenseMatrix& b, const Params::Given& params,
                    const char* generation = "hopper") {
  const auto kernel = Registry<SpmmKernel>::instance().make("mma_csr", params);
  const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
  return kernel->emulate(*packed, b, find_generation(generation));
}

/// Mean of |error| / (|A||B|).
double mean_error(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c) {
  const TrueRows truth = spmm_fp64(a, b, 0, a.rows);
  double sum = 0;
  for (std::size_t i = 0; i < c.values.size(); ++i)
    sum += std::abs(c.values[i] - truth.product[i]) / truth.magnitude[i];
  return sum / static_cast<double>(c.values.size());
}

/// A matrix whose rows all have that many nonzeros, values as `draw` says.
template <class Draw>
CsrMatrix rows_of_length(std::int32_t rows, std::int32_t length, Draw draw) {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t i = 0; i < rows; ++i) {
    offsets.push_back(static_cast<std::int64_t>(values.size()));
    for (std::int32_t k = 0; k < length; ++k) {
      cols.push_back(k);
      values.push_back(draw(i * length + k));
    }
  }
  offsets.push_back(static_cast<std::int64_t>(values.size()));
  return {rows, length, std::move(offsets), std::move(cols), std::move(values)};
}

TEST_CASE("TF32 chains of mma_csr are fused steps over the row's own nonzeros, any depth") {
  const CsrMatrix a = random_sparse(20, 70, 0.4, 1);
  const DenseMatrix b = random_dense(70, 19, 2);
  for (const auto& [instruction, depth] :
       std::map<std::string, std::size_t>{{"m16n8k4", 4}, {"m16n8k8", 8}}) {
    for (const char* generation : {"ampere", "hopper"}) {
      const FusedStep& step = find_generation(generation).step(MmaType::kTf32);

      const DenseMatrix c = emulate(a, b, {{"instruction", instruction}}, generation);

      for (std::int32_t i = 0; i < a.rows; ++i) {
        for (std::int64_t j = 0; j < b.cols; ++j) {
          float sum = 0;
          const auto cols = a.row_cols(i);
          const auto values = a.row_values(i);
          const std::size_t chunk = std::min(depth, static_cast<std::size_t>(step.products));
          for (std::size_t k0 = 0; k0 < cols.size(); k0 += chunk) {
            std::vector<float> left(chunk), right(chunk);
            for (std::size_t k = k0; k < std::min(k0 + chunk, cols.size()); ++k) {
              left[k - k0] = convert(values[k], Conversion::kTf32);
              right[k - k0] = convert(b.at(cols[k], j), Conversion::kTf32);
            }
            sum = fused_dot_add(step, left, right, sum);
          }
          CAPTURE(instruction);
          CAPTURE(generation);
          REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) == std::bit_cast<std::uint32_t>(sum));
        }
      }
    }
  }
}

TEST_CASE("the ladder has the order of its names, on rows of every length") {
  for (const std::int32_t length : {8, 64, 1024}) {
    CAPTURE(length);
    const CsrMatrix a = rows_of_length(
        24, length, [](std::int32_t i) { return random_signed(5, static_cast<std::uint64_t>(i)); });
    const DenseMatrix b = random_dense(length, 16, 6);
    const auto error = [&](const std::string& precision) {
      return mean_error(a, b, emulate(a, b, {{"precision", precision}}));
    };

    CHECK(error("bf16") > 4 * error("tf32"));
    CHECK(error("tf32_raw") > 1.3 * error("tf32"));
    CHECK(error("fp16") == doctest::Approx(error("tf32")).epsilon(0.2));
    if (length < 100) CHECK(error("tf32") > 50 * error("tf32x3"));  // later truncation decides
    CHECK(error("tf32x3") >= error("tf32x3_promoted"));
    CHECK(error("fp16x2") < 3 * error("fp32"));
  }
}

TEST_CASE("tf32x7 is at or below plain FP32 on rows of every length and family of values") {
  using Draw = float (*)(std::uint64_t, std::uint64_t);
  const std::map<std::string, Draw> families{
      {"uniform01",
       [](std::uint64_t s, std::uint64_t i) { return static_cast<float>(random_unit(s, i)); }},
      {"signed", [](std::uint64_t s, std::uint64_t i) { return random_signed(s, i); }},
      {"normal",
       [](std::uint64_t s, std::uint64_t i) { return static_cast<float>(random_normal(s, i)); }},
      {"lognormal", [](std::uint64_t s, std::uint64_t i) {
         return static_cast<float>(std::exp(3 * random_normal(s, i)));
       }}};
  for (const auto& [family, draw] : families) {
    for (const std::int32_t length : {1, 2, 4, 8, 16, 64, 512}) {
      const CsrMatrix a = rows_of_length(64, length, [&, draw = draw](std::int32_t i) {
        return draw(11, static_cast<std::uint64_t>(i));
      });
      DenseMatrix b(length, 32);
      for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] = draw(12, i);

      const double fp32 = mean_error(a, b, emulate(a, b, {{"precision", std::string("fp32")}}));
      const double split = mean_error(a, b, emulate(a, b, {{"precision", std::string("tf32x7")}}));
      const double three =
          mean_error(a, b, emulate(a, b, {{"precision", std::string("tf32x3_promoted")}}));

      CAPTURE(family);
      CAPTURE(length);
      CHECK(split <= 1.02 * fp32);            // a mean of 2048 errors is known to about 2 %
      if (length >= 64) CHECK(three < fp32);  // two parts keep 22 bits: enough for longer sums
    }
  }
}

TEST_CASE("every precision keeps within the bound of its arithmetic, on every generation") {
  int checked = 0;
  for (const Precision& precision : precisions()) {
    for (const Generation& generation : generations()) {
      if (!generation.steps.contains(type_of(precision.conversion))) continue;
      for (const int promote : {-1, 0, 1, 3}) {
        if (precision.name == "tf32x7" && promote != 1) continue;  // refused, see below
        for (int shape = 0; shape < 3; ++shape) {
          const CsrMatrix a = random_sparse(40, 60 + 300 * shape, 0.5, 21);
          DenseMatrix b = random_dense(a.cols, 11, 22);
          // Columns of other magnitudes, down to where FP16 has only subnormals.
          for (std::int64_t i = 0; i < b.rows; ++i) {
            b.at(i, 3) = std::ldexp(b.at(i, 3), -20);
            b.at(i, 4) = std::ldexp(b.at(i, 4), 12);
          }
          const auto kernel = Registry<SpmmKernel>::instance().make(
              "mma_csr", {{"precision", precision.name}, {"promote", std::int64_t{promote}}});
          const auto packed = Registry<Format>::instance().make("csr")->pack(a);
          const Permutation order = Permutation::identity(a.rows);

          const DenseMatrix c = kernel->emulate(*packed, b, generation);

          CAPTURE(precision.name);
          CAPTURE(generation.name);
          CAPTURE(promote);
          CHECK(check_result(a, b, c, {*kernel, *packed, order, generation.name}).reason == "");
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 100);
}

TEST_CASE("scaling brings values into FP16's range and changes nothing else") {
  const CsrMatrix a = rows_of_length(
      8, 40, [](std::int32_t i) { return random_signed(31, static_cast<std::uint64_t>(i)); });
  const DenseMatrix b = random_dense(40, 8, 32);
  std::vector<float> large(a.values.begin(), a.values.end());
  for (float& value : large) value = std::ldexp(value, 40);
  const CsrMatrix far{a.rows, a.cols, a.row_offsets, a.col_indices, std::move(large)};

  const DenseMatrix near_c = emulate(a, b, {{"precision", std::string("fp16_scaled")}});
  const DenseMatrix far_c = emulate(far, b, {{"precision", std::string("fp16_scaled")}});
  const DenseMatrix plain = emulate(far, b, {{"precision", std::string("fp16")}});

  for (std::size_t i = 0; i < near_c.values.size(); ++i) {
    CHECK(far_c.values[i] == std::ldexp(near_c.values[i], 40));
    CHECK_FALSE(std::isfinite(plain.values[i]));
  }
}

TEST_CASE("an unknown precision is an error with a suggestion") {
  CHECK_THROWS_WITH_AS(
      Registry<SpmmKernel>::instance().make(
          "mma_csr", {{"precision", std::string("tf32x7")}, {"promote", std::int64_t{3}}}),
      doctest::Contains("promote has to be 1, not 3"), Error);
  CHECK_THROWS_WITH_AS(find_precision("tf32x5"), doctest::Contains("did you mean 'tf32x"), Error);
}

}  // namespace
}  // namespace tessera
