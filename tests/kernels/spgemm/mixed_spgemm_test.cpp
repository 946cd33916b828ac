// mixed_spgemm: the figures it takes, what the model makes of them, and that it is the kernel that
// it chooses.
#include "kernels/spgemm/mixed/mixed_spgemm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "model/mixed_spgemm.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using mixed_spgemm::choose;
using mixed_spgemm::figures;

constexpr const char* kPrecisions[] = {"fp32", "tf32x3", "tf32", "fp16"};

Params params_of(const Params::Given& given) {
  return Registry<SpgemmKernel>::instance().resolve("mixed_spgemm", given);
}
std::unique_ptr<SpgemmKernel> kernel_of(const std::string& name, const Params::Given& given) {
  return Registry<SpgemmKernel>::instance().make(name, given);
}
Params::Given with(const char* precision, const char* path = "auto") {
  return {{"precision", std::string(precision)}, {"path", std::string(path)}};
}

SpgemmPath path_of(const CsrMatrix& a, const char* precision, const char* path = "auto") {
  return choose(a, a, params_of(with(precision, path))).path;
}

/// Dense blocks along the diagonal.
CsrMatrix dense_blocks(std::int32_t blocks, std::int32_t side) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (std::int32_t row = 0; row < blocks * side; ++row) {
    for (std::int32_t col = 0; col < side; ++col) cols.push_back(row / side * side + col);
    offsets.push_back(std::ssize(cols));
  }
  std::vector<float> values(cols.size(), 1.5f);
  return csr(blocks * side, blocks * side, std::move(offsets), std::move(cols), std::move(values));
}

std::vector<CsrMatrix> squares() {
  return {random_sparse(300, 300, 0.01, 1), random_sparse(90, 90, 0.8, 2), dense_blocks(20, 16),
          csr(5, 5, {0, 0, 0, 0, 0, 0}, {}, {}), csr(0, 0, {0}, {}, {})};
}

TEST_CASE("mixed_spgemm takes tiles where they are dense, and rows where nonzeros are scattered") {
  const CsrMatrix dense = dense_blocks(128, 128);
  for (const char* precision : {"fp16", "tf32", "tf32x3"})
    CHECK(path_of(dense, precision).kernel == "tile_spgemm");
  CHECK(path_of(dense, "fp32").kernel == "row_spgemm");
  const CsrMatrix scattered = random_sparse(4000, 4000, 0.012, 3);
  for (const char* precision : kPrecisions)
    CHECK(path_of(scattered, precision).kernel == "row_spgemm");
}

TEST_CASE("mixed_spgemm merges where rows of A are short and there are many") {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  constexpr std::int32_t kRows = 300'000, kStep = 997;
  for (std::int32_t row = 0; row < kRows; ++row) {
    for (const std::int32_t col : {row - kStep, row, row + 1, row + kStep})
      if (col >= 0 && col < kRows) cols.push_back(col);
    offsets.push_back(std::ssize(cols));
  }
  const std::vector<float> values(cols.size(), 0.5f);
  const CsrMatrix grid{kRows, kRows, offsets, cols, values};
  for (const char* precision : kPrecisions)
    CHECK(path_of(grid, precision).kernel == "merge_spgemm");
  // Merged in pieces, longer rows take more time than anything else.
  CHECK_FALSE(path_of(dense_blocks(8, 64), "fp32").predicted_us.contains("merge_spgemm"));
}

TEST_CASE("mixed_spgemm tells what it expects of every path that it has") {
  for (const CsrMatrix& a : squares()) {
    for (const char* precision : kPrecisions) {
      const SpgemmPath path = path_of(a, precision);
      CHECK(path.predicted_us.contains("row_spgemm"));
      CHECK(path.predicted_us.contains("tile_spgemm") == (std::string(precision) != "fp32"));
      for (const auto& [kernel, us] : path.predicted_us) {
        CHECK(std::isfinite(us));
        CHECK(us > 0);
        CHECK(path.predicted_us.at(path.kernel) <= us);
      }
    }
  }
}

TEST_CASE("mixed_spgemm goes the way it is told") {
  const CsrMatrix scattered = random_sparse(400, 400, 0.01, 4);
  CHECK(path_of(scattered, "fp16", "tiles").kernel == "tile_spgemm");
  CHECK(path_of(scattered, "fp16", "merge").kernel == "merge_spgemm");
  CHECK(path_of(dense_blocks(128, 128), "fp16", "rows").kernel == "row_spgemm");
  CHECK(path_of(scattered, "fp32", "rows").kernel == "row_spgemm");
  CHECK_THROWS_AS(kernel_of("mixed_spgemm", with("fp32", "tiles")), Error);
}

TEST_CASE("mixed_spgemm leaves to rows what tiles would spread") {
  CsrMatrix dense = dense_blocks(128, 128);
  std::vector<float> values(dense.values.begin(), dense.values.end());
  values[5] = std::numeric_limits<float>::infinity();
  dense.values = std::move(values);
  CHECK(path_of(dense, "fp16").kernel == "row_spgemm");
}

TEST_CASE("mixed_spgemm refuses factors that do not fit, and a device that nobody knows") {
  const CsrMatrix wide = random_sparse(20, 30, 0.2, 5);
  CHECK_THROWS_AS(choose(wide, wide, params_of(with("fp16"))), Error);
  Params::Given given = with("fp16");
  given["model_device"] = std::string("h2000");
  const CsrMatrix square = random_sparse(20, 20, 0.2, 6);
  CHECK_THROWS_WITH_AS(choose(square, square, params_of(given)), doctest::Contains("h200"), Error);
}

TEST_CASE("mixed_spgemm is the kernel it chooses, bit for bit and with its bound") {
  const Generation& hopper = find_generation("hopper");
  for (const CsrMatrix& a : squares()) {
    for (const char* precision : {"fp16", "tf32", "tf32x3"}) {
      for (const char* path : {"auto", "rows", "merge", "tiles"}) {
        const auto kernel = kernel_of("mixed_spgemm", with(precision, path));
        const std::string chosen = kernel->path_of(a, a)->kernel;
        const auto other = chosen != "tile_spgemm"
                               ? kernel_of(chosen, {})
                               : kernel_of(chosen, {{"precision", std::string(precision)}});
        const CsrMatrix c = kernel->emulate(a, a, hopper);
        CHECK(compare_bits(c, other->emulate(a, a, hopper)).different == 0);
        CHECK(kernel->terms_per_row(a, a) == other->terms_per_row(a, a));
        CHECK(kernel->arithmetic_of(a, a).sum == other->arithmetic().sum);
        CHECK(kernel->keeps_zeros() == other->keeps_zeros());
        CHECK(check_result({*kernel, a, a, "hopper"}, c).reason == "");
      }
    }
  }
}

TEST_CASE("figures of a small product are exact, those of a large one are near") {
  const CsrMatrix a = random_sparse(203, 157, 0.03, 7), b = random_sparse(157, 91, 0.05, 8);
  const SparseProductFigures few = figures(a, b);
  std::int64_t products = 0;
  for (const std::int32_t row : a.col_indices) products += b.row_length(row);
  CHECK(few.products == products);
  CHECK(few.rows == 203);
  CHECK(few.tile_rows == 26);
  CHECK(few.tile_rows_of_b == 20);
  CHECK(few.nonzeros_of_a == a.nnz());
  CHECK(few.nonzeros_of_b == b.nnz());
  std::int64_t longest = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) longest = std::max(longest, a.row_length(row));
  CHECK(few.longest_row_of_a == longest);
  std::int64_t nonzeros_of_large_rows = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    std::int64_t of_row = 0;
    for (const std::int32_t col : a.row_cols(row)) of_row += b.row_length(col);
    if (of_row > 32) nonzeros_of_large_rows += a.row_length(row);
  }
  CHECK(few.nonzeros_of_large_rows == nonzeros_of_large_rows);
  CHECK(few.nonzeros_of_c == multiply_rows(a, b).nnz());
  CHECK(few.pairs <= static_cast<double>(few.tile_products));
  CHECK(few.tiles_of_c <= few.pairs);
  CHECK_FALSE(few.is_square);

  const CsrMatrix blocks = dense_blocks(3, 24);
  const SparseProductFigures of_blocks = figures(blocks, blocks);
  CHECK(of_blocks.is_square);
  CHECK(of_blocks.tiles_of_a == 27);
  CHECK(of_blocks.tile_products == 81);
  CHECK(of_blocks.pairs == 81);
  CHECK(of_blocks.tiles_of_c == 27);
  CHECK(of_blocks.nonzeros_of_c == blocks.nnz());
  CHECK(of_blocks.longest_filling == 3 * 2);  // 192 nonzeros, 128 threads, seen three times
  CHECK(of_blocks.looks == 9);                // a tile row's columns at once
  CHECK(of_blocks.tiles_looked_at == 27);
  CHECK(of_blocks.long_tile_products == 0);
  CHECK(of_blocks.merged_columns == blocks.nnz());  // a warp for a row of 24
  CHECK(of_blocks.largest_task == 9);

  const CsrMatrix many = random_sparse(20000, 20000, 0.0004, 9);
  const auto nonzeros = static_cast<double>(multiply_rows(many, many).nnz());
  CHECK(figures(many, many).nonzeros_of_c == doctest::Approx(nonzeros).epsilon(0.1));
}

TEST_CASE("figures tell how tile_spgemm cuts long tile rows into tasks") {
  // 100 x 100 tiles: 10000 pairs for a tile row of C, in tasks of at most 3906. That is three
  // slices, of its four slots of 32 columns: two of two slots; and a slot has more pairs than a
  // thread block lists.
  const CsrMatrix block = dense_blocks(1, 800);
  const SparseProductFigures of = figures(block, block);
  CHECK(of.tile_products == 1'000'000);
  CHECK(of.long_tile_products == of.tile_products);
  CHECK(of.largest_task == 64 * 100);
  CHECK(of.looks == 100 * 4);
  CHECK(of.tiles_looked_at == 100 * 4 * 100);
  CHECK(of.longest_filling == 50 * 3);
}

TEST_CASE("what there is more of takes longer, and a device without a rate predicts nothing") {
  const Device& h200 = find_device("h200");
  const SparseProductFigures some = figures(dense_blocks(8, 64), dense_blocks(8, 64));
  SparseProductFigures more = some;
  more.products *= 2;
  CHECK(mixed_model::predict_rows(more, h200).time_us >
        mixed_model::predict_rows(some, h200).time_us);
  more.merged_columns *= 2;
  CHECK(mixed_model::predict_merge(more, h200).time_us >
        mixed_model::predict_merge(some, h200).time_us);
  const Prediction tiles = mixed_model::predict_tiles(some, "fp16", h200);
  CHECK(tiles.parts.size() == 3);
  const auto twice = [&](auto figure) {
    SparseProductFigures of = some;
    of.*figure *= 2;
    return mixed_model::predict_tiles(of, "fp16", h200).time_us;
  };
  CHECK(twice(&SparseProductFigures::tiles_of_a) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::tile_products) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::looks) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::tiles_looked_at) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::longest_filling) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::largest_task) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::pairs) > tiles.time_us);
  CHECK(twice(&SparseProductFigures::tiles_of_c) > tiles.time_us);
  SparseProductFigures in_long_rows = some;
  in_long_rows.long_tile_products = some.tile_products;
  CHECK(mixed_model::predict_tiles(in_long_rows, "fp16", h200).time_us > tiles.time_us);
  double sum = 0;
  for (const PredictedPart& part : tiles.parts) sum += part.time_us;
  CHECK(tiles.time_us == doctest::Approx(sum));
  Device unknown = h200;
  unknown.measured.erase("issue_rate");
  unknown.datasheet.erase("issue_rate");
  CHECK_THROWS_AS(mixed_model::predict_rows(some, unknown), Unsupported);
  CHECK_THROWS_AS(mixed_model::predict_tiles(some, "fp64", h200), Error);
}

TEST_CASE("a record tells which kernel mixed_spgemm chose, and what it expected") {
  Point point;
  point.backend = "emulate";
  point.matrix = "uniform(rows=6000, cols=6000, per_row=5)";
  point.reorder.name = "none";
  point.device = "h200";
  point.task = SparseProduct{
      {parse_values("normal"), 5}, kSelf, {"mixed_spgemm", params_of(with("tf32x3"))}};
  PointRunner runner;
  const Json record = runner.run(point).record;
  CHECK(record["status"] == "ok");
  CHECK(record["winner"] == "merge_spgemm");
  CHECK(record["predicted_us"]["merge_spgemm"] > 0);
  CHECK(record["predicted_us"]["row_spgemm"] > record["predicted_us"]["merge_spgemm"]);
  CHECK(record["predicted_us"]["tile_spgemm"] > record["predicted_us"]["row_spgemm"]);
}

}  // namespace
}  // namespace tessera
