// The physical limits of a GPU: a measured number beyond a limit is an error of the measurement.
//
// Limits follow from the device's datasheet numbers and from properties of all generations
// described here: four sub-cores that issue one warp instruction per cycle each, 128 bytes per
// cycle from L1 or shared memory. Clocks differ from the rated ones and datasheets round, so values
// up to 10 % beyond a limit are accepted.
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

/// The limits of the quantities that the device's numbers restrict, in the units of the quantities.
std::vector<PhysicalLimit> physical_limits(const Device& device);

/// The reason why the value cannot be right; "" when it can.
std::string physical_problem(const Device& device, const std::string& quantity, double value);

}  // namespace tessera
