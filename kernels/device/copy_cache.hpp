// The caches that an asynchronous copy of a row of B passes through.
#pragma once

namespace tessera {

/// kL1: cp.async.ca, through the L1 and the L2; kL2: cp.async.cg, through the L2 alone.
enum class CopyCache { kL1, kL2 };

}  // namespace tessera
