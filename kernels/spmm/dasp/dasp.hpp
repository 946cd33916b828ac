// The options and the packing of dasp, which its host half and its device half share. See
// kernels/spmm/dasp/schedule.hpp for chunks, slots and places.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spmm/dasp/schedule.hpp"

namespace tessera::dasp {

constexpr std::int32_t kNoRow = -1;

struct DaspOptions {
  explicit DaspOptions(const Params& params);

  std::int64_t long_row;  // least nonzeros of a long row
  std::int64_t part;      // most nonzeros of a long row that a warp takes
};

/// The work of a warp: chunks [first, last).
struct alignas(16) Task {
  enum Kind : std::uint32_t {
    kLong,    // all slots are of one row; the sum is part `index` of all parts of long rows
    kMedium,  // slot g is of row `rows[index + g]`
    kShort,   // slot g has rows `rows[index + g]` and `rows[index + 8 + g]`, four places each
  };
  std::uint32_t first, last;
  Kind kind;
  std::uint32_t index;
};

/// A long row. Its parts follow each other.
struct LongRow {
  std::int32_t row;
  std::uint32_t first_part, parts;
};

/// A in chunks. The kernel packs CSR when A is uploaded.
struct Packing {
  Packing(const CsrMatrix& a, const DaspOptions& options);

  std::vector<Task> tasks;                // long rows, medium rows (longest first), short rows
  std::vector<std::int32_t> rows;         // of the slots of medium and short tasks, or kNoRow
  std::vector<LongRow> long_rows;         // [long rows]
  std::int64_t num_parts = 0;             // of all long rows
  std::vector<std::int64_t> nonzeros;     // [chunks * kPlaces] index in A, or -1
  std::vector<std::int32_t> col_indices;  // [chunks * kPlaces] column of A, or kNoColumn

  std::int64_t num_chunks() const { return std::ssize(nonzeros) / kPlaces; }

 private:
  void add_long(const CsrMatrix& a, std::int32_t row, std::int64_t part);
  void add_medium(const CsrMatrix& a, std::vector<std::int32_t> of_class);
  void add_short(const CsrMatrix& a, const std::vector<std::int32_t>& of_class);
  /// Adds an empty chunk and returns its index.
  std::uint32_t add_chunk();
  void put(std::uint32_t chunk, int slot, int place, const CsrMatrix& a, std::int64_t nonzero);
};

/// The instance for n columns of B. Throws Unsupported where there is none.
const Instance& instance_for(std::int64_t n);

}  // namespace tessera::dasp
