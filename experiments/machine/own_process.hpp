// A computation in a process of its own.
//
// CUDA cannot be used in a child of a process that has used it, and every worker is such a child:
// the process that starts workers asks about GPUs through here only.
#pragma once

#include <functional>

#include "experiments/points/point.hpp"

namespace tessera {

/// Returns the result of `compute`. Throws an Error with the message that it threw, or with the way
/// the process died.
Json in_own_process(const std::function<Json()>& compute);

}  // namespace tessera
