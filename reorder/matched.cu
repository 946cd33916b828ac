// The device half of `matched`: warps and thread blocks run the steps that threads of a CPU run in
// matched.cpp.

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <memory>
#include <utility>
#include <vector>

#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/matched_columns.cuh"
#include "reorder/matched_options.hpp"
#include "reorder/matched_search.hpp"
#include "reorder/matched_teams.cuh"
#include "reorder/watch.hpp"

namespace tessera {
namespace {

using matched::kBlockThreads;
using matched::kStepThreads;
using matched::kWarpsOfBlock;
using matched::kWideThreads;
using matched::Queue;

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

  OnGpu(const DevicePattern& pattern, cudaStream_t stream, PhaseTimes* times)
      : stream_(stream),
        times_(times),
        rows_(pattern.rows),
        memory_(bytes_for(pattern), stream),
        queues_(array<Queue>(kQueues)),
        goes_on_(array<std::uint32_t>(kStepThreads)),
        block_items_(array<std::uint32_t>(pattern.rows)),
        wide_items_(array<std::uint32_t>(pattern.rows)),
        long_columns_(array<std::uint32_t>(pattern.cols)) {
    int device = 0, shared = 0;
    cuda_check(cudaGetDevice(&device), "querying the device");
    cuda_check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
               "querying the device");
    cuda_check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "querying the device");
    // Blocks have a few variables there, too.
    constexpr int kRest = 4096;
    most_wide_bytes_ = shared - kRest;
    cuda_check(cudaFuncSetAttribute(matched::run_in_blocks<kWideThreads, matched::FindPartners>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, most_wide_bytes_),
               "setting up shared memory");
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
    matched::run_step<<<blocks(count, kStepThreads), kStepThreads, 0, stream_>>>(step, count);
    check();
  }
  template <class Start, class First, class Second>
  void for_rounds(std::int64_t count, int rounds, Start start, First first, Second second) const {
    if (count == 0) return;
    const auto kernel = matched::run_rounds<Start, First, Second>;
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
    matched::run_in_warps<<<blocks(count, kWarpsOfBlock), 32 * kWarpsOfBlock,
                            kWarpsOfBlock * matched::warp_bytes<Step>(), stream_>>>(
        step, count, queues, block_items_.data(), wide_items_.data());
    check();
    if constexpr (matched::kHasWide<Step>) {
      const std::size_t counters = matched::counter_bytes(step.clusters);
      const bool has_table = counters > matched::kMostBlockBytes;
      run_blocks<kBlockThreads, 6>(
          count, step, has_table ? matched::table_bytes(matched::kBlockTable) : counters, queues,
          block_items_.data(), wide_items_.data());
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
    const auto nonzeros = array<std::int32_t>(nnz), sorted_cols = array<std::int32_t>(nnz);
    for_each(nnz, matched::Count{nonzeros.data()});
    const auto* const numbers = reinterpret_cast<const std::uint32_t*>(nonzeros.data());
    const int bits =
        std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(columns - 1))));
    std::size_t bytes = 0;
    cuda_check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, cols, sorted_cols.data(), numbers,
                                               sorted, nnz, 0, bits, stream_),
               "querying the scratch memory of a sort");
    void* const memory = scratch(bytes);
    cuda_check(cub::DeviceRadixSort::SortPairs(memory, bytes, cols, sorted_cols.data(), numbers,
                                               sorted, nnz, 0, bits, stream_),
               "sorting nonzeros");
  }
  void place_columns(std::int32_t columns, const matched::PlaceColumns& step) {
    Queue* const queue = queues();
    matched::
        place_short_columns<<<blocks(std::int64_t{columns} * matched::kColumnThreads, kStepThreads),
                              kStepThreads, 0, stream_>>>(step, columns, queue,
                                                          long_columns_.data());
    check();
    matched::place_long_columns<<<blocks(columns, 1, 4), kStepThreads, 0, stream_>>>(
        step, rows_, queue, long_columns_.data());
    check();
  }

 private:
  /// Items that blocks give up go to the queue after theirs.
  template <int kThreads, int kBlocksOfProcessor, class Step>
  void run_blocks(std::int64_t count, const Step& step, std::size_t shared_bytes, Queue* queue,
                  const std::uint32_t* items, std::uint32_t* next_items = nullptr) const {
    matched::run_in_blocks<kThreads>
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
  /// What all arrays take: bytes of a row, a column and a nonzero, the sort of these included.
  static std::int64_t bytes_for(const DevicePattern& pattern) {
    constexpr std::int64_t kRest = 1 << 20;
    return 168 * std::int64_t{pattern.rows} + 8 * std::int64_t{pattern.cols} + 42 * pattern.nnz +
           kRest;
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

class GpuMatched final : public GpuReordering {
 public:
  explicit GpuMatched(const matched::Options& options) : options_(options) {}

 private:
  StreamBuffer search(const DevicePattern& pattern, cudaStream_t stream,
                      PhaseTimes* times) const override {
    matched::require_fits(pattern.rows, pattern.nnz);
    OnGpu gpu(pattern, stream, times);
    matched::Search search(
        gpu, {pattern.rows, pattern.cols, pattern.nnz, pattern.row_offsets, pattern.col_indices},
        options_);
    search.run();
    StreamBuffer order(4 * std::int64_t{pattern.rows}, stream);
    gpu.copy(search.order().data(), order.as<std::int32_t>(), pattern.rows);
    return order;
  }

  matched::Options options_;
};

const Register<GpuReordering> entry{{
    .name = "matched",
    .summary = "device half of matched",
    .params = matched::all_params(),
    .make = [](const Params& p) { return std::make_unique<GpuMatched>(matched::options_of(p)); },
}};

}  // namespace
}  // namespace tessera
