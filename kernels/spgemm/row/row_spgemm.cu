// The device half of row_spgemm: it makes the sums of the tasks of kernels/spgemm/row/plan.cuh. See
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

/// The sums of tasks in C, as kernels of the second phase write them.
struct SumOutput {
  const std::int64_t* offsets;  // [tasks + 1]
  std::int32_t* cols;           // nullptr: C has its columns already
  float* values;
  float alpha;

  __device__ std::int32_t* cols_from(std::int64_t first) const {
    return cols == nullptr ? nullptr : cols + first;
  }
  __device__ float scaled(float sum) const { return alpha == 1 ? sum : alpha * sum; }
};

template <class Group, class Bitmap>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    make_sums(OperandsView operands, Batch batch, int bytes, SumOutput output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  // Plain variables: in a structure, the compiler orders the loads so that the sums take 7 %
  // longer.
  const GroupLaunch launch = group_launch<Group>(bytes);
  const int group = launch.group_of(static_cast<int>(threadIdx.x));
  const SortedTask sorted = batch.at(launch.task_of(static_cast<int>(blockIdx.x), group));
  const Task task = batch.task(sorted);
  const std::int64_t first = sorted.id < 0 ? 0 : output.offsets[sorted.id];
  // A task without words has no sums; the row may be a hub, which has.
  const int count = task.words == 0 ? 0 : static_cast<int>(output.offsets[sorted.id + 1] - first);
  unsigned char* memory = shared + group * launch.group_bytes();
  auto* staged = reinterpret_cast<Segment*>(memory);
  unsigned char* of_bitmap = memory + launch.segment_bytes();
  Bitmap bitmap(task, of_bitmap);
  auto* sums = reinterpret_cast<float*>(of_bitmap + bitmap.bytes());
  Group::sync();
  mark_columns<Group>(operands, task, staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, reinterpret_cast<std::int32_t*>(sums),
                      output.cols_from(first));
  for (int i = Group::lane(); i < count; i += Group::kLanes) sums[i] = 0;
  Group::sync();
  add_products<Group>(operands, task, staged, scratch, bitmap, sums);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    output.values[first + i] = output.scaled(sums[i]);
}

template <int kLanes>
__global__ void __launch_bounds__(kGroupThreads)
    make_small_sums(OperandsView operands, Batch batch, SumOutput output) {
  const SortedTask task = batch.at(small_task_number<kLanes>());
  __shared__ __align__(16) std::int32_t cols[kGroupThreads];
  const SmallRow<kLanes> row(operands, task, cols + threadIdx.x / kLanes * kLanes);
  const std::int64_t first = task.id < 0 ? 0 : output.offsets[task.id];
  row.add(operands, [&](int place, std::int32_t col, float sum) {
    if (output.cols != nullptr) output.cols[first + place] = col;
    output.values[first + place] = output.scaled(sum);
  });
}

/// The kernels that make sums, for RowTasks::launch_ranked().
struct SumKernels {
  template <class Group, class Bitmap>
  static auto group() {
    return make_sums<Group, Bitmap>;
  }
  template <int kLanes>
  static auto small() {
    return make_small_sums<kLanes>;
  }
};

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
  RowProduct(const CsrMatrix& a, const CsrMatrix& b, const RowSpgemmOptions& options)
      : options_(options), a_(a), rows_(a.rows), cols_(b.cols) {
    if (&a != &b) b_.emplace(b);
    const NarrowCsr& right = b_ ? *b_ : a_;
    operands_ = {.rows = a.rows,
                 .rows_of_b_count = b.rows,
                 .cols = b.cols,
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
    // Lists of products are made of tasks, and limited memory has no room for sorting.
    operands_.many.takes_hubs = !options.lists() && options.workspace_limit == 0;
  }

  void multiply(float alpha, ProductRun& run) override {
    if (options_.workspace_limit > 0) return multiply_slices(alpha, run);
    run.stage("analysis");
    // With few products, one allocation is faster than two: C's block has room for one nonzero per
    // product, and for the workspace.
    RunBlock block;
    std::optional<SparseResult::Places> places_of_c;
    const bool is_plain = run.source() == MemorySource::kMalloc;
    const std::int64_t products = is_plain || options_.lists() ? count_products(run.stream()) : 0;
    if (is_plain && products <= spgemm::kMostProductsOfRoom)
      places_of_c.emplace(block, rows_, products);
    RowTasks::Workspace work(run, operands_, std::move(block));
    tasks_.analyse(work, run);
    run.stage("counting");
    tasks_.count(work, run);
    if (!options_.lists()) run.stage("sums");
    const std::int64_t nonzeros = tasks_.sort_by_columns(work, run.stream());
    c_ = places_of_c
             ? SparseResult::in_block(std::move(work.block), *places_of_c, rows_, cols_, nonzeros)
             : SparseResult::in_one_block(run, rows_, cols_, nonzeros);
    RowTasks::find_rows(work, nonzeros, c_.row_offsets.data(), run.stream());
    if (options_.lists()) {
      lists_.emplace(tasks_, work, products, c_.row_offsets.data(), c_.col_indices.data(), nonzeros,
                     run);
      return sum_lists(alpha, run);
    }
    sum_tasks(work, output(work.offsets.data(), alpha), run.stream());
    if (options_.reuse) kept_.emplace(std::move(work));
  }

  bool keeps_structure() const override { return options_.reuse; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(options_.reuse, "row_spgemm needs reuse = true to repeat a product");
    require(kept_ || lists_, "row_spgemm has no product to repeat: multiply first");
    if (lists_) return sum_lists(alpha, run);
    run.stage("sums");
    SumOutput again = output(kept_->offsets.data(), alpha);
    again.cols = nullptr;
    sum_tasks(*kept_, again, run.stream());
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
  /// The number of all products. Waits for the device.
  std::int64_t count_products(cudaStream_t stream) {
    unsigned long long products = 0;
    cuda_check(cudaMemsetAsync(counter_.data(), 0, sizeof(products), stream), "clearing");
    RowTasks::add_products(operands_, counter_.data(), stream);
    cuda_check(cudaMemcpyAsync(&products, counter_.data(), sizeof(products), cudaMemcpyDeviceToHost,
                               stream),
               "reading the count");
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
      RowSlices slices(tasks_, operands_, options_.workspace_limit, run);
      const std::int64_t nonzeros = slices.count(c.row_offsets.data());
      take_result(nonzeros, (sizeof(std::int32_t) + sizeof(float)) * nonzeros, [&] {
        c.col_indices = RunArray<std::int32_t>(run, nonzeros);
        c.values = RunArray<float>(run, nonzeros);
      });
      slices.sum(c.row_offsets.data(), [&](const RowTasks::Workspace& work,
                                           const std::int64_t* offsets, std::int64_t first_cell) {
        run.stage("sums");
        const SumOutput output{offsets, c.col_indices.data() + first_cell,
                               c.values.data() + first_cell, alpha};
        tasks_.launch_ranked<SumKernels>(work, output, run.stream());
      });
    }
    c_ = std::move(c);
  }

  SumOutput output(const std::int64_t* offsets, float alpha) const {
    return {offsets, c_.col_indices.data(), c_.values.data(), alpha};
  }

  void sum_tasks(RowTasks::Workspace& work, const SumOutput& output, cudaStream_t stream) {
    tasks_.launch_ranked<SumKernels>(work, output, stream);
    RowTasks::launch_hubs(work, output, stream);
  }

  void sum_lists(float alpha, ProductRun& run) const {
    run.stage("sums");
    lists_->sum({operands_.a_values, operands_.b_values, c_.values.data(), alpha}, run.stream());
  }

  RowSpgemmOptions options_;
  NarrowCsr a_;
  std::optional<NarrowCsr> b_;  // empty where B is A
  int rows_, cols_;
  OperandsView operands_ = {};
  RowTasks tasks_;
  DeviceArray<unsigned long long> counter_{1};
  SparseResult c_;
  // Kept from the last product: its tasks, whose block may hold C, or its lists.
  std::optional<RowTasks::Workspace> kept_;
  std::optional<ProductLists> lists_;
};

class GpuRowSpgemm final : public GpuSpgemm {
 public:
  explicit GpuRowSpgemm(RowSpgemmOptions options) : options_(options) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require<Unsupported>(!options_.reuse || options_.workspace_limit == 0,
                         "row_spgemm cannot have both reuse and a workspace_limit: reuse keeps the "
                         "tasks of all rows");
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    for (const CsrMatrix* matrix : {&a, &b})
      require<Unsupported>(matrix->nnz() <= INT_MAX,
                           "row_spgemm takes at most {} nonzeros per operand; there are {}",
                           INT_MAX, matrix->nnz());
    return std::make_unique<RowProduct>(a, b, options_);
  }

 private:
  RowSpgemmOptions options_;
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
