// The steps of the order `matched`, each a loop whose iterations are independent, so that threads
// of a CPU and of a GPU run the same code and find the same order.
//
// A step for single threads is a functor step(i). A step for teams is a functor step(team, i): the
// team (one thread of a CPU, a warp or a thread block of a GPU) works on item i together;
// size_of(i) says which team it deserves, kSharedBytes how much memory a team shares. Results do
// not depend on the size of a team: counts are integers, and a choice goes by a key that no two
// candidates share.
//
// A cluster at level l is the rows at positions [c 2^l, (c + 1) 2^l) of the order at hand; the rows
// after the last whole cluster stay where they are.
//
// Here is what places rows and columns; the steps that find partners and match clusters are in
// matched_partners.hpp, those that improve windows in matched_windows.hpp.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::matched {

using Key = unsigned long long;  // std::uint64_t to everyone but atomicMax

constexpr int kPartners = 6;     // that a cluster remembers
constexpr int kWishes = 3;       // windows that a row remembers
constexpr int kWindowLevel = 3;  // windows of eight rows
constexpr int kWindowRows = 8;
constexpr std::int32_t kNone = -1;

/// A hash that no two numbers share.
TESSERA_HOST_DEVICE constexpr std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

template <class T>
TESSERA_HOST_DEVICE constexpr T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
TESSERA_HOST_DEVICE constexpr T most(T a, T b) {
  return a < b ? b : a;
}

/// The pattern of a matrix, as its owner has it.
struct Pattern {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* col_indices = nullptr;  // [nnz]
};

/// The pattern with its rows in an order, and the positions that hold each column.
struct Placed {
  std::int32_t rows = 0;
  const std::uint32_t* offsets = nullptr;      // [rows + 1]
  const std::int32_t* cols = nullptr;          // [nnz]
  const std::uint32_t* col_offsets = nullptr;  // [columns + 1]
  const std::int32_t* holders = nullptr;       // [nnz] positions, ascending in each column
  const std::uint32_t* places = nullptr;       // [nnz] of a nonzero among the holders

  /// Whether no position from `from` to that of nonzero k, which is `from` or later, holds its
  /// column before it.
  TESSERA_HOST_DEVICE bool is_first(std::uint32_t k, std::int32_t from) const {
    const std::uint32_t place = places[k];
    return place == col_offsets[cols[k]] || holders[place - 1] < from;
  }
  /// The first nonzero of a cluster; that of cluster c + 1 is the end of cluster c.
  TESSERA_HOST_DEVICE std::uint32_t begin(std::int32_t cluster, int level) const {
    return offsets[least<std::int64_t>(std::int64_t{cluster} << level, rows)];
  }
  TESSERA_HOST_DEVICE std::uint32_t length(std::int32_t cluster, int level) const {
    return begin(cluster + 1, level) - begin(cluster, level);
  }
};

/// Where rounds have nothing to do before they begin or in their second part.
struct NoStep {
  TESSERA_HOST_DEVICE void operator()(std::int64_t) const {}
  TESSERA_HOST_DEVICE void operator()(int, std::int64_t) const {}
};

/// The threads that an item deserves, and with them the memory that they share.
enum class Size { kWarp, kBlock, kWide };

TESSERA_HOST_DEVICE constexpr Size size_for(std::uint32_t length) {
  return length > 8192 ? Size::kWide : length > 1024 ? Size::kBlock : Size::kWarp;
}

/// Summands of a prefix sum: the one after the last is zero, so that its sum is that of all.
struct LengthOfRow {
  Pattern pattern;
  const std::int32_t* order;

  TESSERA_HOST_DEVICE std::uint32_t operator()(std::int64_t position) const {
    if (position >= pattern.rows) return 0;
    const std::int32_t row = order[position];
    return static_cast<std::uint32_t>(pattern.row_offsets[row + 1] - pattern.row_offsets[row]);
  }
};

/// Where a row of the pattern is in the order at hand.
struct RowPlace {
  std::int32_t position;
  std::uint32_t shift;  // from the number of a nonzero in the pattern to that in the order
};

struct GatherRow {
  Pattern pattern;
  const std::int32_t* order;
  const std::uint32_t* offsets;
  std::int32_t* cols;
  RowPlace* row_places;     // [rows]
  std::int32_t* positions;  // [nnz] of nonzeros; or null

  static constexpr std::size_t kSharedBytes = 0;
  TESSERA_HOST_DEVICE Size size_of(std::int64_t position) const {
    return size_for(offsets[position + 1] - offsets[position]);
  }
  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t position) const {
    const std::int64_t from = pattern.row_offsets[order[position]];
    const std::uint32_t to = offsets[position];
    const auto place = static_cast<std::int32_t>(position);
    if (team.is_first())
      row_places[order[position]] = {place, to - static_cast<std::uint32_t>(from)};
    team.for_each(offsets[position + 1] - to, [&](std::uint32_t k) {
      cols[to + k] = pattern.col_indices[from + k];
      if (positions != nullptr) positions[to + k] = place;
    });
  }
};

/// Where each column begins among the sorted nonzeros.
struct FindColumn {
  const std::int32_t* cols;     // [nnz]
  const std::uint32_t* sorted;  // [nnz] nonzeros by column
  std::int64_t nnz;
  std::uint32_t* col_offsets;

  TESSERA_HOST_DEVICE void operator()(std::int64_t col) const {
    std::int64_t low = 0, high = nnz;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (cols[sorted[middle]] < col)
        low = middle + 1;
      else
        high = middle;
    }
    col_offsets[col] = static_cast<std::uint32_t>(low);
  }
};

/// Places the nonzeros in the order of the file, where their columns are sorted.
struct PlaceNonzero {
  const std::uint32_t* sorted;
  const std::int32_t* positions;
  std::int32_t* holders;
  std::int32_t* rows;  // [nnz] in the pattern, by column
  std::uint32_t* places;

  TESSERA_HOST_DEVICE void operator()(std::int64_t place) const {
    const std::uint32_t k = sorted[place];
    holders[place] = rows[place] = positions[k];
    places[k] = static_cast<std::uint32_t>(place);
  }
};

/// Places the nonzeros of columns in another order. How holders are sorted is the executor's.
struct PlaceColumns {
  const std::uint32_t* col_offsets;
  const std::int32_t* rows;       // [nnz] in the pattern, by column
  const std::uint32_t* nonzeros;  // [nnz] in the pattern, by column
  const RowPlace* row_places;
  std::int32_t* holders;
  std::uint32_t* places;

  TESSERA_HOST_DEVICE std::int32_t position(std::uint32_t entry) const {
    return row_places[rows[entry]].position;
  }
  /// The entry is at a place among the holders of its column.
  TESSERA_HOST_DEVICE void put(std::uint32_t entry, std::uint32_t place) const {
    const RowPlace to = row_places[rows[entry]];
    holders[place] = to.position;
    places[nonzeros[entry] + to.shift] = place;
  }
};

}  // namespace tessera::matched
