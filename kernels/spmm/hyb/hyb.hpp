// The options and the packing of hyb_spmm, which its host half and its device half share. See
// kernels/spmm/hyb/hyb.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spmm/hyb/schedule.hpp"

namespace tessera::hyb {

struct HybOptions {
  explicit HybOptions(const Params& params);

  std::int64_t partitions;  // of A's columns
  std::int64_t widest;      // log2 of the entries of the widest ELL rows; -1: by the mean row
  std::int64_t coarsen;     // columns of C of a lane, at most

  /// Columns of C of a lane for a B of n columns.
  int coarsen_for(std::int64_t n) const;
};

/// A row of an ELL matrix: part of a row of C.
struct alignas(8) EllRow {
  std::int32_t row;
  std::uint32_t slot;  // 0: the whole row; else 1 + the slot of its sums
};

/// The work of a warp: ELL rows [first_row, first_row + rows) of one bucket, 2^log_width entries
/// each, at most 2^k in all.
struct alignas(16) Task {
  std::uint32_t first_row, rows, first_entry, log_width;
};

/// A row of C that the first launch leaves: without a nonzero, or of several parts, whose slots
/// follow each other.
struct FinishedRow {
  std::int32_t row;
  std::uint32_t first_slot, parts;
};

/// A in the format hyb(c, k). The kernel packs CSR when A is uploaded.
struct Packing {
  /// Throws Unsupported for more entries than 32 bits count.
  Packing(const CsrMatrix& a, const HybOptions& options);

  int widest;                              // k
  std::vector<EllRow> rows;                // by partition, then by bucket
  std::vector<Task> tasks;                 // in the same order
  std::vector<std::int64_t> nonzeros;      // [entries] index in A, or -1
  std::vector<std::int32_t> col_indices;   // [entries] see row_to_read
  std::vector<FinishedRow> finished_rows;  // by row
  std::int64_t num_slots = 0;

  std::int64_t entries() const { return std::ssize(nonzeros); }
  std::int64_t bytes() const;
};

}  // namespace tessera::hyb
