// What tests of traces share: warps as wholes, and the array that an address is in.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
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

/// What a warp is handed out as.
struct Pieces {
  std::size_t ops = 0, lines = 0;            // of all
  std::size_t fewest_ops = 0, most_ops = 0;  // of one
};

/// The pieces of a warp, each in a trace of its own.
inline Pieces pieces_of(const LaunchTrace& launch, std::int64_t thread_block, int warp) {
  Pieces pieces{.fewest_ops = SIZE_MAX};
  WarpTrace piece;
  WarpCursor cursor;
  for (bool more = true; more;) {
    piece.clear();
    more = launch.next(thread_block, warp, cursor, piece);
    pieces.ops += piece.ops.size();
    pieces.lines += piece.lines.size();
    pieces.fewest_ops = std::min(pieces.fewest_ops, piece.ops.size());
    pieces.most_ops = std::max(pieces.most_ops, piece.ops.size());
  }
  return pieces;
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
