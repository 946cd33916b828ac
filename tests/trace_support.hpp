// What tests of traces share: warps as wholes, and the array that an address is in.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "formats/base/check.hpp"
#include "kernels/warp_trace.hpp"
#include "kernels/work.hpp"

namespace tessera {

/// All of a warp, in one piece. Throws an Error where it has no end.
inline WarpTrace whole_warp(const LaunchTrace& launch, std::int64_t thread_block, int warp) {
  WarpTrace trace;
  WarpCursor cursor;
  for (int pieces = 0; launch.next(thread_block, warp, cursor, trace); ++pieces)
    require(pieces < 1'000'000, "warp {} of thread block {} has no end", warp, thread_block);
  return trace;
}

/// Calls visit(thread block of all, trace) for every warp.
template <class Visit>
void for_warps(const WorkDescription& work, Visit visit) {
  std::int64_t at = 0;
  for (const Launch& launch : work.launches)
    for (std::int64_t block = 0; block < launch.thread_blocks; ++block, ++at)
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp)
        visit(at, whole_warp(*launch.trace, block, warp));
}

/// The array whose sectors an address is in. Throws an Error where it is in none.
inline const AddressSpace::Array& array_of(const AddressSpace& memory, std::uint64_t address) {
  for (const AddressSpace::Array& array : memory.arrays())
    if (address >= array.begin &&
        address < array.begin + static_cast<std::uint64_t>(array.bytes + kSectorBytes - 1) /
                                    kSectorBytes * kSectorBytes)
      return array;
  throw Error(fmt::format("address {} lies in no array", address));
}

}  // namespace tessera
