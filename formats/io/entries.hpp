// Builds CSR from entries in file order, for every reader.
//
// It is parallel, and the same at any number of threads: every task owns a range of rows and scans
// all entries in file order, so no two threads write one row and the order needs no locks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Consecutive entries of a file, indices counted from 0.
struct EntryBlock {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> cols;
  std::vector<float> values;  // empty when the file gives positions only

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
};

/// The entry (j, i) that (i, j) implies: none, one of the same value, or one of its negative.
enum class Mirror { kNone, kSame, kNegated };

struct Entries {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  bool pattern = false;  // positions without values: all ones, duplicates too
  Mirror mirror = Mirror::kNone;
  std::vector<EntryBlock> blocks;
};

/// The matrix of the entries. Duplicates are summed in double, in file order; explicit zeros stay.
/// Frees the entries as it reads them. Throws an Error that opens with `name` when a sum does not
/// fit FP32.
CsrMatrix build_csr(Entries entries, std::string_view name);

/// Sorts each row and merges duplicates, for files that hold compressed rows. `offsets` [rows + 1]
/// must ascend from 0 to the number of columns and values, and indices must be in range.
CsrMatrix finish_rows(std::int32_t rows, std::int32_t cols, std::vector<std::int64_t> offsets,
                      std::vector<std::int32_t> col_indices, std::vector<float> values,
                      bool pattern, std::string_view name);

/// Throws an Error for an implausible number of rows, before row offsets are allocated: more than
/// 2^24 rows with more than 255 of 256 empty. Otherwise a file of a few bytes could claim 16 GiB.
void require_plausible_rows(std::int64_t rows, std::int64_t entries, std::string_view name);

}  // namespace tessera
