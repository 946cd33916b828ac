// The interface of a performance model: the time that a product takes on a described device, from
// the work of its launches.
//
// A model sees a kernel's work description and a device file, never the kernel: kernels/work.hpp is
// the one header of kernels/ that this folder may include, with the traces that it holds.
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
  std::string bound_by;  // name of the part that decides the time
  std::vector<PredictedPart> parts;
};

class Model {
 public:
  static constexpr const char* kKind = "model";
  virtual ~Model() = default;

  /// The time of one product and its parts. Throws Unsupported when the device lacks a unit or a
  /// rate that the work needs, such as TF32 on Turing.
  virtual Prediction predict(const WorkDescription& work, const Device& device) const = 0;
};

}  // namespace tessera
