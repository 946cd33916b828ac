// row_spgemm: SpGEMM row by row, ours, for scattered rows. Here is what its stages agree on: how
// rows of C become tasks, and which threads and how much shared memory a task gets.
//
// A row of C is found in two phases. Both mark its columns in a bitmap over the range of columns
// that the row's products span; where that is wide and the products are few, only words of the
// bitmap that have any marks are kept, found through a bitmap of words. The first phase counts the
// marks. In the second a column's rank (marks in words before its own, and below it in its own) is
// the place of its sum: sums need no search, no sort and no atomics, come out in the order of their
// columns, and are each one chain of fused multiply-adds in the order of A's columns, whatever the
// scheduling. So C has the bits of multiply_rows(). Rows of at most 32 products need no memory for
// this: a lane has a product, and compares its column with those of its neighbours. Analysis of
// rows, and dense sums over the range of their columns, are spECK's (Parger et al. 2020), the two
// phases Nsparse's (Nagasaka et al. 2017); ranks in the place of keys and sorting are ours.
//
// Where products are kept for others with the same structure, the second phase lists for each cell
// what its sum is of, and sums are gathered: kernels/spgemm/row/lists.cuh.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "formats/base/params.hpp"

namespace tessera::row_spgemm {

/// What the parameters say.
struct RowSpgemmOptions {
  explicit RowSpgemmOptions(const Params& params)
      : reuse(params.flag("reuse")),
        keeps_products(params.text("keeps") == "products"),
        workspace_limit(params.integer("workspace_limit")) {}

  /// Whether sums are made from lists of products.
  bool lists() const { return reuse && keeps_products; }

  bool reuse;                    // a product keeps what its sums need for the next:
  bool keeps_products;           // lists of products, or tasks alone
  std::int64_t workspace_limit;  // bytes beside C; 0: none
};

constexpr int kWordCols = 32;  // columns of a word of the bitmap

/// The widest whole bitmap of a task: a thread block holds it with a sum for each of its columns.
constexpr int kMostWords = 1536;
/// The widest range of a task that keeps only words with marks.
constexpr int kMostRange = 1 << 16;
/// A row of more nonzeros of A is cut into slices of columns, a task each; so is one of many
/// products where its segments of B's rows stay so long.
constexpr std::int64_t kNonzerosOfSlice = 1024, kLengthOfSlice = 12;
constexpr int kLeastWords = 8;  // of a slice
/// Tasks of many products get a thread block each, if their segments are so long on average: it
/// takes a step for each.
constexpr std::int64_t kHeavyLength = 8;

/// What counts as many products. A small product has to use the whole device, too.
struct Thresholds {
  std::int64_t heavy;  // of a task
  std::int64_t slice;  // of a row
};
/// By about how many products there are in all.
constexpr Thresholds thresholds_for(std::int64_t nonzeros_of_a, std::int64_t nonzeros_of_b,
                                    std::int64_t rows_of_b) {
  const double products = static_cast<double>(nonzeros_of_a) * static_cast<double>(nonzeros_of_b) /
                          static_cast<double>(std::max(rows_of_b, std::int64_t{1}));
  constexpr double kTasksOfDevice = 2048, kSlicesOfDevice = 256;
  return {static_cast<std::int64_t>(std::clamp(products / kTasksOfDevice, 1024.0, 4096.0)),
          static_cast<std::int64_t>(std::clamp(products / kSlicesOfDevice, 8192.0, 1048576.0))};
}

/// Whether the words of B's rows wait until a task needs them: not the small ones, which will be
/// most, and there are many.
constexpr bool words_can_wait(std::int64_t nonzeros_of_a, std::int64_t rows_of_a,
                              std::int64_t nonzeros_of_b, std::int64_t rows_of_b) {
  constexpr double kFewProducts = 20, kManyWords = 1 << 19;
  return static_cast<double>(nonzeros_of_b) > kManyWords &&
         static_cast<double>(nonzeros_of_a) * static_cast<double>(nonzeros_of_b) <
             kFewProducts * static_cast<double>(rows_of_a) * static_cast<double>(rows_of_b);
}

/// Of places among so many.
constexpr int bits_of_place(std::int64_t count) {
  return static_cast<int>(
      std::bit_width(static_cast<std::uint64_t>(std::max(count, std::int64_t{1}) - 1)));
}

/// Bytes of the code of a product that is kept, beside 4 that are enough where they hold both its
/// places, in B and among `span` nonzeros of A: those for the place in A alone, else 0.
constexpr int bytes_of_a(std::int64_t span, std::int64_t nonzeros_of_b) {
  if (span <= std::int64_t{1} << (32 - bits_of_place(nonzeros_of_b))) return 0;
  return span <= 1 << 16 ? 2 : 4;
}

/// How a task keeps what it has found.
enum class Keeping : std::int8_t {
  kLanes,   // a product in each lane
  kBitmap,  // every word of the range
  kWords,   // the words that have marks
};

/// Lanes of a task that has a product in each: the least, and twice the one before.
constexpr int kLeastLanes = 8, kSmallSizes = 3, kMostLanes = kLeastLanes << (kSmallSizes - 1);

/// The columns [32 first_word, 32 (first_word + words)) of a row of C: what a group of threads
/// does.
struct alignas(16) Task {
  std::int32_t row = 0;
  std::int32_t begin = 0, nonzeros = 0;  // of the row of A
  std::int32_t first_word = 0;
  std::int32_t words = 0;  // of the range
  std::int32_t kept = 0;   // words kept: at most as many, once they are counted exactly as many
  Keeping keeping = Keeping::kBitmap;
  std::int8_t small_size = 0;  // kLeastLanes << small_size lanes have a product each
  bool is_heavy = false;       // a thread block's work
  bool is_sliced = false;      // the row has other tasks
};

/// How a row becomes tasks: they are alike but for their words.
struct RowPlan {
  Task whole;                    // the row as if there was one task
  std::int32_t slice_words = 0;  // of each task but the last
  std::int32_t slices = 1;
};

/// Task `slice` of a row.
constexpr Task slice_of(const Task& whole, std::int32_t slice_words, int slice) {
  Task task = whole;
  task.first_word += slice * slice_words;
  task.words = std::min(slice_words, whole.words - slice * slice_words);
  task.kept = std::min(whole.kept, task.words);
  return task;
}

/// How many parts of at most `most` make up `whole`.
constexpr std::int64_t parts(std::int64_t whole, std::int64_t most) {
  return (whole + most - 1) / most;
}

/// Words of the bitmap that says which words of a range are kept.
constexpr int directory_words(const Task& task) { return (task.words + 31) / 32; }

/// Bytes that marks take in the first phase, and in the second with ranks and a sum for each
/// column.
constexpr int mark_bytes(const Task& task) {
  if (task.keeping == Keeping::kWords) return 8 * directory_words(task) + 4 * task.kept;
  return 4 * task.words;
}
constexpr std::int64_t sum_bytes(const Task& task, std::int64_t sums) {
  if (task.keeping == Keeping::kWords)
    return std::int64_t{8} * directory_words(task) + 12 * task.kept + 4 * sums;
  return std::int64_t{8} * task.words + 4 * sums;
}

/// Threads of a group, and the most bytes of shared memory that it keeps marks and sums in.
struct TaskClass {
  int lanes;
  int bytes;
};

/// The classes of tasks, in both phases: small ones by their lanes, then those of a bitmap and
/// those of words by what they take.
constexpr int kWarpSizes = 5, kBlockSizes = 4, kSizes = kWarpSizes + kBlockSizes;
constexpr int kFirstBitmap = kSmallSizes, kFirstWords = kFirstBitmap + kSizes,
              kClasses = kFirstWords + kSizes;
constexpr int kMostBytes = (8 + 4 * kWordCols) * kMostWords;
constexpr TaskClass limits_of(int of) {
  constexpr TaskClass all[kSizes] = {{32, 1 << 10},   {32, 2 << 10},   {32, 4 << 10},
                                     {32, 8 << 10},   {32, 16 << 10},  {256, 10 << 10},
                                     {256, 24 << 10}, {256, 52 << 10}, {512, kMostBytes}};
  return all[(of - kFirstBitmap) % kSizes];
}

/// How many classes, of kCount from kFirst on, have no room for so many bytes: the first of them.
/// Nothing is indexed: the device would keep the limits in local memory.
template <int kFirst, int kCount>
constexpr int too_small(int bytes) {
  if constexpr (kCount == 0) {
    return 0;
  } else {
    constexpr int kMost = limits_of(kFirst).bytes;
    return (bytes > kMost ? 1 : 0) + too_small<kFirst + 1, kCount - 1>(bytes);
  }
}

/// The class of a task that takes so many bytes.
constexpr int class_of(const Task& task, std::int64_t bytes) {
  if (task.keeping == Keeping::kLanes) return task.small_size;
  constexpr int kFirstBlock = kFirstBitmap + kWarpSizes;
  constexpr int kMostOfWarp = limits_of(kFirstBlock - 1).bytes;
  const int needed = bytes < kMostBytes ? static_cast<int>(bytes) : kMostBytes;
  const int size = task.is_heavy || needed > kMostOfWarp
                       ? kWarpSizes + too_small<kFirstBlock, kBlockSizes - 1>(needed)
                       : too_small<kFirstBitmap, kWarpSizes - 1>(needed);
  return (task.keeping == Keeping::kWords ? kFirstWords : kFirstBitmap) + size;
}
constexpr int mark_class(const Task& task) { return class_of(task, mark_bytes(task)); }
constexpr int sum_class(const Task& task, std::int64_t sums) {
  return class_of(task, sum_bytes(task, sums));
}

/// What is known of a row of C: its products, from the nonzeros of A from `begin` on and in how
/// many words of B's rows, in the columns [first, last].
struct RowFacts {
  std::int64_t products = 0;
  std::int64_t words = 0;
  std::int32_t begin = 0, nonzeros = 0;
  std::int32_t first = 0, last = 0;
};

/// Whether one task can keep what a row needs.
constexpr bool fits(const Task& task, std::int64_t products) {
  const int most = task.keeping == Keeping::kWords ? kMostRange : kMostWords;
  const std::int64_t columns = std::int64_t{task.kept} * kWordCols;
  return task.words <= most && sum_bytes(task, std::min(products, columns)) <= kMostBytes;
}

/// Cuts a row into slices of columns, if that leaves its segments of B's rows long enough, or it
/// has to be.
constexpr void cut_row(const RowFacts& facts, const Thresholds& many, RowPlan& plan) {
  Task& task = plan.whole;
  std::int64_t slices = std::min(parts(facts.products, many.slice),
                                 facts.products / (facts.nonzeros * kLengthOfSlice));
  slices = std::max(slices, parts(facts.nonzeros, kNonzerosOfSlice));
  if (slices > 1 || !fits(task, facts.products)) {
    task.keeping = Keeping::kBitmap;
    slices = std::max(slices, parts(task.words, kMostWords));
  }
  plan.slice_words =
      std::max(static_cast<int>(parts(task.words, slices)), std::min(task.words, int{kLeastWords}));
  plan.slices = static_cast<int>(parts(task.words, plan.slice_words));
  task.is_sliced = plan.slices > 1;
}

constexpr RowPlan plan_row(std::int32_t row, const RowFacts& facts, const Thresholds& many) {
  RowPlan plan;
  Task& task = plan.whole;
  task.row = row;
  task.begin = facts.begin;
  task.nonzeros = facts.nonzeros;
  if (facts.products <= kMostLanes && facts.nonzeros <= kMostLanes) {
    const std::int64_t lanes = std::max(facts.products, std::int64_t{facts.nonzeros});
    task.keeping = Keeping::kLanes;
    while (lanes > kLeastLanes << task.small_size) ++task.small_size;
    return plan;
  }
  if (facts.products == 0) return plan;
  task.first_word = facts.first / kWordCols;
  task.words = plan.slice_words = facts.last / kWordCols - task.first_word + 1;
  task.kept = static_cast<std::int32_t>(std::min(facts.words, std::int64_t{task.words}));
  // Going over the range's words costs about as much as finding those that are kept, and what they
  // take in shared memory other warps could use.
  const std::int64_t of_words = task.words / 32 + task.kept + facts.words / 2 + facts.products / 4;
  task.keeping = 2 * task.words > of_words ? Keeping::kWords : Keeping::kBitmap;
  const bool is_long = facts.products > many.slice || facts.nonzeros > kNonzerosOfSlice;
  if (is_long || !fits(task, facts.products)) cut_row(facts, many, plan);
  task.is_heavy =
      facts.products >= many.heavy * plan.slices && facts.products >= kHeavyLength * facts.nonzeros;
  return plan;
}

}  // namespace tessera::row_spgemm
