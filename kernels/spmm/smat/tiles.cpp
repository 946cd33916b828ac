// The cut of blocks into tiles: one parallel loop finds the columns with nonzeros of all tiles,
// then the tiles that have some are listed strip by strip.

#include "kernels/spmm/smat/tiles.hpp"

#include <algorithm>
#include <array>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/tensor_core/conversions.hpp"

namespace tessera::smat {
namespace {

constexpr int kMostCells = 2 * kMmaRows * kDepth;

template <Conversion kConversion>
[[gnu::always_inline]] inline void to_16_bits(const float* __restrict cells,
                                              std::uint16_t* __restrict operands) {
  for (int i = 0; i < kMostCells; ++i) {
    const float operand = converted<kConversion>(cells[i]);
    operands[i] = kConversion == Conversion::kFp16
                      ? fp16_bits(operand)
                      : static_cast<std::uint16_t>(float_bits(operand) >> 16);
  }
}

/// The cells of a tile as operands of 16 bits.
TESSERA_VECTOR_CLONES
void operands_of(const float* cells, Conversion conversion, std::uint16_t* operands) {
  if (conversion == Conversion::kFp16)
    to_16_bits<Conversion::kFp16>(cells, operands);
  else
    to_16_bits<Conversion::kBf16>(cells, operands);
}

/// Bit k: one of `rows` rows, `stride` cells apart, has a value other than zero in column k.
TESSERA_VECTOR_CLONES
std::uint32_t cols_with_values(const float* cells, int rows, std::int64_t stride, int cols) {
  std::uint32_t any[kDepth] = {};
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col)
      any[col] |= float_bits(cells[row * stride + col]) & kMagnitudeBits;
  std::uint32_t bits = 0;
  for (int col = 0; col < cols; ++col) bits |= (any[col] != 0 ? 1u : 0u) << col;
  return bits;
}

std::int64_t ceil_div(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

}  // namespace

Tiles::Tiles(const Bcsr& a, bool read_padding)
    : a_(a),
      height_(a.block_rows > kMmaRows ? 2 * kMmaRows : kMmaRows),
      strips_per_row_(ceil_div(std::min(a.block_rows, std::max(a.rows(), 1)), height_)) {
  const std::int64_t chunks = ceil_div(std::min(a.block_cols, std::max(a.cols(), 1)), kDepth);
  std::vector<std::uint32_t> cols(a.num_blocks() * strips_per_row_ * chunks);
  const auto place = [&](std::int64_t block, std::int64_t strip, std::int64_t chunk) {
    return (block * strips_per_row_ + strip) * chunks + chunk;
  };
  parallel_for(a.num_blocks(), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int64_t strip = 0; strip < strips_per_row_; ++strip)
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
          cols[place(block, strip, chunk)] = tile(block, strip, chunk, read_padding).cols;
  });

  strip_offset_.reserve(a.num_block_rows() * strips_per_row_ + 1);
  strip_offset_.push_back(0);
  tiles_.reserve(cols.size() - std::ranges::count(cols, 0u));
  for (std::int64_t block_row = 0; block_row < a.num_block_rows(); ++block_row) {
    for (std::int64_t strip = 0; strip < strips_per_row_; ++strip) {
      for (std::int64_t block = a.block_row_offset[block_row];
           block < a.block_row_offset[block_row + 1]; ++block) {
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
          if (cols[place(block, strip, chunk)] == 0) continue;
          tiles_.push_back(tile(block, strip, chunk, true));
          tiles_.back().cols = cols[place(block, strip, chunk)];
        }
      }
      strip_offset_.push_back(static_cast<std::int64_t>(tiles_.size()));
    }
  }
}

int Tiles::num_rows(std::int64_t strip) const {
  const std::int64_t below = strip % strips_per_row_ * height_;
  const std::int64_t rows = std::min(
      {std::int64_t{height_}, a_.block_rows - below, std::int64_t{a_.rows()} - first_row(strip)});
  return static_cast<int>(std::max<std::int64_t>(rows, 0));
}

Tile Tiles::tile(std::int64_t block, std::int64_t strip, std::int64_t chunk,
                 bool read_padding) const {
  const std::int64_t row = strip * height_, col = chunk * kDepth;
  const std::int64_t b_row = std::int64_t{a_.block_col[block]} * a_.block_cols + col;
  const std::int64_t cols = std::min<std::int64_t>(kDepth, a_.block_cols - col);
  const std::int64_t in_b = std::clamp<std::int64_t>(a_.cols() - b_row, 0, cols);
  Tile tile{
      .first_cell = a_.cell(block, row, col),
      .b_row = in_b > 0 ? static_cast<std::int32_t>(b_row) : 0,
      .cols = (1u << in_b) - 1,
      .num_rows = static_cast<std::int16_t>(std::min<std::int64_t>(height_, a_.block_rows - row)),
      .num_cols = static_cast<std::int16_t>(cols)};
  if (!read_padding) tile.cols = cols_with_nonzeros(tile);
  return tile;
}

std::uint32_t Tiles::cols_with_nonzeros(const Tile& tile) const {
  std::uint32_t cols = cols_with_values(a_.values.data() + tile.first_cell, tile.num_rows,
                                        a_.block_cols, tile.num_cols);
  const auto& zeros = a_.explicit_zeros;
  const std::int64_t end = tile.first_cell + std::int64_t{tile.num_rows} * a_.block_cols;
  for (auto at = std::ranges::lower_bound(zeros, tile.first_cell); at != zeros.end() && *at < end;
       ++at) {
    const std::int64_t col = (*at - tile.first_cell) % a_.block_cols;
    if (col < tile.num_cols) cols |= 1u << col;
  }
  return cols;
}

void Tiles::copy_cells(const Tile& tile, float* cells) const {
  for (int row = 0; row < tile.num_rows; ++row)
    std::copy_n(a_.values.data() + tile.first_cell + std::int64_t{row} * a_.block_cols,
                tile.num_cols, cells + row * kDepth);
}

std::vector<float> Tiles::cells() const {
  const std::int64_t size = std::int64_t{height_} * kDepth;
  std::vector<float> cells(tiles_.size() * size);
  parallel_for(std::ssize(tiles_), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) copy_cells(tiles_[p], cells.data() + p * size);
  });
  return cells;
}

std::vector<std::uint32_t> Tiles::fragments(Conversion conversion) const {
  const int parts = height_ / kMmaRows, words = kLaneWords * parts;
  std::vector<std::uint32_t> fragments(tiles_.size() * 32 * words);
  parallel_for(std::ssize(tiles_), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      std::array<float, kMostCells> cells{};
      std::array<std::uint16_t, kMostCells> operands;
      copy_cells(tiles_[p], cells.data());
      operands_of(cells.data(), conversion, operands.data());
      for (int lane = 0; lane < 32; ++lane) {
        for (int word = 0; word < words; ++word) {
          const int row = word / kLaneWords * kMmaRows + lane / 4;
          const int col = 2 * (lane % 4) + 8 * (word % kLaneWords);
          const std::uint16_t* const pair = operands.data() + row * kDepth + col;
          fragments[(p * 32 + lane) * words + word] = pair[0] | std::uint32_t{pair[1]} << 16;
        }
      }
    }
  });
  return fragments;
}

}  // namespace tessera::smat
