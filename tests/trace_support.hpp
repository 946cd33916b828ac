// Shared by the tests of traces: whole warps, and the array of an address.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "formats/base/check.hpp"
#include "kernels/warp_trace.hpp"
#include "kernels/work.hpp"

namespace tessera {

/// The whole trace of a warp. Throws an Error where it has no end.
inline WarpTrace whole_warp(const LaunchTrace& launch, std::int64_t thread_block, int warp) {
  WarpTrace trace;
  WarpCursor cursor;
  for (int pieces = 0; launch.next(thread_block, warp, cursor, trace); ++pieces)
    require(pieces < 1'000'000, "warp {} of thread block {} has no end", warp, thread_block);
  return trace;
}

/// The sizes of the chunks of a warp's trace.
struct Pieces {
  std::size_t ops = 0, lines = 0;            // of all chunks
  std::size_t fewest_ops = 0, most_ops = 0;  // of a chunk
};

/// Measures the chunks of a warp's trace.
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

/// Calls visit(thread block, trace) for every warp; thread blocks are numbered over all launches.
template <class Visit>
void for_warps(const WorkDescription& work, Visit visit) {
  std::int64_t at = 0;
  for (const Launch& launch : work.launches)
    for (std::int64_t block = 0; block < launch.thread_blocks; ++block, ++at)
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp)
        visit(at, whole_warp(*launch.trace, block, warp));
}

/// The array that holds an address. Throws an Error where none does.
inline const AddressSpace::Array& array_of(const AddressSpace& memory, std::uint64_t address) {
  for (const AddressSpace::Array& array : memory.arrays())
    if (address >= array.begin &&
        address < array.begin + static_cast<std::uint64_t>(array.bytes + kSectorBytes - 1) /
                                    kSectorBytes * kSectorBytes)
      return array;
  throw Error(fmt::format("address {} lies in no array", address));
}

}  // namespace tessera
