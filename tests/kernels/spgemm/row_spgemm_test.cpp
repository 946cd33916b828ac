// row_spgemm's host half: how rows become tasks, and that a class has room for every task in it.

#include "kernels/spgemm/row/row_spgemm.hpp"

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

/// Rows of all sizes: each has at least as many products as nonzeros that meet any, and at least
/// one product in its first and in its last column.
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
  // As many words as there can be.
  const std::int64_t words = row.nonzeros * (row.last / kWordCols - row.first / kWordCols + 1);
  return {.products = row.products,
          .words = std::min(row.products, words),
          .nonzeros = static_cast<std::int32_t>(row.nonzeros),
          .first = row.first,
          .last = row.last};
}

TEST_CASE(
    "the tasks of a row have every column of its range once, and no more words than they may") {
  for (const Row& row : rows_of_many_sizes()) {
    for (const Thresholds& many :
         {thresholds_for(10, 10, 10), thresholds_for(1 << 24, 1 << 24, 1)}) {
      const RowPlan plan = plan_row(7, facts_of(row), many);
      REQUIRE(plan.slices >= 1);
      REQUIRE(plan.whole.row == 7);
      if (plan.whole.keeping == Keeping::kLanes) {
        REQUIRE(std::max(row.products, row.nonzeros) <= kLeastLanes << plan.whole.small_size);
        continue;
      }
      std::int64_t next = row.first / kWordCols;
      for (int slice = 0; slice < plan.slices; ++slice) {
        const Task task = slice_of(plan.whole, plan.slice_words, slice);
        REQUIRE(task.first_word == next);
        REQUIRE(task.words >= 1);
        REQUIRE(task.words <= (task.keeping == Keeping::kWords ? kMostRange : kMostWords));
        REQUIRE(task.is_sliced == (plan.slices > 1));
        next += task.words;
      }
      REQUIRE(next == row.last / kWordCols + 1);
    }
  }
}

TEST_CASE("a task has room for its marks and its sums in the classes that it gets") {
  RandomSequence random(12);
  for (const Row& row : rows_of_many_sizes()) {
    const RowPlan plan = plan_row(0, facts_of(row), thresholds_for(1 << 20, 8, 1));
    Task task = slice_of(plan.whole, plan.slice_words, 0);
    REQUIRE(mark_class(task) < kClasses);
    REQUIRE(mark_bytes(task) <= limits_of(mark_class(task)).bytes);
    task.kept = static_cast<int>(1 + random.unit() * (task.kept - 1));
    const std::int64_t columns =
        std::int64_t{kWordCols} * (task.keeping == Keeping::kWords ? task.kept : task.words);
    const auto most = static_cast<double>(std::min(row.products, columns) - 1);
    const auto sums = static_cast<std::int64_t>(1 + random.unit() * most);
    REQUIRE(sum_class(task, sums) < kClasses);
    REQUIRE(sum_bytes(task, sums) <= limits_of(sum_class(task, sums)).bytes);
  }
}

TEST_CASE("a task's class is the first of its kind that has room for its bytes") {
  for (const auto& [keeping, first] : {std::pair{Keeping::kBitmap, int{kFirstBitmap}},
                                       std::pair{Keeping::kWords, int{kFirstWords}}})
    for (const bool is_heavy : {false, true}) {
      const Task task{.keeping = keeping, .is_heavy = is_heavy};
      int expected = first + (is_heavy ? kWarpSizes : 0);
      for (std::int64_t bytes = 0; bytes <= kMostBytes; ++bytes) {
        while (bytes > limits_of(expected).bytes) ++expected;
        if (class_of(task, bytes) != expected) REQUIRE(class_of(task, bytes) == expected);
      }
      CHECK(expected == first + kSizes - 1);
      CHECK(class_of(task, std::int64_t{1} << 40) == expected);
    }
  for (std::int8_t size = 0; size < kSmallSizes; ++size)
    CHECK(class_of(Task{.keeping = Keeping::kLanes, .small_size = size}, 1) == size);
}

TEST_CASE("rows without products are one task of no words") {
  const RowPlan plan = plan_row(3, {.nonzeros = 47}, thresholds_for(1, 1, 1));
  CHECK(plan.slices == 1);
  CHECK(plan.whole.words == 0);
}

TEST_CASE("every class of tasks fits a thread block of an H200") {
  constexpr int kMostShared = 227 << 10, kSegmentBytes = 16, kThreads = 128;
  for (int i = kFirstBitmap; i < kClasses; ++i) {
    const TaskClass of = limits_of(i);
    const int groups = of.lanes > 32 ? 1 : kThreads / of.lanes;
    CHECK(groups * (of.bytes + of.lanes * kSegmentBytes) <= kMostShared);
  }
}

TEST_CASE("the code of a kept product has room for its places in A and in B") {
  CHECK(bits_of_place(0) == 0);
  CHECK(bits_of_place(1) == 0);
  CHECK(bits_of_place(2) == 1);
  CHECK(bits_of_place(1 << 20) == 20);
  CHECK(bits_of_place((1 << 20) + 1) == 21);
  CHECK(bits_of_place(INT_MAX) == 31);
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

TEST_CASE("row_spgemm's emulation is the oracle's chain of fused multiply-adds") {
  const CsrMatrix a = random_sparse(90, 70, 0.1, 1), b = random_sparse(70, 110, 0.1, 2);
  const auto kernel = Registry<SpgemmKernel>::instance().make("row_spgemm");
  CHECK(kernel->emulate(a, b, find_generation("hopper")) == spgemm_fp32(a, b));
}

}  // namespace
}  // namespace tessera
