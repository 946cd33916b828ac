// One bit of C turned, as by a fault of the memory: the comparison with the emulation sees each,
// the comparison with fp64 each that makes an error above its bound.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// What the comparisons see of turned bits.
struct Seen {
  std::int64_t turned = 0;
  std::int64_t by_emulation = 0;
  std::int64_t by_oracle = 0;
  double largest_missed = 0;  // relative to |A||B|, of those that the oracle does not see
};

class Product {
 public:
  explicit Product(const std::string& name, const Params::Given& params = {})
      : kernel_(Registry<SpmmKernel>::instance().make(name, params)),
        packed_(Registry<Format>::instance().make(kernel_->format())->pack(a_)),
        c_(emulate_c(*kernel_, *packed_, b_, find_generation("hopper"))) {}

  /// Turns one bit in each of some elements, one at a time.
  Seen turn(int bit) const {
    Seen seen;
    for (std::size_t i = 0; i < c_.values.size(); i += 31) {
      if (c_.values[i] == 0) continue;  // of a row without nonzeros
      DenseMatrix c = c_;
      c.values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(c.values[i]) ^
                                         (std::uint32_t{1} << bit));
      ++seen.turned;
      if (compare_bits(c, c_).different == 1) ++seen.by_emulation;
      if (!check_result(a_, b_, c, {*kernel_, *packed_, rows_, "hopper"}).reason.empty())
        ++seen.by_oracle;
      else
        seen.largest_missed = std::max(seen.largest_missed, relative_error(i, c.values[i]));
    }
    return seen;
  }

 private:
  /// Of a turned element, relative to the sum of its products' magnitudes.
  double relative_error(std::size_t i, float turned) const {
    const auto place = static_cast<std::int64_t>(i);
    const std::int64_t row = place / c_.cols, col = place % c_.cols;
    double magnitude = 0;
    for (std::size_t k = 0; k < a_.row_cols(row).size(); ++k)
      magnitude += std::abs(double{a_.row_values(row)[k]} * b_.row(a_.row_cols(row)[k])[col]);
    return std::abs(double{turned} - c_.values[i]) / magnitude;
  }

  CsrMatrix a_ = random_sparse(40, 60, 0.3, 1);
  DenseMatrix b_ = random_dense(60, 24, 2);
  Permutation rows_ = Permutation::identity(40);
  std::unique_ptr<SpmmKernel> kernel_;
  std::unique_ptr<PackedMatrix> packed_;
  DenseMatrix c_;
};

TEST_CASE("a turned bit of C is seen: each by the emulation, each large one by fp64 alone") {
  struct Limit {
    std::string kernel;
    Params::Given params;
    double missed;    // the largest error, relative to |A||B|, that fp64 alone may miss
    int always_seen;  // it sees every turned bit from this one on
  };
  const std::vector<Limit> limits{{"csr_spmm", {}, 1.4e-6, 14},
                                  {"acc_spmm", {}, 1.1e-3, 25},
                                  {"tessera_spmm", {{"storage", std::string("fp16")}}, 1.7e-3, 30}};
  for (const auto& [name, params, missed, always_seen] : limits) {
    CAPTURE(name);
    const Product product(name, params);
    for (int bit = 0; bit < 32; ++bit) {
      CAPTURE(bit);
      const Seen seen = product.turn(bit);
      CHECK(seen.turned > 20);
      CHECK(seen.by_emulation == seen.turned);
      CHECK(seen.largest_missed <= missed);
      if (bit >= always_seen) CHECK(seen.by_oracle == seen.turned);
      if (bit == 0) CHECK(seen.by_oracle == 0);
    }
  }
}

}  // namespace
}  // namespace tessera
