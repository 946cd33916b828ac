#include "kernels/spmm/plan/order_choice.hpp"

#include <algorithm>

#include "formats/base/order_model.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

/// The time of a product by the formula of an H200; decisions rest on ratios of such times.
double predicted_us(const CountedKernel& one, const WorkCounts& counts) {
  return Registry<CostModel>::instance().make(one.kernel)->rate(counts, one.params, "h200").time_us;
}

std::string in_products(std::int64_t products) {
  return fmt::format("in {} product{}", products, products == 1 ? "" : "s");
}

SpmmPreparation kept(std::string reason) { return {.reason = std::move(reason)}; }

}  // namespace

SpmmPreparation choose_order(const std::vector<CountedKernel>& kernels, std::int64_t products) {
  if (products == 0) return kept("how often A is multiplied is not stated");
  if (products <= kFewProducts)
    return kept(fmt::format("no order pays for itself {}", in_products(products)));
  const auto ordered = std::ranges::find(kernels, kOrderedKernel, &CountedKernel::kernel);
  if (ordered == kernels.end())
    return kept(fmt::format("{} is not among the candidates", kOrderedKernel));
  if (!Registry<OrderModel>::instance().contains(kGpuOrder))
    return kept(fmt::format("there is no formula for the order {}", kGpuOrder));
  for (const CountedKernel& one : kernels)
    if (!Registry<CostModel>::instance().contains(one.kernel))
      return kept(fmt::format("there is no formula for the time of {}", one.kernel));
  SpmmPreparation found;
  try {
    const OrderForecast forecast =
        Registry<OrderModel>::instance().make(kGpuOrder)->forecast(ordered->counts);
    found.predicted_us = predicted_us(*ordered, ordered->counts);
    for (const CountedKernel& one : kernels)
      found.predicted_us = std::min(found.predicted_us, predicted_us(one, one.counts));
    found.predicted_in_order_us = predicted_us(*ordered, forecast.counts);
    found.predicted_preparation_us = forecast.preparation_us;
  } catch (const Unsupported& error) {
    return kept(error.what());
  }
  const double saved = found.predicted_us - found.predicted_in_order_us;
  const double saved_by_all = static_cast<double>(products) * saved;
  if (saved_by_all > found.predicted_preparation_us) found.order = kGpuOrder;
  found.reason =
      saved <= 0 ? fmt::format("the order {} is expected to save nothing", kGpuOrder)
                 : fmt::format(
                       "the order {} is expected to save {:.1f} us of {:.1f} us, {:.2f} ms {}, and "
                       "to take {:.2f} ms",
                       kGpuOrder, saved, found.predicted_us, 1e-3 * saved_by_all,
                       in_products(products), 1e-3 * found.predicted_preparation_us);
  return found;
}

}  // namespace tessera
