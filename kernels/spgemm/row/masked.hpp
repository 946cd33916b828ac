// The plan of row_spgemm under a mask M: how the rows of M become tasks. C has the cells of M, so
// that nothing is counted: a task marks the columns of its row of M in the bitmap of
// kernels/spgemm/row/row_spgemm.hpp, and the rank of a column is the place of its sum. A product
// whose column has no mark is dropped before its factor of B is read.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/spgemm/row/row_spgemm.hpp"

namespace tessera::row_spgemm {

/// A row of M: its cells, and its first and its last column.
struct MaskRow {
  std::int64_t cells = 0;
  std::int32_t first = 0, last = 0;
};

/// Most cells of a row of M whose few products get a lane each; the lanes write all cells.
constexpr std::int64_t kMostCellsOfLanes = 256;

/// The cells that a task has at most.
TESSERA_HOST_DEVICE constexpr std::int64_t cells_of(const Task& task, std::int64_t cells) {
  const std::int64_t columns = std::int64_t{task.words} * kWordCols;
  return task.is_sliced && columns < cells ? columns : cells;
}

/// The class of a task of a row of M with so many cells.
TESSERA_HOST_DEVICE constexpr int masked_class(const Task& task, std::int64_t cells) {
  return sum_class(task, cells_of(task, cells));
}

/// The tasks of a row. Of the facts, `words` and the column range do not matter.
constexpr RowPlan plan_masked_row(std::int32_t row, const RowFacts& facts, const MaskRow& mask,
                                  const Thresholds& many) {
  RowPlan plan;
  Task& task = plan.whole;
  task.row = row;
  if (mask.cells == 0) {  // no product counts
    task.storage = MarkStorage::kLanes;
    return plan;
  }
  task.begin = facts.begin;
  task.nonzeros = facts.nonzeros;
  if (facts.products <= kMostLanes && facts.nonzeros <= kMostLanes &&
      mask.cells <= kMostCellsOfLanes) {
    const std::int64_t lanes = std::max(facts.products, std::int64_t{facts.nonzeros});
    task.storage = MarkStorage::kLanes;
    while (lanes > kLeastLanes << task.small_size) ++task.small_size;
    return plan;
  }
  task.first_word = mask.first / kWordCols;
  task.words = plan.slice_words = mask.last / kWordCols - task.first_word + 1;
  task.kept = static_cast<std::int32_t>(std::min(mask.cells, std::int64_t{task.words}));
  // As in plan_row(): a directory makes every look-up longer, and a whole bitmap is scanned.
  const std::int64_t of_words = task.words / 32 + task.kept + mask.cells / 2 + facts.products / 4;
  task.storage = 2 * task.words > of_words ? MarkStorage::kWords : MarkStorage::kBitmap;
  if (facts.products > many.slice || !fits(task, mask.cells, kSumSize)) {
    // Whatever its cells, a slice of whole bitmaps fits.
    task.storage = MarkStorage::kBitmap;
    const std::int64_t of_products =
        std::min(parts(facts.products, many.slice),
                 facts.products / (std::max(facts.nonzeros, 1) * kLengthOfSlice));
    const std::int64_t slices = std::max({of_products, parts(task.words, kMostWords),
                                          parts(sum_bytes(task, mask.cells), kMostBytes)});
    plan.slice_words = std::max(static_cast<int>(parts(task.words, slices)),
                                std::min(task.words, int{kLeastWords}));
    plan.slices = static_cast<int>(parts(task.words, plan.slice_words));
    task.is_sliced = plan.slices > 1;
  }
  task.is_heavy =
      facts.products >= many.heavy * plan.slices && facts.products >= kHeavyLength * facts.nonzeros;
  return plan;
}

}  // namespace tessera::row_spgemm
