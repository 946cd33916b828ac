// Plans of the C interface on a GPU: their products are the emulation bit for bit, in every option;
// new values give the product of the matrix that has them; wrong uses are refused.
#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/permutation.hpp"
#include "formats/io/source.hpp"
#include "kernels/abi/tessera.h"
#include "kernels/storage.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

tessera_csr csr_of(const CsrMatrix& a) {
  return {a.rows, a.cols, a.nnz(), a.row_offsets.data(), a.col_indices.data(), a.values.data()};
}

struct OwnedPlan {
  tessera_spmm_plan* plan = nullptr;
  tessera_status status;

  OwnedPlan(const CsrMatrix& a, std::int64_t n, const tessera_spmm_options& options) {
    const tessera_csr csr = csr_of(a);
    status = tessera_spmm_plan_create(&csr, n, &options, &plan);
  }
  ~OwnedPlan() { tessera_spmm_plan_destroy(plan); }
  OwnedPlan(const OwnedPlan&) = delete;
  OwnedPlan& operator=(const OwnedPlan&) = delete;
};

tessera_spmm_options with_kernel(const char* const* kernel) {
  tessera_spmm_options options;
  tessera_spmm_options_init(&options);
  options.num_kernels = 1, options.kernels = kernel;
  return options;
}

/// C of one run with rows `ld` elements apart, poisoned before; gaps have to stay.
std::vector<float> run(tessera_spmm_plan* plan, const CsrMatrix& a, const DenseMatrix& b,
                       std::int64_t gap) {
  const std::int64_t n = b.cols, ld = n + gap;
  std::vector<float> wide(static_cast<std::size_t>(b.rows * ld), -5);
  for (std::int64_t i = 0; i < b.rows; ++i) std::copy_n(b.row(i).data(), n, wide.begin() + i * ld);
  const DeviceArray<float> device_b(wide);
  DeviceArray<float> device_c(std::vector<float>(static_cast<std::size_t>(a.rows * ld), -7));
  REQUIRE_MESSAGE(tessera_spmm_plan_run(plan, device_b.data(), ld, device_c.data(), ld, 1, 0,
                                        nullptr) == TESSERA_OK,
                  tessera_last_error());
  const std::vector<float> with_gaps = device_c.download();
  std::vector<float> c;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    c.insert(c.end(), with_gaps.begin() + i * ld, with_gaps.begin() + i * ld + n);
    for (std::int64_t j = n; j < ld; ++j)
      CHECK(with_gaps[static_cast<std::size_t>(i * ld + j)] == -7);
  }
  return c;
}

std::vector<float> emulated(const CsrMatrix& a, const char* kernel, const DenseMatrix& b) {
  std::vector<float> c(static_cast<std::size_t>(a.rows * b.cols), -9);
  const tessera_csr csr = csr_of(a);
  REQUIRE_MESSAGE(tessera_emulate(&csr, b.cols, kernel, nullptr, nullptr, b.values.data(), b.cols,
                                  c.data(), b.cols) == TESSERA_OK,
                  tessera_last_error());
  return c;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

constexpr const char* kKernels[] = {"rows_spmm", "tessera_spmm", "tessera_spmm(precision=tf32x3)"};

}  // namespace

TEST_CASE("plans of the C interface give the bits of the emulation in place and strided") {
  if (no_gpu()) return;
  const CsrMatrix a = load_matrix("rmat(scale=9, edge_factor=7)").matrix;
  for (const char* kernel : kKernels)
    for (const std::int64_t n : {1, 33, 128})
      for (const std::int64_t gap : {0, 3}) {
        CAPTURE(kernel);
        CAPTURE(n);
        tessera_spmm_options options = with_kernel(&kernel);
        options.strided = gap > 0;
        const OwnedPlan made(a, n, options);
        REQUIRE_MESSAGE(made.status == TESSERA_OK, tessera_last_error());
        const DenseMatrix b = random_dense(a.cols, n, 4);
        CHECK(same_bits(run(made.plan, a, b, gap), emulated(a, kernel, b)));
      }
}

TEST_CASE("a batch of B gives the bits of each product, and gaps between matrices stay") {
  if (no_gpu()) return;
  const CsrMatrix a = load_matrix("rmat(scale=9, edge_factor=7)").matrix;
  constexpr std::int64_t kCount = 3, kGap = 5;
  for (const char* kernel : {"rows_spmm", "tessera_spmm"})
    for (const std::int64_t n : {7, 64})
      for (const bool side_by_side : {false, true}) {
        CAPTURE(kernel);
        CAPTURE(n);
        CAPTURE(side_by_side);
        tessera_spmm_options options = with_kernel(&kernel);
        options.strided = side_by_side;
        const OwnedPlan made(a, n, options);
        REQUIRE_MESSAGE(made.status == TESSERA_OK, tessera_last_error());
        const std::int64_t ld = side_by_side ? kCount * n + kGap : n;
        const std::int64_t stride_b = side_by_side ? n : a.cols * n + kGap;
        const std::int64_t stride_c = side_by_side ? n : a.rows * n + kGap;
        const auto size = [&](std::int64_t rows) {
          return static_cast<std::size_t>((rows - 1) * ld + (kCount - 1) * (rows * n + kGap) + ld);
        };
        std::vector<DenseMatrix> b;
        std::vector<float> all_b(size(a.cols), -5), expected(size(a.rows), -7);
        for (std::int64_t i = 0; i < kCount; ++i) {
          b.push_back(random_dense(a.cols, n, 4 + static_cast<std::uint64_t>(i)));
          const std::vector<float> c = emulated(a, kernel, b.back());
          for (std::int64_t row = 0; row < a.cols; ++row)
            std::copy_n(b.back().row(row).data(), n, all_b.begin() + i * stride_b + row * ld);
          for (std::int64_t row = 0; row < a.rows; ++row)
            std::copy_n(c.begin() + row * n, n, expected.begin() + i * stride_c + row * ld);
        }
        const DeviceArray<float> device_b(all_b);
        DeviceArray<float> device_c(std::vector<float>(expected.size(), -7));
        const auto run_batch = [&](std::int64_t count, std::int64_t apart) {
          return tessera_spmm_plan_run_batch(made.plan, count, device_b.data(), ld, stride_b,
                                             device_c.data(), ld, apart, 1, 0, nullptr);
        };
        CHECK(run_batch(kCount, n - 1) == TESSERA_INVALID);
        CHECK(std::string(tessera_last_error()).find("overlap") != std::string::npos);
        CHECK(run_batch(-1, stride_c) == TESSERA_INVALID);
        CHECK(run_batch(kCount, -stride_c) == TESSERA_INVALID);
        REQUIRE(run_batch(0, stride_c) == TESSERA_OK);
        CHECK(same_bits(device_c.download(), std::vector<float>(expected.size(), -7)));
        REQUIRE_MESSAGE(run_batch(kCount, stride_c) == TESSERA_OK, tessera_last_error());
        CHECK(same_bits(device_c.download(), expected));
      }
}

TEST_CASE("plans for B and C of 16 bits give the bits of the emulation") {
  if (no_gpu()) return;
  const CsrMatrix a = load_matrix("rmat(scale=9, edge_factor=7)").matrix;
  for (const auto& [type, element] :
       {std::pair{TESSERA_FP16, ElementType::kFp16}, std::pair{TESSERA_BF16, ElementType::kBf16}})
    for (const std::string kernel : {"rows_spmm", "tessera_spmm"})
      for (const std::int64_t n : {1, 64}) {
        CAPTURE(kernel);
        CAPTURE(n);
        const char* name = kernel.c_str();
        tessera_spmm_options options = with_kernel(&name);
        options.type = type;
        options.sets_values = 1;
        const OwnedPlan made(a, n, options);
        REQUIRE_MESSAGE(made.status == TESSERA_OK, tessera_last_error());
        const DenseMatrix b = stored_as(element, random_dense(a.cols, n, 4));
        const DeviceArray<std::uint16_t> device_b(to_16_bits(element, b.values));
        DeviceArray<std::uint16_t> c(
            std::vector<std::uint16_t>(static_cast<std::size_t>(a.rows * n), 0x1234));
        REQUIRE_MESSAGE(tessera_spmm_plan_run(made.plan, device_b.data(), n, c.data(), n, 1, 0,
                                              nullptr) == TESSERA_OK,
                        tessera_last_error());
        const std::string call = fmt::format("{}(storage={})", kernel, name_of(element));
        CHECK(c.download() == to_16_bits(element, emulated(a, call.c_str(), b)));
      }
  tessera_spmm_options strided;
  tessera_spmm_options_init(&strided);
  strided.type = TESSERA_FP16, strided.strided = 1;
  CHECK(OwnedPlan(a, 8, strided).status == TESSERA_INVALID);
}

TEST_CASE("plans for 16 bits time tall_spmm where its formula does not rule it out") {
  if (no_gpu()) return;
  struct Case {
    const char* matrix;
    std::int64_t n;
    bool is_timed;
  };
  // worth_timing_test.cpp asks the formula about the same, without a GPU.
  for (const auto& [name, n, is_timed] :
       {Case{"elasticity3d(nx=20)", 128, true},
        Case{"uniform(rows=50000, cols=50000, per_row=8)", 32, false}}) {
    CAPTURE(name);
    const CsrMatrix a = load_matrix(name).matrix;
    tessera_spmm_options options;
    tessera_spmm_options_init(&options);
    options.type = TESSERA_BF16;
    const OwnedPlan made(a, n, options);
    REQUIRE_MESSAGE(made.status == TESSERA_OK, tessera_last_error());
    char* text = nullptr;
    REQUIRE(tessera_spmm_plan_describe(made.plan, &text) == TESSERA_OK);
    const auto described = nlohmann::json::parse(text);
    tessera_free(text);
    bool found = false;
    for (const auto& timing : described["timings"]) {
      const std::string kernel = timing["kernel"];
      if (kernel.find("tall_spmm") != 0) continue;
      found = true;
      CAPTURE(timing.dump());
      CHECK(timing.contains("us") == is_timed);
      CHECK(timing.contains("problem") != is_timed);
    }
    CHECK(found);
  }
}

TEST_CASE("values set on the device give the product of the matrix that has them") {
  if (no_gpu()) return;
  const CsrMatrix a = load_matrix("rmat(scale=9, edge_factor=7)").matrix;
  CsrMatrix changed = a;
  changed.values = random_dense(1, a.nnz(), 17).values;
  const DeviceArray<float> values(changed.values);
  std::vector<std::int32_t> reversed(static_cast<std::size_t>(a.rows));
  for (std::size_t i = 0; i < reversed.size(); ++i)
    reversed[i] = a.rows - 1 - static_cast<std::int32_t>(i);
  const Permutation order(reversed);
  for (const char* kernel : {"rows_spmm", "tessera_spmm", "acc_spmm"})
    for (const std::int64_t n : {1, 64})
      for (const bool reorders : {false, true}) {
        CAPTURE(kernel);
        CAPTURE(n);
        CAPTURE(reorders);
        tessera_spmm_options options = with_kernel(&kernel);
        options.sets_values = 1;
        if (reorders) options.row_order = reversed.data();
        const OwnedPlan made(a, n, options);
        REQUIRE_MESSAGE(made.status == TESSERA_OK, tessera_last_error());
        const DenseMatrix b = random_dense(a.cols, n, 4);
        const auto product = [&](const CsrMatrix& of) {
          if (!reorders) return emulated(of, kernel, b);
          DenseMatrix c(a.rows, n);
          c.values = emulated(permute_rows(of, order), kernel, b);
          return permute_rows(c, order.inverse()).values;
        };
        CHECK(same_bits(run(made.plan, a, b, 0), product(a)));
        REQUIRE_MESSAGE(
            tessera_spmm_plan_set_values(made.plan, values.data(), nullptr) == TESSERA_OK,
            tessera_last_error());
        CHECK(same_bits(run(made.plan, a, b, 0), product(changed)));
      }
}

TEST_CASE("a plan refuses values and gaps that it was not made for and kernels without either") {
  if (no_gpu()) return;
  const CsrMatrix a = load_matrix("rmat(scale=6)").matrix;
  tessera_spmm_options options;
  tessera_spmm_options_init(&options);
  const OwnedPlan plain(a, 8, options);
  REQUIRE(plain.status == TESSERA_OK);
  DeviceArray<float> memory(static_cast<std::size_t>(a.nnz() + a.rows * 20));
  CHECK(tessera_spmm_plan_set_values(plain.plan, memory.data(), nullptr) == TESSERA_INVALID);
  CHECK(tessera_spmm_plan_run(plain.plan, memory.data(), 9, memory.data() + a.cols * 9, 9, 1, 0,
                              nullptr) == TESSERA_INVALID);
  CHECK(tessera_spmm_plan_run(plain.plan, memory.data(), 8, memory.data(), 8, 1, 0, nullptr) ==
        TESSERA_INVALID);
  CHECK(std::string(tessera_last_error()).find("overlap") != std::string::npos);

  char* text = nullptr;
  REQUIRE(tessera_spmm_plan_describe(plain.plan, &text) == TESSERA_OK);
  const auto described = nlohmann::json::parse(text);
  tessera_free(text);
  CHECK(described["timings"].size() == 3);
  CHECK(described["type"] == "fp32");

  const char* library = "cusparse";
  tessera_spmm_options closed = with_kernel(&library);
  closed.sets_values = 1;
  const OwnedPlan refused(a, 8, closed);
  CHECK(refused.status == TESSERA_UNSUPPORTED);
  CHECK(refused.plan == nullptr);
}

TEST_CASE("a plan of a matrix without nonzeros takes values and fills C with zeros") {
  if (no_gpu()) return;
  CsrMatrix none;
  none.rows = 3, none.cols = 2;
  none.row_offsets = std::vector<std::int64_t>{0, 0, 0, 0};
  tessera_spmm_options options;
  tessera_spmm_options_init(&options);
  options.sets_values = 1;
  const OwnedPlan made(none, 4, options);
  REQUIRE_MESSAGE(made.status == TESSERA_OK, tessera_last_error());
  CHECK(tessera_spmm_plan_set_values(made.plan, nullptr, nullptr) == TESSERA_OK);
  const DenseMatrix b = random_dense(2, 4, 1);
  CHECK(run(made.plan, none, b, 0) == std::vector<float>(12, 0));
}

}  // namespace tessera
