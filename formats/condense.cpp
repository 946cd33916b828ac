#include "formats/condense.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera {
namespace {

constexpr int kLevels = 3;  // a word of the top level covers 64^3 columns

/// A set of columns in bitmaps, each level with a bit for every word of the one below.
class ColumnSet {
 public:
  /// Makes room for columns below `cols` and keeps the marks.
  void reserve(std::int64_t cols) {
    for (auto& level : levels_) {
      cols = (cols + 63) / 64;
      level.resize(static_cast<std::size_t>(cols), 0);
    }
    ranks_.resize(levels_[0].size());
  }

  void mark(std::uint32_t col) {
    std::uint64_t& word = levels_[0][col >> 6];
    const std::uint64_t bit = std::uint64_t{1} << (col & 63);
    if ((word & bit) != 0) return;
    if (word == 0) {
      levels_[1][col >> 12] |= std::uint64_t{1} << (col >> 6 & 63);
      levels_[2][col >> 18] |= std::uint64_t{1} << (col >> 12 & 63);
    }
    word |= bit;
  }

  /// Appends the marked columns in ascending order and computes their ranks.
  void read(std::vector<std::int32_t>& cols) {
    std::int32_t rank = 0;
    for_each_word([&](std::size_t word) {
      ranks_[word] = rank;
      std::uint64_t rest = levels_[0][word];
      rank += std::popcount(rest);
      for (; rest != 0; rest &= rest - 1)
        cols.push_back(static_cast<std::int32_t>(word * 64) + std::countr_zero(rest));
    });
  }

  /// The number of marked columns before `col`, which is marked; after read().
  std::int32_t rank(std::uint32_t col) const {
    const std::uint64_t below = (std::uint64_t{1} << (col & 63)) - 1;
    return ranks_[col >> 6] + std::popcount(levels_[0][col >> 6] & below);
  }

  void clear() {
    for_each_word([&](std::size_t word) { levels_[0][word] = 0; });
    for (std::size_t top = 0; top < levels_[2].size(); ++top) {
      for (std::uint64_t rest = levels_[2][top]; rest != 0; rest &= rest - 1)
        levels_[1][top * 64 + std::countr_zero(rest)] = 0;
      levels_[2][top] = 0;
    }
  }

 private:
  /// Visits the nonzero words of the lowest level in order.
  template <class Visit>
  void for_each_word(Visit visit) const {
    for (std::size_t top = 0; top < levels_[2].size(); ++top) {
      for (std::uint64_t groups = levels_[2][top]; groups != 0; groups &= groups - 1) {
        const std::size_t group = top * 64 + std::countr_zero(groups);
        for (std::uint64_t words = levels_[1][group]; words != 0; words &= words - 1)
          visit(group * 64 + std::countr_zero(words));
      }
    }
  }

  std::array<std::vector<std::uint64_t>, kLevels> levels_;
  std::vector<std::int32_t> ranks_;  // [words of the lowest level] marked columns before it
};

}  // namespace

Condensed condense(const CsrMatrix& matrix, int height, int group_cols) {
  require(height > 0 && group_cols > 0, "a window has rows and a group columns, not {} and {}",
          height, group_cols);
  const std::int64_t windows = (std::int64_t{matrix.rows} + height - 1) / height;
  const std::int64_t groups = (std::int64_t{matrix.cols} + group_cols - 1) / group_cols;
  const Divisor group(group_cols);
  Condensed condensed{height, group_cols, {}, {}, {}};
  condensed.offsets.assign(static_cast<std::size_t>(windows) + 1, 0);
  condensed.places.resize(static_cast<std::size_t>(matrix.nnz()));

  // A matrix in parts of some hundred thousand rows still has a chunk for each of many threads.
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 12) / height);
  std::vector<std::vector<std::int32_t>> pieces(
      static_cast<std::size_t>((windows + grain - 1) / grain));
  ScratchPool<ColumnSet> pool;
  parallel_for(windows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t>& cols = pieces[begin / grain];
    pool.use([&](ColumnSet& set) {
      set.reserve(groups);
      for (std::int64_t window = begin; window < end; ++window) {
        const std::int64_t first = matrix.row_offsets[window * height];
        const std::int64_t last =
            matrix.row_offsets[std::min<std::int64_t>((window + 1) * height, matrix.rows)];
        for (std::int64_t k = first; k < last; ++k) set.mark(group.quotient(matrix.col_indices[k]));
        const std::size_t before = cols.size();
        set.read(cols);
        condensed.offsets[window + 1] = static_cast<std::int64_t>(cols.size() - before);
        for (std::int64_t k = first; k < last; ++k)
          condensed.places[k] = set.rank(group.quotient(matrix.col_indices[k]));
        set.clear();
      }
    });
  });
  std::partial_sum(condensed.offsets.begin(), condensed.offsets.end(), condensed.offsets.begin());
  condensed.cols.resize(static_cast<std::size_t>(condensed.offsets.back()));
  parallel_for(std::ssize(pieces), 1, [&](std::int64_t p, std::int64_t) {
    std::ranges::copy(pieces[p], condensed.cols.begin() + condensed.offsets[p * grain]);
    pieces[p] = {};
  });
  return condensed;
}

std::vector<std::int64_t> tile_offsets(const Condensed& condensed, int width) {
  require(width > 0, "a tile has columns, not {}", width);
  std::vector<std::int64_t> offsets(condensed.offsets.size(), 0);
  for (std::int64_t w = 0; w < condensed.windows(); ++w)
    offsets[w + 1] = offsets[w] + (condensed.active_cols(w) + width - 1) / width;
  return offsets;
}

Tiling tile(const CsrMatrix& matrix, const Condensed& condensed, int width) {
  Tiling tiling{tile_offsets(condensed, width), {}};
  const Divisor in_tile(width);
  const std::int64_t windows = condensed.windows();
  tiling.nnz_offsets.assign(static_cast<std::size_t>(tiling.tiles()) + 1, 0);
  parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const std::int64_t first = matrix.row_offsets[w * condensed.height];
      const std::int64_t last =
          matrix.row_offsets[std::min<std::int64_t>((w + 1) * condensed.height, matrix.rows)];
      // Entry t + 1 counts tile t and then becomes the start of tile t + 1; the window's first
      // entry is the last one of the previous window.
      std::int64_t* const counts = tiling.nnz_offsets.data() + tiling.tile_offsets[w] + 1;
      for (std::int64_t k = first; k < last; ++k) ++counts[in_tile.quotient(condensed.places[k])];
      std::int64_t sum = first;
      const std::int64_t tiles = tiling.tile_offsets[w + 1] - tiling.tile_offsets[w];
      for (std::int64_t t = 0; t < tiles; ++t) counts[t] = sum += counts[t];
    }
  });
  return tiling;
}

std::vector<std::int32_t> padded_columns(const Condensed& condensed,
                                         const std::vector<std::int64_t>& tile_offsets, int width) {
  std::vector<std::int32_t> cols(static_cast<std::size_t>(tile_offsets.back() * width), kNoColumn);
  parallel_for(condensed.windows(), kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w)
      std::copy(condensed.cols.begin() + condensed.offsets[w],
                condensed.cols.begin() + condensed.offsets[w + 1],
                cols.begin() + tile_offsets[w] * width);
  });
  return cols;
}

}  // namespace tessera
