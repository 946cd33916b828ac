// The cost models of our own SpMM kernels: the numbers that they read, and what a choice by them
// costs on the matrices that were measured.

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/choice.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm/product_counts.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

double predict(const char* kernel, const WorkCounts& counts, const Params::Given& given = {}) {
  const Params params = Registry<SpmmKernel>::instance().resolve(kernel, given);
  return Registry<CostModel>::instance().make(kernel)->rate(counts, params, "h200").time_us;
}

TEST_CASE("product counts are those of all windows of a small matrix") {
  const CsrMatrix a = random_sparse(203, 150, 0.03, 5);
  std::int64_t columns = 0, blocks = 0, most_nonzeros = -1, longest = 0;
  for (std::int32_t first = 0; first < a.rows; first += 16) {
    const std::int32_t last = std::min(first + 16, a.rows);
    const std::set<std::int32_t> different(a.col_indices.begin() + a.row_offsets[first],
                                           a.col_indices.begin() + a.row_offsets[last]);
    const auto of_window = static_cast<std::int64_t>((different.size() + 7) / 8);
    columns += std::ssize(different), blocks += of_window;
    const std::int64_t nonzeros = a.row_offsets[last] - a.row_offsets[first];
    if (nonzeros > most_nonzeros) most_nonzeros = nonzeros, longest = of_window;
  }
  const WorkCounts counts = product_counts(a, 40);
  CHECK(counts.at("n") == 40);
  CHECK(counts.at("rows") == 203);
  CHECK(counts.at("cols") == 150);
  CHECK(counts.at("nonzeros") == static_cast<double>(a.nnz()));
  CHECK(counts.at("condensed_columns") == static_cast<double>(columns));
  CHECK(counts.at("tc_blocks") == static_cast<double>(blocks));
  CHECK(counts.at("longest_window") == static_cast<double>(longest));
  std::int64_t tiles = 0;
  for (std::int32_t first = 0; first < a.rows; first += 64) {
    const std::int32_t last = std::min(first + 64, a.rows);
    const std::set<std::int32_t> different(a.col_indices.begin() + a.row_offsets[first],
                                           a.col_indices.begin() + a.row_offsets[last]);
    tiles += static_cast<std::int64_t>((different.size() + 63) / 64);
  }
  CHECK(counts.at("tall_tiles") == static_cast<double>(tiles));
  std::int64_t longest_row = 0;
  for (std::int32_t row = 0; row < a.rows; ++row)
    longest_row = std::max(longest_row, a.row_length(row));
  CHECK(counts.at("longest_row") == static_cast<double>(longest_row));
}

TEST_CASE("product counts of a matrix without rows or nonzeros are zero") {
  for (const CsrMatrix& a : {random_sparse(0, 5, 0.5, 1), random_sparse(3, 0, 0.5, 1)}) {
    const WorkCounts counts = product_counts(a, 8);
    for (const char* name : {"nonzeros", "condensed_columns", "tc_blocks", "tall_tiles",
                             "longest_window", "longest_row"})
      CHECK(counts.at(name) == 0);
    CHECK(predict("tessera_spmm", counts) > 0);
  }
}

TEST_CASE("product counts of a sample are within two percent") {
  const CsrMatrix a = load_matrix("rmat(scale=16, edge_factor=40)").matrix;
  REQUIRE(a.nnz() > 3 * kSampledNonzeros);
  double columns = 0;
  for (std::int32_t first = 0; first < a.rows; first += 16) {
    const std::int32_t last = std::min(first + 16, a.rows);
    columns +=
        static_cast<double>(std::set<std::int32_t>(a.col_indices.begin() + a.row_offsets[first],
                                                   a.col_indices.begin() + a.row_offsets[last])
                                .size());
  }
  CHECK(product_counts(a, 1).at("condensed_columns") == doctest::Approx(columns).epsilon(0.02));
}

TEST_CASE("the formulas are refused for parameters that they were not fitted to") {
  const WorkCounts counts = product_counts(random_sparse(50, 50, 0.1, 1), 32);
  CHECK_THROWS_AS(predict("tessera_spmm", counts, {{"precision", std::string("tf32x3")}}),
                  Unsupported);
  CHECK_THROWS_AS(predict("tessera_spmm", counts, {{"columns", std::int64_t{64}}}), Unsupported);
  for (const Params::Given& given :
       {Params::Given{{"piece", std::int64_t{20}}}, Params::Given{{"columns", std::int64_t{256}}},
        Params::Given{{"lanes", std::int64_t{16}}},
        Params::Given{{"offsets", std::string("always")}},
        Params::Given{{"nonzeros", std::string("shared")}}})
    CHECK_THROWS_AS(predict("rows_spmm", counts, given), Unsupported);
  CHECK(predict("tessera_spmm", counts, {{"storage", std::string("fp16")}}) > 0);
  CHECK_THROWS_AS(predict("tall_spmm", counts, {{"precision", std::string("fp32")}}), Unsupported);
  CHECK_THROWS_AS(predict("tall_spmm", counts, {{"max_tiles", std::int64_t{3}}}), Unsupported);
  // Narrowing costs more than nothing, and C in FP32 as much.
  CHECK(predict("tall_spmm", counts) >
        predict("tall_spmm", counts, {{"storage", std::string("fp16")}}));
  // Narrowing B costs more than it saves where a row of B is used five times, and pays at 300.
  const auto pays = [](const char* kernel, double density) {
    const WorkCounts of = product_counts(random_sparse(500, 500, density, 2), 2048);
    return predict(kernel, of, {{"precision", std::string("fp16_scaled")}}) < predict(kernel, of);
  };
  CHECK_FALSE(pays("tessera_spmm", 0.01));
  CHECK_FALSE(pays("rows_spmm", 0.01));
  CHECK(pays("rows_spmm", 0.6));
}

/// Measured times by matrix, N and case.
using Times = std::map<std::tuple<std::string, int, std::string>, double>;

Times measured_times(const std::string& table) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/experiments/results/spmm/" + table);
  std::map<std::string, std::size_t> column;
  Times times;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells{""};
    bool quoted = false;
    for (const char c : line) {
      if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        cells.emplace_back();
      else
        cells.back() += c;
    }
    if (column.empty()) {
      for (std::size_t i = 0; i < cells.size(); ++i) column[cells[i]] = i;
      continue;
    }
    if (column.contains("l2") && cells[column["l2"]] != "warm") continue;
    if (const std::string& us = cells[column["time_us"]]; !us.empty())
      times[{cells[column["matrix"]], std::stoi(cells[column["n"]]), cells[column["case"]]}] =
          std::stod(us);
  }
  return times;
}

/// A table, what its cases append to a kernel's name, and the storage.
struct Measured {
  const char *table, *suffix, *storage;
};

TEST_CASE("a choice by formula takes at most a tenth longer than the faster kernel") {
  if (shared_path("data").empty()) return;
  for (const auto& [table, suffix, storage] : {Measured{"own_spmm.csv", "", "fp32"},
                                               {"own_spmm_16bit.csv", ", FP16", "fp16"},
                                               {"own_spmm_16bit.csv", ", BF16", "bf16"}}) {
    const Times times = measured_times(table);
    const std::string tiles = std::string("tessera_spmm") + suffix;
    double chosen = 0, other = 0, worst = 1;
    int products = 0;
    for (const auto& [key, tiles_us] : times) {
      const auto& [name, n, kernel] = key;
      if (kernel != tiles || (n != 32 && n != 128 && n != 512)) continue;
      const double rows_us = times.at({name, n, std::string("rows_spmm") + suffix});
      const CsrMatrix a = load_matrix(shared_path("data/" + name + ".npz")).matrix;
      const WorkCounts counts = product_counts(a, n);
      const Params::Given given{{"storage", std::string(storage)}};
      const bool takes_tiles =
          predict("tessera_spmm", counts, given) < predict("rows_spmm", counts, given);
      const double best = std::min(tiles_us, rows_us);
      const double cost = (takes_tiles ? tiles_us : rows_us) / best;
      chosen += std::log(cost), other += std::log((takes_tiles ? rows_us : tiles_us) / best);
      worst = std::max(worst, cost);
      ++products;
    }
    CAPTURE(std::string(storage));
    REQUIRE(products == 3 * 24);
    CHECK(std::exp(chosen / products) < 1.03);
    CHECK(worst < 1.10);
    CHECK(std::exp(other / products) > 1.15);  // the choice matters
  }
}

}  // namespace
}  // namespace tessera
