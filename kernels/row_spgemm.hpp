// row_spgemm: SpGEMM row by row, ours, for scattered rows. Here is what its stages agree on: how
// rows of C become tasks, and which threads and how much shared memory a task gets.
//
// A row of C is found in two phases. Both mark its columns in a bitmap over the range of columns
// that the row's products span or, where that is wide and the products are few, in a small hash
// table of the bitmap's words. The first phase counts the marks. In the second a column's rank
// (marks in words before its own, and below it in its own) is the place of its sum: sums need no
// search, no sort and no atomics, come out in the order of their columns, and are each one chain of
// fused multiply-adds in the order of A's columns, whatever the scheduling. So C has the bits of
// multiply_rows(). Analysis of rows, and dense sums over the range of their columns, are spECK's
// (Parger et al. 2020), the two phases Nsparse's (Nagasaka et al. 2017); ranks in the place of keys
// and sorting are ours.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::row_spgemm {

constexpr int kWordCols = 32;  // columns of a word of the bitmap

/// The widest bitmap of a task: an SM holds it with a sum for each of its columns.
constexpr int kMostWords = 1536;
/// Rows of more products, or more nonzeros of A, are cut into slices of columns, a task each.
constexpr std::int64_t kProductsOfSlice = 1 << 20, kNonzerosOfSlice = 1024;
constexpr int kLeastWords = 8;  // of a slice
/// Tasks of at least so many products get a thread block each.
constexpr std::int64_t kHeavyProducts = 12288;
/// Where segments of B's rows are longer than this on average, a task gets a whole warp.
constexpr std::int64_t kLongSegment = 12;

/// Slots of the hash tables of words. A row uses one only if it has at most half as many products.
constexpr int kSmallTable = 256, kLargeTable = 1024;
enum class Table : std::uint8_t { kNone, kSmall, kLarge };

/// The columns [32 first_word, 32 (first_word + words)) of a row of C: what a group of threads
/// does.
struct Task {
  std::int32_t row = 0;
  std::int32_t first_word = 0;
  std::int32_t words = 0;
  Table table = Table::kNone;
  bool is_heavy = false;   // a thread block's work
  bool is_long = false;    // a warp's at least
  bool is_sliced = false;  // the row has other tasks
};

/// How a row becomes tasks: they are alike but for their words.
struct RowPlan {
  Task whole;                    // the row's words as if there was one task
  std::int32_t slice_words = 0;  // of each task but the last
  std::int32_t slices = 1;

  constexpr Task task(int slice) const {
    Task task = whole;
    task.first_word += slice * slice_words;
    task.words = std::min(slice_words, whole.words - slice * slice_words);
    return task;
  }
};

/// How many parts of at most `most` make up `whole`.
constexpr std::int64_t parts(std::int64_t whole, std::int64_t most) {
  return (whole + most - 1) / most;
}

/// Of a row with so many products, from so many nonzeros of A, in the columns [first, last].
constexpr RowPlan plan_row(std::int32_t row, std::int64_t products, std::int64_t nonzeros,
                           std::int32_t first, std::int32_t last) {
  RowPlan plan;
  plan.whole.row = row;
  if (products == 0) return plan;
  const int first_word = first / kWordCols, words = last / kWordCols - first_word + 1;
  plan.whole.first_word = first_word;
  plan.whole.words = plan.slice_words = words;
  plan.whole.is_long = products > kLongSegment * nonzeros;
  if (words > kMostWords && products <= kLargeTable / 2) {
    plan.whole.table = products <= kSmallTable / 2 ? Table::kSmall : Table::kLarge;
    return plan;
  }
  const std::int64_t slices =
      std::max(parts(words, kMostWords),
               std::max(parts(products, kProductsOfSlice), parts(nonzeros, kNonzerosOfSlice)));
  plan.slice_words =
      std::max(static_cast<int>(parts(words, slices)), std::min(words, int{kLeastWords}));
  plan.slices = static_cast<int>(parts(words, plan.slice_words));
  plan.whole.is_sliced = plan.slices > 1;
  plan.whole.is_heavy = products / plan.slices >= kHeavyProducts;
  return plan;
}

/// Threads of a group, and the most bytes of shared memory that it keeps marks and sums in.
struct TaskClass {
  int lanes;
  int bytes;
};

/// Of the first phase: bitmaps by their words, with short and with long segments; tables; heavy
/// ones.
enum MarkClass {
  kMark64,
  kMark64Long,
  kMark512,
  kMark512Long,
  kMarkMost,
  kMarkSmallTable,
  kMarkLargeTable,
  kMarkHeavy,
  kMarkClasses
};
constexpr TaskClass mark_limits(int of) {
  constexpr TaskClass all[kMarkClasses] = {
      {8, 64 * 4},          {32, 64 * 4},          {16, 512 * 4},         {32, 512 * 4},
      {32, kMostWords * 4}, {16, kSmallTable * 8}, {32, kLargeTable * 8}, {256, kMostWords * 4}};
  return all[of];
}

constexpr int mark_class(const Task& task) {
  if (task.table == Table::kSmall) return kMarkSmallTable;
  if (task.table == Table::kLarge) return kMarkLargeTable;
  if (task.is_heavy) return kMarkHeavy;
  if (task.words <= 64) return task.is_long ? kMark64Long : kMark64;
  if (task.words <= 512) return task.is_long ? kMark512Long : kMark512;
  return kMarkMost;
}

/// Bytes of a bitmap with ranks, and of sums.
constexpr int sum_bytes(int words, int sums) { return (6 * words + 3) / 4 * 4 + 4 * sums; }
/// Of a hash table with keys, marks, order and ranks, and its sums.
constexpr int table_bytes(int slots) { return 10 * slots + 4 * (slots / 2) + 4 * (slots / 2); }

/// Of the second phase: bitmaps by what they and their sums take; tables; thread blocks.
enum SumClass {
  kSum1K,
  kSum1KLong,
  kSum2K,
  kSum2KLong,
  kSum4K,
  kSum4KLong,
  kSum8K,
  kSum14K,
  kSumSmallTable,
  kSumLargeTable,
  kSumHeavy,
  kSumMost,
  kSumClasses
};
constexpr TaskClass sum_limits(int of) {
  constexpr TaskClass all[kSumClasses] = {{8, 1 << 10},
                                          {32, 1 << 10},
                                          {8, 2 << 10},
                                          {32, 2 << 10},
                                          {16, 4 << 10},
                                          {32, 4 << 10},
                                          {32, 8 << 10},
                                          {32, 14 << 10},
                                          {16, table_bytes(kSmallTable)},
                                          {32, table_bytes(kLargeTable)},
                                          {256, 52 << 10},
                                          {512, sum_bytes(kMostWords, kMostWords * kWordCols)}};
  return all[of];
}

/// Of a task with so many columns of C.
constexpr int sum_class(const Task& task, int sums) {
  if (task.table != Table::kNone) return sums <= kSmallTable / 2 ? kSumSmallTable : kSumLargeTable;
  const int bytes = sum_bytes(task.words, sums);
  if (task.is_heavy || bytes > sum_limits(kSum14K).bytes)
    return bytes <= sum_limits(kSumHeavy).bytes ? kSumHeavy : kSumMost;
  if (bytes <= sum_limits(kSum1K).bytes) return task.is_long ? kSum1KLong : kSum1K;
  if (bytes <= sum_limits(kSum2K).bytes) return task.is_long ? kSum2KLong : kSum2K;
  if (bytes <= sum_limits(kSum4K).bytes) return task.is_long ? kSum4KLong : kSum4K;
  return bytes <= sum_limits(kSum8K).bytes ? kSum8K : kSum14K;
}

}  // namespace tessera::row_spgemm
