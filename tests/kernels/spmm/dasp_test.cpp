// The host half of dasp: its packing has every nonzero once, its emulation follows its definition.

#include "kernels/spmm/dasp/dasp.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using dasp::Task;

/// Rows of every class, the long ones of one part and of several.
CsrMatrix rows_of_every_length() {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  const CsrMatrix full = random_sparse(60, 700, 1.0, 1);
  std::int32_t row = 0;
  for (const std::int64_t length :
       {0,   1,   2,   3,   4, 5, 6, 8, 9, 16, 17, 30, 31, 1, 63, 64, 65, 99, 100, 101, 127,
        128, 129, 300, 700, 4, 4, 0, 2, 1, 3,  4,  2,  3,  1, 1,  2,  3,  4,  8,   12}) {
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t col = k * 700 / length;
      cols.push_back(static_cast<std::int32_t>(col));
      values.push_back(full.row_values(row)[static_cast<std::size_t>(col)]);
    }
    offsets.push_back(std::ssize(cols));
    ++row;
  }
  return {row, 700, std::move(offsets), std::move(cols), std::move(values)};
}

const Params::Given kShortParts{{"long_row", std::int64_t{100}}, {"part", std::int64_t{130}}};

std::unique_ptr<SpmmKernel> kernel_of(const Params::Given& params = kShortParts) {
  return Registry<SpmmKernel>::instance().make("dasp", params);
}

dasp::Packing pack(const CsrMatrix& a) {
  return {a, dasp::DaspOptions(Registry<SpmmKernel>::instance().resolve("dasp", kShortParts))};
}

/// A chain of m16n8k8 over every `apart`-th eight of the terms.
float chain(std::span<const float> left, std::span<const float> right, std::size_t first,
            std::size_t apart) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kFp16);
  float sum = 0;
  for (; first < left.size(); first += apart) {
    const std::size_t count = std::min<std::size_t>(8, left.size() - first);
    sum = fused_dot_add(step, left.subspan(first, count), right.subspan(first, count), sum);
  }
  return sum;
}

float definition(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j) {
  std::vector<float> left, right;
  for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k) {
    left.push_back(convert(a.values[k], Conversion::kFp16));
    right.push_back(convert(b.at(a.col_indices[k], j), Conversion::kFp16));
  }
  if (left.size() < 100) return chain(left, right, 0, 8);
  float total = 0;
  for (std::size_t first = 0; first < left.size(); first += 130) {
    const std::size_t count = std::min<std::size_t>(130, left.size() - first);
    float slots[8];
    for (std::size_t slot = 0; slot < 8; ++slot)
      slots[slot] = chain(std::span(left).subspan(first, count),
                          std::span(right).subspan(first, count), 8 * slot, 64);
    const float sum = ((slots[0] + slots[1]) + (slots[2] + slots[3])) +
                      ((slots[4] + slots[5]) + (slots[6] + slots[7]));
    total = first == 0 ? sum : total + sum;
  }
  return std::isnan(total) ? std::bit_cast<float>(0x7fffffff) : total;
}

void check_bits(const CsrMatrix& a, const DenseMatrix& b) {
  const DenseMatrix c = kernel_of()->emulate(CsrPacked(a), b, find_generation("hopper"));
  REQUIRE(c.rows == a.rows);
  REQUIRE(c.cols == b.cols);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(definition(a, b, i, j)));
    }
}

TEST_CASE("dasp's emulation gives the bits of its definition for rows of every class") {
  const CsrMatrix a = rows_of_every_length();
  for (const std::int64_t n : {1, 2, 5, 8}) check_bits(a, random_dense(700, n, 2));
  check_bits(random_sparse(20, 20, 0.0, 3), random_dense(20, 3, 4));
}

TEST_CASE("dasp's emulation honours NaN, infinities, overflow of FP16 and vanishing values") {
  const CsrMatrix a = rows_of_every_length();
  DenseMatrix b = random_dense(700, 6, 6);
  b.at(0, 1) = std::numeric_limits<float>::quiet_NaN();
  b.at(350, 2) = std::numeric_limits<float>::infinity();
  b.at(350, 3) = 70000;  // infinite in FP16
  for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, 4) *= 0x1p-126f;
  for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, 5) *= 0x1p-24f;

  check_bits(a, b);
}

TEST_CASE("dasp packs every nonzero once, in the slot of its row") {
  const CsrMatrix a = rows_of_every_length();
  const dasp::Packing packing = pack(a);
  std::vector<std::int32_t> row_of(static_cast<std::size_t>(a.nnz()));
  for (std::int32_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k) row_of[k] = i;

  std::set<std::int64_t> seen;
  std::multiset<std::int32_t> rows;
  std::uint32_t next = 0;
  for (const Task& task : packing.tasks) {
    CHECK(task.first == next);
    next = task.last;
    if (task.kind == Task::kShort) CHECK(task.last == task.first + 1);
    for (std::uint32_t chunk = task.first; chunk < task.last; ++chunk)
      for (int slot = 0; slot < dasp::kSlots; ++slot)
        for (int place = 0; place < dasp::kDepth; ++place) {
          const std::size_t at =
              chunk * dasp::kPlaces + static_cast<std::size_t>(dasp::place_of(slot, place));
          const std::int64_t nonzero = packing.nonzeros[at];
          CHECK((nonzero < 0) == (packing.col_indices[at] == kNoColumn));
          if (nonzero < 0) continue;
          CHECK(seen.insert(nonzero).second);
          CHECK(packing.col_indices[at] == a.col_indices[nonzero]);
          if (task.kind == Task::kLong) continue;
          const int second = task.kind == Task::kShort && place >= dasp::kShortRow ? 8 : 0;
          CHECK(packing.rows[task.index + static_cast<std::uint32_t>(slot + second)] ==
                row_of[nonzero]);
        }
  }
  for (const std::int32_t row : packing.rows)
    if (row != dasp::kNoRow) rows.insert(row);
  for (const dasp::LongRow& row : packing.long_rows) rows.insert(row.row);

  CHECK(next == packing.num_chunks());
  CHECK(std::ssize(seen) == a.nnz());
  CHECK(std::ssize(rows) == a.rows);
  CHECK(std::set<std::int32_t>(rows.begin(), rows.end()).size() == rows.size());
  CHECK(packing.long_rows.size() == 7);  // 100, 101, 127, 128, 129, 300 and 700
  CHECK(packing.num_parts == 5 + 3 + 6);
}

TEST_CASE("dasp stays within its error bound, and a wrong element breaks it") {
  const CsrMatrix a = rows_of_every_length();
  const DenseMatrix b = random_dense(700, 8, 12);
  const Permutation order = Permutation::identity(a.rows);
  const std::string generation = "hopper";

  for (const Params::Given& params : {kShortParts, Params::Given{}}) {
    const auto kernel = kernel_of(params);
    const CsrPacked packed(a);
    DenseMatrix c = kernel->emulate(packed, b, find_generation(generation));
    CHECK(check_result(a, b, c, {*kernel, packed, order, generation}).reason == "");
    c.at(5, 7) += 1;
    CHECK(check_result(a, b, c, {*kernel, packed, order, generation}).reason != "");
  }
}

TEST_CASE("dasp's work counts its chunks, and it refuses more than eight columns") {
  const CsrMatrix a = rows_of_every_length();
  std::int64_t shorts = 0, longs = 0, chunks = 0;
  std::vector<std::int64_t> medium;
  for (std::int32_t i = 0; i < a.rows; ++i) {
    const std::int64_t nnz = a.row_length(i);
    shorts += nnz <= 4;
    longs += nnz >= 100;
    if (nnz > 4 && nnz < 100) medium.push_back(nnz);
    for (std::int64_t k = 0; nnz >= 100 && k < nnz; k += 130)
      chunks += (std::min<std::int64_t>(130, nnz - k) + 63) / 64;
  }
  std::ranges::sort(medium, std::greater());
  for (std::size_t i = 0; i < medium.size(); i += 8) chunks += (medium[i] + 7) / 8;
  chunks += 2 * ((shorts + 15) / 16);  // which take two MMAs each
  REQUIRE(longs == 7);

  for (const std::int64_t n : {1, 2, 3, 8}) {
    const WorkDescription work = kernel_of()->work(CsrPacked(a), n);
    CHECK(work.total().mma == chunks * ((n + 1) / 2));
    CHECK(work.total().c_bytes == 4 * n * a.rows);
    CHECK(work.total().b_bytes <= 4 * n * a.nnz());
    CHECK(work.launches.size() == 2);
  }
  CHECK(kernel_of({})->work(CsrPacked(random_sparse(50, 50, 0.2, 21)), 4).launches.size() == 1);
  CHECK_THROWS_AS(kernel_of()->work(CsrPacked(a), 9), Unsupported);
  CHECK_THROWS_AS(
      kernel_of()->emulate(CsrPacked(a), random_dense(700, 9, 22), find_generation("hopper")),
      Unsupported);
}

}  // namespace
}  // namespace tessera
