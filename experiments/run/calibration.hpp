// Turns the findings of micro-benchmarks into a described device.
#pragma once

#include <string>
#include <vector>

#include "model/calibration/microbenchmark.hpp"
#include "model/device.hpp"

namespace tessera {

/// The device that the device file starts from: the shipped device `name`, or, when that is empty,
/// the one whose title starts with the GPU's name, or else a device without numbers. Throws an
/// Error for an unknown name, and Unsupported for a GPU of a generation that device files do not
/// know.
Device device_to_calibrate(const std::string& name, const std::string& gpu_name,
                           const std::string& generation, const std::string& compute_capability);

/// Puts the numbers, with four significant digits, into [measured]; a number that the datasheet
/// already states is left to it. Returns what is physically impossible, which is not taken.
std::vector<std::string> take_numbers(Device& device, const std::vector<Finding>& numbers,
                                      const std::string& source);

/// "1965 to 1980 MHz", or one number when both round to it.
std::string clock_range(double before_mhz, double after_mhz);

/// The curve as CSV. Throws an Error for a row with another number of cells than columns.
std::string curve_csv(const Curve& curve);

}  // namespace tessera
