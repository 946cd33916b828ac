#include "kernels/spmm/plan/worth_timing.hpp"

#include <algorithm>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double predicted_us(const CountedKernel& one) {
  const auto& formulas = Registry<CostModel>::instance();
  if (!formulas.contains(one.kernel)) return kUnknown;
  try {
    return formulas.make(one.kernel)->rate(one.counts, one.params, "h200").time_us;
  } catch (const Unsupported&) {  // parameters it was not fitted to, or no file of the device
    return kUnknown;
  }
}

}  // namespace

std::string too_slow(const std::vector<CountedKernel>& candidates, std::size_t index, double most) {
  const double own = predicted_us(candidates[index]);
  double least = kUnknown;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (i != index) least = std::min(least, predicted_us(candidates[i]));
  if (own == kUnknown || least == kUnknown || own <= most * least) return "";
  return fmt::format("it is expected to take {:.1f} us, and another kernel {:.1f} us", own, least);
}

}  // namespace tessera
