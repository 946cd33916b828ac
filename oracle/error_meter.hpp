// Takes the measures of product_errors.hpp, element by element and in parallel.
//
// Sums in floating point are kept per panel, a part of C, and added up in the order of the panels,
// counts are integers: the result is the same at any number of threads. What can be is computed for
// many elements at once: a check costs little more than the truth.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "oracle/element_measures.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {

/// Takes the elements of one panel.
class PanelMeter {
 public:
  void add(const Element& element) {
    batch_.set(batch_.size, element);
    added(1);
  }

  /// To be filled from its size on; it is never full.
  ElementBatch& batch() { return batch_; }
  void added(int count) {
    batch_.size += count;
    if (batch_.size == ElementBatch::kCapacity) measure();
  }

 protected:
  explicit PanelMeter(ElementBatch& batch) : batch_(batch) {}
  ~PanelMeter() = default;
  virtual void measure() = 0;  // what is in the batch, and empties it

  ElementBatch& batch_;
};

/// What is known of the product as a whole.
struct ProductNorms {
  double a = 0;  // ||A||_F
  double b = 0;  // ||B||_F
};

/// Square root of the sum of squares; NaN and infinite values are left out.
double frobenius_norm(std::span<const float> values);

/// Calls visit(panel, meter) for each panel of C; it hands the panel's elements to the meter,
/// always in the same order.
ProductErrors measure_errors(std::int64_t panels, const ProductNorms& norms, bool against_fp32,
                             const std::function<void(std::int64_t, PanelMeter&)>& visit);

/// Throws an Error that names both sizes, or the row of a bound that is negative or NaN.
void require_bound(const ErrorBound& bound, std::int64_t rows);

}  // namespace tessera
