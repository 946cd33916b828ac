// The kept positions of row_spgemm: for each product of a task, in the order of its walk, the place
// of its sum among those of the task, in 2 bytes. A product with other values then reads its rows
// of B as they lie in memory, and neither marks columns nor finds their ranks. Lists
// (kernels/spgemm/row/lists.cuh) read less where B's rows are short; positions read B in long
// pieces where they are long. Small tasks keep no positions: their lanes compare columns again.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/plan.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

using Position = std::uint16_t;
static_assert(kMostBytes / kSumSize <= 1 << 16, "a position has room for every sum of a task");

/// The positions of all tasks, one task after another.
struct PositionsView {
  const std::int64_t* first;  // [tasks + 1]
  Position* of;               // [products of tasks that are not small]
};

/// Counts the products of each task that is not small, by a warp each, and writes a zero after
/// them; raises *most to the largest number, at most INT_MAX.
static __global__ void __launch_bounds__(kRowThreads)
    count_task_products(OperandsView operands, const Task* tasks, int num_tasks,
                        std::int64_t* counts, std::uint32_t* most) {
  const std::int64_t number =
      warp_each().item_of(std::int64_t{blockIdx.x}, std::int64_t{threadIdx.x});
  if (number > num_tasks) return;
  std::int64_t products = 0;
  if (number < num_tasks) {
    const Task task = tasks[number];
    const bool is_small = task.storage == MarkStorage::kLanes;
    const std::int32_t end = task.begin + (is_small ? 0 : task.nonzeros);
    for (std::int32_t at = task.begin + lane_of_warp(); at < end; at += kWarpLanes)
      products += load_segment<SegmentKind::kPositions>(operands, task, at, end).length;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) products += __shfl_xor_sync(kAllLanes, products, step);
  if (lane_of_warp() != 0) return;
  counts[number] = products;
  const auto clamped = static_cast<std::uint32_t>(min(products, std::int64_t{INT_MAX}));
  if (peek(most) < clamped) atomicMax(most, clamped);
}

/// A product that is to get a position.
struct PlacedProduct {
  std::int32_t col = -1;
  int number = 0;
};

/// Writes the positions of a task's products.
template <class Group, class Bitmap>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    write_positions(OperandsView operands, Batch batch, int bytes, PositionsView positions) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  const GroupTask<Group> mine(batch, bytes, shared);
  Bitmap bitmap(mine.task, mine.bitmap);
  auto* found = reinterpret_cast<std::int32_t*>(mine.bitmap + bitmap.bytes());
  Group::sync();
  mark_columns<Group>(operands, mine.task, mine.staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, found, nullptr);
  Position* of_task = mine.sorted.id < 0 ? nullptr : positions.of + positions.first[mine.sorted.id];
  const auto store = [&](const PlacedProduct& product) {
    if (product.col >= 0) of_task[product.number] = static_cast<Position>(bitmap.rank(product.col));
    return -1;  // it is added to no cell
  };
  for_products<Group, SegmentKind::kNonzeros, true>(
      operands, mine.task, mine.staged, scratch, found,
      [&](std::int32_t at, float, int number) {
        return at < 0 ? PlacedProduct{} : PlacedProduct{__ldg(operands.b_cols + at), number};
      },
      store, [](const PlacedProduct&, int) {});
}

/// A product whose position is known; -1 for none.
struct PositionedProduct {
  int position = -1;
  float left = 0, right = 0;
};

/// The positions, and where their sums go: a SumOutput.
template <class Output>
struct PositionedOutput {
  PositionsView positions;
  Output sums;

  /// For the kernel of small tasks, which have no positions.
  operator Output() const { return sums; }
};

/// Makes the sums of a task from its positions.
template <class Group, class Output>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    add_positioned(OperandsView operands, Batch batch, int bytes, PositionedOutput<Output> output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  const GroupTask<Group> mine(batch, bytes, shared);
  const std::int64_t first = mine.sorted.id < 0 ? 0 : output.sums.offsets[mine.sorted.id];
  const int count =
      mine.task.words == 0 ? 0 : static_cast<int>(output.sums.offsets[mine.sorted.id + 1] - first);
  const Position* positions =
      mine.sorted.id < 0 ? nullptr : output.positions.of + output.positions.first[mine.sorted.id];
  auto* sums = reinterpret_cast<float*>(mine.bitmap);
  for (int i = Group::lane(); i < count; i += Group::kLanes) sums[i] = 0;
  Group::sync();
  for_products<Group, SegmentKind::kNonzeros>(
      operands, mine.task, mine.staged, scratch, sums,
      [&](std::int32_t at, float value, int number) {
        return at < 0 ? PositionedProduct{}
                      : PositionedProduct{__ldcs(positions + number), value,
                                          __ldg(operands.b_values + at)};
      },
      [](const PositionedProduct& product) { return product.position; },
      [&](const PositionedProduct& product, int cell) {
        sums[cell] = fmaf(product.left, product.right, sums[cell]);
      });
  Group::sync();
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    output.sums.values[first + i] = output.sums.scaled(sums[i]);
}

/// The kernels that write positions, for RowTasks::launch_ranked(); small tasks have none.
struct WritePositions {
  template <class Group, class Bitmap>
  static auto group() {
    return write_positions<Group, Bitmap>;
  }
  template <int kLanes>
  static auto small() {
    return nullptr;
  }
};

/// The positions of a product.
class ProductPositions {
 public:
  /// Writes the positions. The tasks have to be sorted for the second phase. Waits for the device.
  /// Throws Unsupported for a task of more products than an int counts.
  ProductPositions(RowTasks& tasks, const RowTasks::Workspace& work, std::int64_t products,
                   ProductRun& run) {
    run.stage("positions");
    const cudaStream_t stream = run.stream();
    const std::int64_t count = std::int64_t{work.num_tasks} + 1;
    const std::int64_t scratch_bytes =
        spgemm::running_sum_bytes<std::int64_t>(static_cast<const std::int64_t*>(nullptr), count);
    const auto first = block_.place<std::int64_t>(count);
    const auto most = block_.place<std::uint32_t>(1);
    const auto scratch = block_.place<std::byte>(scratch_bytes);
    const auto of = block_.place<Position>(products);
    block_.take(run);
    auto* counts = block_.data<std::int64_t>(first);
    view_ = {counts, block_.data<Position>(of)};
    cuda_check(cudaMemsetAsync(block_.data<std::uint32_t>(most), 0, sizeof(std::uint32_t), stream),
               "clearing");
    count_task_products<<<grid_of(warp_each(), count), kRowThreads, 0, stream>>>(
        work.operands, work.tasks.data(), work.num_tasks, counts, block_.data<std::uint32_t>(most));
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    spgemm::running_sum(block_.array<std::byte>(scratch, scratch_bytes), counts, counts, count,
                        stream);
    require<Unsupported>(spgemm::read_back(run, block_.data<std::uint32_t>(most)) < INT_MAX,
                         "row_spgemm keeps positions of at most {} products per task", INT_MAX);
    tasks.launch_ranked<WritePositions>(work, view_, stream);
  }

  const PositionsView& view() const { return view_; }

 private:
  RunBlock block_;
  PositionsView view_ = {};
};

}  // namespace tessera::row_spgemm
