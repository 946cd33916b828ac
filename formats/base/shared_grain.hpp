// The grain of parallel loops whose pieces take unequal times.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

/// A grain of parallel_for(), at least `least` and at most `most`, that divides n into 256 chunks:
/// with many threads, a chunk that takes long does not keep all of them waiting, and with few no
/// time is lost between chunks. A function of n alone, as a result that is collected per chunk
/// needs.
constexpr std::int64_t shared_grain(std::int64_t n, std::int64_t least, std::int64_t most) {
  return std::clamp(n / 256, least, most);
}

}  // namespace tessera
