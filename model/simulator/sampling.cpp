#include "model/simulator/sampling.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>
#include <type_traits>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera::simulator {
namespace {

/// The head and the measured part of a stretch, in resident thread blocks of the GPU.
constexpr double kHeadWaves = 1.5;
constexpr double kMeasuredWaves = 2;

/// The least bytes that they request, in L2 capacities. The data of the previous stretch has to
/// leave the L2, and most requests hit and evict nothing.
constexpr double kHeadTurnovers = 8;
constexpr double kMeasuredTurnovers = 2;

/// The largest share of a launch's work in stretches; beyond it the launch is simulated whole.
constexpr double kLargestShare = 0.5;

/// The largest share of a launch's time by which an omitted thread block may end later. Beyond it
/// the launch is simulated whole; below it the stated error of the time increases accordingly.
constexpr double kLargestOutlasting = 0.1;

/// The largest carried_over(); beyond it a launch is simulated whole.
constexpr double kLargestCarriedOver = 0.02;

/// The least relative error. Stretches of a uniform matrix may agree better by chance.
constexpr double kLeastError = 0.01;

/// The work of a thread block that moves nothing but takes time, in bytes.
constexpr double kBlockBytes = 256;

double work_of(const ThreadBlockWork& block) {
  return kBlockBytes +
         static_cast<double>(block.a_bytes + block.b_bytes + block.c_bytes + 4 * block.atomics);
}

/// The prefix sums of the described work of a launch's thread blocks.
class WorkSum {
 public:
  explicit WorkSum(std::span<const ThreadBlockWork> blocks) : sums_(blocks.size() + 1) {
    for (std::size_t i = 0; i < blocks.size(); ++i) sums_[i + 1] = sums_[i] + work_of(blocks[i]);
  }

  std::int64_t size() const { return static_cast<std::int64_t>(sums_.size()) - 1; }
  double total() const { return sums_.back(); }
  double before(std::int64_t block) const { return sums_[static_cast<std::size_t>(block)]; }
  double of(const BlockRange& range) const { return before(range.last) - before(range.first); }
  /// The first thread block with at least `work` before it.
  std::int64_t where(double work) const {
    return std::ranges::lower_bound(sums_, work) - sums_.begin();
  }
  /// The thread block `blocks` after `from`, or later where there is less than `work` between them.
  std::int64_t after(std::int64_t from, std::int64_t blocks, double work) const {
    return std::min(size(), std::max(from + blocks, where(before(from) + work)));
  }
  /// The thread block `blocks` before `to`, or earlier where there is less than `work` between
  /// them.
  std::int64_t ahead_of(std::int64_t to, std::int64_t blocks, double work) const {
    const double least = before(to) - work;
    return std::max<std::int64_t>(0, std::min(to - blocks, least > 0 ? where(least) - 1 : 0));
  }

 private:
  std::vector<double> sums_;  // [thread blocks + 1]
};

/// Builds a plan stretch by stretch.
class Planner {
 public:
  Planner(const WorkSum& work, double resident, double l2_bytes)
      : work_(work),
        head_(std::llround(kHeadWaves * resident)),
        measured_(std::llround(kMeasuredWaves * resident)),
        head_bytes_(kHeadTurnovers * l2_bytes),
        measured_bytes_(kMeasuredTurnovers * l2_bytes) {}

  /// Plans the beginning and the end of the launch, which represent themselves, and `stretches`
  /// between them, each in the middle of its part. Empty when they do not fit.
  std::optional<SamplePlan> plan(int stretches) {
    plan_ = {};
    dealt_ = 0;
    const std::int64_t begin_to = work_.after(0, measured_, measured_bytes_);
    const std::int64_t end_from = work_.ahead_of(work_.size(), measured_, measured_bytes_);
    const BlockRange begin{0, begin_to};
    const BlockRange end{work_.ahead_of(end_from, head_, head_bytes_), work_.size()};
    const double between = work_.before(end.first) - work_.before(begin_to);
    if (!add(begin, work_.where(work_.of(begin) / 2), work_.of(begin))) return std::nullopt;
    for (int s = 0; s < stretches; ++s) {
      const std::int64_t middle =
          work_.where(work_.before(begin_to) + between * (s + 0.5) / stretches);
      const std::int64_t warm = work_.ahead_of(middle, measured_ / 2, measured_bytes_ / 2);
      if (!add({work_.ahead_of(warm, head_, head_bytes_),
                work_.after(warm, measured_, measured_bytes_)},
               warm, between / stretches))
        return std::nullopt;
    }
    if (!add(end, end_from, work_.of(end))) return std::nullopt;
    const double taken = std::accumulate(plan_.work.begin(), plan_.work.end(), 0.0);
    if (taken > kLargestShare * work_.total()) return std::nullopt;
    return std::move(plan_);
  }

 private:
  /// Adds a stretch; false when it begins before the last one ends.
  bool add(const BlockRange& range, std::int64_t warm, double part) {
    if (!plan_.stretches.empty() && range.first < plan_.stretches.back().last) return false;
    const std::int64_t half = work_.where((work_.before(warm) + work_.before(range.last)) / 2);
    for (const std::int64_t mark : {warm, half, range.last})
      plan_.dealt.push_back(dealt_ + mark - range.first);
    dealt_ += range.size();
    plan_.stretches.push_back(range);
    plan_.work.push_back(work_.of(range));
    plan_.part.push_back(part);
    return true;
  }

  const WorkSum& work_;
  std::int64_t head_, measured_;        // thread blocks
  double head_bytes_, measured_bytes_;  // described work
  std::int64_t dealt_ = 0;
  SamplePlan plan_;
};

/// sum += factor * part.
void add(Totals& sum, const Totals& part, double factor) {
  const auto add_one = [factor](auto& to, auto one) {
    const double scaled = factor * static_cast<double>(one);
    if constexpr (std::is_integral_v<std::remove_reference_t<decltype(to)>>)
      to += std::llround(scaled);
    else
      to += scaled;
  };
  add_one(sum.cycles, part.cycles);
  sum.sm.with_each(part.sm, add_one);
  sum.memory.with_each(part.memory, add_one);
}

Totals difference(const Totals& after, const Totals& before) {
  Totals result = after;
  add(result, before, -1);
  return result;
}

/// Measured totals and the described work that they cover.
struct Measured {
  Totals totals;
  double work = 0;
};

/// The pieces of a run of a plan. Instructions measure the progress of a stretch within its work:
/// they are counted as they are issued, and their total over the stretch is known.
class Pieces {
 public:
  Pieces(const SamplePlan& plan, const Grid& grid, const Totals& end)
      : plan_(plan), grid_(grid), end_(end) {}

  std::size_t size() const { return plan_.stretches.size(); }
  Measured measured(std::size_t s) const { return piece(s, moment(s, 0), moment(s, 2)); }
  Measured early(std::size_t s) const { return piece(s, moment(s, 0), moment(s, 1)); }
  Measured late(std::size_t s) const { return piece(s, moment(s, 1), moment(s, 2)); }
  /// The part of stretch s that is simulated as in the full launch: the measured part, for the
  /// first stretch everything before it as well, for the last one everything behind it.
  Measured in_place(std::size_t s) const {
    return piece(s, s == 0 ? Totals{} : moment(s, 0), s + 1 == size() ? end_ : moment(s, 2));
  }
  /// The described work of stretch s's part that is not simulated.
  double left_out(std::size_t s) const { return std::max(0.0, plan_.part[s] - in_place(s).work); }
  bool all_hold_work() const {
    for (std::size_t s = 0; s < size(); ++s)
      if (!(early(s).work > 0) || !(late(s).work > 0)) return false;
    return true;
  }

 private:
  const Totals& moment(std::size_t s, std::size_t which) const {
    return grid_.moments()[3 * s + which];
  }
  Measured piece(std::size_t s, const Totals& from, const Totals& to) const {
    Measured result{difference(to, from), 0};
    const auto all = static_cast<double>(grid_.instructions()[s]);
    const auto here = static_cast<double>(result.totals.sm.instructions);
    result.work = all > 0 ? plan_.work[s] * here / all : 0;
    return result;
  }

  const SamplePlan& plan_;
  const Grid& grid_;
  const Totals& end_;
};

/// The estimate of the launch from the rates of all stretches except `skipped`; -1: of all.
template <class Rate>
Totals by_rates(const Pieces& pieces, const Rate& rate, int skipped = -1) {
  Totals sum;
  double left_out = 0, told = 0;
  for (std::size_t s = 0; s < pieces.size(); ++s) {
    left_out += pieces.left_out(s);
    if (static_cast<int>(s) != skipped) told += pieces.left_out(s);
    add(sum, pieces.in_place(s).totals, 1);
  }
  for (std::size_t s = 0; s < pieces.size() && told > 0; ++s) {
    if (static_cast<int>(s) == skipped) continue;
    const Measured measured = rate(s);
    add(sum, measured.totals, left_out / told * pieces.left_out(s) / measured.work);
  }
  return sum;
}

/// Calls each(thread block) for the thread blocks that were not simulated.
template <class Each>
void for_each_left_out(const SamplePlan& plan, const Each& each) {
  for (std::size_t s = 1; s < plan.stretches.size(); ++s)
    for (std::int64_t b = plan.stretches[s - 1].last; b < plan.stretches[s].first; ++b) each(b);
}

/// A thread block that was simulated.
struct Ran {
  double work;
  double cycles_per_work;
};

/// The simulated thread blocks of most work, in descending order; `spans` are those of the run.
std::vector<Ran> largest_that_ran(const SamplePlan& plan, const WorkSum& work,
                                  const std::vector<BlockSpan>& spans) {
  std::vector<Ran> ran;
  for (const BlockRange& stretch : plan.stretches) {
    for (std::int64_t b = stretch.first; b < stretch.last; ++b) {
      const BlockSpan& span = spans[ran.size()];
      const double here = work.of({b, b + 1});
      ran.push_back({here, (span.end - span.start) / here});
    }
  }
  std::ranges::sort(ran, std::ranges::greater{}, &Ran::work);
  ran.resize(std::min(ran.size(), std::max<std::size_t>(16, ran.size() / 100)));
  return ran;
}

/// The time when the last of the large omitted thread blocks ends, if each takes as long per work
/// as the slowest simulated one of at least two thirds of its work.
double last_end_left_out(const SamplePlan& plan, const WorkSum& work,
                         const std::vector<BlockSpan>& spans, double cycles) {
  std::vector<Ran> large = largest_that_ran(plan, work, spans);
  for (std::size_t i = 1; i < large.size(); ++i)
    large[i].cycles_per_work = std::max(large[i].cycles_per_work, large[i - 1].cycles_per_work);
  double last = 0;
  for_each_left_out(plan, [&](std::int64_t b) {
    const double here = work.of({b, b + 1});
    if (here < large.back().work) return;
    const auto like_it =
        std::ranges::upper_bound(large, here / 1.5, std::ranges::greater{}, &Ran::work) -
        large.begin();
    const Ran& slowest = large[static_cast<std::size_t>(std::max<std::ptrdiff_t>(like_it, 4)) - 1];
    last = std::max(last, cycles * work.before(b) / work.total() + here * slowest.cycles_per_work);
  });
  return last;
}

/// The largest share of the SMs' time in a stretch's measured part that thread blocks of earlier
/// stretches took, which would have ended long before in the full launch.
double carried_over(const SamplePlan& plan, const Grid& grid, const std::vector<BlockSpan>& spans) {
  double largest = 0;
  for (std::size_t s = 1; s < plan.stretches.size(); ++s) {
    const double from = grid.moments()[3 * s].cycles, to = grid.moments()[3 * s + 2].cycles;
    const std::int64_t own = plan.dealt[3 * s - 1];
    double earlier = 0, all = 0;
    for (std::size_t place = 0; place < spans.size(); ++place) {
      const double here = std::min(spans[place].end, to) - std::max(spans[place].start, from);
      if (here <= 0) continue;
      all += here;
      if (static_cast<std::int64_t>(place) < own) earlier += here;
    }
    if (all > 0) largest = std::max(largest, earlier / all);
  }
  return largest;
}

/// Moves the spans of thread blocks from their simulated to their estimated times in the launch.
void move_spans(const SamplePlan& plan, double added, std::vector<BlockSpan>& spans) {
  std::size_t place = 0;
  for (std::size_t s = 0; s < plan.stretches.size(); ++s) {
    const double shift =
        added * static_cast<double>(s) / static_cast<double>(plan.stretches.size() - 1);
    for (std::int64_t b = plan.stretches[s].first; b < plan.stretches[s].last; ++b, ++place)
      spans[place].start += shift, spans[place].end += shift;
  }
}

/// The 97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5), within 1 % from 3 degrees on.
double t_quantile(int degrees) {
  const double z = 1.959964, v = degrees;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * v * v * v);
}

}  // namespace

Sampling sampling_of(std::string_view text) {
  if (text.empty() || text == "off") return {};
  if (text == "auto") return kAutoSampling;
  int stretches = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), stretches);
  require(error == std::errc() && stop == text.data() + text.size() && stretches >= kLeastStretches,
          "sample = '{}': expected off, auto, or a number of stretches, {} or more", text,
          kLeastStretches);
  return {.stretches = stretches, .least_bytes = 0};
}

std::optional<SamplePlan> plan_sample(std::span<const ThreadBlockWork> blocks,
                                      const Machine& machine, std::int64_t resident,
                                      const Sampling& sampling) {
  const auto least = std::llround(kLeastStretches * kMeasuredWaves * static_cast<double>(resident));
  if (sampling.stretches == 0 || static_cast<std::int64_t>(blocks.size()) < least)
    return std::nullopt;
  const WorkSum work(blocks);
  if (work.total() < sampling.least_bytes) return std::nullopt;
  Planner planner(work, static_cast<double>(resident), static_cast<double>(machine.l2_bytes));
  for (int stretches = sampling.stretches; stretches >= kLeastStretches; --stretches)
    if (auto plan = planner.plan(stretches)) return plan;
  return std::nullopt;
}

std::optional<SampledLaunch> extrapolate(const SamplePlan& plan, const Grid& grid,
                                         std::span<const ThreadBlockWork> blocks,
                                         const Machine& machine, LaunchResult& result) {
  const Totals end{result.cycles, result.sm, result.memory};
  const Pieces pieces(plan, grid, end);
  if (!pieces.all_hold_work() || carried_over(plan, grid, result.spans) > kLargestCarriedOver)
    return std::nullopt;
  const auto measured = [&](std::size_t s) { return pieces.measured(s); };
  SampledLaunch sampled;
  sampled.whole = by_rates(pieces, measured);
  sampled.outlasting =
      std::max(0.0, last_end_left_out(plan, WorkSum(blocks), result.spans, sampled.whole.cycles) -
                        sampled.whole.cycles);
  if (sampled.outlasting > kLargestOutlasting * sampled.whole.cycles) return std::nullopt;
  for (std::size_t s = 1; s + 1 < pieces.size(); ++s)
    sampled.without.push_back(by_rates(pieces, measured, static_cast<int>(s)));
  sampled.early = by_rates(pieces, [&](std::size_t s) { return pieces.early(s); });
  sampled.late = by_rates(pieces, [&](std::size_t s) { return pieces.late(s); });

  std::int64_t mma = 0;
  for (const ThreadBlockWork& block : blocks) mma += block.mma;
  const auto exact = [&](Totals& totals) {
    totals.sm.mma = mma;
    totals.sm.tensor_busy = static_cast<double>(mma) * machine.mma_interval;
  };
  for (Totals* totals : {&sampled.whole, &sampled.early, &sampled.late}) exact(*totals);
  for (Totals& totals : sampled.without) exact(totals);

  move_spans(plan, sampled.whole.cycles - result.cycles, result.spans);
  result.cycles = sampled.whole.cycles;
  result.sm = sampled.whole.sm;
  result.memory = sampled.whole.memory;
  result.sampled_share =
      static_cast<double>(result.spans.size()) / static_cast<double>(blocks.size());
  return sampled;
}

double half_interval(double value, const std::vector<double>& without, double early, double late) {
  const auto count = static_cast<double>(without.size());
  const double mean = std::accumulate(without.begin(), without.end(), 0.0) / count;
  double squares = 0;
  for (const double one : without) squares += (one - mean) * (one - mean);
  const double standard_error = std::sqrt((count - 1) / count * squares);
  const double half =
      t_quantile(static_cast<int>(without.size()) - 1) * standard_error + std::abs(late - early);
  return std::max(half, kLeastError * std::abs(value));
}

}  // namespace tessera::simulator
