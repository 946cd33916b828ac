// The interface of a packed form of A: how it is built, what it costs, how it is undone.
//
// Contract: pack() takes a valid CsrMatrix and never changes it; unpack() gives exactly that matrix
// back, explicit zeros and value bits included. A packed matrix is immutable once built.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

/// What stands for no column where a tile has places left over.
constexpr std::int32_t kNoColumn = -1;

/// One array of a packed matrix, as it is allocated.
struct ArrayInfo {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t value_bytes = 0;  // of them, for values of A and their padding; the rest is index
  const void* data = nullptr;    // lives as long as the packed matrix
};

/// Of a std::vector or an Array that holds values only, or none.
template <class Elements>
ArrayInfo array_info(std::string name, const Elements& array, bool holds_values = false) {
  const auto bytes = static_cast<std::int64_t>(array.size() * sizeof(*array.data()));
  return {std::move(name), static_cast<std::int64_t>(array.size()), bytes, holds_values ? bytes : 0,
          array.data()};
}

/// How a format cuts A up; all zero for a format without tiles.
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

  virtual CsrMatrix unpack() const = 0;
  /// Every array, the values included: the footprint is their sum, for every format by this one
  /// rule.
  virtual std::vector<ArrayInfo> arrays() const = 0;
  virtual TileInfo tiles() const { return {}; }
  /// Where `row` of A lives, for a person who looks for a fault: "row window 3, TC blocks 17 to
  /// 20"; and, where MMAs follow from the tiles, the step at which the row's sum begins.
  virtual std::string locate(std::int32_t row) const = 0;

 private:
  std::int32_t rows_;
  std::int32_t cols_;
  std::int64_t nnz_;
};

/// The tiles [begin, end) of one row window.
struct WindowTiles {
  const char* tile;  // what a person calls one: "TC block"
  int height;        // of the window
  std::int64_t begin, end;
};

/// What locate() says of a row in that window: "row window 3 (row 1 of it), TC blocks 17 to 20,
/// first nonzero of the row in TC block 18, MMA step 1 of the window".
std::string locate_in_tiles(std::int32_t row, const WindowTiles& tiles,
                            const std::function<bool(std::int64_t tile)>& holds_row);

/// What the index types of the packed forms hold. A matrix that exceeds them takes tens of
/// gigabytes: tests lower the limits instead.
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

  /// Raised whenever the arrays or the speed of packing may have changed: part of a record's id.
  virtual int version() const { return 1; }

 private:
  virtual std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                              const PackLimits& limits) const = 0;
};

/// What a packed matrix costs and how full its tiles are.
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
