// The interface of a packed form of A: building it, its cost, and unpacking it.
//
// Contract: pack() takes a valid CsrMatrix and never changes it; unpack() returns exactly that
// matrix, explicit zeros and value bits included. A packed matrix is immutable once built.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

/// The column index of an unused column of a tile.
constexpr std::int32_t kNoColumn = -1;

/// One array of a packed matrix, as it is allocated.
struct ArrayInfo {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t value_bytes = 0;  // share of `bytes` for values of A and their padding; the rest is
                                 // index
  const void* data = nullptr;    // lives as long as the packed matrix
};

/// The ArrayInfo of a std::vector or an Array, which holds only values of A or none.
template <class Elements>
ArrayInfo array_info(std::string name, const Elements& array, bool holds_values = false) {
  const auto bytes = static_cast<std::int64_t>(array.size() * sizeof(*array.data()));
  return {std::move(name), static_cast<std::int64_t>(array.size()), bytes, holds_values ? bytes : 0,
          array.data()};
}

/// The tiles that a format cuts A into; all zero for a format without tiles.
struct TileInfo {
  int rows = 0;            // height of a tile
  int cols = 0;            // width of a tile, in condensed columns where the format condenses
  std::int64_t tiles = 0;  // number of stored tiles
  std::int64_t slots = 0;  // values stored in them, padding included (nnz when only nonzeros are)
};

class PackedMatrix {
 public:
  PackedMatrix(std::int32_t rows, std::int32_t cols, std::int64_t nnz)
      : rows_(rows), cols_(cols), nnz_(nnz) {}
  virtual ~PackedMatrix() = default;
  PackedMatrix(const PackedMatrix&) = delete;
  PackedMatrix& operator=(const PackedMatrix&) = delete;

  std::int32_t rows() const { return rows_; }
  std::int32_t cols() const { return cols_; }
  std::int64_t nnz() const { return nnz_; }

  /// The matrix that was packed, exactly.
  virtual CsrMatrix unpack() const = 0;
  /// Every array, the values included. The footprint of any format is the sum of their bytes.
  virtual std::vector<ArrayInfo> arrays() const = 0;
  virtual TileInfo tiles() const { return {}; }
  /// The place of `row` of A in the format, for finding a fault: "row window 3, TC blocks 17 to
  /// 20", and, where MMAs follow from the tiles, the step at which the row's sum begins.
  virtual std::string locate(std::int32_t row) const = 0;

 private:
  std::int32_t rows_;
  std::int32_t cols_;
  std::int64_t nnz_;
};

/// The tiles [begin, end) of one row window.
struct WindowTiles {
  const char* tile;  // the name of a tile in messages: "TC block"
  int height;        // rows of the window
  std::int64_t begin, end;
};

/// The text of locate() for a row in that window: "row window 3 (row 1 of it), TC blocks 17 to 20,
/// first nonzero of the row in TC block 18, MMA step 1 of the window". holds_row(tile) is true when
/// the tile has a nonzero of the row.
std::string locate_in_tiles(std::int32_t row, const WindowTiles& tiles,
                            const std::function<bool(std::int64_t tile)>& holds_row);

/// The limits of the packed forms' index types. A matrix that exceeds them takes tens of gigabytes:
/// tests lower the limits instead.
struct PackLimits {
  std::int64_t offset = 0xffffffff;            // largest offset into an array, of 32 bits
  std::int64_t bytes = std::int64_t{1} << 36;  // largest footprint a format may grow to by padding

  /// Throws Unsupported "bcsr counts values in 32 bits: 5000000000 of them do not fit".
  void require_offset(const char* format, const char* counted, std::int64_t count) const;
  /// Throws Unsupported with the bytes that padding would take.
  void require_bytes(const char* format, double bytes) const;
};

class Format {
 public:
  static constexpr const char* kKind = "format";
  virtual ~Format() = default;

  /// Throws an Error, with row and cause, for columns that are not ascending and distinct, and
  /// Unsupported when the matrix exceeds the limits. Parallel.
  std::unique_ptr<PackedMatrix> pack(const CsrMatrix& matrix, const PackLimits& limits = {}) const;

  /// The version of the format, part of a record's id. Raise it whenever the arrays or the speed of
  /// packing may have changed.
  virtual int version() const { return 1; }

 private:
  virtual std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                              const PackLimits& limits) const = 0;
};

/// The footprint of a packed matrix and the density of its tiles.
struct FormatStats {
  std::int64_t bytes = 0;        // footprint: all arrays, by sizeof
  std::int64_t index_bytes = 0;  // without the values
  TileInfo tile;
  double mean_nnz_per_tile = 0;  // MeanNNZTC for a tensor-core tile; 0 without tiles
  double tile_density = 0;       // share of a tile's cells that are nonzero; 0 without tiles
  double padding_ratio = 0;      // stored zeros per nonzero
};

FormatStats stats(const PackedMatrix& packed);

/// The packed matrix as the type a kernel reads; throws an Error when it is another format's.
template <class Packed>
const Packed& packed_as(const PackedMatrix& packed) {
  const auto* typed = dynamic_cast<const Packed*>(&packed);
  require(typed != nullptr, "the matrix is not packed as {}", Packed::kFormat);
  return *typed;
}

}  // namespace tessera
