// The traces of the kernels of kernels/spgemm/row/tasks.cuh.

#include "kernels/spgemm/row/launch_traces.hpp"

#include <algorithm>
#include <functional>
#include <ranges>

#include "kernels/spgemm/row/counted.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

constexpr int kBoard = 0, kRowBoard = 1;
constexpr std::int64_t kTurnsOfPiece = 8;  // of a trace

/// Rows of a matrix that a warp takes side by side.
struct SideBySide {
  int lanes = 0;  // per row
  bool is_long = false;
  std::vector<std::int32_t> rows = {};
  std::int64_t most = 0;  // nonzeros of a row
};

/// A launch of for_rows_of_warp().
class RowsTrace : public LaunchTrace {
 public:
  RowsTrace(const CsrMatrix& matrix, const ArrayAt<std::int32_t>& offsets,
            const ArrayAt<std::int32_t>& cols)
      : matrix_(matrix),
        lanes_(lanes_for(matrix.nnz(), matrix.rows)),
        offsets_(offsets),
        cols_(cols) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t first =
        row_launch(lanes_).item_of(thread_block, std::int64_t{kWarpLanes} * warp);
    const auto all = rows_of(first);
    if (cursor.part == 0 && cursor.step == 0) begin(warp, first, trace);
    const SideBySide& rows = all[static_cast<std::size_t>(cursor.part)];
    if (cursor.step == 0) begin_rows(rows, trace);
    const std::int64_t turns = parts(rows.most, rows.lanes);
    const std::int64_t last = std::min(cursor.step + kTurnsOfPiece, turns);
    for (std::int64_t turn = cursor.step; turn < last; ++turn) take(rows, turn, trace);
    if (last < turns) {
      cursor.step = last;
      return true;
    }
    finish_rows(rows, trace);
    cursor = {.step = 0, .part = cursor.part + 1};
    if (cursor.part < std::ssize(all)) return true;
    finish(warp, trace);
    return false;
  }

 protected:
  /// The beginning of a warp, before its rows are known.
  virtual void begin_warp(int warp, WarpTrace& trace) const = 0;
  /// One nonzero per lane; the end of the rows side by side; the end of the warp.
  virtual void take(const SideBySide& rows, std::int64_t turn, WarpTrace& trace) const = 0;
  virtual void finish_rows(const SideBySide& rows, WarpTrace& trace) const = 0;
  virtual void finish(int warp, WarpTrace& trace) const = 0;

  std::int64_t length(std::int32_t row) const {
    return matrix_.row_offsets[row + 1] - matrix_.row_offsets[row];
  }
  /// Calls visit(row, first, count) for the nonzeros of each row that its lanes take in a turn.
  template <class Visit>
  void for_nonzeros(const SideBySide& rows, std::int64_t turn, Visit visit) const {
    for (const std::int32_t row : rows.rows) {
      const std::int64_t first = matrix_.row_offsets[row] + turn * rows.lanes;
      const std::int64_t count =
          std::min<std::int64_t>(rows.lanes, matrix_.row_offsets[row + 1] - first);
      if (count > 0) visit(row, first, count);
    }
  }
  void load_cols(const SideBySide& rows, std::int64_t turn, WarpTrace& trace) const {
    trace.load(kRowBoard);
    for_nonzeros(rows, turn, [&](std::int32_t, std::int64_t first, std::int64_t count) {
      touch_run(cols_, first, count, trace);
    });
    trace.wait(kRowBoard);
  }

  const CsrMatrix& matrix_;
  int lanes_;
  ArrayAt<std::int32_t> offsets_, cols_;

 private:
  std::vector<SideBySide> rows_of(std::int64_t first) const {
    std::vector<SideBySide> all{{.lanes = lanes_}};
    const std::int64_t end = std::min<std::int64_t>(first + kWarpLanes / lanes_, matrix_.rows);
    for (auto row = static_cast<std::int32_t>(first); row < end; ++row) {
      if (needs_warp(static_cast<std::int32_t>(length(row)), lanes_)) {
        all.push_back({.lanes = kWarpLanes, .is_long = true, .rows = {row}, .most = length(row)});
        continue;
      }
      all.front().rows.push_back(row);
      all.front().most = std::max(all.front().most, length(row));
    }
    return all;
  }

  void begin(int warp, std::int64_t first, WarpTrace& trace) const {
    begin_warp(warp, trace);
    const std::int64_t rows = std::min<std::int64_t>(kWarpLanes / lanes_, matrix_.rows - first);
    if (rows <= 0) return;
    for (int end = 0; end < 2; ++end) load_run(kBoard, offsets_, first + end, rows, trace);
    trace.wait(kBoard);
  }

  static void begin_rows(const SideBySide& rows, WarpTrace& trace) {
    using Count = counted::RowsOfWarp;
    trace.issue(rows.is_long ? Count::kWholeWarp : Count::side_by_side(rows.lanes));
    for (int i = 0; rows.is_long && i < Count::kShuffles; ++i) trace.shared(1);
  }
};

class DescriptionTrace final : public RowsTrace {
 public:
  DescriptionTrace(AnalysisPtr product, const DeviceArrays& at)
      : RowsTrace(product->b, at.b_offsets, at.b_cols), product_(std::move(product)), at_(at) {}

 private:
  using Count = counted::DescribeRowsOfB;

  void begin_warp(int, WarpTrace& trace) const override {
    trace.issue(Count::kBegin);
    trace.pause(kSpecialRegisterCycles);
  }
  void finish(int, WarpTrace&) const override {}

  void take(const SideBySide& rows, std::int64_t turn, WarpTrace& trace) const override {
    load_cols(rows, turn, trace);
    trace.issue(Count::kTurn);
    for (int step = 1; step < rows.lanes; step *= 2) {  // two shuffles, which do not wait
      trace.issue(Count::kStep);
      trace.shared(1);
    }
    for (int i = 0; i < Count::kShuffles; ++i) trace.shared(1);
    bool has_stored = false;
    for_nonzeros(rows, turn, [&](std::int32_t row, std::int64_t first, std::int64_t count) {
      if (!has_stored) trace.store();
      has_stored = true;
      const std::int64_t word = place_of_word(row, first);
      touch_run(at_.words_of_b, word, place_of_word(row, first + count - 1) - word + 1, trace);
    });
  }

  /// The place of a nonzero's word in words_of_b.
  std::int64_t place_of_word(std::int32_t row, std::int64_t at) const {
    const std::int32_t word = word_of(product_->b.col_indices[static_cast<std::size_t>(at)]);
    const auto words = product_->words.begin();
    const std::int64_t begin = product_->b.row_offsets[row];
    return std::lower_bound(words + begin, words + begin + product_->num_words[row], word) - words;
  }

  void finish_rows(const SideBySide& rows, WarpTrace& trace) const override {
    trace.issue(Count::kFinish);
    auto filled = rows.rows | std::views::filter([&](std::int32_t row) { return length(row) > 0; });
    if (!filled.empty()) {
      const auto& offsets = matrix_.row_offsets;
      load_each(kRowBoard, cols_,
                filled | std::views::transform([&](std::int32_t row) { return offsets[row]; }),
                trace);
      load_each(kRowBoard, cols_, filled | std::views::transform([&](std::int32_t row) {
                                    return offsets[row + 1] - 1;
                                  }),
                trace);
      trace.wait(kRowBoard);
    }
    if (rows.rows.empty()) return;
    trace.issue(Count::kStore);
    store_each(at_.rows_of_b, rows.rows, trace, kFieldsOfRow);
    store_each(at_.ranges_of_b, rows.rows, trace);
  }

  AnalysisPtr product_;
  DeviceArrays at_;
};

class AnalysisTrace final : public RowsTrace {
 public:
  AnalysisTrace(AnalysisPtr product, const DeviceArrays& at)
      : RowsTrace(product->a, at.a_offsets, at.a_cols), product_(std::move(product)), at_(at) {}

 private:
  using Count = counted::AnalyseRows;

  void begin_warp(int warp, WarpTrace& trace) const override {
    trace.issue(Count::kBegin);
    trace.pause(kSpecialRegisterCycles);
    if (warp == 0) trace.shared(1);
    trace.barrier();
  }

  void take(const SideBySide& rows, std::int64_t turn, WarpTrace& trace) const override {
    trace.issue(Count::kTurn);
    load_cols(rows, turn, trace);
    std::vector<std::int32_t> rows_of_b;
    for_nonzeros(rows, turn, [&](std::int32_t, std::int64_t first, std::int64_t count) {
      const auto cols = product_->a.col_indices.begin() + first;
      rows_of_b.insert(rows_of_b.end(), cols, cols + count);
    });
    load_each(kRowBoard, at_.rows_of_b, rows_of_b, trace, kTwoAndOne);
    load_each(kRowBoard, at_.ranges_of_b, rows_of_b, trace);
    trace.wait(kRowBoard);
  }

  void finish_rows(const SideBySide& rows, WarpTrace& trace) const override {
    for (int step = 1; step < rows.lanes; step *= 2)
      for (int i = 0; i < Count::kReduced; ++i) {
        trace.issue(Count::kReduce);
        trace.shared(1);
      }
    if (rows.rows.empty()) return;
    const auto first_task = [&](std::int32_t row) -> const Task& {
      return product_
          ->tasks[static_cast<std::size_t>(product_->first_tasks[static_cast<std::size_t>(row)])]
          .task;
    };
    // The paths of small, other and sliced rows diverge: the warp takes them one after another.
    const auto is_small = [&](std::int32_t row) {
      return first_task(row).storage == MarkStorage::kLanes;
    };
    const bool any_small = std::ranges::any_of(rows.rows, is_small);
    const bool any_other = !std::ranges::all_of(rows.rows, is_small);
    const bool any_sliced =
        std::ranges::any_of(rows.rows, [&](std::int32_t row) { return first_task(row).is_sliced; });
    constexpr int kClass = counted::class_instructions(false);
    trace.issue(Count::kStore + Count::kOfRow * static_cast<int>(rows.rows.size()) +
                (any_small ? Count::kSmallPlan : 0) + (any_other ? Count::kPlan + kClass : 0) +
                (any_sliced ? Count::kCut + kClass : 0));
    store_each(at_.whole_tasks, rows.rows, trace, kFieldsOfTask);
    store_each(at_.slice_counts, rows.rows, trace);
    store_each(at_.slice_words, rows.rows, trace);
    trace.shared(1);
    if (any_sliced) trace.shared(2);
  }

  void finish(int warp, WarpTrace& trace) const override {
    trace.issue(Count::kFinish);
    trace.barrier();
    if (warp == 0) add_counts(at_, trace);
    report(warp, trace);
  }

  AnalysisPtr product_;
  DeviceArrays at_;
};

/// A launch of one thread per row or task: describe(first of the warp, count, warp, trace).
class ThreadsTrace final : public LaunchTrace {
 public:
  using Describe = std::function<void(std::int64_t, std::int64_t, int, WarpTrace&)>;
  ThreadsTrace(std::int64_t all, Describe describe) : all_(all), describe_(std::move(describe)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::int64_t first = thread_each().item_of(thread_block, std::int64_t{kWarpLanes} * warp);
    trace.pause(kSpecialRegisterCycles);
    describe_(first, std::clamp<std::int64_t>(all_ - first, 0, kWarpLanes), warp, trace);
    return false;
  }

 private:
  std::int64_t all_;
  Describe describe_;
};

std::int64_t first_task(const ProductAnalysis& product, std::int64_t row) {
  return product.first_tasks[static_cast<std::size_t>(row)];
}

bool is_small(const ProductAnalysis& product, std::int64_t task) {
  return product.tasks[static_cast<std::size_t>(task)].task.storage == MarkStorage::kLanes;
}

/// sort_block(): each thread of a launch sorts a task.
class Sorting {
 public:
  Sorting(AnalysisPtr product, bool is_sum, std::vector<std::int64_t> places,
          const DeviceArrays& at)
      : product_(std::move(product)), is_sum_(is_sum), places_(std::move(places)), at_(at) {}

  void describe(std::int64_t first, std::int64_t count, int warp, WarpTrace& trace) const {
    using Count = counted::SortTasks;
    const auto tasks = std::views::iota(first, first + count);
    const bool all_small =
        std::ranges::all_of(tasks, [&](std::int64_t i) { return is_small(*product_, i); });
    trace.issue(Count::kAll);
    if (warp == 0) trace.shared(1);
    trace.barrier();
    if (count > 0) {
      load_each(kBoard, at_.tasks, tasks, trace, kPartsOfTask);
      if (is_sum_) load_run(kBoard, at_.lengths, first, count, trace);
      trace.wait(kBoard);
      if (!all_small) trace.issue(counted::class_instructions(is_sum_));
      trace.shared(1);
    }
    trace.barrier();
    if (warp == 0) {
      trace.issue(Count::kPlaces);
      add_counts(at_, trace);
    }
    trace.barrier();
    auto sorted_places =
        tasks |
        std::views::filter([&](std::int64_t i) { return !is_sum_ || !is_small(*product_, i); }) |
        std::views::transform([&](std::int64_t i) { return places_[static_cast<std::size_t>(i)]; });
    if (sorted_places.empty()) return;
    trace.shared(1);
    store_each(at_.sorted, sorted_places, trace, kTwoAndOne);
  }

 private:
  AnalysisPtr product_;
  bool is_sum_;
  std::vector<std::int64_t> places_;
  DeviceArrays at_;
};

}  // namespace

TracePtr trace_description(AnalysisPtr product, const DeviceArrays& at) {
  return std::make_shared<DescriptionTrace>(std::move(product), at);
}

TracePtr trace_analysis(AnalysisPtr product, const DeviceArrays& at) {
  return std::make_shared<AnalysisTrace>(std::move(product), at);
}

TracePtr trace_measure(AnalysisPtr product, const DeviceArrays& at) {
  const auto describe = [product, at](std::int64_t first, std::int64_t count, int,
                                      WarpTrace& trace) {
    trace.issue(counted::MeasureRowsOfB::kAll);
    if (count == 0) return;
    for (int end = 0; end < 2; ++end) load_run(kBoard, at.b_offsets, first + end, count, trace);
    trace.wait(kBoard);
    const auto& offsets = product->b.row_offsets;
    const auto rows = std::views::iota(first, first + count);
    auto filled = rows | std::views::filter(
                             [&](std::int64_t row) { return offsets[row] < offsets[row + 1]; });
    for (const bool is_last : {false, true}) {
      if (filled.empty()) break;
      load_each(kBoard, at.b_cols, filled | std::views::transform([&](std::int64_t row) {
                                     return is_last ? offsets[row + 1] - 1 : offsets[row];
                                   }),
                trace);
      trace.wait(kBoard);
    }
    store_each(at.rows_of_b, rows, trace, kTwoAndOne);
    store_run(at.ranges_of_b, first, count, trace);
  };
  return std::make_shared<ThreadsTrace>(product->b.rows, describe);
}

TracePtr trace_cut(AnalysisPtr product, const DeviceArrays& at) {
  const auto describe = [product, at](std::int64_t first, std::int64_t count, int,
                                      WarpTrace& trace) {
    using Count = counted::CutRows;
    trace.issue(Count::kRow);
    if (product->a.rows <= spgemm::kMostTiled) {
      trace.issue(Count::kPlace);
      for (int barrier = 0; barrier < 2; ++barrier) trace.barrier();
    }
    if (count == 0) return;
    for (int end = 0; end < 2; ++end) load_run(kBoard, at.slice_counts, first + end, count, trace);
    trace.wait(kBoard);
    // In each turn a lane copies a task of its row, if the row has as many.
    const auto tasks_of = [&](std::int64_t row) {
      return first_task(*product, row + 1) - first_task(*product, row);
    };
    const auto rows = std::views::iota(first, first + count);
    const std::int64_t turns = std::ranges::max(rows | std::views::transform(tasks_of));
    for (std::int64_t turn = 0; turn < turns; ++turn) {
      auto copied =
          rows | std::views::filter([&](std::int64_t row) { return turn < tasks_of(row); });
      trace.issue(turn == 0 ? Count::kFirstTask : Count::kTask);
      load_each(kBoard, at.whole_tasks, copied, trace, kPartsOfTask);
      trace.wait(kBoard);
      store_each(at.tasks, copied | std::views::transform([&](std::int64_t row) {
                             return first_task(*product, row) + turn;
                           }),
                 trace, kPartsOfTask);
    }
  };
  return std::make_shared<ThreadsTrace>(product->a.rows, describe);
}

TracePtr trace_sort(AnalysisPtr product, bool is_sum, std::vector<std::int64_t> places,
                    const DeviceArrays& at) {
  const std::int64_t tasks = std::ssize(product->tasks);
  const auto sorting = std::make_shared<Sorting>(std::move(product), is_sum, std::move(places), at);
  return std::make_shared<ThreadsTrace>(
      tasks, [sorting](std::int64_t first, std::int64_t count, int warp, WarpTrace& trace) {
        sorting->describe(first, count, warp, trace);
      });
}

TracePtr trace_place(AnalysisPtr product, std::vector<std::int64_t> places,
                     const DeviceArrays& at) {
  const std::int64_t tasks = std::ssize(product->tasks);
  const auto sorting = std::make_shared<Sorting>(product, true, std::move(places), at);
  const auto describe = [tasks, at, sorting](std::int64_t first, std::int64_t count, int warp,
                                             WarpTrace& trace) {
    using Count = counted::PlaceTasks;
    trace.issue(Count::kBegin);
    const std::int64_t own = std::min<std::int64_t>(count, tasks - first);
    if (own > 0) load_run(kBoard, at.lengths, first, own, trace);
    // Lanes go over the tiles before this one together.
    const std::int64_t tiles = first / spgemm::kTile;
    for (std::int64_t tile = std::int64_t{kWarpLanes} * warp; tile < tiles; tile += spgemm::kTile) {
      trace.issue(Count::kTiles);
      load_run(kRowBoard, at.columns_of_tiles, tile,
               std::min<std::int64_t>(kWarpLanes, tiles - tile), trace);
      trace.wait(kRowBoard);
    }
    if (own > 0) trace.wait(kBoard);
    for (int shuffle = 0; shuffle < Count::kShuffles; ++shuffle) trace.shared(1);
    for (int barrier = 0; barrier < 2; ++barrier) {
      trace.shared(1);
      trace.barrier();
    }
    if (count > 0) store_run(at.offsets, first, count, trace);
    sorting->describe(first, std::max<std::int64_t>(own, 0), warp, trace);
  };
  return std::make_shared<ThreadsTrace>(tasks + 1, describe);
}

TracePtr trace_gather(AnalysisPtr product, const DeviceArrays& at) {
  const auto describe = [product, at](std::int64_t first, std::int64_t count, int,
                                      WarpTrace& trace) {
    trace.issue(counted::GatherOffsets::kAll);
    if (count == 0) return;
    const std::int64_t rows = std::min<std::int64_t>(count, product->a.rows - first);
    if (rows > 0) {
      if (product->is_sliced()) {
        load_run(kBoard, at.slice_counts, first, rows, trace);
        trace.wait(kBoard);
      }
      load_each(
          kBoard, at.offsets,
          std::views::iota(first, first + rows) |
              std::views::transform([&](std::int64_t row) { return first_task(*product, row); }),
          trace);
      trace.wait(kBoard);
    }
    store_run(at.c_offsets, first, count, trace);
  };
  return std::make_shared<ThreadsTrace>(std::int64_t{product->a.rows} + 1, describe);
}

}  // namespace tessera::row_spgemm::tracing
