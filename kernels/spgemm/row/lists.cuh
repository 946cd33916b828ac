// row_spgemm's lists: for each cell of C its products in the order of A's columns, kept so that
// products with other values of A and B only gather and add. A lane makes the sum of a cell; 32
// cells of lists of about the same length are a strip, a warp's: those of a window of C are sorted.
// Step by step the next products of a strip lie side by side, the longest lists first, without gaps
// for those that have ended (jagged diagonals, Saad 1989, of the slices and windows of
// SELL-C-sigma, Kreutzer et al. 2014). A product is coded as the places of its factors, that in A
// counted from where the rows of the window begin, in 4 bytes if they fit. Very long lists have a
// warp each. Lists are counted and written by the tasks of kernels/spgemm/row/plan.cuh. See
// kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/plan.cuh"

namespace tessera::row_spgemm {

constexpr int kCellsOfStrip = 32;
constexpr int kCellsOfWindow = 1024, kStripsOfWindow = kCellsOfWindow / kCellsOfStrip;

/// Consecutive cells of C: the lists of their strips, and then long ones.
struct alignas(16) Window {
  std::int64_t first_product;
  std::int32_t first_of_a;  // where the rows of its cells begin in A
};

/// 32 lists of a window, interleaved.
struct alignas(8) Strip {
  std::int32_t first_product;  // in its window
  std::int32_t products;
};

/// A list that would keep its strip waiting.
struct LongList {
  std::int64_t first_product, cell;
  std::int32_t products, first_of_a;
};

/// A list of a strip: how long it is, and of which of its window's cells. Without products it is
/// none of the strip's: every cell of C has one.
struct StripList {
  std::uint32_t code;

  static __device__ StripList of(int length, int cell) {
    return {static_cast<std::uint32_t>(length * kCellsOfWindow + cell)};
  }
  __device__ int length() const { return static_cast<int>(code / kCellsOfWindow); }
  __device__ int cell() const { return static_cast<int>(code % kCellsOfWindow); }
};

/// How long the lists of strips are at most: a lane takes a step for each product, a few of them
/// for the latency of memory, while all the products that there are take as long as they do.
constexpr int kLeastLimit = 128, kMostLimit = 1024;
constexpr int limit_of_lists(std::int64_t products) {
  constexpr std::int64_t kProductsOfStep = 1 << 17;
  return static_cast<int>(
      std::clamp(products / kProductsOfStep, std::int64_t{kLeastLimit}, std::int64_t{kMostLimit}));
}

/// Where the factors of a product are: in A after the first of its window, and in B.
struct Places {
  std::uint32_t of_a, of_b;
};

/// Codes beyond the last that may be read, for nothing: lanes whose lists have ended do.
constexpr int kPadding = 32;

/// The codes of products, [products + kPadding].
struct Codes {
  std::uint32_t* words;  // places in B; if packed, with those in A above them
  void* of_a;            // places in A, of so many bytes each:
  int bytes_of_a;        // 2 or 4; 0 if packed
  int bits_of_b;
  std::uint32_t mask_of_b;  // as many bits

  __device__ void store(std::int64_t at, const Places& places) const {
    words[at] = bytes_of_a == 0 ? places.of_a << bits_of_b | places.of_b : places.of_b;
    if (bytes_of_a == 2)
      static_cast<std::uint16_t*>(of_a)[at] = static_cast<std::uint16_t>(places.of_a);
    if (bytes_of_a == 4) static_cast<std::uint32_t*>(of_a)[at] = places.of_a;
  }
};

struct ListsView {
  std::int64_t cells, windows;
  Window* of_windows;    // [windows]
  Strip* strips;         // [windows][32]
  StripList* of_strips;  // [windows][32][32]
  LongList* longs;       // [num_longs]
  std::int32_t num_longs;
  Codes codes;
};

/// What the host wants to know before lists are written, all zero before.
struct ListFacts {
  unsigned long long products;
  std::uint32_t span;                         // the most nonzeros of A that a window's rows have
  std::uint32_t most;                         // products of a window
  std::uint32_t longest;                      // list that is not long
  std::uint32_t longs;                        // those that are
  std::uint32_t placed_longs, placed_larges;  // as they are listed: strips for a thread block
};

/// What goes over the products of tasks, to count or to write them.
struct Listing {
  const std::int64_t* offsets;  // [tasks + 1]: cells before each
  std::int32_t* cols;           // [cells] of C: written with the counts
  std::int32_t* counts;         // [cells]; where products are written, places in their windows
  const Window* windows;        // [windows], nullptr while they are counted
  Codes codes;

  __device__ bool writes() const { return windows != nullptr; }
  __device__ void write(std::int64_t cell, std::int32_t place, std::int32_t of_a,
                        std::int32_t of_b) const {
    const Window window = windows[cell / kCellsOfWindow];
    codes.store(window.first_product + place, {static_cast<std::uint32_t>(of_a - window.first_of_a),
                                               static_cast<std::uint32_t>(of_b)});
  }
};

/// A product on its way to its list.
struct Listed {
  std::int32_t of_a = 0, of_b = 0;
  std::int32_t col = -1;
};

/// Counts the products of each cell, and writes columns; or writes the products.
template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    list_products(View view, Batch batch, int bytes, Listing listing) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const SortedTask sorted = batch.at(number);
  const Task task = batch.task(sorted);
  const std::int64_t first = sorted.id < 0 ? 0 : listing.offsets[sorted.id];
  const int count = sorted.id < 0 ? 0 : static_cast<int>(listing.offsets[sorted.id + 1] - first);

  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  unsigned char* of_bitmap = memory + Group::kLanes * sizeof(Segment);
  Bitmap bitmap(task, of_bitmap);
  auto* places = reinterpret_cast<std::int32_t*>(of_bitmap + bitmap.bytes());
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, places, listing.writes() ? nullptr : listing.cols + first);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    places[i] = listing.writes() ? listing.counts[first + i] : 0;
  Group::sync();
  for_products<Group, SegmentKind::kPlaces>(
      view, task, staged, scratch, reinterpret_cast<std::uint32_t*>(places),
      [&](std::int32_t at, float place_in_a) {
        return at < 0 ? Listed{} : Listed{__float_as_int(place_in_a), at, __ldg(view.b_cols + at)};
      },
      [&](const Listed& product) { return product.col < 0 ? -1 : bitmap.rank(product.col); },
      [&](const Listed& product, int rank) {
        const std::int32_t place = places[rank]++;
        if (listing.writes()) listing.write(first + rank, place, product.of_a, product.of_b);
      });
  if (listing.writes()) return;
  Group::sync();
  for (int i = Group::lane(); i < count; i += Group::kLanes) listing.counts[first + i] = places[i];
}

/// The same for small tasks.
template <int kLanes>
__global__ void __launch_bounds__(kThreadsOfGroups)
    list_small_products(View view, Batch batch, Listing listing) {
  const int number = static_cast<int>(blockIdx.x * kThreadsOfGroups + threadIdx.x) / kLanes;
  const SortedTask task = batch.at(number);
  __shared__ __align__(16) std::int32_t cols[kThreadsOfGroups];
  const SmallRow<kLanes> row(view, task, cols + threadIdx.x / kLanes * kLanes);
  const std::int64_t first = task.id < 0 ? 0 : listing.offsets[task.id];
  row.each([&](int place, std::int32_t col, int number_of_term, int terms, std::int32_t of_a,
               std::int32_t of_b) {
    const std::int64_t cell = first + place;
    if (listing.writes()) {
      listing.write(cell, listing.counts[cell] + number_of_term, of_a, of_b);
    } else if (number_of_term == 0) {
      listing.cols[cell] = col;
      listing.counts[cell] = terms;
    }
  });
}

/// Cells of C and how many products each has, as windows are made of them.
struct Cells {
  std::int64_t cells, windows;
  std::int32_t rows;
  int limit;                        // of lists that are not long
  const std::int64_t* row_offsets;  // [rows + 1] of C
  const std::int32_t* a_offsets;    // [rows + 1]
  std::int32_t* counts;             // [cells]; then where each list begins in its window
  std::int64_t* products;           // [windows + 1] of each; then of those before
  std::int32_t* first_of_a;         // [windows]
  std::int64_t* larges;             // [windows][32]: strips for a thread block

  __device__ std::int32_t row_of(std::int64_t cell) const {
    std::int32_t row = 0, above = rows;
    while (above - row > 1) {
      const std::int32_t middle = row + (above - row) / 2;
      (row_offsets[middle] <= cell ? row : above) = middle;
    }
    return row;
  }
};

/// Strips of more products than a warp has room for are interleaved by a thread block.
constexpr int kRoomOfWarp = 1024;

template <class T>
__device__ T sum_of_warp(T x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

__device__ inline void raise(std::uint32_t* most, std::uint32_t value) {
  if (peek(most) < value) atomicMax(most, value);
}

/// How many products windows have, and where in A: a warp for each, and one for the end.
static __global__ void __launch_bounds__(kThreads) measure_windows(Cells of, ListFacts* facts) {
  const std::int64_t window = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
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

/// Sorts the keys of a window, by a thread block (bitonic: Batcher 1968).
__device__ inline void sort_window(std::uint32_t* keys) {
  for (int size = 2; size <= kCellsOfWindow; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kCellsOfWindow / 2; i += kThreads) {
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

/// Gives every list its place: a thread block for each window.
static __global__ void __launch_bounds__(kThreads)
    place_lists(Cells of, ListsView lists, ListFacts* facts) {
  using Block = Group<kThreads>;
  constexpr int kEach = kCellsOfWindow / kThreads;
  __shared__ std::uint32_t keys[kCellsOfWindow];
  __shared__ int scratch[Block::kWarps];
  const std::int64_t window = blockIdx.x, first_cell = window * kCellsOfWindow;
  const std::int64_t first_product = of.products[window];
  const std::int32_t first_of_a = of.first_of_a[window];
  if (threadIdx.x == 0) lists.of_windows[window] = {first_product, first_of_a};
  std::int32_t counts[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int cell = i * kThreads + Block::lane();
    counts[i] = first_cell + cell < of.cells ? of.counts[first_cell + cell] : 0;
    const int length = counts[i] > of.limit ? 0 : counts[i];
    keys[cell] = StripList::of(kMostLimit - length, cell).code;
  }
  sort_window(keys);
  int placed = 0, all = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = i * kThreads + Block::lane();
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
    if (products > kRoomOfWarp) of.larges[atomicAdd(&facts->placed_larges, 1u)] = strip;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool is_long = counts[i] > of.limit;
    const int place = placed + Block::before(is_long ? counts[i] : 0, all, scratch);
    placed += all;
    if (!is_long) continue;
    const std::int64_t cell = first_cell + i * kThreads + Block::lane();
    of.counts[cell] = place;
    lists.longs[atomicAdd(&facts->placed_longs, 1u)] = {first_product + place, cell, counts[i],
                                                        first_of_a};
  }
}

/// Lists that lie one after another come to lie step by step. `staged` has room for them.
template <class Group, class T>
__device__ void interleave_lists(T* lists, int products, int length, T* staged) {
  for (int i = Group::lane(); i < products; i += Group::kLanes) staged[i] = lists[i];
  Group::sync();
  // Each warp has some of the steps.
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
  if (!Group::kIsBlock && strip.products > kRoomOfWarp) return;
  const int length = lists.of_strips[at * kCellsOfStrip + lane_of_warp()].length();
  if (__reduce_max_sync(kAllLanes, length) <= 1) return;  // they are as they should be
  const Codes& codes = lists.codes;
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

/// Every strip that a warp has room for.
static __global__ void __launch_bounds__(kThreadsOfGroups)
    interleave_small_strips(ListsView lists) {
  constexpr int kWarps = kThreadsOfGroups / 32;
  __shared__ __align__(16) unsigned char staged[kWarps][kRoomOfWarp * sizeof(std::uint32_t)];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t strip = std::int64_t{blockIdx.x} * kWarps + warp;
  if (strip < lists.windows * kStripsOfWindow)
    interleave_strip<Group<32>>(lists, strip, staged[warp]);
}

/// The others.
static __global__ void __launch_bounds__(kThreads)
    interleave_large_strips(ListsView lists, const std::int64_t* larges, const ListFacts* facts) {
  extern __shared__ __align__(16) unsigned char shared[];
  for (std::uint32_t i = blockIdx.x; i < facts->placed_larges; i += gridDim.x)
    interleave_strip<Group<kThreads>>(lists, larges[i], shared);
}

}  // namespace tessera::row_spgemm
