// Products under a mask and products in FP64 on the GPU: bits equal to the emulation, from poisoned
// memory of either source, also repeated and in limited memory.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/masked.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/spgemm_operands.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

ParamValue text(const char* of) { return std::string(of); }

struct Choice {
  const char* kernel;
  Params::Given given = {};

  Params params() const { return Registry<SpgemmKernel>::instance().resolve(kernel, given); }
  std::unique_ptr<SpgemmKernel> host() const {
    return Registry<SpgemmKernel>::instance().make(kernel, given);
  }
  std::unique_ptr<GpuSpgemm> device() const {
    return Registry<GpuSpgemm>::instance().make(kernel, params());
  }
};

void check_bits(const CsrMatrix& c, const CsrMatrix& expected) {
  const Json bits = compare_bits(c, expected);
  INFO(bits.dump());
  CHECK(bits["different"] == 0);
}

CsrMatrix times(float alpha, const CsrMatrix& c) {
  std::vector<float> values(c.values.begin(), c.values.end());
  for (float& value : values) value *= alpha;
  return {c.rows, c.cols, c.row_offsets, c.col_indices, std::move(values)};
}

/// Masks of a product: sparse, dense, all of its cells, empty, a band, and a row and a column.
std::vector<CsrMatrix> masks_of(const Operands& operands) {
  const std::int32_t rows = operands.a.rows, cols = operands.b.cols;
  const bool is_wide = cols > 20'000;
  std::vector<CsrMatrix> masks{
      random_sparse(rows, cols, is_wide ? 0.001 : 0.03, 201), random_sparse(rows, cols, 0.0, 202),
      multiply_rows(operands.a, operands.b),
      patterned(rows, cols, 203, [](int row, int col) { return row == 2 || col == 3; })};
  if (!is_wide) masks.push_back(random_sparse(rows, cols, 0.9, 204));
  return masks;
}

void check_masked(const Choice& choice, const Operands& operands, const CsrMatrix& mask) {
  CAPTURE(choice.kernel);
  CAPTURE(operands.a.rows);
  CAPTURE(operands.a.cols);
  CAPTURE(operands.b.cols);
  CAPTURE(mask.nnz());
  const CsrMatrix expected = choice.host()->emulate_masked(operands.a, operands.b, mask,
                                                           find_generation(gpu_generation()));
  const auto product = choice.device()->upload_masked(operands.a, operands.b, mask);
  for (const float alpha : {1.0f, -0.5f})
    for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool}) {
      ProductRun run(source, nullptr);
      run.poison();
      product->multiply(alpha, run);
      const CsrMatrix c = product->download();
      if (product->keeps_structure()) {
        product->multiply_again(2 * alpha, run);
        check_bits(product->download(), times(2 * alpha, expected));
      }
      product->release();
      check_bits(c, alpha == 1 ? expected : times(alpha, expected));
    }
}

const std::vector<Choice>& masked_choices() {
  static const std::vector<Choice> choices{
      {"row_spgemm"},   {"row_spgemm", {{"reuse", true}}},
      {"mixed_spgemm"}, {"mixed_spgemm", {{"masking", text("after")}}},
      {"merge_spgemm"}, {"csr_spgemm"},
      {"esc_spgemm"},   {"hash_spgemm"},
  };
  return choices;
}

void check_all_masked(const std::vector<Operands>& cases) {
  if (no_gpu()) return;
  for (const Operands& operands : cases)
    for (const CsrMatrix& mask : masks_of(operands))
      for (const Choice& choice : masked_choices())
        if (Registry<GpuSpgemm>::instance().contains(choice.kernel))
          check_masked(choice, operands, mask);
}

TEST_CASE("products under masks are right for awkward shapes") {
  check_all_masked(awkward_shapes());
}

TEST_CASE("products under masks are right where nothing meets") {
  check_all_masked(empty_products());
}

TEST_CASE("products under masks are right for dense, banded and blocked matrices") {
  check_all_masked(regular_patterns());
}

TEST_CASE("products under masks are right for rows of many lengths and hubs") {
  check_all_masked(many_lengths());
  check_all_masked(hubs());
}

TEST_CASE("row_spgemm is right under masks of millions of columns and of long rows") {
  if (no_gpu()) return;
  // Warps, thread blocks, windows of cells.
  std::vector<Operands> cases = long_rows();
  cases.push_back({random_rows(60, 400, 90, 205), random_rows(400, 5'000'000, 700, 206)});
  cases.push_back({random_sparse(3, 3000, 1.0, 207), random_rows(3000, 90'000, 2000, 208)});
  for (const Operands& operands : cases) {
    const CsrMatrix whole = multiply_rows(operands.a, operands.b);
    check_masked({"row_spgemm"}, operands, whole);
    check_masked({"row_spgemm"}, operands,
                 random_rows(operands.a.rows, operands.b.cols, 4000, 209));
  }
}

TEST_CASE("row_spgemm is right under masks for rows of each number of lanes") {
  if (no_gpu()) return;
  // Rows of 1 to `most` nonzeros: each launch leaves some to warps and to thread blocks.
  for (const int most : {5, 12, 25, 90}) {
    const CsrMatrix a = random_rows(2000, 2000, most, 220),
                    long_ones = random_rows(2000, 2000, 700, 221);
    check_masked({"row_spgemm"}, {a, a}, random_rows(2000, 2000, 4 * most, 222));
    check_masked({"row_spgemm"}, {a, a}, long_ones);
    check_masked({"row_spgemm"}, {long_ones, a}, a);
    check_masked({"row_spgemm"}, {a, long_ones}, a);
  }
}

TEST_CASE("row_spgemm is right under masks that the words of B meet, and that they miss") {
  if (no_gpu()) return;
  // Rows that the sample takes are far from A's where `hides`, so that all rows go by words.
  const auto at_distances = [](int first, int last, std::uint64_t seed, bool hides = false) {
    return patterned(6000, 6000, seed, [=](int row, int col) {
      const int distance = std::abs(row - col);
      if (hides && row % 94 == 47) return distance >= 2000 && distance <= 2040;
      return (distance >= first && distance <= last) || (first == 0 && distance / 6 == 90);
    });
  };
  const CsrMatrix a = at_distances(0, 9, 230);
  const auto goes_by_words = [&](const CsrMatrix& mask) {
    return row_spgemm::words_are_faster(row_spgemm::sample_masked(a, a, mask));
  };
  // Cells of a row: those of A, four per lane, those of a thread block.
  for (const bool hides : {false, true})
    for (const CsrMatrix& mask : {at_distances(0, 9, 230, hides), at_distances(0, 57, 231, hides),
                                  at_distances(0, 200, 234, hides)}) {
      CHECK(goes_by_words(mask) == hides);
      check_masked({"row_spgemm", {{"reuse", true}}}, {a, a}, mask);
    }
  // None that a product has, and some.
  for (const CsrMatrix& mask : {at_distances(2000, 2040, 232), random_rows(6000, 6000, 127, 233)})
    check_masked({"row_spgemm", {{"reuse", true}}}, {a, a}, mask);
}

TEST_CASE("a masked product is repeated for other values") {
  if (no_gpu()) return;
  const CsrMatrix a = random_rows(900, 900, 40, 210), mask = random_rows(900, 900, 60, 211);
  const Choice choice{"row_spgemm", {{"reuse", true}}};
  const auto product = choice.device()->upload_masked(a, a, mask);
  ProductRun run(MemorySource::kPool, nullptr);
  product->multiply(1, run);
  const CsrMatrix other = with_values(a, 212);
  product->set_values(other.values, {});
  product->multiply_again(1, run);
  check_bits(product->download(),
             choice.host()->emulate_masked(other, other, mask, find_generation(gpu_generation())));
  product->release();
  CHECK_THROWS_AS(product->multiply_again(1, run), Error);
}

TEST_CASE("masks of another shape, and masks of products without CSR, are refused") {
  const CsrMatrix a = random_sparse(20, 20, 0.2, 213), mask = random_sparse(20, 21, 0.2, 214);
  for (const char* kernel : {"row_spgemm", "merge_spgemm"})
    CHECK_THROWS_AS(Choice{kernel}.device()->upload_masked(a, a, mask), Error);
  if (no_gpu()) return;
  CHECK_THROWS_AS(Choice{"cusparse_spgemm"}.device()->upload_masked(a, a, a), Unsupported);
}

/// Repeats a product with other values from what it keeps.
void check_kept(const Choice& choice, const Operands& operands) {
  CAPTURE(choice.kernel);
  CAPTURE(operands.a.rows);
  CAPTURE(operands.b.cols);
  const auto product = choice.device()->upload(operands.a, operands.b);
  for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool}) {
    ProductRun run(source, nullptr);
    run.poison();
    product->set_values(operands.a.values, operands.b.values);
    product->multiply(1, run);
    check_bits(product->download(), multiply_rows(operands.a, operands.b));
    for (const std::uint64_t seed : {221, 223}) {
      const CsrMatrix a = with_values(operands.a, seed), b = with_values(operands.b, seed + 1);
      product->set_values(a.values, b.values);
      product->multiply_again(0.5, run);
      check_bits(product->download(), times(0.5, multiply_rows(a, b)));
    }
    product->release();
  }
}

TEST_CASE("products repeated from kept positions have the bits of the emulation") {
  if (no_gpu()) return;
  const Choice choice{"row_spgemm", {{"reuse", true}, {"keeps", text("positions")}}};
  for (const auto& cases : {awkward_shapes(), empty_products(), regular_patterns(), many_lengths(),
                            hubs(), long_rows()})
    for (const Operands& operands : cases) check_kept(choice, operands);
}

TEST_CASE("products repeated from kept portions have the bits of the emulation") {
  if (no_gpu()) return;
  const Choice choice{"row_spgemm", {{"reuse", true}, {"keeps", text("portions")}}};
  for (const auto& cases : {awkward_shapes(), empty_products(), regular_patterns(), many_lengths(),
                            hubs(), long_rows()})
    for (const Operands& operands : cases) check_kept(choice, operands);
  // Windows of many portions, windows of many rows, and lists longer than a portion.
  for (const Operands& operands :
       {Operands{random_sparse(5, 900, 0.5, 240), random_sparse(900, 5000, 0.06, 241)},
        Operands{random_rows(20'000, 300, 2, 242), random_rows(300, 9000, 3, 243)},
        Operands{random_sparse(3, 9000, 1.0, 244), random_rows(9000, 50, 2, 245)}})
    check_kept(choice, operands);
}

/// The matrix with values that FP32 does not have.
WideCsrMatrix with_wide_values(const CsrMatrix& pattern, std::uint64_t seed) {
  WideCsrMatrix wide = widened(pattern);
  RandomSequence random(seed);
  for (double& value : wide.values) value = 2 * random.unit() - 1;
  return wide;
}

void check_wide(const WideCsrMatrix& c, const WideCsrMatrix& expected) {
  REQUIRE(c.row_offsets == expected.row_offsets);
  REQUIRE(c.col_indices == expected.col_indices);
  std::int64_t different = 0;
  for (std::size_t k = 0; k < c.values.size(); ++k)
    different += std::bit_cast<std::uint64_t>(c.values[k]) !=
                 std::bit_cast<std::uint64_t>(expected.values[k]);
  CHECK(different == 0);
}

void check_wide(const Choice& choice, const Operands& operands) {
  CAPTURE(choice.kernel);
  CAPTURE(operands.a.rows);
  CAPTURE(operands.b.cols);
  const WideCsrMatrix a = with_wide_values(operands.a, 301), b = with_wide_values(operands.b, 302);
  const WideCsrMatrix expected = multiply_rows(a, b);
  const auto product = choice.device()->upload(operands.a, operands.b);
  product->set_wide_values(a.values, b.values);
  for (const MemorySource source : {MemorySource::kMalloc, MemorySource::kPool}) {
    ProductRun run(source, nullptr);
    run.poison();
    product->multiply(1, run);
    check_wide(product->download_wide(), expected);
    if (product->keeps_structure()) {
      const WideCsrMatrix other = with_wide_values(operands.a, 303);
      product->set_wide_values(other.values, b.values);
      product->multiply_again(1, run);
      check_wide(product->download_wide(), multiply_rows(other, b));
      product->set_wide_values(a.values, b.values);
    }
    product->release();
  }
}

TEST_CASE("row_spgemm in FP64 has the bits of its emulation") {
  if (no_gpu()) return;
  for (const auto& cases : {awkward_shapes(), empty_products(), regular_patterns(), many_lengths(),
                            hubs(), long_rows()})
    for (const Operands& operands : cases) {
      check_wide({"row_spgemm", {{"precision", text("fp64")}}}, operands);
      check_wide({"row_spgemm", {{"precision", text("fp64")}, {"reuse", true}}}, operands);
      check_wide({"row_spgemm",
                  {{"precision", text("fp64")}, {"workspace_limit", std::int64_t{256} << 20}}},
                 operands);
    }
}

/// The most memory of a product that is kept and then repeated.
std::int64_t peak_of_kept(const char* kept, const Operands& operands) {
  const auto product =
      Choice{"row_spgemm", {{"reuse", true}, {"keeps", text(kept)}}}.device()->upload(operands.a,
                                                                                      operands.b);
  ProductRun run(MemorySource::kPool, nullptr);
  product->multiply(1, run);
  product->multiply_again(1, run);
  product->release();
  return run.peak_bytes();
}

TEST_CASE("kept products are lists or portions, whichever are faster") {
  if (no_gpu()) return;
  const Choice choice{"row_spgemm", {{"reuse", true}, {"keeps", text("products")}}};
  // A few windows, and many whose lists are as long as each other.
  const Operands few{random_rows(60, 90, 12, 230), random_rows(90, 200, 30, 231)};
  const Operands even{random_sparse(1500, 64, 1.0, 250), random_sparse(64, 400, 1.0, 251)};
  for (const Operands& operands : {few, even}) check_kept(choice, operands);
  CHECK(peak_of_kept("products", even) == peak_of_kept("lists", even));
  CHECK(peak_of_kept("products", few) != peak_of_kept("lists", few));
}

TEST_CASE("kept positions, kept portions and FP64 are right for small products") {
  if (no_gpu()) return;
  for (const Operands& operands :
       {Operands{random_rows(60, 90, 12, 230), random_rows(90, 200, 30, 231)},
        Operands{random_sparse(3, 1200, 0.9, 232), random_rows(1200, 3000, 20, 233)},
        Operands{random_sparse(40, 50, 0.5, 234), random_sparse(50, 70, 0.4, 235)}}) {
    for (const char* kept : {"positions", "portions"})
      check_kept({"row_spgemm", {{"reuse", true}, {"keeps", text(kept)}}}, operands);
    check_wide({"row_spgemm", {{"precision", text("fp64")}}}, operands);
  }
}

TEST_CASE("cuSPARSE in FP64 keeps to the bound of FP64") {
  if (no_gpu()) return;
  const Operands operands = many_lengths().front();
  const std::string generation = gpu_generation();
  for (const char* algorithm : {"default", "reuse"}) {
    const Choice choice{"cusparse_spgemm",
                        {{"precision", text("fp64")}, {"algorithm", text(algorithm)}}};
    const auto host = choice.host();
    const auto product = choice.device()->upload(operands.a, operands.b);
    ProductRun run(MemorySource::kPool, nullptr);
    product->multiply(1, run);
    const SparseComputation computation{*host, operands.a, operands.b, generation};
    CHECK(check_result(computation, product->download()).reason == "");
    product->release();
  }
}

TEST_CASE("values in FP64 are refused by products in FP32") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(20, 20, 0.2, 310);
  const auto product = Choice{"row_spgemm"}.device()->upload(a, a);
  const std::vector<double> values(a.nnz(), 1.0);
  CHECK_THROWS_AS(product->set_wide_values(values, {}), Unsupported);
  CHECK_THROWS_AS(product->download_wide(), Unsupported);
  for (const char* kept : {"products", "lists", "positions", "portions"})
    CHECK_THROWS_AS(Choice({"row_spgemm",
                            {{"precision", text("fp64")}, {"reuse", true}, {"keeps", text(kept)}}})
                        .device()
                        ->upload(a, a),
                    Unsupported);
}

}  // namespace
}  // namespace tessera
