// The sums of row_spgemm from kept portions (kernels/spgemm/row/portions.cuh): the kernel that
// stages factors in shared memory and adds the products, and the host side that builds the
// portions.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/spgemm/row/gather.cuh"
#include "kernels/spgemm/row/portions.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

/// Stores the factors of a portion's products, from number `number` of the window to before `end`,
/// at their places. groups and places begin at the window's.
template <int kThreads>
__device__ void stage_factors(const ProductGroup* groups, const std::uint16_t* places,
                              const KeptSegment* segments, std::int32_t number, std::int32_t end,
                              GatherValues values, float2* staged) {
  number += static_cast<int>(threadIdx.x);
  groups += number / kWarpLanes;
  places += number;
  unsigned through = lanes_before() << 1 | 1;  // the bits of this lane and of those before it
  int none = 0;
  // Else the bits and the addresses are computed anew for each product.
  asm volatile("" : "+r"(through), "+r"(none), "+l"(segments), "+l"(values.a), "+l"(values.b));
  staged += none;
#pragma unroll 1
  for (; number - lane_of_warp() < end; number += kPrefetch * kThreads) {
    bool is_there[kPrefetch];
    uint2 group[kPrefetch];
    int place[kPrefetch];
    float2 factors[kPrefetch];
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      is_there[u] = number + u * kThreads < end;
      group[u] = make_uint2(0, 0);
      place[u] = 0;
      if (!is_there[u]) continue;
      group[u] = __ldcs(reinterpret_cast<const uint2*>(groups + u * (kThreads / kWarpLanes)));
      place[u] = __ldcs(places + u * kThreads);
    }
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      const auto before = static_cast<std::int32_t>(group[u].y);
      const int2 segment =
          __ldg(reinterpret_cast<const int2*>(segments) + (before + __popc(group[u].x & through)));
      factors[u].x = __ldg(values.a + segment.y);
      const int in_b = segment.x + number + u * kThreads;
      factors[u].y = __ldg(values.b + (is_there[u] ? in_b : 0));
    }
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      float2* const at = staged + place[u];
      if (is_there[u]) *at = factors[u];
    }
    groups += kPrefetch * (kThreads / kWarpLanes);
    places += kPrefetch * kThreads;
  }
}

/// Adds up to kSteps products of this lane's list, which has `left` of them, to its sum. staged
/// begins at this lane. The first ones of the strip's lists lie from place `at` on, which goes to
/// the next. Lanes whose list has ended read others' products, or the padding.
template <int kSteps>
__device__ float add_staged(const float2* staged, int& at, int left, float sum) {
  float2 factors[kSteps];
#pragma unroll
  for (int u = 0; u < kSteps; ++u) {
    factors[u] = staged[at];
    at += __popc(__ballot_sync(kAllLanes, left > u));
  }
#pragma unroll
  for (int u = 0; u < kSteps; ++u)
    if (left > u) sum = fmaf(factors[u].x, factors[u].y, sum);
  return sum;
}

/// Adds the products of a strip, whose longest list has `most` of them, to this lane's sum.
__device__ inline float add_strip(const float2* staged, int at, int left, int most, float sum) {
  static_assert(kPrefetch == 4);
#pragma unroll 1
  for (; most >= kPrefetch; most -= kPrefetch, left -= kPrefetch)
    sum = add_staged<kPrefetch>(staged, at, left, sum);
  if (most == 1) return add_staged<1>(staged, at, left, sum);
  if (most == 2) return add_staged<2>(staged, at, left, sum);
  if (most == 3) return add_staged<3>(staged, at, left, sum);
  return sum;
}

/// The threads of a thread block, and where a multiprocessor has one window at most.
constexpr int kFewThreads = kRowThreads, kManyThreads = kCellsOfWindow;

/// Makes C's values, by a thread block per window.
template <int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == kFewThreads ? 5 : 1)
    sum_portions(PortionsView kept, std::int64_t cells, GatherValues values) {
  constexpr int kWarps = kThreads / kWarpLanes;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float sums[kCellsOfWindow];
  auto* staged = reinterpret_cast<float2*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const PortionWindow window = kept.windows[blockIdx.x];
  const StripList* list =
      kept.lists + window.first_portion * kCellsOfWindow + static_cast<int>(threadIdx.x);
  const std::int32_t* first_place =
      kept.first_places + window.first_portion * kStripsOfWindow + warp;
  const int all = static_cast<int>(window.products);
#pragma unroll
  for (int i = 0; i < kCellsOfWindow; i += kThreads) sums[i + static_cast<int>(threadIdx.x)] = 0;
#pragma unroll 1
  for (int first = 0; first < all; first += kProductsOfPortion) {
    stage_factors<kThreads>(kept.groups + window.first_group,
                            kept.places + window.first_group * kWarpLanes,
                            kept.segments + window.first_segment, first,
                            min(all, first + kProductsOfPortion), values, staged);
    StripList next{__ldcs(&list->code)};
    std::int32_t next_place = __ldcs(first_place);
    __syncthreads();
#pragma unroll 1
    for (int strip = kWarps;; strip += kWarps) {
      const StripList now = next;
      const std::int32_t at = next_place;
      list += kThreads;
      first_place += kWarps;
      if (strip < kStripsOfWindow) {
        next.code = __ldcs(&list->code);
        next_place = __ldcs(first_place);
      }
      // Lists of no products come last.
      const int most = __shfl_sync(kAllLanes, now.length(), 0);
      if (most > 0) {
        const float sum =
            add_strip(staged + lane_of_warp(), at, now.length(), most, sums[now.cell()]);
        if (now.length() > 0) sums[now.cell()] = sum;
      }
      if (strip >= kStripsOfWindow) break;
    }
    __syncthreads();
  }
  const std::int64_t first_cell = std::int64_t{blockIdx.x} * kCellsOfWindow;
#pragma unroll
  for (int i = 0; i < kCellsOfWindow; i += kThreads) {
    const int cell = i + static_cast<int>(threadIdx.x);
    if (first_cell + cell < cells) values.write(first_cell + cell, sums[cell]);
  }
}

/// The portions of a product.
class ProductPortions {
 public:
  /// Describes the products of C, whose row offsets [rows + 1] and columns [cells] are known. Waits
  /// for the device.
  ProductPortions(const OperandsView& operands, const std::int64_t* row_offsets,
                  const std::int32_t* cols, std::int64_t cells, ProductRun& run)
      : cells_(cells), windows_(parts(cells, kCellsOfWindow)) {
    if (cells == 0) return;
    run.stage("portions");
    const cudaStream_t stream = run.stream();
    const KeptStructure of{operands, cells, windows_, row_offsets, cols};
    const auto windows = of_windows_.place<PortionWindow>(windows_);
    of_windows_.take(run);
    const Totals totals = count(of, of_windows_.data<PortionWindow>(windows), run);
    require<Unsupported>(totals.most <= INT_MAX - kProductsOfPortion,
                         "row_spgemm keeps portions of at most {} products per {} nonzeros of C",
                         INT_MAX - kProductsOfPortion, int{kCellsOfWindow});
    const auto most = std::min<std::int64_t>(totals.most, kProductsOfPortion);
    bytes_staged_ = static_cast<int>(most + kPadding) * static_cast<int>(sizeof(float2));
    const auto groups = block_.place<ProductGroup>(totals.groups);
    const auto segments = block_.place<KeptSegment>(totals.segments);
    const auto places = block_.place<std::uint16_t>(totals.groups * kWarpLanes);
    const auto lists = block_.place<StripList>(totals.portions * kCellsOfWindow);
    const auto first_places = block_.place<std::int32_t>(totals.portions * kStripsOfWindow);
    block_.take(run);
    view_ = {.windows = of_windows_.data<PortionWindow>(windows),
             .groups = block_.data<ProductGroup>(groups),
             .segments = block_.data<KeptSegment>(segments),
             .places = block_.data<std::uint16_t>(places),
             .lists = block_.data<StripList>(lists),
             .first_places = block_.data<std::int32_t>(first_places)};
    cuda_check(
        cudaMemsetAsync(view_.groups, 0,
                        sizeof(ProductGroup) * static_cast<std::size_t>(totals.groups), stream),
        "clearing");
    write_portions<<<grid_of(window_each(), windows_), kRowThreads, 0, stream>>>(of, view_);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Makes C's values from the present values of A and B.
  void sum(const GatherValues& values, cudaStream_t stream) const {
    if (cells_ == 0) return;
    const auto launch = [&]<int kThreads>() {
      sum_portions<kThreads>
          <<<static_cast<unsigned>(windows_), kThreads, static_cast<std::size_t>(bytes_staged_),
             stream>>>(view_, cells_, values);
    };
    windows_ <= sms_ ? launch.template operator()<kManyThreads>()
                     : launch.template operator()<kFewThreads>();
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

 private:
  struct Totals {
    std::int64_t groups, segments, portions, most;
  };

  /// Counts what windows have and places them. Waits for the device.
  Totals count(const KeptStructure& of, PortionWindow* windows, ProductRun& run) const {
    const cudaStream_t stream = run.stream();
    const std::int64_t count = windows_ + 1;
    const std::int64_t scratch_bytes =
        spgemm::running_sum_bytes<std::int64_t>(static_cast<const std::int64_t*>(nullptr), count);
    RunBlock block;
    const auto at_groups = block.place<std::int64_t>(count);
    const auto at_segments = block.place<std::int64_t>(count);
    const auto at_portions = block.place<std::int64_t>(count);
    const auto at_totals = block.place<Totals>(1);
    const auto at_scratch = block.place<std::byte>(scratch_bytes);
    block.take(run);
    auto* totals = block.data<Totals>(at_totals);
    const PortionCounts counts{block.data<std::int64_t>(at_groups),
                               block.data<std::int64_t>(at_segments),
                               block.data<std::int64_t>(at_portions), windows,
                               reinterpret_cast<unsigned long long*>(&totals->most)};
    cuda_check(cudaMemsetAsync(totals, 0, sizeof(Totals), stream), "clearing");
    count_portions<<<grid_of(window_each(), count), kRowThreads, 0, stream>>>(of, counts);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const auto scratch = block.array<std::byte>(at_scratch, scratch_bytes);
    const auto add_up = [&](std::int64_t* counted, std::int64_t* total) {
      spgemm::running_sum(scratch, counted, counted, count, stream);
      cuda_check(cudaMemcpyAsync(total, counted + windows_, sizeof(std::int64_t),
                                 cudaMemcpyDeviceToDevice, stream),
                 "counting portions");
    };
    add_up(counts.groups, &totals->groups);
    add_up(counts.segments, &totals->segments);
    add_up(counts.portions, &totals->portions);
    place_windows<<<grid_of(thread_each(), windows_), kRowThreads, 0, stream>>>(windows_, counts);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    return spgemm::read_back(run, totals);
  }

  std::int64_t cells_, windows_;
  int sms_ = sms_of_gpu();
  int bytes_staged_ = 0;  // shared memory of a thread block for factors and padding
  RunBlock of_windows_, block_;
  PortionsView view_ = {};
};

}  // namespace tessera::row_spgemm
