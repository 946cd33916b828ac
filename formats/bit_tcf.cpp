#include "formats/bit_tcf.hpp"

#include <array>
#include <limits>
#include <numeric>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr int kTileRows = BitTcf::kTileRows;
constexpr int kTileCols = BitTcf::kTileCols;
constexpr std::int64_t kWindowGrain = 512;

/// The eight rows of a window read side by side, one distinct column at a time, ascending.
class WindowMerge {
 public:
  WindowMerge(const CsrMatrix& matrix, std::int64_t window) : matrix_(matrix) {
    for (int r = 0; r < kTileRows; ++r) {
      const std::int64_t row = window * kTileRows + r;
      if (row >= matrix.rows) break;
      next_[r] = matrix.row_offsets[row];
      end_[r] = matrix.row_offsets[row + 1];
    }
    for (int r = 0; r < kTileRows; ++r) look(r);
  }

  /// Moves on to the next column; false when the window has no more.
  bool advance() {
    col_ = kDone;
    for (const std::int32_t head : head_) col_ = std::min(col_, head);
    return col_ != kDone;
  }

  std::int32_t col() const { return col_; }

  /// Calls visit(r, k) for every row r whose nonzero k lies in the current column, and passes them.
  template <class Visit>
  void take(Visit visit) {
    for (int r = 0; r < kTileRows; ++r) {
      if (head_[r] != col_) continue;
      visit(r, next_[r]);
      ++next_[r];
      look(r);
    }
  }

 private:
  static constexpr std::int32_t kDone = std::numeric_limits<std::int32_t>::max();

  void look(int r) { head_[r] = next_[r] < end_[r] ? matrix_.col_indices[next_[r]] : kDone; }

  const CsrMatrix& matrix_;
  std::array<std::int64_t, kTileRows> next_{};
  std::array<std::int64_t, kTileRows> end_{};
  std::array<std::int32_t, kTileRows> head_{};
  std::int32_t col_ = kDone;
};

std::int64_t count_tc_blocks(const CsrMatrix& matrix, std::int64_t window) {
  WindowMerge merge(matrix, window);
  std::int64_t active_cols = 0;
  while (merge.advance()) {
    merge.take([](int, std::int64_t) {});
    ++active_cols;
  }
  return (active_cols + kTileCols - 1) / kTileCols;
}

/// Fills the TC blocks of one window, from block `block` on; `nonzero` is the window's first.
void pack_window(const CsrMatrix& matrix, std::int64_t window, std::int64_t block,
                 std::int64_t nonzero, BitTcf& packed) {
  std::array<float, kTileRows * kTileCols> tile;
  std::uint64_t bitmap = 0;
  int col = 0;  // condensed column within the tile

  const auto close_tile = [&] {
    packed.tc_offset[block] = static_cast<std::uint32_t>(nonzero);
    packed.tc_local_bit[block] = bitmap;
    for (std::uint64_t rest = bitmap; rest != 0; rest &= rest - 1)
      packed.values[nonzero++] = tile[std::countr_zero(rest)];
    for (; col < kTileCols; ++col)
      packed.sparse_a_to_b[block * kTileCols + col] = BitTcf::kNoColumn;
    ++block;
    bitmap = 0;
    col = 0;
  };

  WindowMerge merge(matrix, window);
  while (merge.advance()) {
    packed.sparse_a_to_b[block * kTileCols + col] = merge.col();
    merge.take([&](int r, std::int64_t k) {
      const int bit = r * kTileCols + col;
      bitmap |= std::uint64_t{1} << bit;
      tile[bit] = matrix.values[k];
    });
    if (++col == kTileCols) close_tile();
  }
  if (col > 0) close_tile();
}

class BitTcfFormat final : public Format {
 public:
  std::unique_ptr<PackedMatrix> pack(const CsrMatrix& matrix) const override {
    constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
    require<Unsupported>(matrix.nnz() <= kMax,
                         "bit_tcf counts nonzeros in 32 bits: {} of them do not fit", matrix.nnz());
    auto packed = std::make_unique<BitTcf>(matrix.rows, matrix.cols, matrix.nnz());
    const std::int64_t windows = (std::int64_t{matrix.rows} + kTileRows - 1) / kTileRows;

    packed->row_window_offset.resize(windows + 1);
    parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t w = begin; w < end; ++w)
        packed->row_window_offset[w + 1] = static_cast<std::uint32_t>(count_tc_blocks(matrix, w));
    });
    // No overflow: every TC block holds a nonzero, and those were just counted in 32 bits.
    std::partial_sum(packed->row_window_offset.begin(), packed->row_window_offset.end(),
                     packed->row_window_offset.begin());

    const std::int64_t blocks = packed->row_window_offset.back();
    packed->tc_offset.resize(blocks + 1);
    packed->tc_offset[blocks] = static_cast<std::uint32_t>(matrix.nnz());
    packed->sparse_a_to_b.resize(blocks * kTileCols);
    packed->tc_local_bit.resize(blocks);
    packed->values.resize(matrix.nnz());
    parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t w = begin; w < end; ++w)
        pack_window(matrix, w, packed->row_window_offset[w], matrix.row_offsets[w * kTileRows],
                    *packed);
    });
    return packed;
  }
};

const Register<Format> entry{{
    .name = BitTcf::kFormat,
    .summary = "8 x 8 TC blocks of condensed columns with 64-bit bitmaps (Acc-SpMM)",
    .make = [](const Params&) { return std::make_unique<BitTcfFormat>(); },
}};

}  // namespace

CsrMatrix BitTcf::unpack() const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows()) + 1, 0);
  const auto for_each_nonzero = [&](std::int64_t window, auto visit) {
    for (std::int64_t b = row_window_offset[window]; b < row_window_offset[window + 1]; ++b) {
      std::int64_t k = tc_offset[b];
      for (std::uint64_t rest = tc_local_bit[b]; rest != 0; rest &= rest - 1, ++k) {
        const int bit = std::countr_zero(rest);
        visit(window * kTileRows + bit / kTileCols, sparse_a_to_b[b * kTileCols + bit % kTileCols],
              values[k]);
      }
    }
  };
  for (std::int64_t w = 0; w < num_row_windows(); ++w)
    for_each_nonzero(w, [&](std::int64_t row, std::int32_t, float) { ++offsets[row + 1]; });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());

  // TC blocks follow ascending columns, so each row fills in ascending order.
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> cols_of(values.size());
  std::vector<float> values_of(values.size());
  for (std::int64_t w = 0; w < num_row_windows(); ++w) {
    for_each_nonzero(w, [&](std::int64_t row, std::int32_t col, float value) {
      cols_of[next[row]] = col;
      values_of[next[row]++] = value;
    });
  }
  return {rows(), cols(), std::move(offsets), std::move(cols_of), std::move(values_of)};
}

std::vector<ArrayInfo> BitTcf::arrays() const {
  return {array_info("row_window_offset", row_window_offset), array_info("tc_offset", tc_offset),
          array_info("sparse_a_to_b", sparse_a_to_b), array_info("tc_local_bit", tc_local_bit),
          array_info("values", values, true)};
}

TileInfo BitTcf::tiles() const { return {kTileRows, kTileCols, num_tc_blocks(), nnz()}; }

std::string BitTcf::locate(std::int32_t row) const {
  const int window = row / kTileRows, row_in_window = row % kTileRows;
  const std::uint32_t begin = row_window_offset[window], end = row_window_offset[window + 1];
  std::uint32_t first = begin;  // TC block where the row's sum begins
  while (first < end && (tc_local_bit[first] >> (row_in_window * kTileCols) & 0xff) == 0) ++first;
  const std::string sum = first == end ? "none with a nonzero of the row"
                                       : fmt::format(
                                             "first nonzero of the row in TC block {}, "
                                             "MMA step {} of the window",
                                             first, first - begin);
  return fmt::format("row window {} (row {} of it), TC blocks {} to {}, {}", window, row_in_window,
                     begin, end, sum);
}

}  // namespace tessera
