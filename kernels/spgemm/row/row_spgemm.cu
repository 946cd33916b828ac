// Device half of row_spgemm: sums for the tasks of kernels/spgemm/row/plan.cuh. See
// kernels/spgemm/row/row_spgemm.hpp.

#include <climits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/gather.cuh"
#include "kernels/spgemm/row/plan.cuh"
#include "kernels/spgemm/row/slices.cuh"

namespace tessera {
namespace {

using namespace row_spgemm;

/// Where a task's part of C is.
struct Output {
  const std::int64_t* offsets;  // [tasks + 1]
  std::int32_t* cols;           // nullptr where they are written
  float* values;
  float alpha;

  __device__ std::int32_t* cols_from(std::int64_t first) const {
    return cols == nullptr ? nullptr : cols + first;
  }
  __device__ float scaled(float sum) const { return alpha == 1 ? sum : alpha * sum; }
};

template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    make_sums(View view, Batch batch, int bytes, Output output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const SortedTask sorted = batch.at(number);
  const Task task = batch.task(sorted);
  const std::int64_t first = sorted.id < 0 ? 0 : output.offsets[sorted.id];
  const int count = sorted.id < 0 ? 0 : static_cast<int>(output.offsets[sorted.id + 1] - first);

  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  unsigned char* of_bitmap = memory + Group::kLanes * sizeof(Segment);
  Bitmap bitmap(task, of_bitmap);
  auto* sums = reinterpret_cast<float*>(of_bitmap + bitmap.bytes());
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, reinterpret_cast<std::int32_t*>(sums),
                      output.cols_from(first));
  for (int i = Group::lane(); i < count; i += Group::kLanes) sums[i] = 0;
  Group::sync();
  add_products<Group>(view, task, staged, scratch, bitmap, sums);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    output.values[first + i] = output.scaled(sums[i]);
}

template <int kLanes>
__global__ void __launch_bounds__(kThreadsOfGroups)
    make_small_sums(View view, Batch batch, Output output) {
  const int number = static_cast<int>(blockIdx.x * kThreadsOfGroups + threadIdx.x) / kLanes;
  const SortedTask task = batch.at(number);
  __shared__ __align__(16) std::int32_t cols[kThreadsOfGroups];
  const SmallRow<kLanes> row(view, task, cols + threadIdx.x / kLanes * kLanes);
  const std::int64_t first = task.id < 0 ? 0 : output.offsets[task.id];
  row.add(view, [&](int place, std::int32_t col, float sum) {
    if (output.cols != nullptr) output.cols[first + place] = col;
    output.values[first + place] = output.scaled(sum);
  });
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
  RowProduct(const CsrMatrix& a, const CsrMatrix& b, const RowSpgemmOptions& choices)
      : choices_(choices), a_(a), rows_(a.rows), cols_(b.cols) {
    if (&a != &b) b_.emplace(b);
    const NarrowCsr& right = b_ ? *b_ : a_;
    view_ = {.rows = a.rows,
             .rows_of_b_count = b.rows,
             .nonzeros_of_a = a.nnz(),
             .nonzeros_of_b = b.nnz(),
             .many = thresholds_for(a.nnz(), b.nnz(), b.rows),
             .a_offsets = a_.offsets.data(),
             .a_cols = a_.cols.data(),
             .a_values = a_.values.data(),
             .b_offsets = right.offsets.data(),
             .b_cols = right.cols.data(),
             .b_values = right.values.data(),
             .rows_of_b = nullptr,
             .ranges_of_b = nullptr,
             .words_of_b = nullptr};
  }

  void multiply(float alpha, ProductRun& run) override {
    if (choices_.workspace_limit > 0) return multiply_slices(alpha, run);
    run.stage("analysis");
    // One allocation in the place of two takes less time, if the products are few: C's block has
    // room for as many nonzeros, and for the work.
    RunBlock block;
    std::optional<SparseResult::Places> places;
    const bool is_plain = run.source() == MemorySource::kMalloc;
    const std::int64_t products = is_plain || choices_.lists() ? count_products(run.stream()) : 0;
    if (is_plain && products <= spgemm::kMostProductsOfRoom) places.emplace(block, rows_, products);
    RowTasks::Work work(run, view_, std::move(block));
    tasks_.analyse(work, run);
    run.stage("counting");
    tasks_.count(work, run);
    if (!choices_.lists()) run.stage("sums");
    const std::int64_t nonzeros = tasks_.sort_by_columns(work, run.stream());
    c_ = places ? SparseResult::in_block(std::move(work.block), *places, rows_, cols_, nonzeros)
                : SparseResult::in_one_block(run, rows_, cols_, nonzeros);
    RowTasks::find_rows(work, nonzeros, c_.row_offsets.data(), run.stream());
    if (choices_.lists()) {
      lists_.emplace(tasks_, work, products, c_.row_offsets.data(), c_.col_indices.data(), nonzeros,
                     run);
      return sum_lists(alpha, run);
    }
    sum(work, output(work.offsets.data(), alpha), run.stream());
    if (choices_.reuse) kept_.emplace(std::move(work));
  }

  bool keeps_structure() const override { return choices_.reuse; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(choices_.reuse, "row_spgemm multiplies again with reuse = true alone");
    require(kept_ || lists_, "there is no product of row_spgemm's to repeat");
    if (lists_) return sum_lists(alpha, run);
    run.stage("sums");
    Output again = output(kept_->offsets.data(), alpha);
    again.cols = nullptr;
    sum(*kept_, again, run.stream());
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    require_values(a, b, a_.values.size(), b_ ? b_->values.size() : 0);
    a_.values.upload(a);
    if (b_) b_->values.upload(b);
  }

  void release() override {
    kept_.reset();
    lists_.reset();
    c_ = {};
  }
  CsrMatrix download() const override { return c_.download(); }

 private:
  /// Waits.
  std::int64_t count_products(cudaStream_t stream) {
    unsigned long long products = 0;
    cuda_check(cudaMemsetAsync(counter_.data(), 0, sizeof(products), stream), "clearing");
    RowTasks::add_products(view_, counter_.data(), stream);
    cuda_check(cudaMemcpyAsync(&products, counter_.data(), sizeof(products), cudaMemcpyDeviceToHost,
                               stream),
               "reading what was counted");
    cuda_check(cudaStreamSynchronize(stream), "counting products");
    return static_cast<std::int64_t>(products);
  }

  void multiply_slices(float alpha, ProductRun& run) {
    SparseResult c;
    c.rows = rows_;
    c.cols = cols_;
    c.row_offsets = RunArray<std::int64_t>(run, std::int64_t{rows_} + 1);
    if (rows_ == 0)
      cuda_check(cudaMemsetAsync(c.row_offsets.data(), 0, sizeof(std::int64_t), run.stream()),
                 "clearing");
    if (rows_ > 0) {
      RowSlices slices(tasks_, view_, choices_.workspace_limit, run);
      const std::int64_t nonzeros = slices.count(c.row_offsets.data());
      c.col_indices = RunArray<std::int32_t>(run, nonzeros);
      c.values = RunArray<float>(run, nonzeros);
      slices.sum(c.row_offsets.data(), [&](const RowTasks::Work& work, const std::int64_t* offsets,
                                           std::int64_t first_cell) {
        run.stage("sums");
        const Output output{offsets, c.col_indices.data() + first_cell,
                            c.values.data() + first_cell, alpha};
        sum(work, output, run.stream());
      });
    }
    c_ = std::move(c);
  }

  Output output(const std::int64_t* offsets, float alpha) const {
    return {offsets, c_.col_indices.data(), c_.values.data(), alpha};
  }

  void sum_lists(float alpha, ProductRun& run) const {
    run.stage("sums");
    lists_->sum({view_.a_values, view_.b_values, c_.values.data(), alpha}, run.stream());
  }

  void sum(const RowTasks::Work& work, const Output& output, cudaStream_t stream) {
    tasks_.with_ranks(
        work, stream,
        [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t of_class) {
          launch_groups<Group>(make_sums<Group, Bitmap>, batch.count, bytes, of_class, work.view,
                               batch, bytes, output);
        },
        [&]<int kLanes>(const Batch& batch, cudaStream_t of_class) {
          launch_small_groups<kLanes>(make_small_sums<kLanes>, batch.count, of_class, work.view,
                                      batch, output);
        });
  }

  RowSpgemmOptions choices_;
  NarrowCsr a_;
  std::optional<NarrowCsr> b_;  // where it is not A
  int rows_, cols_;
  View view_ = {};
  RowTasks tasks_;
  DeviceArray<unsigned long long> counter_{1};
  SparseResult c_;
  // Of the last product, the one or the other; a block of work may be C's.
  std::optional<RowTasks::Work> kept_;
  std::optional<ProductLists> lists_;
};

class GpuRowSpgemm final : public GpuSpgemm {
 public:
  explicit GpuRowSpgemm(RowSpgemmOptions choices) : choices_(choices) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require<Unsupported>(!choices_.reuse || choices_.workspace_limit == 0,
                         "row_spgemm's reuse keeps the tasks of all rows: with a workspace_limit "
                         "there is memory for those of some");
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    for (const CsrMatrix* matrix : {&a, &b})
      require<Unsupported>(matrix->nnz() <= INT_MAX,
                           "{} nonzeros of an operand are more than row_spgemm counts",
                           matrix->nnz());
    return std::make_unique<RowProduct>(a, b, choices_);
  }

 private:
  RowSpgemmOptions choices_;
};

const Register<GpuSpgemm> entry{{
    .name = "row_spgemm",
    .summary = "device half of row_spgemm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuRowSpgemm>(RowSpgemmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
