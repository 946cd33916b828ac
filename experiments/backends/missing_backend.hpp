// Why a backend cannot run here, for a process that starts others.
#pragma once

#include <string>

namespace tessera {

/// find_backend(name).missing. A process of its own finds it, since one that has looked at the GPU
/// cannot be forked any more; once, since the driver's start takes a part of a second.
const std::string& missing_backend(const std::string& name);

}  // namespace tessera
