#include "oracle/error_meter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "oracle/log_histogram.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kChunk = 256;  // elements measured at once: their arrays fit the nearest cache

/// Finite elements, and what follows from each alone.
struct Chunk {
  int size = 0;
  std::int64_t col[kChunk];
  double truth[kChunk], magnitude[kChunk], computed[kChunk];
  double error[kChunk], allowed[kChunk], bound_ratio[kChunk], smape[kChunk];
  double relative[kChunk], backward[kChunk], bias[kChunk], ulps[kChunk], condition[kChunk];
  std::int32_t relative_place[kChunk], backward_place[kChunk], condition_place[kChunk];
  std::int32_t ulp_place[kChunk], decade[kChunk], underflow[kChunk];
};

/// One unit in the last place of the truth rounded to FP32, as its reciprocal.
inline double per_fp32_ulp(double truth) {
  const auto bits = std::bit_cast<std::int64_t>(static_cast<double>(static_cast<float>(truth)));
  // Subnormals have the spacing of the smallest normals; a truth that rounds to infinity is given
  // that of the largest finite numbers.
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

/// Quotients are selected by their divisors: 0/0 must be 0, and a branch would stop vectorisation.
TESSERA_VECTOR_CLONES
void derive(Chunk& x, double relative_bound, double absolute_bound) {
  for (int j = 0; j < x.size; ++j) {
    const double truth = x.truth[j], computed = x.computed[j], magnitude = x.magnitude[j];
    const double error = std::fabs(computed - truth), size = std::fabs(truth);
    const bool exact = error == 0;
    // An unbounded relative error of nothing is nothing, not the NaN of inf * 0.
    const double scaled_bound = relative_bound * magnitude;
    const double allowed = (magnitude > 0 ? scaled_bound : 0.0) + absolute_bound;
    const double backward = error / (exact ? 1.0 : magnitude);
    x.error[j] = error;
    x.allowed[j] = allowed;
    x.bound_ratio[j] = error / (exact ? 1.0 : allowed);
    x.smape[j] = error / (exact ? 1.0 : size + std::fabs(computed));
    x.relative[j] = error / (exact ? 1.0 : size);
    x.backward[j] = backward;
    x.bias[j] = std::copysign(backward, (computed - truth) * truth);
    // Rounding may leave the magnitude of terms of one sign just below their sum.
    x.condition[j] = std::max(1.0, magnitude / (magnitude == 0 ? 1.0 : size));
    x.ulps[j] = error * per_fp32_ulp(truth);
    x.underflow[j] =
        std::fabs(computed) < 0x1p-126 && std::fabs(static_cast<float>(truth)) >= 0x1p-126f;
  }
}

TESSERA_VECTOR_CLONES
void place(Chunk& x) {
  for (int j = 0; j < x.size; ++j) {
    x.relative_place[j] = LogHistogram::place(x.relative[j]);
    x.backward_place[j] = LogHistogram::place(x.backward[j]);
    x.condition_place[j] = LogHistogram::place(x.condition[j]);
    x.ulp_place[j] = ulp_place(x.ulps[j]);
    x.decade[j] = decade_of(x.condition[j]);
  }
}

/// Everything that depends on no order, per thread.
struct Counts {
  LogHistogram backward, condition;
  UlpHistogram ulps{};
  struct Decade {
    LogHistogram relative, backward;
    double max_relative = 0;
  };
  std::array<Decade, std::tuple_size_v<ConditionTable>> decades;
  Chunk chunk;

  void add(const Chunk& x) {
    for (int j = 0; j < x.size; ++j) {
      ++ulps[x.ulp_place[j]];
      if (x.magnitude[j] > 0) {
        condition.add_at(x.condition_place[j]);
        Decade& decade = decades[x.decade[j]];
        decade.relative.add_at(x.relative_place[j]);
        decade.backward.add_at(x.backward_place[j]);
        decade.max_relative = std::max(decade.max_relative, x.relative[j]);
      }
      if (x.magnitude[j] > 0 || x.error[j] > 0) backward.add_at(x.backward_place[j]);
    }
  }

  void add(const Counts& other) {
    backward.add(other.backward);
    condition.add(other.condition);
    for (std::size_t i = 0; i < ulps.size(); ++i) ulps[i] += other.ulps[i];
    for (std::size_t d = 0; d < decades.size(); ++d) {
      decades[d].relative.add(other.decades[d].relative);
      decades[d].backward.add(other.decades[d].backward);
      decades[d].max_relative = std::max(decades[d].max_relative, other.decades[d].max_relative);
    }
  }
};

/// What is summed up over a panel, and the panels in their order.
struct Sums {
  double smape = 0, smape_fp32 = 0;
  double squares = 0, truth_squares = 0;
  double backward = 0, bias = 0;
  double log2_condition = 0;
  double max_relative = 0, max_backward = 0, max_ulp = 0, max_condition = 0;
  std::int64_t compared = 0, beyond_bound = 0, non_finite = 0, overflows = 0, underflows = 0;
  std::int64_t with_fp32 = 0;   // elements compared with FP32
  std::int64_t with_truth = 0;  // elements whose truth is not 0
  ProductErrors::Worst worst;
  double worst_ratio = -1;
  bool worst_non_finite = false;

  /// The first of the worst elements stays.
  void offer_worst(const ProductErrors::Worst& element, double ratio, bool non_finite) {
    if (non_finite < worst_non_finite) return;
    if (non_finite == worst_non_finite && !(ratio > worst_ratio)) return;
    worst = element;
    worst_ratio = ratio;
    worst_non_finite = non_finite;
  }

  void add(const Chunk& x, std::int64_t row);
  void add(const Sums& other);
};

void Sums::add(const Chunk& x, std::int64_t row) {
  double mantissas = 1;  // of the condition numbers: at most 2^kChunk
  std::int64_t exponents = 0;
  for (int j = 0; j < x.size; ++j) {
    smape += x.smape[j];
    squares += x.error[j] * x.error[j];
    truth_squares += x.truth[j] * x.truth[j];
    backward += x.backward[j];
    max_backward = std::max(max_backward, x.backward[j]);
    max_ulp = std::max(max_ulp, x.ulps[j]);
    beyond_bound += x.error[j] > x.allowed[j];
    underflows += x.underflow[j];
    if (x.magnitude[j] > 0) max_condition = std::max(max_condition, x.condition[j]);
    if (x.truth[j] != 0) {
      ++with_truth;
      bias += x.bias[j];
      max_relative = std::max(max_relative, x.relative[j]);
      const auto bits = std::bit_cast<std::int64_t>(x.condition[j]);
      exponents += (bits >> 52) - 1023;
      mantissas *= std::bit_cast<double>((bits & ((std::int64_t{1} << 52) - 1)) |
                                         (std::int64_t{1023} << 52));
    }
    if (!(x.bound_ratio[j] > worst_ratio)) continue;
    offer_worst({row, x.col[j], x.truth[j], x.computed[j], x.allowed[j]}, x.bound_ratio[j], false);
  }
  log2_condition += static_cast<double>(exponents) + std::log2(mantissas);
}

void Sums::add(const Sums& other) {
  smape += other.smape;
  smape_fp32 += other.smape_fp32;
  squares += other.squares;
  truth_squares += other.truth_squares;
  backward += other.backward;
  bias += other.bias;
  log2_condition += other.log2_condition;
  max_relative = std::max(max_relative, other.max_relative);
  max_backward = std::max(max_backward, other.max_backward);
  max_ulp = std::max(max_ulp, other.max_ulp);
  max_condition = std::max(max_condition, other.max_condition);
  compared += other.compared;
  beyond_bound += other.beyond_bound;
  non_finite += other.non_finite;
  overflows += other.overflows;
  underflows += other.underflows;
  with_fp32 += other.with_fp32;
  with_truth += other.with_truth;
  if (other.compared > 0) offer_worst(other.worst, other.worst_ratio, other.worst_non_finite);
}

/// Whether an element that is NaN or infinite in C or in truth is what FP32 makes of the truth.
bool is_rightly_special(double truth, double computed, double bound) {
  if (std::isnan(truth)) return std::isnan(computed);
  if (!std::isinf(computed) || std::signbit(computed) != std::signbit(truth)) return false;
  return std::isinf(truth) || std::fabs(truth) + bound > std::numeric_limits<float>::max();
}

class Panel final : public PanelMeter {
 public:
  explicit Panel(Counts& counts, Sums& sums) : counts_(counts), sums_(sums) {}

  void add(const RowElements& row) override {
    sums_.compared += std::ssize(row.truth);
    for (std::size_t begin = 0; begin < row.truth.size(); begin += kChunk) {
      const std::size_t end = std::min(begin + kChunk, row.truth.size());
      gather(row, begin, end);
      Chunk& chunk = counts_.chunk;
      derive(chunk, row.relative, row.absolute);
      place(chunk);
      counts_.add(chunk);
      sums_.add(chunk, row.row);
    }
    for (std::size_t j = 0; j < row.fp32.size(); ++j) add_fp32(row.fp32[j], row.computed[j]);
  }

 private:
  /// Finite elements into the chunk; the others are judged here.
  void gather(const RowElements& row, std::size_t begin, std::size_t end) {
    Chunk& x = counts_.chunk;
    x.size = 0;
    for (std::size_t j = begin; j < end; ++j) {
      const double truth = row.truth[j], computed = row.computed[j];
      const std::int64_t col = row.cols != nullptr ? row.cols[j] : static_cast<std::int64_t>(j);
      if (!std::isfinite(truth) || !std::isfinite(computed)) {
        judge_special(row, col, truth, row.magnitude[j], computed);
        continue;
      }
      x.col[x.size] = col;
      x.truth[x.size] = truth;
      x.magnitude[x.size] = row.magnitude[j];
      x.computed[x.size++] = computed;
    }
  }

  void judge_special(const RowElements& row, std::int64_t col, double truth, double magnitude,
                     double computed) {
    const double allowed = (magnitude > 0 ? row.relative * magnitude : 0) + row.absolute;
    sums_.overflows += std::isinf(computed) && std::isfinite(static_cast<float>(truth));
    if (is_rightly_special(truth, computed, allowed)) return;
    ++sums_.non_finite;
    sums_.offer_worst({row.row, col, truth, computed, allowed}, kInf, true);
  }

  void add_fp32(double expected, double computed) {
    if (!std::isfinite(expected) || !std::isfinite(computed)) return;
    ++sums_.with_fp32;
    const double error = std::fabs(computed - expected);
    if (error > 0) sums_.smape_fp32 += error / (std::fabs(computed) + std::fabs(expected));
  }

  Counts& counts_;
  Sums& sums_;
};

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

/// With the maximum exact, and no quantile beyond it.
Quantiles quantiles(const LogHistogram& numbers, double max) {
  const auto at = [&](int percent) { return std::min(numbers.quantile(percent), max); };
  return {at(50), at(95), at(99), max};
}

void describe(const Counts& counts, const Sums& all, ProductErrors& errors) {
  errors.ulp_histogram = counts.ulps;
  errors.backward_error = quantiles(counts.backward, all.max_backward);
  errors.mean_backward_error = mean(all.backward, counts.backward.count());
  errors.condition = quantiles(counts.condition, all.max_condition);
  for (std::size_t d = 0; d < counts.decades.size(); ++d) {
    const auto& decade = counts.decades[d];
    errors.by_condition[d] = {decade.relative.count(),
                              std::min(decade.relative.quantile(50), decade.max_relative),
                              decade.max_relative, decade.backward.quantile(50)};
  }
}

void summarise(const Sums& all, const ProductNorms& norms, ProductErrors& errors) {
  errors.smape_pct = 100 * mean(all.smape, all.compared);
  errors.smape_common_pct = 2 * errors.smape_pct;
  if (all.with_fp32 > 0) errors.smape_fp32_pct = 100 * mean(all.smape_fp32, all.with_fp32);
  if (all.squares > 0) {
    errors.relative_frobenius = std::sqrt(all.squares / all.truth_squares);
    errors.normwise_backward_error = std::sqrt(all.squares) / (norms.a * norms.b);
  }
  errors.max_relative = all.max_relative;
  errors.max_ulp = all.max_ulp;
  errors.signed_bias = mean(all.bias, all.with_truth);
  if (all.with_truth > 0)
    errors.condition_geomean = std::exp2(mean(all.log2_condition, all.with_truth));
  errors.compared = all.compared;
  errors.beyond_bound = all.beyond_bound;
  errors.non_finite = all.non_finite;
  errors.overflows = all.overflows;
  errors.underflows = all.underflows;
  errors.worst = all.worst;
  errors.bound_ratio = all.non_finite > 0 ? kInf : std::max(0.0, all.worst_ratio);
}

}  // namespace

double ulp_upper_end(std::size_t place) {
  if (place == 0) return 0;
  return place + 1 < std::tuple_size_v<UlpHistogram> ? std::ldexp(1.0, static_cast<int>(place) - 2)
                                                     : kInf;
}

double frobenius_norm(std::span<const float> values) {
  constexpr std::int64_t kGrain = 1 << 16;
  std::vector<double> squares((values.size() + kGrain - 1) / kGrain, 0);
  parallel_for(std::ssize(values), kGrain, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (const double value : values.subspan(begin, end - begin))
      if (std::isfinite(value)) sum += value * value;
    squares[begin / kGrain] = sum;
  });
  double sum = 0;
  for (const double part : squares) sum += part;
  return std::sqrt(sum);
}

void require_bound(const ErrorBound& bound, std::int64_t rows) {
  const auto size = static_cast<std::size_t>(rows);
  require(bound.relative.size() == size && bound.absolute.size() == size,
          "C has {} rows, the error bound {} relative and {} absolute parts", rows,
          bound.relative.size(), bound.absolute.size());
  for (std::size_t i = 0; i < size; ++i)
    require(bound.relative[i] >= 0 && bound.absolute[i] >= 0,
            "row {}: an error bound cannot be {} |A||B| + {}", i, bound.relative[i],
            bound.absolute[i]);
}

ProductErrors measure_errors(
    std::int64_t rows, std::int64_t grain, const ProductNorms& norms,
    const std::function<void(std::int64_t, std::int64_t, PanelMeter&)>& visit) {
  std::vector<Sums> panels((rows + grain - 1) / grain);
  ScratchPool<Counts> pool;
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](Counts& counts) {
      Panel panel(counts, panels[begin / grain]);
      visit(begin, end, panel);
    });
  });

  Counts counts;
  for (const Counts& one : pool.all()) counts.add(one);
  Sums all;
  for (const Sums& panel : panels) all.add(panel);
  ProductErrors errors;
  describe(counts, all, errors);
  summarise(all, norms, errors);
  return errors;
}

}  // namespace tessera
