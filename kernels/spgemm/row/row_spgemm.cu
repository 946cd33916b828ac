// The device half of row_spgemm: it makes the sums of the tasks of kernels/spgemm/row/plan.cuh. See
// kernels/spgemm/row/row_spgemm.hpp.

#include <climits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/gather.cuh"
#include "kernels/spgemm/row/masked.hpp"
#include "kernels/spgemm/row/operands.cuh"
#include "kernels/spgemm/row/plan.cuh"
#include "kernels/spgemm/row/portion_sums.cuh"
#include "kernels/spgemm/row/positions.cuh"
#include "kernels/spgemm/row/slices.cuh"

namespace tessera {
namespace {

using namespace row_spgemm;

/// The sums of tasks in C, as kernels of the second phase write them.
template <class Value_>
struct SumOutput {
  using Value = Value_;

  const std::int64_t* offsets;  // [tasks + 1]
  std::int32_t* cols;           // nullptr: C has its columns already
  Value* values;
  float alpha;

  __device__ std::int32_t* cols_from(std::int64_t first) const {
    return cols == nullptr ? nullptr : cols + first;
  }
  __device__ Value scaled(Value sum) const { return alpha == 1 ? sum : alpha * sum; }
};

/// Makes the sums of a group's task.
template <class Group, class Bitmap, class Value>
__device__ void sum_task(const OperandsOf<Value>& operands, const Batch& batch, int bytes,
                         GroupPlace place, unsigned char* shared, int* scratch,
                         const SumOutput<Value>& output) {
  // Plain variables: in a structure, the compiler orders the loads so that the sums take 7 %
  // longer.
  const GroupLaunch launch = group_launch<Group>(bytes);
  const SortedTask sorted = batch.at(place.task);
  const Task task = batch.task(sorted);
  const std::int64_t first = sorted.id < 0 ? 0 : output.offsets[sorted.id];
  // A task without words has no sums; the row may be a hub, which has.
  const int count = task.words == 0 ? 0 : static_cast<int>(output.offsets[sorted.id + 1] - first);
  unsigned char* memory = shared + place.group * launch.group_bytes();
  auto* staged = reinterpret_cast<SegmentOf<Value>*>(memory);
  unsigned char* of_bitmap = memory + launch.segment_bytes();
  Bitmap bitmap(task, of_bitmap);
  auto* sums = reinterpret_cast<Value*>(
      of_bitmap + place_of_sums(bitmap.bytes(), static_cast<int>(sizeof(Value))));
  Group::sync();
  mark_columns<Group>(operands, task, staged, scratch, bitmap);
  // Whether the sums write columns of C, and whether they lie at the places of their columns.
  bool writes_cols = false, at_columns = false;
  if constexpr (Group::kIsBlock && !Bitmap::kHasDirectory) {
    writes_cols = writes_cols_with_sums(task, count);
    at_columns = !writes_cols && sums_lie_at_columns(task, count, static_cast<int>(sizeof(Value)));
  }
  std::int32_t* const cols = output.cols_from(first);
  rank_columns<Group>(bitmap, scratch, reinterpret_cast<std::int32_t*>(sums),
                      writes_cols ? nullptr : cols);
  const int places = at_columns ? task.words * kWordCols : count;
  for (int i = Group::lane(); i < places; i += Group::kLanes) sums[i] = 0;
  Group::sync();
  if constexpr (Group::kIsBlock && !Bitmap::kHasDirectory) {
    if (at_columns) {
      const std::int32_t first_col = task.first_word * kWordCols;
      add_products<Group>(
          operands, task, staged, scratch, [&](std::int32_t col) { return col - first_col; }, sums);
      for (int i = Group::lane(); i < places; i += Group::kLanes) {
        const Slot<true> slot = bitmap.slots()[i / kWordCols];
        if ((slot.marks >> (i % kWordCols) & 1) != 0)
          output.values[first + rank_in(slot, i)] = output.scaled(sums[i]);
      }
      return;
    }
  }
  add_products<Group>(
      operands, task, staged, scratch, [&](std::int32_t col) { return bitmap.rank(col); }, sums,
      writes_cols ? cols : nullptr);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    output.values[first + i] = output.scaled(sums[i]);
}

template <class Group, class Bitmap, class Value>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    make_sums(OperandsOf<Value> operands, Batch batch, int bytes, SumOutput<Value> output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  sum_task<Group, Bitmap>(operands, batch, bytes, place_in_class<Group>(), shared, scratch, output);
}

/// Makes the sums of a small task. `cols` [lanes] is shared memory of the row.
template <int kLanes, class Value>
__device__ void sum_small_task(const OperandsOf<Value>& operands, const Batch& batch, int number,
                               std::int32_t* cols, const SumOutput<Value>& output) {
  const SortedTask task = batch.at(number);
  const SmallRow<kLanes> row(operands, task, cols);
  const std::int64_t first = task.id < 0 ? 0 : output.offsets[task.id];
  row.add(operands, [&](int place, std::int32_t col, Value sum) {
    if (output.cols != nullptr) output.cols[first + place] = col;
    output.values[first + place] = output.scaled(sum);
  });
}

template <int kLanes, class Value>
__global__ void __launch_bounds__(kGroupThreads)
    make_small_sums(OperandsOf<Value> operands, Batch batch, SumOutput<Value> output) {
  __shared__ __align__(16) std::int32_t cols[kGroupThreads];
  sum_small_task<kLanes>(operands, batch, small_task_number<kLanes>(),
                         cols + threadIdx.x / kLanes * kLanes, output);
}

/// Makes the sums of all tasks, and finds the places of rows.
template <class Value>
__global__ void __launch_bounds__(kJointThreads,
                                  std::is_same_v<Value, float> ? kJointBlocksOfSm : 3)
    make_all_sums(const __grid_constant__ JointLaunch launch, OperandsOf<Value> operands, Batch all,
                  SumOutput<Value> output, RowPlaces places) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[kJointThreads / kWarpLanes];
  const int block_of_places = static_cast<int>(blockIdx.x) - launch.blocks;
  if (block_of_places >= 0) return places.find(block_of_places);
  visit_joint_class<true>(
      launch, all,
      [&]<class Group, class Bitmap>(const Batch& batch, int bytes, GroupPlace place) {
        sum_task<Group, Bitmap>(operands, batch, bytes, place, shared, scratch, output);
      },
      [&]<int kLanes>(const Batch& batch, int number) {
        sum_small_task<kLanes>(
            operands, batch, number,
            reinterpret_cast<std::int32_t*>(shared) + threadIdx.x / kLanes * kLanes, output);
      });
}

/// The kernels that make sums, for RowTasks::launch_ranked().
template <class Value>
struct SumKernels {
  template <class Group, class Bitmap>
  static auto group() {
    return make_sums<Group, Bitmap, Value>;
  }
  template <int kLanes>
  static auto small() {
    return make_small_sums<kLanes, Value>;
  }
  static auto all() { return make_all_sums<Value>; }
};

/// The kernels that make sums from positions.
struct PositionKernels {
  template <class Group, class Bitmap>
  static auto group() {
    return add_positioned<Group, SumOutput<float>>;
  }
  template <int kLanes>
  static auto small() {
    return make_small_sums<kLanes, float>;
  }
};

template <class Value>
class RowProduct final : public GpuSparseProduct {
  static constexpr bool kIsWide = !std::is_same_v<Value, float>;
  using Result = SparseResultOf<Value>;

 public:
  RowProduct(const CsrMatrix& a, const CsrMatrix& b, const RowSpgemmOptions& options)
      : options_(options), operands_(a, b), rows_(a.rows), cols_(b.cols) {
    // Lists of products are made of tasks, limited memory has no room for sorting, and sorted
    // products are in FP32.
    operands_.view().many.takes_hubs = !options.lists() && options.workspace_limit == 0 && !kIsWide;
  }

  void multiply(float alpha, ProductRun& run) override {
    if (options_.workspace_limit > 0) return multiply_slices(alpha, run);
    run.stage("analysis");
    // With few products, one allocation is faster than two: C's block has room for one nonzero per
    // product, and for the workspace.
    RunBlock block;
    std::optional<typename Result::Places> places_of_c;
    const bool is_plain = run.source() == MemorySource::kMalloc;
    const bool counts = is_plain || options_.lists() || options_.positions();
    const std::int64_t products = counts ? count_products(run.stream()) : 0;
    if (is_plain && products <= spgemm::kMostProductsOfRoom)
      places_of_c.emplace(block, rows_, products);
    RowTasks::Workspace work(run, operands_.view(), std::move(block));
    tasks_.analyse(work, run);
    run.stage("counting");
    tasks_.count(work, run);
    if (!options_.lists()) run.stage("sums");
    const std::int64_t nonzeros = tasks_.sort_by_columns(work, run.stream());
    c_ = places_of_c ? Result::in_block(std::move(work.block), *places_of_c, rows_, cols_, nonzeros)
                     : Result::in_one_block(run, rows_, cols_, nonzeros);
    const RowPlaces places = RowTasks::row_places(work, nonzeros, c_.row_offsets.data());
    if constexpr (!kIsWide)
      if (options_.lists()) {
        RowTasks::find_rows(places, run.stream());
        return sum_kept(work, products, nonzeros, alpha, run);
      }
    sum_tasks(work, output(work.offsets.data(), alpha), run.stream(), places);
    if constexpr (!kIsWide)
      if (options_.positions()) positions_.emplace(tasks_, work, products, run);
    if constexpr (!kIsWide)
      if (options_.portions()) keep_portions(nonzeros, run);
    if (options_.reuse && !portions_) kept_.emplace(std::move(work));
  }

  bool keeps_structure() const override { return options_.reuse; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(options_.reuse, "row_spgemm needs reuse = true to repeat a product");
    require(kept_ || lists_ || portions_, "row_spgemm has no product to repeat: multiply first");
    if constexpr (!kIsWide) {
      if (lists_) return sum_lists(alpha, run);
      if (portions_) return sum_portions(alpha, run);
    }
    run.stage("sums");
    SumOutput<Value> again = output(kept_->offsets.data(), alpha);
    again.cols = nullptr;
    if constexpr (!kIsWide)
      if (positions_) return sum_positions(again, run.stream());
    sum_tasks(*kept_, again, run.stream());
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    if constexpr (kIsWide) {
      const std::vector<double> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
      operands_.set_values(wide_a, wide_b);
    } else {
      operands_.set_values(a, b);
    }
  }
  void set_wide_values(std::span<const double> a, std::span<const double> b) override {
    if constexpr (kIsWide)
      operands_.set_values(a, b);
    else
      GpuSparseProduct::set_wide_values(a, b);
  }

  void release() override {
    positions_.reset();
    kept_.reset();
    lists_.reset();
    portions_.reset();
    c_ = {};
  }
  const SparseResult* result() const override {
    if constexpr (kIsWide)
      return nullptr;
    else
      return &c_;
  }
  CsrMatrix download() const override {
    if constexpr (kIsWide)
      return rounded(c_.download());
    else
      return c_.download();
  }
  WideCsrMatrix download_wide() const override {
    if constexpr (kIsWide)
      return c_.download();
    else
      return GpuSparseProduct::download_wide();
  }

 private:
  /// The number of all products. Waits for the device.
  std::int64_t count_products(cudaStream_t stream) {
    unsigned long long products = 0;
    cuda_check(cudaMemsetAsync(counter_.data(), 0, sizeof(products), stream), "clearing");
    RowTasks::add_products(operands_.view(), counter_.data(), stream);
    cuda_check(cudaMemcpyAsync(&products, counter_.data(), sizeof(products), cudaMemcpyDeviceToHost,
                               stream),
               "reading the count");
    cuda_check(cudaStreamSynchronize(stream), "counting products");
    return static_cast<std::int64_t>(products);
  }

  void multiply_slices(float alpha, ProductRun& run) {
    Result c;
    c.rows = rows_;
    c.cols = cols_;
    c.row_offsets = RunArray<std::int64_t>(run, std::int64_t{rows_} + 1);
    if (rows_ == 0)
      cuda_check(cudaMemsetAsync(c.row_offsets.data(), 0, sizeof(std::int64_t), run.stream()),
                 "clearing");
    if (rows_ > 0) {
      RowSlices slices(tasks_, operands_.view(), options_.workspace_limit, run);
      const std::int64_t nonzeros = slices.count(c.row_offsets.data());
      take_result(nonzeros, (sizeof(std::int32_t) + sizeof(Value)) * nonzeros, [&] {
        c.col_indices = RunArray<std::int32_t>(run, nonzeros);
        c.values = RunArray<Value>(run, nonzeros);
      });
      slices.sum(c.row_offsets.data(), [&](const RowTasks::Workspace& work,
                                           const std::int64_t* offsets, std::int64_t first_cell) {
        run.stage("sums");
        launch_sums(
            work, {offsets, c.col_indices.data() + first_cell, c.values.data() + first_cell, alpha},
            run.stream());
      });
    }
    c_ = std::move(c);
  }

  SumOutput<Value> output(const std::int64_t* offsets, float alpha) const {
    return {offsets, c_.col_indices.data(), c_.values.data(), alpha};
  }

  void launch_sums(const RowTasks::Workspace& work, const SumOutput<Value>& output,
                   cudaStream_t stream, const RowPlaces& places = {}) {
    tasks_.launch_ranked<SumKernels<Value>>(work, operands_.values_of(work.operands), output,
                                            stream, places);
  }

  void sum_tasks(RowTasks::Workspace& work, const SumOutput<Value>& output, cudaStream_t stream,
                 const RowPlaces& places = {}) {
    launch_sums(work, output, stream, places);
    if constexpr (!kIsWide) RowTasks::launch_hubs(work, output, stream);
  }

  void sum_positions(const SumOutput<Value>& output, cudaStream_t stream) {
    const PositionedOutput<SumOutput<Value>> positioned{positions_->view(), output};
    tasks_.launch_ranked<PositionKernels>(*kept_, positioned, stream);
    RowTasks::launch_hubs(*kept_, output, stream);
  }

  /// Keeps lists or portions, and makes the sums from them.
  void sum_kept(const RowTasks::Workspace& work, std::int64_t products, std::int64_t nonzeros,
                float alpha, ProductRun& run) {
    std::optional<ListLengths> lengths(std::in_place, tasks_, work, products, c_.row_offsets.data(),
                                       c_.col_indices.data(), nonzeros, run);
    if (options_.keeps == Keeps::kProducts && lengths->favour_portions()) {
      lengths.reset();
      keep_portions(nonzeros, run);
      return sum_portions(alpha, run);
    }
    lists_.emplace(tasks_, work, *lengths, run);
    sum_lists(alpha, run);
  }

  void keep_portions(std::int64_t nonzeros, ProductRun& run) {
    portions_.emplace(operands_.view(), c_.row_offsets.data(), c_.col_indices.data(), nonzeros,
                      run);
  }

  void sum_lists(float alpha, ProductRun& run) const {
    run.stage("sums");
    lists_->sum(gather_values(alpha), run.stream());
  }

  void sum_portions(float alpha, ProductRun& run) const {
    run.stage("sums");
    portions_->sum(gather_values(alpha), run.stream());
  }

  GatherValues gather_values(float alpha) const {
    return {operands_.view().a_values, operands_.view().b_values, c_.values.data(), alpha};
  }

  RowSpgemmOptions options_;
  Operands<Value> operands_;
  int rows_, cols_;
  RowTasks tasks_;
  DeviceArray<unsigned long long> counter_{1};
  Result c_;
  // Kept from the last product: its tasks, whose block may hold C, alone or with positions, its
  // lists, or its portions.
  std::optional<RowTasks::Workspace> kept_;
  std::optional<ProductPositions> positions_;
  std::optional<ProductLists> lists_;
  std::optional<ProductPortions> portions_;
};

class GpuRowSpgemm final : public GpuSpgemm {
 public:
  explicit GpuRowSpgemm(RowSpgemmOptions options) : options_(options) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require_operands(a, b);
    if (options_.is_wide) return std::make_unique<RowProduct<double>>(a, b, options_);
    return std::make_unique<RowProduct<float>>(a, b, options_);
  }

  std::unique_ptr<GpuSparseProduct> upload_masked(const CsrMatrix& a, const CsrMatrix& b,
                                                  const CsrMatrix& mask) const override {
    require_operands(a, b);
    require_mask(a, b, mask);
    require<Unsupported>(
        !options_.is_wide && !options_.keeps_more() && options_.workspace_limit == 0,
        "under a mask row_spgemm keeps structure alone, and has neither FP64 nor "
        "a workspace_limit");
    return row_spgemm::upload_masked(a, b, mask, options_.reuse);
  }

 private:
  void require_operands(const CsrMatrix& a, const CsrMatrix& b) const {
    require<Unsupported>(!options_.is_wide || !options_.keeps_more(),
                         "row_spgemm keeps products in FP32 alone, in whichever form");
    require<Unsupported>(!options_.reuse || options_.workspace_limit == 0,
                         "row_spgemm cannot have both reuse and a workspace_limit: reuse keeps the "
                         "tasks of all rows");
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    for (const CsrMatrix* matrix : {&a, &b})
      require<Unsupported>(matrix->nnz() <= INT_MAX,
                           "row_spgemm takes at most {} nonzeros per operand; there are {}",
                           INT_MAX, matrix->nnz());
  }

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
