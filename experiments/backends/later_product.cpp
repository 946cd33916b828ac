#include "experiments/backends/later_product.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"

namespace tessera {
namespace {

/// But for signs of zeros, which an addition of two zeros may not keep, and bits of NaNs.
TESSERA_VECTOR_CLONES
bool are_opposite(const float* x, const float* y, std::int64_t count) {
  int others = 0;
  for (std::int64_t i = 0; i < count; ++i)
    others += !((x[i] == -y[i]) | ((x[i] != x[i]) & (y[i] != y[i])));
  return others == 0;
}

template <class Values>
bool are_opposite(const Values& x, const Values& y) {
  constexpr std::int64_t kGrain = 1 << 18;
  if (x.size() != y.size()) return false;
  std::atomic<bool> opposite = true;
  parallel_for(static_cast<std::int64_t>(x.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 if (opposite && !are_opposite(x.data() + begin, y.data() + begin, end - begin))
                   opposite = false;
               });
  return opposite;
}

std::string fault_of(const std::string& reason) {
  return reason.empty() ? "" : "after the timed launches, of a negated operand: " + reason;
}

}  // namespace

std::string later_product_fault(const DenseMatrix& c, DenseMatrix later,
                                const std::function<std::string(const DenseMatrix&)>& check) {
  if (are_opposite(c.values, later.values)) return "";
  for (float& value : later.values) value = -value;
  return fault_of(check(later));
}

std::string later_product_fault(const CsrMatrix& c, CsrMatrix later,
                                const std::function<std::string(const CsrMatrix&)>& check) {
  if (std::ranges::equal(c.row_offsets, later.row_offsets) &&
      std::ranges::equal(c.col_indices, later.col_indices) && are_opposite(c.values, later.values))
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
