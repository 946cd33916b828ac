// The plan of row_spgemm on the host: rows become tasks, and every task fits the shared memory of
// its class.

#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm/row/joint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>
#include <vector>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace row_spgemm;

struct Row {
  std::int64_t products, nonzeros;
  std::int32_t first, last;
};

/// Rows of all sizes. Each has at least as many products as nonzeros that meet one, and a product
/// in its first and in its last column.
std::vector<Row> rows_of_many_sizes() {
  std::vector<Row> rows{{1, 1, 0, 0}, {2, 1, 0, 1'000'000}, {2, 5000, 31, 32}};
  RandomSequence random(11);
  for (int i = 0; i < 20'000; ++i) {
    const auto up_to = [&](double most) {
      return static_cast<std::int64_t>(std::exp(random.unit() * std::log(most)));
    };
    const auto nonzeros = up_to(100'000), products = nonzeros * up_to(5000) + 1;
    const auto first = static_cast<std::int32_t>(up_to(1e6));
    const auto width = products == 1 ? 0 : static_cast<std::int32_t>(up_to(3e6));
    rows.push_back({products, nonzeros, first, first + width});
  }
  return rows;
}

RowFacts facts_of(const Row& row) {
  // An upper bound on the words.
  const std::int64_t words = row.nonzeros * (row.last / kWordCols - row.first / kWordCols + 1);
  return {.products = row.products,
          .words = std::min(row.products, words),
          .nonzeros = static_cast<std::int32_t>(row.nonzeros),
          .first = row.first,
          .last = row.last};
}

TEST_CASE("repeated products choose lists or portions as they were measured on an H200") {
  struct Case {
    WindowCounts counts;  // of all windows
    bool has_indices;
    double lists_us, portions_us;
  };
  const Case cases[] = {
      {{86515, 272022302, 105139, 12298612, 5712705}, true, 1766.7, 1225.2},  // fb-Cornell5
      {{79456, 117126458, 80662, 4592495, 1523217}, false, 649.1, 721.8},     // soc-Slashdot0902
      {{78248, 123492346, 78934, 5332369, 2139101}, false, 658.9, 733.7},     // gowalla-bip
      {{32460, 314681733, 96472, 10697112, 2320143}, false, 613.7, 1101.6},  // elast-dolphin5K-ref1
      {{5123, 8391680, 5123, 266389, 35861}, false, 48.4, 60.6},             // recon-mc2depi
      {{8356, 15495190, 8358, 700128, 311203}, false, 99.0, 94.6},           // coauthor_phy
      {{1374, 19350466, 5382, 638400, 118899}, false, 45.0, 76.1},           // bcsstk17
      {{10717, 30438636, 10717, 1054442, 256869}, false, 111.0, 141.4},      // wave
      {{33374, 96065788, 37945, 3403403, 996328}, true, 451.5, 433.6},       // cnr-2000
      {{1100, 1487421, 1100, 68696, 30882}, false, 21.7, 19.0},              // pubmed
  };
  for (const Case& one : cases) {
    CAPTURE(one.lists_us);
    CHECK(are_portions_faster(one.counts, one.has_indices, false) ==
          (one.portions_us < one.lists_us));
    CHECK(are_portions_faster(one.counts, one.has_indices, true));
  }
}

TEST_CASE(
    "the tasks of a row cover every column of its range once, within the limit of words per task") {
  for (const Row& row : rows_of_many_sizes()) {
    for (const Thresholds& many :
         {thresholds_for(10, 10, 10), thresholds_for(1 << 24, 1 << 24, 1)}) {
      const RowPlan plan = plan_row(7, facts_of(row), many);
      REQUIRE(plan.slices >= 1);
      REQUIRE(plan.whole.row == 7);
      if (plan.whole.storage == MarkStorage::kLanes) {
        REQUIRE(std::max(row.products, row.nonzeros) <= kLeastLanes << plan.whole.small_size);
        continue;
      }
      std::int64_t next = row.first / kWordCols;
      for (int slice = 0; slice < plan.slices; ++slice) {
        const Task task = slice_of(plan.whole, plan.slice_words, slice);
        REQUIRE(task.first_word == next);
        REQUIRE(task.words >= 1);
        REQUIRE(task.words <= (task.storage == MarkStorage::kWords ? kMostRange : kMostWords));
        REQUIRE(task.is_sliced == (plan.slices > 1));
        next += task.words;
      }
      REQUIRE(next == row.last / kWordCols + 1);
    }
  }
}

TEST_CASE("the class of a task has enough shared memory for its marks and its sums") {
  RandomSequence random(12);
  for (const Row& row : rows_of_many_sizes()) {
    const RowPlan plan = plan_row(0, facts_of(row), thresholds_for(1 << 20, 8, 1));
    Task task = slice_of(plan.whole, plan.slice_words, 0);
    REQUIRE(mark_class(task) < kClasses);
    REQUIRE(mark_bytes(task) <= launch_of(mark_class(task)).bytes);
    task.kept = static_cast<int>(1 + random.unit() * (task.kept - 1));
    const std::int64_t columns =
        std::int64_t{kWordCols} * (task.storage == MarkStorage::kWords ? task.kept : task.words);
    const auto most = static_cast<double>(std::min(row.products, columns) - 1);
    const auto sums = static_cast<std::int64_t>(1 + random.unit() * most);
    REQUIRE(sum_class(task, sums) < kClasses);
    REQUIRE(sum_bytes(task, sums) <= launch_of(sum_class(task, sums)).bytes);
  }
}

TEST_CASE("a task is in the first class of its kind that has as much shared memory as it needs") {
  for (const auto& [storage, first] : {std::pair{MarkStorage::kBitmap, int{kFirstBitmap}},
                                       std::pair{MarkStorage::kWords, int{kFirstWords}}})
    for (const bool is_heavy : {false, true}) {
      const Task task{.storage = storage, .is_heavy = is_heavy};
      int expected = first + (is_heavy ? kWarpSizes : 0);
      for (std::int64_t bytes = 0; bytes <= kMostBytes; ++bytes) {
        while (bytes > launch_of(expected).bytes) ++expected;
        if (class_of(task, bytes) != expected) REQUIRE(class_of(task, bytes) == expected);
      }
      CHECK(expected == first + kSizes - 1);
      CHECK(class_of(task, std::int64_t{1} << 40) == expected);
    }
  for (std::int8_t size = 0; size < kSmallSizes; ++size)
    CHECK(class_of(Task{.storage = MarkStorage::kLanes, .small_size = size}, 1) == size);
}

TEST_CASE("a row without products is one task without words") {
  const RowPlan plan = plan_row(3, {.nonzeros = 47}, thresholds_for(1, 1, 1));
  CHECK(plan.slices == 1);
  CHECK(plan.whole.words == 0);
}

TEST_CASE("a hub is a row of many short segments, and its task makes nothing") {
  Thresholds many = thresholds_for(1 << 20, 8, 1);
  const RowFacts facts{.products = 80'000, .nonzeros = 10'000, .last = 1000};
  CHECK_FALSE(plan_row(1, facts, many).is_hub);
  many.takes_hubs = true;
  const auto is_hub = [&](std::int64_t products, std::int64_t nonzeros) {
    RowFacts changed = facts;
    changed.products = products;
    changed.nonzeros = static_cast<std::int32_t>(nonzeros);
    return plan_row(1, changed, many).is_hub;
  };
  CHECK(is_hub(80'000, 10'000));
  CHECK(is_hub(1, 10'000));
  CHECK_FALSE(is_hub(0, 10'000));
  CHECK(is_hub(80'000, kNonzerosOfHub + 1));
  CHECK_FALSE(is_hub(80'000, kNonzerosOfHub));
  CHECK(is_hub(kLengthOfHub * 10'000, 10'000));
  CHECK_FALSE(is_hub(kLengthOfHub * 10'000 + 1, 10'000));
  CHECK(is_hub(kMostProductsOfHub, 1'000'000));
  CHECK_FALSE(is_hub(kMostProductsOfHub + 1, 1'000'000));

  const RowPlan plan = plan_row(1, facts, many);
  CHECK(plan.slices == 1);
  CHECK(plan.whole.words == 0);
  CHECK(plan.whole.nonzeros == 0);
  CHECK(mark_class(plan.whole) == sum_class(plan.whole, 1'000'000));
}

TEST_CASE("every class of tasks fits the shared memory of a thread block on an H200") {
  constexpr int kMostShared = 227 << 10, kSegmentBytes = 16, kThreads = 128;
  for (int i = kFirstBitmap; i < kClasses; ++i) {
    const GroupLaunch of = launch_of(i);
    const int groups = of.lanes > 32 ? 1 : kThreads / of.lanes;
    CHECK(of.groups() == groups);
    CHECK(of.shared_bytes() >= groups * (of.bytes + of.lanes * kSegmentBytes));
    CHECK(of.shared_bytes() <= kMostShared);
  }
}

TEST_CASE("a launch gives every task of a class to one group of threads, in order") {
  for (int i = kFirstBitmap; i < kClasses; ++i) {
    const GroupLaunch of = launch_of(i);
    int next = 0, memory = 0;
    for (int thread_block = 0; thread_block < 3; ++thread_block)
      for (int thread = 0; thread < of.threads(); ++thread) {
        const int group = of.group_of(thread);
        if (thread % of.lanes == 0) CHECK(of.task_of(thread_block, group) == next++);
        CHECK(of.task_of(thread_block, group) == next - 1);
        memory = group * of.group_bytes() + of.segment_bytes() + of.bytes;
        CHECK(memory <= of.shared_bytes());
      }
    CHECK(of.thread_blocks(next) == 3);
    CHECK(of.thread_blocks(next + 1) == 4);
  }
}

TEST_CASE("a launch over rows gives every row to neighbouring lanes of one warp, in order") {
  for (const int lanes : {1, 4, 8, 16, 32}) {
    const LaunchShape shape = row_launch(lanes);
    for (int thread = 0; thread < 3 * kRowThreads; ++thread)
      CHECK(shape.item_of(thread / kRowThreads, thread % kRowThreads) == thread / lanes);
    CHECK(shape.thread_blocks(3 * shape.items()) == 3);
    CHECK(shape.thread_blocks(3 * shape.items() + 1) == 4);
  }
  CHECK(lanes_for(40, 10) == 4);
  CHECK(lanes_for(41, 10) == 8);
  CHECK(lanes_for(161, 10) == 32);
  CHECK(!needs_warp(32, 8));
  CHECK(needs_warp(33, 8));
  CHECK(!needs_warp(INT_MAX, 32));
}

TEST_CASE("the search for a slice finds the segment's words in it") {
  const std::vector<std::int32_t> words{0, 0, 3, 4, 4, 7, 9, 9, 9, 12};
  const Segment all{2, static_cast<int>(words.size())};  // from place 2 on
  for (int first = 0; first < 14; ++first)
    for (int size = 1; size < 14; ++size) {
      const Task slice{.first_word = first, .words = size};
      Segment found = all;
      cut_segment(found, slice, [&](int at) { return words.at(at - 2); });
      const auto begin = std::ranges::lower_bound(words, first);
      const auto end = std::ranges::lower_bound(words, first + size);
      CHECK(found.begin == 2 + (begin - words.begin()));
      CHECK(found.length == end - begin);
    }
}

TEST_CASE("classes are launched from the largest on, with the places of their sorted tasks") {
  std::vector<std::int64_t> counts(kClasses);
  counts[1] = 5;
  counts[4] = 2;
  counts[kClasses - 1] = 3;
  std::vector<std::vector<std::int64_t>> launched;
  for_launched_classes(counts, [&](std::int64_t of, std::int64_t first, std::int64_t count) {
    launched.push_back({of, first, count});
  });
  CHECK(launched ==
        std::vector<std::vector<std::int64_t>>{{kClasses - 1, 7, 3}, {4, 5, 2}, {1, 0, 5}});
}

TEST_CASE("the code of a kept product holds its indices in A and in B") {
  CHECK(index_bits(0) == 0);
  CHECK(index_bits(1) == 0);
  CHECK(index_bits(2) == 1);
  CHECK(index_bits(1 << 20) == 20);
  CHECK(index_bits((1 << 20) + 1) == 21);
  CHECK(index_bits(INT_MAX) == 31);
  CHECK(bytes_of_a(INT_MAX, 1) == 0);
  CHECK(bytes_of_a(1 << 12, 1 << 20) == 0);
  CHECK(bytes_of_a((1 << 12) + 1, 1 << 20) == 2);
  CHECK(bytes_of_a(1 << 12, (1 << 20) + 1) == 2);
  CHECK(bytes_of_a(1 << 16, 1 << 20) == 2);
  CHECK(bytes_of_a((1 << 16) + 1, 1 << 20) == 4);
  CHECK(bytes_of_a((1 << 16) + 1, 1 << 15) == 0);
  CHECK(bytes_of_a(2, INT_MAX) == 0);
  CHECK(bytes_of_a(3, INT_MAX) == 2);
}

TEST_CASE("the emulation of row_spgemm has the bits of the oracle's fused multiply-adds") {
  const CsrMatrix a = random_sparse(90, 70, 0.1, 1), b = random_sparse(70, 110, 0.1, 2);
  const auto kernel = Registry<SpgemmKernel>::instance().make("row_spgemm");
  CHECK(kernel->emulate(a, b, find_generation("hopper")) == spgemm_fp32(a, b));
}

TEST_CASE("a joint launch has every class once but those of more threads, within its limits") {
  std::vector<int> visits(kClasses, 0), of_lanes;
  for_joint_classes([&](int of) {
    CAPTURE(of);
    ++visits[static_cast<std::size_t>(of)];
    CHECK(joint_bytes(of) <= kMostJointBytes);
    const int lanes = of < kSmallSizes ? kLeastLanes << of : launch_of(of).lanes;
    of_lanes.push_back(lanes);
    CHECK(joint_groups(of) >= 1);
    CHECK(joint_groups(of) * lanes <= kJointThreads);
  });
  CHECK(std::is_sorted(of_lanes.rbegin(), of_lanes.rend()));  // the longest tasks first
  for (int of = 0; of < kClasses; ++of) {
    CAPTURE(of);
    CHECK(visits[static_cast<std::size_t>(of)] == (is_joint_class(of) ? 1 : 0));
    if (!is_joint_class(of)) CHECK(launch_of(of).threads() > kJointThreads);
  }
}

TEST_CASE("a multiprocessor has room for as many thread blocks of a class as registers for them") {
  // An H200's multiprocessor, what each thread block takes of it, and what kernels have for sums
  // over warps.
  constexpr int kOfMultiprocessor = 228 << 10, kOfBlock = 1 << 10, kScratch = 64;
  for (int of = kFirstBitmap; of < kClasses; ++of) {
    CAPTURE(of);
    if (launch_of(of).lanes == kJointThreads)
      CHECK(kJointBlocksOfSm * (launch_of(of).shared_bytes() + kOfBlock + kScratch) <=
            kOfMultiprocessor);
  }
}

TEST_CASE("sums lie at the places of their columns where few columns have none") {
  Task task{.words = 100, .storage = MarkStorage::kBitmap, .is_heavy = true};
  const int columns = task.words * kWordCols;
  CHECK(sums_lie_at_columns(task, columns));
  CHECK(sums_lie_at_columns(task, columns * 3 / 4));
  CHECK_FALSE(sums_lie_at_columns(task, columns * 3 / 4 - 1));
  task.is_heavy = false;  // a warp's
  CHECK_FALSE(sums_lie_at_columns(task, columns));
  task.is_heavy = true;
  task.storage = MarkStorage::kWords;
  CHECK_FALSE(sums_lie_at_columns(task, columns));
  // A larger class would have fewer thread blocks side by side.
  Task wide{.words = 400, .storage = MarkStorage::kBitmap, .is_heavy = true};
  const int all = wide.words * kWordCols;
  CHECK(sum_class(wide, all) > sum_class(wide, all * 3 / 4));
  CHECK_FALSE(sums_lie_at_columns(wide, all * 3 / 4));
  CHECK(sums_lie_at_columns(wide, all));
}

}  // namespace
}  // namespace tessera
