// row_spgemm's lists: for each cell of C its products in the order of A's columns, kept so that
// products with other values of A and B only gather and add. A lane makes the sum of a cell, of 32
// consecutive ones, a strip, those of a warp: step by step their next products lie side by side,
// the longest lists first, without gaps for those that have ended (jagged diagonals, Saad 1989, of
// the slices of sliced ELL, Monakov et al. 2010). A product is coded as the places of its factors,
// that in A counted from where the rows of the strip begin, in 4 bytes if they fit. Very long lists
// have a warp each. Lists are counted and written by the tasks of kernels/row_spgemm_plan.cuh. See
// kernels/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "kernels/row_spgemm_plan.cuh"

namespace tessera::row_spgemm {

constexpr int kCellsOfStrip = 32;

/// Consecutive cells of C. The lists that are not long come first, interleaved; then long ones.
struct alignas(16) Strip {
  std::int64_t first_product;
  std::int32_t first_of_a;  // where the rows of its cells begin in A
  std::int32_t products;    // of lists that are not long
};

/// A list that would keep its strip waiting.
struct LongList {
  std::int64_t first_product, cell;
  std::int32_t products, first_of_a;
};
/// A list of a strip: how long it is, and of which of the strip's cells. Without products it is
/// none of the strip's: every cell of C has one. A strip's are sorted, the longest first.
struct StripList {
  static constexpr int kBitsOfCell = 5;
  static_assert(kCellsOfStrip == 1 << kBitsOfCell);

  std::uint16_t code;

  __device__ static StripList of(int length, int cell) {
    return {static_cast<std::uint16_t>(length << kBitsOfCell | cell)};
  }
  __device__ int length() const { return code >> kBitsOfCell; }
  __device__ int cell() const { return code % kCellsOfStrip; }
};

/// How long the lists of strips are at most: a lane takes a step for each product, a few of them
/// for the latency of memory, while all the products that there are take as long as they do.
constexpr int kLeastLimit = 256, kMostLimit = 1024;
static_assert(kMostLimit << StripList::kBitsOfCell < 1 << 16);
constexpr int limit_of_lists(double products) {
  constexpr double kProductsOfStep = 1 << 17;
  return static_cast<int>(
      std::clamp(products / kProductsOfStep, double{kLeastLimit}, double{kMostLimit}));
}

/// Where the factors of a product are: in A after the first of its strip, and in B.
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
  std::int64_t cells, strips;
  Strip* of_strips;     // [strips]
  StripList* of_lanes;  // [strips][32]
  LongList* longs;      // [num_longs]
  std::int32_t num_longs;
  Codes codes;
};

/// What the host wants to know before lists are written, all zero before.
struct ListFacts {
  unsigned long long products;
  std::uint32_t span;                         // the most nonzeros of A that a strip's rows have
  std::uint32_t most;                         // products of a strip
  std::uint32_t interleaved;                  // the most of them in lists that are not long
  std::uint32_t longs, larges;                // such lists; strips for a thread block
  std::uint32_t placed_longs, placed_larges;  // used while these are listed
};

/// What goes over the products of tasks, to count or to write them.
struct Listing {
  const std::int64_t* offsets;  // [tasks + 1]: cells before each
  std::int32_t* cols;           // [cells] of C: written with the counts
  std::int32_t* counts;         // [cells]; where products are written, places in their strips
  const Strip* strips;          // [strips], nullptr while they are counted
  Codes codes;

  __device__ bool writes() const { return strips != nullptr; }
  __device__ void write(std::int64_t cell, std::int32_t place, std::int32_t of_a,
                        std::int32_t of_b) const {
    const Strip strip = strips[cell / kCellsOfStrip];
    codes.store(strip.first_product + place, {static_cast<std::uint32_t>(of_a - strip.first_of_a),
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
  for_products<Group, What::kPlaces>(
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

/// Cells of C and how many products each has, as strips are made of them.
struct Cells {
  std::int64_t cells, strips;
  std::int32_t rows;
  int limit;                        // of lists that are not long
  const std::int64_t* row_offsets;  // [rows + 1] of C
  const std::int32_t* a_offsets;    // [rows + 1]
  std::int32_t* counts;             // [cells]; then where each list begins in its strip
  std::int64_t* products;           // [strips + 1] of each; then of those before
  std::int32_t* first_of_a;         // [strips]
  std::int32_t* larges;             // [strips]: those for a thread block

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

/// How many products strips have, and where in A: a warp for each, and one for the end.
static __global__ void __launch_bounds__(kThreads) measure_strips(Cells of, ListFacts* facts) {
  const std::int64_t strip = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  if (strip > of.strips) return;
  const std::int64_t first = strip * kCellsOfStrip, cell = first + lane_of_warp();
  const std::int32_t count = cell < of.cells ? of.counts[cell] : 0;
  const bool is_long = count > of.limit;
  const long long products = sum_of_warp<long long>(count);
  const int interleaved = sum_of_warp(is_long ? 0 : count);
  const int longs = __popc(__ballot_sync(kAllLanes, is_long));
  if (lane_of_warp() != 0) return;
  of.products[strip] = products;
  if (strip == of.strips) return;
  const std::int64_t last = min(first + kCellsOfStrip, of.cells) - 1;
  const std::int32_t begin = of.a_offsets[of.row_of(first)];
  of.first_of_a[strip] = begin;
  raise(&facts->span, static_cast<std::uint32_t>(of.a_offsets[of.row_of(last) + 1] - begin));
  raise(&facts->most, static_cast<std::uint32_t>(min(products, static_cast<long long>(UINT_MAX))));
  raise(&facts->interleaved, static_cast<std::uint32_t>(interleaved));
  if (longs > 0) atomicAdd(&facts->longs, static_cast<std::uint32_t>(longs));
  if (interleaved > kRoomOfWarp) atomicAdd(&facts->larges, 1u);
}

/// Gives every list its place.
static __global__ void __launch_bounds__(kThreads)
    place_lists(Cells of, ListsView lists, ListFacts* facts) {
  const std::int64_t strip = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  if (strip >= of.strips) return;
  const std::int64_t cell = strip * kCellsOfStrip + lane_of_warp();
  const std::int32_t count = cell < of.cells ? of.counts[cell] : 0;
  const bool is_long = count > of.limit;
  const int length = is_long ? 0 : count;
  int rank = 0, before = 0, interleaved = 0;  // of the list among the strip's, products before it
  for (int lane = 0; lane < 32; ++lane) {
    const int other = __shfl_sync(kAllLanes, length, lane);
    const bool is_before = other > length || (other == length && lane < lane_of_warp());
    if (is_before) ++rank;
    if (is_before) before += other;
    interleaved += other;
  }
  const int longs_up_to = sum_up_to(is_long ? count : 0);
  const std::int32_t place = is_long ? interleaved + longs_up_to - count : before;
  const std::int64_t first = of.products[strip];
  const std::int32_t first_of_a = of.first_of_a[strip];
  if (cell < of.cells) of.counts[cell] = place;
  lists.of_lanes[strip * kCellsOfStrip + rank] = StripList::of(length, lane_of_warp());
  if (is_long)
    lists.longs[atomicAdd(&facts->placed_longs, 1u)] = {first + place, cell, count, first_of_a};
  if (lane_of_warp() != 0) return;
  lists.of_strips[strip] = {first, first_of_a, interleaved};
  if (interleaved > kRoomOfWarp)
    of.larges[atomicAdd(&facts->placed_larges, 1u)] = static_cast<std::int32_t>(strip);
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

/// Interleaves every strip that a warp has room for; or by thread blocks those others.
template <class Group>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    interleave_strips(ListsView lists, const std::int32_t* larges, int bytes) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const std::int64_t number = std::int64_t{blockIdx.x} * kGroups<Group> + group;
  if (!Group::kIsBlock && number >= lists.strips) return;
  const std::int64_t at = Group::kIsBlock ? larges[number] : number;
  const Strip strip = lists.of_strips[at];
  if (!Group::kIsBlock && strip.products > kRoomOfWarp) return;
  const int length = lists.of_lanes[at * kCellsOfStrip + lane_of_warp()].length();
  if (__reduce_max_sync(kAllLanes, length) <= 1) return;  // they are as they should be
  unsigned char* staged = shared + group * bytes;
  const Codes& codes = lists.codes;
  interleave_lists<Group>(codes.words + strip.first_product, strip.products, length,
                          reinterpret_cast<std::uint32_t*>(staged));
  if (codes.bytes_of_a == 2)
    interleave_lists<Group>(static_cast<std::uint16_t*>(codes.of_a) + strip.first_product,
                            strip.products, length, reinterpret_cast<std::uint16_t*>(staged));
  if (codes.bytes_of_a == 4)
    interleave_lists<Group>(static_cast<std::uint32_t*>(codes.of_a) + strip.first_product,
                            strip.products, length, reinterpret_cast<std::uint32_t*>(staged));
}

}  // namespace tessera::row_spgemm
