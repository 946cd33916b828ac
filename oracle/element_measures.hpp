// The measures of single elements of C and their sums: the vectorised loops of the error meter.
//
// They take a batch whose size is a multiple of kErrorLanes, padded with correct zeros, which
// change nothing. Sums are kept in lanes, in the same order on every processor, and the compiler
// contracts nothing to fused multiply-adds (CMakeLists.txt), so they are the same to the last bit.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

/// An element of C.
struct Element {
  std::int64_t row = 0, col = 0;
  double truth = 0;
  double magnitude = 0;  // (|A||B|)_ij
  double relative = 0;   // part of the bound on |error| / (|A||B|)
  double absolute = 0;   // part of the bound on |error|
  float computed = 0;
  float fp32 = 0;  // the element of C computed in FP32, where that is compared
};

/// Elements that are measured at once; their arrays fit the L1 cache.
struct ElementBatch {
  static constexpr int kCapacity = 128;
  int size = 0;
  alignas(64) std::int64_t row[kCapacity], col[kCapacity];
  double truth[kCapacity], magnitude[kCapacity], relative[kCapacity], absolute[kCapacity];
  float computed[kCapacity], fp32[kCapacity];

  void set(int j, const Element& x) {
    row[j] = x.row;
    col[j] = x.col;
    truth[j] = x.truth;
    magnitude[j] = x.magnitude;
    relative[j] = x.relative;
    absolute[j] = x.absolute;
    computed[j] = x.computed;
    fp32[j] = x.fp32;
  }
  Element get(int j) const {
    return {row[j], col[j], truth[j], magnitude[j], relative[j], absolute[j], computed[j], fp32[j]};
  }
};

/// The number of parallel sums, so that an addition need not wait for the last one.
constexpr int kErrorLanes = 16;
static_assert(ElementBatch::kCapacity % kErrorLanes == 0);

/// The measures of each element of a batch; all elements are finite.
struct Derived {
  static constexpr int kCapacity = ElementBatch::kCapacity;
  alignas(64) double error[kCapacity];
  double allowed[kCapacity], bound_ratio[kCapacity], smape[kCapacity];
  double relative[kCapacity], backward[kCapacity], bias[kCapacity];
  double ulps[kCapacity], condition[kCapacity];
  double factor[kCapacity];  // factor of the product whose root is the mean condition
  std::int32_t relative_place[kCapacity], backward_place[kCapacity], condition_place[kCapacity];
  std::int32_t ulp_place[kCapacity], decade[kCapacity], underflow[kCapacity];
};

/// Sums and maxima over a panel; lane l has the elements l, l + kErrorLanes, ...
struct Lanes {
  using Of = double[kErrorLanes];
  alignas(64) Of smape{}, smape_fp32{}, squares{}, truth_squares{}, backward{}, bias{};
  Of max_relative{}, max_backward{}, max_ulp{}, max_condition{};
  Of mantissa, exponent{};  // the product of the condition numbers
  Of beyond_bound{}, underflows{}, with_truth{}, with_fp32{};

  Lanes() { std::ranges::fill(mantissa, 1.0); }
};

/// Computes all measures but the places in histograms. All elements are finite.
void derive(const ElementBatch& batch, int size, Derived& x);

/// Computes the places of the elements in the histograms and in the table of conditions.
void place(int size, Derived& x);

/// Adds the measures of a batch to the sums.
void add_up(const ElementBatch& batch, const Derived& x, int size, Lanes& lanes);

/// Adds the errors against C in FP32; those of NaNs and infinities do not count.
void add_up_fp32(const ElementBatch& batch, int size, Lanes& lanes);

/// True when the truth and C are finite for all elements.
bool all_finite(const ElementBatch& batch);

}  // namespace tessera
