#include "oracle/element_measures.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/base/vector_clones.hpp"
#include "oracle/log_histogram.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The reciprocal of one unit in the last place of the truth rounded to FP32.
inline double per_fp32_ulp(double truth) {
  const auto bits = std::bit_cast<std::int64_t>(static_cast<double>(static_cast<float>(truth)));
  // Subnormals have the spacing of the smallest normals; a truth that rounds to infinity gets that
  // of the largest finite numbers.
  const auto exponent = std::clamp<std::int64_t>((bits >> 52) & 0x7ff, 1023 - 126, 1023 + 127);
  return std::bit_cast<double>((2 * 1023 + 23 - exponent) << 52);  // 2^(23 - exponent)
}

inline std::int32_t ulp_place(double ulps) {
  const auto bits = std::bit_cast<std::int64_t>(ulps);
  const std::int64_t rounded_up = (bits + ((std::int64_t{1} << 52) - 1)) >> 52;
  const std::int64_t last = std::tuple_size_v<UlpHistogram> - 1;
  return static_cast<std::int32_t>(
      ulps == 0 ? 0 : std::clamp<std::int64_t>(rounded_up - 1023 + 2, 1, last));
}

inline std::int32_t decade_of(double condition) {
  constexpr double kPowers[] = {1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,
                                1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
  static_assert(std::size(kPowers) + 1 == std::tuple_size_v<ConditionTable>);
  std::int32_t decade = 0;
  for (const double power : kPowers) decade += condition >= power;
  return decade;
}

/// The binary exponent of a positive normal number.
inline double exponent_of(double number) {
  return static_cast<double>((std::bit_cast<std::int64_t>(number) >> 52) - 1023);
}

inline double mantissa_of(double number) {
  const std::int64_t bits = std::bit_cast<std::int64_t>(number);
  return std::bit_cast<double>((bits & ((std::int64_t{1} << 52) - 1)) | (std::int64_t{1023} << 52));
}

}  // namespace

/// Quotients are selected by their divisors: 0/0 must be 0, and a branch would stop vectorisation.
TESSERA_VECTOR_CLONES
void derive(const ElementBatch& __restrict batch, int size, Derived& __restrict x) {
  for (int j = 0; j < size; ++j) {
    const double truth = batch.truth[j], magnitude = batch.magnitude[j];
    const double computed = static_cast<double>(batch.computed[j]);
    const double error = std::fabs(computed - truth), size_of = std::fabs(truth);
    const bool exact = error == 0;
    // An infinite relative bound on a magnitude of 0 allows 0, not the NaN of inf * 0.
    const double relative_bound = magnitude > 0 ? batch.relative[j] : 0.0;
    const double allowed = relative_bound * magnitude + batch.absolute[j];
    const double backward = error / (exact ? 1.0 : magnitude);
    x.error[j] = error;
    x.allowed[j] = allowed;
    x.bound_ratio[j] = error / (exact ? 1.0 : allowed);
    x.smape[j] = error / (exact ? 1.0 : size_of + std::fabs(computed));
    x.relative[j] = error / (exact ? 1.0 : size_of);
    x.backward[j] = backward;
    x.bias[j] = std::copysign(truth == 0 ? 0.0 : backward, (computed - truth) * truth);
    // Rounding may put the magnitude of terms of one sign just below their sum.
    const double condition = std::max(1.0, magnitude / (magnitude == 0 ? 1.0 : size_of));
    x.condition[j] = condition;
    x.factor[j] = truth == 0 ? 1.0 : condition;
    x.ulps[j] = error * per_fp32_ulp(truth);
    x.underflow[j] =
        (std::fabs(computed) < 0x1p-126) & (std::fabs(static_cast<float>(truth)) >= 0x1p-126f);
  }
}

TESSERA_VECTOR_CLONES
void place(int size, Derived& x) {
  for (int j = 0; j < size; ++j) {
    x.relative_place[j] = LogHistogram::place(x.relative[j]);
    x.backward_place[j] = LogHistogram::place(x.backward[j]);
    x.condition_place[j] = LogHistogram::place(x.condition[j]);
    x.ulp_place[j] = ulp_place(x.ulps[j]);
    x.decade[j] = decade_of(x.condition[j]);
  }
}

TESSERA_VECTOR_CLONES
void add_up(const ElementBatch& __restrict batch, const Derived& __restrict x, int size,
            Lanes& __restrict lanes) {
  for (int j0 = 0; j0 < size; j0 += kErrorLanes) {
    for (int lane = 0; lane < kErrorLanes; ++lane) {
      const int j = j0 + lane;
      lanes.smape[lane] += x.smape[j];
      lanes.with_truth[lane] += batch.truth[j] != 0 ? 1.0 : 0.0;
      lanes.squares[lane] += x.error[j] * x.error[j];
      lanes.truth_squares[lane] += batch.truth[j] * batch.truth[j];
      lanes.backward[lane] += x.backward[j];
      lanes.bias[lane] += x.bias[j];
    }
    for (int lane = 0; lane < kErrorLanes; ++lane) {
      const int j = j0 + lane;
      const double relative = batch.truth[j] != 0 ? x.relative[j] : 0.0;
      const double condition = batch.magnitude[j] > 0 ? x.condition[j] : 0.0;
      lanes.max_relative[lane] = std::max(lanes.max_relative[lane], relative);
      lanes.max_backward[lane] = std::max(lanes.max_backward[lane], x.backward[j]);
      lanes.max_ulp[lane] = std::max(lanes.max_ulp[lane], x.ulps[j]);
      lanes.max_condition[lane] = std::max(lanes.max_condition[lane], condition);
      lanes.beyond_bound[lane] += x.error[j] > x.allowed[j] ? 1.0 : 0.0;
      lanes.underflows[lane] += static_cast<double>(x.underflow[j]);
    }
    for (int lane = 0; lane < kErrorLanes; ++lane) {
      const int j = j0 + lane;
      const double product = lanes.mantissa[lane] * mantissa_of(x.factor[j]);
      lanes.exponent[lane] += exponent_of(x.factor[j]) + exponent_of(product);
      lanes.mantissa[lane] = mantissa_of(product);
    }
  }
}

TESSERA_VECTOR_CLONES
void add_up_fp32(const ElementBatch& __restrict batch, int size, Lanes& __restrict lanes) {
  for (int j0 = 0; j0 < size; j0 += kErrorLanes) {
    for (int lane = 0; lane < kErrorLanes; ++lane) {
      const double computed = static_cast<double>(batch.computed[j0 + lane]);
      const double expected = static_cast<double>(batch.fp32[j0 + lane]);
      const double error = std::fabs(computed - expected);
      const bool exact = error == 0;
      const double quotient = error / (exact ? 1.0 : std::fabs(computed) + std::fabs(expected));
      const bool counts = std::fabs(computed) < kInf && std::fabs(expected) < kInf;
      lanes.smape_fp32[lane] += counts ? quotient : 0.0;
      lanes.with_fp32[lane] += counts ? 1.0 : 0.0;
    }
  }
}

TESSERA_VECTOR_CLONES
bool all_finite(const ElementBatch& batch) {
  int special = 0;
  for (int j = 0; j < batch.size; ++j) {
    special += !(std::fabs(batch.truth[j]) < kInf);
    special += !(std::fabs(static_cast<double>(batch.computed[j])) < kInf);
  }
  return special == 0;
}

}  // namespace tessera
