#include "oracle/error_bounds.hpp"

#include <cmath>
#include <limits>

namespace tessera {
namespace {

/// x / (1 - x); infinite for x >= 1, where no bound holds.
double closed(double x) { return x < 1 ? x / (1 - x) : std::numeric_limits<double>::infinity(); }

}  // namespace

double fp32_sum_bound(std::int64_t n) { return closed(static_cast<double>(n) * 0x1p-24); }

double fp64_sum_bound(std::int64_t n) { return closed(static_cast<double>(n) * 0x1p-53); }

double tensor_core_bound(std::int64_t steps, int products, int fraction_bits) {
  return closed(static_cast<double>(steps) *
                (products * std::ldexp(1.0, -fraction_bits) + 0x1p-23));
}

double input_rounding_bound(double operand_error) {
  return 2 * operand_error + operand_error * operand_error;
}

double combine(double inputs, double sum) { return inputs + (1 + inputs) * sum; }

double underflow_bound(std::int64_t n) { return static_cast<double>(n) * 0x1p-148; }

double flushed_addition_bound(std::int64_t n) { return 6 * static_cast<double>(n) * 0x1p-126; }

double operand_underflow_bound(std::int64_t terms, double operand_sum, double quantum) {
  return static_cast<double>(terms) * 2 * quantum * (operand_sum + quantum);
}

}  // namespace tessera
