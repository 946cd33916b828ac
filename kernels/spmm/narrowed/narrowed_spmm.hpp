// Kernels that narrow B on the device before they multiply, for others to build from what they
// have: a kernel of a B in FP16 and a C in FP32, and one of a B in FP32 for what cannot be
// narrowed. Which of the two writes C is decided on the device, without waiting for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/format.hpp"

namespace tessera {

class SpmmKernel;
class GpuSpmm;

namespace narrowed {

/// A packed A whose rows are scaled to FP16's range by powers of two, or null for A as it is.
struct ScaledRows {
  std::unique_ptr<PackedMatrix> packed = {};
  std::vector<float> scales = {};  // [rows] the powers of two that bring sums back
};

/// Scales the rows of a packed A. Throws Unsupported for an A that cannot be multiplied by a scaled
/// B.
using ScaleRows = std::function<ScaledRows(const PackedMatrix&)>;

/// Two kernels of one name: with these changes of its parameters, once with B in FP16 and C in FP32
/// as well.
struct Recipe {
  std::string kernel;
  Params params;
  Params::Given changes;
  ScaleRows scale_rows;

  Params narrow() const;
  Params wide() const;
};

/// The host half.
std::unique_ptr<SpmmKernel> make_kernel(const Recipe& recipe);

/// The device half.
std::unique_ptr<GpuSpmm> make_gpu(const Recipe& recipe);

}  // namespace narrowed
}  // namespace tessera
