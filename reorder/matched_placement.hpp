// The pattern of a matrix with its rows in an order, and the positions that hold each column, for
// the steps of matched_steps.hpp.
#pragma once

#include <cstdint>
#include <utility>

#include "formats/base/check.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

/// Throws Unsupported unless the nonzeros can be counted in 32 bits and the rows moved in pairs.
inline void require_fits(const char* order, std::int32_t rows, std::int64_t nnz) {
  constexpr std::int64_t kMostNonzeros = 0x7fffffff, kMostRows = 0x40000000;
  require<Unsupported>(nnz <= kMostNonzeros && rows <= kMostRows,
                       "{} takes at most {} nonzeros and {} rows, not {} and {}", order,
                       kMostNonzeros, kMostRows, nnz, rows);
}

template <class Exec>
class Placement {
 public:
  template <class T>
  using Array = typename Exec::template Array<T>;

  Placement(Exec& exec, const Pattern& pattern)
      : exec_(exec),
        pattern_(pattern),
        offsets_(exec.template array<std::uint32_t>(pattern.rows + std::int64_t{1})),
        cols_(exec.template array<std::int32_t>(pattern.nnz)),
        row_places_(exec.template array<RowPlace>(pattern.rows)),
        col_offsets_(exec.template array<std::uint32_t>(pattern.cols + std::int64_t{1})),
        holders_(exec.template array<std::int32_t>(pattern.nnz)),
        rows_(exec.template array<std::int32_t>(pattern.nnz)),
        places_(exec.template array<std::uint32_t>(pattern.nnz)),
        sorted_(exec.template array<std::uint32_t>(pattern.nnz)) {}

  /// Bytes of the arrays, the sort of nonzeros included.
  static std::int64_t bytes(std::int64_t rows, std::int64_t cols, std::int64_t nnz) {
    return 12 * rows + 4 * cols + 40 * nnz;
  }

  /// Puts the pattern in an order [rows], the first time in that of the file. What it returns is
  /// that of the last call.
  Placed put(const std::int32_t* order) {
    exec_.phase("place rows");
    const bool is_first = !std::exchange(knows_columns_, true);
    exec_.running_sum(LengthOfRow{pattern_, order}, offsets_.data(),
                      pattern_.rows + std::int64_t{1});
    auto positions = exec_.template array<std::int32_t>(is_first ? pattern_.nnz : 0);
    exec_.for_teams(pattern_.rows,
                    GatherRow{pattern_, order, offsets_.data(), cols_.data(), row_places_.data(),
                              is_first ? positions.data() : nullptr});
    exec_.phase(is_first ? "sort nonzeros by column" : "place columns");
    if (is_first) {
      exec_.sort_by_column(cols_.data(), pattern_.nnz, pattern_.cols, sorted_.data());
      exec_.for_each(pattern_.cols + std::int64_t{1},
                     FindColumn{cols_.data(), sorted_.data(), pattern_.nnz, col_offsets_.data()});
      exec_.for_each(pattern_.nnz, PlaceNonzero{sorted_.data(), positions.data(), holders_.data(),
                                                rows_.data(), places_.data()});
    } else {
      exec_.place_columns(pattern_.cols,
                          PlaceColumns{col_offsets_.data(), rows_.data(), sorted_.data(),
                                       row_places_.data(), holders_.data(), places_.data()});
    }
    return {pattern_.rows,       offsets_.data(), cols_.data(),
            col_offsets_.data(), holders_.data(), places_.data()};
  }

 private:
  Exec& exec_;
  const Pattern pattern_;
  Array<std::uint32_t> offsets_;          // [rows + 1]
  Array<std::int32_t> cols_;              // [nnz]
  Array<RowPlace> row_places_;            // [rows]
  Array<std::uint32_t> col_offsets_;      // [columns + 1]
  Array<std::int32_t> holders_, rows_;    // [nnz]
  Array<std::uint32_t> places_, sorted_;  // [nnz]
  bool knows_columns_ = false;
};

}  // namespace tessera::matched
