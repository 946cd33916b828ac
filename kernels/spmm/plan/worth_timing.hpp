// Which candidates of a plan are worth packing and timing: those whose formula does not rule them
// out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/base/choice.hpp"

namespace tessera {

/// Why a candidate is not worth it: by the formulas of an H200 it takes more than `most` times as
/// long as the fastest of the others. Empty where it is, where it has no formula for these
/// parameters, where no other has one, and where the file of that device is not installed.
std::string too_slow(const std::vector<CountedKernel>& candidates, std::size_t index, double most);

}  // namespace tessera
