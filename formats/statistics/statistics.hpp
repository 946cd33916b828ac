// The statistics of a matrix before packing: row lengths, band, tiles, row windows, and the papers'
// figures of merit that follow from them.
//
// Sources: MeanNNZTC (mean nonzeros of a TC block), DTC-SpMM (Fan et al., ASPLOS 2024);
// TCU-Synergy, cuTeSpMM section 6.4; IBD, Acc-SpMM equation (3); blocks per block row, SMaT; bitmap
// density, tSparse, Table 1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/statistics/histogram.hpp"

namespace tessera {

/// The distribution of a count over rows, windows or block rows. stddev is that of the population.
struct Spread {
  std::int64_t min = 0;
  std::int64_t max = 0;
  double mean = 0;
  double stddev = 0;

  /// Coefficient of variation: stddev / mean; 0 when the mean is.
  double cv() const { return mean > 0 ? stddev / mean : 0; }
};

/// The nonempty tiles of a regular grid on A, without condensing: the blocks that BCSR would store.
struct TileCount {
  int rows = 0;
  int cols = 0;
  std::int64_t tiles = 0;
  Spread per_block_row = {};
  Histogram per_block_row_histogram = {};
};

/// The nonzeros of a nonempty 8 x 8 tile, which tSparse calls bitmap density (Table 1).
struct TileFill {
  double median = 0;  // the mean of the two middle values where the number of tiles is even
  double mean = 0;
  double stddev = 0;  // of the population
};

/// Row windows of one height, each condensed on its own: empty columns dropped, the active ones
/// packed left, and cut into TC blocks eight wide.
struct WindowCount {
  int height = 0;
  std::int64_t windows = 0;
  std::int64_t active_cols = 0;  // summed over windows
  std::int64_t tc_blocks = 0;    // of height x 8, summed over windows
  double mean_nnz_tc = 0;        // MeanNNZTC: nonzeros per TC block; 0 without any
  /// IBD of the TC blocks per window, Acc-SpMM equation (3): mean of |blocks - mean blocks|.
  double ibd = 0;
};

/// TCU-Synergy, cuTeSpMM section 6.4: alpha is the density of a nonempty 16 x 4 brick of condensed
/// columns.
struct Synergy {
  std::int64_t bricks = 0;
  double alpha = 0;           // nnz / (64 bricks); 0 without bricks
  std::string level = "low";  // low: alpha < 12.5 %, medium: < 25 %, high
};

/// The bytes that a format would take for A, by its closed form
/// (formats/statistics/footprint_formula.hpp).
struct PredictedFootprint {
  std::string format;  // with a suffix where it has other parameters than the defaults
  std::int64_t index_bytes = 0;
  std::int64_t bytes = 0;  // with values
};

struct MatrixStatistics {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  Spread row_length = {};
  std::int64_t empty_rows = 0;
  std::int64_t bandwidth = 0;  // largest |i - j| of a nonzero
  std::int64_t profile = 0;    // sum over rows i of i - (first column), where that is positive
  bool symmetric_pattern = false;
  std::vector<TileCount> tiles = {};      // 8x8, 16x8, 16x16
  std::vector<WindowCount> windows = {};  // heights 8, 16, 32, 64, 128
  TileFill tile_fill = {};
  Synergy synergy = {};
  std::vector<PredictedFootprint> footprints = {};  // in the default parameters of the formats
};

constexpr std::array<int, 5> kWindowHeights{8, 16, 32, 64, 128};

/// All statistics of a matrix, in one parallel pass over the nonzeros and one for the symmetry.
/// Working memory is about a dozen bytes per row.
MatrixStatistics statistics(const CsrMatrix& matrix);

/// Counts the nonempty tiles of tile_rows x tile_cols. Throws an Error unless both are positive.
TileCount count_tiles(const CsrMatrix& matrix, int tile_rows, int tile_cols);

/// True when A and A^T have the same pattern; false for a rectangular matrix.
bool has_symmetric_pattern(const CsrMatrix& matrix);

}  // namespace tessera
