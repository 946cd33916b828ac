// row_spgemm's host half: how rows become tasks, and that a class has room for every task in it.

#include "kernels/row_spgemm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

TEST_CASE(
    "the tasks of a row have every column of its range once, and no more words than they may") {
  for (const auto& [products, nonzeros, first, last] : rows_of_many_sizes()) {
    const RowPlan plan = plan_row(7, products, nonzeros, first, last);
    REQUIRE(plan.slices >= 1);
    std::int64_t next = first / kWordCols;
    for (int slice = 0; slice < plan.slices; ++slice) {
      const Task task = plan.task(slice);
      REQUIRE(task.row == 7);
      REQUIRE(task.first_word == next);
      REQUIRE(task.words >= 1);
      REQUIRE((task.table >= 0 || task.words <= kMostWords));
      REQUIRE(task.is_sliced == (plan.slices > 1));
      next += task.words;
    }
    REQUIRE(next == last / kWordCols + 1);
  }
}

TEST_CASE("a task has room for its marks and its sums in the classes that it gets") {
  RandomSequence random(12);
  for (const auto& [products, nonzeros, first, last] : rows_of_many_sizes()) {
    const Task task = plan_row(0, products, nonzeros, first, last).task(0);
    const int mark = mark_class(task);
    REQUIRE(mark < kMarkClasses);
    const std::int64_t most =
        std::min<std::int64_t>(products, std::int64_t{task.words} * kWordCols);
    const auto sums = static_cast<int>(1 + random.unit() * static_cast<double>(most - 1));
    const int sum = sum_class(task, sums);
    REQUIRE(sum < kSumClasses);
    if (task.table >= 0) {
      // Words are never more than products: half of the slots stay free.
      REQUIRE(2 * products <= kLeastTable << task.table);
      REQUIRE(mark_limits(mark).bytes == 8 * (kLeastTable << task.table));
      REQUIRE(2 * sums <= kLeastTable << (sum - kSumTable));
    } else {
      REQUIRE(4 * task.words <= mark_limits(mark).bytes);
      REQUIRE(sum_bytes(task.words, sums) <= sum_limits(sum).bytes);
    }
  }
}

TEST_CASE("rows without products are one task of no words") {
  const RowPlan plan = plan_row(3, 0, 17, 0, 0);
  CHECK(plan.slices == 1);
  CHECK(plan.task(0).words == 0);
}

TEST_CASE("every class of tasks fits a thread block of an H200") {
  constexpr int kMostShared = 227 << 10, kSegmentBytes = 16, kThreads = 128;
  const auto bytes = [](const TaskClass& of) {
    const int groups = of.lanes > 32 ? 1 : kThreads / of.lanes;
    return groups * (of.bytes + of.lanes * kSegmentBytes);
  };
  for (int i = 0; i < kMarkClasses; ++i) CHECK(bytes(mark_limits(i)) <= kMostShared);
  for (int i = 0; i < kSumClasses; ++i) CHECK(bytes(sum_limits(i)) <= kMostShared);
}

TEST_CASE("row_spgemm's emulation is the oracle's chain of fused multiply-adds") {
  const CsrMatrix a = random_sparse(90, 70, 0.1, 1), b = random_sparse(70, 110, 0.1, 2);
  const auto kernel = Registry<SpgemmKernel>::instance().make("row_spgemm");
  CHECK(kernel->emulate(a, b, find_generation("hopper")) == spgemm_fp32(a, b));
}

}  // namespace
}  // namespace tessera
