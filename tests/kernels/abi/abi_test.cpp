// The C interface without a GPU: values, JSON, errors, options of another version, the stop flag.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/base/permutation.hpp"
#include "kernels/abi/tessera.h"
#include "kernels/storage.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/support.hpp"

namespace {

using nlohmann::json;
using namespace tessera;

/// A loaded matrix and its arrays.
struct Loaded {
  tessera_matrix* owner = nullptr;
  tessera_csr csr = {};

  explicit Loaded(const char* name) {
    REQUIRE_MESSAGE(tessera_matrix_load(name, &owner) == TESSERA_OK, tessera_last_error());
    REQUIRE(tessera_matrix_csr(owner, &csr) == TESSERA_OK);
  }
  ~Loaded() { tessera_matrix_destroy(owner); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  CsrMatrix matrix() const {
    CsrMatrix a;
    a.rows = static_cast<std::int32_t>(csr.rows), a.cols = static_cast<std::int32_t>(csr.cols);
    a.row_offsets = std::vector<std::int64_t>(csr.row_offsets, csr.row_offsets + csr.rows + 1);
    a.col_indices = std::vector<std::int32_t>(csr.col_indices, csr.col_indices + csr.nnz);
    a.values = std::vector<float>(csr.values, csr.values + csr.nnz);
    return a;
  }
};

constexpr const char* kMatrix = "rmat(scale=8, edge_factor=6)";
constexpr float kPoison = -7777;

json parsed(char* text) {
  REQUIRE(text != nullptr);
  json value = json::parse(text);
  tessera_free(text);
  return value;
}

std::vector<float> poisoned(std::int64_t size) {
  return std::vector<float>(static_cast<std::size_t>(size), kPoison);
}

}  // namespace

TEST_CASE("the product on the CPU is the truth rounded once and has the same bits at any threads") {
  const Loaded a(kMatrix);
  const std::int64_t n = 37, ldb = 40, ldc = 41;
  const DenseMatrix b = random_dense(a.csr.cols, ldb, 3);
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    REQUIRE(tessera_set_threads(threads) == TESSERA_OK);
    std::vector<float> c = poisoned(a.csr.rows * ldc);
    REQUIRE(tessera_spmm_cpu(&a.csr, n, TESSERA_FP32, nullptr, b.values.data(), ldb, c.data(), ldc,
                             1, 0) == TESSERA_OK);
    if (first.empty()) first = c;
    CHECK(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)) == 0);
  }
  tessera_set_threads(0);
  const TrueRows truth = spmm_fp64(a.matrix(), b, 0, a.csr.rows);
  for (std::int64_t i = 0; i < a.csr.rows; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      const float got = first[static_cast<std::size_t>(i * ldc + j)];
      if (j >= n) {
        CHECK(got == kPoison);
        continue;
      }
      const auto at = static_cast<std::size_t>(i * ldb + j);
      CHECK(std::abs(got - truth.product[at]) <= 0x1p-24 * truth.magnitude[at]);
    }
}

TEST_CASE("a product on the CPU with one column is that column of a wider product") {
  const Loaded a(kMatrix);
  const DenseMatrix b = random_dense(a.csr.cols, 6, 8);
  std::vector<float> wide = poisoned(a.csr.rows * 6), one = poisoned(a.csr.rows);
  REQUIRE(tessera_spmm_cpu(&a.csr, 6, TESSERA_FP32, nullptr, b.values.data(), 6, wide.data(), 6, 1,
                           0) == TESSERA_OK);
  REQUIRE(tessera_spmm_cpu(&a.csr, 1, TESSERA_FP32, nullptr, b.values.data() + 4, 6, one.data(), 1,
                           1, 0) == TESSERA_OK);
  for (std::int64_t i = 0; i < a.csr.rows; ++i)
    CHECK(one[static_cast<std::size_t>(i)] == wide[static_cast<std::size_t>(i * 6 + 4)]);
}

TEST_CASE("the product on the CPU takes FP64 values of A and adds to C") {
  const Loaded a(kMatrix);
  const std::int64_t n = 3;
  std::vector<double> values(static_cast<std::size_t>(a.csr.nnz), 1 + 0x1p-40);
  std::vector<double> b(static_cast<std::size_t>(a.csr.cols * n), 1);
  std::vector<double> c(static_cast<std::size_t>(a.csr.rows * n), 4);
  REQUIRE(tessera_spmm_cpu(&a.csr, n, TESSERA_FP64, values.data(), b.data(), n, c.data(), n, 2,
                           0.5) == TESSERA_OK);
  for (std::int64_t i = 0; i < a.csr.rows; ++i) {
    const auto length = static_cast<double>(a.csr.row_offsets[i + 1] - a.csr.row_offsets[i]);
    CHECK(c[static_cast<std::size_t>(i * n)] == 2 * length * (1 + 0x1p-40) + 2);
  }
  CHECK(tessera_spmm_cpu(&a.csr, n, TESSERA_FP32, values.data(), b.data(), n, c.data(), n, 1, 0) ==
        TESSERA_INVALID);
}

TEST_CASE("the product on the CPU takes B and C in 16 bits and rounds C to them") {
  const Loaded a(kMatrix);
  const std::int64_t n = 5, ld = 7;
  for (const auto& [type, element] :
       {std::pair{TESSERA_FP16, ElementType::kFp16}, std::pair{TESSERA_BF16, ElementType::kBf16}}) {
    const DenseMatrix b = stored_as(element, random_dense(a.csr.cols, ld, 9));
    const std::vector<std::uint16_t> narrow = to_16_bits(element, b.values);
    std::vector<std::uint16_t> c(static_cast<std::size_t>(a.csr.rows * ld), 0x1234);
    std::vector<float> wide = poisoned(a.csr.rows * ld);
    REQUIRE(tessera_spmm_cpu(&a.csr, n, type, nullptr, narrow.data(), ld, c.data(), ld, 3, 0) ==
            TESSERA_OK);
    REQUIRE(tessera_spmm_cpu(&a.csr, n, TESSERA_FP32, nullptr, b.values.data(), ld, wide.data(), ld,
                             3, 0) == TESSERA_OK);
    for (std::int64_t i = 0; i < a.csr.rows; ++i)
      for (std::int64_t j = 0; j < ld; ++j) {
        const auto at = static_cast<std::size_t>(i * ld + j);
        CHECK(c[at] == (j < n ? to_16_bits(element, {&wide[at], 1})[0] : 0x1234));
      }
  }
}

TEST_CASE("a matrix without values is one of ones") {
  const Loaded a(kMatrix);
  tessera_csr ones = a.csr;
  ones.values = nullptr;
  std::vector<float> b(static_cast<std::size_t>(a.csr.cols), 1), c = poisoned(a.csr.rows);
  REQUIRE(tessera_spmm_cpu(&ones, 1, TESSERA_FP32, nullptr, b.data(), 1, c.data(), 1, 1, 0) ==
          TESSERA_OK);
  for (std::int64_t i = 0; i < a.csr.rows; ++i)
    CHECK(c[static_cast<std::size_t>(i)] ==
          static_cast<float>(a.csr.row_offsets[i + 1] - a.csr.row_offsets[i]));
}

TEST_CASE("an emulated product is inside the bound of its kernel and a wrong element is found") {
  const Loaded a(kMatrix);
  const std::int64_t n = 24;
  const DenseMatrix b = random_dense(a.csr.cols, n, 5);
  std::vector<float> c = poisoned(a.csr.rows * n);
  REQUIRE(tessera_emulate(&a.csr, n, "acc_spmm", nullptr, nullptr, b.values.data(), n, c.data(),
                          n) == TESSERA_OK);
  char* text = nullptr;
  REQUIRE(tessera_errors(&a.csr, n, "acc_spmm", nullptr, nullptr, b.values.data(), n, c.data(), n,
                         &text) == TESSERA_OK);
  json errors = parsed(text);
  CHECK(errors["ok"] == true);
  CHECK(errors["compared"] == a.csr.rows * n);
  CHECK(errors["bound_ratio"].get<double>() < 1);

  // Operands rounded to TF32 are beyond the bound of sums in FP32, which is the default.
  REQUIRE(tessera_errors(&a.csr, n, nullptr, nullptr, nullptr, b.values.data(), n, c.data(), n,
                         &text) == TESSERA_OK);
  CHECK(parsed(text)["ok"] == false);

  c[5] += 100;
  REQUIRE(tessera_errors(&a.csr, n, "acc_spmm", nullptr, nullptr, b.values.data(), n, c.data(), n,
                         &text) == TESSERA_OK);
  errors = parsed(text);
  CHECK(errors["ok"] == false);
  CHECK(errors["beyond_bound"] == 1);
  CHECK(errors["worst"]["row"] == 0);
  CHECK(errors["worst"]["col"] == 5);
}

TEST_CASE("a simulation, a timeline and an advice are told as JSON with their origin") {
  const Loaded a(kMatrix);
  char* text = nullptr;
  REQUIRE(tessera_simulate(&a.csr, 32, "rows_spmm", nullptr, "a100", 0, &text) == TESSERA_OK);
  const json simulated = parsed(text);
  CHECK(simulated["origin"] == "simulated");
  CHECK(simulated["prediction"]["time_us"].get<double>() > 0);
  CHECK(simulated["counters"].size() > 3);

  REQUIRE(tessera_timeline(&a.csr, 32, "rows_spmm", nullptr, nullptr, 0, -1, &text) == TESSERA_OK);
  const json timeline = parsed(text);
  CHECK(timeline["about"]["params"]["kernel"]["name"] == "rows_spmm");
  CHECK(timeline["thread_blocks"].get<std::string>().starts_with("launch,thread_block,sm,"));

  const char* orders[] = {"none"};
  const char* kernels[] = {"rows_spmm", "csr_spmm"};
  tessera_advice_options options;
  tessera_advice_options_init(&options);
  options.num_orders = 1, options.orders = orders;
  options.num_kernels = 2, options.kernels = kernels;
  REQUIRE(tessera_advise(&a.csr, 32, &options, &text) == TESSERA_OK);
  const json advice = parsed(text);
  CHECK(advice["ranked"].size() == 2);
  CHECK(advice["complete"] == true);
}

TEST_CASE("an order from the C interface is a permutation and a format text must fit its kernel") {
  const Loaded a("shuffle(of=poisson2d(nx=12, ny=12))");
  std::vector<std::int32_t> rows(static_cast<std::size_t>(a.csr.rows), -1);
  std::vector<std::int32_t> cols(static_cast<std::size_t>(a.csr.cols), -1);
  char* text = nullptr;
  REQUIRE(tessera_reorder(&a.csr, "rcm", rows.data(), cols.data(), &text) == TESSERA_OK);
  CHECK(parsed(text)["moves_columns"] == true);
  CHECK(Permutation(rows).size() == a.csr.rows);
  CHECK(rows == cols);

  std::vector<float> b(static_cast<std::size_t>(a.csr.cols), 1), c = poisoned(a.csr.rows);
  CHECK(tessera_emulate(&a.csr, 1, "smat", "bcsr(block_rows=8)", nullptr, b.data(), 1, c.data(),
                        1) == TESSERA_OK);
  CHECK(tessera_emulate(&a.csr, 1, "smat", "csr", nullptr, b.data(), 1, c.data(), 1) ==
        TESSERA_INVALID);
  CHECK(std::string(tessera_last_error()).find("reads format") != std::string::npos);
}

TEST_CASE("arrays that are no matrix are refused with the row and the cause") {
  const std::int64_t offsets[] = {0, 2, 3};
  const std::int32_t falling[] = {1, 0, 1};
  const float values[] = {1, 2, 3};
  float c[2] = {}, b[2] = {1, 1};
  tessera_csr a{2, 2, 3, offsets, falling, values};
  const auto product = [&] {
    return tessera_spmm_cpu(&a, 1, TESSERA_FP32, nullptr, b, 1, c, 1, 1, 0);
  };
  CHECK(product() == TESSERA_INVALID);
  CHECK(std::string(tessera_last_error()).find("row 0") != std::string::npos);
  const std::int32_t right[] = {0, 1, 1};
  a.col_indices = right;
  CHECK(product() == TESSERA_OK);
  a.nnz = 2;
  CHECK(product() == TESSERA_INVALID);
  a.nnz = 3, a.rows = -1;
  CHECK(product() == TESSERA_INVALID);
  a.rows = 2, a.row_offsets = nullptr;
  CHECK(product() == TESSERA_INVALID);
  CHECK(tessera_spmm_cpu(nullptr, 1, TESSERA_FP32, nullptr, b, 1, c, 1, 1, 0) == TESSERA_INVALID);
  CHECK(tessera_matrix_load("no_such_matrix_anywhere", nullptr) == TESSERA_INVALID);
  tessera_matrix* matrix = nullptr;
  CHECK(tessera_matrix_load("no_such_matrix_anywhere", &matrix) == TESSERA_UNSUPPORTED);
}

TEST_CASE("options of a caller that knows fewer fields keep the defaults of the others") {
  const Loaded a(kMatrix);
  tessera_advice_options options;
  tessera_advice_options_init(&options);
  const char* orders[] = {"none"};
  options.num_orders = 1, options.orders = orders;
  options.quick = 1;
  options.products = -5;  // beyond what the caller has
  options.size = offsetof(tessera_advice_options, products);
  char* text = nullptr;
  REQUIRE(tessera_advise(&a.csr, 8, &options, &text) == TESSERA_OK);
  CHECK(parsed(text)["products"] == 1000);
  options.size = sizeof options;
  CHECK(tessera_advise(&a.csr, 8, &options, &text) == TESSERA_INVALID);
  CHECK(text == nullptr);
  options.size = sizeof options + 8;
  CHECK(tessera_advise(&a.csr, 8, &options, &text) == TESSERA_INVALID);
}

TEST_CASE("a stop flag ends calls of its thread and no others") {
  const Loaded a(kMatrix);
  std::vector<float> b(static_cast<std::size_t>(a.csr.cols), 1), c = poisoned(a.csr.rows);
  const auto product = [&] {
    return tessera_spmm_cpu(&a.csr, 1, TESSERA_FP32, nullptr, b.data(), 1, c.data(), 1, 1, 0);
  };
  const std::int32_t stop = 1;
  tessera_set_stop(&stop);
  CHECK(product() == TESSERA_STOPPED);
  tessera_status elsewhere = TESSERA_INTERNAL;
  std::thread([&] { elsewhere = product(); }).join();
  CHECK(elsewhere == TESSERA_OK);
  // A search for an order ends with the order until then.
  std::vector<std::int32_t> rows(static_cast<std::size_t>(a.csr.rows)),
      cols(static_cast<std::size_t>(a.csr.cols));
  char* text = nullptr;
  CHECK(tessera_reorder(&a.csr, "best", rows.data(), cols.data(), &text) == TESSERA_OK);
  if (text != nullptr) CHECK(parsed(text)["cut_short"] == true);
  CHECK(Permutation(rows).size() == a.csr.rows);
  tessera_set_stop(nullptr);
  CHECK(product() == TESSERA_OK);
}
