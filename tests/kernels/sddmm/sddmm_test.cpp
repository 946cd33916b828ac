// The host halves of the SDDMM kernels: their emulations have the bits of their definitions, which
// are written out here element by element, and lie within their bounds; their work descriptions
// agree with counts of the matrix, and their traces with their work descriptions.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/mosaic.hpp"
#include "kernels/sddmm/rows/rows_sddmm.hpp"
#include "kernels/sddmm/tessera/tessera_sddmm.hpp"
#include "tests/sddmm_choices.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

float gpu_nan(float value) { return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value; }

ElementType storage_of(const SddmmChoice& choice) { return choice.make()->arithmetic().storage.b; }

std::vector<float> row_of(const DenseMatrix& matrix, std::int64_t row, ElementType type) {
  std::vector<float> values(matrix.row(row).begin(), matrix.row(row).end());
  for (float& value : values) value = rounded_to(type, value);
  return values;
}

/// A dot product on tensor cores by definition. Of every 64 bytes of a row, four lanes have 16
/// bytes each: the first MMA multiplies the first half of each lane's, the second MMA the other.
float tensor_core_dot(const std::vector<float>& x, const std::vector<float>& y,
                      const std::string& precision_name, int bytes) {
  const Precision& precision = find_precision(precision_name);
  const FusedStep& step = find_generation("hopper").step(type_of(precision.conversion));
  const std::size_t of_step = 64 / bytes, of_lane = 16 / bytes;
  float sum = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += of_step)
    for (std::size_t half = 0; half < 2; ++half) {
      // The first word of the half of each lane is in the first half of the MMA's depth.
      std::vector<std::size_t> columns;
      for (std::size_t word = 0; word < 2; ++word)
        for (std::size_t lane = 0; lane < 4; ++lane)
          for (std::size_t i = 0; i < of_lane / 4; ++i)
            columns.push_back(begin + lane * of_lane + half * of_lane / 2 + word * of_lane / 4 + i);
      for (const ChunkMma& mma : precision.mmas) {
        for (std::size_t at = 0; at < columns.size();
             at += static_cast<std::size_t>(step.products)) {
          std::vector<float> left, right;
          for (std::size_t p = at; p < at + static_cast<std::size_t>(step.products); ++p) {
            const bool exists = columns[p] < x.size();
            left.push_back(exists ? split(x[columns[p]], precision)[mma.a_part] : 0);
            right.push_back(exists ? split(y[columns[p]], precision)[mma.b_part] : 0);
          }
          sum = fused_dot_add(step, left, right, sum);
        }
      }
    }
  return sum;
}

/// The same by rows_sddmm: eight lanes have 16 of every 128 bytes each, a tree adds their sums.
float lanes_dot(const std::vector<float>& x, const std::vector<float>& y, int bytes) {
  float sums[8] = {};
  for (std::size_t k = 0; k < x.size(); ++k) {
    float& sum = sums[k * static_cast<std::size_t>(bytes) / 16 % 8];
    sum = std::fma(x[k], y[k], sum);
  }
  for (int half = 4; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sums[lane] = gpu_nan(sums[lane] + sums[lane + half]);
  return sums[0] + 0.0f;
}

/// The same by flash_sddmm: MMAs of 16 bytes of a row, one after another.
float narrow_mma_dot(const std::vector<float>& x, const std::vector<float>& y,
                     const std::string& precision_name, std::size_t depth) {
  const Precision& precision = find_precision(precision_name);
  const FusedStep& step = find_generation("hopper").step(type_of(precision.conversion));
  float sum = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += depth) {
    std::vector<float> left, right;
    for (std::size_t k = begin; k < std::min(begin + depth, x.size()); ++k) {
      left.push_back(split(y[k], precision)[0]);
      right.push_back(split(x[k], precision)[0]);
    }
    sum = fused_dot_add(step, left, right, sum);
  }
  return sum;
}

/// The same by sputnik_sddmm: as many lanes as have four columns each, at least 8 and at most 32.
float strip_dot(const std::vector<float>& x, const std::vector<float>& y) {
  const std::size_t lanes = x.size() <= 32 ? 8 : x.size() <= 64 ? 16 : 32;
  std::vector<float> sums(lanes, 0.0f);
  for (std::size_t k = 0; k < x.size(); ++k) {
    float& sum = sums[k / 4 % lanes];
    sum = std::fma(x[k], y[k], sum);
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane)
      sums[lane] = gpu_nan(sums[lane] + sums[lane + half]);
  return sums[0] + 0.0f;
}

float element(const SddmmChoice& choice, float a, const std::vector<float>& x,
              const std::vector<float>& y) {
  const auto kernel = choice.make();
  const ElementType type = storage_of(choice), result = kernel->arithmetic().storage.c;
  const int bytes = static_cast<int>(bytes_of(type));
  const auto given = choice.params.find("precision");
  const std::string precision = type != ElementType::kFp32     ? std::string(name_of(type))
                                : given == choice.params.end() ? "tf32_even"
                                                               : to_text(given->second);
  const auto dot = [&] {
    if (choice.kernel == "rows_sddmm") return lanes_dot(x, y, bytes);
    if (choice.kernel == "sputnik_sddmm") return strip_dot(x, y);
    if (choice.kernel != "flash_sddmm") return tensor_core_dot(x, y, precision, bytes);
    const bool full = type == ElementType::kFp32;
    return narrow_mma_dot(x, y, full ? "tf32" : precision, full ? 4 : 8);
  };
  const float sum = dot();
  return rounded_to(result, gpu_nan(kernel->scales_by_a() ? sum * a : sum));
}

/// Random X and Y with special values in a few rows.
struct Factors {
  DenseMatrix x, y;

  Factors(const CsrMatrix& a, std::int64_t k, std::uint64_t seed, bool special = false)
      : x(random_dense(a.rows, k, seed)), y(random_dense(a.cols, k, seed + 1)) {
    if (!special) return;
    x.at(3, 0) = kNan;
    x.at(5, k - 1) = kInfinity;
    y.at(7, k / 2) = -kInfinity;
    for (std::int64_t i = 0; i < k; ++i) {
      x.at(9, i) *= 0x1p-126f;
      y.at(11, i) = std::copysign(0x1p-149f, y.at(11, i));
      y.at(13, i) = 0;
    }
  }
};

TEST_CASE("emulations of SDDMM have the bits of their definitions") {
  const CsrMatrix a = random_sparse(40, 60, 0.12, 5);
  for (const std::int64_t k : {1, 3, 17, 64, 100, 130, 300}) {
    const Factors factors(a, k, 100 + static_cast<std::uint64_t>(k), true);
    for (const SddmmChoice& choice : sddmm_choices()) {
      if (choice.is_library()) continue;
      CAPTURE(choice.text());
      CAPTURE(k);
      const auto kernel = choice.make();
      const std::vector<float> s =
          kernel->emulate(*pack_for(*kernel, a), factors.x, factors.y, find_generation("hopper"));
      REQUIRE(std::ssize(s) == a.nnz());
      int different = 0;
      for (std::int64_t row = 0; row < a.rows; ++row)
        for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i) {
          const ElementType type = storage_of(choice);
          const float expected = element(choice, a.values[i], row_of(factors.x, row, type),
                                         row_of(factors.y, a.col_indices[i], type));
          different += bits_of(s[i]) != bits_of(expected);
        }
      CHECK(different == 0);
    }
  }
}

TEST_CASE("emulations of SDDMM lie within their bounds, and an element beyond is found") {
  const CsrMatrix a = random_sparse(70, 50, 0.15, 15);
  for (const std::int64_t k : {1, 40, 200}) {
    const Factors factors(a, k, 25);
    for (const SddmmChoice& choice : sddmm_choices()) {
      if (choice.is_library()) continue;
      CAPTURE(choice.text());
      CAPTURE(k);
      const auto kernel = choice.make();
      std::vector<float> s =
          kernel->emulate(*pack_for(*kernel, a), factors.x, factors.y, find_generation("hopper"));
      const SampledComputation computation{*kernel, a, factors.x, factors.y, "hopper"};
      CHECK(check_result(computation, with_values(a, s)).reason == "");

      // Half of the sum of magnitudes is far beyond any bound.
      double magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i)
        magnitude += std::abs(double{factors.x.at(0, i)} * factors.y.at(a.col_indices[0], i));
      s[0] +=
          static_cast<float>(magnitude * (kernel->scales_by_a() ? std::abs(a.values[0]) : 1) / 2);
      REQUIRE(a.row_length(0) > 0);
      CHECK(check_result(computation, with_values(a, s)).reason != "");
    }
  }
}

TEST_CASE("the bound of an SDDMM follows its arithmetic") {
  const CsrMatrix a = random_sparse(30, 30, 0.3, 31);
  const Factors factors(a, 64, 32);
  const auto ratio = [&](const Params::Given& params, float factor) {
    const auto kernel = Registry<SddmmKernel>::instance().make("tessera_sddmm", params);
    std::vector<float> s =
        kernel->emulate(*pack_for(*kernel, a), factors.x, factors.y, find_generation("hopper"));
    s[0] += factor;
    const SampledComputation computation{*kernel, a, factors.x, factors.y, "hopper"};
    return check_result(computation, with_values(a, s)).check->bound_ratio;
  };
  // An error of 0.001 is within the bound of TF32, and beyond that of three products.
  CHECK(ratio({}, 0.001f) < 1);
  CHECK(ratio({{"precision", std::string("tf32x3")}}, 0.001f) > 1);
  CHECK(ratio({{"storage", std::string("bf16")}}, 0.01f) < 1);
  CHECK(ratio({{"storage", std::string("fp16")}}, 0.1f) > 1);
}

TEST_CASE("shapes that do not fit are refused") {
  const CsrMatrix a = random_sparse(10, 12, 0.3, 41);
  for (const SddmmChoice& choice : sddmm_choices()) {
    if (choice.is_library()) continue;
    const auto kernel = choice.make();
    const auto packed = pack_for(*kernel, a);
    const Generation& hopper = find_generation("hopper");
    CHECK_THROWS_AS(kernel->emulate(*packed, DenseMatrix(12, 4), DenseMatrix(10, 4), hopper),
                    Error);
    CHECK_THROWS_AS(kernel->emulate(*packed, DenseMatrix(10, 4), DenseMatrix(12, 5), hopper),
                    Error);
  }
}

TEST_CASE("a closed library's SDDMM has neither emulation nor work description") {
  const CsrMatrix a = random_sparse(10, 12, 0.3, 42);
  const auto kernel = Registry<SddmmKernel>::instance().make("cusparse_sddmm");
  const auto packed = pack_for(*kernel, a);
  CHECK_THROWS_AS(
      kernel->emulate(*packed, DenseMatrix(10, 4), DenseMatrix(12, 4), find_generation("hopper")),
      Unsupported);
  CHECK_THROWS_AS(kernel->work(*packed, 4), Unsupported);
}

// tessera_sddmm

tessera_sddmm::TesseraSddmmOptions tessera_options(const Params::Given& params = {}) {
  return tessera_sddmm::TesseraSddmmOptions(
      Registry<SddmmKernel>::instance().resolve("tessera_sddmm", params));
}

std::unique_ptr<PackedMatrix> mosaic(const CsrMatrix& a) {
  return Registry<Format>::instance().make("mosaic")->pack(a);
}

TEST_CASE("tasks of tessera_sddmm have every TC block once, and the places of its rows in S") {
  const CsrMatrix a = random_sparse(203, 300, 0.07, 51);
  const auto packed = mosaic(a);
  const auto& tiles = packed_as<Mosaic>(*packed);
  for (const std::int64_t most : {0, 1, 3, 32}) {
    CAPTURE(most);
    std::vector<int> seen(static_cast<std::size_t>(tiles.num_tiles()), 0);
    std::int64_t wrong = 0;
    for (const auto& task : tessera_options({{"max_tiles", most}}).tasks(tiles, 64)) {
      CHECK(task.first < task.last);
      if (most > 0) CHECK(task.last - task.first <= most);
      std::uint32_t next[16];
      std::ranges::copy(task.starts, next);
      for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
        ++seen[tile];
        for (int r = 0; r < 16; ++r)
          for (int c = 0; c < 8; ++c) {
            if (!tiles.bitmaps[tile].has(Mosaic::bit_of(r, c))) continue;
            const std::int64_t row = std::int64_t{task.window} * 16 + r;
            const std::uint32_t place = next[r]++;
            wrong += place < a.row_offsets[row] || place >= a.row_offsets[row + 1] ||
                     a.col_indices[place] != tiles.tile_cols[tile * 8 + c];
          }
      }
    }
    CHECK(wrong == 0);
    CHECK(std::ranges::count(seen, 1) == tiles.num_tiles());
  }
}

TEST_CASE("tasks of tessera_sddmm are shorter where the matrix is small or rows are long") {
  const auto longest = [](const CsrMatrix& a, std::int64_t k) {
    const auto packed = mosaic(a);
    std::uint32_t most = 0;
    for (const auto& task : tessera_options().tasks(packed_as<Mosaic>(*packed), k))
      most = std::max(most, task.last - task.first);
    return most;
  };
  const CsrMatrix small = random_sparse(64, 800, 0.6, 52);  // 400 TC blocks
  CHECK(longest(small, 32) == tessera_sddmm::kLeastTiles);
  const CsrMatrix large = random_sparse(16384, 500, 0.1, 53);  // 45 TC blocks in a window
  CHECK(longest(large, 32) > 16);
  CHECK(longest(large, 32) <= tessera_sddmm::kWindowTiles);
  CHECK(longest(large, 512) <= tessera_sddmm::kPartialTiles);  // their sums are in shared memory
}

TEST_CASE("columns of X and Y are each at one depth of one MMA") {
  for (const int bytes : {4, 2}) {
    std::set<std::int64_t> columns;
    const int depth = 32 / bytes;
    for (std::int64_t step = 0; step < 3; ++step)
      for (int mma = 0; mma < 2; ++mma)
        for (int slot = 0; slot < depth; ++slot)
          columns.insert(tessera_sddmm::column_of(step, mma, slot, bytes));
    CHECK(std::ssize(columns) == 3 * 2 * depth);
    CHECK(*columns.begin() == 0);
    CHECK(*columns.rbegin() == 3 * 2 * depth - 1);
  }
}

TEST_CASE("chunks of tessera_sddmm hold the columns of X that registers have room for") {
  const auto schedule = [](std::int64_t k, const Params::Given& params = {}) {
    return tessera_options(params).schedule(k);
  };
  CHECK(schedule(1).steps == 2);
  CHECK(schedule(33).steps == 4);
  CHECK(schedule(100).steps == 8);
  CHECK(schedule(128).chunks == 1);
  CHECK(schedule(129).chunks == 2);
  CHECK(schedule(512).chunks == 4);
  CHECK(schedule(512, {{"storage", std::string("fp16")}}).chunks == 2);
  CHECK(schedule(128, {{"precision", std::string("tf32x3")}}).chunks == 2);
  CHECK(schedule(128).shared_bytes() == 0);
  CHECK(schedule(512).shared_bytes() > 0);
}

// Work and traces

std::int64_t distinct_rows(const CsrMatrix& a, std::int64_t first, std::int64_t last) {
  std::set<std::int32_t> columns;
  for (std::int64_t row = first; row < std::min<std::int64_t>(last, a.rows); ++row)
    columns.insert(a.row_cols(row).begin(), a.row_cols(row).end());
  return std::ssize(columns);
}

TEST_CASE("the work of an SDDMM agrees with counts of the matrix") {
  const CsrMatrix a = random_sparse(203, 157, 0.07, 61);
  std::int64_t active = 0, blocks = 0;
  for (std::int64_t row = 0; row < a.rows; row += 16) {
    const std::int64_t columns = distinct_rows(a, row, row + 16);
    active += columns, blocks += (columns + 7) / 8;
  }
  for (const std::int64_t k : {32, 100, 300}) {
    CAPTURE(k);
    const auto tessera =
        Registry<SddmmKernel>::instance().make("tessera_sddmm", {{"max_tiles", std::int64_t{32}}});
    const WorkDescription work = tessera->work(*mosaic(a), k);
    const std::int64_t steps = k <= 32 ? 2 : k <= 128 ? 8 : 3 * 8;  // of 16 columns
    CHECK(work.total().mma == blocks * steps * 2);
    // Windows are longer than no task: X is read once.
    if (k <= 128) CHECK(work.total().b_bytes == 4 * k * (a.rows + active));
    CHECK(work.total().c_bytes == 4 * a.nnz());
    CHECK(work.useful_flops == 2 * a.nnz() * k);
    CHECK(work.c_bytes == 4 * a.nnz());

    const auto rows = Registry<SddmmKernel>::instance().make("rows_sddmm");
    const WorkDescription of_rows = rows->work(*pack_for(*rows, a), k);
    const std::int64_t padded = k <= 32 ? 32 : k <= 128 ? 128 : 384;
    CHECK(of_rows.total().fma == a.nnz() * padded);
    CHECK(of_rows.total().c_bytes == 4 * a.nnz());
    CHECK(of_rows.total().b_bytes > 4 * k * a.nnz());
    CHECK(of_rows.total().b_bytes <= 8 * k * a.nnz());
    CHECK(of_rows.b_rows_bytes == work.b_rows_bytes);
  }
}

/// The bytes that a work description's traces touch, by array and by kind of instruction.
struct Touched {
  std::map<std::string, std::set<std::uint64_t>> loaded, stored;  // sectors
  std::int64_t mma = 0;

  explicit Touched(const WorkDescription& work) {
    for_warps(work, [&](std::int64_t, const WarpTrace& trace) {
      for (const WarpOp& op : trace.ops) {
        if (op.kind == WarpOp::Kind::kMma) mma += op.count;
        const bool stores = op.kind == WarpOp::Kind::kStore;
        if (!stores && op.kind != WarpOp::Kind::kLoad) continue;
        for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
          for (unsigned s = 0; s < kSectorsPerLine; ++s)
            if ((trace.lines[i].sectors >> s & 1) != 0) {
              const std::uint64_t at = std::uint64_t{trace.lines[i].line} * kLineBytes + 32 * s;
              (stores ? stored : loaded)[array_of(work.memory, at).name].insert(at);
            }
      }
    });
  }
};

TEST_CASE("traces of SDDMM load what the work counts, store all of S and nothing else") {
  const CsrMatrix a = random_sparse(90, 130, 0.08, 71);
  for (const SddmmChoice& choice : sddmm_choices()) {
    if (choice.is_library()) continue;
    for (const std::int64_t k : {32, 100, 300}) {
      CAPTURE(choice.text());
      CAPTURE(k);
      const auto kernel = choice.make();
      const auto packed = pack_for(*kernel, a);
      const WorkDescription work = kernel->work(*packed, k);
      const Touched touched(work);
      CHECK(touched.mma == work.total().mma);
      const Storage storage = kernel->arithmetic().storage;
      const auto sectors = [](std::int64_t bytes) { return (bytes + 31) / 32; };
      const auto bytes = static_cast<std::int64_t>(bytes_of(storage.b));
      REQUIRE(touched.stored.size() == 1);
      CHECK(std::ssize(touched.stored.at("s")) ==
            sectors(static_cast<std::int64_t>(bytes_of(storage.c)) * a.nnz()));
      // Every row of X and Y with a nonzero is read whole; sectors may hold parts of two rows.
      const std::int64_t rows = work.b_rows_bytes / (bytes * k);
      const std::int64_t read =
          std::ssize(touched.loaded.at("x")) + std::ssize(touched.loaded.at("y"));
      CHECK(32 * read >= work.b_rows_bytes);
      CHECK(32 * read <= work.b_rows_bytes + 64 * rows);
      CHECK(touched.loaded.contains("factors") == kernel->scales_by_a());
      if (kernel->scales_by_a())
        CHECK(std::ssize(touched.loaded.at("factors")) == sectors(4 * a.nnz()));
    }
  }
}

TEST_CASE("a matrix without nonzeros has an S without elements") {
  const CsrMatrix empty = random_sparse(40, 50, 0.0, 81);
  for (const SddmmChoice& choice : sddmm_choices()) {
    if (choice.is_library()) continue;
    CAPTURE(choice.text());
    const auto kernel = choice.make();
    const auto packed = pack_for(*kernel, empty);
    CHECK(kernel
              ->emulate(*packed, DenseMatrix(40, 8, 1), DenseMatrix(50, 8, 1),
                        find_generation("hopper"))
              .empty());
    CHECK(kernel->work(*packed, 8).total().c_bytes == 0);
  }
}

}  // namespace
}  // namespace tessera
