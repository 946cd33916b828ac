// Takes the measures of product_errors.hpp, row by row and in parallel.
//
// Sums in floating point are kept per panel of rows and added up in the order of the panels, counts
// are integers: the result is the same at any number of threads. What can be is computed for many
// elements at once: a check costs little more than the truth.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "oracle/product_errors.hpp"

namespace tessera {

/// Elements of one row of C.
struct RowElements {
  std::int64_t row = 0;
  const std::int32_t* cols = nullptr;  // [size]; null when they are 0, 1, 2, ...
  std::span<const double> truth;       // [size]
  std::span<const double> magnitude;   // [size] (|A||B|)_ij
  std::span<const float> computed;     // [size]
  std::span<const float> fp32;         // [size] C in FP32, or empty
  double relative = 0;                 // part of the bound on |error| / (|A||B|)
  double absolute = 0;                 // part of the bound on |error|
};

/// Takes the rows of one panel.
class PanelMeter {
 public:
  virtual ~PanelMeter() = default;
  virtual void add(const RowElements& row) = 0;
};

/// What is known of the product as a whole.
struct ProductNorms {
  double a = 0;  // ||A||_F
  double b = 0;  // ||B||_F
};

/// Square root of the sum of squares; NaN and infinite values are left out.
double frobenius_norm(std::span<const float> values);

/// Calls visit(begin, end, meter) for panels of `grain` rows that cover [0, rows); each hands its
/// rows' elements to the meter, in order.
ProductErrors measure_errors(
    std::int64_t rows, std::int64_t grain, const ProductNorms& norms,
    const std::function<void(std::int64_t, std::int64_t, PanelMeter&)>& visit);

/// Throws an Error that names both sizes, or the row of a bound that is negative or NaN.
void require_bound(const ErrorBound& bound, std::int64_t rows);

}  // namespace tessera
