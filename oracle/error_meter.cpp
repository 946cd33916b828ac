#include "oracle/error_meter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "oracle/log_histogram.hpp"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
/// The results that do not depend on the order of elements.
struct Counts {
  LogHistogram condition;
  LogHistogram baseless;  // backward errors of elements with |A||B| = 0
  UlpHistogram ulps{};
  struct Decade {
    LogHistogram relative, backward;
    double max_relative = 0;
  };
  std::array<Decade, std::tuple_size_v<ConditionTable>> decades;

  void add(const ElementBatch& elements, const Derived& x, int j) {
    ++ulps[x.ulp_place[j]];
    if (elements.magnitude[j] > 0) {
      condition.add_at(x.condition_place[j]);
      Decade& decade = decades[x.decade[j]];
      decade.relative.add_at(x.relative_place[j]);
      decade.backward.add_at(x.backward_place[j]);
      decade.max_relative = std::max(decade.max_relative, x.relative[j]);
    } else if (x.error[j] > 0) {
      baseless.add_at(x.backward_place[j]);
    }
  }

  void add(const Counts& other) {
    condition.add(other.condition);
    baseless.add(other.baseless);
    for (std::size_t i = 0; i < ulps.size(); ++i) ulps[i] += other.ulps[i];
    for (std::size_t d = 0; d < decades.size(); ++d) {
      decades[d].relative.add(other.decades[d].relative);
      decades[d].backward.add(other.decades[d].backward);
      decades[d].max_relative = std::max(decades[d].max_relative, other.decades[d].max_relative);
    }
  }
};

/// The counters of one thread. Neighbouring elements often have the same place in a histogram:
/// alternating between two counters avoids waiting for the last increment.
struct Scratch {
  ElementBatch batch;
  Derived derived;
  std::array<Counts, 2> counts;

  void count() {
    for (int j = 0; j < batch.size; ++j) counts[j % counts.size()].add(batch, derived, j);
  }
};

/// The sums of a panel, which are added in the order of the panels.
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

  /// Keeps the worst element, the first by rows and columns among equals.
  void offer_worst(const ProductErrors::Worst& element, double ratio, bool non_finite) {
    const auto place = [](const ProductErrors::Worst& x) { return std::pair(x.row, x.col); };
    if (std::pair(non_finite, ratio) < std::pair(worst_non_finite, worst_ratio)) return;
    if (non_finite == worst_non_finite && ratio == worst_ratio && place(element) > place(worst))
      return;
    worst = element;
    worst_ratio = ratio;
    worst_non_finite = non_finite;
  }

  void add(const Lanes& lanes);
  void add(const Sums& other);
};

void Sums::add(const Lanes& lanes) {
  double mantissas = 1;
  for (int lane = 0; lane < kErrorLanes; ++lane) {
    smape += lanes.smape[lane];
    smape_fp32 += lanes.smape_fp32[lane];
    squares += lanes.squares[lane];
    truth_squares += lanes.truth_squares[lane];
    backward += lanes.backward[lane];
    bias += lanes.bias[lane];
    log2_condition += lanes.exponent[lane];
    mantissas *= lanes.mantissa[lane];
    max_relative = std::max(max_relative, lanes.max_relative[lane]);
    max_backward = std::max(max_backward, lanes.max_backward[lane]);
    max_ulp = std::max(max_ulp, lanes.max_ulp[lane]);
    max_condition = std::max(max_condition, lanes.max_condition[lane]);
    beyond_bound += static_cast<std::int64_t>(lanes.beyond_bound[lane]);
    underflows += static_cast<std::int64_t>(lanes.underflows[lane]);
    with_fp32 += static_cast<std::int64_t>(lanes.with_fp32[lane]);
    with_truth += static_cast<std::int64_t>(lanes.with_truth[lane]);
  }
  log2_condition += std::log2(mantissas);
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

/// True when an element that is NaN or infinite in C or in truth is the truth's value in C's type,
/// whose largest finite number is `largest`.
bool is_rightly_special(double truth, double computed, double bound, double largest) {
  if (std::isnan(truth)) return std::isnan(computed);
  if (!std::isinf(computed)) return false;
  if (std::isinf(truth)) return std::signbit(computed) == std::signbit(truth);
  return std::copysign(1.0, computed) * truth + bound > largest;
}

/// The meter of one panel, used by one thread.
class Panel final : public PanelMeter {
 public:
  Panel(Scratch& scratch, Sums& sums, const MeasureOptions& options)
      : PanelMeter(scratch.batch), scratch_(scratch), sums_(sums), options_(options) {}

  void finish() {
    measure();
    sums_.add(lanes_);
  }

 private:
  void measure() override {
    sums_.compared += batch_.size;
    pad();
    if (options_.against_fp32) add_up_fp32(batch_, padded_size(), lanes_);
    if (!all_finite(batch_)) {
      set_special_aside();
      pad();
    }
    Derived& derived = scratch_.derived;
    derive(batch_, padded_size(), derived);
    place(padded_size(), derived);
    add_up(batch_, derived, padded_size(), lanes_);
    scratch_.count();
    offer_worst(derived);
    batch_.size = 0;
  }

  int padded_size() const { return (batch_.size + kErrorLanes - 1) / kErrorLanes * kErrorLanes; }

  /// Pads the batch with correct zeros, which change no sum.
  void pad() {
    for (int j = batch_.size; j < padded_size(); ++j) {
      batch_.set(j, {});
      batch_.fp32[j] = std::numeric_limits<float>::quiet_NaN();  // is not compared
    }
  }

  void offer_worst(const Derived& x) {
    for (int j0 = 0; j0 < batch_.size; j0 += kErrorLanes) {
      int candidates = 0;
      for (int lane = 0; lane < kErrorLanes; ++lane)
        candidates += x.bound_ratio[j0 + lane] >= sums_.worst_ratio;
      for (int j = j0; candidates > 0 && j < std::min(j0 + kErrorLanes, batch_.size); ++j)
        sums_.offer_worst({batch_.row[j], batch_.col[j], batch_.truth[j],
                           static_cast<double>(batch_.computed[j]), x.allowed[j]},
                          x.bound_ratio[j], false);
    }
  }

  /// Checks the elements that are not finite and removes them from the batch.
  void set_special_aside() {
    int kept = 0;
    for (int j = 0; j < batch_.size; ++j) {
      const Element element = batch_.get(j);
      if (std::isfinite(element.truth) && std::isfinite(element.computed))
        batch_.set(kept++, element);
      else
        judge_special(element);
    }
    batch_.size = kept;
  }

  void judge_special(const Element& x) {
    const double allowed = (x.magnitude > 0 ? x.relative * x.magnitude : 0) + x.absolute;
    const auto computed = static_cast<double>(x.computed);
    sums_.overflows += std::isinf(computed) && std::abs(x.truth) <= options_.largest;
    if (is_rightly_special(x.truth, computed, allowed, options_.largest)) return;
    ++sums_.non_finite;
    sums_.offer_worst({x.row, x.col, x.truth, computed, allowed}, kInf, true);
  }

  Scratch& scratch_;
  Sums& sums_;
  MeasureOptions options_;
  Lanes lanes_;
};

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

/// The quantiles of a histogram, with the exact maximum, which no quantile exceeds.
Quantiles quantiles(const LogHistogram& numbers, double max) {
  const auto at = [&](int percent) { return std::min(numbers.quantile(percent), max); };
  return {at(50), at(95), at(99), max};
}

void describe(const Counts& counts, const Sums& all, ProductErrors& errors) {
  LogHistogram backward = counts.baseless;
  for (const auto& decade : counts.decades) backward.add(decade.backward);
  errors.ulp_histogram = counts.ulps;
  errors.backward_error = quantiles(backward, all.max_backward);
  errors.mean_backward_error = mean(all.backward, backward.count());
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

void PanelMeter::add(const RowPiece& piece) {
  for (std::size_t i = 0; i < piece.truth.size();) {
    const auto at = static_cast<std::size_t>(batch_.size);
    const std::size_t count = std::min(piece.truth.size() - i, ElementBatch::kCapacity - at);
    std::copy_n(piece.truth.begin() + i, count, batch_.truth + at);
    std::copy_n(piece.magnitude.begin() + i, count, batch_.magnitude + at);
    std::copy_n(piece.computed.begin() + i, count, batch_.computed + at);
    if (!piece.fp32.empty()) std::copy_n(piece.fp32.begin() + i, count, batch_.fp32 + at);
    std::fill_n(batch_.relative + at, count, piece.relative);
    std::fill_n(batch_.absolute + at, count, piece.absolute);
    std::fill_n(batch_.row + at, count, piece.row);
    std::iota(batch_.col + at, batch_.col + at + count, piece.first + static_cast<std::int64_t>(i));
    added(static_cast<int>(count));
    i += count;
  }
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

ProductErrors measure_errors(std::int64_t panels, const ProductNorms& norms,
                             const MeasureOptions& options,
                             const std::function<void(std::int64_t, PanelMeter&)>& visit) {
  std::vector<Sums> sums(static_cast<std::size_t>(panels));
  ScratchPool<Scratch> pool;
  parallel_for(panels, 1, [&](std::int64_t i, std::int64_t) {
    pool.use([&](Scratch& scratch) {
      Panel panel(scratch, sums[i], options);
      visit(i, panel);
      panel.finish();
    });
  });

  Counts counts;
  for (const Scratch& scratch : pool.all())
    for (const Counts& some : scratch.counts) counts.add(some);
  Sums all;
  for (const Sums& panel : sums) all.add(panel);
  ProductErrors errors;
  describe(counts, all, errors);
  summarise(all, norms, errors);
  return errors;
}

}  // namespace tessera
