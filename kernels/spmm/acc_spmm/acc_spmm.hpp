// How acc_spmm cuts C up and what it can be told; its host and its device half both go by this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "kernels/device/copy_cache.hpp"
#include "kernels/device/store_operator.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window_launch.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::acc_spmm {

using namespace row_windows;

/// What says where the nonzeros of a TC block are.
enum class NonzeroEncoding {
  kBitmap,  // BitTCF: a bit for each place
  kBytes,   // ME-TCF: a byte for each nonzero
};

/// Where a warp gets rows of B from, and when.
enum class Pipeline {
  kStaged,     // whole rows to stages in shared memory, asynchronously
  kRegisters,  // each lane the elements it multiplies
  // The same, while TC blocks of A go through two buffers in shared memory:
  kLeastBubble,  // a TC block ahead
  kDtc,          // when they are needed
};

struct AccSpmmOptions {
  explicit AccSpmmOptions(const Params& params);

  Precision precision;
  NonzeroEncoding encoding;
  Pipeline pipeline;
  int stages;   // of a warp; staged
  int columns;  // of C that a warp computes at a time; 0: by the width of C
  CopyCache cache;
  Store store;
  std::string balance;
  std::int64_t max_blocks;
  Combine combine;

  /// Groups of 32 columns of a warp: 1, 2 or 4.
  int groups(std::int64_t n) const;
  /// Whether warps have equal shares of TC blocks, of several windows.
  bool equal_shares() const { return balance == "dtc"; }
  window_tasks::Tasks cut(window_tasks::WindowOffsets windows) const;
  /// Of a thread block. Bytes.
  std::int64_t shared_bytes(std::int64_t n) const;

 private:
  /// Throws Unsupported for what there is no kernel for.
  void require_compiled() const;
};

std::vector<ParamSpec> params();

constexpr int kTileCells = window_tile::kWindowRows * window_tile::kTileCols;

/// What a warp of least_bubble and dtc has in shared memory: two TC blocks of A, and the columns
/// that they stand for.
struct Buffers {
  float cells[2][kTileCells];
  std::int32_t rows[2][window_tile::kTileCols];
};

}  // namespace tessera::acc_spmm
