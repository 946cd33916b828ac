// A product on the GPU comes back to be checked, and only then.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <variant>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

/// A product by csr_spmm that takes little time.
struct Product {
  std::unique_ptr<SpmmKernel> kernel = Registry<SpmmKernel>::instance().make("csr_spmm");
  std::unique_ptr<PackedMatrix> packed =
      Registry<Format>::instance().make(kernel->format())->pack(random_sparse(300, 200, 0.05, 1));
  DenseMatrix b = random_dense(200, 40, 2);
  Permutation rows = Permutation::identity(300);
  Point point;

  Product() {
    point.backend = "gpu";
    point.task = DenseProduct{
        {}, b.cols, {}, {"csr_spmm", Registry<SpmmKernel>::instance().resolve("csr_spmm", {})}};
    point.measure.min_samples = point.measure.max_samples = 2;
  }
  Multiplication multiplication() const { return {point, *kernel, *packed, b, rows}; }
};

TEST_CASE("C is brought back from the GPU to be checked, and stays there otherwise") {
  if (no_gpu()) return;
  Product product;
  const auto run = [&](bool checked) {
    product.point.check.enabled = checked;
    BackendResult result = find_backend("gpu").backend->run(product.multiplication());
    result.finish();
    return result;
  };

  const BackendResult checked = run(true), unchecked = run(false);

  REQUIRE(checked.c);
  CHECK(checked.unwritten == 0);
  const DenseMatrix expected =
      product.kernel->emulate(*product.packed, product.b, find_generation(checked.generation));
  CHECK(compare_bits(*checked.c, expected).different == 0);
  CHECK_FALSE(unchecked.c);
  CHECK(unchecked.generation.empty());
  CHECK(unchecked.time_us > 0);
}

TEST_CASE("what was prepared for a product is not taken for a later one at the same address") {
  if (no_gpu()) return;
  Product product;
  const auto chosen = find_backend("gpu");
  const Multiplication multiplication = product.multiplication();

  chosen.backend->prepare(multiplication);
  CHECK(chosen.backend->run(multiplication).time_us > 0);
  std::get<DenseProduct>(product.point.task).kernel.name = "a kernel without a device half";
  CHECK_THROWS_AS(chosen.backend->run(multiplication), Unsupported);
}

}  // namespace
}  // namespace tessera
