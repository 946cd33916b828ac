// row_spgemm's sums from lists of products (kernels/spgemm/row/lists.cuh): how the lists come to
// be, and the kernel that gathers what they name. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <type_traits>

#include "kernels/spgemm/row/lists.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

/// What the sums are of, and where they go.
struct Terms {
  const float* a;  // [nonzeros of A]
  const float* b;  // [nonzeros of B]
  float* sums;     // [cells]
  float alpha;

  __device__ void write(std::int64_t cell, float sum) const {
    sums[cell] = alpha == 1 ? sum : alpha * sum;
  }
};

/// Reads the codes of strips or of a long list, this lane's.
template <int kBytesOfA>
class CodeReader {
  using OfA = std::conditional_t<kBytesOfA == 4, std::uint32_t, std::uint16_t>;

 public:
  struct Code {
    std::uint32_t word;
    OfA of_a;
  };

  /// Those from product `first` on, of which the first in A's values is first_of_a.
  __device__ CodeReader(const Codes& codes, std::int64_t first, std::int32_t first_of_a)
      : words_(codes.words + first + lane_of_warp()),
        of_a_(static_cast<const OfA*>(codes.of_a) + (kBytesOfA == 0 ? 0 : first + lane_of_warp())),
        bits_of_b_(codes.bits_of_b),
        mask_of_b_(codes.mask_of_b),
        first_of_a_(static_cast<std::uint32_t>(first_of_a)) {}

  __device__ void skip(int products) {
    words_ += products;
    if constexpr (kBytesOfA != 0) of_a_ += products;
  }

  /// This lane's code after so many.
  __device__ Code operator[](int at) const {
    Code code{__ldcs(words_ + at), 0};
    if constexpr (kBytesOfA != 0) code.of_a = __ldcs(of_a_ + at);
    return code;
  }

  /// The product's factors; some that there are, for no product.
  __device__ float2 factors(const Terms& terms, const Code& code, bool is_there) const {
    const std::uint32_t word = is_there ? code.word : 0;
    const std::uint32_t a = kBytesOfA == 0 ? word >> bits_of_b_ : is_there ? code.of_a : 0;
    const std::uint32_t b = kBytesOfA == 0 ? word & mask_of_b_ : word;
    return make_float2(__ldg(terms.a + (first_of_a_ + a)), __ldg(terms.b + b));
  }

 private:
  const std::uint32_t* words_;
  const OfA* of_a_;
  int bits_of_b_;
  std::uint32_t mask_of_b_, first_of_a_;
};

/// The codes of some steps.
template <class Reader, int kSteps = kAhead>
struct CodesOfWave {
  typename Reader::Code codes[kSteps];

  /// Of steps that all lanes have.
  __device__ void load_full(Reader& reader) {
#pragma unroll
    for (int u = 0; u < kSteps; ++u) codes[u] = reader[32 * u];
    reader.skip(32 * kSteps);
  }
  /// Of steps that the first lanes have: those that have as many left. The others' are of other
  /// products, or of none: kPadding is for them.
  __device__ void load(Reader& reader, int left) {
#pragma unroll
    for (int u = 0; u < kSteps; ++u) {
      codes[u] = reader[0];
      reader.skip(__popc(__ballot_sync(kAllLanes, left > u)));
    }
  }

  /// Adds the products of as many steps as are left to the sum.
  __device__ float add_to(float sum, const Reader& reader, const Terms& terms, int left) const {
    float2 factors[kSteps];
#pragma unroll
    for (int u = 0; u < kSteps; ++u) factors[u] = reader.factors(terms, codes[u], left > u);
#pragma unroll
    for (int u = 0; u < kSteps; ++u)
      if (left > u) sum = fmaf(factors[u].x, factors[u].y, sum);
    return sum;
  }
};

/// Adds the products of the last steps.
template <int kSteps, class Reader>
__device__ float add_last(float sum, Reader& reader, const Terms& terms, int left) {
  CodesOfWave<Reader, kSteps> codes;
  codes.load(reader, left);
  return codes.add_to(sum, reader, terms, left);
}

/// The sum of this lane's list, `left` products from where the reader is; every lane of the warp is
/// here, the first has most.
template <class Reader>
__device__ float sum_of_list(Reader reader, const Terms& terms, int left) {
  static_assert(kAhead == 4);
  int most = __shfl_sync(kAllLanes, left, 0);
  int full = __shfl_sync(kAllLanes, left, 31) / kAhead * kAhead;  // steps of all lanes
  float sum = 0;
  left -= full;
  most -= full;
  // The next wave's codes are on their way while the factors of one are.
  CodesOfWave<Reader> next;
  if (full > 0) next.load_full(reader);
#pragma unroll 1
  while (full > 0) {
    const CodesOfWave<Reader> now = next;
    full -= kAhead;
    if (full > 0) next.load_full(reader);
    sum = now.add_to(sum, reader, terms, kAhead);
  }
  if (most >= kAhead) next.load(reader, left);
#pragma unroll 1
  while (most >= kAhead) {
    const CodesOfWave<Reader> now = next;
    most -= kAhead;
    if (most >= kAhead) next.load(reader, left - kAhead);
    sum = now.add_to(sum, reader, terms, left);
    left -= kAhead;
  }
  if (most == 1) return add_last<1>(sum, reader, terms, left);
  if (most == 2) return add_last<2>(sum, reader, terms, left);
  if (most == 3) return add_last<3>(sum, reader, terms, left);
  return sum;
}

/// The sum of a long list, by a warp: all gather, and all add the same. staged [32 kAhead] is
/// shared memory.
template <int kBytesOfA>
__device__ float sum_of_long_list(const Codes& codes, const Terms& terms, const LongList& list,
                                  float2* staged) {
  using Reader = CodeReader<kBytesOfA>;
  constexpr int kProducts = 32 * kAhead;
  const Reader reader(codes, list.first_product, list.first_of_a);
  CodesOfWave<Reader> wave;
  const auto load_codes = [&](int first) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (first + 32 * u + lane_of_warp() < list.products) wave.codes[u] = reader[first + 32 * u];
  };
  float2 next[kAhead];
  const auto load_factors = [&](int left) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const bool is_there = 32 * u + lane_of_warp() < left;
      next[u] = reader.factors(terms, wave.codes[u], is_there);
      if (!is_there) next[u] = make_float2(-0.0f, 0.0f);  // added to any sum, it leaves it as it is
    }
  };
  load_codes(0);
  load_factors(list.products);
  load_codes(kProducts);
  float sum = 0;
  for (int first = 0; first < list.products; first += kProducts) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) staged[32 * u + lane_of_warp()] = next[u];
    __syncwarp();
    load_factors(list.products - first - kProducts);
    load_codes(first + 2 * kProducts);
#pragma unroll 8
    for (int i = 0; i < kProducts; i += 2) {
      const float4 two = *reinterpret_cast<const float4*>(staged + i);
      sum = fmaf(two.x, two.y, sum);
      sum = fmaf(two.z, two.w, sum);
    }
    __syncwarp();
  }
  return sum;
}

/// In the place of the sum of a cell that is not a strip's: a NaN that no sum is.
constexpr std::uint32_t kNoSum = 0xffffffff;

/// C's values: the first thread blocks have long lists, a warp each; then each has a window.
template <int kBytesOfA>
__global__ void __launch_bounds__(kThreads)
    gather_sums(ListsView lists, Terms terms, unsigned blocks_of_longs) {
  constexpr int kWarps = kThreads / 32;
  __shared__ __align__(16) float2 staged[kWarps][32 * kAhead];
  static_assert(sizeof(staged) >= kCellsOfWindow * sizeof(float));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (blockIdx.x < blocks_of_longs) {
    const int number = static_cast<int>(blockIdx.x) * kWarps + warp;
    if (number >= lists.num_longs) return;
    const LongList list = lists.longs[number];
    const float sum = sum_of_long_list<kBytesOfA>(lists.codes, terms, list, staged[warp]);
    if (lane_of_warp() == 0) terms.write(list.cell, sum);
    return;
  }
  auto* sums = reinterpret_cast<float*>(staged);  // [kCellsOfWindow]
  const std::int64_t at = blockIdx.x - blocks_of_longs;
  const Window window = lists.of_windows[at];
  const CodeReader<kBytesOfA> reader(lists.codes, window.first_product, window.first_of_a);
  // A warp has strips from all over the window: some of longer lists, some of shorter ones.
  const StripList* of_lane = lists.of_strips + at * kCellsOfWindow + threadIdx.x;
  const Strip* of_warp = lists.strips + at * kStripsOfWindow + warp;
  StripList next = *of_lane;
  std::int32_t next_product = of_warp->first_product;
#pragma unroll 1
  for (int strip = 0; strip < kStripsOfWindow; strip += kWarps) {
    const StripList list = next;
    CodeReader<kBytesOfA> of_strip = reader;
    of_strip.skip(next_product);
    if (strip + kWarps < kStripsOfWindow) {
      next = of_lane[(strip + kWarps) * kCellsOfStrip];
      next_product = of_warp[strip + kWarps].first_product;
    }
    const float sum = sum_of_list(of_strip, terms, list.length());
    sums[list.cell()] = list.length() > 0 ? sum : __uint_as_float(kNoSum);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCellsOfWindow; i += kThreads) {
    const int cell = i + static_cast<int>(threadIdx.x);
    if (__float_as_uint(sums[cell]) != kNoSum) terms.write(at * kCellsOfWindow + cell, sums[cell]);
  }
}

/// The products of every cell of C, listed.
class ProductLists {
 public:
  /// There are so many. Also writes C's columns, `cells` of them; its rows begin at row_offsets
  /// [rows + 1]. The tasks have been sorted for sums. Waits.
  ProductLists(RowTasks& tasks, const RowTasks::Work& work, std::int64_t products,
               const std::int64_t* row_offsets, std::int32_t* cols, std::int64_t cells,
               ProductRun& run) {
    view_.cells = cells;
    view_.windows = parts(cells, kCellsOfWindow);
    if (cells == 0) return;
    run.stage("lists");
    const cudaStream_t stream = run.stream();
    Counting counting(run, work.view, products, row_offsets, cells);
    Listing listing{work.offsets.data(), cols, counting.cells.counts, nullptr, {}};
    list(tasks, work, listing, stream);
    const ListFacts facts = counting.measure(run);
    take(work.view, facts, run);
    place_lists<<<blocks_for(view_.windows, 1), kThreads, 0, stream>>>(counting.cells, view_,
                                                                       counting.facts);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    listing.windows = view_.of_windows;
    listing.codes = view_.codes;
    list(tasks, work, listing, stream);
    interleave(facts, counting, stream);
  }

  /// C's values, with those that A and B have by now.
  void sum(const Terms& terms, cudaStream_t stream) const {
    if (view_.cells == 0) return;
    const int bytes_of_a = view_.codes.bytes_of_a;
    if (bytes_of_a == 0) return launch<0>(terms, stream);
    if (bytes_of_a == 2) return launch<2>(terms, stream);
    launch<4>(terms, stream);
  }

 private:
  /// What is counted before the lists have their room.
  struct Counting {
    Counting(ProductRun& run, const View& view, std::int64_t products,
             const std::int64_t* row_offsets, std::int64_t cells_of_c) {
      const std::int64_t windows = parts(cells_of_c, kCellsOfWindow);
      scratch_bytes_ = spgemm::running_sum_bytes<std::int64_t>(
          static_cast<const std::int64_t*>(nullptr), windows + 1);
      const auto counts = block_.place<std::int32_t>(cells_of_c);
      const auto of_windows = block_.place<std::int64_t>(windows + 1);
      const auto first_of_a = block_.place<std::int32_t>(windows);
      const auto larges = block_.place<std::int64_t>(windows * kStripsOfWindow);
      const auto of_facts = block_.place<ListFacts>(1);
      scratch_ = block_.place<std::byte>(scratch_bytes_);
      block_.take(run);
      cells = {.cells = cells_of_c,
               .windows = windows,
               .rows = view.rows,
               .limit = limit_of_lists(products),
               .row_offsets = row_offsets,
               .a_offsets = view.a_offsets,
               .counts = block_.data<std::int32_t>(counts),
               .products = block_.data<std::int64_t>(of_windows),
               .first_of_a = block_.data<std::int32_t>(first_of_a),
               .larges = block_.data<std::int64_t>(larges)};
      facts = block_.data<ListFacts>(of_facts);
    }

    /// Once products are counted. Waits.
    ListFacts measure(ProductRun& run) const {
      const cudaStream_t stream = run.stream();
      cuda_check(cudaMemsetAsync(facts, 0, sizeof(ListFacts), stream), "clearing");
      measure_windows<<<blocks_for(cells.windows + 1, kThreads / 32), kThreads, 0, stream>>>(cells,
                                                                                             facts);
      cuda_check(cudaGetLastError(), "launching row_spgemm");
      spgemm::running_sum(block_.array<std::byte>(scratch_, scratch_bytes_), cells.products,
                          cells.products, cells.windows + 1, stream);
      cuda_check(cudaMemcpyAsync(&facts->products, cells.products + cells.windows,
                                 sizeof(std::int64_t), cudaMemcpyDeviceToDevice, stream),
                 "counting products");
      return spgemm::read_back(run, facts);
    }

    Cells cells;
    ListFacts* facts;  // [1]

   private:
    RunBlock block_;
    std::int64_t scratch_bytes_, scratch_;
  };

  /// Counts products, or writes them where the listing has windows.
  static void list(RowTasks& tasks, const RowTasks::Work& work, const Listing& listing,
                   cudaStream_t stream) {
    tasks.with_ranks(
        work, stream,
        [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t of_class) {
          launch_groups<Group>(list_products<Group, Bitmap>, batch.count, bytes, of_class,
                               work.view, batch, bytes, listing);
        },
        [&]<int kLanes>(const Batch& batch, cudaStream_t of_class) {
          launch_small_groups<kLanes>(list_small_products<kLanes>, batch.count, of_class, work.view,
                                      batch, listing);
        });
  }

  void take(const View& view, const ListFacts& facts, ProductRun& run) {
    constexpr int kMost = INT_MAX - 128 * kAhead;  // places in long lists are counted beyond them
    require<Unsupported>(facts.most <= kMost,
                         "{} products or more of {} cells are more than row_spgemm lists",
                         facts.most, int{kCellsOfWindow});
    Codes& codes = view_.codes;
    codes.bits_of_b = bits_of_place(view.nonzeros_of_b);
    codes.mask_of_b = static_cast<std::uint32_t>((std::int64_t{1} << codes.bits_of_b) - 1);
    codes.bytes_of_a = bytes_of_a(facts.span, view.nonzeros_of_b);
    view_.num_longs = static_cast<std::int32_t>(facts.longs);
    const auto products = static_cast<std::int64_t>(facts.products);
    const auto windows = block_.place<Window>(view_.windows);
    const auto strips = block_.place<Strip>(kStripsOfWindow * view_.windows);
    const auto of_strips = block_.place<StripList>(kCellsOfWindow * view_.windows);
    const auto longs = block_.place<LongList>(view_.num_longs);
    const auto words = block_.place<std::uint32_t>(products + kPadding);
    const auto of_a = block_.place<std::byte>(codes.bytes_of_a * (products + kPadding));
    block_.take(run);
    view_.of_windows = block_.data<Window>(windows);
    view_.strips = block_.data<Strip>(strips);
    view_.of_strips = block_.data<StripList>(of_strips);
    view_.longs = block_.data<LongList>(longs);
    codes.words = block_.data<std::uint32_t>(words);
    codes.of_a = block_.data<std::byte>(of_a);
  }

  void interleave(const ListFacts& facts, const Counting& counting, cudaStream_t stream) const {
    const std::int64_t strips = view_.windows * kStripsOfWindow;
    interleave_small_strips<<<blocks_for(strips, kThreadsOfGroups / 32), kThreadsOfGroups, 0,
                              stream>>>(view_);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const int most = kCellsOfStrip * static_cast<int>(facts.longest);  // products of a strip
    if (most <= kRoomOfWarp) return;
    constexpr std::int64_t kMostBlocks = 1024;
    const int shared = most * static_cast<int>(sizeof(std::uint32_t));
    cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(interleave_large_strips),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
               "asking for shared memory");
    interleave_large_strips<<<blocks_for(std::min(strips, kMostBlocks), 1), kThreads,
                              static_cast<std::size_t>(shared), stream>>>(
        view_, counting.cells.larges, counting.facts);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  template <int kBytesOfA>
  void launch(const Terms& terms, cudaStream_t stream) const {
    const unsigned blocks_of_longs = blocks_for(view_.num_longs, kThreads / 32);
    gather_sums<kBytesOfA><<<blocks_of_longs + blocks_for(view_.windows, 1), kThreads, 0, stream>>>(
        view_, terms, blocks_of_longs);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  ListsView view_ = {};
  RunBlock block_;
};

}  // namespace tessera::row_spgemm
