// How dasp packs A and what its warps do; its host and its device half both go by this.
//
// A chunk is the A operand of an MMA: eight slots of eight places, slot g in the g-th column of
// m16n8k8. Lane 4g + t holds places 2t and 2t + 1 of slot g, and so they are stored. The product of
// slot g is on the diagonal: lane 4g + g / 2 has it for two columns of B.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"

namespace tessera::dasp {

constexpr int kWarps = 4;  // per thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kMaxCols = 8;
constexpr int kSlots = 8, kDepth = 8;  // of a chunk
constexpr int kPlaces = kSlots * kDepth;
constexpr int kShortRow = kDepth / 2;  // nonzeros at most: a slot has two such rows
constexpr std::int32_t kNoRow = -1;

/// Where nonzero `place` of a slot is in its chunk.
constexpr int place_of(int slot, int place) { return (4 * slot + place / 2) * 2 + place % 2; }

struct Options {
  explicit Options(const Params& params);

  std::int64_t long_row;  // nonzeros from which on a row is long
  std::int64_t part;      // nonzeros of a long row that a warp takes at most
};

/// What a warp does: chunks [first, last).
struct alignas(16) Task {
  enum Kind : std::uint32_t {
    kLong,    // all slots are of one row; the sum is part number `index` of the long rows'
    kMedium,  // slot g is of row `rows[index + g]`
    kShort,   // slot g has rows `rows[index + g]` and `rows[index + 8 + g]`, four places each
  };
  std::uint32_t first, last;
  Kind kind;
  std::uint32_t index;
};

/// A row of several parts, which follow each other.
struct LongRow {
  std::int32_t row;
  std::uint32_t first_part, parts;
};

struct Packing {
  Packing(const CsrMatrix& a, const Options& options);

  std::vector<Task> tasks;                // long rows, then medium rows from the longest on, short
  std::vector<std::int32_t> rows;         // of medium and short tasks' slots, or kNoRow
  std::vector<LongRow> long_rows;         //
  std::int64_t num_parts = 0;             // of all long rows
  std::vector<std::int64_t> nonzeros;     // [chunks * kPlaces] place in A, or -1
  std::vector<std::int32_t> col_indices;  // [chunks * kPlaces] column of A, or kNoColumn

  std::int64_t num_chunks() const { return std::ssize(nonzeros) / kPlaces; }

 private:
  void add_long(const CsrMatrix& a, std::int32_t row, std::int64_t part);
  void add_medium(const CsrMatrix& a, std::vector<std::int32_t> of_class);
  void add_short(const CsrMatrix& a, const std::vector<std::int32_t>& of_class);
  /// An empty one.
  std::uint32_t add_chunk();
  void put(std::uint32_t chunk, int slot, int place, const CsrMatrix& a, std::int64_t nonzero);
};

/// MMAs for n columns of B, two each.
constexpr int num_mmas(std::int64_t n) { return static_cast<int>(n + 1) / 2; }

/// Throws Unsupported for more columns of B than kMaxCols.
void require_cols(std::int64_t n);

}  // namespace tessera::dasp
