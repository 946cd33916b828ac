// HRPB (cuTeSpMM, section 3.2, figures 3 to 5): row panels of TM rows, condensed columns in blocks
// of TK, each block cut into 16 x 4 bricks with a 64-bit pattern. A block is contiguous in a byte
// stream, brick columns one after another (CSC), so that a thread block copies it in bulk.
//
// Departures: the arrays of a block hold the non-empty bricks only, as the text says; figure 4 has
// room for all bricks. A block begins and ends at a multiple of 16 bytes, the unit of bulk copies.
// Line 19 of algorithm 1 reads active_cols from the block; here they are an array of their own, as
// in figure 5, since B is loaded before the block is unpacked. The footprint is that of the stream
// (see Layout) plus 4 (panels + 2 + (TK + 1) blocks) bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct Hrpb final : PackedMatrix {
  static constexpr const char* kFormat = "hrpb";
  static constexpr int kBrickRows = 16;
  static constexpr int kBrickCols = 4;
  static constexpr std::int64_t kAlign = 16;

  /// The byte offsets of a block's arrays from its first byte; little-endian, gaps are 0:
  ///
  ///   0            col_ptr   u32 [TK / 4 + 1]  first brick of a brick column; the last one counts
  ///   patterns()   patterns  u64 [bricks]      bit 4 * row + col of the brick
  ///   rows()       rows      u32 [bricks]      brick row in the block, 0 to TM / 16 - 1
  ///   values()     nnz_array f32 [nonzeros]    by brick, then by bit
  ///   size()       the next block
  ///
  /// patterns() is aligned to 8 bytes, size() to 16. Bricks are sorted by column, then by row;
  /// empty bricks are absent. Lane l of m16n8k4 holds the elements of bits l (a0: row l / 4, column
  /// l % 4) and l + 32 (a1: eight rows below). The rank of an element's value in its brick is the
  /// number of lower bits set.
  struct Layout {
    int tile_cols;  // TK
    std::int64_t bricks;
    std::int64_t nonzeros;

    static constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t to) {
      return (bytes + to - 1) / to * to;
    }
    constexpr std::int64_t patterns() const {
      return round_up(4 * (tile_cols / kBrickCols + 1), 8);
    }
    constexpr std::int64_t rows() const { return patterns() + 8 * bricks; }
    constexpr std::int64_t values() const { return rows() + 4 * bricks; }
    constexpr std::int64_t size() const { return round_up(values() + 4 * nonzeros, kAlign); }
  };

  /// Reads one block of the stream.
  struct Block {
    const std::uint8_t* bytes;
    int tile_cols;

    std::uint32_t col_ptr(int brick_col) const { return read<std::uint32_t>(4 * brick_col); }
    std::int64_t bricks() const { return col_ptr(tile_cols / kBrickCols); }
    std::uint64_t pattern(std::int64_t brick) const {
      return read<std::uint64_t>(layout().patterns() + 8 * brick);
    }
    int row(std::int64_t brick) const {
      return static_cast<int>(read<std::uint32_t>(layout().rows() + 4 * brick));
    }
    float value(std::int64_t nonzero) const { return read<float>(layout().values() + 4 * nonzero); }

   private:
    Layout layout() const { return {tile_cols, bricks(), 0}; }
    template <class T>
    T read(std::int64_t at) const {
      T element;
      std::memcpy(&element, bytes + at, sizeof(T));
      return element;
    }
  };

  using PackedMatrix::PackedMatrix;

  int tile_rows = 0;  // TM
  int tile_cols = 0;  // TK
  std::int64_t num_bricks = 0;
  std::vector<std::uint8_t> packed_blocks;     // [size_ptr.back()] the blocks, one after another
  std::vector<std::uint32_t> blocked_row_ptr;  // [num_row_panels + 1] first block of a row panel
  std::vector<std::int32_t> active_cols;       // [num_blocks * TK] column of A, or kNoColumn
  std::vector<std::uint32_t> size_ptr;         // [num_blocks + 1] first byte of a block

  std::int64_t num_row_panels() const { return std::ssize(blocked_row_ptr) - 1; }
  std::int64_t num_blocks() const { return std::ssize(size_ptr) - 1; }
  Block block(std::int64_t index) const {
    return {packed_blocks.data() + size_ptr[index], tile_cols};
  }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;  // bricks
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
