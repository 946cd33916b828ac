// The kept portions of row_spgemm: for the products of 1024 neighbouring cells of C, a window, the
// segments of B's rows that they read and the place of each product in shared memory. A product
// with other values reads the segments as they lie in memory, side by side, stores the factors at
// their places, and adds them up from there. Lists (kernels/spgemm/row/lists.cuh) read a factor of
// B wherever it lies, a sector for 4 bytes.
//
// The products of a window are numbered row by row, in the order of A's columns and then of B's.
// 32 of them are a group, kProductsOfPortion of them a portion, which shared memory has room for.
// The lists of a portion, one for each cell with products there, are sorted by length, longest
// first, and cut into strips of 32. The k-th products of a strip's lists lie side by side, as in
// lists.cuh. A product has its place there, in 2 bytes.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/lists.cuh"

namespace tessera::row_spgemm {

constexpr int kGroupsOfPortion = kProductsOfPortion / kWarpLanes;
constexpr int kWarpsOfWindow = kRowThreads / kWarpLanes;
static_assert(kGroupsOfPortion % kWarpsOfWindow == 0);

/// 1024 consecutive cells of C.
struct alignas(16) PortionWindow {
  std::int64_t first_group, first_segment, first_portion;
  std::int64_t products;
};

/// 32 consecutive products of a window.
struct alignas(8) ProductGroup {
  std::uint32_t starts;  // bit i: product i is the first of a segment
  std::int32_t before;   // the last segment that begins before this group, in the window; or -1
};

/// A part of a row of B, for one nonzero of A, whose products are all in the window.
struct alignas(8) KeptSegment {
  std::int32_t to_place;  // place in B less number of the product
  std::int32_t in_a;
};

struct PortionsView {
  const PortionWindow* windows;
  ProductGroup* groups;
  KeptSegment* segments;
  std::uint16_t* places;       // [groups][32]
  StripList* lists;            // [portions][1024]
  std::int32_t* first_places;  // [portions][32]: of strips
};

/// What portions are made of: A, B, and the structure of C.
struct KeptStructure {
  OperandsView operands;
  std::int64_t cells, windows;
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* cols;         // [cells]
};

/// The last i in [first, last] with offsets[i] <= at.
template <class Offset>
__device__ std::int32_t last_not_above(const Offset* offsets, std::int32_t first, std::int32_t last,
                                       std::int64_t at) {
  std::int32_t above = last + 1;
  while (above - first > 1) {
    const std::int32_t middle = first + (above - first) / 2;
    (offsets[middle] <= at ? first : above) = middle;
  }
  return first;
}

/// The first place in [begin, end) whose column is not below `col`, else end.
template <class Place>
__device__ Place first_not_below(const std::int32_t* cols, Place begin, Place end,
                                 std::int32_t col) {
  while (begin < end) {
    const Place middle = begin + (end - begin) / 2;
    if (cols[middle] < col)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// The cells [first, end) of a window, and the rows that have them.
class WindowCells {
 public:
  __device__ WindowCells(const KeptStructure& of, std::int64_t window)
      : of_(of),
        first_(window * kCellsOfWindow),
        end_(min(first_ + kCellsOfWindow, of.cells)),
        first_row_(last_not_above(of.row_offsets, 0, of.operands.rows - 1, first_)),
        last_row_(last_not_above(of.row_offsets, first_row_, of.operands.rows - 1, end_ - 1)) {}

  /// The nonzeros of A in the rows.
  __device__ std::int32_t begin_of_a() const { return of_.operands.a_offsets[first_row_]; }
  __device__ std::int32_t end_of_a() const { return of_.operands.a_offsets[last_row_ + 1]; }

  /// The products of a nonzero of A: a part of B's row.
  struct Part {
    std::int32_t begin = 0, length = 0;
  };
  __device__ Part part_of(std::int32_t in_a) const {
    const OperandsView& operands = of_.operands;
    const Cells cells = cells_of(in_a);
    const std::int32_t row_of_b = operands.a_cols[in_a];
    std::int32_t begin = operands.b_offsets[row_of_b], end = operands.b_offsets[row_of_b + 1];
    if (cells.first >= cells.end) return {begin, 0};
    if (cells.begins_later)
      begin = first_not_below(operands.b_cols, begin, end, of_.cols[cells.first]);
    if (cells.ends_earlier) end = first_not_below(operands.b_cols, begin, end, of_.cols[cells.end]);
    return {begin, end - begin};
  }

  /// The cell of a product, from the window's first on.
  __device__ int cell_of(const KeptSegment& segment, std::int32_t in_b) const {
    const Cells cells = cells_of(segment.in_a);
    return static_cast<int>(
        first_not_below(of_.cols, cells.first, cells.end, of_.operands.b_cols[in_b]) - first_);
  }

 private:
  /// The window's cells in a row, and whether the row has others.
  struct Cells {
    std::int64_t first, end;
    bool begins_later, ends_earlier;
  };
  __device__ Cells cells_of(std::int32_t in_a) const {
    const std::int32_t row =
        last_not_above(of_.operands.a_offsets, first_row_, last_row_, std::int64_t{in_a});
    const std::int64_t first = of_.row_offsets[row], end = of_.row_offsets[row + 1];
    return {max(first, first_), min(end, end_), first<first_, end> end_};
  }

  const KeptStructure& of_;
  std::int64_t first_, end_;
  std::int32_t first_row_, last_row_;
};

/// The numbers of groups, segments and portions of windows, and of those before each once they are
/// summed up. [windows + 1] each
struct PortionCounts {
  std::int64_t *groups, *segments, *portions;
  PortionWindow* windows;    // [windows]
  unsigned long long* most;  // products of a window
};

/// Counts what windows have, by a thread block each; one more writes the zeros after the last.
static __global__ void __launch_bounds__(kRowThreads)
    count_portions(KeptStructure of, PortionCounts counts) {
  using Block = Group<kRowThreads>;
  __shared__ long long of_warps[2][Block::kWarps];
  const std::int64_t window = blockIdx.x;
  long long products = 0, segments = 0;
  if (window < of.windows) {
    const WindowCells cells(of, window);
    const std::int32_t end = cells.end_of_a();
    for (std::int32_t in_a = cells.begin_of_a() + Block::lane(); in_a < end;
         in_a += Block::kLanes) {
      const std::int32_t length = cells.part_of(in_a).length;
      products += length;
      segments += length > 0 ? 1 : 0;
    }
  }
  products = sum_of_warp(products);
  segments = sum_of_warp(segments);
  if (lane_of_warp() == 0) {
    of_warps[0][Block::warp()] = products;
    of_warps[1][Block::warp()] = segments;
  }
  __syncthreads();
  if (Block::lane() != 0) return;
  products = segments = 0;
  for (int warp = 0; warp < Block::kWarps; ++warp) {
    products += of_warps[0][warp];
    segments += of_warps[1][warp];
  }
  counts.groups[window] = parts(products, kWarpLanes);
  counts.segments[window] = segments;
  counts.portions[window] = parts(products, kProductsOfPortion);
  if (window == of.windows) return;
  counts.windows[window].products = products;
  const auto all = static_cast<unsigned long long>(products);
  if (peek(counts.most) < all) atomicMax(counts.most, all);
}

/// Writes where the windows begin.
static __global__ void __launch_bounds__(kRowThreads)
    place_windows(std::int64_t windows, PortionCounts counts) {
  const std::int64_t window =
      thread_each().item_of(std::int64_t{blockIdx.x}, std::int64_t{threadIdx.x});
  if (window >= windows) return;
  PortionWindow& placed = counts.windows[window];
  placed.first_group = counts.groups[window];
  placed.first_segment = counts.segments[window];
  placed.first_portion = counts.portions[window];
}

/// Writes the segments of a window and its groups, by a thread block. The starts of groups begin at
/// zero.
__device__ inline void write_segments(const WindowCells& cells, ProductGroup* groups,
                                      KeptSegment* segments, int* scratch) {
  using Block = Group<kRowThreads>;
  int segments_before = 0, products_before = 0;
  const std::int32_t end = cells.end_of_a();
  for (std::int32_t first = cells.begin_of_a(); first < end; first += Block::kLanes) {
    const std::int32_t in_a = first + Block::lane();
    WindowCells::Part part;
    if (in_a < end) part = cells.part_of(in_a);
    int new_segments = 0, new_products = 0;
    const int at = segments_before + Block::before(part.length > 0 ? 1 : 0, new_segments, scratch);
    const int number = products_before + Block::before(part.length, new_products, scratch);
    segments_before += new_segments;
    products_before += new_products;
    if (part.length == 0) continue;
    segments[at] = {part.begin - number, in_a};
    atomicOr(&groups[number / kWarpLanes].starts, 1u << (number % kWarpLanes));
    for (int group = (number + kWarpLanes - 1) / kWarpLanes;
         group * kWarpLanes < number + part.length; ++group)
      groups[group].before = group * kWarpLanes == number ? at - 1 : at;
  }
}

/// The number in its window of the segment of this lane's product.
__device__ inline std::int32_t segment_of(const ProductGroup& group) {
  return group.before + __popc(group.starts & (lanes_before() << 1 | 1));
}

/// Calls visit(group, cell, products of the cell on earlier lanes, products of the cell) on all
/// lanes for this warp's share of a portion's groups, in order. Lanes past the last product have
/// cell -1.
template <class Visit>
__device__ void for_groups_of_warp(const WindowCells& cells, const ProductGroup* groups,
                                   const KeptSegment* segments, int portion, std::int64_t products,
                                   Visit visit) {
  constexpr int kGroups = kGroupsOfPortion / kWarpsOfWindow;
  const int first =
      portion * kGroupsOfPortion + static_cast<int>(threadIdx.x) / kWarpLanes * kGroups;
#pragma unroll 1
  for (int group = first; group < first + kGroups; ++group) {
    if (std::int64_t{group} * kWarpLanes >= products) break;
    const std::int64_t number = std::int64_t{group} * kWarpLanes + lane_of_warp();
    int cell = -1;
    if (number < products) {
      const KeptSegment segment = segments[segment_of(groups[group])];
      cell = cells.cell_of(segment, segment.to_place + static_cast<std::int32_t>(number));
    }
    const unsigned same = __match_any_sync(kAllLanes, cell >= 0 ? cell : -1 - lane_of_warp());
    visit(group, cell, __popc(same & lanes_before()), __popc(same));
    __syncwarp();
  }
}

/// Writes all that a window keeps, by a thread block.
static __global__ void __launch_bounds__(kRowThreads)
    write_portions(KeptStructure of, PortionsView kept) {
  using Block = Group<kRowThreads>;
  constexpr int kEach = kCellsOfWindow / kRowThreads;
  __shared__ std::uint32_t keys[kCellsOfWindow];  // later the lengths of the sorted lists
  __shared__ std::uint16_t counts[Block::kWarps][kCellsOfWindow];
  __shared__ std::uint16_t ranks[kCellsOfWindow];
  __shared__ int first_places[kStripsOfWindow];
  __shared__ int scratch[Block::kWarps];
  const PortionWindow window = kept.windows[blockIdx.x];
  const WindowCells cells(of, std::int64_t{blockIdx.x});
  ProductGroup* groups = kept.groups + window.first_group;
  KeptSegment* segments = kept.segments + window.first_segment;
  write_segments(cells, groups, segments, scratch);
  __syncthreads();
  const int portions = static_cast<int>(parts(window.products, kProductsOfPortion));
  for (int portion = 0; portion < portions; ++portion) {
    std::uint16_t* mine = counts[Block::warp()];
    for (int cell = lane_of_warp(); cell < kCellsOfWindow; cell += kWarpLanes) mine[cell] = 0;
    __syncwarp();
    for_groups_of_warp(cells, groups, segments, portion, window.products,
                       [&](int, int cell, int before, int same) {
                         if (cell >= 0 && before == 0)
                           mine[cell] = static_cast<std::uint16_t>(mine[cell] + same);
                       });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int cell = i * kRowThreads + Block::lane();
      int length = 0;
      for (int warp = 0; warp < Block::kWarps; ++warp) {
        const int count = counts[warp][cell];
        counts[warp][cell] = static_cast<std::uint16_t>(length);
        length += count;
      }
      keys[cell] = StripList::of(kProductsOfPortion - length, cell).code;
    }
    sort_window(keys);
    const std::int64_t number = window.first_portion + portion;
    int placed = 0, all = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kRowThreads + Block::lane();
      const StripList key{keys[at]};
      const int length = kProductsOfPortion - key.length();
      const int place = placed + Block::before(length, all, scratch);
      placed += all;
      kept.lists[number * kCellsOfWindow + at] = StripList::of(length, key.cell());
      ranks[key.cell()] = static_cast<std::uint16_t>(at);
      keys[at] = static_cast<std::uint32_t>(length);
      if (lane_of_warp() != 0) continue;
      first_places[at / kCellsOfStrip] = place;
      kept.first_places[number * kStripsOfWindow + at / kCellsOfStrip] = place;
    }
    __syncthreads();
    for_groups_of_warp(cells, groups, segments, portion, window.products,
                       [&](int group, int cell, int before, int same) {
                         const int earlier = cell < 0 ? 0 : mine[cell];
                         __syncwarp();
                         if (cell < 0) return;
                         if (before == 0) mine[cell] = static_cast<std::uint16_t>(earlier + same);
                         const int turn = earlier + before;  // the product's, in its list
                         const int rank = ranks[cell], strip = rank / kCellsOfStrip;
                         int place = first_places[strip] + rank % kCellsOfStrip;
                         for (int i = 0; turn > 0 && i < kCellsOfStrip; ++i)
                           place += min(static_cast<int>(keys[strip * kCellsOfStrip + i]), turn);
                         kept.places[(window.first_group + group) * kWarpLanes + lane_of_warp()] =
                             static_cast<std::uint16_t>(place);
                       });
    __syncthreads();
  }
}

}  // namespace tessera::row_spgemm
