// The trace of row_spgemm's small tasks, of which a warp takes several:
// kernels/spgemm/row/small.cuh.

#include <algorithm>
#include <map>
#include <ranges>

#include "kernels/spgemm/row/counted.hpp"
#include "kernels/spgemm/row/launch_traces.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

class SmallTrace final : public LaunchTrace {
 public:
  SmallTrace(AnalysisPtr product, ClassLaunch launch, const DeviceArrays& at)
      : product_(std::move(product)),
        launch_(std::move(launch)),
        shape_{launch_.threads(), launch_.shape().lanes},
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::int64_t thread = shape_.thread_of(thread_block, std::int64_t{kWarpLanes} * warp);
    const std::int64_t first = shape_.item_of(thread), last = shape_.item_of(thread + kWarpLanes);
    const Range tasks{first, std::clamp<std::int64_t>(std::ssize(launch_.tasks), first, last)};
    const std::vector<std::int64_t> nonzeros = this->nonzeros(tasks);
    trace.issue(Count::kBegin);
    trace.pause(kSpecialRegisterCycles);
    const bool counts_jointly = launch_.is_joint && !launch_.is_sum;
    if (counts_jointly) trace.barrier();
    if (!tasks.is_empty()) load_rows(tasks, nonzeros, trace);
    find_products(trace);
    load_products(nonzeros, at_.b_cols, trace);
    find_same(trace);
    if (launch_.is_sum)
      sum(tasks, nonzeros, trace);
    else
      store_lengths(tasks, trace);
    if (counts_jointly) {
      trace.barrier();
      report(warp, trace);
    }
    return false;
  }

 private:
  using Count = counted::SmallTasks;
  static constexpr int kBoard = 0, kProductBoard = 1;

  /// Numbers of tasks in the launch.
  struct Range {
    std::int64_t begin, end;

    bool is_empty() const { return begin == end; }
    auto numbers() const { return std::views::iota(begin, end); }
  };

  std::int64_t id(std::int64_t number) const {
    return launch_.tasks[static_cast<std::size_t>(number)];
  }
  const TaskWork& work(std::int64_t number) const {
    return product_->tasks[static_cast<std::size_t>(id(number))];
  }
  auto ids(const Range& tasks) const {
    return tasks.numbers() | std::views::transform([this](std::int64_t i) { return id(i); });
  }

  /// All nonzeros of A of the tasks, and their rows of B.
  std::vector<std::int64_t> nonzeros(const Range& tasks) const {
    std::vector<std::int64_t> found;
    for (const std::int64_t i : tasks.numbers()) {
      const Task& of = work(i).task;
      for (std::int64_t k = of.begin; k < of.begin + of.nonzeros; ++k) found.push_back(k);
    }
    return found;
  }
  auto rows_of_b(const std::vector<std::int64_t>& nonzeros) const {
    return nonzeros | std::views::transform([this](std::int64_t k) -> std::int64_t {
             return product_->a.col_indices[k];
           });
  }

  void load_rows(const Range& tasks, const std::vector<std::int64_t>& nonzeros,
                 WarpTrace& trace) const {
    load_run(kBoard, at_.sorted, launch_.first_sorted + tasks.begin, tasks.end - tasks.begin,
             trace);
    trace.wait(kBoard);
    trace.issue(Count::kRow);
    if (nonzeros.empty()) return;
    load_each(kBoard, at_.a_cols, nonzeros, trace);
    trace.wait(kBoard);
    load_each(kBoard, at_.rows_of_b, rows_of_b(nonzeros), trace, kFieldsOfRow);
    trace.wait(kBoard);
  }

  /// Finds each lane's product: a prefix sum, and the n-th of the rows of B.
  void find_products(WarpTrace& trace) const {
    trace.issue(Count::kPlace);
    for (int step = 1; step < shape_.lanes; step *= 2) {
      trace.shared(1);
      trace.issue(Count::kFindBit);
    }
    for (int shuffle = 0; shuffle < 3; ++shuffle) trace.shared(1);
  }

  /// Loads the elements of B of all products.
  template <class T>
  void load_products(const std::vector<std::int64_t>& nonzeros, const ArrayAt<T>& array,
                     WarpTrace& trace) const {
    bool has_loaded = false;
    for (const std::int64_t row : rows_of_b(nonzeros)) {
      const std::int64_t begin = product_->b.row_offsets[row];
      const std::int64_t length = product_->b.row_offsets[row + 1] - begin;
      if (length == 0) continue;
      if (!has_loaded) trace.load(kProductBoard);
      has_loaded = true;
      touch_run(array, begin, length, trace);
    }
    if (has_loaded) trace.wait(kProductBoard);
  }

  /// Compares a lane's column with those of all lanes of its row.
  void compare(WarpTrace& trace) const {
    trace.issue(2 * shape_.lanes);
    for (int i = 0; i < shape_.lanes; i += 4) trace.shared(1);
  }
  void find_same(WarpTrace& trace) const {
    trace.shared(1);
    trace.issue(Count::kCompare);
    compare(trace);
  }

  void store_lengths(const Range& tasks, WarpTrace& trace) const {
    trace.issue(Count::kStore / 2);
    if (tasks.is_empty()) return;
    store_each(at_.lengths, ids(tasks), trace);
    if (product_->is_tiled()) add_to_tiles(ids(tasks), at_, trace);
  }

  /// The number of times that lanes fetch a product of their column: the most of a column, less
  /// one.
  int turns(const Range& tasks) const {
    int most = 0;
    for (const std::int64_t i : tasks.numbers()) {
      std::map<std::int32_t, int> same;
      const std::vector<std::int64_t> of_task = nonzeros({i, i + 1});
      for (const std::int64_t row : rows_of_b(of_task))
        for (const std::int32_t col : product_->b.row_cols(row)) most = std::max(most, same[col]++);
    }
    return most;
  }

  void sum(const Range& tasks, const std::vector<std::int64_t>& nonzeros, WarpTrace& trace) const {
    if (!tasks.is_empty()) {
      load_each(kBoard, at_.offsets, ids(tasks), trace);
      if (!nonzeros.empty()) load_each(kBoard, at_.a_values, nonzeros, trace);
      trace.wait(kBoard);
      load_products(nonzeros, at_.b_values, trace);
    }
    trace.issue(Count::kSum);
    compare(trace);
    const int count = turns(tasks);
    for (int turn = 0; turn < count; ++turn) {
      trace.issue(Count::kTurn);
      for (int shuffle = 0; shuffle < 2; ++shuffle) trace.shared(1);
    }
    trace.issue(Count::kStore);
    store(tasks, at_.c_cols, trace);
    store(tasks, at_.c_values, trace);
  }

  /// Stores the elements of C of all tasks.
  template <class T>
  void store(const Range& tasks, const ArrayAt<T>& array, WarpTrace& trace) const {
    bool has_stored = false;
    for (const std::int64_t i : tasks.numbers()) {
      if (work(i).columns == 0) continue;
      if (!has_stored) trace.store();
      has_stored = true;
      touch_run(array, product_->offsets[static_cast<std::size_t>(id(i))], work(i).columns, trace);
    }
  }

  AnalysisPtr product_;
  ClassLaunch launch_;
  LaunchShape shape_;
  DeviceArrays at_;
};

}  // namespace

ClassTrace trace_small(AnalysisPtr product, ClassLaunch launch, const DeviceArrays& at) {
  const auto blocks = static_cast<std::size_t>(launch.thread_blocks());
  const std::int64_t barriers =
      launch.is_joint && !launch.is_sum ? kJointBarriers * launch.threads() / kWarpLanes : 0;
  return {std::make_shared<SmallTrace>(std::move(product), std::move(launch), at),
          std::vector<std::int64_t>(blocks, barriers)};
}

}  // namespace tessera::row_spgemm::tracing
