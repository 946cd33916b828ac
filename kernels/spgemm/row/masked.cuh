// The device half of row_spgemm under a mask. The host waits once, for the number of tasks. See
// kernels/spgemm/row/masked.hpp.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "kernels/spgemm/row/masked.hpp"
#include "kernels/spgemm/row/operands.cuh"
#include "kernels/spgemm/row/plan.cuh"

namespace tessera::row_spgemm {

/// The pattern of M.
struct MaskView {
  const std::int64_t* offsets;  // [rows + 1]
  const std::int32_t* cols;     // [nnz]

  __device__ MaskRow row(std::int32_t number) const {
    const std::int64_t begin = offsets[number], end = offsets[number + 1];
    if (begin == end) return {};
    return {end - begin, cols[begin], cols[end - 1]};
  }

  /// The first of the cells [begin, end) of a row whose column is not below `col`, or `end`.
  __device__ std::int64_t first_from(std::int64_t begin, std::int64_t end, std::int32_t col) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (cols[middle] < col)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
};

/// Cells [first, first + count) of M.
struct CellRange {
  __device__ CellRange(const MaskView& mask, const SortedTask& sorted, const Task& task) {
    if (sorted.id < 0) return;
    first = mask.offsets[task.row];
    std::int64_t end = mask.offsets[task.row + 1];
    if (task.is_sliced) {
      first = mask.first_from(first, end, task.first_word * kWordCols);
      end = mask.first_from(first, end, (task.first_word + task.words) * kWordCols);
    }
    count = static_cast<int>(end - first);
  }

  std::int64_t first = 0;
  int count = 0;
};

/// The values of C, whose structure is that of M.
struct MaskedOutput {
  MaskView mask;
  float* values;
  float alpha;

  __device__ float scaled(float sum) const { return alpha == 1 ? sum : alpha * sum; }
};

template <int kLanes>
__global__ void __launch_bounds__(kRowThreads)
    plan_masked_rows(OperandsView operands, MaskView mask, Task* tasks, RowSlicing slicing,
                     TaskSummary* summary) {
  __shared__ std::uint32_t counts[kClasses];
  __shared__ std::uint32_t slices;
  if (threadIdx.x == 0) slices = 0;
  clear_counts(counts);
  for_rows_of_warp<kLanes>(
      operands.rows, operands.a_offsets,
      [&]<int kOfRow>(std::int32_t row, std::int32_t begin, std::int32_t length, std::int32_t) {
        const MaskRow cells = row < 0 ? MaskRow{} : mask.row(row);
        const RowFacts facts = facts_of_row<kOfRow>(operands, begin, cells.cells == 0 ? 0 : length);
        if (row < 0 || lane_of_warp() % kOfRow != 0) return;
        const RowPlan plan = plan_masked_row(row, facts, cells, operands.many);
        tasks[row] = plan.whole;
        slicing.counts[row] = plan.slices;
        slicing.words[row] = plan.slice_words;
        if (plan.slices == 1) {
          atomicAdd(counts + masked_class(plan.whole, cells.cells), 1u);
          return;
        }
        const auto others = static_cast<std::uint32_t>(plan.slices - 1);
        atomicAdd(&slices, others);
        const auto class_of_slice = [&](int slice) {
          return masked_class(slice_of(plan.whole, plan.slice_words, slice), cells.cells);
        };
        // All slices but the last have the same class.
        atomicAdd(counts + class_of_slice(0), others);
        atomicAdd(counts + class_of_slice(plan.slices - 1), 1u);
      });
  __syncthreads();
  add_counts(counts, summary->sum_classes);
  if (threadIdx.x == 0 && slices > 0)
    atomicAdd(&summary->tasks, static_cast<unsigned long long>(slices));
}

struct MaskedClassOf {
  MaskView mask;

  __device__ int operator()(const Task& task, int) const {
    return masked_class(task, mask.offsets[task.row + 1] - mask.offsets[task.row]);
  }
};

/// Marks the columns of M's cells.
template <class Group, class Bitmap>
__device__ void mark_cells(const MaskView& mask, const CellRange& cells, int* scratch,
                           Bitmap& bitmap) {
  const auto for_cells = [&](auto visit) {
    for (int i = Group::lane(); i < cells.count; i += Group::kLanes)
      visit(mask.cols[cells.first + i]);
    Group::sync();
  };
  if constexpr (Bitmap::kHasDirectory) {
    for_cells([&](std::int32_t col) { bitmap.mark_word(word_of(col)); });
    bitmap.open(scratch);
    Group::sync();
  }
  for_cells([&](std::int32_t col) { bitmap.mark(word_of(col), 1u << (col % kWordCols)); });
}

/// A product whose factor of B is read once its column is found among the cells.
struct MaskedProduct {
  std::int32_t col = -1, place = 0;  // of the nonzero of B
  float left = 0, right = 0;
};

template <class Group, class Bitmap>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    make_masked_sums(OperandsView operands, Batch batch, int bytes, MaskedOutput output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  const GroupTask<Group> mine(batch, bytes, shared);
  const CellRange cells(output.mask, mine.sorted, mine.task);
  if (cells.count == 0) return;  // for the whole group: no barrier of others follows
  Bitmap bitmap(mine.task, mine.bitmap);
  auto* sums = reinterpret_cast<float*>(mine.bitmap + bitmap.bytes());
  Group::sync();
  mark_cells<Group>(output.mask, cells, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, nullptr, nullptr);
  for (int i = Group::lane(); i < cells.count; i += Group::kLanes) sums[i] = 0;
  Group::sync();
  for_products<Group, SegmentKind::kNonzeros, true>(
      operands, mine.task, mine.staged, scratch, sums,
      [&](std::int32_t at, float value) {
        return at < 0 ? MaskedProduct{} : MaskedProduct{__ldg(operands.b_cols + at), at, value};
      },
      [&](MaskedProduct& product) {
        const int cell = product.col < 0 ? -1 : bitmap.find(product.col);
        if (cell >= 0) product.right = __ldg(operands.b_values + product.place);
        return cell;
      },
      [&](const MaskedProduct& product, int cell) {
        sums[cell] = fmaf(product.left, product.right, sums[cell]);
      });
  Group::sync();
  for (int i = Group::lane(); i < cells.count; i += Group::kLanes)
    output.values[cells.first + i] = output.scaled(sums[i]);
}

template <int kLanes>
__global__ void __launch_bounds__(kGroupThreads)
    make_small_masked_sums(OperandsView operands, Batch batch, MaskedOutput output) {
  const SortedTask sorted = batch.at(small_task_number<kLanes>());
  __shared__ __align__(16) std::int32_t cols[kGroupThreads];
  const SmallRow<kLanes> row(operands, sorted, cols + threadIdx.x / kLanes * kLanes);
  const CellRange cells(output.mask, sorted, batch.task(sorted));
  for (int i = row.lane(); i < cells.count; i += kLanes)
    output.values[cells.first + i] = output.scaled(0);
  __syncwarp();
  const std::int64_t end = cells.first + cells.count;
  row.add(operands, [&](int, std::int32_t col, float sum) {
    const std::int64_t cell = output.mask.first_from(cells.first, end, col);
    if (cell < end && output.mask.cols[cell] == col) output.values[cell] = output.scaled(sum);
  });
}

/// The kernels that make sums under a mask, for RowTasks::launch_ranked().
struct MaskedKernels {
  template <class Group, class Bitmap>
  static auto group() {
    return make_masked_sums<Group, Bitmap>;
  }
  template <int kLanes>
  static auto small() {
    return make_small_masked_sums<kLanes>;
  }
};

/// Products under a mask. With `reuse`, a product keeps its tasks for further products with other
/// values.
class MaskedRowProduct final : public GpuSparseProduct {
 public:
  MaskedRowProduct(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask, bool reuse)
      : reuse_(reuse), operands_(a, b), mask_(mask) {}

  void multiply(float alpha, ProductRun& run) override {
    run.stage("analysis");
    RunBlock block;
    const SparseResult::Places places_of_c(block, mask_.rows, mask_.nnz);
    RowTasks::Workspace work(run, operands_.view(), std::move(block), false);
    c_ = SparseResult::in_block(std::move(work.block), places_of_c, mask_.rows, mask_.cols,
                                mask_.nnz);
    c_.take_structure(mask_, run.stream());
    const MaskView mask = view();
    const auto plan = [&]<int kLanes>(unsigned grid, const RowTasks::Workspace& of) {
      plan_masked_rows<kLanes><<<grid, kRowThreads, 0, run.stream()>>>(
          of.operands, mask, of.tasks.data(), of.slicing, of.summary);
    };
    tasks_.plan_ranked(work, plan, MaskedClassOf{mask}, run);
    run.stage("sums");
    sum(work, alpha, run.stream());
    if (reuse_) kept_.emplace(std::move(work));
  }

  bool keeps_structure() const override { return reuse_; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(reuse_, "row_spgemm needs reuse = true to repeat a product");
    require(kept_.has_value(), "row_spgemm has no product to repeat: multiply first");
    run.stage("sums");
    sum(*kept_, alpha, run.stream());
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    operands_.set_values(a, b);
  }

  void release() override {
    kept_.reset();
    c_ = {};
  }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  MaskView view() const { return {mask_.row_offsets.data(), mask_.col_indices.data()}; }

  void sum(const RowTasks::Workspace& work, float alpha, cudaStream_t stream) {
    tasks_.launch_ranked<MaskedKernels>(work, MaskedOutput{view(), c_.values.data(), alpha},
                                        stream);
  }

  bool reuse_;
  Operands<float> operands_;
  DeviceMask mask_;
  RowTasks tasks_;
  SparseResult c_;
  std::optional<RowTasks::Workspace> kept_;  // its block is C's
};

}  // namespace tessera::row_spgemm
