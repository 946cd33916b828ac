// What the order `matched` is expected to take and to bring: formulas fitted to the orders and
// packings of 24 matrices on one H200 (notebooks/matched_order_fit.py,
// experiments/results/reorder).
//
// The emptier the fetched rows of B are, the more an order fills them: rows with 1.0 to 6.5
// nonzeros get 2.2 to 1.0 times as many. Where each matrix is left out of the fit in turn, the
// factor is off by 18 % (root mean square). The time of an order is off by a factor of 1.3, and up
// to 2.6 times as long as expected where few rows have most nonzeros.

#include <algorithm>
#include <cmath>

#include "formats/base/order_model.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

/// Nonzeros of a fetched row of B in the order, over those in the order of the file, where these
/// are one; and the exponent of these.
constexpr double kFilled = 1.676, kOfFilled = -0.1897;

/// Microseconds in all, for a fetched row of B, and for a nonzero times the root of those of a row.
constexpr double kOrder = 1289, kOrderFetched = 3.562e-3, kOrderNonzero = 8.578e-5;

/// Microseconds in all, for a nonzero, and for a fetched row of B.
constexpr double kPacking = 27.26, kPackingNonzero = 3.578e-5, kPackingFetched = 3.32e-5;

class MatchedModel final : public OrderModel {
 public:
  OrderForecast forecast(const WorkCounts& counts) const override {
    const double nonzeros = counts.at("nonzeros"), fetched = counts.at("condensed_columns");
    const double of_row = nonzeros / std::max(counts.at("rows"), 1.0);
    OrderForecast forecast;
    forecast.preparation_us = kOrder + kOrderFetched * fetched +
                              kOrderNonzero * nonzeros * std::sqrt(of_row) + kPacking +
                              kPackingNonzero * nonzeros + kPackingFetched * fetched;
    forecast.counts = counts;
    if (fetched > 0) {
      const double factor = std::max(1.0, kFilled * std::pow(nonzeros / fetched, kOfFilled));
      forecast.counts["condensed_columns"] = fetched / factor;
      forecast.counts["tc_blocks"] = counts.at("tc_blocks") / factor;
    }
    return forecast;
  }
};

const Register<OrderModel> entry{{
    .name = "matched",
    .summary = "rows of B that an order saves, and its time, fitted on an H200",
    .make = [](const Params&) { return std::make_unique<MatchedModel>(); },
}};

}  // namespace
}  // namespace tessera
