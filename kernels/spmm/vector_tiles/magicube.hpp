// What magicube can be told; its host and its device half both go by this.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::magicube {

struct MagicubeOptions {
  explicit MagicubeOptions(const Params& params);

  bool int8;
  int stages;   // 0: by their size
  int columns;  // of a warp; 0: by the width of C

  /// Throws Unsupported where the format's stride is not the MMA's depth, and for INT8 where a
  /// window's sums might not fit into INT32.
  vector_tiles::Plan plan(const vector_tiles::Vectors& a, std::int64_t n) const;
};

}  // namespace tessera::magicube
