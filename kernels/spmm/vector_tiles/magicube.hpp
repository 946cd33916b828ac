// The options of magicube, which its host half and its device half share.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::magicube {

struct MagicubeOptions {
  using Packed = SrBcrs;  // the format that magicube reads

  explicit MagicubeOptions(const Params& params);

  bool int8;
  int stages;   // in shared memory, of a warp; 0: by their size
  int columns;  // of C, of a warp; 0: by the width of C

  /// Throws Unsupported where the format's stride is not the depth of the MMA, and for INT8 where
  /// the sums of a window might not fit into INT32.
  vector_tiles::Plan plan(const vector_tiles::Vectors& a, std::int64_t n) const;
};

}  // namespace tessera::magicube
