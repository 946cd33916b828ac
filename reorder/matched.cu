// The device half of `matched`: warps and thread blocks run the steps that threads of a CPU run in
// matched.cpp. Items that deserve a thread block are listed first, and the blocks take one after
// another from the list; the order in which they do so has no influence on the result.

#include <cooperative_groups.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/matched_options.hpp"
#include "reorder/matched_search.hpp"
#include "reorder/watch.hpp"

namespace tessera {
namespace {

using matched::Key;
using matched::Size;

constexpr int kStepThreads = 256;
constexpr int kColumnThreads = 8;  // for a column of few holders
constexpr int kWarpsOfBlock = 4;
constexpr int kBlockThreads = 128;
constexpr int kWideThreads = 512;
constexpr int kAnyThreads = 256;  // for all listed items of a step that shares as little memory

/// A warp or a thread block. Its members are only called on the device; nvcc compiles the steps for
/// the host too, and wants to be able to call them there.
template <int kThreads>
class Team {
 public:
  __device__ Team(void* shared, Key* largest) : shared_(shared), largest_(largest) {}

  __host__ __device__ void* shared() const { return shared_; }
  __host__ __device__ std::uint32_t size() const { return kThreads; }
  __host__ __device__ std::uint32_t lane() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x % kThreads;
#else
    return 0;
#endif
  }
  __host__ __device__ bool is_first() const { return lane() == 0; }
  /// Slots of the largest table that `matched::FindPartners` can make in the shared memory.
  __host__ __device__ std::uint32_t table_slots() const {
    return kThreads == 32              ? matched::FindPartners::kWarpSlots
           : kThreads == kBlockThreads ? matched::FindPartners::kBlockSlots
                                       : matched::FindPartners::kWideSlots;
  }
  __host__ __device__ void sync() const {
#ifdef __CUDA_ARCH__
    if constexpr (kThreads == 32)
      __syncwarp();
    else
      __syncthreads();
#endif
  }
  __host__ __device__ void add([[maybe_unused]] std::uint32_t* sum,
                               [[maybe_unused]] std::uint32_t value) const {
#ifdef __CUDA_ARCH__
    atomicAdd(sum, value);
#endif
  }
  __host__ __device__ std::uint32_t next([[maybe_unused]] std::uint32_t* sum) const {
#ifdef __CUDA_ARCH__
    return atomicAdd(sum, 1u);
#else
    return 0;
#endif
  }
  /// What other threads of the team may be adding to.
  __host__ __device__ std::uint32_t read(const std::uint32_t* sum) const {
    return *static_cast<const volatile std::uint32_t*>(sum);
  }
  __host__ __device__ void raise([[maybe_unused]] std::uint32_t* largest,
                                 [[maybe_unused]] std::uint32_t value) const {
#ifdef __CUDA_ARCH__
    atomicMax(largest, value);
#endif
  }
  __host__ __device__ std::uint32_t claim([[maybe_unused]] std::uint32_t* owner,
                                          [[maybe_unused]] std::uint32_t name) const {
#ifdef __CUDA_ARCH__
    return atomicCAS(owner, 0u, name);
#else
    return 0;
#endif
  }
  /// The largest of all threads' numbers, for all threads.
  __host__ __device__ Key largest(Key mine) const {
#ifdef __CUDA_ARCH__
    for (int step = 16; step > 0; step /= 2)
      mine = matched::most(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    if constexpr (kThreads > 32) {
      if (threadIdx.x % 32 == 0) largest_[threadIdx.x / 32] = mine;
      __syncthreads();
      for (int warp = 0; warp < kThreads / 32; ++warp) mine = matched::most(mine, largest_[warp]);
      __syncthreads();
    }
#endif
    return mine;
  }
  template <class Body>
  __host__ __device__ void for_each(std::uint32_t count, Body body) const {
    for (std::uint32_t i = lane(); i < count; i += kThreads) body(i);
  }
  /// Groups of eight threads take one item each.
  template <class Body>
  __host__ __device__ void for_each_in_groups(std::uint32_t count, Body body) const {
    constexpr std::uint32_t kGroup = 8;
    for (std::uint32_t i = lane() / kGroup; i < count; i += kThreads / kGroup)
      body(i, lane() % kGroup, kGroup);
  }

 private:
  void* shared_;
  Key* largest_;  // [warps]
};

struct DeviceThreads {
  __host__ __device__ static void raise([[maybe_unused]] Key* largest, [[maybe_unused]] Key value) {
#ifdef __CUDA_ARCH__
    atomicMax(largest, value);
#endif
  }
};

template <class Step>
__global__ void __launch_bounds__(kStepThreads) run_step(Step step, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kStepThreads + threadIdx.x;
  if (i < count) step(i);
}

/// All rounds in one launch, whose blocks are on the device at once and wait for each other. Ends
/// after a round in which `first` does nothing anywhere.
template <class Start, class First, class Second>
__global__ void __launch_bounds__(kStepThreads)
    run_rounds(std::int64_t count, int rounds, Start start, First first, Second second,
               volatile std::uint32_t* goes_on) {
  const auto grid = cooperative_groups::this_grid();
  const auto for_each = [&](auto step) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kStepThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kStepThreads + threadIdx.x; i < count;
         i += stride)
      step(i);
  };
  if (blockIdx.x == 0 && threadIdx.x < rounds) goes_on[threadIdx.x] = 0;
  for_each(start);
  for (int round = 0; round < rounds; ++round) {
    grid.sync();
    for_each([&](std::int64_t i) {
      if (first(DeviceThreads{}, round, i)) goes_on[round] = 1;
    });
    grid.sync();
    if (goes_on[round] == 0) return;
    for_each(second);
  }
}

/// Items for thread blocks, and how many of them blocks have taken.
struct Queue {
  std::uint32_t size, taken;
};

/// Whether all listed items of a step can go to thread blocks of one kind.
template <class Step>
constexpr bool kHasOneKind = Step::kBlockBytes == Step::kWideBytes;

/// Whether a step is done with an item; only some steps can give one up.
template <class Step, class Member>
__device__ bool is_done(const Step& step, const Member& team, std::int64_t item) {
  if constexpr (requires { bool{step(team, item)}; }) {
    return step(team, item);
  } else {
    step(team, item);
    return true;
  }
}

__device__ inline void append(Queue* queue, std::uint32_t* items, std::int64_t item) {
  items[atomicAdd(&queue->size, 1u)] = static_cast<std::uint32_t>(item);
}

/// Warps do the items that deserve no more, and list the others.
template <class Step>
__global__ void __launch_bounds__(32 * kWarpsOfBlock)
    run_in_warps(Step step, std::int64_t count, Queue* queues, std::uint32_t* block_items,
                 std::uint32_t* wide_items) {
  extern __shared__ Key shared[];
  const std::int64_t item = std::int64_t{blockIdx.x} * kWarpsOfBlock + threadIdx.x / 32;
  if (item >= count) return;
  Size size = step.size_of(item);
  if (size == Size::kWarp) {
    const Team<32> team(shared + threadIdx.x / 32 * (Step::kWarpBytes / sizeof(Key)), nullptr);
    if (is_done(step, team, item)) return;
    size = Size::kBlock;
  }
  if (threadIdx.x % 32 != 0) return;
  if (size == Size::kWide && !kHasOneKind<Step>)
    append(queues + 1, wide_items, item);
  else
    append(queues, block_items, item);
}

/// Blocks do the listed items; those that they give up go to the next list.
template <int kThreads, class Step>
__global__ void __launch_bounds__(kThreads)
    run_in_blocks(Step step, Queue* queue, const std::uint32_t* items, Queue* next_queue,
                  std::uint32_t* next_items) {
  extern __shared__ Key shared[];
  __shared__ Key largest[kThreads / 32];
  __shared__ std::uint32_t next;
  for (;;) {
    if (threadIdx.x == 0) next = atomicAdd(&queue->taken, 1u);
    __syncthreads();
    const std::uint32_t ticket = next;
    __syncthreads();
    if (ticket >= queue->size) return;
    if (!is_done(step, Team<kThreads>(shared, largest), items[ticket]) && threadIdx.x == 0)
      append(next_queue, next_items, items[ticket]);
  }
}

/// A few threads for a column of few holders, each of which has as many before it as are at lower
/// positions; lists the other columns.
__global__ void __launch_bounds__(kStepThreads)
    place_short_columns(matched::PlaceColumns step, std::int64_t columns, Queue* queue,
                        std::uint32_t* long_columns) {
  constexpr int kShort = 128;
  __shared__ std::int32_t shared[kStepThreads / kColumnThreads][kShort + kColumnThreads];
  const std::int64_t column =
      (std::int64_t{blockIdx.x} * kStepThreads + threadIdx.x) / kColumnThreads;
  if (column >= columns) return;
  const int lane = threadIdx.x % kColumnThreads;
  const std::uint32_t begin = step.col_offsets[column];
  const auto length = static_cast<int>(step.col_offsets[column + 1] - begin);
  if (length > kShort) {
    if (lane == 0) append(queue, long_columns, column);
    return;
  }
  std::int32_t* const positions = shared[threadIdx.x / kColumnThreads];
  for (int i = lane; i < length; i += kColumnThreads) positions[i] = step.position(begin + i);
  __syncwarp(((1u << kColumnThreads) - 1) << (threadIdx.x % 32 / kColumnThreads * kColumnThreads));
  for (int i = lane; i < length; i += kColumnThreads) {
    std::uint32_t before = 0;
    for (int other = 0; other < length; ++other) before += positions[other] < positions[i];
    step.put(begin + i, begin + before);
  }
}

/// A thread block marks the positions of a column's holders in a bitmap, part by part, and counts
/// the marks before each.
__global__ void __launch_bounds__(kStepThreads)
    place_long_columns(matched::PlaceColumns step, std::int32_t rows, Queue* queue,
                       const std::uint32_t* long_columns) {
  constexpr int kWordsOfThread = 32, kPart = 32 * kWordsOfThread * kStepThreads;  // in positions
  __shared__ std::uint32_t words[kWordsOfThread * kStepThreads];
  __shared__ std::uint32_t sums[kStepThreads];  // of the words of each thread and those before
  __shared__ std::uint32_t ticket;
  using Scan = cub::BlockScan<std::uint32_t, kStepThreads>;
  __shared__ typename Scan::TempStorage scan;
  for (;;) {
    if (threadIdx.x == 0) ticket = atomicAdd(&queue->taken, 1u);
    __syncthreads();
    if (ticket >= queue->size) return;
    const std::uint32_t column = long_columns[ticket];
    const std::uint32_t end = step.col_offsets[column + 1];
    std::uint32_t place = step.col_offsets[column];
    const std::uint32_t begin = place;
    for (std::int64_t part = 0; part < rows; part += kPart) {
      const auto size = static_cast<int>(min(std::int64_t{kPart}, rows - part));
      // Each thread sums up as many words, which follow each other.
      const int of_thread = (size + 32 * kStepThreads - 1) / (32 * kStepThreads);
      const auto index_of = [&](std::uint32_t entry) {
        return static_cast<std::int64_t>(step.position(entry)) - part;
      };
      for (int word = threadIdx.x; word < of_thread * kStepThreads; word += kStepThreads)
        words[word] = 0;
      __syncthreads();
      for (std::uint32_t entry = begin + threadIdx.x; entry < end; entry += kStepThreads)
        if (const std::int64_t index = index_of(entry); index >= 0 && index < size)
          atomicOr(&words[index / 32], 1u << (index % 32));
      __syncthreads();
      std::uint32_t sum = 0, all = 0;
      for (int word = 0; word < of_thread; ++word)
        sum += __popc(words[threadIdx.x * of_thread + word]);
      Scan(scan).ExclusiveSum(sum, sums[threadIdx.x], all);
      __syncthreads();
      for (std::uint32_t entry = begin + threadIdx.x; entry < end; entry += kStepThreads) {
        const std::int64_t index = index_of(entry);
        if (index < 0 || index >= size) continue;
        const auto last = static_cast<int>(index / 32);
        std::uint32_t before = sums[last / of_thread];
        for (int word = last / of_thread * of_thread; word < last; ++word)
          before += __popc(words[word]);
        before += __popc(words[last] & ((1u << (index % 32)) - 1));
        step.put(entry, place + before);
      }
      place += all;
      __syncthreads();
    }
    __syncthreads();
  }
}

class OnGpu {
 public:
  /// An array on the device, in the order of the stream.
  template <class T>
  class Array {
   public:
    Array(std::int64_t size, cudaStream_t stream)
        : buffer_(size * static_cast<std::int64_t>(sizeof(T)), stream) {}
    T* data() const { return buffer_.as<T>(); }
    StreamBuffer take() { return std::move(buffer_); }

   private:
    StreamBuffer buffer_;
  };

  OnGpu(const DevicePattern& pattern, cudaStream_t stream, PhaseTimes* times)
      : stream_(stream),
        times_(times),
        rows_(pattern.rows),
        queues_(kQueues, stream),
        goes_on_(kStepThreads, stream),
        block_items_(pattern.rows, stream),
        wide_items_(pattern.rows, stream),
        long_columns_(pattern.cols, stream) {
    int device = 0, shared = 0;
    cuda_check(cudaGetDevice(&device), "querying the device");
    cuda_check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
               "querying the device");
    cuda_check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "querying the device");
    const auto most = static_cast<int>(matched::FindPartners::kWideBytes);
    require<Unsupported>(shared > most + 1024,
                         "matched needs {} bytes of shared memory in a thread block, and this GPU "
                         "has {}",
                         most + 1024, shared);
    cuda_check(cudaFuncSetAttribute(run_in_blocks<kWideThreads, matched::FindPartners>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, most),
               "setting up shared memory");
  }

  template <class T>
  Array<T> array(std::int64_t size) const {
    return Array<T>(size, stream_);
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
                   kWarpsOfBlock * Step::kWarpBytes, stream_>>>(
        step, count, queues, block_items_.data(), wide_items_.data());
    check();
    if constexpr (kHasOneKind<Step>) {
      run_blocks<kAnyThreads, 4>(count, step, Step::kBlockBytes, queues, block_items_.data());
    } else {
      run_blocks<kBlockThreads, 6>(count, step, Step::kBlockBytes, queues, block_items_.data(),
                                   wide_items_.data());
      run_blocks<kWideThreads, 1>(count, step, Step::kWideBytes, queues + 1, wide_items_.data());
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
    place_short_columns<<<blocks(std::int64_t{columns} * kColumnThreads, kStepThreads),
                          kStepThreads, 0, stream_>>>(step, columns, queue, long_columns_.data());
    check();
    place_long_columns<<<blocks(columns, 1, 4), kStepThreads, 0, stream_>>>(
        step, rows_, queue, long_columns_.data());
    check();
  }

 private:
  /// Items that blocks give up go to the queue after theirs.
  template <int kThreads, int kBlocksOfProcessor, class Step>
  void run_blocks(std::int64_t count, const Step& step, std::size_t shared_bytes, Queue* queue,
                  const std::uint32_t* items, std::uint32_t* next_items = nullptr) const {
    run_in_blocks<kThreads>
        <<<blocks(count, 1, kBlocksOfProcessor), kThreads, shared_bytes, stream_>>>(
            step, queue, items, queue + 1, next_items);
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
  /// Memory for one step, in the order of the stream.
  void* scratch(std::size_t bytes) {
    const auto needed = static_cast<std::int64_t>(bytes);
    if (scratch_.bytes() < needed) scratch_ = StreamBuffer(needed, stream_);
    return scratch_.as<void>();
  }
  static void check() { cuda_check(cudaGetLastError(), "finding an order"); }

  static constexpr unsigned kQueues = 128;
  static constexpr int kRoundBlocksOfProcessor = 2;

  cudaStream_t stream_;
  PhaseTimes* times_;
  std::int32_t rows_;
  int processors_ = 0;
  unsigned next_queue_ = 0;
  Array<Queue> queues_;  // [kQueues] in pairs: for thread blocks, and wide ones
  Array<std::uint32_t> goes_on_;                   // [kStepThreads] whether a round did anything
  Array<std::uint32_t> block_items_, wide_items_;  // [rows]
  Array<std::uint32_t> long_columns_;              // [columns]
  StreamBuffer scratch_;
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
    return search.take_order().take();
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
