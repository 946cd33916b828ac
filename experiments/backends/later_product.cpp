#include "experiments/backends/later_product.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tessera {
namespace {

/// But for signs of zeros, which an addition of two zeros may not keep, and bits of NaNs.
bool are_opposite(float x, float y) { return x == -y || (std::isnan(x) && std::isnan(y)); }

std::string fault_of(const std::string& reason) {
  return reason.empty() ? "" : "after the timed launches, of a negated operand: " + reason;
}

}  // namespace

std::string later_product_fault(const DenseMatrix& c, DenseMatrix later,
                                const std::function<std::string(const DenseMatrix&)>& check) {
  if (std::ranges::equal(c.values, later.values, are_opposite)) return "";
  for (float& value : later.values) value = -value;
  return fault_of(check(later));
}

std::string later_product_fault(const CsrMatrix& c, CsrMatrix later,
                                const std::function<std::string(const CsrMatrix&)>& check) {
  if (std::ranges::equal(c.row_offsets, later.row_offsets) &&
      std::ranges::equal(c.col_indices, later.col_indices) &&
      std::ranges::equal(c.values, later.values, are_opposite))
    return "";
  std::vector<float> values(later.values.begin(), later.values.end());
  for (float& value : values) value = -value;
  return fault_of(check(with_values(later, std::move(values))));
}

std::string later_launch_fault(const LaunchOutput& output) {
  return fault_of(launch_fault(output.unwritten, output.guards_intact, {}));
}

void add_reason(const std::string& reason, std::string& reasons) {
  if (!reason.empty()) reasons += (reasons.empty() ? "" : "; ") + reason;
}

}  // namespace tessera
