// What an order of A's rows is expected to take and to bring, for a decision before anything is
// spent on it. Plans ask for it by the order's name; the formulas are those of model/.
#pragma once

#include "formats/base/choice.hpp"

namespace tessera {

struct OrderForecast {
  double preparation_us = 0;  // to find the order and to pack A in it, on a GPU
  WorkCounts counts = {};     // of a product in the order
};

/// The formulas of one order. Registered under its name.
class OrderModel {
 public:
  static constexpr const char* kKind = "order model";
  virtual ~OrderModel() = default;

  /// The forecast for a matrix with these counts in the order that it has (product_counts()).
  /// Throws an Error for a count that is absent.
  virtual OrderForecast forecast(const WorkCounts& counts) const = 0;
};

}  // namespace tessera
