// What a GPU cannot exceed: a measured number beyond it is a mistake of the measurement.
//
// Limits come from the datasheet of the device where it has one, and from what all generations
// described here have in common: four sub-cores that issue one warp instruction a cycle each, 128
// bytes a cycle from L1 or shared memory. Clocks differ from the rated ones and datasheets round,
// so a tenth more is let through.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "model/device.hpp"

namespace tessera {

struct PhysicalLimit {
  std::string quantity;
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  std::string why;
};

/// In the units of the quantities; of those that the device's own numbers say something about.
std::vector<PhysicalLimit> physical_limits(const Device& device);

/// Why the value cannot be right; "" when it can.
std::string physical_problem(const Device& device, const std::string& quantity, double value);

}  // namespace tessera
