// row_spgemm's launches over rows and tasks: kernels/spgemm/row/tasks.cuh. Instructions are counted
// in the PTX (CUDA 13.0), of which about seven in ten are left in the code for sm_90a.

#include "kernels/spgemm/row/rows_trace.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <ranges>

namespace tessera::row_spgemm::tracing {

namespace {

constexpr int kBoard = 0, kRowBoard = 1;
constexpr int kNonzerosOfLane = 4;  // as on the device
constexpr std::int64_t kTurnsOfPiece = 8;

void load(int board, std::uint64_t address, std::int64_t bytes, WarpTrace& trace) {
  trace.load(board);
  trace.touch(address, bytes);
}
void store(std::uint64_t address, std::int64_t bytes, WarpTrace& trace) {
  trace.store();
  trace.touch(address, bytes);
}

/// Rows of a matrix that the lanes of a warp take side by side.
struct Rows {
  int lanes = 0;  // of each row
  bool are_long = false;
  std::vector<std::int32_t> rows = {};
  std::int64_t most = 0;  // nonzeros of any
};

/// A launch in which warps go over rows, some lanes to a row; long ones after the others.
class RowsTrace : public LaunchTrace {
 public:
  RowsTrace(const CsrMatrix& matrix, std::uint64_t offsets, std::uint64_t cols)
      : matrix_(matrix),
        lanes_(lanes_for(matrix.nnz(), matrix.rows)),
        offsets_(offsets),
        cols_(cols) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t first = (thread_block * kThreads + 32 * warp) / lanes_;
    const auto all = rows_of(first);
    if (cursor.part == 0 && cursor.step == 0) begin(warp, first, trace);
    const Rows& rows = all[static_cast<std::size_t>(cursor.part)];
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
  virtual int instructions_of_begin() const = 0;
  virtual void take(const Rows& rows, std::int64_t turn, WarpTrace& trace) const = 0;
  virtual void finish_rows(const Rows& rows, WarpTrace& trace) const = 0;
  virtual void finish(int warp, WarpTrace& trace) const = 0;
  virtual bool meets() const = 0;

  std::int64_t length(std::int32_t row) const {
    return matrix_.row_offsets[row + 1] - matrix_.row_offsets[row];
  }
  /// Calls visit(first, count) for the nonzeros of each row that its lanes take in a turn.
  template <class Visit>
  void for_nonzeros(const Rows& rows, std::int64_t turn, Visit visit) const {
    for (const std::int32_t row : rows.rows) {
      const std::int64_t first = matrix_.row_offsets[row] + turn * rows.lanes;
      const std::int64_t count =
          std::min<std::int64_t>(rows.lanes, matrix_.row_offsets[row + 1] - first);
      if (count > 0) visit(first, count);
    }
  }
  void load_cols(const Rows& rows, std::int64_t turn, WarpTrace& trace) const {
    trace.load(kRowBoard);
    for_nonzeros(rows, turn, [&](std::int64_t first, std::int64_t count) {
      trace.touch(element(cols_, first, 4), 4 * count);
    });
  }

  const CsrMatrix& matrix_;
  int lanes_;
  std::uint64_t offsets_, cols_;

 private:
  std::vector<Rows> rows_of(std::int64_t first) const {
    std::vector<Rows> all{{.lanes = lanes_}};
    for (std::int64_t row = first; row < std::min<std::int64_t>(first + 32 / lanes_, matrix_.rows);
         ++row) {
      const auto number = static_cast<std::int32_t>(row);
      if (lanes_ < 32 && length(number) > std::int64_t{lanes_} * kNonzerosOfLane) {
        all.push_back({.lanes = 32, .are_long = true, .rows = {number}, .most = length(number)});
        continue;
      }
      all.front().rows.push_back(number);
      all.front().most = std::max(all.front().most, length(number));
    }
    return all;
  }

  void begin(int warp, std::int64_t first, WarpTrace& trace) const {
    trace.issue(instructions_of_begin());
    trace.pause(kSpecialRegisterCycles);
    if (meets()) {
      if (warp == 0) trace.shared(1);
      trace.barrier();
    }
    const std::int64_t rows = std::min<std::int64_t>(32 / lanes_, matrix_.rows - first);
    if (rows <= 0) return;
    for (int end = 0; end < 2; ++end)
      load(kBoard, element(offsets_, first + end, 4), 4 * rows, trace);
    trace.wait(kBoard);
  }

  void begin_rows(const Rows& rows, WarpTrace& trace) const {
    trace.issue(rows.are_long ? 16 : 6);
    for (int shuffle = 0; rows.are_long && shuffle < 3; ++shuffle) trace.shared(1);
  }
};

/// Rows of B turned into words.
class DescriptionTrace final : public RowsTrace {
 public:
  DescriptionTrace(std::shared_ptr<const Product> product, const Addresses& at)
      : RowsTrace(product->b, at.b_offsets, at.b_cols), product_(std::move(product)), at_(at) {}

 private:
  static constexpr int kBeginInstructions = 27, kTurnInstructions = 35, kFinishInstructions = 24;

  int instructions_of_begin() const override { return kBeginInstructions; }
  bool meets() const override { return false; }
  void finish(int, WarpTrace&) const override {}

  void take(const Rows& rows, std::int64_t turn, WarpTrace& trace) const override {
    load_cols(rows, turn, trace);
    trace.wait(kRowBoard);
    trace.issue(kTurnInstructions);
    for (int step = 1; step < rows.lanes; step *= 2) {  // two shuffles, which do not wait
      trace.issue(5);
      trace.shared(1);
    }
    for (int shuffle = 0; shuffle < 4; ++shuffle) trace.shared(1);
    bool any = false;
    for (const std::int32_t row : rows.rows) {
      const std::int64_t begin = product_->b.row_offsets[row],
                         end = product_->b.row_offsets[row + 1];
      const std::int64_t first = begin + turn * rows.lanes;
      const std::int64_t last = std::min(first + rows.lanes, end);
      if (first >= last) continue;
      if (!any) trace.store();
      any = true;
      const std::int64_t word = word_of(row, first);
      trace.touch(element(at_.words_of_b, word, kWordBytes),
                  kWordBytes * (word_of(row, last - 1) - word + 1));
    }
  }

  /// The place of the word of a nonzero.
  std::int64_t word_of(std::int32_t row, std::int64_t at) const {
    const std::int32_t word = product_->b.col_indices[static_cast<std::size_t>(at)] / kWordCols;
    const auto words = product_->words.begin();
    const std::int64_t begin = product_->b.row_offsets[row];
    return std::lower_bound(words + begin, words + begin + product_->num_words[row], word) - words;
  }

  void finish_rows(const Rows& rows, WarpTrace& trace) const override {
    trace.issue(kFinishInstructions);
    bool any = false;
    for (const bool last : {false, true}) {
      bool loads = false;
      for (const std::int32_t row : rows.rows) {
        if (length(row) == 0) continue;
        if (!loads) trace.load(kRowBoard);
        any = loads = true;
        trace.touch(
            element(cols_, last ? matrix_.row_offsets[row + 1] - 1 : matrix_.row_offsets[row], 4),
            4);
      }
    }
    if (any) trace.wait(kRowBoard);
    if (rows.rows.empty()) return;
    trace.issue(1);
    trace.store();
    for (const std::int32_t row : rows.rows)
      trace.touch(element(at_.rows_of_b, row, kRowOfBBytes), 12);
    trace.store();
    for (const std::int32_t row : rows.rows)
      trace.touch(element(at_.ranges_of_b, row, kRangeOfBBytes), kRangeOfBBytes);
  }

  std::shared_ptr<const Product> product_;
  Addresses at_;
};

/// Rows of C cut into tasks, and these counted.
class AnalysisTrace final : public RowsTrace {
 public:
  AnalysisTrace(std::shared_ptr<const Product> product, const Addresses& at)
      : RowsTrace(product->a, at.a_offsets, at.a_cols), product_(std::move(product)), at_(at) {}

 private:
  static constexpr int kBeginInstructions = 35, kTurnInstructions = 12, kReduceInstructions = 3,
                       kSmallPlanInstructions = 26, kPlanInstructions = 115, kCutInstructions = 165,
                       kStoreInstructions = 16, kFinishInstructions = 18;

  int instructions_of_begin() const override { return kBeginInstructions; }
  bool meets() const override { return true; }

  void take(const Rows& rows, std::int64_t turn, WarpTrace& trace) const override {
    trace.issue(kTurnInstructions);
    load_cols(rows, turn, trace);
    trace.wait(kRowBoard);
    for (const bool range : {false, true}) {
      trace.load(kRowBoard);
      for_nonzeros(rows, turn, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t k = first; k < first + count; ++k) {
          const std::int32_t of = product_->a.col_indices[static_cast<std::size_t>(k)];
          if (range)
            trace.touch(element(at_.ranges_of_b, of, kRangeOfBBytes), kRangeOfBBytes);
          else
            trace.touch(element(at_.rows_of_b, of, kRowOfBBytes), 12);
        }
      });
    }
    trace.wait(kRowBoard);
  }

  void finish_rows(const Rows& rows, WarpTrace& trace) const override {
    for (int step = 1; step < rows.lanes; step *= 2)
      for (int of = 0; of < 4; ++of) {
        trace.issue(kReduceInstructions - 1);
        trace.shared(1);
      }
    if (rows.rows.empty()) return;
    const auto whole = [&](std::int32_t row) -> const Task& {
      return product_
          ->tasks[static_cast<std::size_t>(product_->first_tasks[static_cast<std::size_t>(row)])]
          .task;
    };
    // Lanes with small rows and those with others go one after the other.
    const auto is_small = [&](std::int32_t row) { return whole(row).keeping == Keeping::kLanes; };
    const bool any_small = std::ranges::any_of(rows.rows, is_small);
    const bool any_other = !std::ranges::all_of(rows.rows, is_small);
    const bool any_sliced =
        std::ranges::any_of(rows.rows, [&](std::int32_t row) { return whole(row).is_sliced; });
    constexpr int kClassInstructions = class_instructions(false);
    trace.issue(kStoreInstructions + (any_small ? kSmallPlanInstructions : 0) +
                (any_other ? kPlanInstructions + kClassInstructions : 0) +
                (any_sliced ? kCutInstructions + kClassInstructions : 0));
    const auto store_all = [&](std::uint64_t array, int stride, int from, int bytes) {
      trace.store();
      for (const std::int32_t row : rows.rows)
        trace.touch(element(array, row, stride) + static_cast<unsigned>(from), bytes);
    };
    store_all(at_.whole_tasks, kTaskBytes, 0, 16);
    store_all(at_.whole_tasks, kTaskBytes, 16, 8);
    store_all(at_.whole_tasks, kTaskBytes, 24, 4);
    store_all(at_.slice_counts, 4, 0, 4);
    store_all(at_.slice_words, 4, 0, 4);
    trace.shared(1);
    if (any_sliced) trace.shared(2);
  }

  void finish(int warp, WarpTrace& trace) const override {
    trace.issue(kFinishInstructions);
    trace.barrier();
    if (warp != 0) return;
    trace.shared(1);
    trace.atomic(1);
    trace.touch(at_.summary, 4 * kClasses);
  }

  std::shared_ptr<const Product> product_;
  Addresses at_;
};

/// A launch in which each thread has one row or task: tell(the warp's first, as many) in one piece.
class EachTrace final : public LaunchTrace {
 public:
  using Tell = std::function<void(std::int64_t first, std::int64_t count, int warp, WarpTrace&)>;
  EachTrace(std::int64_t all, Tell tell) : all_(all), tell_(std::move(tell)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::int64_t first = thread_block * kThreads + 32 * warp;
    trace.pause(kSpecialRegisterCycles);
    tell_(first, std::clamp<std::int64_t>(all_ - first, 0, 32), warp, trace);
    return false;
  }

 private:
  std::int64_t all_;
  Tell tell_;
};

/// CUB's: a tile each thread block, after the sum of the tiles before it is known.
/// The parts of a task that an instruction takes each.
struct Part {
  unsigned at;
  int bytes;
};
constexpr std::array<Part, 3> kPartsOfTask{{{0, 16}, {16, 8}, {24, 8}}};

}  // namespace

std::shared_ptr<const LaunchTrace> trace_description(std::shared_ptr<const Product> product,
                                                     const Addresses& at) {
  return std::make_shared<DescriptionTrace>(std::move(product), at);
}

std::shared_ptr<const LaunchTrace> trace_measure(std::shared_ptr<const Product> product,
                                                 const Addresses& at) {
  constexpr int kInstructions = 15;
  const std::int64_t rows = product->b.rows;
  return std::make_shared<EachTrace>(
      rows, [product, at](std::int64_t first, std::int64_t count, int, WarpTrace& trace) {
        trace.issue(kInstructions);
        if (count == 0) return;
        const auto& offsets = product->b.row_offsets;
        for (int end = 0; end < 2; ++end)
          load(kBoard, element(at.b_offsets, first + end, 4), 4 * count, trace);
        trace.wait(kBoard);
        const auto begin = static_cast<std::size_t>(first),
                   last = static_cast<std::size_t>(first + count);
        for (const int end : {0, 1}) {
          if (offsets[begin] == offsets[last]) break;
          trace.load(kBoard);
          for (std::size_t row = begin; row < last; ++row)
            if (offsets[row] < offsets[row + 1])
              trace.touch(element(at.b_cols, end == 0 ? offsets[row] : offsets[row + 1] - 1, 4), 4);
          trace.wait(kBoard);
        }
        for (const Part& part : {Part{0, 8}, Part{8, 4}}) {
          trace.store();
          for (std::int64_t row = first; row < first + count; ++row)
            trace.touch(element(at.rows_of_b, row, kRowOfBBytes) + part.at, part.bytes);
        }
        store(element(at.ranges_of_b, first, kRangeOfBBytes), kRangeOfBBytes * count, trace);
      });
}

std::shared_ptr<const LaunchTrace> trace_analysis(std::shared_ptr<const Product> product,
                                                  const Addresses& at) {
  return std::make_shared<AnalysisTrace>(std::move(product), at);
}

std::shared_ptr<const LaunchTrace> trace_cut(std::shared_ptr<const Product> product,
                                             const Addresses& at) {
  constexpr int kInstructions = 18, kTaskInstructions = 8, kSliceInstructions = 12;
  const std::int64_t rows = product->a.rows;
  return std::make_shared<EachTrace>(rows, [product, at](std::int64_t first, std::int64_t count,
                                                         int, WarpTrace& trace) {
    trace.issue(kInstructions);
    if (count == 0) return;
    for (int end = 0; end < 2; ++end)
      load(kBoard, element(at.slice_counts, first + end, 4), 4 * count, trace);
    trace.wait(kBoard);
    // Lanes with one task each, then those with several, task by task.
    std::int64_t most = 0;
    for (std::int64_t row = first; row < first + count; ++row)
      most = std::max<std::int64_t>(most, product->first_tasks[static_cast<std::size_t>(row + 1)] -
                                              product->first_tasks[static_cast<std::size_t>(row)]);
    for (std::int64_t turn = 0; turn < most; ++turn) {
      trace.issue(turn == 0 ? kTaskInstructions : kSliceInstructions);
      for (const bool stores : {false, true}) {
        for (const Part& part : kPartsOfTask) {
          if (stores)
            trace.store();
          else
            trace.load(kBoard);
          for (std::int64_t row = first; row < first + count; ++row) {
            const std::int64_t task = product->first_tasks[static_cast<std::size_t>(row)] + turn;
            if (task >= product->first_tasks[static_cast<std::size_t>(row + 1)]) continue;
            trace.touch((stores ? element(at.tasks, task, kTaskBytes)
                                : element(at.whole_tasks, row, kTaskBytes)) +
                            part.at,
                        part.bytes);
          }
        }
        if (!stores) trace.wait(kBoard);
      }
    }
  });
}

std::shared_ptr<const LaunchTrace> trace_sort(std::shared_ptr<const Product> product, bool is_sum,
                                              std::vector<std::int64_t> places,
                                              const Addresses& at) {
  constexpr int kInstructions = 45, kPlacesInstructions = 12;
  const std::int64_t tasks = std::ssize(product->tasks);
  return std::make_shared<EachTrace>(tasks, [product, is_sum, at, places = std::move(places)](
                                                std::int64_t first, std::int64_t count, int warp,
                                                WarpTrace& trace) {
    trace.issue(kInstructions);
    if (warp == 0) trace.shared(1);
    trace.barrier();
    if (count > 0) {
      for (const Part& part : kPartsOfTask) {
        trace.load(kBoard);
        for (std::int64_t i = first; i < first + count; ++i)
          trace.touch(element(at.tasks, i, kTaskBytes) + part.at, part.bytes);
      }
      if (is_sum) load(kBoard, element(at.lengths, first, 4), 4 * count, trace);
      trace.wait(kBoard);
      const auto is_small = [&](std::int64_t i) {
        return product->tasks[static_cast<std::size_t>(i)].task.keeping == Keeping::kLanes;
      };
      if (!std::ranges::all_of(std::views::iota(first, first + count), is_small))
        trace.issue(class_instructions(is_sum));
      trace.shared(1);
    }
    trace.barrier();
    if (warp == 0) {
      trace.issue(kPlacesInstructions);
      trace.shared(1);
      trace.atomic(1);
      trace.touch(at.summary, 4 * kClasses);
    }
    trace.barrier();
    const auto is_sorted = [&](std::int64_t i) {
      return !is_sum || product->tasks[static_cast<std::size_t>(i)].task.keeping != Keeping::kLanes;
    };
    const auto all = std::views::iota(first, first + count);
    if (std::ranges::none_of(all, is_sorted)) return;
    trace.shared(1);
    for (const Part& part : {Part{0, 8}, Part{8, 4}}) {
      trace.store();
      for (const std::int64_t i : all)
        if (is_sorted(i))
          trace.touch(
              element(at.sorted, places[static_cast<std::size_t>(i)], kSortedTaskBytes) + part.at,
              part.bytes);
    }
  });
}

std::shared_ptr<const LaunchTrace> trace_gather(std::shared_ptr<const Product> product,
                                                const Addresses& at) {
  constexpr int kInstructions = 26;
  const std::int64_t rows = product->a.rows;
  return std::make_shared<EachTrace>(rows + 1, [product, at](std::int64_t first, std::int64_t count,
                                                             int, WarpTrace& trace) {
    trace.issue(kInstructions);
    if (count == 0) return;
    const std::int64_t inner = std::min<std::int64_t>(count, product->a.rows - first);
    if (inner > 0) {
      if (product->is_sliced()) {
        load(kBoard, element(at.slice_counts, first, 4), 4 * inner, trace);
        trace.wait(kBoard);
      }
      trace.load(kBoard);
      for (std::int64_t row = first; row < first + inner; ++row)
        trace.touch(element(at.offsets, product->first_tasks[static_cast<std::size_t>(row)], 8), 8);
      trace.wait(kBoard);
    }
    store(element(at.c_offsets, first, 8), 8 * count, trace);
  });
}

}  // namespace tessera::row_spgemm::tracing
