// mixed_spgemm: the counts of its kernels, the cost models' predictions from them, and its results,
// which are those of the kernel that it chooses.
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
#include "formats/io/source.hpp"
#include "kernels/spgemm/shared/product_sketch.hpp"
#include "model/mixed_spgemm.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using mixed_spgemm::choose;
using spgemm::ProductSketch;

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

/// The counts that a kernel publishes for the product of A and B.
WorkCounts counts_of(const char* kernel, const CsrMatrix& a, const CsrMatrix& b,
                     const Params::Given& given = {}) {
  return kernel_of(kernel, given)->count_work(ProductSketch(a, b));
}

/// A block-diagonal matrix of dense blocks.
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

TEST_CASE("mixed_spgemm chooses tiles for dense tiles, and rows for scattered nonzeros") {
  const CsrMatrix dense = dense_blocks(128, 128);
  for (const char* precision : {"fp16", "tf32", "tf32x3"})
    CHECK(path_of(dense, precision).kernel == "tile_spgemm");
  CHECK(path_of(dense, "fp32").kernel == "row_spgemm");
  const CsrMatrix scattered = random_sparse(4000, 4000, 0.012, 3);
  for (const char* precision : kPrecisions)
    CHECK(path_of(scattered, precision).kernel == "row_spgemm");
}

TEST_CASE("mixed_spgemm chooses rows for a matrix with a long row and a long column") {
  const CsrMatrix kkt =
      load_matrix("hub(rows=46635, per_row=7, row=23316, col=23316, contiguous=true)", false)
          .matrix;
  const SpgemmPath path = path_of(kkt, "tf32x3");
  CAPTURE(path.predicted_us.at("row_spgemm"));
  CAPTURE(path.predicted_us.at("tile_spgemm"));
  CHECK(path.kernel == "row_spgemm");
  const WorkCounts counts = counts_of("row_spgemm", kkt, kkt);
  CHECK(counts.at("hub_products") > 7 * 23'316);
  CHECK(counts.at("hub_products") < 0.01 * counts.at("products"));
  CHECK(counts.at("longest_row_of_a") < 16);
  CHECK(counts.at("wide_products") > 0.99 * counts.at("products"));
}

TEST_CASE("mixed_spgemm chooses merging for many short rows of A") {
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
  // Longer rows are merged in pieces, which no cost model covers.
  CHECK_FALSE(path_of(dense_blocks(8, 64), "fp32").predicted_us.contains("merge_spgemm"));
}

TEST_CASE(
    "mixed_spgemm predicts the time of every kernel that it can choose, and chooses the least") {
  for (const CsrMatrix& a : squares()) {
    for (const char* precision : kPrecisions) {
      const SpgemmPath path = path_of(a, precision);
      CHECK(path.predicted_us.contains("row_spgemm"));
      CHECK(path.reason.find("longest stage") != std::string::npos);
      CHECK(path.predicted_us.contains("tile_spgemm") == (std::string(precision) != "fp32"));
      for (const auto& [kernel, us] : path.predicted_us) {
        CHECK(std::isfinite(us));
        CHECK(us > 0);
        CHECK(path.predicted_us.at(path.kernel) <= us);
      }
    }
  }
}

TEST_CASE("mixed_spgemm uses the kernel that its parameter path names") {
  const CsrMatrix scattered = random_sparse(400, 400, 0.01, 4);
  CHECK(path_of(scattered, "fp16", "tiles").kernel == "tile_spgemm");
  CHECK(path_of(scattered, "fp16", "merge").kernel == "merge_spgemm");
  CHECK(path_of(dense_blocks(128, 128), "fp16", "rows").kernel == "row_spgemm");
  CHECK(path_of(scattered, "fp32", "rows").kernel == "row_spgemm");
  CHECK(path_of(scattered, "fp16", "tiles").reason == "path = tiles names it");
  CHECK_THROWS_AS(kernel_of("mixed_spgemm", with("fp32", "tiles")), Error);
}

TEST_CASE("mixed_spgemm in limited memory is row_spgemm with that limit") {
  const CsrMatrix dense = dense_blocks(128, 128);
  Params::Given given = with("fp16");
  given["workspace_limit"] = std::int64_t{12345};
  const mixed_spgemm::Choice choice = choose(dense, dense, params_of(given));
  CHECK(choice.path.kernel == "row_spgemm");
  CHECK(choice.params.integer("workspace_limit") == 12345);
  CHECK(choice.path.predicted_us.size() == 1);
  for (const char* path : {"tiles", "merge"}) {
    given["path"] = std::string(path);
    CHECK_THROWS_WITH_AS(kernel_of("mixed_spgemm", given),
                         "only row_spgemm keeps to a workspace_limit: path = rows or auto", Error);
  }
  given["path"] = std::string("rows");
  CHECK_NOTHROW(kernel_of("mixed_spgemm", given));
}

TEST_CASE("mixed_spgemm chooses rows for infinite values, which the zeros of tiles would spread") {
  CsrMatrix dense = dense_blocks(128, 128);
  std::vector<float> values(dense.values.begin(), dense.values.end());
  values[5] = std::numeric_limits<float>::infinity();
  dense.values = std::move(values);
  CHECK(path_of(dense, "fp16").kernel == "row_spgemm");
}

TEST_CASE("mixed_spgemm refuses factors of unequal inner size, and an unknown device") {
  const CsrMatrix wide = random_sparse(20, 30, 0.2, 5);
  CHECK_THROWS_AS(choose(wide, wide, params_of(with("fp16"))), Error);
  Params::Given given = with("fp16");
  given["model_device"] = std::string("h2000");
  const CsrMatrix square = random_sparse(20, 20, 0.2, 6);
  CHECK_THROWS_WITH_AS(choose(square, square, params_of(given)), doctest::Contains("h200"), Error);
  given["model_device"] = std::string("v100");  // its file has no issue rate
  CHECK_THROWS_AS(choose(square, square, params_of(given)), Unsupported);
}

TEST_CASE("mixed_spgemm equals the kernel that it chooses, bit for bit and in its error bound") {
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

TEST_CASE("the sketch of a small product is exact, that of a large one is near") {
  const CsrMatrix a = random_sparse(203, 157, 0.03, 7), b = random_sparse(157, 91, 0.05, 8);
  const ProductSketch few(a, b);
  std::int64_t products = 0, longest = 0, nonzeros_of_large_rows = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    std::int64_t of_row = 0;
    for (const std::int32_t col : a.row_cols(row)) of_row += b.row_length(col);
    CHECK(few.row_products[row] == of_row);
    products += of_row;
    longest = std::max(longest, a.row_length(row));
    if (of_row > 32) nonzeros_of_large_rows += a.row_length(row);
  }
  CHECK(few.products == products);
  CHECK(few.longest_row_of_a == longest);
  CHECK(few.tiles_of_a().rows() == 26);
  CHECK(few.tiles_of_b().rows() == 20);
  CHECK(few.nonzeros_of_c == multiply_rows(a, b).nnz());
  CHECK(few.pairs <= static_cast<double>(few.tile_products));
  CHECK(few.tiles_of_c <= few.pairs);
  CHECK_FALSE(few.b_is_a());
  CHECK_THROWS_AS(ProductSketch(a, a), Error);

  const WorkCounts rows = counts_of("row_spgemm", a, b);
  CHECK(rows.at("products") == products);
  CHECK(rows.at("nonzeros_of_a") == a.nnz());
  CHECK(rows.at("nonzeros_of_c") == few.nonzeros_of_c);
  CHECK(rows.at("longest_row_of_a") == longest);
  CHECK(rows.at("nonzeros_of_large_rows") == nonzeros_of_large_rows);
  const WorkCounts tiles = counts_of("tile_spgemm", a, b);
  CHECK(tiles.at("rows") == 203);
  CHECK(tiles.at("tiled_matrices") == 2);
  CHECK(tiles.at("tiled_rows") == 26 + 20);
  CHECK(tiles.at("tiled_nonzeros") == a.nnz() + b.nnz());
  CHECK(tiles.at("operand_nonzeros") == a.nnz() + b.nnz());

  const CsrMatrix many = random_sparse(20000, 20000, 0.0004, 9);
  const auto nonzeros = static_cast<double>(multiply_rows(many, many).nnz());
  CHECK(ProductSketch(many, many).nonzeros_of_c == doctest::Approx(nonzeros).epsilon(0.1));
}

TEST_CASE("the counts of a square of dense blocks equal those worked by hand") {
  const CsrMatrix blocks = dense_blocks(3, 24);
  const WorkCounts of = counts_of("tile_spgemm", blocks, blocks);
  CHECK(of.at("tiled_matrices") == 1);
  CHECK(of.at("tiled_rows") == 9);
  CHECK(of.at("tiled_nonzeros") == blocks.nnz());
  CHECK(of.at("operand_nonzeros") == 2 * blocks.nnz());
  CHECK(of.at("tiles") == 27);
  CHECK(of.at("tile_products") == 81);
  CHECK(of.at("pairs") == 81);
  CHECK(of.at("tiles_of_c") == 27);
  CHECK(of.at("nonzeros_of_c") == blocks.nnz());
  CHECK(of.at("longest_filling") == 3 * 2);  // 192 nonzeros, 128 threads, three visits to each
  CHECK(of.at("scans") == 9);                // all columns of a tile row at once
  CHECK(of.at("tiles_scanned") == 27);
  CHECK(of.at("long_tile_products") == 0);
  CHECK(of.at("largest_task") == 9);
  const WorkCounts merged = counts_of("merge_spgemm", blocks, blocks);
  CHECK(merged.at("merged_columns") == blocks.nnz());  // a whole warp for a row of 24
  CHECK(merged.at("products") == 24 * blocks.nnz());
}

TEST_CASE("the counts of tile_spgemm include the cuts of long tile rows into tasks") {
  // 100 x 100 tiles: 10000 pairs for a tile row of C, in tasks of at most 3906. That is three
  // slices, of its four slots of 32 columns: two of two slots; and a slot has more pairs than a
  // thread block lists.
  const CsrMatrix block = dense_blocks(1, 800);
  const WorkCounts of = counts_of("tile_spgemm", block, block);
  CHECK(of.at("tile_products") == 1'000'000);
  CHECK(of.at("long_tile_products") == of.at("tile_products"));
  CHECK(of.at("largest_task") == 64 * 100);
  CHECK(of.at("scans") == 100 * 4);
  CHECK(of.at("tiles_scanned") == 100 * 4 * 100);
  CHECK(of.at("longest_filling") == 50 * 3);
}

TEST_CASE("a kernel publishes no counts for a product that its cost model does not cover") {
  const CsrMatrix long_rows = dense_blocks(2, 33);
  CHECK_THROWS_WITH_AS(counts_of("merge_spgemm", long_rows, long_rows),
                       doctest::Contains("33 nonzeros"), Unsupported);
  CHECK_THROWS_AS(counts_of("hash_spgemm", long_rows, long_rows), Unsupported);
  CsrMatrix infinite = long_rows;
  std::vector<float> values(infinite.values.begin(), infinite.values.end());
  values[5] = std::numeric_limits<float>::infinity();
  infinite.values = std::move(values);
  CHECK_THROWS_AS(counts_of("tile_spgemm", infinite, infinite), Unsupported);
}

TEST_CASE("more work is predicted to take longer, and a device without a rate predicts nothing") {
  const Device& h200 = find_device("h200");
  const CsrMatrix blocks = dense_blocks(8, 32);
  const auto predict = [&](const char* kernel, const WorkCounts& counts) {
    if (kernel == std::string("row_spgemm")) return mixed_model::predict_rows(counts, h200);
    if (kernel == std::string("merge_spgemm")) return mixed_model::predict_merge(counts, h200);
    return mixed_model::predict_tiles(counts, "fp16", h200);
  };
  for (const char* kernel : {"row_spgemm", "merge_spgemm", "tile_spgemm"}) {
    WorkCounts some = counts_of(kernel, blocks, blocks);
    if (kernel == std::string("tile_spgemm")) some["long_tile_products"] = 1;
    if (kernel == std::string("row_spgemm")) some["hub_products"] = some["wide_products"] = 100'000;
    const double time_us = predict(kernel, some).time_us;
    for (const auto& [name, count] : some.all()) {
      CAPTURE(kernel);
      CAPTURE(name);
      REQUIRE(count > 0);
      WorkCounts more = some;
      more[name] *= 2;
      // Products of wide rows are not more products: their nonzeros of C cost less than others.
      const double sign = name == std::string("wide_products") ? -1 : 1;
      CHECK(sign * predict(kernel, more).time_us > sign * time_us);
      // The registered cost model is the same prediction.
      const Params params = Registry<SpgemmKernel>::instance().resolve(
          kernel, kernel == std::string("tile_spgemm")
                      ? Params::Given{{"precision", std::string("fp16")}}
                      : Params::Given{});
      const Rating rating =
          Registry<CostModel>::instance().make(kernel)->rate(more, params, "h200");
      CHECK(rating.time_us == predict(kernel, more).time_us);
      CHECK(rating.origin == Origin::kModelled);
    }
  }
  const WorkCounts of_tiles = counts_of("tile_spgemm", blocks, blocks);
  const Prediction tiles = mixed_model::predict_tiles(of_tiles, "fp16", h200);
  CHECK(tiles.parts.size() == 3);
  double sum = 0;
  for (const PredictedPart& part : tiles.parts) sum += part.time_us;
  CHECK(tiles.time_us == doctest::Approx(sum));
  Device unknown = h200;
  unknown.measured.erase("issue_rate");
  unknown.datasheet.erase("issue_rate");
  CHECK_THROWS_AS(mixed_model::predict_rows(counts_of("row_spgemm", blocks, blocks), unknown),
                  Unsupported);
  CHECK_THROWS_AS(mixed_model::predict_tiles(of_tiles, "fp64", h200), Error);
}

TEST_CASE("a record states which kernel mixed_spgemm chose, and the predicted times") {
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
