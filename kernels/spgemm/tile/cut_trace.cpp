// make_tasks(). Instruction counts are those of the machine code for sm_90a (CUDA 13.0).

#include <algorithm>

#include "kernels/spgemm/tile/tiles_trace.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

constexpr int kLoadBoard = 0, kAhead = 4;

/// A warp for every tile row of A.
class CutTrace final : public LaunchTrace {
 public:
  CutTrace(std::shared_ptr<const Product> product, const Addresses& at)
      : product_(std::move(product)), at_(at) {
    const auto& tasks = product_->tasks;
    slices_.assign(static_cast<std::size_t>(product_->a.tile_rows()) + 1, 0);
    for (std::int64_t id = product_->a.tile_rows(); id < std::ssize(tasks); ++id) {
      const Task& task = tasks[static_cast<std::size_t>(id)].task;
      if (task.slice > 0) ++slices_[static_cast<std::size_t>(task.tile_row) + 1];
    }
    for (std::size_t row = 1; row < slices_.size(); ++row) slices_[row] += slices_[row - 1];
  }

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::int64_t row = thread_block * kWarps + warp;
    trace.issue(kBeginInstructions);
    trace.pause(kSpecialRegisterCycles);
    if (row >= product_->a.tile_rows()) return false;
    const TileRow of_a = product_->a.rows[static_cast<std::size_t>(row)];
    trace.load(kLoadBoard);
    trace.touch(element(at_.a.rows, row, kTileRowBytes), kTileRowBytes);
    trace.wait(kLoadBoard);
    for (std::int64_t first = 0; first < of_a.count; first += std::int64_t{32} * kAhead)
      look_at(of_a, first, trace);
    for (int step = 0; step < 5; ++step) trace.shared(2);
    trace.issue(kReduceInstructions + kCutInstructions);
    trace.atomic(1);
    trace.touch(at_.found, 4);
    store_tasks(row, trace);
    return false;
  }

 private:
  static constexpr int kBeginInstructions = 26, kLookInstructions = 70, kReduceInstructions = 14,
                       kCutInstructions = 157, kSliceInstructions = 25, kSlicedInstructions = 59;

  void look_at(const TileRow& of_a, std::int64_t first, WarpTrace& trace) const {
    const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
    std::vector<TileRow> of_b;
    trace.issue(kLookInstructions);
    const auto for_own = [&](auto visit) {
      for (std::int64_t u = 0; u < kAhead; ++u) {
        const std::int64_t begin = first + 32 * u,
                           end = std::min<std::int64_t>(begin + 32, of_a.count);
        if (begin >= end) continue;
        trace.load(kLoadBoard);
        for (std::int64_t i = begin; i < end; ++i) visit(of_a.begin + i);
      }
      trace.wait(kLoadBoard);
    };
    for_own(
        [&](std::int64_t tile) { trace.touch(element(at_.a.tiles, tile, kTileBytes) + 12, 4); });
    for_own([&](std::int64_t tile) {
      const std::int32_t col = a.tiles[static_cast<std::size_t>(tile)].col;
      trace.touch(element(at_.b.rows, col, kTileRowBytes), kTileRowBytes);
    });
    for (const bool is_last : {false, true})
      for_own([&](std::int64_t tile) {
        const TileRow row =
            b.rows[static_cast<std::size_t>(a.tiles[static_cast<std::size_t>(tile)].col)];
        if (row.count == 0) return;
        trace.touch(element(at_.b.tiles, std::int64_t{row.begin} + (is_last ? row.count - 1 : 0),
                            kTileBytes) +
                        12,
                    4);
      });
  }

  void store_tasks(std::int64_t row, WarpTrace& trace) const {
    const auto store = [&](std::int64_t number) {
      trace.issue(kSliceInstructions);
      for (const auto& [from, bytes] : {std::pair{0, 8}, std::pair{8, 4}, std::pair{12, 4}}) {
        trace.store();
        trace.touch(element(at_.tasks, number, kTaskBytes) + static_cast<unsigned>(from), bytes);
      }
    };
    const std::int64_t first = slices_[static_cast<std::size_t>(row)],
                       last = slices_[static_cast<std::size_t>(row) + 1];
    if (first < last) {
      trace.issue(kSlicedInstructions);
      trace.atomic(1);
      trace.touch(at_.found, 4);
    }
    store(row);
    for (std::int64_t slice = first; slice < last; ++slice) store(product_->a.tile_rows() + slice);
  }

  std::shared_ptr<const Product> product_;
  Addresses at_;
  std::vector<std::int64_t> slices_;  // [tile rows + 1]: of rows before, but their first ones
};

}  // namespace

std::shared_ptr<const LaunchTrace> trace_cutting(std::shared_ptr<const Product> product,
                                                 const Addresses& at) {
  return std::make_shared<CutTrace>(std::move(product), at);
}

}  // namespace tessera::tile_spgemm::tracing
