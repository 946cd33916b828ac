// The warp trace of tessera_spmm: lanes load their elements of A by its bitmaps, ahead of their
// use.
#pragma once

#include "formats/mosaic.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/spmm/row_windows/window16_trace.hpp"
#include "kernels/spmm/tessera/tessera_spmm.hpp"

namespace tessera::tessera_spmm {

/// `positions` are those of the bitmaps.
class Trace final : public window16_tile::TileTrace {
 public:
  using TileTrace::TileTrace;

 private:
  static constexpr int kOffsetBoard = 0, kBitmapBoard = kFreeBoard, kElementBoard = kFreeBoard + 1,
                       kFirstStageBoard = kFreeBoard + 2, kPrefetchBoard = kEndBoard - 1;
  static constexpr int kLoadedBitmaps = 3;  // of the TC block that is multiplied and those behind
  static constexpr int kBitmapBytes = sizeof(Mosaic::Bitmap);
  using Task = window_tasks::Task;

  /// The board of the rows of B of TC block `step` of a task: one for each stage.
  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % launch_.stages);
  }

  void start(const Task& task, const TaskItem& item, WarpTrace& trace) const override {
    const std::size_t begin = trace.ops.size();
    load_rows(task.first, trace);
    int length = launch_.instructions.task_start;
    for (int step = 0; step + 1 < launch_.stages; ++step) {
      if (task.first + step >= task.last) break;
      if (step > 0) length += launch_.instructions.first_copy;
      trace.wait(kRowBoard);
      copy_rows(task.first + step, step, item, trace, stage_board(step));
      if (task.first + step + 1 < task.last) load_rows(task.first + step + 1, trace);
    }
    trace.load(kOffsetBoard);
    trace.touch(at_.offsets + 4 * std::uint64_t{task.first}, 4);
    load_bitmap(task, 0, trace);
    trace.wait(kOffsetBoard);
    trace.wait(kBitmapBoard);
    load_elements(task, 0, trace);
    load_bitmap(task, 1, trace);
    trace.complete(begin, length);
  }

  void multiply(const Task& task, std::int64_t tile, const TaskItem& item,
                WarpTrace& trace) const override {
    const std::int64_t step = tile - task.first, copied = step + launch_.stages - 1;
    const std::size_t begin = trace.ops.size();
    const int mmas = window16_tile::kMmas * schedule_.groups * launch_.mmas_per_product;
    int length = launch_.instructions.tile - mmas;
    trace.wait(stage_board(step));
    trace.wait(kRowBoard);
    if (task.first + copied < task.last) {
      length += launch_.instructions.copies;
      trace.issue(length / 4);  // as in the machine code
      copy_rows(task.first + copied, copied, item, trace, stage_board(copied));
      if (task.first + copied + 1 < task.last) load_rows(task.first + copied + 1, trace);
    }
    trace.wait(kElementBoard);
    trace.wait(kBitmapBoard);
    trace.issue(length / 6);
    load_elements(task, step + 1, trace);
    load_bitmap(task, step + 2, trace);
    trace.issue(length / 6);
    for (int i = 0; i < 2 * lines(); ++i) trace.shared(row_windows::kWideReadWavefronts);
    trace.complete(begin, length);
    if (launch_.prefetch) prefetch(tile, trace);
    trace.mma(mmas);
  }

  /// Nobody waits for what is prefetched. Behind the last TC block of A nothing is.
  void prefetch(std::int64_t tile, WarpTrace& trace) const {
    const std::int64_t bitmap = tile + kLoadedBitmaps + kPrefetchedBlocks;
    const std::int64_t columns = tile + launch_.stages + kPrefetchedBlocks;
    trace.issue(launch_.instructions.prefetch);
    trace.load(kPrefetchBoard);
    if (bitmap < a_.num_tc_blocks()) trace.touch(element(at_.positions, bitmap, kBitmapBytes), 4);
    trace.load(kPrefetchBoard);
    if (columns < a_.num_tc_blocks())
      trace.touch(at_.sparse_a_to_b + 4 * static_cast<std::uint64_t>(columns * MeTcf::kTileCols),
                  4);
    trace.load(kPrefetchBoard);
    const std::int64_t first = a_.tc_offset[std::min(tile + 2, a_.num_tc_blocks())] + kSectorFloats;
    const std::int64_t values =
        std::min<std::int64_t>(kPrefetchedSectors * kSectorFloats, a_.nnz() - first);
    if (values > 0) trace.touch(element(at_.values, first, 4), 4 * values);
  }

  /// The TC block that is `ahead` behind the first of a task, or its last.
  static std::int64_t tile_of(const Task& task, std::int64_t ahead) {
    return std::min<std::int64_t>(task.first + ahead, std::int64_t{task.last} - 1);
  }

  void load_bitmap(const Task& task, std::int64_t ahead, WarpTrace& trace) const {
    trace.load(kBitmapBoard);
    trace.touch(element(at_.positions, tile_of(task, ahead), kBitmapBytes), kBitmapBytes);
  }

  /// Loads a lane's four elements.
  void load_elements(const Task& task, std::int64_t ahead, WarpTrace& trace) const {
    const std::int64_t tile = tile_of(task, ahead);
    int count[4] = {};  // of the elements of each word of the bitmap
    for (std::int64_t k = a_.tc_offset[tile]; k < a_.tc_offset[tile + 1]; ++k) {
      const int id = a_.tc_local_id[k];
      ++count[Mosaic::bit_of(id / MeTcf::kTileCols, id % MeTcf::kTileCols) / 32];
    }
    std::int64_t first = a_.tc_offset[tile];
    for (const int elements : count) {
      trace.load(kElementBoard);
      if (elements > 0) trace.touch(element(at_.values, first, 4), 4 * elements);
      first += elements;
    }
  }
};

}  // namespace tessera::tessera_spmm
