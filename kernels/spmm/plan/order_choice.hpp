// Whether an order of A's rows, found on the GPU, is worth its time: the decision of a plan before
// it spends anything on one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/choice.hpp"

namespace tessera {

/// Products that do not pay for timing the candidates of a plan, nor for an order.
constexpr std::int64_t kFewProducts = 20;

/// What a plan does about the order of A's rows, and why. Times are in microseconds, and 0 where
/// nothing was predicted.
struct SpmmPreparation {
  std::string order = {};               // found on the GPU; empty: the order that A has
  std::string reason = {};              // one sentence
  double predicted_us = 0;              // of a product in the order that A has,
  double predicted_in_order_us = 0;     // and in the other one
  double predicted_preparation_us = 0;  // to find that order and to pack A in it
};

/// The kernel that a plan runs in another order, and that order.
constexpr const char* kOrderedKernel = "tessera_spmm";
constexpr const char* kGpuOrder = "matched";

/// The order that is expected to save more in `products` products, where kOrderedKernel replaces
/// the fastest of `kernels`, than it takes; none where something has no formula, and none for 0
/// products, a number that nobody stated.
SpmmPreparation choose_order(const std::vector<CountedKernel>& kernels, std::int64_t products);

}  // namespace tessera
