// Computes the measures of product_errors.hpp over all elements, in parallel.
//
// Floating-point sums are kept per panel, a part of C, and added in the order of the panels, and
// counts are integers, so the result is the same at any number of threads. The measures of elements
// are vectorised: a check takes little more time than the truth.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "oracle/element_measures.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {

/// Receives the elements of one panel.
class PanelMeter {
 public:
  void add(const Element& element) {
    batch_.set(batch_.size, element);
    added(1);
  }

  /// Elements of one row, in neighbouring columns from `first` on.
  struct RowPiece {
    std::int64_t row = 0, first = 0;
    double relative = 0, absolute = 0;  // as in Element
    std::span<const double> truth, magnitude;
    std::span<const float> computed;
    std::span<const float> fp32;  // empty where that is not compared
  };
  void add(const RowPiece& piece);

  /// The batch, which the caller fills from index `size` on; it is never full. Call added() then.
  ElementBatch& batch() { return batch_; }
  void added(int count) {
    batch_.size += count;
    if (batch_.size == ElementBatch::kCapacity) measure();
  }

 protected:
  explicit PanelMeter(ElementBatch& batch) : batch_(batch) {}
  ~PanelMeter() = default;
  virtual void measure() = 0;  // measures the batch and empties it

  ElementBatch& batch_;
};

/// The norms of the factors of a product.
struct ProductNorms {
  double a = 0;  // ||A||_F
  double b = 0;  // ||B||_F
};

/// The square root of the sum of squares, without NaN and infinite values.
double frobenius_norm(std::span<const float> values);

/// How the elements of C are measured.
struct MeasureOptions {
  bool against_fp32 = false;
  double largest = ErrorBound::kLargestFloat;  // as in ErrorBound
};

/// Measures the errors of C: calls visit(panel, meter) for each panel, in parallel, which passes
/// the panel's elements to the meter, always in the same order.
ProductErrors measure_errors(std::int64_t panels, const ProductNorms& norms,
                             const MeasureOptions& options,
                             const std::function<void(std::int64_t, PanelMeter&)>& visit);

/// Throws an Error unless the bound has `rows` rows and no part of it is negative or NaN.
void require_bound(const ErrorBound& bound, std::int64_t rows);

}  // namespace tessera
