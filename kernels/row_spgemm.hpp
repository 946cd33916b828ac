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
/// By the mean length of their segments of B's rows tasks are of four kinds, from tiny to long:
/// lanes beyond a segment's end have nothing to do.
constexpr std::int64_t kTinySegment = 4, kShortSegment = 12, kMiddleSegment = 48;
constexpr int kKinds = 4;

/// Slots of the hash tables of words: the least, each twice the one before, and the most. A row
/// uses one only if it has at most half as many products.
constexpr int kLeastTable = 128, kTables = 4, kMostTable = kLeastTable << (kTables - 1);

/// The columns [32 first_word, 32 (first_word + words)) of a row of C: what a group of threads
/// does.
struct Task {
  std::int32_t row = 0;
  std::int32_t first_word = 0;
  std::int32_t words = 0;
  std::int8_t table = -1;  // of the hash tables, by size; -1: the bitmap itself
  std::int8_t kind = 0;    // of its segments, 0 to kKinds - 1
  bool is_heavy = false;   // a thread block's work
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

/// The smallest table that takes so many words.
constexpr int table_for(std::int64_t words) {
  int table = 0;
  while (kLeastTable << table < 2 * words) ++table;
  return table;
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
  plan.whole.kind = static_cast<std::int8_t>((products > kTinySegment * nonzeros) +
                                             (products > kShortSegment * nonzeros) +
                                             (products > kMiddleSegment * nonzeros));
  if (words > kMostWords && products <= kMostTable / 2) {
    plan.whole.table = static_cast<std::int8_t>(table_for(products));
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

/// Of the first phase: bitmaps by their words and the kinds of segments, tables, heavy tasks.
enum MarkClass {
  kMark64,
  kMark512 = kMark64 + kKinds,
  kMarkMost = kMark512 + kKinds,
  kMarkTable,
  kMarkHeavy = kMarkTable + kTables,
  kMarkClasses
};
constexpr TaskClass mark_limits(int of) {
  constexpr TaskClass all[kMarkClasses] = {{4, 64 * 4},
                                           {8, 64 * 4},
                                           {16, 64 * 4},
                                           {16, 64 * 4},
                                           {8, 512 * 4},
                                           {8, 512 * 4},
                                           {16, 512 * 4},
                                           {16, 512 * 4},
                                           {32, kMostWords * 4},
                                           {8, kLeastTable * 8},
                                           {16, kLeastTable * 16},
                                           {16, kLeastTable * 32},
                                           {32, kLeastTable * 64},
                                           {256, kMostWords * 4}};
  return all[of];
}

constexpr int mark_class(const Task& task) {
  if (task.table >= 0) return kMarkTable + task.table;
  if (task.is_heavy) return kMarkHeavy;
  if (task.words <= 64) return kMark64 + task.kind;
  return task.words <= 512 ? kMark512 + task.kind : kMarkMost;
}

/// Bytes of a bitmap with ranks, and of sums.
constexpr int sum_bytes(int words, int sums) { return 8 * words + 4 * sums; }
/// Of a hash table with keys, marks, ranks and order, and its sums.
constexpr int table_bytes(int table) {
  const int slots = kLeastTable << table;
  return 12 * slots + 4 * (slots / 2) + 4 * (slots / 2);
}

/// Of the second phase: bitmaps by what they and their sums take and the kinds of segments, tables,
/// and thread blocks.
enum SumClass {
  kSum1K,
  kSum2K = kSum1K + kKinds,
  kSum4K = kSum2K + kKinds,
  kSum8K = kSum4K + kKinds,
  kSum16K = kSum8K + kKinds,
  kSumTable,
  kSumHeavy = kSumTable + kTables,
  kSumMost,
  kSumClasses
};
constexpr TaskClass sum_limits(int of) {
  constexpr TaskClass all[kSumClasses] = {{4, 1 << 10},
                                          {8, 1 << 10},
                                          {16, 1 << 10},
                                          {32, 1 << 10},
                                          {8, 2 << 10},
                                          {8, 2 << 10},
                                          {16, 2 << 10},
                                          {32, 2 << 10},
                                          {8, 4 << 10},
                                          {8, 4 << 10},
                                          {16, 4 << 10},
                                          {32, 4 << 10},
                                          {16, 8 << 10},
                                          {16, 8 << 10},
                                          {16, 8 << 10},
                                          {32, 8 << 10},
                                          {32, 16 << 10},
                                          {8, table_bytes(0)},
                                          {16, table_bytes(1)},
                                          {16, table_bytes(2)},
                                          {32, table_bytes(3)},
                                          {256, 52 << 10},
                                          {512, sum_bytes(kMostWords, kMostWords * kWordCols)}};
  return all[of];
}

/// Of a task with so many columns of C.
constexpr int sum_class(const Task& task, int sums) {
  if (task.table >= 0) return kSumTable + table_for(sums);
  const int bytes = sum_bytes(task.words, sums);
  if (task.is_heavy || bytes > sum_limits(kSum16K).bytes)
    return bytes <= sum_limits(kSumHeavy).bytes ? kSumHeavy : kSumMost;
  if (bytes <= sum_limits(kSum1K).bytes) return kSum1K + task.kind;
  if (bytes <= sum_limits(kSum2K).bytes) return kSum2K + task.kind;
  if (bytes <= sum_limits(kSum4K).bytes) return kSum4K + task.kind;
  return bytes <= sum_limits(kSum8K).bytes ? kSum8K + task.kind : kSum16K;
}

}  // namespace tessera::row_spgemm
