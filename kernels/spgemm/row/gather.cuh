// The sums of row_spgemm from lists of products (kernels/spgemm/row/lists.cuh): the kernel that
// gathers the factors and adds the products, and the host side that builds the lists.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <type_traits>

#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/spgemm/row/lists.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

/// The values that a gather reads and writes.
struct GatherValues {
  const float* a;  // [nonzeros of A]
  const float* b;  // [nonzeros of B]
  float* sums;     // [cells]
  float alpha;

  __device__ void write(std::int64_t cell, float sum) const {
    sums[cell] = alpha == 1 ? sum : alpha * sum;
  }
};

/// Reads this lane's codes of a strip or of a long list.
template <int kBytesOfA>
class CodeReader {
  using OfA = std::conditional_t<kBytesOfA == 4, std::uint32_t, std::uint16_t>;

 public:
  struct Code {
    std::uint32_t word;
    OfA of_a;
  };

  /// Begins at product `first`; indices in A are relative to first_of_a.
  __device__ CodeReader(const ProductCodes& codes, std::int64_t first, std::int32_t first_of_a)
      : words_(codes.words + first + lane_of_warp()),
        of_a_(static_cast<const OfA*>(codes.of_a) + (kBytesOfA == 0 ? 0 : first + lane_of_warp())),
        bits_of_b_(codes.bits_of_b),
        mask_of_b_(codes.mask_of_b),
        first_of_a_(static_cast<std::uint32_t>(first_of_a)) {}

  __device__ void skip(int products) {
    words_ += products;
    if constexpr (kBytesOfA != 0) of_a_ += products;
  }

  /// This lane's code, `at` products after the reader's.
  __device__ Code operator[](int at) const {
    Code code{__ldcs(words_ + at), 0};
    if constexpr (kBytesOfA != 0) code.of_a = __ldcs(of_a_ + at);
    return code;
  }

  /// The factors of a product, x of A and y of B. Where there is no product, any values.
  __device__ float2 factors(const GatherValues& values, const Code& code, bool is_there) const {
    const std::uint32_t word = is_there ? code.word : 0;
    const std::uint32_t a = kBytesOfA == 0 ? word >> bits_of_b_ : is_there ? code.of_a : 0;
    const std::uint32_t b = kBytesOfA == 0 ? word & mask_of_b_ : word;
    return make_float2(__ldg(values.a + (first_of_a_ + a)), __ldg(values.b + b));
  }

 private:
  const std::uint32_t* words_;
  const OfA* of_a_;
  int bits_of_b_;
  std::uint32_t mask_of_b_, first_of_a_;
};

/// A lane's codes of kSteps steps. In step k each lane of a strip takes product k of its list.
template <class Reader, int kSteps = kPrefetch>
struct PrefetchedCodes {
  typename Reader::Code codes[kSteps];

  /// Loads steps in which all lanes have a product.
  __device__ void load_full(Reader& reader) {
#pragma unroll
    for (int u = 0; u < kSteps; ++u) codes[u] = reader[32 * u];
    reader.skip(32 * kSteps);
  }
  /// Loads steps in which the first lanes have a product, those with as many left. The other lanes
  /// read codes of other products or of the padding.
  __device__ void load(Reader& reader, int left) {
#pragma unroll
    for (int u = 0; u < kSteps; ++u) {
      codes[u] = reader[0];
      reader.skip(__popc(__ballot_sync(kAllLanes, left > u)));
    }
  }

  /// Adds the products of the steps that are left to the sum.
  __device__ float add_to(float sum, const Reader& reader, const GatherValues& values,
                          int left) const {
    float2 factors[kSteps];
#pragma unroll
    for (int u = 0; u < kSteps; ++u) factors[u] = reader.factors(values, codes[u], left > u);
#pragma unroll
    for (int u = 0; u < kSteps; ++u)
      if (left > u) sum = fmaf(factors[u].x, factors[u].y, sum);
    return sum;
  }
};

/// Adds the products of the last kSteps steps.
template <int kSteps, class Reader>
__device__ float add_last(float sum, Reader& reader, const GatherValues& values, int left) {
  PrefetchedCodes<Reader, kSteps> codes;
  codes.load(reader, left);
  return codes.add_to(sum, reader, values, left);
}

/// The sum of this lane's list, of `left` products from the reader's on. Every lane of the warp has
/// to call it; the first lane's list is the longest.
template <class Reader>
__device__ float sum_of_list(Reader reader, const GatherValues& values, int left) {
  static_assert(kPrefetch == 4);
  int most = __shfl_sync(kAllLanes, left, 0);
  int full = __shfl_sync(kAllLanes, left, 31) / kPrefetch * kPrefetch;  // steps that all lanes have
  float sum = 0;
  left -= full;
  most -= full;
  // The next codes load while the factors of these do.
  PrefetchedCodes<Reader> next;
  if (full > 0) next.load_full(reader);
#pragma unroll 1
  while (full > 0) {
    const PrefetchedCodes<Reader> now = next;
    full -= kPrefetch;
    if (full > 0) next.load_full(reader);
    sum = now.add_to(sum, reader, values, kPrefetch);
  }
  if (most >= kPrefetch) next.load(reader, left);
#pragma unroll 1
  while (most >= kPrefetch) {
    const PrefetchedCodes<Reader> now = next;
    most -= kPrefetch;
    if (most >= kPrefetch) next.load(reader, left - kPrefetch);
    sum = now.add_to(sum, reader, values, left);
    left -= kPrefetch;
  }
  if (most == 1) return add_last<1>(sum, reader, values, left);
  if (most == 2) return add_last<2>(sum, reader, values, left);
  if (most == 3) return add_last<3>(sum, reader, values, left);
  return sum;
}

/// The sum of a long list by a warp: its lanes gather different factors, and all add the same sum.
/// `staged` [32 kPrefetch] is shared memory.
template <int kBytesOfA>
__device__ float sum_of_long_list(const ProductCodes& codes, const GatherValues& values,
                                  const LongList& list, float2* staged) {
  using Reader = CodeReader<kBytesOfA>;
  constexpr int kProducts = 32 * kPrefetch;
  const Reader reader(codes, list.first_product, list.first_of_a);
  PrefetchedCodes<Reader> prefetched;
  const auto load_codes = [&](int first) {
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u)
      if (first + 32 * u + lane_of_warp() < list.products)
        prefetched.codes[u] = reader[first + 32 * u];
  };
  float2 next[kPrefetch];
  const auto load_factors = [&](int left) {
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      const bool is_there = 32 * u + lane_of_warp() < left;
      next[u] = reader.factors(values, prefetched.codes[u], is_there);
      if (!is_there)
        next[u] = make_float2(-0.0f, 0.0f);  // its product, -0, leaves every sum as it is
    }
  };
  load_codes(0);
  load_factors(list.products);
  load_codes(kProducts);
  float sum = 0;
  for (int first = 0; first < list.products; first += kProducts) {
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) staged[32 * u + lane_of_warp()] = next[u];
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

/// Stands for the sum of a cell that has a long list: a NaN that no sum is.
constexpr std::uint32_t kNoSum = 0xffffffff;

/// Makes C's values. The first thread blocks take long lists, one per warp; each further one takes
/// a window.
template <int kBytesOfA>
__global__ void __launch_bounds__(kRowThreads)
    gather_sums(ListsView lists, GatherValues values, unsigned blocks_of_longs) {
  constexpr int kWarps = warp_each().items();
  __shared__ __align__(16) float2 staged[kWarps][32 * kPrefetch];
  static_assert(sizeof(staged) >= kCellsOfWindow * sizeof(float));
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  if (blockIdx.x < blocks_of_longs) {
    const int number = static_cast<int>(blockIdx.x) * kWarps + warp;
    if (number >= lists.num_longs) return;
    const LongList list = lists.longs[number];
    const float sum = sum_of_long_list<kBytesOfA>(lists.codes, values, list, staged[warp]);
    if (lane_of_warp() == 0) values.write(list.cell, sum);
    return;
  }
  auto* sums = reinterpret_cast<float*>(staged);  // [kCellsOfWindow]
  const std::int64_t at = blockIdx.x - blocks_of_longs;
  const Window window = lists.of_windows[at];
  const CodeReader<kBytesOfA> reader(lists.codes, window.first_product, window.first_of_a);
  // A warp takes every eighth strip of the window: some of longer lists, some of shorter ones.
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
    const float sum = sum_of_list(of_strip, values, list.length());
    sums[list.cell()] = list.length() > 0 ? sum : __uint_as_float(kNoSum);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCellsOfWindow; i += kRowThreads) {
    const int cell = i + static_cast<int>(threadIdx.x);
    if (__float_as_uint(sums[cell]) != kNoSum) values.write(at * kCellsOfWindow + cell, sums[cell]);
  }
}

/// The lengths of the lists of products of all cells of C, in memory of their own.
class ListLengths {
 public:
  /// Counts the products of each of C's cells and writes its columns `cols` [cells]; row_offsets
  /// [rows + 1] are C's, and C has `products` products. The tasks have to be sorted for the second
  /// phase. Waits for the device.
  ListLengths(RowTasks& tasks, const RowTasks::Workspace& work, std::int64_t products,
              const std::int64_t* row_offsets, std::int32_t* cols, std::int64_t cells,
              ProductRun& run)
      : nonzeros_of_b_(work.operands.nonzeros_of_b) {
    counts_.cells = cells;
    if (cells == 0) return;
    run.stage("lists");
    take(run, work.operands, products, row_offsets);
    pass_ = {work.offsets.data(), cols, counts_.counts, nullptr, {}};
    tasks.launch_ranked<ListKernels>(work, pass_, run.stream());
    measure(run);
  }

  /// True when a product is repeated faster from portions.
  bool favour_portions() const {
    return are_portions_faster(facts_.sampled, bytes_of_a(facts_.span, nonzeros_of_b_) > 0,
                               counts_.windows <= sms_of_gpu());
  }

  const ListCounts& counts() const { return counts_; }
  const ListFacts& facts() const { return facts_; }
  ListFacts* facts_on_device() const { return on_device_; }
  /// The pass that has counted.
  const ListPass& pass() const { return pass_; }

 private:
  void take(ProductRun& run, const OperandsView& operands, std::int64_t products,
            const std::int64_t* row_offsets) {
    const std::int64_t cells = counts_.cells, windows = parts(cells, kCellsOfWindow);
    scratch_bytes_ = spgemm::running_sum_bytes<std::int64_t>(
        static_cast<const std::int64_t*>(nullptr), windows + 1);
    const auto of_cells = block_.place<std::int32_t>(cells);
    const auto of_windows = block_.place<std::int64_t>(windows + 1);
    const auto first_of_a = block_.place<std::int32_t>(windows);
    const auto larges = block_.place<std::int64_t>(windows * kStripsOfWindow);
    const auto of_facts = block_.place<ListFacts>(1);
    scratch_ = block_.place<std::byte>(scratch_bytes_);
    block_.take(run);
    counts_ = {.cells = cells,
               .windows = windows,
               .rows = operands.rows,
               .limit = limit_of_lists(products),
               .row_offsets = row_offsets,
               .a_offsets = operands.a_offsets,
               .counts = block_.data<std::int32_t>(of_cells),
               .products = block_.data<std::int64_t>(of_windows),
               .first_of_a = block_.data<std::int32_t>(first_of_a),
               .larges = block_.data<std::int64_t>(larges)};
    on_device_ = block_.data<ListFacts>(of_facts);
  }

  /// Measures the windows, once the products of cells are counted. Waits for the device.
  void measure(ProductRun& run) {
    const cudaStream_t stream = run.stream();
    const std::int64_t windows = counts_.windows;
    cuda_check(cudaMemsetAsync(on_device_, 0, sizeof(ListFacts), stream), "clearing");
    measure_windows<<<grid_of(warp_each(), windows + 1), kRowThreads, 0, stream>>>(counts_,
                                                                                   on_device_);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    spgemm::running_sum(block_.array<std::byte>(scratch_, scratch_bytes_), counts_.products,
                        counts_.products, windows + 1, stream);
    const std::int64_t stride = parts(windows, kMostSampled);
    sample_windows<<<grid_of(window_each(), parts(windows, stride)), kRowThreads, 0, stream>>>(
        counts_, stride, &on_device_->sampled);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    cuda_check(cudaMemcpyAsync(&on_device_->products, counts_.products + windows,
                               sizeof(std::int64_t), cudaMemcpyDeviceToDevice, stream),
               "counting products");
    facts_ = spgemm::read_back(run, on_device_);
  }

  RunBlock block_;
  std::int64_t nonzeros_of_b_, scratch_bytes_ = 0, scratch_ = 0;
  ListCounts counts_ = {};
  ListPass pass_ = {};
  ListFacts* on_device_ = nullptr;  // [1]
  ListFacts facts_ = {};
};

/// Lists the products of every cell of C.
class ProductLists {
 public:
  /// Lists the products whose lists have these lengths. Does not wait.
  ProductLists(RowTasks& tasks, const RowTasks::Workspace& work, const ListLengths& lengths,
               ProductRun& run) {
    const ListCounts& counts = lengths.counts();
    view_.cells = counts.cells;
    view_.windows = counts.windows;
    if (counts.cells == 0) return;
    const cudaStream_t stream = run.stream();
    allocate(work.operands, lengths.facts(), run);
    place_lists<<<grid_of(window_each(), view_.windows), kRowThreads, 0, stream>>>(
        counts, view_, lengths.facts_on_device());
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    ListPass pass = lengths.pass();
    pass.windows = view_.of_windows;
    pass.codes = view_.codes;
    tasks.launch_ranked<ListKernels>(work, pass, stream);
    interleave(lengths, stream);
  }

  /// Makes C's values from the present values of A and B.
  void sum(const GatherValues& values, cudaStream_t stream) const {
    if (view_.cells == 0) return;
    const int bytes_of_a = view_.codes.bytes_of_a;
    if (bytes_of_a == 0) return launch<0>(values, stream);
    if (bytes_of_a == 2) return launch<2>(values, stream);
    launch<4>(values, stream);
  }

 private:
  void allocate(const OperandsView& operands, const ListFacts& facts, ProductRun& run) {
    constexpr int kMost = INT_MAX - 128 * kPrefetch;  // a long list's loop counts beyond its end
    require<Unsupported>(facts.most <= kMost,
                         "row_spgemm lists at most {} products per {} nonzeros of C; there are {} "
                         "or more",
                         int{kMost}, int{kCellsOfWindow}, facts.most);
    ProductCodes& codes = view_.codes;
    codes.bits_of_b = index_bits(operands.nonzeros_of_b);
    codes.mask_of_b = static_cast<std::uint32_t>((std::int64_t{1} << codes.bits_of_b) - 1);
    codes.bytes_of_a = bytes_of_a(facts.span, operands.nonzeros_of_b);
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

  void interleave(const ListLengths& lengths, cudaStream_t stream) const {
    const std::int64_t strips = view_.windows * kStripsOfWindow;
    interleave_small_strips<<<grid_of(strip_each(), strips), kGroupThreads, 0, stream>>>(view_);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const int most =
        kCellsOfStrip * static_cast<int>(lengths.facts().longest);  // products of a strip
    if (most <= kProductsOfWarp) return;
    constexpr std::int64_t kMostBlocks = 1024;
    const int shared = most * static_cast<int>(sizeof(std::uint32_t));
    cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(interleave_large_strips),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
               "raising the limit of shared memory");
    interleave_large_strips<<<static_cast<unsigned>(std::min(strips, kMostBlocks)), kRowThreads,
                              static_cast<std::size_t>(shared), stream>>>(
        view_, lengths.counts().larges, lengths.facts_on_device());
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  template <int kBytesOfA>
  void launch(const GatherValues& values, cudaStream_t stream) const {
    const unsigned blocks_of_longs = grid_of(warp_each(), view_.num_longs);
    gather_sums<kBytesOfA>
        <<<blocks_of_longs + grid_of(window_each(), view_.windows), kRowThreads, 0, stream>>>(
            view_, values, blocks_of_longs);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  ListsView view_ = {};
  RunBlock block_;
};

}  // namespace tessera::row_spgemm
