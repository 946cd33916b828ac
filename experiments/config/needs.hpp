// The GPU and the matrix files that a config needs, derived from its backends and matrices.
#pragma once

#include "experiments/config/config.hpp"

namespace tessera {

struct Needs {
  bool gpu = false;  // one of its backends needs one
  int files = 0;     // different matrices that are files, or made of one
  int absent = 0;    // those of them that this machine does not have
};

Needs needs_of(const Config& config);

/// "GPU; 24 files", "GPU to measure", "nothing".
std::string to_text(const Needs& needs, const Config& config);

/// Those of a config, in the order in which it first names them.
std::vector<std::string> matrices_of(const Config& config);

}  // namespace tessera
