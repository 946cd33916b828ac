// row_spgemm's sums from lists of products (kernels/row_spgemm_lists.cuh): how the lists come to
// be, and the kernel that gathers what they name. See kernels/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "kernels/row_spgemm_lists.cuh"
#include "kernels/spgemm_rows.cuh"

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

/// A strip, and how long this lane's list is.
struct StripHead {
  Strip strip = {0, 0, 0};
  std::uint16_t length = kNotOfStrip;

  __device__ StripHead() = default;
  __device__ StripHead(const ListsView& lists, std::int64_t at)
      : strip(lists.of_strips[at]),
        length(__ldcs(lists.lengths + at * kCellsOfStrip + lane_of_warp())) {}
};

/// The codes of a lane's next products, kAhead of them.
template <int kBytesOfA>
struct CodesOfWave {
  Codes::Code codes[kAhead];

  /// Those from `step` on. The strip's products before them are `at` ones, which is moved on;
  /// `least` steps have one in every lane.
  __device__ void load(const Codes& of, std::int64_t first, int& at, int step, int length,
                       int least) {
    if (step + kAhead <= least) {
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        codes[u] = of.load<kBytesOfA>(first + (at + 32 * u + lane_of_warp()));
      at += 32 * kAhead;
      return;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const unsigned there = __ballot_sync(kAllLanes, step + u < length);
      if (step + u < length)
        codes[u] = of.load<kBytesOfA>(first + (at + __popc(there & lanes_before())));
      at += __popc(there);
    }
  }
};

/// The sum of this lane's list; every lane of the warp is here.
template <int kBytesOfA>
__device__ float sum_of_list(const Codes& codes, const Terms& terms, const StripHead& head) {
  const int length = length_in(head.length);
  const int longest = __reduce_max_sync(kAllLanes, length);
  const int least = __reduce_min_sync(kAllLanes, length);
  const float* a = terms.a + head.strip.first_of_a;
  int at = 0;
  CodesOfWave<kBytesOfA> next;
  next.load(codes, head.strip.first_product, at, 0, length, least);
  float sum = 0;
  for (int step = 0; step < longest; step += kAhead) {
    const CodesOfWave<kBytesOfA> now = next;
    // They are on their way while the factors of these are.
    if (step + kAhead < longest)
      next.load(codes, head.strip.first_product, at, step + kAhead, length, least);
    float left[kAhead], right[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (step + u < length) {
        const Places places = codes.places<kBytesOfA>(now.codes[u]);
        left[u] = __ldg(a + places.of_a);
        right[u] = __ldg(terms.b + places.of_b);
      }
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (step + u < length) sum = fmaf(left[u], right[u], sum);
  }
  return sum;
}

/// The factors of the next 32 kAhead products of a long list, kAhead in each lane.
template <int kBytesOfA>
struct FactorsOfWave {
  float2 factors[kAhead];

  __device__ void load(const CodesOfWave<kBytesOfA>& wave, const Codes& codes, const float* a,
                       const float* b, int left) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      // Added to any sum, this leaves it as it is.
      factors[u] = make_float2(-0.0f, 0.0f);
      if (32 * u + lane_of_warp() >= left) continue;
      const Places places = codes.places<kBytesOfA>(wave.codes[u]);
      factors[u] = make_float2(__ldg(a + places.of_a), __ldg(b + places.of_b));
    }
  }
};

/// The sum of a long list, by a warp: all gather, and all add the same. staged [32 kAhead] is
/// shared memory.
template <int kBytesOfA>
__device__ float sum_of_long_list(const Codes& codes, const Terms& terms, const LongList& list,
                                  float2* staged) {
  constexpr int kProducts = 32 * kAhead;
  const float* a = terms.a + list.first_of_a;
  CodesOfWave<kBytesOfA> wave;
  const auto load_codes = [&](int first) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int at = first + 32 * u + lane_of_warp();
      if (at < list.products) wave.codes[u] = codes.load<kBytesOfA>(list.first_product + at);
    }
  };
  FactorsOfWave<kBytesOfA> next;
  load_codes(0);
  next.load(wave, codes, a, terms.b, list.products);
  load_codes(kProducts);
  float sum = 0;
  for (int first = 0; first < list.products; first += kProducts) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) staged[32 * u + lane_of_warp()] = next.factors[u];
    __syncwarp();
    next.load(wave, codes, a, terms.b, list.products - first - kProducts);
    load_codes(min(first, INT_MAX - 3 * kProducts) + 2 * kProducts);
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

/// C's values: the first thread blocks have long lists, a warp each; then each has as many strips.
template <int kBytesOfA>
__global__ void __launch_bounds__(kThreads)
    gather_sums(ListsView lists, Terms terms, unsigned blocks_of_longs, int strips_of_block) {
  constexpr int kWarps = kThreads / 32;
  __shared__ __align__(16) float2 staged[kWarps][32 * kAhead];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (blockIdx.x < blocks_of_longs) {
    const int number = static_cast<int>(blockIdx.x) * kWarps + warp;
    if (number >= lists.num_longs) return;
    const LongList list = lists.longs[number];
    const float sum = sum_of_long_list<kBytesOfA>(lists.codes, terms, list, staged[warp]);
    if (lane_of_warp() == 0) terms.write(list.cell, sum);
    return;
  }
  const std::int64_t first = std::int64_t{blockIdx.x - blocks_of_longs} * strips_of_block;
  const std::int64_t end = min(first + strips_of_block, lists.strips);
  std::int64_t at = first + warp;
  StripHead next = at < end ? StripHead(lists, at) : StripHead();
  for (; at < end; at += kWarps) {
    const StripHead now = next;
    if (at + kWarps < end) next = StripHead(lists, at + kWarps);
    const float sum = sum_of_list<kBytesOfA>(lists.codes, terms, now);
    if (now.length != kNotOfStrip) terms.write(at * kCellsOfStrip + lane_of_warp(), sum);
  }
}

/// The products of every cell of C, listed.
class ProductLists {
 public:
  /// Also writes C's columns, `cells` of them; its rows begin at row_offsets [rows + 1]. The tasks
  /// have been sorted for sums. Waits.
  ProductLists(RowTasks& tasks, const RowTasks::Work& work, const std::int64_t* row_offsets,
               std::int32_t* cols, std::int64_t cells, ProductRun& run) {
    view_.cells = cells;
    view_.strips = parts(cells, kCellsOfStrip);
    if (cells == 0) return;
    run.stage("lists");
    const cudaStream_t stream = run.stream();
    Counting counting(run, work.view, row_offsets, cells);
    Listing listing{work.offsets.data(), cols, counting.cells.counts, nullptr, {}};
    list(tasks, work, listing, stream);
    const ListFacts facts = counting.measure(run);
    take(work.view, facts, run);
    place_lists<<<blocks_for(view_.strips, kThreads / 32), kThreads, 0, stream>>>(
        counting.cells, view_, counting.facts);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    listing.strips = view_.of_strips;
    listing.codes = view_.codes;
    list(tasks, work, listing, stream);
    interleave(facts, counting.cells.larges, stream);
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
    Counting(ProductRun& run, const View& view, const std::int64_t* row_offsets,
             std::int64_t cells_of_c) {
      const std::int64_t strips = parts(cells_of_c, kCellsOfStrip);
      scratch_bytes_ = spgemm::running_sum_bytes<std::int64_t>(
          static_cast<const std::int64_t*>(nullptr), strips + 1);
      const auto counts = block_.place<std::int32_t>(cells_of_c);
      const auto products = block_.place<std::int64_t>(strips + 1);
      const auto first_of_a = block_.place<std::int32_t>(strips);
      const auto larges = block_.place<std::int32_t>(strips);
      const auto of_facts = block_.place<ListFacts>(1);
      scratch_ = block_.place<std::byte>(scratch_bytes_);
      block_.take(run);
      const double all = static_cast<double>(view.nonzeros_of_a) *
                         static_cast<double>(view.nonzeros_of_b) /
                         std::max(view.rows_of_b_count, 1);
      cells = {.cells = cells_of_c,
               .strips = strips,
               .rows = view.rows,
               .limit = limit_of_lists(all),
               .row_offsets = row_offsets,
               .a_offsets = view.a_offsets,
               .counts = block_.data<std::int32_t>(counts),
               .products = block_.data<std::int64_t>(products),
               .first_of_a = block_.data<std::int32_t>(first_of_a),
               .larges = block_.data<std::int32_t>(larges)};
      facts = block_.data<ListFacts>(of_facts);
    }

    /// Once products are counted. Waits.
    ListFacts measure(ProductRun& run) const {
      const cudaStream_t stream = run.stream();
      cuda_check(cudaMemsetAsync(facts, 0, sizeof(ListFacts), stream), "clearing");
      measure_strips<<<blocks_for(cells.strips + 1, kThreads / 32), kThreads, 0, stream>>>(cells,
                                                                                           facts);
      cuda_check(cudaGetLastError(), "launching row_spgemm");
      spgemm::running_sum(block_.array<std::byte>(scratch_, scratch_bytes_), cells.products,
                          cells.products, cells.strips + 1, stream);
      cuda_check(cudaMemcpyAsync(&facts->products, cells.products + cells.strips,
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

  /// Counts products, or writes them where the listing has strips.
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
    require<Unsupported>(facts.most <= INT_MAX,
                         "{} products or more of {} cells are more than row_spgemm lists",
                         facts.most, int{kCellsOfStrip});
    Codes& codes = view_.codes;
    codes.bits_of_b = bits_of_place(view.nonzeros_of_b);
    codes.bytes_of_a = bytes_of_a(facts.span, view.nonzeros_of_b);
    view_.num_longs = static_cast<std::int32_t>(facts.longs);
    const auto products = static_cast<std::int64_t>(facts.products);
    const auto strips = block_.place<Strip>(view_.strips);
    const auto lengths = block_.place<std::uint16_t>(kCellsOfStrip * view_.strips);
    const auto longs = block_.place<LongList>(view_.num_longs);
    const auto words = block_.place<std::uint32_t>(products);
    const auto of_a = block_.place<std::byte>(codes.bytes_of_a * products);
    block_.take(run);
    view_.of_strips = block_.data<Strip>(strips);
    view_.lengths = block_.data<std::uint16_t>(lengths);
    view_.longs = block_.data<LongList>(longs);
    codes.words = block_.data<std::uint32_t>(words);
    codes.of_a = block_.data<std::byte>(of_a);
  }

  void interleave(const ListFacts& facts, const std::int32_t* larges, cudaStream_t stream) const {
    using Warp = Group<32>;
    using Block = Group<kThreads>;
    const auto launch_for = [&]<class Group>(std::int64_t count, int bytes) {
      const auto kernel = interleave_strips<Group>;
      const int shared = kGroups<Group> * bytes;
      constexpr int kWithoutAsking = 48 << 10;
      if (shared > kWithoutAsking)
        cuda_check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
            "asking for shared memory");
      kernel<<<blocks_for(count, kGroups<Group>), kGroups<Group> * Group::kLanes,
               static_cast<std::size_t>(shared), stream>>>(view_, larges, bytes);
      cuda_check(cudaGetLastError(), "launching row_spgemm");
    };
    constexpr int kBytes = sizeof(std::uint32_t);
    if (facts.larges > 0)
      launch_for.template operator()<Block>(facts.larges,
                                            static_cast<int>(facts.interleaved) * kBytes);
    launch_for.template operator()<Warp>(view_.strips, kRoomOfWarp * kBytes);
  }

  template <int kBytesOfA>
  void launch(const Terms& terms, cudaStream_t stream) const {
    // Neighbours use the same parts of B's rows; but all of the device has to have something to do.
    constexpr int kWarps = kThreads / 32, kMostOfWarp = 8, kWarpsOfDevice = 1 << 15;
    const auto strips_of_block = static_cast<int>(
        kWarps * std::clamp<std::int64_t>(view_.strips / kWarpsOfDevice, 1, kMostOfWarp));
    const unsigned blocks_of_longs = blocks_for(view_.num_longs, kWarps);
    gather_sums<kBytesOfA>
        <<<blocks_of_longs + blocks_for(view_.strips, strips_of_block), kThreads, 0, stream>>>(
            view_, terms, blocks_of_longs, strips_of_block);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  ListsView view_ = {};
  RunBlock block_;
};

}  // namespace tessera::row_spgemm
