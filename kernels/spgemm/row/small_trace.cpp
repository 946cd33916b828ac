// row_spgemm's rows of few products, several to a warp: kernels/spgemm/row/small.cuh. Instructions
// are counted in the PTX (CUDA 13.0), of which about seven in ten are left in the code for sm_90a.

#include <algorithm>
#include <map>
#include <ranges>

#include "kernels/spgemm/row/groups_trace.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

class SmallTrace final : public LaunchTrace {
 public:
  SmallTrace(std::shared_ptr<const Product> product, Batch batch, const Addresses& at)
      : product_(std::move(product)), batch_(std::move(batch)), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const int groups = 32 / batch_.lanes();
    const std::int64_t first = thread_block * batch_.groups() + std::int64_t{warp} * groups;
    const std::int64_t last =
        std::clamp<std::int64_t>(std::ssize(batch_.tasks), first, first + groups);
    trace.issue(kBeginInstructions);
    trace.pause(kSpecialRegisterCycles);
    if (first < last) load_rows(first, last, trace);
    find_products(trace);
    if (first < last) load_products(first, last, at_.b_cols, trace);
    find_same(trace);
    if (batch_.is_sum)
      sum(first, last, trace);
    else
      store_lengths(first, last, trace);
    return false;
  }

 private:
  static constexpr int kBeginInstructions = 10, kRowInstructions = 12, kPlaceInstructions = 35,
                       kFindBitInstructions = 5, kCompareInstructions = 18, kSumInstructions = 18,
                       kTurnInstructions = 10, kStoreInstructions = 10;
  static constexpr int kBoard = 0, kProductBoard = 1;

  const TaskWork& task(std::int64_t number) const {
    return product_->tasks[static_cast<std::size_t>(id(number))];
  }
  std::int64_t id(std::int64_t number) const {
    return batch_.tasks[static_cast<std::size_t>(number)];
  }

  /// One load by the lanes of all rows: touch(number of the row's task).
  template <class Touch>
  void load(std::int64_t first, std::int64_t last, int board, WarpTrace& trace, Touch touch) const {
    trace.load(board);
    for (std::int64_t i = first; i < last; ++i) touch(i);
  }

  /// Calls visit(row of B) for the nonzeros of a row of A.
  template <class Visit>
  void for_nonzeros(std::int64_t number, Visit visit) const {
    const CsrMatrix& a = product_->a;
    const Task& of = task(number).task;
    for (std::int64_t k = of.begin; k < of.begin + of.nonzeros; ++k)
      visit(k, a.col_indices[static_cast<std::size_t>(k)]);
  }

  bool has_nonzeros(std::int64_t first, std::int64_t last) const {
    bool any = false;
    for (std::int64_t i = first; i < last; ++i)
      for_nonzeros(i, [&](std::int64_t, std::int32_t) { any = true; });
    return any;
  }

  void load_rows(std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    trace.load(kBoard);
    trace.touch(element(at_.sorted, batch_.first_sorted + first, kSortedTaskBytes),
                kSortedTaskBytes * (last - first));
    trace.wait(kBoard);
    trace.issue(kRowInstructions);
    if (!has_nonzeros(first, last)) return;
    load(first, last, kBoard, trace, [&](std::int64_t i) {
      for_nonzeros(
          i, [&](std::int64_t k, std::int32_t) { trace.touch(element(at_.a_cols, k, 4), 4); });
    });
    trace.wait(kBoard);
    load(first, last, kBoard, trace, [&](std::int64_t i) {
      for_nonzeros(i, [&](std::int64_t, std::int32_t row_of_b) {
        trace.touch(element(at_.rows_of_b, row_of_b, kRowOfBBytes), 12);
      });
    });
    trace.wait(kBoard);
  }

  /// Where each lane's product is: a prefix sum, and the nth of the rows of B.
  void find_products(WarpTrace& trace) const {
    trace.issue(kPlaceInstructions);
    for (int step = 1; step < batch_.lanes(); step *= 2) {
      trace.shared(1);
      trace.issue(kFindBitInstructions);
    }
    for (int shuffle = 0; shuffle < 3; ++shuffle) trace.shared(1);
  }

  void load_products(std::int64_t first, std::int64_t last, std::uint64_t array,
                     WarpTrace& trace) const {
    if (!std::ranges::any_of(std::views::iota(first, last),
                             [&](std::int64_t i) { return task(i).products > 0; }))
      return;
    load(first, last, kProductBoard, trace, [&](std::int64_t i) {
      for_nonzeros(i, [&](std::int64_t, std::int32_t row_of_b) {
        const std::int64_t begin = product_->b.row_offsets[row_of_b];
        const std::int64_t length = product_->b.row_offsets[row_of_b + 1] - begin;
        if (length > 0) trace.touch(element(array, begin, 4), 4 * length);
      });
    });
    trace.wait(kProductBoard);
  }

  /// Comparisons with the columns of all lanes of the row.
  void compare(WarpTrace& trace) const {
    trace.issue(2 * batch_.lanes());
    for (int i = 0; i < batch_.lanes(); i += 4) trace.shared(1);
  }
  void find_same(WarpTrace& trace) const {
    trace.shared(1);
    trace.issue(kCompareInstructions);
    compare(trace);
  }

  void store_lengths(std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    trace.issue(kStoreInstructions / 2);
    if (first >= last) return;
    trace.store();
    for (std::int64_t i = first; i < last; ++i) trace.touch(element(at_.lengths, id(i), 4), 4);
  }

  /// The most products of a column but one: so often do lanes fetch others' products.
  int turns(std::int64_t first, std::int64_t last) const {
    int most = 0;
    for (std::int64_t i = first; i < last; ++i) {
      std::map<std::int32_t, int> same;
      for_nonzeros(i, [&](std::int64_t, std::int32_t row_of_b) {
        for (std::int64_t at = product_->b.row_offsets[row_of_b];
             at < product_->b.row_offsets[row_of_b + 1]; ++at)
          most = std::max(most, same[product_->b.col_indices[static_cast<std::size_t>(at)]]++);
      });
    }
    return most;
  }

  void sum(std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    if (first < last) {
      load(first, last, kBoard, trace,
           [&](std::int64_t i) { trace.touch(element(at_.offsets, id(i), 8), 8); });
      if (has_nonzeros(first, last))
        load(first, last, kBoard, trace, [&](std::int64_t i) {
          for_nonzeros(i, [&](std::int64_t k, std::int32_t) {
            trace.touch(element(at_.a_values, k, 4), 4);
          });
        });
      trace.wait(kBoard);
      load_products(first, last, at_.b_values, trace);
    }
    trace.issue(kSumInstructions);
    compare(trace);
    const int count = turns(first, last);
    for (int turn = 0; turn < count; ++turn) {
      trace.issue(kTurnInstructions);
      for (int shuffle = 0; shuffle < 2; ++shuffle) trace.shared(1);
    }
    trace.issue(kStoreInstructions);
    const auto has_columns = [&](std::int64_t i) { return task(i).columns > 0; };
    if (!std::ranges::any_of(std::views::iota(first, last), has_columns)) return;
    for (const std::uint64_t array : {at_.c_cols, at_.c_values}) {
      trace.store();
      for (std::int64_t i = first; i < last; ++i)
        if (has_columns(i))
          trace.touch(element(array, product_->offsets[static_cast<std::size_t>(id(i))], 4),
                      4 * std::int64_t{task(i).columns});
    }
  }

  std::shared_ptr<const Product> product_;
  Batch batch_;
  Addresses at_;
};

}  // namespace

TracedLaunch trace_small(std::shared_ptr<const Product> product, Batch batch, const Addresses& at) {
  const auto blocks = static_cast<std::size_t>(batch.thread_blocks());
  return {std::make_shared<SmallTrace>(std::move(product), std::move(batch), at),
          std::vector<std::int64_t>(blocks)};
}

}  // namespace tessera::row_spgemm::tracing
