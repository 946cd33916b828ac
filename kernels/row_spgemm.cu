// Device half of row_spgemm: rows analysed and cut into tasks, tasks sorted by class, marks
// counted, sums made. The host waits twice: for the number of tasks, and for that of C's nonzeros.
// See kernels/row_spgemm.hpp.

#include <climits>
#include <cub/device/device_scan.cuh>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/row_spgemm_group.cuh"

namespace tessera {
namespace {

using namespace row_spgemm;

constexpr int kThreads = 256;          // of the kernels that go over rows
constexpr int kLanesOfRow = 8;         // of a row's analysis
constexpr int kThreadsOfGroups = 128;  // of a thread block of several groups
constexpr int kAhead = 4;              // segments of B that are loaded together

/// What is asked about a row of B, in one load.
struct alignas(16) RowOfB {
  std::int32_t begin, length, first_col, last_col;
};

struct View {
  std::int32_t rows, rows_of_b_count;
  const std::int32_t* a_offsets;  // [rows + 1]
  const std::int32_t* a_cols;
  const float* a_values;
  const std::int32_t* b_offsets;  // [rows_of_b_count + 1]
  const std::int32_t* b_cols;
  const float* b_values;
  RowOfB* rows_of_b;  // [rows_of_b_count]
};

__global__ void __launch_bounds__(kThreads) describe_rows_of_b(View view) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= view.rows_of_b_count) return;
  const std::int32_t begin = view.b_offsets[row], length = view.b_offsets[row + 1] - begin;
  RowOfB of{begin, length, 0, 0};
  if (length > 0) {
    of.first_col = view.b_cols[begin];
    of.last_col = view.b_cols[begin + length - 1];
  }
  view.rows_of_b[row] = of;
}

/// What the host wants to know of all rows, and of all tasks.
struct Summary {
  unsigned long long tasks;
  unsigned long long nonzeros;
  std::uint32_t mark_classes[kMarkClasses];  // tasks of each
  std::uint32_t sum_classes[kSumClasses];
  std::uint32_t mark_cursors[kMarkClasses];  // used while they are sorted
  std::uint32_t sum_cursors[kSumClasses];
};

/// Adds a thread block's counts to those of all.
template <int kCount>
__device__ void add_counts(const std::uint32_t (&of_block)[kCount], std::uint32_t* of_all) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kCount && of_block[i] > 0) atomicAdd(of_all + i, of_block[i]);
}

template <int kCount>
__device__ void clear_counts(std::uint32_t (&counts)[kCount]) {
  if (threadIdx.x < kCount) counts[threadIdx.x] = 0;
  __syncthreads();
}

__device__ RowPlan analyse_row(const View& view, int row, int lane) {
  long long products = 0;
  std::int32_t first = INT_MAX, last = 0, nonzeros = 0;
  if (row < view.rows) {
    const std::int32_t begin = view.a_offsets[row], end = view.a_offsets[row + 1];
    nonzeros = end - begin;
    for (std::int32_t at = begin + lane; at < end; at += kLanesOfRow) {
      const RowOfB of = view.rows_of_b[view.a_cols[at]];
      if (of.length == 0) continue;
      products += of.length;
      first = min(first, of.first_col);
      last = max(last, of.last_col);
    }
  }
#pragma unroll
  for (int step = kLanesOfRow / 2; step > 0; step /= 2) {
    products += __shfl_xor_sync(~0u, products, step);
    first = min(first, __shfl_xor_sync(~0u, first, step));
    last = max(last, __shfl_xor_sync(~0u, last, step));
  }
  return plan_row(row, products, nonzeros, first, last);
}

__global__ void __launch_bounds__(kThreads)
    analyse_rows(View view, RowPlan* plans, std::int32_t* slices, Summary* summary) {
  __shared__ std::uint32_t counts[kMarkClasses];
  __shared__ std::uint32_t tasks;
  if (threadIdx.x == 0) tasks = 0;
  clear_counts(counts);
  const auto thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int lane = static_cast<int>(thread % kLanesOfRow);
  const auto row = static_cast<int>(min(thread / kLanesOfRow, std::int64_t{view.rows}));
  const RowPlan plan = analyse_row(view, row, lane);
  if (row < view.rows && lane == 0) {
    plans[row] = plan;
    slices[row] = plan.slices;
    atomicAdd(&tasks, static_cast<std::uint32_t>(plan.slices));
    // All slices but the last have the same class.
    const std::uint32_t alike = plan.slices - 1;
    if (alike > 0) atomicAdd(counts + mark_class(plan.task(0)), alike);
    atomicAdd(counts + mark_class(plan.task(plan.slices - 1)), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->mark_classes);
  if (threadIdx.x == 0) atomicAdd(&summary->tasks, static_cast<unsigned long long>(tasks));
}

/// `first_tasks` [rows] says where a row's tasks go; without, every row has one.
__global__ void __launch_bounds__(kThreads)
    make_tasks(int rows, const RowPlan* plans, const std::int32_t* first_tasks, Task* tasks) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= rows) return;
  const RowPlan plan = plans[row];
  Task* to = tasks + (first_tasks != nullptr ? first_tasks[row] : row);
  for (int slice = 0; slice < plan.slices; ++slice) to[slice] = plan.task(slice);
}

/// Where each class begins among the sorted tasks.
template <int kCount>
struct Begins {
  std::uint32_t of[kCount];
};

/// Numbers of tasks by class, in no order within a class.
template <int kCount, class ClassOf>
__global__ void __launch_bounds__(kThreads)
    sort_tasks(int count, Begins<kCount> begins, std::uint32_t* cursors, std::int32_t* sorted,
               ClassOf class_of) {
  __shared__ std::uint32_t counts[kCount], places[kCount];
  clear_counts(counts);
  const int task = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  int of = 0;
  std::uint32_t place = 0;
  if (task < count) {
    of = class_of(task);
    place = atomicAdd(counts + of, 1u);
  }
  __syncthreads();
  if (threadIdx.x < kCount && counts[threadIdx.x] > 0)
    places[threadIdx.x] =
        begins.of[threadIdx.x] + atomicAdd(cursors + threadIdx.x, counts[threadIdx.x]);
  __syncthreads();
  if (task < count) sorted[places[of] + place] = task;
}

struct MarkClassOf {
  const Task* tasks;
  __device__ int operator()(int task) const { return mark_class(tasks[task]); }
};

struct SumClassOf {
  const Task* tasks;
  const std::int32_t* lengths;
  __device__ int operator()(int task) const { return sum_class(tasks[task], lengths[task]); }
};

/// A part of a row of B, times a value of A.
struct alignas(16) Segment {
  std::int32_t begin = 0, length = 0;
  float value = 0;
};

/// The first of the ascending columns [begin, end) that is not below `col`.
__device__ std::int32_t lower_bound(const std::int32_t* cols, std::int32_t begin, std::int32_t end,
                                    std::int64_t col) {
  while (begin < end) {
    const std::int32_t middle = begin + (end - begin) / 2;
    if (cols[middle] < col)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// Nonzero `at` of A's row, which ends at `end`.
__device__ Segment load_segment(const View& view, const Task& task, std::int32_t at,
                                std::int32_t end) {
  if (at >= end) return {};
  const RowOfB of = view.rows_of_b[view.a_cols[at]];
  Segment segment{of.begin, of.length, view.a_values[at]};
  if (task.is_sliced && of.length > 0) {
    const std::int64_t first = std::int64_t{task.first_word} * kWordCols;
    const std::int64_t beyond = first + std::int64_t{task.words} * kWordCols;
    segment.begin = lower_bound(view.b_cols, of.begin, of.begin + of.length, first);
    segment.length =
        lower_bound(view.b_cols, segment.begin, of.begin + of.length, beyond) - segment.begin;
  }
  return segment;
}

/// Calls visit(segments, how many) for all segments of the task that are not empty, in the order of
/// A's columns, as many at a time as the group has lanes.
template <class Group, class Visit>
__device__ void for_segments(const View& view, const Task& task, Segment* staged, int* scratch,
                             Visit visit) {
  const bool has_work = task.words > 0;
  const std::int32_t begin = has_work ? view.a_offsets[task.row] : 0;
  const std::int32_t end = has_work ? view.a_offsets[task.row + 1] : 0;
  const int count = Group::most(end - begin);
  Segment next = load_segment(view, task, begin + Group::lane(), end);
  for (int first = 0; first < count; first += Group::kLanes) {
    int size = 0;
    const int at = Group::before(next.length > 0 ? 1 : 0, size, scratch);
    if (next.length > 0) staged[at] = next;
    // The next ones are on their way while these are worked on.
    next = load_segment(view, task, begin + first + Group::kLanes + Group::lane(), end);
    Group::sync();
    visit(size);
    Group::sync();
  }
}

/// Marks every column of the task's products.
template <class Group, class Bitmap>
__device__ void mark_columns(const View& view, const Task& task, Segment* staged, int* scratch,
                             Bitmap& bitmap) {
  // Marks come in any order: each warp of a thread block has segments of its own.
  constexpr int kWidth = Group::kIsBlock ? 32 : Group::kLanes;
  const int lane = Group::lane() % kWidth, warp = Group::lane() / kWidth;
  for_segments<Group>(view, task, staged, scratch, [&](int size) {
    for (int i = warp; i < size; i += kAhead * Group::kWarps) {
      Segment segments[kAhead];
      std::int32_t cols[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int at = i + u * Group::kWarps;
        if (at < size) segments[u] = staged[at];
        if (lane < segments[u].length) cols[u] = view.b_cols[segments[u].begin + lane];
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (lane < segments[u].length) bitmap.mark(cols[u]);
        for (int j = lane + kWidth; j < segments[u].length; j += kWidth)
          bitmap.mark(view.b_cols[segments[u].begin + j]);
      }
    }
  });
}

/// Adds the task's products to their sums, element for element in the order of A's columns.
template <class Group, class Bitmap>
__device__ void add_products(const View& view, const Task& task, Segment* staged, int* scratch,
                             const Bitmap& bitmap, float* sums) {
  const int lane = Group::lane();
  for_segments<Group>(view, task, staged, scratch, [&](int size) {
    const int most = Group::most(size);
    for (int i = 0; i < most; i += kAhead) {
      Segment segments[kAhead];
      std::int32_t cols[kAhead];
      float values[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (i + u < size) segments[u] = staged[i + u];
        if (lane >= segments[u].length) continue;
        cols[u] = view.b_cols[segments[u].begin + lane];
        values[u] = view.b_values[segments[u].begin + lane];
      }
      int places[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (lane < segments[u].length) places[u] = bitmap.rank(cols[u]);
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (i + u >= most) break;
        const Segment& of = segments[u];
        if (lane < of.length) sums[places[u]] = fmaf(of.value, values[u], sums[places[u]]);
        for (int j = lane + Group::kLanes; j < of.length; j += Group::kLanes) {
          float& sum = sums[bitmap.rank(view.b_cols[of.begin + j])];
          sum = fmaf(of.value, view.b_values[of.begin + j], sum);
        }
        Group::sync();  // the next segment may have the same columns
      }
    }
  });
}

/// Sorted tasks of one class.
struct Batch {
  const std::int32_t* sorted;
  int count;
  const Task* tasks;

  /// The task of a group, with no words past the last.
  __device__ Task task(int number) const { return number < count ? tasks[sorted[number]] : Task{}; }
};

template <class Group>
constexpr int kGroups = Group::kIsBlock ? 1 : kThreadsOfGroups / Group::kLanes;

/// Shared memory of a group: segments, then what bitmaps and sums take.
template <class Group>
constexpr int group_bytes(int bytes) {
  return Group::kLanes * static_cast<int>(sizeof(Segment)) + (bytes + 15) / 16 * 16;
}

template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    count_columns(View view, Batch batch, int bytes, std::int32_t* lengths, Summary* summary) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  __shared__ std::uint32_t counts[kSumClasses];
  clear_counts(counts);
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const Task task = batch.task(number);
  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  Bitmap bitmap(task, memory + Group::kLanes * sizeof(Segment));
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  int found = 0;
  for (int i = Group::lane(); i < bitmap.slots(); i += Group::kLanes)
    found += __popc(bitmap.marks(i));
  int total = 0;
  Group::before(found, total, scratch);
  if (Group::lane() == 0 && number < batch.count) {
    lengths[batch.sorted[number]] = total;
    atomicAdd(counts + sum_class(task, total), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->sum_classes);
}

/// Where a task's part of C is.
struct Output {
  const std::int64_t* offsets;  // [tasks + 1]
  std::int32_t* cols;
  float* values;
  float alpha;
};

/// Gives every word its rank, and writes the columns of C.
template <class Group, class Bitmap>
__device__ void rank_columns(Bitmap& bitmap, int* scratch, std::int32_t* cols) {
  bitmap.sort(scratch);
  int before = 0;
  const int most = Group::most(bitmap.words());
  for (int first = 0; first < most; first += Group::kLanes) {
    const int i = first + Group::lane();
    const bool is_word = i < bitmap.words();
    const int slot = is_word ? bitmap.slot(i) : 0;
    std::uint32_t marks = is_word ? bitmap.marks(slot) : 0;
    int found = 0;
    int place = before + Group::before(__popc(marks), found, scratch);
    before += found;
    if (!is_word) continue;
    bitmap.set_rank(slot, place);
    for (const std::int32_t col = bitmap.first_col(i); marks != 0; marks &= marks - 1)
      cols[place++] = col + __ffs(static_cast<int>(marks)) - 1;
  }
}

template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    make_sums(View view, Batch batch, int bytes, Output output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const Task task = batch.task(number);
  const int id = number < batch.count ? batch.sorted[number] : 0;
  const std::int64_t first = number < batch.count ? output.offsets[id] : 0;
  const int count = number < batch.count ? static_cast<int>(output.offsets[id + 1] - first) : 0;

  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  auto* sums = reinterpret_cast<float*>(memory + Group::kLanes * sizeof(Segment));
  Bitmap bitmap(task, reinterpret_cast<unsigned char*>(sums + count));
  for (int i = Group::lane(); i < count; i += Group::kLanes) sums[i] = 0;
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, output.cols + first);
  Group::sync();
  add_products<Group>(view, task, staged, scratch, bitmap, sums);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    output.values[first + i] = output.alpha == 1 ? sums[i] : output.alpha * sums[i];
}

/// The offsets of rows from those of tasks.
__global__ void __launch_bounds__(kThreads)
    gather_offsets(int rows, const std::int32_t* first_tasks, const std::int64_t* offsets,
                   std::int64_t nonzeros, std::int64_t* row_offsets) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row > rows) return;
  row_offsets[row] = row < rows ? offsets[first_tasks[row]] : nonzeros;
}

unsigned blocks_for(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

/// Calls body.operator()<Group, Bitmap>(bytes) for one of the classes, those from kFrom to kCount.
template <auto kLimits, int kCount, int kSmall, int kLarge, int kFrom = 0, class Body>
void with_class(int of, Body body) {
  if constexpr (kFrom < kCount) {
    if (of != kFrom) return with_class<kLimits, kCount, kSmall, kLarge, kFrom + 1>(of, body);
    constexpr TaskClass limits = kLimits(kFrom);
    using Lanes = Group<limits.lanes>;
    if constexpr (kFrom == kSmall)
      body.template operator()<Lanes, HashedBitmap<Lanes, kSmallTable>>(limits.bytes);
    else if constexpr (kFrom == kLarge)
      body.template operator()<Lanes, HashedBitmap<Lanes, kLargeTable>>(limits.bytes);
    else
      body.template operator()<Lanes, PlainBitmap<Lanes>>(limits.bytes);
  }
}

/// Launches a kernel that takes tasks of one class.
template <class Group, class Kernel, class... Arguments>
void launch_groups(Kernel kernel, int count, int bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  const int shared = kGroups<Group> * group_bytes<Group>(bytes);
  constexpr int kWithoutAsking = 48 << 10;
  if (shared > kWithoutAsking)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
               "asking for shared memory");
  kernel<<<blocks_for(count, kGroups<Group>), kGroups<Group> * Group::kLanes,
           static_cast<std::size_t>(shared), stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

std::vector<std::int32_t> narrow(const Array<std::int64_t>& offsets) {
  return {offsets.begin(), offsets.end()};
}

/// A CSR matrix on the device with offsets in 32 bits.
struct NarrowCsr {
  explicit NarrowCsr(const CsrMatrix& matrix)
      : offsets(narrow(matrix.row_offsets)), cols(matrix.col_indices), values(matrix.values) {}

  DeviceArray<std::int32_t> offsets;  // [rows + 1]
  DeviceArray<std::int32_t> cols;     // [nnz]
  DeviceArray<float> values;          // [nnz]
};

class RowProduct final : public GpuSparseProduct {
 public:
  RowProduct(const CsrMatrix& a, const CsrMatrix& b) : a_(a), rows_(a.rows), cols_(b.cols) {
    if (&a != &b) b_.emplace(b);
    const NarrowCsr& right = b_ ? *b_ : a_;
    view_ = {a.rows,
             b.rows,
             a_.offsets.data(),
             a_.cols.data(),
             a_.values.data(),
             right.offsets.data(),
             right.cols.data(),
             right.values.data(),
             nullptr};
    cuda_check(cudaMallocHost(&summary_, sizeof(Summary)), "allocating pinned memory");
  }
  ~RowProduct() override { cudaFreeHost(summary_); }
  RowProduct(const RowProduct&) = delete;
  RowProduct& operator=(const RowProduct&) = delete;

  void multiply(float alpha, ProductRun& run) override {
    Work work(run, rows_, view_);
    run.stage("analysis");
    analyse(work, run);
    run.stage("counting");
    count(work, run);
    run.stage("sums");
    sum(alpha, work, run);
  }

  void release() override { c_ = {}; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  /// What a product needs beside C.
  struct Work {
    Work(ProductRun& run, int rows, const View& of)
        : view(of),
          rows_of_b(run, of.rows_of_b_count),
          plans(run, rows),
          slices(run, rows + 1),
          summary(run, 1) {
      view.rows_of_b = rows_of_b.data();
    }

    View view;
    RunArray<RowOfB> rows_of_b;     // [rows of B]
    RunArray<RowPlan> plans;        // [rows]
    RunArray<std::int32_t> slices;  // [rows + 1]: of each row; then its first task
    RunArray<Summary> summary;      // [1]
    int num_tasks = 0;
    RunArray<Task> tasks;            // [num_tasks]
    RunArray<std::int32_t> sorted;   // [num_tasks]
    RunArray<std::int32_t> lengths;  // [num_tasks + 1]: columns of C of each
    RunArray<std::int64_t> offsets;  // [num_tasks + 1], where tasks are not rows
    const std::int64_t* task_offsets = nullptr;

    bool is_sliced() const { return num_tasks != static_cast<int>(plans.size()); }
  };

  /// What the device has found so far. Waits.
  const Summary& read_summary(const Work& work, cudaStream_t stream) {
    cuda_check(cudaMemcpyAsync(summary_, work.summary.data(), sizeof(Summary),
                               cudaMemcpyDeviceToHost, stream),
               "reading what was counted");
    cuda_check(cudaStreamSynchronize(stream), "analysing rows");
    return *summary_;
  }

  template <class In, class Out>
  static void scan(const In* from, Out* to, std::int64_t count, ProductRun& run) {
    std::size_t bytes = 0;
    cuda_check(cub::DeviceScan::ExclusiveScan(nullptr, bytes, from, to, cuda::std::plus<Out>{},
                                              Out{0}, count, run.stream()),
               "sizing a scan");
    const RunArray<std::byte> scratch(run, static_cast<std::int64_t>(bytes));
    cuda_check(cub::DeviceScan::ExclusiveScan(scratch.data(), bytes, from, to,
                                              cuda::std::plus<Out>{}, Out{0}, count, run.stream()),
               "scanning");
  }

  void analyse(Work& work, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    cuda_check(cudaMemsetAsync(work.summary.data(), 0, sizeof(Summary), stream), "clearing");
    if (work.view.rows_of_b_count > 0)
      describe_rows_of_b<<<blocks_for(work.view.rows_of_b_count, kThreads), kThreads, 0, stream>>>(
          work.view);
    if (rows_ > 0)
      analyse_rows<<<blocks_for(std::int64_t{rows_} * kLanesOfRow, kThreads), kThreads, 0,
                     stream>>>(work.view, work.plans.data(), work.slices.data(),
                               work.summary.data());
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const Summary& summary = read_summary(work, stream);
    require<Unsupported>(summary.tasks <= INT_MAX / 2, "{} tasks are more than row_spgemm counts",
                         summary.tasks);
    work.num_tasks = static_cast<int>(summary.tasks);
    work.tasks = RunArray<Task>(run, work.num_tasks);
    work.sorted = RunArray<std::int32_t>(run, work.num_tasks);
    work.lengths = RunArray<std::int32_t>(run, work.num_tasks + 1);
    if (work.num_tasks == 0) return;
    if (work.is_sliced()) scan(work.slices.data(), work.slices.data(), rows_, run);
    make_tasks<<<blocks_for(rows_, kThreads), kThreads, 0, stream>>>(
        rows_, work.plans.data(), work.is_sliced() ? work.slices.data() : nullptr,
        work.tasks.data());
    sort(summary.mark_classes, work.summary.data()->mark_cursors, MarkClassOf{work.tasks.data()},
         work, stream);
  }

  template <int kCount, class ClassOf>
  static void sort(const std::uint32_t (&counts)[kCount], std::uint32_t* cursors, ClassOf class_of,
                   Work& work, cudaStream_t stream) {
    Begins<kCount> begins{};
    for (int i = 1; i < kCount; ++i) begins.of[i] = begins.of[i - 1] + counts[i - 1];
    sort_tasks<kCount><<<blocks_for(work.num_tasks, kThreads), kThreads, 0, stream>>>(
        work.num_tasks, begins, cursors, work.sorted.data(), class_of);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Calls launch(class, batch) for the tasks of each class that has any, the largest first.
  template <int kCount, class Launch>
  static void for_classes(const std::uint32_t (&counts)[kCount], const Work& work, Launch launch) {
    auto end = static_cast<std::uint32_t>(work.num_tasks);
    for (int i = kCount - 1; i >= 0; --i) {
      end -= counts[i];
      if (counts[i] > 0)
        launch(i, Batch{work.sorted.data() + end, static_cast<int>(counts[i]), work.tasks.data()});
    }
  }

  void count(Work& work, ProductRun& run) {
    for_classes(summary_->mark_classes, work, [&](int of, const Batch& batch) {
      with_class<mark_limits, kMarkClasses, kMarkSmallTable, kMarkLargeTable>(
          of, [&]<class Group, class Bitmap>(int bytes) {
            launch_groups<Group>(count_columns<Group, Bitmap>, batch.count, bytes, run.stream(),
                                 work.view, batch, bytes, work.lengths.data(), work.summary.data());
          });
    });
    c_ = {rows_, cols_, RunArray<std::int64_t>(run, rows_ + 1), {}, {}};
    std::int64_t* offsets = c_.row_offsets.data();
    if (work.is_sliced()) {
      work.offsets = RunArray<std::int64_t>(run, work.num_tasks + 1);
      offsets = work.offsets.data();
    }
    // What lies beyond the last length is read, and counts for nothing: the scan excludes it.
    cuda_check(cudaMemsetAsync(work.lengths.data() + work.num_tasks, 0, sizeof(std::int32_t),
                               run.stream()),
               "clearing");
    scan(work.lengths.data(), offsets, work.num_tasks + 1, run);
    work.task_offsets = offsets;
    cuda_check(cudaMemcpyAsync(&work.summary.data()->nonzeros, offsets + work.num_tasks,
                               sizeof(std::int64_t), cudaMemcpyDeviceToDevice, run.stream()),
               "counting the nonzeros of C");
  }

  void sum(float alpha, Work& work, ProductRun& run) {
    const Summary& summary = read_summary(work, run.stream());
    const auto nonzeros = static_cast<std::int64_t>(summary.nonzeros);
    c_.col_indices = RunArray<std::int32_t>(run, nonzeros);
    c_.values = RunArray<float>(run, nonzeros);
    if (work.num_tasks == 0) return;
    sort(summary.sum_classes, work.summary.data()->sum_cursors,
         SumClassOf{work.tasks.data(), work.lengths.data()}, work, run.stream());
    const Output output{work.task_offsets, c_.col_indices.data(), c_.values.data(), alpha};
    for_classes(summary.sum_classes, work, [&](int of, const Batch& batch) {
      with_class<sum_limits, kSumClasses, kSumSmallTable, kSumLargeTable>(
          of, [&]<class Group, class Bitmap>(int bytes) {
            launch_groups<Group>(make_sums<Group, Bitmap>, batch.count, bytes, run.stream(),
                                 work.view, batch, bytes, output);
          });
    });
    if (!work.is_sliced()) return;
    gather_offsets<<<blocks_for(rows_ + 1, kThreads), kThreads, 0, run.stream()>>>(
        rows_, work.slices.data(), work.task_offsets, nonzeros, c_.row_offsets.data());
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  NarrowCsr a_;
  std::optional<NarrowCsr> b_;  // where it is not A
  int rows_, cols_;
  View view_ = {};
  Summary* summary_ = nullptr;  // [1], pinned
  SparseResult c_;
};

class GpuRowSpgemm final : public GpuSpgemm {
 public:
  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    for (const CsrMatrix* matrix : {&a, &b})
      require<Unsupported>(matrix->nnz() <= INT_MAX,
                           "{} nonzeros of an operand are more than row_spgemm counts",
                           matrix->nnz());
    return std::make_unique<RowProduct>(a, b);
  }
};

const Register<GpuSpgemm> entry{{
    .name = "row_spgemm",
    .summary = "device half of row_spgemm",
    .make = [](const Params&) { return std::make_unique<GpuRowSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
