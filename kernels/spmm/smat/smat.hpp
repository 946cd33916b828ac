// The options of smat, which its host half and its device half share.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/base/params.hpp"
#include "kernels/spmm/smat/schedule.hpp"
#include "kernels/spmm/smat/tiles.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::smat {

struct SmatOptions {
  Rung rung = Rung::kCbt;
  Precision precision;
  bool read_padding = false;
  int warp_cols = 0;  // columns of C of a warp; 0: by the width of B
  int stages = 0;     // of a warp, on rung cbt

  explicit SmatOptions(const Params& params);

  bool on_tensor_cores() const { return smat::on_tensor_cores(rung); }
  bool by_blocks() const { return smat::by_blocks(rung); }
  /// Columns of C of a warp, where B has n and strips have `height` rows.
  int cols_of_warp(std::int64_t n, int height) const;
  /// Index in kInstances of the instance for n columns and strips of `height` rows. Throws
  /// Unsupported where there is none.
  std::size_t instance(std::int64_t n, int height) const;
  /// Shared memory of a thread block.
  std::int64_t shared_bytes(std::int64_t n, int height) const {
    return rung == Rung::kCbt ? kWarps * stages * stage_bytes(cols_of_warp(n, height), height) : 0;
  }
};

}  // namespace tessera::smat
