// Mosaic, our own format: tall row windows of 8 x 8 bricks, for one fetch of a row of B per window.
//
// A condensed column costs a row of B at any window height, so tall windows fetch the fewest rows;
// a brick costs an MMA and its decoding, so empty bricks are not stored. Windows are 8, 16, 32 or
// 64 rows high: 16 where nothing is said, or by that balance (choose_height). Columns are condensed
// per window; eight of them form a step. A step's 16-byte header gives which of its height / 8
// bricks exist and where their bitmaps and values begin. A window begins at a multiple of 16 bytes
// in every array, so that any range of its steps can be copied in bulk.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/format.hpp"
#include "formats/me_tcf.hpp"

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

  int height = 0;                            // rows of a window: 8, 16, 32 or 64
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

/// The same windows with a byte per nonzero: a step is a TC block. Throws an Error for windows of
/// more than 16 rows.
std::unique_ptr<MeTcf> to_me_tcf(const Mosaic& a);

/// The footprint in bytes; `bitmaps` and `values` count their padding.
constexpr double mosaic_bytes(std::int64_t windows, std::int64_t steps, std::int64_t bitmaps,
                              std::int64_t values) {
  return 4.0 * static_cast<double>(windows + 1) + 48.0 * static_cast<double>(steps) +
         8.0 * static_cast<double>(bitmaps) + 4.0 * static_cast<double>(values);
}

/// The counts of a sample of the matrix that the choice of the height depends on.
struct HeightSample {
  std::int64_t nonzeros = 0;
  std::int64_t active_cols[4] = {};  // for windows of 8, 16, 32 and 64 rows
};

/// The stride of the sample in groups of 64 rows; the sample has at most 63 groups.
constexpr std::int64_t sample_stride(std::int64_t rows) {
  const std::int64_t groups = (rows + 63) / 64;
  return groups / 32 > 1 ? groups / 32 : 1;
}

/// The height in rows with the least estimated time for 128 columns of B on an H200: 57 ps for each
/// row of B (512 bytes at the 9 TB/s of gathers from L2) and 65 ps for each brick (8 MMAs at
/// 313 TFLOP/s and 12 instructions of decoding). The number of bricks is its expectation when the
/// nonzeros of a step fall on its bricks at random.
int choose_height(const HeightSample& sample);

}  // namespace tessera
