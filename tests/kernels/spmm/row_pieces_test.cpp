// The host halves of the FP32 kernels over row parts: their cuts, their emulation and their work
// description. Each is compared with sums that follow its definition element by element.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/row_pieces/dgsparse.hpp"
#include "kernels/spmm/row_pieces/gespmm.hpp"
#include "kernels/spmm/row_pieces/hp_spmm.hpp"
#include "kernels/spmm/row_pieces/merge_spmm.hpp"
#include "kernels/spmm/row_pieces/rode.hpp"
#include "kernels/spmm/row_pieces/row_split.hpp"
#include "kernels/spmm/row_pieces/sputnik.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using row_pieces::Method;
using row_pieces::Plan;
using row_pieces::RowPart;

std::string text(const char* value) { return value; }

/// Rows of these lengths, one after another and again; columns and values by chance.
CsrMatrix rows_of(const std::vector<std::int64_t>& lengths, std::int32_t rows, std::int32_t cols,
                  std::uint64_t seed) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  RandomSequence random(seed);
  for (std::int32_t i = 0; i < rows; ++i) {
    std::vector<std::int32_t> row(static_cast<std::size_t>(cols));
    for (std::int32_t j = 0; j < cols; ++j) row[j] = j;
    random.shuffle(row);
    row.resize(static_cast<std::size_t>(lengths[i % lengths.size()]));
    std::ranges::sort(row);
    indices.insert(indices.end(), row.begin(), row.end());
    for (std::size_t k = 0; k < row.size(); ++k)
      values.push_back(static_cast<float>(2 * random.unit() - 1));
    offsets.push_back(static_cast<std::int64_t>(indices.size()));
  }
  return {rows, cols, std::move(offsets), std::move(indices), std::move(values)};
}

/// Rows short, long and empty; the first and the last among them.
std::vector<CsrMatrix> awkward() {
  return {random_sparse(1, 1, 1.0, 1),
          random_sparse(40, 50, 0.0, 2),
          random_sparse(0, 7, 0.5, 2),
          random_sparse(97, 60, 0.1, 3),
          rows_of({0, 3, 32, 0, 31, 1, 33, 64, 0, 2, 300, 129, 5, 128, 0}, 45, 400, 4),
          rows_of({500}, 3, 512, 5),
          rows_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, 200, 30, 6)};
}

/// Nonzero k of a row begins another part of its sum.
using Cuts = std::function<bool(const CsrMatrix& a, std::int64_t row, std::int64_t k)>;

struct Variant {
  std::string kernel;
  Params::Given params;
  Method (*method)(const Params&);
  Cuts cuts;
  int groups = 1;  // of a part's nonzeros, taken in turn, for 9 columns of B
};

bool nowhere(const CsrMatrix&, std::int64_t, std::int64_t) { return false; }

/// Blocks of whole segments, then what is left.
Cuts blocks(std::int64_t segment, std::int64_t block) {
  return [=](const CsrMatrix& a, std::int64_t row, std::int64_t k) {
    const std::int64_t at = k - a.row_offsets[row];
    const std::int64_t regular = a.row_length(row) - a.row_length(row) % segment;
    return at == regular || (at < regular && at % block == 0);
  };
}

Cuts every(std::int64_t nonzeros) {
  return [=](const CsrMatrix&, std::int64_t, std::int64_t k) { return k % nonzeros == 0; };
}

/// Item by item; a row's end is never the first of a share that has nothing else of the row.
Cuts merge_path(std::int64_t items) {
  return [=](const CsrMatrix& a, std::int64_t row, std::int64_t k) {
    std::int64_t taken = 0;
    for (std::int64_t i = 0, at = 0; i < a.rows; ++i) {
      for (; at < a.row_offsets[i + 1]; ++at) {
        if (taken >= items) taken = 0;
        if (i == row && at == k) return taken == 0;
        ++taken;
      }
      if (taken >= items && a.row_length(i) == 0) taken = 0;
      ++taken;
    }
    return false;
  };
}

std::vector<Variant> variants() {
  const auto dg = [](const char* reduce, const char* balance, Cuts cuts, int groups = 1) {
    return Variant{"dgsparse",
                   {{"reduce", text(reduce)},
                    {"balance", text(balance)},
                    {"nonzeros", std::int64_t{20}},
                    {"columns", std::int64_t{groups == 8 ? 16 : 0}}},
                   dgsparse::method,
                   std::move(cuts),
                   groups};
  };
  return {{"rode", {}, rode::method, blocks(32, 128)},
          {"rode",
           {{"segment", std::int64_t{4}}, {"block", std::int64_t{10}}},
           rode::method,
           blocks(4, 8)},
          {"sputnik", {}, sputnik::method, nowhere},
          {"sputnik", {{"swizzle", text("off")}}, sputnik::method, nowhere},
          {"gespmm", {}, gespmm::method, nowhere},
          {"gespmm", {{"cwm", std::int64_t{8}}}, gespmm::method, nowhere},
          {"row_split", {}, row_split::method, nowhere},
          {"hp_spmm", {}, hp_spmm::method, every(16)},
          {"hp_spmm", {{"nonzeros", std::int64_t{7}}}, hp_spmm::method, every(7)},
          {"merge_spmm", {}, merge_spmm::method, merge_path(16)},
          {"merge_spmm", {{"items", std::int64_t{1}}}, merge_spmm::method, merge_path(1)},
          {"merge_spmm", {{"items", std::int64_t{9}}}, merge_spmm::method, merge_path(9)},
          dg("sequential", "row", nowhere),
          dg("caching", "row", nowhere),
          dg("sequential", "nnz", every(20)),
          dg("caching", "nnz", every(20)),
          dg("parallel", "row", nowhere, 8),
          dg("parallel", "nnz", every(20), 8)};
}

Plan plan_of(const Variant& variant, const CsrMatrix& a) {
  return variant.method(Registry<SpmmKernel>::instance().resolve(variant.kernel, variant.params))
      .cut(a);
}

std::unique_ptr<SpmmKernel> kernel_of(const Variant& variant, Params::Given more = {}) {
  more.insert(variant.params.begin(), variant.params.end());
  return Registry<SpmmKernel>::instance().make(variant.kernel, more);
}

float one_nan(float value) { return std::isnan(value) ? std::bit_cast<float>(0x7fffffff) : value; }

/// A part of a row: groups in turn, then the upper half of them added to the lower one.
float sum_of_part(const CsrMatrix& a, const DenseMatrix& b, std::int64_t first, std::int64_t last,
                  std::int64_t j, int groups) {
  std::vector<float> sums(static_cast<std::size_t>(groups), 0.0f);
  for (std::int64_t k = first; k < last; ++k) {
    float& sum = sums[(k - first) % groups];
    sum = std::fma(a.values[k], b.at(a.col_indices[k], j), sum);
  }
  for (int left = groups; left > 1; left /= 2)
    for (int g = 0; g < left / 2; ++g) sums[g] = one_nan(sums[g]) + one_nan(sums[g + left / 2]);
  return one_nan(sums[0]);
}

float element(const Variant& variant, const CsrMatrix& a, const DenseMatrix& b, std::int64_t i,
              std::int64_t j) {
  std::vector<std::int64_t> bounds{a.row_offsets[i]};
  for (std::int64_t k = bounds[0] + 1; k < a.row_offsets[i + 1]; ++k)
    if (variant.cuts(a, i, k)) bounds.push_back(k);
  bounds.push_back(a.row_offsets[i + 1]);
  float sum = sum_of_part(a, b, bounds[0], bounds[1], j, variant.groups);
  for (std::size_t part = 1; part + 1 < bounds.size(); ++part)
    sum = one_nan(sum + sum_of_part(a, b, bounds[part], bounds[part + 1], j, variant.groups));
  return sum;
}

/// Calls check(variant, a) for all of both.
template <class Check>
void for_each_case(Check check) {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.kernel);
    std::string params;
    for (const auto& [name, value] : variant.params) params += name + "=" + to_text(value) + " ";
    CAPTURE(params);
    for (const CsrMatrix& a : awkward()) {
      CAPTURE(a.rows);
      CAPTURE(a.nnz());
      check(variant, a);
    }
  }
}

TEST_CASE("every kernel over row parts gives the bits of its definition") {
  int split = 0;
  for_each_case([&](const Variant& variant, const CsrMatrix& a) {
    DenseMatrix b = random_dense(a.cols, 9, 31);
    if (a.cols > 5) {
      b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
      b.at(4, 4) = std::numeric_limits<float>::infinity();
      b.at(5, 4) = -std::numeric_limits<float>::infinity();
      for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, 7) *= 0x1p-140f;
    }
    const CsrPacked packed(a);

    const DenseMatrix c = kernel_of(variant)->emulate(packed, b, find_generation("hopper"));

    split += !plan_of(variant, a).split_rows.empty();
    REQUIRE(c.rows == a.rows);
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        CAPTURE(i);
        CAPTURE(j);
        REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
                std::bit_cast<std::uint32_t>(element(variant, a, b, i, j)));
      }
    }
  });
  CHECK(split >= 20);
}

TEST_CASE("row parts cover every nonzero once, and the slots of a row follow its order") {
  for_each_case([](const Variant& variant, const CsrMatrix& a) {
    const Plan plan = plan_of(variant, a);

    std::vector<int> covered(static_cast<std::size_t>(a.nnz()), 0);
    std::vector<int> parts_of_row(static_cast<std::size_t>(a.rows), 0);
    std::vector<const RowPart*> of_slot(plan.split_row_of_slot.size(), nullptr);
    for (const RowPart& part : plan.row_parts) {
      REQUIRE(part.first >= a.row_offsets[part.row]);
      REQUIRE(part.last <= a.row_offsets[part.row + 1]);
      for (std::uint32_t k = part.first; k < part.last; ++k) ++covered[k];
      ++parts_of_row[part.row];
      CHECK((part.first < part.last || a.row_length(part.row) == 0));
      if (part.slot != 0) of_slot.at(part.slot - 1) = &part;
    }
    CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));

    std::size_t slots = 0;
    for (std::size_t s = 0; s < plan.split_rows.size(); ++s) {
      const row_pieces::SplitRow& split = plan.split_rows[s];
      CHECK(split.num_parts == static_cast<std::uint32_t>(parts_of_row[split.row]));
      CHECK(split.num_parts > 1);
      std::int64_t at = a.row_offsets[split.row];
      for (std::uint32_t i = 0; i < split.num_parts; ++i, ++slots) {
        const RowPart* part = of_slot.at(split.first_slot + i);
        REQUIRE(part != nullptr);
        CHECK(part->row == split.row);
        CHECK(part->first == at);
        at = part->last;
        CHECK(plan.split_row_of_slot.at(split.first_slot + i) == s);
      }
      CHECK(at == a.row_offsets[split.row + 1]);
    }
    CHECK(slots == plan.split_row_of_slot.size());

    std::set<std::uint32_t> unwritten(plan.unwritten_rows.begin(), plan.unwritten_rows.end());
    for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(a.rows); ++row)
      CHECK((parts_of_row[row] == 0) == unwritten.contains(row));
  });
}

TEST_CASE("shares are runs of nonzeros of the same size, and only their ends are parts of rows") {
  int shares = 0;
  for_each_case([&](const Variant& variant, const CsrMatrix& a) {
    const Plan plan = plan_of(variant, a);
    const bool merges = variant.kernel == "merge_spmm";
    std::set<std::int64_t> sizes;
    for (std::int64_t unit = 0; !plan.shares.empty() && unit < plan.num_units(); ++unit, ++shares) {
      const std::int64_t first = plan.first_part(unit), last = plan.end_part(unit);
      REQUIRE(first < last);
      std::int64_t items = 0;
      for (std::int64_t p = first; p < last; ++p) {
        const RowPart& part = plan.row_parts[p];
        if (p > first) CHECK(part.first == plan.row_parts[p - 1].last);
        if (p > first && p + 1 < last) CHECK(part.slot == 0);
        items += part.last - part.first;
        if (merges && part.last == a.row_offsets[part.row + 1]) ++items;
      }
      if (unit + 1 < plan.num_units()) sizes.insert(items);
    }
    // A row's end goes with its last nonzero.
    if (!sizes.empty()) CHECK(*sizes.rbegin() - *sizes.begin() <= (merges ? 1 : 0));
  });
  CHECK(shares > 500);
}

TEST_CASE("sputnik takes the longest rows first, and rode takes whole segments before residues") {
  const CsrMatrix a = awkward()[4];

  const Plan sorted = plan_of({"sputnik", {}, sputnik::method, nowhere}, a);
  for (std::size_t p = 1; p < sorted.row_parts.size(); ++p)
    CHECK(a.row_length(sorted.row_parts[p - 1].row) >= a.row_length(sorted.row_parts[p].row));
  const Plan natural =
      plan_of({"sputnik", {{"swizzle", text("off")}}, sputnik::method, nowhere}, a);
  for (std::uint32_t p = 0; p < natural.row_parts.size(); ++p) CHECK(natural.row_parts[p].row == p);

  const Plan decomposed = plan_of({"rode", {}, rode::method, nowhere}, a);
  bool residues = false;
  for (const RowPart& part : decomposed.row_parts) {
    const std::uint32_t length = part.last - part.first;
    residues = residues || length < 32;
    CHECK(residues == (length < 32));
    CHECK(length <= 128);
  }
  CHECK(residues);
}

TEST_CASE(
    "the work of kernels over row parts counts every nonzero, every row of C and every atomic "
    "addition") {
  for_each_case([](const Variant& variant, const CsrMatrix& a) {
    const CsrPacked packed(a);
    const Plan plan = plan_of(variant, a);
    for (const std::int64_t n : {1, 33, 200}) {
      const ThreadBlockWork work = kernel_of(variant)->work(packed, n).total();

      CHECK(work.fma == a.nnz() * n);
      CHECK(work.b_bytes <= 4 * a.nnz() * n);
      CHECK(work.c_bytes == 4 * a.rows * n);
      CHECK(work.atomics == 0);
      if (variant.kernel == "sputnik" || variant.kernel == "gespmm") continue;
      if (variant.kernel == "row_split") continue;
      const ThreadBlockWork adds =
          kernel_of(variant, {{"combine", text("atomic")}})->work(packed, n).total();
      CHECK(adds.atomics == static_cast<std::int64_t>(plan.split_row_of_slot.size()) * n);
      CHECK(adds.c_bytes == 4 * a.rows * n);
    }
  });
}

TEST_CASE("atomics are emulated where no row is split, and the bound counts the parts of a row") {
  const CsrMatrix a = awkward()[4];
  const CsrPacked packed(a);
  const DenseMatrix b = random_dense(a.cols, 5, 9);
  const Params::Given atomic = {{"combine", text("atomic")}};
  for (const char* name : {"rode", "hp_spmm", "merge_spmm"}) {
    CAPTURE(name);
    const auto kernel = Registry<SpmmKernel>::instance().make(name, atomic);

    CHECK_THROWS_AS(kernel->emulate(packed, b, find_generation("hopper")), Unsupported);
    std::int64_t added = 0;
    const auto terms = kernel->terms_per_row(packed);
    for (std::int32_t row = 0; row < a.rows; ++row) {
      CHECK(terms[row] >= a.row_length(row));
      added += terms[row] - a.row_length(row);
    }
    CHECK(added > 0);
  }
  const CsrPacked short_rows(random_sparse(97, 60, 0.1, 3));
  const auto rode = Registry<SpmmKernel>::instance().make("rode", atomic);
  CHECK_NOTHROW(rode->emulate(short_rows, random_dense(60, 5, 9), find_generation("hopper")));
}

TEST_CASE("more rows of B are in flight where one row is long, unless the caller gives a number") {
  const CsrMatrix even = rows_of({3}, 30000, 8, 1);
  const CsrMatrix uneven = rows_of({500, 0, 0, 0}, 4, 512, 2);

  CHECK(row_pieces::rows_in_flight(even, 0, 16) == 4);
  CHECK(row_pieces::rows_in_flight(uneven, 0, 16) == 16);
  CHECK(row_pieces::rows_in_flight(uneven, 0, 8) == 8);
  CHECK(row_pieces::rows_in_flight(uneven, 4, 16) == 4);
  CHECK(row_pieces::rows_in_flight(even, 16, 16) == 16);
}

TEST_CASE(
    "dgsparse refuses more than 32 columns with reduce = parallel and fewer with the others") {
  const auto make = [](const char* reduce, std::int64_t columns) {
    return Registry<SpmmKernel>::instance().make("dgsparse",
                                                 {{"reduce", text(reduce)}, {"columns", columns}});
  };
  CHECK_NOTHROW(make("parallel", 8));
  CHECK_THROWS_AS(make("parallel", 64), Error);
  CHECK_NOTHROW(make("caching", 64));
  CHECK_THROWS_AS(make("sequential", 16), Error);
}

}  // namespace
}  // namespace tessera
