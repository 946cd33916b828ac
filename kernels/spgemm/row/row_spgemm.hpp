// row_spgemm: SpGEMM row by row, ours, for scattered rows. This file holds its options and its
// plan: how the rows of C become tasks. kernels/spgemm/row/schedule.hpp says which threads do a
// task.
//
// A row of C is found in two phases. Both mark the row's columns in a bitmap over the range that
// its products span. Where the range is wide and the products are few, the kernel keeps only those
// words of the bitmap that have marks, and finds them through a bitmap of words, the directory. The
// first phase counts the marks. In the second phase the rank of a column (the marks in earlier
// words, and those below it in its own word) is the index of its sum. Sums therefore need no
// search, no sort and no atomics. They come out in the order of their columns, and each is one
// chain of fused multiply-adds in the order of A's columns, for any scheduling: C has the bits of
// multiply_rows(). The products of a hub, a row with thousands of nonzeros of A, are sorted by
// column instead, which takes the whole device. Rows of at most 32 products need no bitmap: each
// lane holds one product and compares its column with those of its neighbours. The analysis of rows
// and the dense sums over the range of their columns are spECK's (Parger et al. 2020), the two
// phases are Nsparse's (Nagasaka et al. 2017). Ranks in place of keys and sorting are ours.
//
// With keeps=lists, the second phase lists the products of each nonzero of C, and a gather makes
// the sums: kernels/spgemm/row/lists.cuh. With keeps=portions, C's structure is enough to find the
// place of each product in shared memory: kernels/spgemm/row/portions.cuh. With keeps=products the
// lengths of lists say which of them is faster. With keeps=positions, the second phase writes the
// place of each product's sum: kernels/spgemm/row/positions.cuh. Under a mask there are no tasks:
// kernels/spgemm/row/masked.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "formats/base/params.hpp"
#include "kernels/named_values.hpp"
#include "kernels/spgemm/row/schedule.hpp"

namespace tessera::row_spgemm {

/// The parameters of the kernel.
/// What a product keeps for products with other values.
enum class Keeps : std::int8_t {
  kStructure,  // its tasks
  kProducts,   // lists or portions of products, whichever is faster
  kLists,
  kPortions,
  kPositions,  // the places of sums
};
inline constexpr NamedValue<Keeps> kKeeps[] = {{"structure", Keeps::kStructure},
                                               {"products", Keeps::kProducts},
                                               {"lists", Keeps::kLists},
                                               {"portions", Keeps::kPortions},
                                               {"positions", Keeps::kPositions}};

struct RowSpgemmOptions {
  explicit RowSpgemmOptions(const Params& params)
      : is_wide(params.text("precision") == "fp64"),
        reuse(params.flag("reuse")),
        keeps(value_of(kKeeps, params.text("keeps"))),
        workspace_limit(params.integer("workspace_limit")) {}

  /// True when the lengths of lists of products are counted, from which sums may be made.
  bool lists() const { return reuse && (keeps == Keeps::kLists || keeps == Keeps::kProducts); }
  /// True when sums are made from positions.
  bool positions() const { return reuse && keeps == Keeps::kPositions; }
  /// True when sums are made from portions of products.
  bool portions() const { return reuse && keeps == Keeps::kPortions; }
  /// True when more than the tasks are kept.
  bool keeps_more() const { return reuse && keeps != Keeps::kStructure; }

  bool is_wide;                  // values and sums are in FP64
  bool reuse;                    // a product is kept for products with other values
  Keeps keeps;                   // in this form
  std::int64_t workspace_limit;  // in bytes, beside C; 0: no limit
};

/// Words of the widest column range of a task that keeps only words with marks.
constexpr int kMostRange = 1 << 16;
/// A row with more nonzeros of A than this is cut into slices of columns, one task each. A row of
/// many products is cut, too, where its segments of B's rows keep a mean length of kLengthOfSlice.
constexpr std::int64_t kNonzerosOfSlice = 1024, kLengthOfSlice = 12;
constexpr int kLeastWords = 8;  // of a slice
/// Marks and sums of a slice probably take at most this much shared memory, a little less than
/// their class has, so that an SM works on four slices side by side, and some of them compute while
/// others wait for loads.
constexpr std::int64_t kBytesOfSlice = 48 << 10;
/// A task of many products gets a thread block if its segments have this mean length: a thread
/// block takes at least one step per segment.
constexpr std::int64_t kHeavyLength = 8;
/// A hub is a row with more nonzeros of A than this, whose segments of B's rows have at most this
/// mean length: slices would take longer to find their few products in each segment than to sort
/// all of them by column (hubs.cuh). In limited memory, a hub's slices get thread blocks.
constexpr std::int64_t kNonzerosOfHub = 8192, kLengthOfHub = 256;
/// The most products of all hubs, for which their lists take 1.6 GB, and those of one hub.
constexpr std::int64_t kMostHubProducts = 1 << 26, kMostProductsOfHub = 1 << 24;

/// The numbers of products that count as many. They shrink with the product, so that a small one
/// uses the whole device, too.
struct Thresholds {
  std::int64_t heavy;       // of a task
  std::int64_t slice;       // of a row
  bool takes_hubs = false;  // hubs are no tasks
  int sum_size = kSumSize;  // bytes of a sum
};
/// Estimates the number of all products from the mean length of B's rows.
constexpr Thresholds thresholds_for(std::int64_t nonzeros_of_a, std::int64_t nonzeros_of_b,
                                    std::int64_t rows_of_b) {
  const double products = static_cast<double>(nonzeros_of_a) * static_cast<double>(nonzeros_of_b) /
                          static_cast<double>(std::max(rows_of_b, std::int64_t{1}));
  constexpr double kTasksOfDevice = 2048, kSlicesOfDevice = 256;
  return {static_cast<std::int64_t>(std::clamp(products / kTasksOfDevice, 1024.0, 4096.0)),
          static_cast<std::int64_t>(std::clamp(products / kSlicesOfDevice, 8192.0, 1048576.0))};
}

/// True when the words of B's rows are made only once a task needs them: there are many words, and
/// most tasks will be small ones, which need none.
constexpr bool words_can_wait(std::int64_t nonzeros_of_a, std::int64_t rows_of_a,
                              std::int64_t nonzeros_of_b, std::int64_t rows_of_b) {
  constexpr double kFewProducts = 20, kManyWords = 1 << 19;
  return static_cast<double>(nonzeros_of_b) > kManyWords &&
         static_cast<double>(nonzeros_of_a) * static_cast<double>(nonzeros_of_b) <
             kFewProducts * static_cast<double>(rows_of_a) * static_cast<double>(rows_of_b);
}

/// Bits of an index below `count`.
constexpr int index_bits(std::int64_t count) {
  return static_cast<int>(
      std::bit_width(static_cast<std::uint64_t>(std::max(count, std::int64_t{1}) - 1)));
}

/// The bytes that the code of a kept product takes beside its first 4: 0 where 4 bytes hold both
/// its index in B and that among `span` nonzeros of A, else 2 or 4 for the index in A.
constexpr int bytes_of_a(std::int64_t span, std::int64_t nonzeros_of_b) {
  if (span <= std::int64_t{1} << (32 - index_bits(nonzeros_of_b))) return 0;
  return span <= 1 << 16 ? 2 : 4;
}

/// Products that shared memory has room for, with both factors of each: a portion.
constexpr int kProductsOfPortion = 4096;

/// Counts over sampled windows of 1024 nonzeros of C, from which the costs of lists and of portions
/// follow. In a step, a warp gathers one product of each of its 32 lists.
struct WindowCounts {
  unsigned long long windows, products, portions;
  unsigned long long steps, steps_of_warp;  // of all warps, and of that with the longest lists
};

/// True when a product is repeated from portions, not from lists. The costs are ns that one window
/// takes of a multiprocessor of an H200, fitted to the times of 15 products of 4000 windows or more
/// (17 % off at most). Lists wait for the longest of a window; portions take the same time for each
/// product. `has_indices` says that indices in A take bytes of their own, `is_one_wave` that each
/// multiprocessor gets one window at most: four times as many warps work on a window of portions.
constexpr bool are_portions_faster(const WindowCounts& of, bool has_indices, bool is_one_wave) {
  const auto cost = [](double weight, unsigned long long count) {
    return weight * static_cast<double>(count);
  };
  const double of_lists =
      cost(750, of.windows) + cost(has_indices ? 9 : 4, of.steps) + cost(6, of.steps_of_warp);
  const double of_portions = cost(900, of.portions) + cost(7.0 / 32, of.products);
  constexpr double kTie = 0.97;  // portions take less memory and less time to make
  return is_one_wave || of_lists > kTie * of_portions;
}

/// The tasks of a row, which differ only in their words.
struct RowPlan {
  Task whole;                    // the whole row as one task
  std::int32_t slice_words = 0;  // of each task but the last
  std::int32_t slices = 1;
  bool is_hub = false;  // the task has no words: hubs.cuh makes the row
};

/// Task `slice` of a row.
constexpr Task slice_of(const Task& whole, std::int32_t slice_words, int slice) {
  Task task = whole;
  task.first_word += slice * slice_words;
  task.words = std::min(slice_words, whole.words - slice * slice_words);
  task.kept = std::min(whole.kept, task.words);
  return task;
}

/// The analysis of a row of C: its products, their words of B's rows, its nonzeros of A from
/// `begin` on, and its column range [first, last].
struct RowFacts {
  std::int64_t products = 0;
  std::int64_t words = 0;
  std::int32_t begin = 0, nonzeros = 0;
  std::int32_t first = 0, last = 0;
};

/// True when the shared memory of one task suffices for the row.
constexpr bool fits(const Task& task, std::int64_t products, int sum_size) {
  const int most = task.storage == MarkStorage::kWords ? kMostRange : kMostWords;
  const std::int64_t columns = std::int64_t{task.kept} * kWordCols;
  return task.words <= most && sum_bytes(task, std::min(products, columns), sum_size) <= kMostBytes;
}

/// Cuts a row into slices of columns where its segments of B's rows stay long enough, or where it
/// does not fit otherwise.
constexpr void cut_row(const RowFacts& facts, const Thresholds& many, RowPlan& plan) {
  Task& task = plan.whole;
  std::int64_t slices = std::min(parts(facts.products, many.slice),
                                 facts.products / (facts.nonzeros * kLengthOfSlice));
  slices = std::max(slices, parts(facts.nonzeros, kNonzerosOfSlice));
  if (slices > 1 || !fits(task, facts.products, many.sum_size)) {
    task.storage = MarkStorage::kBitmap;
    // A word of C may have as many columns as the products of a word of B on average, everywhere
    // in the range or only in a part of it.
    const std::int64_t columns = std::int64_t{task.words} * kWordCols;
    const std::int64_t of_word = std::min<std::int64_t>(
        kWordCols, parts(facts.products, std::max(facts.words, std::int64_t{1})));
    const std::int64_t sums = std::max(std::min(facts.products, columns), of_word * task.words);
    slices = std::max({slices, parts(task.words, most_words(many.sum_size)),
                       parts(sum_bytes(task, sums, many.sum_size), kBytesOfSlice)});
  }
  plan.slice_words =
      std::max(static_cast<int>(parts(task.words, slices)), std::min(task.words, int{kLeastWords}));
  plan.slices = static_cast<int>(parts(task.words, plan.slice_words));
  task.is_sliced = plan.slices > 1;
}

/// True for a row that is no task where hubs are sorted.
constexpr bool is_hub(std::int64_t products, std::int64_t nonzeros, const Thresholds& many) {
  return many.takes_hubs && nonzeros > kNonzerosOfHub && products > 0 &&
         products <= kMostProductsOfHub && products <= kLengthOfHub * nonzeros;
}

constexpr RowPlan plan_row(std::int32_t row, const RowFacts& facts, const Thresholds& many) {
  RowPlan plan;
  Task& task = plan.whole;
  task.row = row;
  task.begin = facts.begin;
  task.nonzeros = facts.nonzeros;
  if (facts.products <= kMostLanes && facts.nonzeros <= kMostLanes) {
    const std::int64_t lanes = std::max(facts.products, std::int64_t{facts.nonzeros});
    task.storage = MarkStorage::kLanes;
    while (lanes > kLeastLanes << task.small_size) ++task.small_size;
    return plan;
  }
  if (facts.products == 0) return plan;
  if (is_hub(facts.products, facts.nonzeros, many)) {
    plan.is_hub = true;
    task.nonzeros = 0;
    return plan;
  }
  task.first_word = facts.first / kWordCols;
  task.words = plan.slice_words = facts.last / kWordCols - task.first_word + 1;
  task.kept = static_cast<std::int32_t>(std::min(facts.words, std::int64_t{task.words}));
  // Scanning the range's words costs about as much as finding those that are kept, and they take
  // shared memory that other warps could use.
  const std::int64_t of_words = task.words / 32 + task.kept + facts.words / 2 + facts.products / 4;
  task.storage = 2 * task.words > of_words ? MarkStorage::kWords : MarkStorage::kBitmap;
  const bool is_long = facts.products > many.slice || facts.nonzeros > kNonzerosOfSlice;
  if (is_long || !fits(task, facts.products, many.sum_size)) cut_row(facts, many, plan);
  task.is_heavy =
      facts.nonzeros > kNonzerosOfHub || (facts.products >= many.heavy * plan.slices &&
                                          facts.products >= kHeavyLength * facts.nonzeros);
  return plan;
}

}  // namespace tessera::row_spgemm
