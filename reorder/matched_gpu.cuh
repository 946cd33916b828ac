// A GPU as the executor of the steps that `matched` and other orders are made of
// (matched_steps.hpp): warps and thread blocks run what threads of a CPU run in
// matched_threads.hpp.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cub/device/device_scan.cuh>
#include <utility>
#include <vector>

#include "reorder/gpu_reordering.hpp"
#include "reorder/gpu_sort.hpp"
#include "reorder/matched_columns.cuh"
#include "reorder/matched_placement.hpp"
#include "reorder/matched_teams.cuh"

namespace tessera::matched {

class OnGpu {
 public:
  /// An array in the memory of the search.
  template <class T>
  class Array {
   public:
    explicit Array(T* data) : data_(data) {}
    T* data() const { return data_; }

   private:
    T* data_;
  };

  /// For a pattern of rows x cols. The arrays of the search take `bytes`.
  OnGpu(std::int32_t rows, std::int32_t cols, std::int64_t bytes, cudaStream_t stream,
        PhaseTimes* times)
      : stream_(stream),
        times_(times),
        rows_(rows),
        memory_(bytes + own_bytes(rows, cols), stream),
        queues_(array<Queue>(kQueues)),
        goes_on_(array<std::uint32_t>(kStepThreads)),
        block_items_(array<std::uint32_t>(std::max(rows, cols))),
        wide_items_(array<std::uint32_t>(std::max(rows, cols))),
        long_columns_(array<std::uint32_t>(cols)) {
    int device = 0, shared = 0;
    cuda_check(cudaGetDevice(&device), "querying the device");
    cuda_check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
               "querying the device");
    cuda_check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "querying the device");
    // Blocks have a few variables there, too.
    constexpr int kRest = 4096;
    most_wide_bytes_ = shared - kRest;
  }

  template <class T>
  Array<T> array(std::int64_t size) {
    return Array<T>(static_cast<T*>(allocated(size * std::int64_t{sizeof(T)})));
  }
  bool stops() const { return false; }
  void phase(const char* name) const {
    if (times_ != nullptr) times_->begin(name, stream_);
  }

  template <class Step>
  void for_each(std::int64_t count, const Step& step) const {
    if (count == 0) return;
    run_step<<<blocks(count, kStepThreads), kStepThreads, 0, stream_>>>(step, count);
    check();
  }
  template <class Start, class First, class Second>
  void for_rounds(std::int64_t count, int rounds, Start start, First first, Second second) const {
    if (count == 0) return;
    const auto kernel = run_rounds<Start, First, Second>;
    assert(rounds <= kStepThreads);
    std::uint32_t* goes_on = goes_on_.data();
    void* arguments[] = {&count, &rounds, &start, &first, &second, &goes_on};
    const std::int64_t all = blocks(count, kStepThreads);
    cuda_check(cudaLaunchCooperativeKernel(kernel, blocks(all, 1, kRoundBlocksOfProcessor),
                                           kStepThreads, arguments, 0, stream_),
               "matching rows");
  }
  template <class Step>
  void for_teams(std::int64_t count, const Step& step) {
    if (count == 0) return;
    Queue* const queues = this->queues();
    run_in_warps<<<blocks(count, kWarpsOfBlock), 32 * kWarpsOfBlock,
                   kWarpsOfBlock * warp_bytes<Step>(), stream_>>>(
        step, count, queues, block_items_.data(), wide_items_.data());
    check();
    if constexpr (kHasWide<Step>) {
      const std::size_t counters = counter_bytes(step.clusters);
      const bool has_table = counters > kMostBlockBytes;
      run_blocks<kBlockThreads, 6>(count, step, has_table ? table_bytes(kBlockTable) : counters,
                                   queues, block_items_.data(), wide_items_.data());
      cuda_check(
          cudaFuncSetAttribute(run_in_blocks<kWideThreads, Step>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, most_wide_bytes_),
          "setting up shared memory");
      run_blocks<kWideThreads, 2>(count, step,
                                  std::min(counters, static_cast<std::size_t>(most_wide_bytes_)),
                                  queues + 1, wide_items_.data());
    } else {
      run_blocks<kBlockThreads, 4>(count, step, Step::kSharedBytes, queues, block_items_.data());
    }
  }
  template <class Summand>
  void running_sum(const Summand& summand, std::uint32_t* sums, std::int64_t count) {
    const auto from =
        thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), summand);
    std::size_t bytes = 0;
    cuda_check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, from, sums, count, stream_),
               "querying the scratch memory of a prefix sum");
    void* const memory = scratch(bytes);
    cuda_check(cub::DeviceScan::ExclusiveSum(memory, bytes, from, sums, count, stream_),
               "summing up");
  }
  template <class T>
  void copy(const T* from, T* to, std::int64_t count) const {
    cuda_check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T),
                               cudaMemcpyDeviceToDevice, stream_),
               "copying on the device");
  }
  void sort_by_column(const std::int32_t* cols, std::int64_t nnz, std::int32_t columns,
                      std::uint32_t* sorted) {
    const auto nonzeros = array<std::int32_t>(nnz);
    const auto sorted_cols = array<std::uint32_t>(nnz);
    for_each(nnz, Count{nonzeros.data()});
    const auto* const numbers = reinterpret_cast<const std::uint32_t*>(nonzeros.data());
    const int bits =
        std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(columns - 1))));
    sort_pairs(reinterpret_cast<const std::uint32_t*>(cols), sorted_cols.data(), numbers, sorted,
               nnz, bits);
  }
  /// Sorts values by the low `bits` of their keys, equal ones in their order.
  void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys,
                  const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t count,
                  int bits) {
    if (count == 0) return;
    std::size_t bytes = 0;
    sort_on_gpu(nullptr, bytes, keys, sorted_keys, values, sorted_values, count, bits, stream_);
    sort_on_gpu(scratch(bytes), bytes, keys, sorted_keys, values, sorted_values, count, bits,
                stream_);
  }
  void place_columns(std::int32_t columns, const PlaceColumns& step) {
    Queue* const queue = queues();

    place_short_columns<<<blocks(std::int64_t{columns} * kColumnThreads, kStepThreads),
                          kStepThreads, 0, stream_>>>(step, columns, queue, long_columns_.data());
    check();
    place_long_columns<<<blocks(columns, 1, 4), kStepThreads, 0, stream_>>>(step, rows_, queue,
                                                                            long_columns_.data());
    check();
  }

 private:
  /// Items that blocks give up go to the queue after theirs.
  template <int kThreads, int kBlocksOfProcessor, class Step>
  void run_blocks(std::int64_t count, const Step& step, std::size_t shared_bytes, Queue* queue,
                  const std::uint32_t* items, std::uint32_t* next_items = nullptr) const {
    run_in_blocks<kThreads>
        <<<blocks(count, 1, kBlocksOfProcessor), kThreads, shared_bytes, stream_>>>(
            step, static_cast<std::uint32_t>(shared_bytes / sizeof(std::uint32_t)), queue, items,
            queue + 1, next_items);
    check();
  }
  /// Two empty queues.
  Queue* queues() {
    if (next_queue_ % kQueues == 0)
      cuda_check(cudaMemsetAsync(queues_.data(), 0, kQueues * sizeof(Queue), stream_),
                 "emptying queues");
    Queue* const queues = queues_.data() + next_queue_ % kQueues;
    next_queue_ += 2;
    return queues;
  }
  static unsigned blocks(std::int64_t count, int threads) {
    return static_cast<unsigned>((count + threads - 1) / threads);
  }
  unsigned blocks(std::int64_t count, int, int of_processor) const {
    return static_cast<unsigned>(
        std::min<std::int64_t>(count, std::int64_t{processors_} * of_processor));
  }
  /// Memory until the end of the search, of one buffer as long as that has some: a pool that has to
  /// grow takes long for every buffer.
  void* allocated(std::int64_t bytes) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ + rounded > memory_.bytes())
      return more_memory_.emplace_back(rounded, stream_).as<void>();
    return memory_.as<std::byte>() + std::exchange(used_, used_ + rounded);
  }
  /// Memory for one step, in the order of the stream.
  void* scratch(std::size_t bytes) {
    if (scratch_bytes_ < bytes) {
      scratch_ = allocated(static_cast<std::int64_t>(bytes));
      scratch_bytes_ = bytes;
    }
    return scratch_;
  }
  /// What the executor's own arrays take, and some room.
  static std::int64_t own_bytes(std::int32_t rows, std::int32_t cols) {
    constexpr std::int64_t kRest = 1 << 20;
    return 8 * std::int64_t{std::max(rows, cols)} + 4 * std::int64_t{cols} + kRest;
  }
  static void check() { cuda_check(cudaGetLastError(), "finding an order"); }

  static constexpr unsigned kQueues = 128;
  static constexpr int kRoundBlocksOfProcessor = 2;

  cudaStream_t stream_;
  PhaseTimes* times_;
  std::int32_t rows_;
  int processors_ = 0, most_wide_bytes_ = 0;
  StreamBuffer memory_;
  std::int64_t used_ = 0;                  // bytes of it
  std::vector<StreamBuffer> more_memory_;  // where it had no room
  unsigned next_queue_ = 0;
  Array<Queue> queues_;           // [kQueues] in pairs: for thread blocks, and wide ones
  Array<std::uint32_t> goes_on_;  // [kStepThreads] whether a round did anything
  Array<std::uint32_t> block_items_, wide_items_;  // [rows]
  Array<std::uint32_t> long_columns_;              // [columns]
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

/// The order that a search finds on the GPU; Search::bytes says what its arrays take.
template <class Search, class Options>
StreamBuffer order_on_gpu(const char* name, const DevicePattern& pattern, const Options& options,
                          cudaStream_t stream, PhaseTimes* times) {
  require_fits(name, pattern.rows, pattern.nnz);
  OnGpu gpu(pattern.rows, pattern.cols,
            Search::bytes(pattern.rows, pattern.cols, pattern.nnz, options), stream, times);
  Search search(gpu,
                {pattern.rows, pattern.cols, pattern.nnz, pattern.row_offsets, pattern.col_indices},
                options);
  search.run();
  StreamBuffer order(4 * std::int64_t{pattern.rows}, stream);
  gpu.copy(search.order().data(), order.as<std::int32_t>(), pattern.rows);
  return order;
}

}  // namespace tessera::matched
