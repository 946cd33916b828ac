// A backend that predicts the time of a product from the kernel's work description alone.
#pragma once

#include "experiments/backends/backend.hpp"
#include "formats/base/check.hpp"

namespace tessera {

class PredictingBackend : public Backend {
 public:
  BackendResult run(const Multiplication& m) const final {
    BackendResult result;
    result.time_us = predict(m.point, m.kernel.work(m.a, m.b.cols), result.findings);
    return result;
  }

  SparseProductResult multiply(const SparseMultiplication& m) const final {
    require<Unsupported>(m.mask == nullptr, "products under a mask describe no work");
    SparseProductResult result;
    result.time_us = predict(m.point, m.kernel.work(m.a, m.b), result.findings);
    return result;
  }

  SampledProductResult multiply(const SampledMultiplication& m) const final {
    SampledProductResult result;
    result.time_us = predict(m.point, m.kernel.work(m.a, m.x.cols), result.findings);
    return result;
  }

 private:
  /// Returns the predicted time in us and adds its parts to the findings. Throws Unsupported for
  /// work that cannot be predicted.
  virtual double predict(const Point& point, const WorkDescription& work,
                         BackendFindings& findings) const = 0;
};

}  // namespace tessera
