// Entries in file order -> CSR: the one builder behind every reader.
//
// Parallel and the same at any number of threads: every piece of work owns a range of rows and
// scans all entries in file order, so no two threads write one row and order needs no locks.
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

/// What entry (i, j) says about (j, i): nothing, the same value, or its negative.
enum class Mirror { kNone, kSame, kNegated };

struct Entries {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  bool pattern = false;  // positions without values: all ones, also where one is given twice
  Mirror mirror = Mirror::kNone;
  std::vector<EntryBlock> blocks;
};

/// Duplicates are summed in double, in file order; explicit zeros stay. Takes the entries' memory.
/// Throws an Error that opens with `name` when a sum does not fit FP32.
CsrMatrix build_csr(Entries entries, std::string_view name);

/// Sorts each row and merges duplicates, for files that are compressed rows already. The arrays
/// must fit each other and the indices must be in range.
CsrMatrix finish_rows(std::int32_t rows, std::int32_t cols, std::vector<std::int64_t> offsets,
                      std::vector<std::int32_t> col_indices, std::vector<float> values,
                      bool pattern, std::string_view name);

/// Refuses a row count that the entries cannot justify, before row offsets are allocated for it:
/// more than 2^24 rows with more than 255 of 256 empty. A few bytes could claim 16 GiB otherwise.
void require_plausible_rows(std::int64_t rows, std::int64_t entries, std::string_view name);

}  // namespace tessera
