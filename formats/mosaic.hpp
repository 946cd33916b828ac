// Mosaic, our own format: tall row windows of 8 x 8 bricks, for one fetch of a row of B per window.
//
// A condensed column costs a row of B, whatever the window's height, so that tall windows fetch
// least; a brick costs an MMA and its decoding, so that empty ones must not be stored. Windows are
// 8, 16, 32 or 64 rows high, chosen per matrix by that balance (choose_height) or given. Columns
// are condensed per window and taken eight at a time, a step: one 16-byte header says which of the
// step's height / 8 bricks exist and where their bitmaps and values begin. A window begins at a
// multiple of 16 bytes in every array, so that any run of its steps can be copied in bulk.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct Mosaic final : PackedMatrix {
  static constexpr const char* kFormat = "mosaic";
  static constexpr int kBrickRows = 8;
  static constexpr int kStepCols = 8;
  static constexpr std::int64_t kBrickAlign = 2;  // bitmaps in 16 bytes
  static constexpr std::int64_t kValueAlign = 4;  // values in 16 bytes

  /// Eight condensed columns of a window.
  struct Step {
    std::uint32_t first_brick;  // in `bitmaps`
    std::uint32_t first_value;  // in `values`
    std::uint32_t brick_mask;   // bit r: rows 8 r to 8 r + 7 of the window have a nonzero here
    std::uint32_t nonzeros;
    friend bool operator==(const Step&, const Step&) = default;
  };

  using PackedMatrix::PackedMatrix;

  int height = 0;                            // of a window: 8, 16, 32 or 64
  std::vector<std::uint32_t> window_offset;  // [windows + 1] first step of a window
  std::vector<std::int32_t> step_cols;       // [steps * 8] column of A, or kNoColumn
  std::vector<Step> steps;                   // [steps]
  std::vector<std::uint64_t> bitmaps;        // [bricks, even per window] bit 8 * row + column;
                                             // by step, then by row; 0 where padded
  std::vector<float> values;                 // [nnz, a multiple of four per window] by brick, then
                                             // by bit; 0 where padded

  std::int64_t num_windows() const { return static_cast<std::int64_t>(window_offset.size()) - 1; }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;  // bricks
  std::string locate(std::int32_t row) const override;
};

/// The footprint; bitmaps and values with their padding.
constexpr double mosaic_bytes(std::int64_t windows, std::int64_t steps, std::int64_t bitmaps,
                              std::int64_t values) {
  return 4.0 * static_cast<double>(windows + 1) + 48.0 * static_cast<double>(steps) +
         8.0 * static_cast<double>(bitmaps) + 4.0 * static_cast<double>(values);
}

/// What decides on the height: nonzeros and active columns, for windows of 8, 16, 32 and 64 rows,
/// of a sample of the matrix.
struct HeightSample {
  std::int64_t nonzeros = 0;
  std::int64_t active_cols[4] = {};
};

/// The sample is every n-th group of 64 rows, at most 63 of them: this n.
constexpr std::int64_t sample_stride(std::int64_t rows) {
  const std::int64_t groups = (rows + 63) / 64;
  return groups / 32 > 1 ? groups / 32 : 1;
}

/// The height with the least time for 128 columns of B on an H200, on the whole: 57 ps for every
/// row of B fetched (512 bytes at the 9 TB/s of gathers from L2), 65 ps for every brick (8 MMAs at
/// 313 TFLOP/s and 12 instructions of decoding). Bricks are expected ones, the nonzeros of a step
/// falling on its bricks at random.
int choose_height(const HeightSample& sample);

}  // namespace tessera
