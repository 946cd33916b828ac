// The generation of a GPU's tensor cores, by its compute capability.
#pragma once

#include <string>

namespace tessera {

/// The generation of a compute capability, "hopper" for 9.0; empty where its arithmetic is unknown.
std::string generation_of(int major, int minor);

/// The generation of the current GPU. Throws Unsupported when its arithmetic is unknown here.
std::string gpu_generation();

}  // namespace tessera
