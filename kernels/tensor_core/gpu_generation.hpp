// Which tensor cores the GPU has, by its compute capability.
#pragma once

#include <string>

namespace tessera {

/// "hopper" for 9.0; empty where the arithmetic is not known.
std::string generation_of(int major, int minor);

/// Of the current GPU. Throws Unsupported for a generation this project has no arithmetic of.
std::string gpu_generation();

}  // namespace tessera
