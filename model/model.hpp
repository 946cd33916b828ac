// The interface of a performance model: what a launch does, on a described device, in how much
// time.
//
// A model sees a kernel's work description and a device file, never the kernel: kernels/work.hpp is
// the one header of kernels/ this folder may include.
#pragma once

#include <string>
#include <vector>

#include "kernels/work.hpp"
#include "model/device.hpp"

namespace tessera {

/// One term of a prediction, such as "DRAM" or "tensor cores".
struct PredictedPart {
  std::string name;
  double time_us = 0;
  std::string reason;  // "12.3 MB at 4800 GB/s"
};

struct Prediction {
  double time_us = 0;
  std::string bound_by;  // name of the part that decides
  std::vector<PredictedPart> parts;
};

class Model {
 public:
  static constexpr const char* kKind = "model";
  virtual ~Model() = default;

  /// Throws Unsupported when the device lacks what the work needs, such as TF32 on Turing.
  virtual Prediction predict(const WorkDescription& work, const Device& device) const = 0;
};

}  // namespace tessera
