// Every SpGEMM kernel's device half: values inside the bound of the oracle, the pattern of the
// oracle, bits equal to the emulation where there is one, from poisoned memory of either source;
// also where C's structure is kept for other values, and where memory is limited.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/spgemm_choices.hpp"
#include "tests/spgemm_operands.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

std::string text_of(const Params::Given& params) {
  std::string text;
  for (const auto& [name, value] : params) text += name + " = " + to_text(value) + " ";
  return text;
}

/// One product on poisoned memory; what it took has to come back, for the run outlives it.
CsrMatrix multiply(GpuSparseProduct& product, float alpha, MemorySource source) {
  ProductRun run(source, nullptr);
  run.poison();
  CsrMatrix c;
  try {
    product.multiply(alpha, run);
    c = product.download();
  } catch (...) {
    product.release();
    throw;
  }
  product.release();
  return c;
}

CsrMatrix times(float alpha, const CsrMatrix& c) {
  std::vector<float> values(c.values.begin(), c.values.end());
  for (float& value : values) value *= alpha;
  return {c.rows, c.cols, c.row_offsets, c.col_indices, std::move(values)};
}

/// A kernel's emulation, where it has one.
std::optional<CsrMatrix> emulated(const SpgemmKernel& kernel, const CsrMatrix& a,
                                  const CsrMatrix& b) {
  try {
    return kernel.emulate(a, b, find_generation(gpu_generation()));
  } catch (const Unsupported&) {
    return std::nullopt;
  }
}

/// Holds one C against the oracle and, scaled alike, against the emulation.
void check_product(const SpgemmKernel& kernel, const Operands& operands, const CsrMatrix& c,
                   const std::optional<CsrMatrix>& expected, float alpha) {
  // The powers of two that alpha is change no bit but of what is subnormal: the bound holds.
  const CsrMatrix unscaled = alpha == 1 ? c : times(1 / alpha, c);
  const std::string generation = gpu_generation();
  CHECK(check_result({kernel, operands.a, operands.b, generation}, unscaled).reason == "");
  if (!expected) return;
  const CsrMatrix scaled = alpha == 1 ? *expected : times(alpha, *expected);
  REQUIRE(c.rows == scaled.rows);
  const Json bits = compare_bits(c, scaled);
  INFO(bits.dump());
  CHECK(bits["different"] == 0);
}

void check(const SpgemmChoice& choice, const Operands& operands) {
  CAPTURE(choice.kernel);
  const std::string chosen = text_of(choice.params);
  CAPTURE(chosen);
  CAPTURE(operands.a.rows);
  CAPTURE(operands.a.cols);
  CAPTURE(operands.b.cols);
  const auto kernel = Registry<SpgemmKernel>::instance().make(choice.kernel, choice.params);
  try {
    const auto expected = emulated(*kernel, operands.a, operands.b);
    // The device half declares no parameters of its own: it takes the host half's.
    const Params params = Registry<SpgemmKernel>::instance().resolve(choice.kernel, choice.params);
    const auto product =
        Registry<GpuSpgemm>::instance().make(choice.kernel, params)->upload(operands.a, operands.b);
    // One object, several products, from either source of memory.
    for (const float alpha : {1.0f, 0.5f})
      for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool}) {
        CAPTURE(alpha);
        const bool from_pool = source == MemorySource::kPool;
        CAPTURE(from_pool);
        check_product(*kernel, operands, multiply(*product, alpha, source), expected, alpha);
      }
  } catch (const Unsupported& refused) {
    MESSAGE(choice.kernel << " " << chosen << "refuses: " << refused.what());
  }
}

void check_all(const std::vector<Operands>& cases) {
  if (no_gpu()) return;
  for (const Operands& operands : cases)
    for (const SpgemmChoice& choice : spgemm_choices())
      if (Registry<GpuSpgemm>::instance().contains(choice.kernel)) check(choice, operands);
}

/// Rows of A that are hubs to row_spgemm, among others, with one product for most columns of C and
/// as many as there are rows of B for one of them.
Operands sorted_hubs(std::int32_t rows) {
  constexpr std::int32_t kInner = 20'000;
  const CsrMatrix a = patterned(rows, kInner, 33, [](int row, int col) {
    if (row % 5 == 3) return row == 3 || col % 2 == row % 2;
    return (row * 31 + col * 17) % 4999 == 0;
  });
  const CsrMatrix b = patterned(kInner, 700, 34, [](int row, int col) {
    return row % 7 != 0 && (col == 4 || (row * 13 + col * 29) % 211 == 0);
  });
  return {a, b};
}

/// Repeats one product with other values, and with another alpha.
void repeat(GpuSparseProduct& product, const SpgemmKernel& kernel, const Operands& first,
            ProductRun& run) {
  product.multiply(1, run);
  const std::int64_t peak = run.peak_bytes();
  std::uint64_t seed = 61;
  for (const float alpha : {1.0f, 0.5f, 1.0f}) {
    CAPTURE(alpha);
    const Operands now{with_values(first.a, seed++), with_values(first.b, seed++)};
    product.set_values(now.a.values, now.b.values);
    product.multiply_again(alpha, run);
    check_product(kernel, now, product.download(), emulated(kernel, now.a, now.b), alpha);
  }
  CHECK(run.peak_bytes() == peak);
}

void check_again(const SpgemmChoice& choice, const Operands& operands, MemorySource source) {
  CAPTURE(choice.kernel);
  CAPTURE(operands.a.rows);
  CAPTURE(operands.b.cols);
  const auto kernel = Registry<SpgemmKernel>::instance().make(choice.kernel, choice.params);
  const Params params = Registry<SpgemmKernel>::instance().resolve(choice.kernel, choice.params);
  ProductRun run(source, nullptr);
  run.poison();
  std::unique_ptr<GpuSparseProduct> product;
  try {
    product =
        Registry<GpuSpgemm>::instance().make(choice.kernel, params)->upload(operands.a, operands.b);
    if (!product->keeps_structure()) return;
    repeat(*product, *kernel, operands, run);
    product->release();
    CHECK_THROWS_AS(product->multiply_again(1, run), Error);
  } catch (const Unsupported& refused) {
    MESSAGE(choice.kernel << " refuses: " << refused.what());
  }
}

/// The number that the refusal of too small a limit names.
std::int64_t least_limit(const Operands& operands, std::int64_t too_small) {
  try {
    const Params params =
        Registry<SpgemmKernel>::instance().resolve("row_spgemm", {{"workspace_limit", too_small}});
    const auto product =
        Registry<GpuSpgemm>::instance().make("row_spgemm", params)->upload(operands.a, operands.b);
    multiply(*product, 1, MemorySource::kPool);
  } catch (const Error& refused) {
    const std::string text = refused.what(), before = "workspace_limit of ";
    REQUIRE(text.find(before) != std::string::npos);
    return std::stoll(text.substr(text.find(before) + before.size()));
  }
  return 0;
}

/// The product has the bits of the emulation, and takes no more than the limit beside C.
void check_limit(const Operands& operands, const CsrMatrix& expected, std::int64_t limit,
                 MemorySource source) {
  CAPTURE(limit);
  const Params params =
      Registry<SpgemmKernel>::instance().resolve("row_spgemm", {{"workspace_limit", limit}});
  const auto product =
      Registry<GpuSpgemm>::instance().make("row_spgemm", params)->upload(operands.a, operands.b);
  ProductRun run(source, nullptr);
  run.poison();
  product->multiply(0.5, run);
  const CsrMatrix c = product->download();
  product->release();
  validate(c);
  const std::int64_t bytes_of_c = 8 * (std::int64_t{c.rows} + 1) + 8 * c.nnz();
  CHECK(run.peak_bytes() - bytes_of_c <= limit);
  const Json bits = compare_bits(c, times(0.5, expected));
  INFO(bits.dump());
  CHECK(bits["different"] == 0);
}

void check_limits(const Operands& operands) {
  CAPTURE(operands.a.rows);
  CAPTURE(operands.b.cols);
  const CsrMatrix expected = multiply_rows(operands.a, operands.b);
  const std::int64_t least = least_limit(operands, 1);
  CHECK(least > 0);
  CHECK(least_limit(operands, least - 1) == least);
  for (const std::int64_t limit : {least, least + 3000, least + least / 8, 2 * least, 100 * least})
    for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool})
      check_limit(operands, expected, limit, source);
}

TEST_CASE("every SpGEMM kernel with a device half has a host half of that name") {
  for (const std::string& name : Registry<GpuSpgemm>::instance().names())
    CHECK_MESSAGE(Registry<SpgemmKernel>::instance().contains(name), name);
  CHECK(!Registry<GpuSpgemm>::instance().names().empty());
}

TEST_CASE("the operands of these tests are matrices, and rows multiplied one by one are right") {
  const auto kernel = Registry<SpgemmKernel>::instance().make("csr_spgemm");
  for (const auto& cases : {awkward_shapes(), empty_products(), regular_patterns(), many_lengths(),
                            hubs(), long_rows()})
    for (const auto& [a, b] : cases) {
      validate(a);
      validate(b);
      CHECK(check_result({*kernel, a, b, "hopper"}, multiply_rows(a, b)).reason == "");
    }
  for (const auto& [a, b] : empty_products()) CHECK(multiply_rows(a, b).nnz() == 0);
  for (const auto& [a, b] : long_rows()) CHECK(multiply_rows(a, b).nnz() > 20'000 * a.rows);
}

TEST_CASE("every SpGEMM kernel is right for awkward shapes") { check_all(awkward_shapes()); }

// A subcase for each kernel, with one for each pair of operands: tests/sanitize_gpu runs them one
// by one.
TEST_CASE("each choice of an SpGEMM kernel is right for small factors and a hub") {
  const auto strewn = [](int row, int col) {
    return row == 7 || col == 4 || (row * 31 + col * 17) % 37 == 0;
  };
  const std::pair<const char*, Operands> cases[] = {
      {"small factors", {random_sparse(203, 157, 0.07, 1), random_sparse(157, 111, 0.07, 2)}},
      {"a hub", {patterned(300, 300, 3, strewn), patterned(300, 300, 4, strewn)}}};
  for (const std::string& name : Registry<GpuSpgemm>::instance().names()) {
    SUBCASE(name.c_str()) {
      for (const auto& [text, operands] : cases) {
        SUBCASE(text) {
          if (no_gpu()) return;
          for (const SpgemmChoice& choice : spgemm_choices())
            if (choice.kernel == name) check(choice, operands);
        }
      }
    }
  }
}

TEST_CASE("every SpGEMM kernel makes an empty C where nothing meets") {
  check_all(empty_products());
}

TEST_CASE("every SpGEMM kernel is right for dense, banded and blocked matrices") {
  check_all(regular_patterns());
}

TEST_CASE("every SpGEMM kernel is right for rows of many lengths") { check_all(many_lengths()); }

TEST_CASE("every SpGEMM kernel is right for hubs") { check_all(hubs()); }

TEST_CASE("row_spgemm sorts the products of hubs among other rows") {
  if (no_gpu()) return;
  for (const std::int32_t rows : {4, 40}) {
    const Operands operands = sorted_hubs(rows);
    std::int64_t hubs = 0;
    for (std::int32_t row = 0; row < rows; ++row)
      hubs += operands.a.row_length(row) > row_spgemm::kNonzerosOfHub ? 1 : 0;
    REQUIRE(hubs == (rows == 4 ? 1 : 8));
    for (const bool reuse : {false, true}) {
      const SpgemmChoice choice{"row_spgemm", {{"reuse", reuse}}};
      check(choice, operands);
      for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool})
        check_again(choice, operands, source);
    }
  }
}

TEST_CASE("row_spgemm cuts hubs into slices where all their products are too many to sort") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(5, 65'000, 1.0, 37), b = random_sparse(65'000, 700, 0.355, 38);
  std::int64_t products = 0;
  for (const std::int32_t k : a.col_indices) products += b.row_length(k);
  REQUIRE(products > row_spgemm::kMostHubProducts);
  REQUIRE(products < 5 * row_spgemm::kMostProductsOfHub);
  const CsrMatrix expected = multiply_rows(a, b);
  const Params params = Registry<SpgemmKernel>::instance().resolve("row_spgemm", {});
  const auto product = Registry<GpuSpgemm>::instance().make("row_spgemm", params)->upload(a, b);
  CHECK(multiply(*product, 1, MemorySource::kPool) == expected);
}

TEST_CASE("every SpGEMM kernel is right for rows of C with tens of thousands of nonzeros") {
  check_all(long_rows());
}

TEST_CASE("merge_spgemm merges rows once or twice, with the same bits") {
  if (no_gpu()) return;
  // Tiles of rows, of which some are empty, more products than are merged once, and more rows than
  // have tiles.
  const CsrMatrix b = random_rows(3000, 2500, 5, 98);
  for (const std::int32_t rows : {1, 255, 256, 257, 80'000, 300'000, 1'100'000}) {
    CAPTURE(rows);
    const CsrMatrix a = random_rows(rows, 3000, 4, 97);
    const CsrMatrix expected = Registry<SpgemmKernel>::instance()
                                   .make("merge_spgemm")
                                   ->emulate(a, b, find_generation("hopper"));
    const Params params = Registry<SpgemmKernel>::instance().resolve("merge_spgemm", {});
    const auto product = Registry<GpuSpgemm>::instance().make("merge_spgemm", params)->upload(a, b);
    for (const MemorySource source :
         {MemorySource::kMalloc, MemorySource::kPool, MemorySource::kPool}) {
      ProductRun run(source, nullptr);
      run.poison();
      product->multiply(0.5, run);
      CHECK(product->download() == times(0.5, expected));
      product->release();
    }
  }
}

TEST_CASE("merge_spgemm waits for C's nonzeros where products are too many to make room for each") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(4400, 8, 0.9, 81), b = random_sparse(8, 1100, 0.6, 82);
  std::int64_t products = 0;
  for (const std::int32_t k : a.col_indices) products += b.row_length(k);
  REQUIRE(products > 2 * (8 << 20));
  const CsrMatrix expected = Registry<SpgemmKernel>::instance()
                                 .make("merge_spgemm")
                                 ->emulate(a, b, find_generation("hopper"));
  const Params params = Registry<SpgemmKernel>::instance().resolve("merge_spgemm", {});
  const auto product = Registry<GpuSpgemm>::instance().make("merge_spgemm", params)->upload(a, b);
  for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool}) {
    ProductRun run(source, nullptr);
    run.poison();
    product->multiply(1, run);
    CHECK(product->download() == expected);
    product->release();
    CHECK(run.peak_bytes() < 8 * products);
  }
}

/// Each choice that keeps C's structure repeats its products.
void check_all_again(const std::vector<Operands>& cases) {
  for (const Operands& operands : cases)
    for (const SpgemmChoice& choice : spgemm_choices())
      if (Registry<GpuSpgemm>::instance().contains(choice.kernel))
        for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool})
          check_again(choice, operands, source);
}

TEST_CASE("a product whose structure is kept is repeated for other values") {
  if (no_gpu()) return;
  SUBCASE("awkward shapes") { check_all_again(awkward_shapes()); }
  SUBCASE("empty products") { check_all_again(empty_products()); }
  SUBCASE("regular patterns") { check_all_again(regular_patterns()); }
  SUBCASE("many lengths") { check_all_again(many_lengths()); }
  SUBCASE("hubs") { check_all_again(hubs()); }
  SUBCASE("long rows") { check_all_again(long_rows()); }
}

TEST_CASE("row_spgemm keeps products whose codes have any size, and lists of any length") {
  const auto dense = [](std::int32_t rows, std::int32_t cols, std::uint64_t seed) {
    return random_sparse(rows, cols, 1.0, seed);
  };
  struct Case {
    Operands operands;
    int bytes_of_a;
  };
  const std::vector<Case> cases{
      {{random_sparse(30, 6, 0.7, 81), dense(6, 70'000, 82)}, 0},  // long rows of B
      {{dense(5, 3000, 83), random_rows(3000, 3, 2, 84)}, 0},      // long lists alone
      {{random_sparse(40, 900, 0.4, 85), random_sparse(900, 90, 0.5, 86)}, 0},
      {{dense(3, 2500, 87), random_rows(2500, 300'000, 1500, 88)}, 2},
      {{dense(2, 70'000, 89), random_rows(70'000, 6, 2, 90)}, 4},
      {{random_rows(300, 70'000, 300, 91), random_rows(70'000, 500, 40, 92)}, 0},
  };
  const SpgemmChoice choice{"row_spgemm", {{"reuse", true}, {"keeps", std::string("lists")}}};
  for (const auto& [operands, bytes] : cases) {
    const auto& [a, b] = operands;
    std::int64_t longest = 0;  // a window's rows have as many nonzeros of A, or more
    for (std::int32_t row = 0; row < a.rows; ++row)
      longest = std::max(longest, a.row_offsets[row + 1] - a.row_offsets[row]);
    CHECK(row_spgemm::bytes_of_a(longest, b.nnz()) == bytes);
    if (no_gpu()) continue;
    check(choice, operands);
    for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool})
      check_again(choice, operands, source);
  }
}

TEST_CASE("A times A is repeated for the values of A alone") {
  if (no_gpu()) return;
  const CsrMatrix a = random_rows(700, 700, 30, 71), other = with_values(a, 72);
  for (const char* kept : {"structure", "products", "lists", "portions"}) {
    CAPTURE(kept);
    const Params params = Registry<SpgemmKernel>::instance().resolve(
        "row_spgemm", {{"reuse", true}, {"keeps", std::string(kept)}});
    const auto product = Registry<GpuSpgemm>::instance().make("row_spgemm", params)->upload(a, a);
    ProductRun run(MemorySource::kPool, nullptr);
    product->multiply(1, run);
    CHECK_THROWS_AS(product->set_values(other.values, other.values), Error);
    product->set_values(other.values, {});
    product->multiply_again(1, run);
    CHECK(product->download() == multiply_rows(other, other));
    product->release();
  }
}

TEST_CASE("row_spgemm keeps to a limit of memory beside C") {
  if (no_gpu()) return;
  for (const auto& cases :
       {awkward_shapes(), regular_patterns(), many_lengths(), hubs(), long_rows()})
    for (const Operands& operands : cases) check_limits(operands);
  const CsrMatrix none = random_sparse(0, 50, 0.0, 8), some = random_sparse(50, 30, 0.1, 4);
  check_limit({none, some}, multiply_rows(none, some), 1, MemorySource::kMalloc);
}

TEST_CASE("a product whose C does not fit the device fails with C's size, and the next one works") {
  if (no_gpu()) return;
  // C is dense: of 1.28 TB, which no device has, and of 8 MB.
  for (const std::int32_t side : {400'000, 1000}) {
    CAPTURE(side);
    const CsrMatrix a = random_sparse(side, 1, 1.0, 95), b = random_sparse(1, side, 1.0, 96);
    for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{256} << 20})
      for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool}) {
        const Params params = Registry<SpgemmKernel>::instance().resolve(
            "mixed_spgemm", {{"workspace_limit", limit}, {"path", std::string("rows")}});
        const auto product =
            Registry<GpuSpgemm>::instance().make("mixed_spgemm", params)->upload(a, b);
        if (side == 1000)
          CHECK(multiply(*product, 1, source) == multiply_rows(a, b));
        else
          CHECK_THROWS_WITH_AS(multiply(*product, 1, source),
                               doctest::Contains("C has 160000000000 nonzeros and takes 128000"),
                               OutOfMemory);
      }
  }
}

TEST_CASE("row_spgemm does not keep structure in limited memory") {
  const CsrMatrix a = random_sparse(50, 50, 0.1, 4);
  const Params params = Registry<SpgemmKernel>::instance().resolve(
      "row_spgemm", {{"reuse", true}, {"workspace_limit", std::int64_t{1} << 20}});
  CHECK_THROWS_AS(Registry<GpuSpgemm>::instance().make("row_spgemm", params)->upload(a, a),
                  Unsupported);
}

TEST_CASE("backend gpu times repeated products where structure is kept") {
  if (no_gpu()) return;
  const CsrMatrix a = random_rows(2000, 2000, 20, 51);
  Point point;
  point.backend = "gpu";
  point.task = SparseProduct{
      {},
      kSelf,
      {"row_spgemm", Registry<SpgemmKernel>::instance().resolve("row_spgemm", {{"reuse", true}})}};
  point.measure.max_seconds = 0.05;
  const auto kernel = Registry<SpgemmKernel>::instance().make("row_spgemm");

  const SparseProductResult result = find_backend("gpu").backend->multiply({point, *kernel, a, a});

  REQUIRE(result.c);
  CHECK(*result.c == multiply_rows(a, a));
  CHECK(result.findings.time_again->summary.median > 0);
}

TEST_CASE("backend gpu times a sparse product from both sources of memory") {
  if (no_gpu()) return;
  const CsrMatrix a = random_rows(2000, 2000, 20, 51);
  Point point;
  point.backend = "gpu";
  point.task = SparseProduct{{}, kSelf, {"csr_spgemm", {}}};
  point.measure.max_seconds = 0.05;
  const auto kernel = Registry<SpgemmKernel>::instance().make("csr_spgemm");

  const SparseProductResult result = find_backend("gpu").backend->multiply({point, *kernel, a, a});

  REQUIRE(result.c);
  CHECK(check_result({*kernel, a, a, result.generation}, *result.c).reason == "");
  CHECK(result.time_us > 0);
  CHECK(result.pool_us > 0);
  CHECK(result.pack_s > 0);
  CHECK(*result.findings.peak_bytes >= 8 * result.c->nnz());
  CHECK(result.findings.stages->front().name == "count");
  CHECK(result.findings.stages->front().us > 0);
  CHECK(!result.findings.time_again);
}

}  // namespace
}  // namespace tessera
