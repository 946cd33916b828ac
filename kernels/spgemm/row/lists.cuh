// The lists of row_spgemm: for each cell (structural nonzero) of C its products in the order of A's
// columns. They are kept, so that products with other values of A and B only gather and add.
//
// A lane makes the sum of a cell. A strip is a warp's 32 cells; the lists of a window of 1024 cells
// are sorted by length, so that those of a strip are about equally long. The k-th products of a
// strip's lists lie side by side, the longest lists first, without gaps for lists that have ended
// (jagged diagonals, Saad 1989, of the slices and windows of SELL-C-sigma, Kreutzer et al. 2014). A
// product is coded as the indices of its factors, in A relative to the first nonzero of the
// window's rows, in 4 bytes if they fit. A very long list gets a warp of its own. The tasks of
// kernels/spgemm/row/plan.cuh count and write the lists.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/plan.cuh"

namespace tessera::row_spgemm {

/// 1024 consecutive cells of C. The lists of their strips come first, then long lists.
struct alignas(16) Window {
  std::int64_t first_product;
  std::int32_t first_of_a;  // first nonzero of A in the rows of its cells
};

/// 32 lists of a window, interleaved.
struct alignas(8) Strip {
  std::int32_t first_product;  // in its window
  std::int32_t products;
};

/// A list that is too long for a strip.
struct LongList {
  std::int64_t first_product, cell;
  std::int32_t products, first_of_a;
};

/// A list of a strip: its length and the cell of its window. Length 0 stands for no list, as every
/// cell of C has products.
struct StripList {
  std::uint32_t code;

  static __device__ StripList of(int length, int cell) {
    return {static_cast<std::uint32_t>(length * kCellsOfWindow + cell)};
  }
  __device__ int length() const { return static_cast<int>(code / kCellsOfWindow); }
  __device__ int cell() const { return static_cast<int>(code % kCellsOfWindow); }
};

/// The largest length of a list in a strip. A lane adds its products one after another; the limit
/// keeps the longest list shorter than the time for all products.
constexpr int kLeastLimit = 128, kMostLimit = 1024;
constexpr int limit_of_lists(std::int64_t products) {
  constexpr std::int64_t kProductsOfStep = 1 << 17;
  return static_cast<int>(
      std::clamp(products / kProductsOfStep, std::int64_t{kLeastLimit}, std::int64_t{kMostLimit}));
}

/// The indices of a product's factors: in A relative to the window's first nonzero, and in B.
struct FactorIndices {
  std::uint32_t in_a, in_b;
};

/// Codes after the last that lanes read whose lists have ended.
constexpr int kPadding = 32;

/// The codes of products. Both arrays: [products + kPadding]
struct ProductCodes {
  std::uint32_t* words;  // index in B; if packed, the index in A in the bits above
  void* of_a;            // index in A, unless packed
  int bytes_of_a;        // of an index in A: 2 or 4; 0 if packed
  int bits_of_b;
  std::uint32_t mask_of_b;  // that many bits

  __device__ void store(std::int64_t at, const FactorIndices& of) const {
    words[at] = bytes_of_a == 0 ? of.in_a << bits_of_b | of.in_b : of.in_b;
    if (bytes_of_a == 2)
      static_cast<std::uint16_t*>(of_a)[at] = static_cast<std::uint16_t>(of.in_a);
    if (bytes_of_a == 4) static_cast<std::uint32_t*>(of_a)[at] = of.in_a;
  }
};

struct ListsView {
  std::int64_t cells, windows;
  Window* of_windows;    // [windows]
  Strip* strips;         // [windows][32]
  StripList* of_strips;  // [windows][32][32]
  LongList* longs;       // [num_longs]
  std::int32_t num_longs;
  ProductCodes codes;
};

/// Sums and maxima over all windows, which the host reads before lists are written. They begin at
/// zero.
struct ListFacts {
  unsigned long long products;
  std::uint32_t span;                         // the most nonzeros of A in a window's rows
  std::uint32_t most;                         // the most products of a window
  std::uint32_t longest;                      // the longest list in a strip
  std::uint32_t longs;                        // the number of long lists
  std::uint32_t placed_longs, placed_larges;  // long lists and large strips that are listed so far
  WindowCounts sampled;
};

/// A pass over the products of all tasks: the first counts them and writes C's columns, the second
/// writes the products.
struct ListPass {
  const std::int64_t* offsets;  // [tasks + 1]: cells before each task
  std::int32_t* cols;           // [cells] of C
  std::int32_t* counts;         // [cells]: products; in the second pass, their place in the window
  const Window* windows;        // [windows]; nullptr in the first pass
  ProductCodes codes;

  __device__ bool writes() const { return windows != nullptr; }
  __device__ void write(std::int64_t cell, std::int32_t place, std::int32_t in_a,
                        std::int32_t in_b) const {
    const Window window = windows[cell / kCellsOfWindow];
    codes.store(window.first_product + place, {static_cast<std::uint32_t>(in_a - window.first_of_a),
                                               static_cast<std::uint32_t>(in_b)});
  }
};

/// A product that is to be listed: the indices of its factors and its column.
struct ListedProduct {
  std::int32_t in_a = 0, in_b = 0;
  std::int32_t col = -1;
};

/// Counts the products of each cell and writes its column; or writes the products.
template <class Group, class Bitmap>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    list_products(OperandsView operands, Batch batch, int bytes, ListPass pass) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  // Plain variables: in a structure, the compiler orders the loads less well: see make_sums().
  const GroupLaunch launch = group_launch<Group>(bytes);
  const int group = launch.group_of(static_cast<int>(threadIdx.x));
  const SortedTask sorted = batch.at(launch.task_of(static_cast<int>(blockIdx.x), group));
  const Task task = batch.task(sorted);
  const std::int64_t first = sorted.id < 0 ? 0 : pass.offsets[sorted.id];
  const int count = sorted.id < 0 ? 0 : static_cast<int>(pass.offsets[sorted.id + 1] - first);
  unsigned char* memory = shared + group * launch.group_bytes();
  auto* staged = reinterpret_cast<Segment*>(memory);
  unsigned char* of_bitmap = memory + launch.segment_bytes();
  Bitmap bitmap(task, of_bitmap);
  auto* counts = reinterpret_cast<std::int32_t*>(of_bitmap + bitmap.bytes());
  Group::sync();
  mark_columns<Group>(operands, task, staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, counts, pass.writes() ? nullptr : pass.cols + first);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    counts[i] = pass.writes() ? pass.counts[first + i] : 0;
  Group::sync();
  for_products<Group, SegmentKind::kPositions>(
      operands, task, staged, scratch, counts,
      [&](std::int32_t at, float index_in_a) {
        return at < 0 ? ListedProduct{}
                      : ListedProduct{__float_as_int(index_in_a), at, __ldg(operands.b_cols + at)};
      },
      [&](const ListedProduct& product) { return product.col < 0 ? -1 : bitmap.rank(product.col); },
      [&](const ListedProduct& product, int rank) {
        const std::int32_t place = counts[rank]++;
        if (pass.writes()) pass.write(first + rank, place, product.in_a, product.in_b);
      });
  if (pass.writes()) return;
  Group::sync();
  for (int i = Group::lane(); i < count; i += Group::kLanes) pass.counts[first + i] = counts[i];
}

/// The same for small tasks.
template <int kLanes>
__global__ void __launch_bounds__(kGroupThreads)
    list_small_products(OperandsView operands, Batch batch, ListPass pass) {
  const SortedTask task = batch.at(small_task_number<kLanes>());
  __shared__ __align__(16) std::int32_t cols[kGroupThreads];
  const SmallRow<kLanes> row(operands, task, cols + threadIdx.x / kLanes * kLanes);
  const std::int64_t first = task.id < 0 ? 0 : pass.offsets[task.id];
  row.each([&](int place, std::int32_t col, int number, int products, std::int32_t in_a,
               std::int32_t in_b) {
    const std::int64_t cell = first + place;
    if (pass.writes()) {
      pass.write(cell, pass.counts[cell] + number, in_a, in_b);
    } else if (number == 0) {
      pass.cols[cell] = col;
      pass.counts[cell] = products;
    }
  });
}

/// The kernels that list products, for RowTasks::launch_ranked().
struct ListKernels {
  template <class Group, class Bitmap>
  static auto group() {
    return list_products<Group, Bitmap>;
  }
  template <int kLanes>
  static auto small() {
    return list_small_products<kLanes>;
  }
};

/// The numbers of products of cells and windows, from which lists get their places.
struct ListCounts {
  std::int64_t cells, windows;
  std::int32_t rows;
  int limit;                        // the largest length of a list in a strip
  const std::int64_t* row_offsets;  // [rows + 1] of C
  const std::int32_t* a_offsets;    // [rows + 1]
  std::int32_t* counts;             // [cells]: products; later the list's place in its window
  std::int64_t* products;           // [windows + 1]: products; later those of earlier windows
  std::int32_t* first_of_a;         // [windows]
  std::int64_t* larges;             // [windows][32]: the large strips

  __device__ std::int32_t row_of(std::int64_t cell) const {
    std::int32_t row = 0, above = rows;
    while (above - row > 1) {
      const std::int32_t middle = row + (above - row) / 2;
      (row_offsets[middle] <= cell ? row : above) = middle;
    }
    return row;
  }
};

/// A strip of more products is large: a thread block interleaves it, because its products do not
/// fit a warp's shared memory.
constexpr int kProductsOfWarp = 1024;

template <class T>
__device__ T sum_of_warp(T x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

__device__ inline void raise(std::uint32_t* most, std::uint32_t value) {
  if (peek(most) < value) atomicMax(most, value);
}

/// Counts the products of windows and finds their first nonzeros of A, by a warp each; one more
/// warp writes the zero after the last count.
static __global__ void __launch_bounds__(kRowThreads)
    measure_windows(ListCounts of, ListFacts* facts) {
  const std::int64_t window =
      warp_each().item_of(std::int64_t{blockIdx.x}, std::int64_t{threadIdx.x});
  if (window > of.windows) return;
  const std::int64_t first = window * kCellsOfWindow, end = min(first + kCellsOfWindow, of.cells);
  long long own = 0;
  int longest = 0, longs = 0;
  for (std::int64_t cell = first + lane_of_warp(); cell < end; cell += 32) {
    const std::int32_t count = of.counts[cell];
    own += count;
    if (count > of.limit)
      ++longs;
    else
      longest = max(longest, count);
  }
  const long long products = sum_of_warp(own);
  longest = __reduce_max_sync(kAllLanes, longest);
  longs = sum_of_warp(longs);
  if (lane_of_warp() != 0) return;
  of.products[window] = products;
  if (window == of.windows) return;
  const std::int32_t begin = of.a_offsets[of.row_of(first)];
  of.first_of_a[window] = begin;
  raise(&facts->span, static_cast<std::uint32_t>(of.a_offsets[of.row_of(end - 1) + 1] - begin));
  raise(&facts->most, static_cast<std::uint32_t>(min(products, static_cast<long long>(UINT_MAX))));
  raise(&facts->longest, static_cast<std::uint32_t>(longest));
  if (longs > 0) atomicAdd(&facts->longs, static_cast<std::uint32_t>(longs));
}

/// Windows whose lists are counted by length.
constexpr std::int64_t kMostSampled = 8192;

/// Counts what repeated products of every `stride`-th window would take, by a thread block each.
/// The products of windows have to be summed up.
static __global__ void __launch_bounds__(kRowThreads)
    sample_windows(ListCounts of, std::int64_t stride, WindowCounts* sampled) {
  using Block = Group<kRowThreads>;
  static_assert(kMostLimit % kRowThreads == 0);
  constexpr int kEach = kMostLimit / kRowThreads;
  __shared__ int of_length[kMostLimit + 1];  // the lists of each length
  __shared__ int scratch[Block::kWarps];
  for (int length = Block::lane(); length <= kMostLimit; length += kRowThreads)
    of_length[length] = 0;
  __syncthreads();
  const std::int64_t window = blockIdx.x * stride, first = window * kCellsOfWindow;
  int of_longs = 0;
#pragma unroll
  for (int i = 0; i < kCellsOfWindow; i += kRowThreads) {
    const std::int64_t cell = first + i + Block::lane();
    const int count = cell < of.cells ? of.counts[cell] : 0;
    if (count > of.limit)
      of_longs += count / kWarpLanes;  // the lanes of a warp share a long list
    else
      atomicAdd(&of_length[count], 1);
  }
  __syncthreads();
  // As many lists have a step as are at least as long; each thread takes some lengths.
  int longest = kMostLimit - Block::lane() * kEach, lists = 0, all = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) lists += of_length[longest - i];
  lists = Block::before(lists, all, scratch);
  int steps = of_longs, steps_of_warp = of_longs / Block::kWarps;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    lists += of_length[longest - i];
    steps += static_cast<int>(parts(lists, kCellsOfStrip));
    steps_of_warp += static_cast<int>(parts(lists, kRowThreads));
  }
  int all_steps = 0, all_steps_of_warp = 0;
  Block::before(steps, all_steps, scratch);
  Block::before(steps_of_warp, all_steps_of_warp, scratch);
  if (Block::lane() != 0) return;
  const std::int64_t products = of.products[window + 1] - of.products[window];
  const auto add = [](unsigned long long* to, std::int64_t count) {
    atomicAdd(to, static_cast<unsigned long long>(count));
  };
  add(&sampled->windows, 1);
  add(&sampled->products, products);
  add(&sampled->portions, parts(products, kProductsOfPortion));
  add(&sampled->steps, all_steps);
  add(&sampled->steps_of_warp, all_steps_of_warp);
}

/// Sorts the keys of a window by a thread block, in a bitonic network (Batcher 1968).
__device__ inline void sort_window(std::uint32_t* keys) {
  for (int size = 2; size <= kCellsOfWindow; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kCellsOfWindow / 2; i += kRowThreads) {
        const int low = 2 * i - (i & (step - 1)), high = low + step;
        const std::uint32_t a = keys[low], b = keys[high];
        const bool goes_up = (low & size) == 0;
        if ((a > b) != goes_up) continue;
        keys[low] = b;
        keys[high] = a;
      }
    }
  __syncthreads();
}

/// Gives every list its place, by one thread block per window.
static __global__ void __launch_bounds__(kRowThreads)
    place_lists(ListCounts of, ListsView lists, ListFacts* facts) {
  using Block = Group<kRowThreads>;
  constexpr int kEach = kCellsOfWindow / kRowThreads;
  __shared__ std::uint32_t keys[kCellsOfWindow];
  __shared__ int scratch[Block::kWarps];
  const std::int64_t window = blockIdx.x, first_cell = window * kCellsOfWindow;
  const std::int64_t first_product = of.products[window];
  const std::int32_t first_of_a = of.first_of_a[window];
  if (threadIdx.x == 0) lists.of_windows[window] = {first_product, first_of_a};
  std::int32_t counts[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int cell = i * kRowThreads + Block::lane();
    counts[i] = first_cell + cell < of.cells ? of.counts[first_cell + cell] : 0;
    const int length = counts[i] > of.limit ? 0 : counts[i];
    keys[cell] = StripList::of(kMostLimit - length, cell).code;
  }
  sort_window(keys);
  int placed = 0, all = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = i * kRowThreads + Block::lane();
    const StripList key{keys[at]};
    const int length = kMostLimit - key.length();
    const int place = placed + Block::before(length, all, scratch);
    placed += all;
    lists.of_strips[first_cell + at] = StripList::of(length, key.cell());
    if (length > 0) of.counts[first_cell + key.cell()] = place;
    const int products = sum_of_warp(length);
    const std::int64_t strip = (first_cell + at) / kCellsOfStrip;
    if (lane_of_warp() != 0) continue;
    lists.strips[strip] = {place, products};
    if (products > kProductsOfWarp) of.larges[atomicAdd(&facts->placed_larges, 1u)] = strip;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool is_long = counts[i] > of.limit;
    const int place = placed + Block::before(is_long ? counts[i] : 0, all, scratch);
    placed += all;
    if (!is_long) continue;
    const std::int64_t cell = first_cell + i * kRowThreads + Block::lane();
    of.counts[cell] = place;
    lists.longs[atomicAdd(&facts->placed_longs, 1u)] = {first_product + place, cell, counts[i],
                                                        first_of_a};
  }
}

/// Reorders the lists of a strip, which lie one after another, so that their k-th products lie side
/// by side. `staged` [products] is shared memory.
template <class Group, class T>
__device__ void interleave_lists(T* lists, int products, int length, T* staged) {
  for (int i = Group::lane(); i < products; i += Group::kLanes) staged[i] = lists[i];
  Group::sync();
  // Each warp takes some of the steps.
  const int own = sum_up_to(length) - length;
  const int longest = __reduce_max_sync(kAllLanes, length);
  const int steps = (longest + Group::kWarps - 1) / Group::kWarps;
  const int begin = Group::warp() * steps, end = min(begin + steps, longest);
  int at = sum_of_warp(min(length, begin));
  for (int step = begin; step < end; ++step) {
    if (step < length) lists[at + lane_of_warp()] = staged[own + step];
    at += __popc(__ballot_sync(kAllLanes, step < length));
  }
  Group::sync();
}

template <class Group>
__device__ void interleave_strip(const ListsView& lists, std::int64_t at, unsigned char* staged) {
  const Strip strip = lists.strips[at];
  if (!Group::kIsBlock && strip.products > kProductsOfWarp) return;
  const int length = lists.of_strips[at * kCellsOfStrip + lane_of_warp()].length();
  if (__reduce_max_sync(kAllLanes, length) <= 1) return;  // nothing to interleave
  const ProductCodes& codes = lists.codes;
  const std::int64_t product =
      lists.of_windows[at / kStripsOfWindow].first_product + strip.first_product;
  interleave_lists<Group>(codes.words + product, strip.products, length,
                          reinterpret_cast<std::uint32_t*>(staged));
  if (codes.bytes_of_a == 2)
    interleave_lists<Group>(static_cast<std::uint16_t*>(codes.of_a) + product, strip.products,
                            length, reinterpret_cast<std::uint16_t*>(staged));
  if (codes.bytes_of_a == 4)
    interleave_lists<Group>(static_cast<std::uint32_t*>(codes.of_a) + product, strip.products,
                            length, reinterpret_cast<std::uint32_t*>(staged));
}

/// Interleaves every strip that is not large, by a warp each.
static __global__ void __launch_bounds__(kGroupThreads) interleave_small_strips(ListsView lists) {
  constexpr int kWarps = strip_each().items();
  __shared__ __align__(16) unsigned char staged[kWarps][kProductsOfWarp * sizeof(std::uint32_t)];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t strip = std::int64_t{blockIdx.x} * kWarps + warp;
  if (strip < lists.windows * kStripsOfWindow)
    interleave_strip<Group<32>>(lists, strip, staged[warp]);
}

/// Interleaves the large strips, by a thread block each.
static __global__ void __launch_bounds__(kRowThreads)
    interleave_large_strips(ListsView lists, const std::int64_t* larges, const ListFacts* facts) {
  extern __shared__ __align__(16) unsigned char shared[];
  for (std::uint32_t i = blockIdx.x; i < facts->placed_larges; i += gridDim.x)
    interleave_strip<Group<kRowThreads>>(lists, larges[i], shared);
}

}  // namespace tessera::row_spgemm
