// The hubs of row_spgemm: rows with thousands of nonzeros of A, most of whose segments of B's rows
// are short. All products of all hubs are written out in the order of A's columns and sorted by
// hub and column, which keeps that order among those of one column; every product and every column
// of C has threads of its own on the whole device. A warp makes a sum of one column's products, as
// one chain of fused multiply-adds in that order: C has the bits of multiply_rows(). See
// kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "kernels/spgemm/row/tasks.cuh"
#include "kernels/spgemm/shared/slices.cuh"

namespace tessera::row_spgemm {

/// The hubs of a product and the arrays of their products, on the device.
struct HubsView {
  std::uint32_t hubs, nonzeros, products;
  int col_bits;                     // of a key, below the number of the hub
  const HubRow* rows;               // [hubs]
  const std::int32_t* first_tasks;  // [rows of A]: a row's task; nullptr: every row has one
  std::uint32_t* before;            // [nonzeros + 1]: products before each nonzero
  std::uint32_t* first_runs;        // [hubs]: columns of C of the hubs before
  std::int64_t* runs_found;         // [1]: columns of C of all hubs
  float2* factors;                  // [products], sorted

  __device__ std::uint32_t hub_of(std::uint32_t nonzero) const {
    std::uint32_t low = 0, high = hubs;
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (rows[middle].first <= nonzero ? low : high) = middle;
    }
    return low;
  }
  __device__ std::int32_t task_of(std::uint32_t hub) const {
    return first_tasks == nullptr ? rows[hub].row : first_tasks[rows[hub].row];
  }
};

/// A product of a hub by its number: its hub, and the indices of its factors in A and in B.
struct HubProduct {
  __device__ HubProduct(const OperandsView& operands, const HubsView& view, std::uint32_t number) {
    const std::uint32_t nonzero =
        last_at_most<std::uint32_t, std::uint32_t>(view.before, 0, view.nonzeros, number);
    hub = view.hub_of(nonzero);
    of_a = view.rows[hub].begin + static_cast<std::int32_t>(nonzero - view.rows[hub].first);
    of_b = operands.rows_of_b[operands.a_cols[of_a]].begin +
           static_cast<std::int32_t>(number - view.before[nonzero]);
  }

  std::uint32_t hub;
  std::int32_t of_a, of_b;
};

/// Writes the products of each nonzero of A, and a zero after them.
static __global__ void __launch_bounds__(kRowThreads)
    measure_hubs(OperandsView operands, HubsView view) {
  const auto nonzero = static_cast<std::uint32_t>(thread_of_launch());
  if (nonzero > view.nonzeros) return;
  std::uint32_t products = 0;
  if (nonzero < view.nonzeros) {
    const HubRow hub = view.rows[view.hub_of(nonzero)];
    const std::int32_t at = hub.begin + static_cast<std::int32_t>(nonzero - hub.first);
    products = static_cast<std::uint32_t>(operands.rows_of_b[operands.a_cols[at]].length);
  }
  view.before[nonzero] = products;
}

/// Writes every product's key (hub and column) and its number.
static __global__ void __launch_bounds__(kRowThreads)
    write_hub_products(OperandsView operands, HubsView view, std::uint32_t* keys, float* numbers) {
  const auto number = static_cast<std::uint32_t>(thread_of_launch());
  if (number >= view.products) return;
  const HubProduct product(operands, view, number);
  keys[number] =
      product.hub << view.col_bits | static_cast<std::uint32_t>(operands.b_cols[product.of_b]);
  numbers[number] = __uint_as_float(number);
}

/// Finds the columns of C of every hub; a run is the products of one of them.
static __global__ void __launch_bounds__(kRowThreads)
    count_hub_columns(HubsView view, const std::uint32_t* keys, const std::uint32_t* runs,
                      std::int32_t* lengths) {
  const auto hub = static_cast<std::uint32_t>(thread_of_launch());
  if (hub >= view.hubs) return;
  const auto first_run = [&](std::uint32_t of) {
    auto low = std::uint32_t{0}, high = static_cast<std::uint32_t>(*view.runs_found);
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (keys[runs[middle]] >> view.col_bits < of)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  const std::uint32_t first = first_run(hub);
  view.first_runs[hub] = first;
  lengths[view.task_of(hub)] = static_cast<std::int32_t>(first_run(hub + 1) - first);
}

/// Reads the factors of every product, in sorted order.
static __global__ void __launch_bounds__(kRowThreads)
    read_hub_factors(OperandsView operands, HubsView view, const float* numbers) {
  const auto at = static_cast<std::uint32_t>(thread_of_launch());
  if (at >= view.products) return;
  const HubProduct product(operands, view, __float_as_uint(numbers[at]));
  view.factors[at] = make_float2(operands.a_values[product.of_a], operands.b_values[product.of_b]);
}

/// Makes the sum of each run with a warp. Output has the members of SumOutput.
template <class Output>
__global__ void __launch_bounds__(kRowThreads)
    add_hub_products(HubsView view, const std::uint32_t* keys, const std::uint32_t* runs,
                     Output output) {
  // A chain of sums hides the loads of the chunks that follow.
  constexpr int kChunks = 4, kStep = kChunks * kWarpLanes;
  const std::int64_t run = warp_each().item_of(blockIdx.x, threadIdx.x);
  const std::int64_t count = *view.runs_found;
  if (run >= count) return;
  const std::int64_t begin = runs[run], end = run + 1 < count ? runs[run + 1] : view.products;
  const auto load = [&](std::int64_t at) {
    return at < end ? view.factors[at] : make_float2(0, 0);
  };
  float2 next[kChunks];
#pragma unroll
  for (int u = 0; u < kChunks; ++u) next[u] = load(begin + u * kWarpLanes + lane_of_warp());
  float sum = 0;
  for (std::int64_t first = begin; first < end; first += kStep) {
    float2 now[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; ++u) {
      now[u] = next[u];
      next[u] = load(first + kStep + u * kWarpLanes + lane_of_warp());
    }
#pragma unroll
    for (int u = 0; u < kChunks; ++u) {
      const auto add = [&](int lane) {
        const float left = __shfl_sync(kAllLanes, now[u].x, lane);
        const float right = __shfl_sync(kAllLanes, now[u].y, lane);
        sum = fmaf(left, right, sum);
      };
      const std::int64_t left = end - first - u * kWarpLanes;
      if (left >= kWarpLanes) {
#pragma unroll
        for (int lane = 0; lane < kWarpLanes; ++lane) add(lane);
      } else {
        for (int lane = 0; lane < left; ++lane) add(lane);
      }
    }
  }
  if (lane_of_warp() != 0) return;
  const std::uint32_t key = keys[begin], hub = key >> view.col_bits;
  const std::int64_t cell = output.offsets[view.task_of(hub)] + run - view.first_runs[hub];
  if (output.cols != nullptr)
    output.cols[cell] = static_cast<std::int32_t>(key - (hub << view.col_bits));
  output.values[cell] = output.scaled(sum);
}

/// The number of hubs, of their nonzeros of A and of their products.
struct HubCounts {
  std::int64_t hubs, nonzeros, products;

  /// The bits of a key of a hub and one of `cols` columns, and of the column in it.
  int col_bits(std::int64_t cols) const { return row_spgemm::index_bits(cols); }
  int bits(std::int64_t cols) const { return row_spgemm::index_bits(hubs) + col_bits(cols); }

  /// True where the lists are small enough, and keys have 32 bits at most. A key of all bits could
  /// not be compared with the number of hubs.
  bool can_be_sorted(std::int64_t cols) const {
    return products <= kMostHubProducts && bits(cols) < 32;
  }
};

/// The sorted products of all hubs.
class HubProducts {
 public:
  /// Sorts the products and writes the columns of C of each hub's task to `lengths`. The arrays of
  /// the view's rows and tasks have to outlive the object. Does not wait for the device.
  HubProducts(const OperandsView& operands, const HubCounts& counts, const HubRow* rows,
              const std::int32_t* first_tasks, std::int32_t* lengths, ProductRun& run)
      : sorted_(block_, counts.products, counts.bits(operands.cols)),
        view_{.hubs = static_cast<std::uint32_t>(counts.hubs),
              .nonzeros = static_cast<std::uint32_t>(counts.nonzeros),
              .products = static_cast<std::uint32_t>(counts.products),
              .col_bits = counts.col_bits(operands.cols),
              .rows = rows,
              .first_tasks = first_tasks,
              .before = nullptr,
              .first_runs = nullptr,
              .runs_found = nullptr,
              .factors = nullptr} {
    const std::int64_t scan_bytes = spgemm::running_sum_bytes<std::uint32_t>(
        static_cast<const std::uint32_t*>(nullptr), counts.nonzeros + 1);
    const auto at_before = block_.place<std::uint32_t>(counts.nonzeros + 1);
    const auto at_first_runs = block_.place<std::uint32_t>(counts.hubs);
    const auto at_found = block_.place<std::int64_t>(1);
    const auto at_scan = block_.place<std::byte>(scan_bytes);
    // The factors are read once the products are sorted.
    const std::int64_t after_sorting = block_.next();
    sorted_.place_scratch(block_);
    block_.place_over(after_sorting);
    const auto at_factors = block_.place<float2>(counts.products);
    block_.take(run);
    sorted_.settle(block_);
    view_.before = block_.data<std::uint32_t>(at_before);
    view_.first_runs = block_.data<std::uint32_t>(at_first_runs);
    view_.runs_found = block_.data<std::int64_t>(at_found);
    view_.factors = block_.data<float2>(at_factors);

    const cudaStream_t stream = run.stream();
    measure_hubs<<<blocks_of(counts.nonzeros + 1), kRowThreads, 0, stream>>>(operands, view_);
    spgemm::running_sum(block_.array<std::byte>(at_scan, scan_bytes), view_.before, view_.before,
                        counts.nonzeros + 1, stream);
    write_hub_products<<<blocks_of(counts.products), kRowThreads, 0, stream>>>(
        operands, view_, sorted_.keys(), sorted_.values());
    sorted_.sort(stream);
    sorted_.find_runs(view_.runs_found, stream);
    count_hub_columns<<<blocks_of(counts.hubs), kRowThreads, 0, stream>>>(view_, sorted_.keys(),
                                                                          sorted_.runs(), lengths);
    cuda_check(cudaGetLastError(), "sorting the products of hubs");
  }

  /// Makes the sums of all hubs from the current values of A and B.
  template <class Output>
  void sum(const OperandsView& operands, const Output& output, cudaStream_t stream) {
    read_hub_factors<<<blocks_of(view_.products), kRowThreads, 0, stream>>>(operands, view_,
                                                                            sorted_.values());
    add_hub_products<<<static_cast<unsigned>(warp_each().thread_blocks(view_.products)),
                       kRowThreads, 0, stream>>>(view_, sorted_.keys(), sorted_.runs(), output);
    cuda_check(cudaGetLastError(), "adding the products of hubs");
  }

 private:
  static unsigned blocks_of(std::int64_t count) {
    return static_cast<unsigned>(thread_each().thread_blocks(count));
  }

  RunBlock block_;
  spgemm::SortedCells<std::uint32_t> sorted_;  // its values are the numbers of products, as bits
  HubsView view_;
};

}  // namespace tessera::row_spgemm
